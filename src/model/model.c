/* model: see model.h. Metadata and tensors as the parser hands them over, then the binding. */
#include "model/model.h"
#include "kernels/pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- keeping what the parser saw --- */

static int no_memory(gw_file *f) { return gw_fail(&f->error, GW_E_NO_MEMORY, "memory for the file's metadata"); }

static int pool_text(gw_file *f, const char *text, size_t len, size_t *at) {
    *at = f->pool.used;
    char *to = gw_buffer_add(&f->pool, len + 1);
    if (!to) return no_memory(f);
    memcpy(to, text, len);
    to[len] = 0;
    return 0;
}

static int keep_entry(gw_file *f, const char *key, gw_entry e) {
    int bad = pool_text(f, key, strlen(key), &e.key);
    if (bad) return bad;
    if (e.value.type == GW_GGUF_STRING && (bad = pool_text(f, e.value.text, e.value.len, &e.text))) return bad;
    e.value.text = NULL;
    gw_entry *to = gw_buffer_add(&f->entries, sizeof e);
    if (!to) return no_memory(f);
    *to = e;
    return 0;
}

int gw_file_keep_value(gw_file *f, const char *key, const gw_gguf_value *v) {
    return keep_entry(f, key, (gw_entry){ .value = *v });
}

int gw_file_keep_array(gw_file *f, const char *key, int of, uint64_t count) {
    return keep_entry(f, key, (gw_entry){ .value = { .type = GW_GGUF_ARRAY }, .of = of, .count = count });
}

int gw_file_keep_tensor(gw_file *f, const gw_gguf_tensor *t, uint32_t part) {
    const gw_type *type = gw_type_of(t->type);
    if (!type)
        return gw_fail(&f->error, GW_E_UNSUPPORTED_TYPE, "tensor %s: type\na GGML type\nnumber %u", t->name, t->type);
    uint64_t rows = t->shape[1] * t->shape[2] * t->shape[3];   /* products are bounded by the parser */
    if (t->shape[0] % type->items)
        return gw_fail(&f->error, GW_E_BAD_SHAPE, "tensor %s: row length\na multiple of %u (%s)\n%llu", t->name,
                       type->items, type->name, (unsigned long long)t->shape[0]);
    if (rows && t->shape[0] / type->items > (UINT64_MAX >> 1) / type->bytes / rows)
        return gw_fail(&f->error, GW_E_BAD_COUNT, "tensor %s: size\nbelow 2^63 bytes\nmore", t->name);
    gw_tensor *to = gw_buffer_add(&f->tensors, sizeof *to);
    if (!to) return no_memory(f);
    *to = (gw_tensor){ .info = *t, .type = type, .bytes = t->shape[0] / type->items * type->bytes * rows,
                       .part = part };
    return 0;
}

uint32_t gw_file_entries(const gw_file *f) { return (uint32_t)(f->entries.used / sizeof(gw_entry)); }
uint32_t gw_file_tensors(const gw_file *f) { return (uint32_t)(f->tensors.used / sizeof(gw_tensor)); }
const gw_entry *gw_file_entry(const gw_file *f, uint32_t i) { return (gw_entry *)f->entries.data + i; }
gw_tensor *gw_file_tensor(const gw_file *f, uint32_t i) { return (gw_tensor *)f->tensors.data + i; }
const char *gw_file_pooled(const gw_file *f, size_t at) { return (const char *)f->pool.data + at; }

const gw_entry *gw_file_find(const gw_file *f, const char *key) {
    for (uint32_t i = 0; i < gw_file_entries(f); i++)
        if (!strcmp(gw_file_pooled(f, gw_file_entry(f, i)->key), key)) return gw_file_entry(f, i);
    return NULL;
}

const char *gw_file_text(const gw_file *f, const char *key) {
    const gw_entry *e = gw_file_find(f, key);
    return e && e->value.type == GW_GGUF_STRING ? gw_file_pooled(f, e->text) : NULL;
}

/* --- config --- */

static bool is_number(const gw_entry *e) {
    return e && e->value.type != GW_GGUF_STRING && e->value.type != GW_GGUF_ARRAY;
}

