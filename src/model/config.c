/* config: see config.h. Every number is checked against a range, because files are untrusted. Defaults that differ
 * between architectures are in the table of arch.c. Does not know the tensors: model.c compares their shapes with the
 * config. */
#include "model/config.h"
#include "model/errors.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    gw_config *c;
    const gw_store *s;
    gw_error *e;
} job;

/* Finds a key that the file prefixes with the architecture's name, for example "gemma3.block_count". */
static const gw_entry *find(const job *j, const char *key) {
    char whole[96];
    snprintf(whole, sizeof whole, "%s.%s", j->c->arch->name, key);
    return gw_store_find(j->s, whole);
}

static int bad_value(const job *j, const char *key, const char *expected, double got) {
    const char *arch = j->c->arch->name;
    if (isnan(got)) return gw_fail(j->e, MSG_KEY_NOT_NUMBER, arch, key, expected);
    return gw_fail(j->e, MSG_KEY_VALUE, arch, key, expected, got);
}

/* Reads a whole number from the metadata. otherwise: the default for a missing key; 0: the key is required. */
static int read_size(const job *j, const char *key, uint32_t otherwise, double least, double most, uint32_t *out) {
    char expected[64];
    const gw_entry *e = find(j, key);
    if (!e && !otherwise) return gw_fail(j->e, MSG_KEY_MISSING, j->c->arch->name, key);
    double v = !e ? otherwise : gw_is_number(e) ? e->value.number : NAN;
    snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", least, most);
    if (!(v >= least && v <= most) || v != floor(v)) return bad_value(j, key, expected, v);
    *out = (uint32_t)v;
    return 0;
}

/* Reads a field of gw_layer_shape for every layer: from one number for all layers, or from an array with a number for
 * each layer. */
static int read_each(const job *j, const char *key, uint32_t otherwise, double most, size_t field) {
    gw_config *c = j->c;
    uint32_t size = 0;
    const gw_entry *e = find(j, key);
    bool array = e && e->value.type == GW_GGUF_ARRAY;
    const double *listed = array ? gw_store_numbers(j->s, e) : NULL;
    int bad = array ? 0 : read_size(j, key, otherwise, 1, most, &size);
    if (bad) return bad;
    if (array && (!listed || e->count != c->n_layer))
        return gw_fail(j->e, MSG_KEY_PER_LAYER, c->arch->name, key, c->n_layer, (unsigned long long)e->count);
    for (uint32_t l = 0; l < c->n_layer; l++) {
        double v = listed ? listed[l] : size;
        if (!(v >= 1 && v <= most) || v != floor(v)) return bad_value(j, key, "whole numbers from 1", v);
        *(uint32_t *)((char *)&c->layer[l] + field) = (uint32_t)v;
    }
    return 0;
}
#define EACH(field) offsetof(gw_layer_shape, field)

static int read_optional(const job *j, const char *key, double most, uint32_t *out) {
    *out = 0;
    return find(j, key) ? read_size(j, key, 1, 0, most, out) : 0;
}

static int read_sizes(const job *j) {
    gw_config *c = j->c;
    uint32_t experts;
    int bad;
    if ((bad = read_size(j, "context_length", 0, 1, GW_MAX_CONTEXT, &c->n_ctx_train))) return bad;
    if ((bad = read_size(j, "embedding_length", 0, 8, 65536, &c->n_embd))) return bad;
    if ((bad = read_size(j, "block_count", 0, 1, GW_MAX_LAYERS, &c->n_layer))) return bad;
    if ((bad = read_each(j, "feed_forward_length", 0, 1 << 20, EACH(n_ff)))) return bad;
    if ((bad = read_optional(j, "embedding_length_per_layer_input", 65536, &c->n_ple))) return bad;
    if ((bad = read_optional(j, "expert_count", 65536, &experts))) return bad;
    if (experts) return gw_fail(j->e, MSG_EXPERTS, c->arch->name, experts);
    if ((bad = read_size(j, "attention.head_count", 0, 1, 1024, &c->n_head))) return bad;
    if (c->arch->policy->drafts) {
        const char *key = "embedding_length_out";
        if ((bad = read_size(j, key, 0, 8, 65536, &c->n_target))) return bad;
        if (c->n_target % 8) return bad_value(j, key, "a multiple of 8", c->n_target);
    }
    return read_each(j, "attention.head_count_kv", c->n_head, 1024, EACH(n_head_kv));
}

