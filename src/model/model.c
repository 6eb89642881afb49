/* model: see model.h. The tables of arch.h give the name, field and shape of each weight. Also decides where each one
 * is stored (packed, in bit planes, or in the file), and computes the hash by which saved states recognise their
 * model. */
#include "model/model.h"
#include "base/hash.h"
#include "file/errors.h"
#include "kernels/pack.h"
#include "model/config.h"
#include "model/errors.h"
#include "model/kv.h"
#include "model/rowcache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBD, FF, GATE_UP, Q, KV, QKV, HEAD, HALF_HEAD, VOCAB, BY_TOKEN, CONTEXT, DENSE, PLE, ALL_PLE, ONE, NONE };
enum { PAIR = NONE + 1, TARGET }; /* sizes that only assistants have */

#define LAYER_ROW(name, tensor, field, columns, rows) { tensor, offsetof(gw_layer, field), columns, rows, true },
#define MODEL_ROW(name, tensor, field, columns, rows) { tensor, offsetof(gw_weights, field), columns, rows, false },
static const struct weight {
    const char *name;
    size_t field;
    int columns, rows;
    bool of_layer;
} weights[GW_WEIGHTS] = { GW_LAYER_WEIGHTS(LAYER_ROW) GW_MODEL_WEIGHTS(MODEL_ROW) };

/* Returns a size that the weight tables (arch.h) name, such as EMBD. layer: n_layer for weights that belong to no
 * layer. */
static uint32_t size_of(const gw_config *c, uint32_t layer, int which) {
    const gw_layer_shape *s = &c->layer[layer % c->n_layer];
    uint32_t q = c->n_head * s->head_dim, kv = s->n_head_kv * s->head_dim;
    switch (which) {
    case EMBD: return c->n_embd;
    case FF: return s->n_ff;
    case GATE_UP: return 2 * s->n_ff;
    case Q: return q;
    case KV: return kv;
    case QKV: return q + 2 * kv;
    case HEAD: return s->head_dim;
    case HALF_HEAD: return c->rope[GW_ROPE_GLOBAL].rotated / 2;
    case CONTEXT: return c->n_ctx_train;
    case DENSE: return c->n_dense;
    case PLE: return c->n_ple;
    case ALL_PLE: return c->n_ple * c->n_layer;
    case PAIR: return 2 * c->n_target;
    case TARGET: return c->n_target;
    case ONE: return 1;
    default: return c->n_vocab;
    }
}

static bool is_vector(int weight) { return weights[weight].rows == NONE; }

/* Weights that a layer needs only if it computes its own keys and values. */
#define OWNED (1ull << GW_WEIGHT_K | 1ull << GW_WEIGHT_V | 1ull << GW_WEIGHT_K_NORM)

/* Splits "blk.12.attn_q.weight" into 12 and "attn_q.weight"; returns NULL for other names. */
static const char *layer_name(const char *name, uint32_t *layer) {
    if (strncmp(name, "blk.", 4) || name[4] < '0' || name[4] > '9') return NULL;
    char *end;
    unsigned long n = strtoul(name + 4, &end, 10);
    if (*end != '.' || n >= GW_MAX_LAYERS) return NULL;
    *layer = (uint32_t)n;
    return end + 1;
}

static gw_bound find_weight(const gw_file *f, const char *name) {
    uint32_t layer = f->config.n_layer;
    const char *rest = layer_name(name, &layer);
    uint64_t known = f->config.arch->required | f->config.arch->optional;
    gw_bound found = { GW_WEIGHTS, 0 };
    for (int w = 0; w < GW_WEIGHTS; w++) {
        bool fits = weights[w].of_layer ? rest && layer < f->config.n_layer : !rest;
        if (!fits || strcmp(weights[w].name, rest ? rest : name)) continue;
        /* Some files have unused weights for keys and values in layers that use those of another layer. */
        if (rest && f->config.layer[layer].kv_owner != layer && OWNED >> w & 1) break;
        if (found.weight == GW_WEIGHTS || known >> w & 1)
            found = (gw_bound){ w, layer }; /* if two weights have this name, takes the one of the architecture */
    }
    return found;
}