static double number(const gw_file *f, const char *key, double otherwise) {
    const gw_entry *e = gw_file_find(f, key);
    return is_number(e) ? e->value.number : otherwise;
}

/* The whole-number settings of the architecture: X(key behind "gemma3.", field, least, most, required) */
#define SIZES(X)                                                        \
    X("context_length", n_ctx_train, 1, GW_MAX_CONTEXT, true)           \
    X("embedding_length", n_embd, 8, 65536, true)                       \
    X("block_count", n_layer, 1, GW_MAX_LAYERS, true)                   \
    X("feed_forward_length", n_ff, 8, 1 << 20, true)                    \
    X("attention.head_count", n_head, 1, 1024, true)                    \
    X("attention.head_count_kv", n_head_kv, 1, 1024, true)              \
    X("attention.key_length", head_dim, 8, GW_MAX_HEAD_DIM, true)                   \
    X("attention.sliding_window", window, 1, GW_MAX_CONTEXT, true)      \
    X("attention.sliding_window_pattern", pattern, 1, GW_MAX_LAYERS, false)

static int read_size(gw_file *f, const char *key, uint32_t *field, double least, double most, bool required) {
    char whole[96];
    snprintf(whole, sizeof whole, "gemma3.%s", key);
    const gw_entry *e = gw_file_find(f, whole);
    if (!e && !required) return 0;
    if (!e) return gw_fail(&f->error, GW_E_MISSING_KEY, "metadata key %s\na number\nno such key", whole);
    if (e->value.type == GW_GGUF_ARRAY && !required) return 0;   /* handled by the caller */
    double v = is_number(e) ? e->value.number : NAN;
    if (!(v >= least && v <= most) || v != floor(v))
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key %s\na whole number from %.0f to %.0f\n%g",
                       whole, least, most, v);
    *field = (uint32_t)v;
    return 0;
}

static int read_sizes(gw_file *f) {
    int bad = 0;
#define GW_X(key, field, least, most, required) \
    if (!bad) bad = read_size(f, key, &f->config.field, least, most, required);
    SIZES(GW_X)
#undef GW_X
    return bad;
}

/* A float setting that must be positive and finite. */
static int read_positive(gw_file *f, const char *key, double otherwise, double *out) {
    *out = number(f, key, otherwise);
    if (*out > 0 && isfinite(*out)) return 0;
    return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key %s\na positive number\n%g", key, *out);
}

static int read_reals(gw_file *f) {
    gw_config *c = &f->config;
    double eps, scaling;
    int bad;
    if ((bad = read_positive(f, "gemma3.attention.layer_norm_rms_epsilon", 1e-6, &eps))) return bad;
    if ((bad = read_positive(f, "gemma3.rope.freq_base", 1e6, &c->rope_base))) return bad;
    if ((bad = read_positive(f, "gemma3.rope.freq_base_swa", 1e4, &c->rope_base_local))) return bad;
    if ((bad = read_positive(f, "gemma3.rope.scaling.factor", 1, &scaling))) return bad;
    const char *kind = gw_file_text(f, "gemma3.rope.scaling.type");
    if (kind && strcmp(kind, "linear") && strcmp(kind, "none"))
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key gemma3.rope.scaling.type\nlinear or none\n%.32s", kind);
    c->position_scale = kind && !strcmp(kind, "none") ? 1 : 1 / scaling;
    c->eps = (float)eps;
    c->embedding_scale = sqrtf((float)c->n_embd);
    /* Gemma 3 27B (62 layers) scales queries by the model's width per head, all others by head_dim. */
    c->query_scale = 1.0f / sqrtf(c->n_layer == 62 ? (float)c->n_embd / c->n_head : (float)c->head_dim);
    return 0;
}