/* Checks an optional metadata key: if the file has the key, it must have this value. */
static int check_same(const job *j, const char *key, uint32_t value, const char *why) {
    char expected[64];
    const gw_entry *e = find(j, key);
    if (!e || (gw_is_number(e) && e->value.number == value)) return 0;
    snprintf(expected, sizeof expected, "%u%s", value, why);
    return bad_value(j, key, expected, gw_is_number(e) ? e->value.number : NAN);
}

static int read_rotated(const job *j) {
    gw_rope *rope = &j->c->rope[GW_ROPE_GLOBAL];
    const char *key = "rope.dimension_count";
    int bad = read_size(j, key, rope->head_dim, 2, rope->head_dim, &rope->rotated);
    return bad || rope->rotated % 2 == 0 ? bad : bad_value(j, key, "even", rope->rotated);
}

static int read_heads(const job *j) {
    gw_config *c = j->c;
    char expected[64];
    uint32_t otherwise = c->n_embd / c->n_head;
    gw_rope *global = &c->rope[GW_ROPE_GLOBAL], *local = &c->rope[GW_ROPE_LOCAL];
    int bad = read_size(j, "attention.key_length", otherwise, 8, GW_MAX_HEAD_DIM, &global->head_dim);
    if (bad) return bad;
    bad = read_size(j, "attention.key_length_swa", global->head_dim, 8, GW_MAX_HEAD_DIM, &local->head_dim);
    if (bad) return bad;
    if (global->head_dim % 8) return bad_value(j, "attention.key_length", "a multiple of 8", global->head_dim);
    if (local->head_dim % 8) return bad_value(j, "attention.key_length_swa", "a multiple of 8", local->head_dim);
    for (uint32_t l = 0; l < c->n_layer; l++) {
        if (c->n_head % c->layer[l].n_head_kv == 0) continue;
        snprintf(expected, sizeof expected, "a multiple of head_count_kv = %u", c->layer[l].n_head_kv);
        return bad_value(j, "attention.head_count", expected, c->n_head);
    }
    if ((bad = check_same(j, "attention.value_length", global->head_dim, ", like key_length"))) return bad;
    if ((bad = check_same(j, "attention.value_length_swa", local->head_dim, ", like key_length_swa"))) return bad;
    bool causal = !c->arch->policy->bidirectional;
    if ((bad = check_same(j, "attention.causal", causal,
                          causal ? ", for causal attention" : ", for bidirectional attention")))
        return bad;
    local->rotated = local->head_dim;
    global->rotated = global->head_dim;
    if ((bad = check_same(j, "rope.dimension_count_swa", local->head_dim, ", the size of a head"))) return bad;
    if (c->arch->rotates_part) return read_rotated(j);
    return check_same(j, "rope.dimension_count", global->head_dim, ", the size of a head");
}

static int read_real(const job *j, const char *key, double otherwise, double least, const char *expected, double *out) {
    const gw_entry *e = find(j, key);
    *out = !e ? otherwise : gw_is_number(e) ? e->value.number : NAN;
    return *out >= least && isfinite(*out) ? 0 : bad_value(j, key, expected, *out);
}

static int read_positive(const job *j, const char *key, double otherwise, double *out) {
    return read_real(j, key, otherwise, 1e-300, "a positive number", out);
}

static int read_scaling(const job *j) {
    double factor;
    const gw_entry *e = find(j, "rope.scaling.type");
    const char *kind = e && e->value.type == GW_GGUF_STRING ? gw_store_pooled(j->s, e->text) : NULL;
    if (e && (!kind || (strcmp(kind, "linear") && strcmp(kind, "none"))))
        return gw_fail(j->e, MSG_ROPE_SCALING, j->c->arch->name, kind ? kind : "a value that is not a string");
    int bad = read_positive(j, "rope.scaling.factor", 1, &factor);
    j->c->rope[GW_ROPE_GLOBAL].scale = kind && !strcmp(kind, "none") ? 1 : 1 / factor;
    return bad;
}

/* Reads the metadata of two sets of RoPE factors, for short and long contexts (Ding et al. 2024, arXiv 2402.13753). */
static int read_long_rope(const job *j) {
    gw_config *c = j->c;
    int bad = read_positive(j, "rope.scaling.attn_factor", 1, &c->rope[GW_ROPE_GLOBAL].gain);
    if (bad) return bad;
    return read_size(j, "rope.scaling.original_context_length", c->n_ctx_train, 1, GW_MAX_CONTEXT, &c->n_ctx_short);
}