static int check_shape(gw_file *f, const gw_tensor *t, gw_bound b) {
    const struct weight *w = &weights[b.weight];
    uint32_t k = size_of(&f->config, b.layer, w->columns);
    uint32_t rows = is_vector(b.weight) ? 1 : size_of(&f->config, b.layer, w->rows);
    const uint64_t *s = t->info.shape;
    if (b.weight == GW_WEIGHT_GATE_UP && rows % (2 * GW_PANEL))
        return gw_fail(&f->error, MSG_TWO_MATRICES, t->info.name, GW_PANEL, rows / 2);
    if (b.weight == GW_WEIGHT_CENTROIDS && s[1] && rows % s[1] == 0) rows = (uint32_t)s[1];
    if (s[0] == k && s[1] == rows && s[2] == 1 && s[3] == 1) return 0;
    char expected[48];
    if (is_vector(b.weight)) snprintf(expected, sizeof expected, "[%u]", k);
    else
        snprintf(expected, sizeof expected, b.weight == GW_WEIGHT_CENTROIDS ? "[%u, a divisor of %u]" : "[%u, %u]", k,
                 rows);
    return gw_fail(&f->error, MSG_TENSOR_SHAPE, t->info.name, expected, (unsigned long long)s[0],
                   (unsigned long long)s[1], (unsigned long long)s[2], (unsigned long long)s[3]);
}

static int check_type(gw_file *f, const gw_tensor *t, int weight) {
    bool ids = weight == GW_WEIGHT_ORDERING;
    if (ids ? t->type->id == GW_I32 || t->type->id == GW_F32 : gw_type_supported(t->type)) return 0;
    const char *types = is_vector(weight) ? "F32" : gw_type_list;
    return gw_fail(&f->error, MSG_TENSOR_TYPE, t->info.name, t->type->name, ids ? "I32 or F32" : types);
}

/* Rejects weights that the model's architecture does not use: ignoring them would silently produce wrong results. */
static int check_known(gw_file *f, const gw_tensor *t, int weight) {
    const gw_arch *a = f->config.arch;
    bool dense = weight == GW_WEIGHT_DENSE_2 || weight == GW_WEIGHT_DENSE_3;
    if (!((a->required | a->optional) >> weight & 1))
        return gw_fail(&f->error, MSG_TENSOR_UNEXPECTED, t->info.name, a->name);
    if (!dense || f->config.n_dense) return 0;
    return gw_fail(&f->error, MSG_KEY_MISSING, a->name, "dense_2_feat_out");
}

static void *field_of(const gw_file *f, gw_bound b) {
    char *base = weights[b.weight].of_layer ? (char *)&f->weights.layers[b.layer] : (char *)&f->weights;
    return base + weights[b.weight].field;
}

static int bind_tensor(gw_file *f, uint32_t i) {
    const gw_tensor *t = gw_store_tensor_at(&f->store, i);
    gw_bound b = f->bound[i] = find_weight(f, t->info.name);
    int bad;
    if (b.weight == GW_WEIGHTS) return 0;
    if (f->has[b.layer] >> b.weight & 1) /* names of the same weight can differ: blk.1.… and blk.01.… */
        return gw_fail(&f->error, MSG_TWICE, "tensor", t->info.name);
    if ((bad = check_known(f, t, b.weight)) || (bad = check_shape(f, t, b))) return bad;
    if ((bad = check_type(f, t, b.weight))) return bad;
    f->has[b.layer] |= 1ull << b.weight;
    if (!is_vector(b.weight))
        *(gw_matrix *)field_of(f, b) = (gw_matrix){ .rows = (uint32_t)t->info.shape[1],
                                                    .k = (uint32_t)t->info.shape[0] };
    return 0;
}

/* Returns the set of required weights. A model with one of the two dense layers must have both. The same holds for the
 * two sets of RoPE factors, and for an assistant's centroids and token ids. layer: n_layer for weights that belong to
 * no layer. */