static int check_heads(gw_file *f) {
    const gw_config *c = &f->config;
    if (number(f, "gemma3.attention.value_length", c->head_dim) != c->head_dim)
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key gemma3.attention.value_length\n%u, as key_length\n%g",
                       c->head_dim, number(f, "gemma3.attention.value_length", 0));
    if (c->head_dim % 8)
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key gemma3.attention.key_length\na multiple of 8\n%u", c->head_dim);
    if (c->n_head % c->n_head_kv)
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key gemma3.attention.head_count\na multiple of head_count_kv = %u\n%u",
                       c->n_head_kv, c->n_head);
    static const char *const caps[] = { "gemma3.attn_logit_softcapping", "gemma3.final_logit_softcapping" };
    for (int i = 0; i < 2; i++)
        if (number(f, caps[i], 0) != 0)
            return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key %s\n0 (Gemma 3 has no soft-capping)\n%g",
                           caps[i], number(f, caps[i], 0));
    return 0;
}

/* Which layers are global: every pattern-th one, or as an array says, layer by layer. */
static int read_pattern(gw_file *f) {
    gw_config *c = &f->config;
    const char *key = "gemma3.attention.sliding_window_pattern";
    const gw_entry *e = gw_file_find(f, key);
    bool listed = e && e->value.type == GW_GGUF_ARRAY;
    if (listed && e->count != c->n_layer)
        return gw_fail(&f->error, GW_E_BAD_METADATA, "metadata key %s\nan element per layer: %u\n%llu", key, c->n_layer,
                       (unsigned long long)e->count);
    for (uint32_t l = 0; l < c->n_layer; l++)
        c->is_global[l] = listed ? !f->layer_pattern[l] : l % c->pattern == c->pattern - 1;
    return 0;
}

static int read_config(gw_file *f) {
    gw_config *c = &f->config;
    const char *arch = gw_file_text(f, "general.architecture");
    if (!arch) return gw_fail(&f->error, GW_E_MISSING_KEY, "metadata key general.architecture\ngemma3\nno such key");
    if (strcmp(arch, "gemma3"))
        return gw_fail(&f->error, GW_E_UNSUPPORTED_ARCH, "general.architecture\ngemma3\n%.64s", arch);
    c->pattern = 6;   /* files in use carry no key for it */
    int bad;
    if ((bad = read_sizes(f)) || (bad = read_reals(f)) || (bad = check_heads(f))) return bad;
    return read_pattern(f);
}

static int32_t token_id(const gw_file *f, const char *key) {
    double v = number(f, key, -1);
    return v >= 0 && v < f->config.n_vocab ? (int32_t)v : -1;
}

static int read_tokenizer(gw_file *f) {
    gw_config *c = &f->config;
    const char *kind = gw_file_text(f, "tokenizer.ggml.model");
    if (!kind || !f->has_tokens)
        return gw_fail(&f->error, GW_E_MISSING_TOKENIZER, "metadata key %s\nthe tokenizer in the file\nno such key",
                       kind ? "tokenizer.ggml.tokens" : "tokenizer.ggml.model");
    static const char *const control[] = { "bos", "eos", "eot", "padding" };
    for (int i = 0; i < 4; i++) {
        char key[48];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", control[i]);
        double id = number(f, key, -1);
        if (id >= 0 && id < GW_MAX_VOCAB) gw_tokenizer_mark_control(f->tokenizer, (int32_t)id);
    }
    int bad = gw_tokenizer_finish(f->tokenizer, &(gw_tokenizer_kind){ .model = kind }, &f->error);
    if (bad) return bad;
    c->n_vocab = gw_tokenizer_size(f->tokenizer);
    c->bos = token_id(f, "tokenizer.ggml.bos_token_id");
    c->eos = token_id(f, "tokenizer.ggml.eos_token_id");
    c->pad = token_id(f, "tokenizer.ggml.padding_token_id");
    c->eot = token_id(f, "tokenizer.ggml.eot_token_id");
    if (c->eot < 0) c->eot = gw_tokenizer_find(f->tokenizer, "<end_of_turn>", 13);
    c->add_bos = number(f, "tokenizer.ggml.add_bos_token", 1) != 0;
    return 0;
}

/* --- binding --- */

enum { EMBD, FF, QDIM, KVDIM, HEAD, VOCAB };