static int read_caps(const job *j) {
    gw_config *c = j->c;
    double attention, logits;
    const char *expected = "0 or more";
    int bad = read_real(j, "attn_logit_softcapping", c->arch->attn_cap, 0, expected, &attention);
    if (!bad) bad = read_real(j, "final_logit_softcapping", c->arch->logit_cap, 0, expected, &logits);
    if (bad) return bad;
    c->attn_cap = (float)attention;
    c->logit_cap = (float)logits;
    return 0;
}

static int read_factors(const job *j) {
    gw_config *c = j->c;
    double embedding, residual, attention, logits;
    int bad = read_positive(j, "embedding_scale", c->embedding_scale, &embedding);
    if (!bad) bad = read_positive(j, "residual_scale", 1, &residual);
    if (!bad) bad = read_positive(j, "attention.scale", c->query_scale, &attention);
    if (!bad) bad = read_positive(j, "logit_scale", 1, &logits);
    if (bad) return bad;
    c->embedding_scale = (float)embedding;
    c->residual_scale = (float)residual;
    c->query_scale = (float)attention;
    c->output_scale = (float)(1 / logits);
    return 0;
}

static int read_reals(const job *j) {
    gw_config *c = j->c;
    const gw_arch *a = c->arch;
    bool layer = a->norm == GW_NORM_LAYER;
    double eps;
    int bad = read_positive(j, layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                            layer ? 1e-5 : 1e-6, &eps);
    gw_rope *rope = c->rope;
    for (int r = 0; r < GW_ROPES; r++) rope[r].scale = rope[r].gain = 1;
    if (!bad && a->rope_base > 0) bad = read_positive(j, "rope.freq_base", a->rope_base, &rope[GW_ROPE_GLOBAL].base);
    if (!bad && a->pattern) bad = read_positive(j, "rope.freq_base_swa", a->rope_base_local, &rope[GW_ROPE_LOCAL].base);
    if (bad || (bad = read_scaling(j)) || (bad = read_caps(j))) return bad;
    if (a->rotates_part && (bad = read_long_rope(j))) return bad;
    c->eps = (float)eps;
    c->embedding_scale = a->scales_embedding ? sqrtf((float)c->n_embd) : 1;
    bool is_27b = c->n_layer == a->layers_27b;
    c->query_scale = 1.0f / sqrtf(is_27b ? (float)c->n_embd / c->n_head : (float)rope[GW_ROPE_GLOBAL].head_dim);
    if (a->unit_scale) c->query_scale = 1;
    c->residual_scale = c->output_scale = 1;
    return a->multiplies ? read_factors(j) : 0;
}

/* Reads the pooling type. Generative models may also be trained for embedding, with any pooling type except a
 * reranker's. */
static int read_pooling(const job *j) {
    gw_config *c = j->c;
    uint32_t kind;
    if (c->arch->policy->bidirectional) {
        c->pooling = GW_POOLING_MEAN;
        return check_same(j, "pooling_type", GW_POOLING_MEAN, ", the mean");
    }
    int bad = read_optional(j, "pooling_type", 255, &kind);
    if (!bad && (kind == GW_POOLING_MEAN || kind == GW_POOLING_LAST)) c->pooling = (int)kind;
    return bad;
}

static int read_dense(const job *j) {
    gw_config *c = j->c;
    const char *key = "dense_2_feat_out";
    int bad = read_pooling(j);
    if (bad || !c->arch->policy->bidirectional || !find(j, key)) return bad;
    if ((bad = read_size(j, key, 0, 8, 1 << 20, &c->n_dense))) return bad;
    if ((bad = check_same(j, "dense_2_feat_in", c->n_embd, ", like embedding_length"))) return bad;
    if ((bad = check_same(j, "dense_3_feat_in", c->n_dense, ", like dense_2_feat_out"))) return bad;
    return check_same(j, "dense_3_feat_out", c->n_embd, ", like embedding_length");
}