static uint64_t required_of(const gw_file *f, uint32_t layer) {
    const gw_config *c = &f->config;
    static const uint64_t pairs[] = { 1ull << GW_WEIGHT_DENSE_2 | 1ull << GW_WEIGHT_DENSE_3,
                                      1ull << GW_WEIGHT_ROPE_SHORT | 1ull << GW_WEIGHT_ROPE_LONG,
                                      1ull << GW_WEIGHT_CENTROIDS | 1ull << GW_WEIGHT_ORDERING };
    bool owns = layer == c->n_layer || c->layer[layer].kv_owner == layer;
    uint64_t all = (c->arch->required & ~(owns ? 0 : OWNED)) | (c->n_ple ? GW_PER_LAYER_EMBEDDINGS : 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (f->has[c->n_layer] & pairs[i]) all |= pairs[i];
    return all;
}

static int check_all_bound(gw_file *f) {
    for (uint32_t l = 0; l <= f->config.n_layer; l++)
        for (int w = 0; w < GW_WEIGHTS; w++) {
            bool belongs = weights[w].of_layer == (l < f->config.n_layer);
            if (!belongs || !(required_of(f, l) >> w & 1) || f->has[l] >> w & 1) continue;
            char layer[16] = "";
            if (weights[w].of_layer) snprintf(layer, sizeof layer, "blk.%u.", l);
            return gw_fail(&f->error, MSG_TENSOR_MISSING, layer, weights[w].name);
        }
    return 0;
}

static void *take(size_t n, size_t size) {
    void *p = gw_alloc(n * size);
    if (p) memset(p, 0, n * size);
    return p;
}

static int bind_tensors(gw_file *f) {
    uint32_t n = gw_store_tensors(&f->store), layers = f->config.n_layer;
    f->weights.layers = take(layers, sizeof *f->weights.layers);
    f->has = take(layers + 1, sizeof *f->has);
    f->bound = take(n, sizeof *f->bound);
    if (!f->weights.layers || !f->has || !f->bound) return gw_no_memory(&f->error, "the file's metadata", 0);
    for (uint32_t i = 0; i < n; i++) {
        int bad = bind_tensor(f, i);
        if (bad) return bad;
    }
    return check_all_bound(f);
}

int gw_file_bind(gw_file *f) {
    int bad = gw_store_check(&f->store, &f->error);
    if (!bad) bad = gw_config_read(&f->config, &f->store, &f->error);
    if (!bad) bad = gw_tokens_read(&f->tokens, &f->store, f->config.arch, f->tokenizer, &f->error);
    if (bad) return bad;
    f->config.n_vocab = gw_tokenizer_size(f->tokenizer);
    return bind_tensors(f);
}

static bool is_matrix(gw_bound b) { return b.weight < GW_WEIGHTS && !is_vector(b.weight); }

const gw_type *gw_file_layer_type(const gw_file *f) {
    enum { TYPES = 64 };
    uint64_t items[TYPES] = { 0 }, most = 0;
    const gw_type *type = NULL;
    for (uint32_t i = 0; i < gw_store_tensors(&f->store); i++) {
        const gw_tensor *t = gw_store_tensor_at(&f->store, i);
        bool counts = is_matrix(f->bound[i]) && weights[f->bound[i].weight].of_layer;
        if (!counts || t->type->id >= TYPES) continue;
        uint64_t n = items[t->type->id] += t->info.shape[0] * t->info.shape[1];
        if (n > most) most = n, type = t->type;
    }
    return type;
}

/* GW_FLOATS_AUTO keeps floats, because rounding an F16 embedding to bytes can be most of a file's error
 * (tests/vectors/outliers.md), and only the caller knows whether the speed is worth that. */
static bool packs_floats(const gw_file *f) { return f->floats == GW_FLOATS_Q8_0; }

int gw_file_kv_type(const gw_file *f, int asked) {
    bool floats = gw_file_layer_type(f)->items == 1 && !packs_floats(f);
    bool small = f->config.arch->policy->by_layer; /* the KV cache then holds only one layer at a time */
    return asked == GW_KV_AUTO && (floats || small) ? GW_KV_F32 : asked;
}

enum { LARGE_OUTPUT = 1 << 22 };

static bool has_output(const gw_file *f) { return f->has[f->config.n_layer] >> GW_WEIGHT_OUTPUT & 1; }

bool gw_file_by_token(const gw_file *f, uint32_t i) {
    int weight = f->bound[i].weight;
    /* Without an output matrix in the file, the embedding matrix is also the output matrix. */
    bool is_output = weight == GW_WEIGHT_EMBEDDING && !has_output(f);
    return weight < GW_WEIGHTS && weights[weight].rows == BY_TOKEN && !is_output;
}

bool gw_file_stays(const gw_file *f, uint32_t i) {
    bool large = gw_store_tensor_at(&f->store, i)->bytes >= GW_LARGE_TABLE;
    return gw_file_by_token(f, i) && (f->tables == GW_TABLES_FILE || (f->tables == GW_TABLES_LARGE && large));
}

static int norms_of(const gw_file *f, int weight, const gw_matrix *m) {
    bool is_output = weight == (has_output(f) ? GW_WEIGHT_OUTPUT : GW_WEIGHT_EMBEDDING);
    bool large = gw_times(m->rows, m->k) >= LARGE_OUTPUT;
    bool wanted = f->output == GW_OUTPUT_AUTO ? large : f->output == GW_OUTPUT_STAGES;
    return f->config.arch->policy->generates && is_output && wanted ? gw_head_norms(m->type, m->k) : 0;
}

static void take_place(const gw_file *f, uint32_t i, bool to_q8, gw_arena *arena, gw_matrix *matrix, void **vector) {
    const gw_tensor *t = gw_store_tensor_at(&f->store, i);
    if (!is_matrix(f->bound[i])) {
        *vector = gw_arena_take(arena, t->info.shape[0] * sizeof(float));
        return;
    }
    *matrix = *(const gw_matrix *)field_of(f, f->bound[i]);
    matrix->type = gw_packed_type(t->type, matrix->k, to_q8);
    if (gw_file_stays(f, i)) matrix->cache = gw_row_cache_place(matrix, t->type, i, arena);
    else gw_matrix_place(matrix, norms_of(f, f->bound[i].weight, matrix), arena);
}

uint64_t gw_file_weight_bytes(const gw_file *f) {
    gw_arena measure = { 0 };
    gw_matrix matrix;
    void *vector;
    bool to_q8 = packs_floats(f);
    for (uint32_t i = 0; i < gw_store_tensors(&f->store); i++)
        if (f->bound[i].weight < GW_WEIGHTS) take_place(f, i, to_q8, &measure, &matrix, &vector);
    return measure.used;
}

uint64_t gw_file_bytes_on_disk(const gw_file *f) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gw_store_tensors(&f->store); i++)
        if (gw_file_stays(f, i)) sum += gw_store_tensor_at(&f->store, i)->bytes;
    return sum;
}