static uint32_t size_of(const gw_config *c, int which) {
    switch (which) {
    case EMBD: return c->n_embd;
    case FF: return c->n_ff;
    case QDIM: return c->n_head * c->head_dim;
    case KVDIM: return c->n_head_kv * c->head_dim;
    case HEAD: return c->head_dim;
    default: return c->n_vocab;
    }
}

/* Every tensor of a layer: name behind "blk.N.", field, row length, rows (-1: a vector). */
static const struct slot { const char *name; size_t field; int k, rows; } layer_slots[] = {
    { "attn_norm.weight", offsetof(gw_layer, attn_norm), EMBD, -1 },
    { "attn_q.weight", offsetof(gw_layer, q), EMBD, QDIM },
    { "attn_k.weight", offsetof(gw_layer, k), EMBD, KVDIM },
    { "attn_v.weight", offsetof(gw_layer, v), EMBD, KVDIM },
    { "attn_output.weight", offsetof(gw_layer, o), QDIM, EMBD },
    { "attn_q_norm.weight", offsetof(gw_layer, q_norm), HEAD, -1 },
    { "attn_k_norm.weight", offsetof(gw_layer, k_norm), HEAD, -1 },
    { "post_attention_norm.weight", offsetof(gw_layer, post_attn_norm), EMBD, -1 },
    { "ffn_norm.weight", offsetof(gw_layer, ffn_norm), EMBD, -1 },
    { "ffn_gate.weight", offsetof(gw_layer, gate), EMBD, FF },
    { "ffn_up.weight", offsetof(gw_layer, up), EMBD, FF },
    { "ffn_down.weight", offsetof(gw_layer, down), FF, EMBD },
    { "post_ffw_norm.weight", offsetof(gw_layer, post_ffw_norm), EMBD, -1 },
};
static const struct slot model_slots[] = {
    { "token_embd.weight", offsetof(gw_weights, embedding), EMBD, VOCAB },
    { "output_norm.weight", offsetof(gw_weights, output_norm), EMBD, -1 },
    { "output.weight", offsetof(gw_weights, head), EMBD, VOCAB },   /* optional */
};
enum { LAYER_SLOTS = sizeof layer_slots / sizeof *layer_slots, MODEL_SLOTS = sizeof model_slots / sizeof *model_slots };

static int check_shape(gw_file *f, const gw_tensor *t, uint32_t k, uint32_t rows, int dims) {
    const uint64_t *s = t->info.shape;
    if (s[0] == k && s[1] == rows && s[2] == 1 && s[3] == 1) return 0;
    char expected[48];
    if (dims == 1) snprintf(expected, sizeof expected, "[%u]", k);
    else snprintf(expected, sizeof expected, "[%u, %u]", k, rows);
    return gw_fail(&f->error, GW_E_BAD_SHAPE, "tensor %s: shape\n%s\n[%llu, %llu, %llu, %llu]", t->info.name,
                   expected, (unsigned long long)s[0], (unsigned long long)s[1], (unsigned long long)s[2],
                   (unsigned long long)s[3]);
}

static int bind_matrix(gw_file *f, gw_tensor *t, gw_matrix *m, uint32_t k, uint32_t rows) {
    if (!gw_type_supported(t->type) || !gw_can_pack(t->type))
        return gw_fail(&f->error, GW_E_UNSUPPORTED_TYPE, "tensor %s: type\none of %s\n%s", t->info.name,
                       gw_type_list, t->type->name);
    if (m->type) return gw_fail(&f->error, GW_E_DUPLICATE, "tensor %s\nonce\ntwice", t->info.name);
    *m = (gw_matrix){ .type = t->type, .rows = rows, .k = k };
    t->matrix = m;
    return 0;
}

static int bind_vector(gw_file *f, gw_tensor *t, const float **v) {
    if (!gw_type_supported(t->type))
        return gw_fail(&f->error, GW_E_UNSUPPORTED_TYPE, "tensor %s: type\nF32\n%s", t->info.name, t->type->name);
    if (*v) return gw_fail(&f->error, GW_E_DUPLICATE, "tensor %s\nonce\ntwice", t->info.name);
    *v = (const float *)1;   /* bound; the place follows in gw_file_place */
    t->vector = v;
    return 0;
}