/* Reads which layers have a window: sets c->pattern, or sets *listed to an array with an entry for each layer. */
static int read_pattern(const job *j, const double **listed) {
    gw_config *c = j->c;
    const char *key = "attention.sliding_window_pattern";
    const gw_entry *e = find(j, key);
    bool whole = e && e->of != GW_GGUF_F32 && e->of != GW_GGUF_F64;
    if (e && e->value.type != GW_GGUF_ARRAY) return read_size(j, key, 0, 1, GW_MAX_LAYERS, &c->pattern);
    *listed = gw_store_numbers(j->s, e);
    if (e && (!*listed || !whole || e->count != c->n_layer))
        return gw_fail(j->e, MSG_WINDOW_PATTERN, c->arch->name, key, c->n_layer, (unsigned long long)e->count, e->of);
    return 0;
}

/* Sets kv_owner of each layer. Layers without keys and values use those of the last layer of the same kind (windowed or
 * global) that has them (transformers' kv_sharing_modes). */
static int read_owners(const job *j) {
    gw_config *c = j->c;
    uint32_t shared;
    const char *key = "attention.shared_kv_layers";
    for (uint32_t l = 0; l < c->n_layer && c->n_target; l++)
        c->layer[l].kv_owner = c->n_layer + (uint32_t)c->layer[l].rope;
    if (c->n_target) return 0;
    /* With one KV cache for all layers, a layer cannot use the keys and values of an earlier one. */
    int bad = read_optional(j, key, c->arch->policy->by_layer ? 0 : c->n_layer - 1, &shared);
    c->n_owners = c->n_layer - shared;
    for (uint32_t l = 0; l < c->n_layer && !bad; l++) {
        uint32_t owner = gw_min(l, c->n_owners - 1);
        while (c->layer[owner].rope != c->layer[l].rope && owner) owner--;
        const gw_layer_shape *a = &c->layer[owner], *b = &c->layer[l];
        if (a->rope != b->rope || a->n_head_kv != b->n_head_kv)
            return bad_value(j, key, "small enough that an earlier layer has keys and values to share", shared);
        c->layer[l].kv_owner = owner;
    }
    return bad;
}

static int read_layers(const job *j) {
    gw_config *c = j->c;
    const char *key = "attention.sliding_window";
    const double *listed = NULL;
    uint32_t own = c->n_target > 0; /* 1 for an assistant, which computes no key for the query's own position */
    c->pattern = c->arch->pattern;
    if (c->pattern && (c->arch->window || find(j, key))) {
        int bad = read_size(j, key, c->arch->window, 1 + own, GW_MAX_CONTEXT, &c->window);
        if (bad || (bad = read_pattern(j, &listed))) return bad;
    }
    if (c->arch->same_window) {
        int bad = read_optional(j, key, GW_MAX_CONTEXT, &c->window);
        if (bad) return bad;
        if (c->window >= c->n_ctx_train) c->window = 0;
    }
    for (uint32_t l = 0; l < c->n_layer; l++) {
        bool local = c->window && c->pattern && (listed ? listed[l] != 0 : l % c->pattern != c->pattern - 1);
        gw_layer_shape *layer = &c->layer[l];
        layer->window = local || c->arch->same_window ? c->window - own : 0;
        bool unrotated = c->arch->unrotated && l % c->arch->unrotated == c->arch->unrotated - 1;
        layer->rope = local || unrotated ? GW_ROPE_LOCAL : GW_ROPE_GLOBAL;
        layer->head_dim = c->rope[layer->rope].head_dim;
        bool alike = layer->head_dim == c->layer->head_dim && layer->n_head_kv == c->layer->n_head_kv;
        if (c->arch->policy->by_layer && !alike) /* by_layer: one KV cache serves all layers */
            return gw_fail(j->e, MSG_KV_HEADS, l, c->arch->name);
    }
    return read_owners(j);
}

int gw_config_read(gw_config *c, const gw_store *s, gw_error *e) {
    const char *name = gw_store_text(s, "general.architecture");
    if (!name) return gw_fail(e, MSG_NO_ARCHITECTURE, gw_arch_list);
    *c = (gw_config){ .arch = gw_arch_of(name) };
    if (!c->arch) return gw_fail(e, MSG_ARCHITECTURE, gw_arch_list, name);
    job j = { c, s, e };
    int bad = read_sizes(&j);
    if (!bad) bad = read_heads(&j);
    if (!bad) bad = read_reals(&j);
    if (!bad) bad = read_dense(&j);
    return bad ? bad : read_layers(&j);
}