static gw_linear part_of(const gw_linear *whole, uint32_t first, uint32_t rows) {
    return (gw_linear){ gw_matrix_rows(&whole->matrix, first, rows), whole->bias ? whole->bias + first : NULL };
}

/* Sets weights that are views of other weights: an output matrix that is the embedding matrix; q, k and v of qkv; gate
 * and up of gate_up; the parts of ple_proj. */
static void share(gw_file *f) {
    const gw_linear *ple = &f->weights.ple_proj;
    uint32_t early = gw_ple_columns(&f->config, 0);
    if (!has_output(f)) f->weights.output.matrix = f->weights.embedding;
    for (uint32_t i = 0; i < 2 && ple->matrix.type; i++)
        f->weights.ple_part[i] = part_of(ple, i * early, gw_ple_columns(&f->config, (int)i));
    for (uint32_t l = 0; l < f->config.n_layer; l++) {
        gw_layer *w = &f->weights.layers[l];
        uint32_t q = size_of(&f->config, l, Q), kv = size_of(&f->config, l, KV);
        if (w->gate_up.matrix.type) {
            uint32_t ff = size_of(&f->config, l, FF);
            w->gate = part_of(&w->gate_up, 0, ff);
            w->up = part_of(&w->gate_up, ff, ff);
        }
        if (!w->qkv.matrix.type) continue;
        w->q = part_of(&w->qkv, 0, q);
        w->k = part_of(&w->qkv, q, kv);
        w->v = part_of(&w->qkv, q + kv, kv);
    }
}