static int bind_slot(gw_file *f, gw_tensor *t, const struct slot *s, void *base) {
    bool is_vector = s->rows < 0;
    uint32_t k = size_of(&f->config, s->k), rows = is_vector ? 1 : size_of(&f->config, s->rows);
    int bad = check_shape(f, t, k, rows, is_vector ? 1 : 2);
    if (bad) return bad;
    void *field = (char *)base + s->field;
    return is_vector ? bind_vector(f, t, field) : bind_matrix(f, t, field, k, rows);
}

static const struct slot *find_slot(const struct slot *slots, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(slots[i].name, name)) return &slots[i];
    return NULL;
}

/* "blk.12.attn_q.weight" -> 12 and "attn_q.weight"; NULL for other names */
static const char *layer_name(const char *name, uint32_t *layer) {
    if (strncmp(name, "blk.", 4) || name[4] < '0' || name[4] > '9') return NULL;
    char *end;
    unsigned long n = strtoul(name + 4, &end, 10);
    if (*end != '.' || n >= GW_MAX_LAYERS) return NULL;
    *layer = (uint32_t)n;
    return end + 1;
}

static int bind_tensor(gw_file *f, gw_tensor *t) {
    uint32_t layer = 0;
    const char *rest = layer_name(t->info.name, &layer);
    if (!rest) {
        const struct slot *s = find_slot(model_slots, MODEL_SLOTS, t->info.name);
        return s ? bind_slot(f, t, s, &f->weights) : 0;
    }
    const struct slot *s = find_slot(layer_slots, LAYER_SLOTS, rest);
    if (!s || layer >= f->config.n_layer) return 0;   /* not ours: its bytes are passed over */
    return bind_slot(f, t, s, &f->weights.layers[layer]);
}

static bool is_filled(const struct slot *s, const void *base) {
    const void *field = (const char *)base + s->field;
    return s->rows < 0 ? *(const float *const *)field != NULL : ((const gw_matrix *)field)->type != NULL;
}