void gw_file_place(gw_file *f, gw_arena *arena) {
    bool to_q8 = packs_floats(f);
    for (uint32_t i = 0; i < gw_store_tensors(&f->store); i++) {
        gw_matrix matrix;
        void *vector;
        if (f->bound[i].weight == GW_WEIGHTS) continue;
        take_place(f, i, to_q8, arena, &matrix, &vector);
        if (is_matrix(f->bound[i])) *(gw_matrix *)field_of(f, f->bound[i]) = matrix;
        else *(const float **)field_of(f, f->bound[i]) = vector;
    }
    share(f);
}

gw_matrix *gw_file_matrix(const gw_file *f, uint32_t i) {
    return is_matrix(f->bound[i]) ? field_of(f, f->bound[i]) : NULL;
}

float *gw_file_vector(const gw_file *f, uint32_t i) {
    bool vector = f->bound[i].weight < GW_WEIGHTS && is_vector(f->bound[i].weight);
    return vector ? (float *)*(const float **)field_of(f, f->bound[i]) : NULL;
}

/* Hashes a config field by field, because structs have padding. Saved states contain the model's hash, so a change of
 * this function rejects all saved states. */
static uint64_t hash_rules(const gw_config *c) {
    const gw_layer_shape *first = c->layer;
    const gw_rope *local = &c->rope[GW_ROPE_LOCAL], *global = &c->rope[GW_ROPE_GLOBAL];
    const double rules[] = { c->n_vocab,         c->n_layer,      c->n_embd,   first->n_ff,  c->n_head,
                             first->n_head_kv,   first->head_dim, c->window,   c->pattern,   c->eps,
                             c->embedding_scale, c->query_scale,  c->attn_cap, c->logit_cap, global->base,
                             local->base,        global->scale };
    uint8_t is_global[GW_MAX_LAYERS];
    for (uint32_t l = 0; l < c->n_layer; l++) is_global[l] = !c->layer[l].window;
    uint64_t h = gw_hash(strlen(c->arch->name), c->arch->name, strlen(c->arch->name));
    const double partial[] = { global->rotated, global->gain, c->n_ctx_short };
    if (c->arch->rotates_part) h = gw_hash(h, partial, sizeof partial);
    if (c->residual_scale != 1) h = gw_hash(h, &c->residual_scale, sizeof c->residual_scale);
    h = gw_hash(gw_hash(h, rules, sizeof rules), is_global, c->n_layer);
    bool alike = c->n_owners == c->n_layer && !c->n_ple;
    for (uint32_t l = 1; l < c->n_layer && alike; l++)
        alike = c->layer[l].head_dim == first->head_dim && c->layer[l].n_head_kv == first->n_head_kv &&
                c->layer[l].n_ff == first->n_ff;
    return alike ? h : gw_hash(h + c->n_ple, c->layer, c->n_layer * sizeof *c->layer);
}

uint64_t gw_file_hash(const gw_file *f) {
    uint64_t h = hash_rules(&f->config), packed = 0;
    for (uint32_t i = 0; i < gw_store_tensors(&f->store); i++) {
        const gw_tensor *t = gw_store_tensor_at(&f->store, i);
        const gw_matrix *m = gw_file_matrix(f, i);
        uint32_t types[] = { t->type->id, m ? m->type->id : t->type->id };
        if (f->bound[i].weight < GW_WEIGHTS)
            packed += gw_hash(gw_hash(0, t->info.name, strlen(t->info.name)), types, sizeof types);
    }
    return gw_hash_mix(h ^ gw_hash_mix(packed ^ gw_hash_mix(f->sample)));
}

void gw_file_free(gw_file *f) {
    gw_tokenizer_free(f->tokenizer);
    gw_free(f->weights.layers);
    gw_free(f->has);
    gw_free(f->bound);
    gw_store_free(&f->store);
}