static int check_all_bound(gw_file *f) {
    for (int i = 0; i < MODEL_SLOTS - 1; i++)
        if (!is_filled(&model_slots[i], &f->weights))
            return gw_fail(&f->error, GW_E_MISSING_TENSOR, "tensor %s\nin the file\nmissing", model_slots[i].name);
    for (uint32_t l = 0; l < f->config.n_layer; l++)
        for (int i = 0; i < LAYER_SLOTS; i++)
            if (!is_filled(&layer_slots[i], &f->weights.layers[l]))
                return gw_fail(&f->error, GW_E_MISSING_TENSOR, "tensor blk.%u.%s\nin the file\nmissing", l,
                               layer_slots[i].name);
    return 0;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts the names; one that is there twice, NULL if there is none. */
static const char *find_twice(const char **names, uint32_t n) {
    qsort(names, n, sizeof *names, by_text);
    for (uint32_t i = 1; i < n; i++)
        if (!strcmp(names[i - 1], names[i])) return names[i];
    return NULL;
}

static int check_once(gw_file *f) {
    uint32_t keys = gw_file_entries(f), tensors = gw_file_tensors(f);
    const char **names = gw_alloc(gw_max(keys, tensors) * sizeof *names);
    if (!names) return no_memory(f);
    for (uint32_t i = 0; i < keys; i++) names[i] = gw_file_pooled(f, gw_file_entry(f, i)->key);
    const char *kind = "metadata key", *twice = find_twice(names, keys);
    if (!twice) {
        for (uint32_t i = 0; i < tensors; i++) names[i] = gw_file_tensor(f, i)->info.name;
        kind = "tensor", twice = find_twice(names, tensors);
    }
    gw_free(names);
    return twice ? gw_fail(&f->error, GW_E_DUPLICATE, "%s %.150s\nonce\ntwice", kind, twice) : 0;
}

int gw_file_bind(gw_file *f) {
    int bad;
    if ((bad = check_once(f)) || (bad = read_config(f)) || (bad = read_tokenizer(f))) return bad;
    f->weights.layers = gw_alloc(f->config.n_layer * sizeof(gw_layer));
    if (!f->weights.layers) return no_memory(f);
    memset(f->weights.layers, 0, f->config.n_layer * sizeof(gw_layer));
    for (uint32_t i = 0; i < gw_file_tensors(f); i++)
        if ((bad = bind_tensor(f, gw_file_tensor(f, i)))) return bad;
    if ((bad = check_all_bound(f))) return bad;
    return 0;
}

const gw_type *gw_file_layer_type(const gw_file *f) {
    enum { TYPES = 64 };
    uint64_t items[TYPES] = { 0 }, most = 0;
    const gw_type *type = NULL;
    for (uint32_t i = 0; i < gw_file_tensors(f); i++) {
        const gw_tensor *t = gw_file_tensor(f, i);
        bool counts = t->matrix && t->matrix != &f->weights.embedding && t->matrix != &f->weights.head;
        if (!counts || t->type->id >= TYPES) continue;
        uint64_t n = items[t->type->id] += t->info.shape[0] * t->info.shape[1];
        if (n > most) most = n, type = t->type;
    }
    return type;
}

static bool packs_floats(const gw_file *f) {
    if (f->floats != GW_FLOATS_AUTO) return f->floats == GW_FLOATS_Q8_0;
    return gw_file_layer_type(f)->items > 1;
}

static void choose_types(gw_file *f) {
    bool to_q8 = packs_floats(f);
    for (uint32_t i = 0; i < gw_file_tensors(f); i++) {
        gw_tensor *t = gw_file_tensor(f, i);
        if (t->matrix) t->matrix->type = gw_packed_type(t->type, t->matrix->k, to_q8);
    }
}

/* The output head, which may be the embedding. */
static const gw_matrix *head_of(gw_file *f) {
    for (uint32_t i = 0; i < gw_file_tensors(f); i++)
        if (gw_file_tensor(f, i)->matrix == &f->weights.head) return &f->weights.head;
    return &f->weights.embedding;
}

enum { LARGE_HEAD = 1 << 22 };   /* weights */

static bool in_planes(gw_file *f, const gw_matrix *m) {
    bool wanted = f->head == GW_HEAD_AUTO ? gw_times(m->rows, m->k) >= LARGE_HEAD : f->head == GW_HEAD_PLANES;
    return wanted && m == head_of(f) && gw_planes_fit(m->type, m->k);
}

static void place_matrix(gw_matrix *m, bool planes, gw_arena *arena) {
    uint64_t bytes = gw_packed_bytes(m->type, m->rows, m->k), low = bytes / GW_Q8_BYTES * GW_LOW_BYTES;
    void *at = gw_arena_take(arena, planes ? bytes - low : bytes);
    void *low_at = planes ? gw_arena_take(arena, low) : NULL;
    void *norms = planes ? gw_arena_take(arena, 2 * gw_ld(m->rows) * sizeof(float)) : NULL;
    if (!arena->base) return;
    m->data = at;
    m->low = low_at;
    m->norms = norms;
}

void gw_file_place(gw_file *f, gw_arena *arena) {
    choose_types(f);
    for (uint32_t i = 0; i < gw_file_tensors(f); i++) {
        gw_tensor *t = gw_file_tensor(f, i);
        gw_matrix *m = t->matrix;
        if (m) {
            place_matrix(m, in_planes(f, m), arena);
        } else if (t->vector) {
            void *at = gw_arena_take(arena, t->info.shape[0] * sizeof(float));
            if (arena->base) *t->vector = at;
        }
    }
    if (arena->base && !f->weights.head.type) f->weights.head = f->weights.embedding;
}

void gw_file_free(gw_file *f) {
    gw_tokenizer_free(f->tokenizer);
    gw_free(f->weights.layers);
    gw_buffer_free(&f->pool);
    gw_buffer_free(&f->entries);
    gw_buffer_free(&f->tensors);
}
