/* forward: see forward.h. Each step reads its weights and rules from the state, and never tests the name of the
 * architecture. ops.c, elements.c and attention.c compute the operations; run/step.c decides which rows pass through
 * which step. */
#include "model/forward.h"
#include "model/elements.h"

#include <math.h>
#include <string.h>

/* Applies up to three linear layers to the same input: y[i] = w[i](x). */
static void linears(gw_state *s, gw_view x, const gw_linear *const *w, const gw_view *y, int count, bool int15) {
    const gw_matrix *matrix[3] = { 0 };
    float *out[3] = { 0 };
    for (int i = 0; i < count; i++) matrix[i] = &w[i]->matrix, out[i] = y[i].at;
    gw_matmul(&s->ops, &x, matrix, out, count, int15);
    for (int i = 0; i < count; i++) gw_add_bias(s->ops.pool, y[i], w[i]->bias);
}

static void linear(gw_state *s, gw_view x, const gw_linear *w, gw_view y, bool int15) {
    linears(s, x, &w, &y, 1, int15);
}

static gw_norm_rule rule_of(const gw_config *c) { return (gw_norm_rule){ c->arch->norm, c->eps }; }

static void norm(gw_state *s, const gw_norm *w, gw_view x, gw_view out) {
    gw_normalise(s->ops.pool, rule_of(s->config), w, x.columns, x, out, false);
}

static void norm_heads(gw_state *s, const gw_norm *w, uint32_t head_dim, gw_view x) {
    gw_normalise(s->ops.pool, rule_of(s->config), w, head_dim, x, x, false);
}

static void scale(gw_view x, float by) {
    for (int t = 0; t < x.n && by != 1; t++)
        for (uint32_t j = 0; j < x.columns; j++) gw_row(x, t)[j] *= by;
}

/* Computes x += norm(h * residual_scale); overwrites h. */
static void add(gw_state *s, const gw_norm *w, gw_view h, gw_view x) {
    scale(h, s->config->residual_scale);
    gw_normalise(s->ops.pool, rule_of(s->config), w, x.columns, h, x, true);
}

/* Returns a segment without its rows before row `first` of the batch; n = 0 if no rows remain. */
static gw_segment segment_from(gw_segment p, int first) {
    int skip = first > p.row ? (int)gw_min(first - p.row, p.n) : 0;
    p.row += skip;
    p.n -= skip;
    p.pos += (uint32_t)skip;
    return p;
}

static const float *rope_factors(const gw_state *s) {
    const gw_weights *w = s->weights;
    return w->rope_factors ? w->rope_factors : s->long_context ? w->rope_long : w->rope_short;
}

static void rope(gw_state *s, gw_view x, const gw_layer_shape *shape, int first, float scale) {
    gw_view angles = s->batch.angles[shape->rope];
    gw_rotate(s->ops.pool, x, &s->config->rope[shape->rope], angles.at ? gw_row(angles, first) : NULL,
              s->config->arch->positions == GW_POSITIONS_PAIRS, scale);
}

void gw_forward_begin(gw_state *s, int n_segments) {
    gw_batch *b = &s->batch;
    int n = 0;
    for (int i = 0; i < n_segments; i++) n += b->segments[i].n;
    b->n_segments = n_segments;
    b->n = b->x.n = b->h.n = b->q.n = b->a.n = b->k.n = b->v.n = b->gate.n = b->up.n = n;
}

/* Computes the per-layer embeddings p of all layers: p = (norm(linear(x) / sqrt(n_embd)) + table(ids) * sqrt(n_ple)) /
 * sqrt(2). In a prompt, only the last token needs those of the last layers (gw_ple_columns, part 1). */
static void embed_per_layer(gw_state *s, const int32_t *ids) {
    const gw_config *c = s->config;
    const gw_weights *w = s->weights;
    gw_batch *b = &s->batch;
    float by = sqrtf((float)c->n_ple), half = sqrtf(0.5f), *table = b->ple_table.at;
    int first = b->ple[0].columns ? b->wanted : 0;
    for (int i = 0, from = 0; i < 2 && from < b->n; i++, from = first) {
        gw_view x = gw_from(b->x, from), p = gw_from(b->ple[i], from);
        p.n = x.n;
        if (!p.columns) continue;
        linear(s, x, &w->ple_part[i], p, true);
        scale(p, 1.0f / sqrtf((float)c->n_embd));
        norm_heads(s, &w->ple_norm, c->n_ple, p);
    }
    for (int t = 0; t < b->n; t++) {
        gw_matrix_row(&w->ple_table, (size_t)ids[t], table);
        for (int i = 0, parts = t < first ? 1 : 2; i < parts; i++) {
            float *row = gw_row(b->ple[i], t), *in = table + i * b->ple[0].columns;
            for (uint32_t j = 0; j < b->ple[i].columns; j++) row[j] = (row[j] + in[j] * by) * half;
        }
    }
}

gw_row_cache *gw_forward_missing(const gw_state *s, const int32_t *ids) {
    gw_row_cache *const caches[] = { s->weights->embedding.cache, s->weights->ple_table.cache };
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        if (caches[i] && gw_row_cache_want(caches[i], ids, s->batch.n)) return caches[i];
    return NULL;
}

static void find_angles(gw_state *s, const gw_segment *p) {
    gw_batch *b = &s->batch;
    for (int r = 0; r < GW_ROPES; r++)
        if (b->angles[r].at)
            gw_rope_angles(gw_row(b->angles[r], p->row), p->n, p->pos, &s->config->rope[r],
                           r == GW_ROPE_GLOBAL ? rope_factors(s) : NULL);
}

void gw_forward_embed(gw_state *s, const int32_t *ids) {
    const gw_config *c = s->config;
    const gw_weights *w = s->weights;
    gw_batch *b = &s->batch;
    for (int i = 0; i < b->n_segments; i++) {
        const gw_segment *p = &b->segments[i];
        for (int t = p->row; t < p->row + p->n; t++) {
            float *x = gw_row(b->x, t), *at = gw_row(b->h, t);
            gw_matrix_row(&w->embedding, (size_t)ids[t], x);
            for (uint32_t j = 0; j < c->n_embd; j++) x[j] *= c->embedding_scale;
            if (!w->positions.type) continue;
            gw_matrix_row(&w->positions, p->pos + (size_t)(t - p->row), at);
            for (uint32_t j = 0; j < c->n_embd; j++) x[j] += at[j];
        }
        find_angles(s, p);
    }
    if (c->n_ple) embed_per_layer(s, ids);
}

static const gw_kv_layer *cache_of(const gw_state *s, uint32_t layer, const gw_kv *kv) {
    const gw_config *c = s->config;
    return &kv->layers[c->arch->policy->by_layer ? 0 : c->layer[layer].kv_owner];
}

/* Computes k and v of all tokens, if the layer owns its keys and values, and q of the tokens from `first` on. In a
 * layer without a weight for values, the values are the keys before their norm. */
static void project(gw_state *s, const gw_layer *w, bool owns, int first) {
    gw_batch *b = &s->batch;
    const gw_linear *all[3];
    gw_view out[3], q = gw_from(b->q, first);
    int n = 0;
    if (owns) all[n] = &w->k, out[n++] = b->k;
    if (owns && w->v.matrix.type) all[n] = &w->v, out[n++] = b->v;
    if (first == 0) all[n] = &w->q, out[n++] = b->q;
    if (n) linears(s, b->h, all, out, n, true);
    if (first > 0 && q.n > 0) linear(s, gw_from(b->h, first), &w->q, q, true);
    if (!owns || w->v.matrix.type) return;
    for (int t = 0; t < b->k.n; t++) memcpy(gw_row(b->v, t), gw_row(b->k, t), b->k.columns * sizeof(float));
}

static void store(gw_state *s, uint32_t layer) {
    const gw_layer *w = &s->weights->layers[layer];
    const gw_layer_shape *shape = &s->config->layer[layer];
    gw_batch *b = &s->batch;
    norm_heads(s, &w->k_norm, shape->head_dim, b->k);
    if (s->config->arch->norms_values) norm_heads(s, NULL, shape->head_dim, b->v);
    rope(s, b->k, shape, 0, 1.0f);
    for (int i = 0; i < b->n_segments; i++) {
        const gw_segment *p = &b->segments[i];
        const gw_kv_layer *cache = cache_of(s, layer, p->kv);
        for (int t = 0; t < p->n; t++)
            gw_kv_store(cache, p->cache + p->pos + t, gw_row(b->k, p->row + t), gw_row(b->v, p->row + t));
    }
}

void gw_forward_keep(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    const gw_layer_shape *shape = &s->config->layer[layer];
    bool owns = shape->kv_owner == layer;
    gw_batch *b = &s->batch;
    b->q.columns = b->a.columns = s->config->n_head * shape->head_dim;
    b->k.columns = b->v.columns = shape->n_head_kv * shape->head_dim;
    gw_view q = gw_from(b->q, first);

    if (!owns && q.n == 0) return;
    norm(s, &w->attn_norm, b->x, b->h);
    project(s, w, owns, first);
    if (owns) store(s, layer);
    if (q.n == 0) return;
    norm_heads(s, &w->q_norm, shape->head_dim, q);
    rope(s, q, shape, first, s->config->query_scale);
}

gw_heads gw_forward_heads(const gw_config *c, uint32_t layer, uint32_t length) {
    const gw_layer_shape *shape = &c->layer[layer];
    uint32_t window = shape->window ? shape->window : UINT32_MAX;
    gw_heads h = { .n_head = (int)c->n_head,
                   .n_head_kv = (int)shape->n_head_kv,
                   .head_dim = (int)shape->head_dim,
                   .before = window - 1,
                   .after = 0,
                   .last = UINT32_MAX,
                   .cap = c->attn_cap };
    if (c->arch->policy->bidirectional) h.before = h.after = window / 2, h.last = length - 1;
    return h;
}

gw_kv_layer gw_forward_cache(const gw_state *s, uint32_t layer, const gw_segment *p) {
    return gw_kv_from(cache_of(s, layer, p->kv), p->cache);
}

void gw_forward_attend(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    gw_batch *b = &s->batch;
    gw_view x = gw_from(b->x, first), a = b->a, h = b->h;
    a.n = h.n = x.n;

    gw_attention_part parts[GW_BATCH];
    int n = 0;
    for (int i = 0; i < b->n_segments; i++) {
        gw_segment p = segment_from(b->segments[i], first);
        if (!p.n) continue;
        parts[n++] = (gw_attention_part){ .heads = gw_forward_heads(s->config, layer, p.length),
                                          .kv = gw_forward_cache(s, layer, &p),
                                          .pos = p.pos,
                                          .n = p.n,
                                          .q = gw_row(b->q, p.row),
                                          .out = gw_row(a, p.row - first) };
    }
    if (n) gw_attention(&s->ops, parts, n, gw_ld(b->q.columns));
    linear(s, a, &w->o, h, true);
    add(s, &w->post_attn_norm, h, x);
}

/* Adds per-layer embeddings p: x += norm(linear(activation(linear(x)) * p[layer])). */
static void add_per_layer(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    gw_batch *b = &s->batch;
    uint32_t n = s->config->n_ple, at = layer * n;
    int part = at >= b->ple[0].columns;
    gw_view x = gw_from(b->x, first), gate = b->gate, p = b->up, h = b->h, all = gw_from(b->ple[part], first);
    if (part) at -= b->ple[0].columns;
    gate.columns = p.columns = n;
    gate.n = p.n = h.n = x.n;
    for (int t = 0; t < x.n; t++) memcpy(gw_row(p, t), gw_row(all, t) + at, n * sizeof(float));
    linear(s, x, &w->ple_gate, gate, true);
    gw_activate(s->ops.pool, s->config->arch->act, gate, p);
    linear(s, gate, &w->ple_out, h, true);
    add(s, &w->ple_norm, h, x);
}

void gw_forward_feed(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    gw_batch *b = &s->batch;
    bool gated = w->gate.matrix.type != NULL;
    b->gate.columns = b->up.columns = s->config->layer[layer].n_ff;
    gw_view x = gw_from(b->x, first), h = b->h, gate = b->gate, up = b->up;
    h.n = gate.n = up.n = x.n;
    if (!gated) gate.at = NULL;

    norm(s, &w->ffn_norm, x, h);
    if (gated) linears(s, h, (const gw_linear *[]){ &w->gate, &w->up }, (gw_view[]){ gate, up }, 2, false);
    else linear(s, h, &w->up, up, false);
    gw_activate(s->ops.pool, s->config->arch->act, gate, up);
    linear(s, gated ? gate : up, &w->down, h, false);
    add(s, &w->post_ffw_norm, h, x);
    if (s->config->n_ple) add_per_layer(s, layer, first);
    if (w->scale) scale(x, *w->scale);
}

void gw_forward_hidden(gw_state *s) { norm(s, &s->weights->output_norm, s->batch.x, s->batch.h); }

static gw_view head_input(gw_state *s, int first, int rows) {
    gw_view x = gw_from(s->batch.x, first), h = s->batch.h;
    x.n = h.n = rows;
    norm(s, &s->weights->output_norm, x, h);
    scale(h, s->config->output_scale);
    return h;
}

/* Removes the gaps between rows of logits. */
static void close_up(gw_view y) {
    for (int r = 1; r < y.n; r++) memmove(y.at + (size_t)r * y.columns, gw_row(y, r), y.columns * sizeof(float));
}

void gw_forward_logits(gw_state *s, int first, int rows) {
    gw_view h = head_input(s, first, rows), y = s->logits;
    y.n = rows;
    linear(s, h, &s->weights->output, y, true);
    gw_soft_cap(&s->ops, y.at, (size_t)rows * gw_ld(y.columns), s->config->logit_cap);
    close_up(y);
}

uint32_t gw_forward_topk(gw_state *s, int first, int rows, const gw_topk *t) {
    gw_view h = head_input(s, first, rows), y = s->logits;
    y.n = rows;
    uint32_t open = gw_matmul_topk(&s->ops, &h, &s->weights->output.matrix, s->config->logit_cap, t, y.at);
    close_up(y);
    return open;
}

void gw_forward_few(gw_state *s, int token, const gw_rows *rows) {
    const gw_matrix *output = &s->weights->output.matrix;
    gw_matmul_few(&s->ops, head_input(s, token, 1).at, output, s->config->logit_cap, rows, s->logits.at);
}

void gw_forward_kept(const gw_state *s, int first, int rows, float *out) {
    gw_view h = s->batch.h;
    memcpy(out, gw_row(h, first), (size_t)rows * gw_ld(h.columns) * sizeof *out);
}

/* --- drafts --- */

/* Finds the centroids with the greatest products with h, and returns the tokens of their groups. */
static gw_rows likely_rows(gw_state *s, gw_view h) {
    enum { GROUPS = 32 }; /* groups whose logits are computed, as in the training of Gemma 4's assistants */
    const gw_weights *w = s->weights;
    const gw_matrix *centroids[] = { &w->centroids };
    uint32_t n = s->config->n_vocab, groups = w->centroids.rows, size = n / groups;
    gw_rows rows = { s->likely, (n + 31) / 32 };
    float *scores = s->logits.at;
    gw_matmul(&s->ops, &h, centroids, &scores, 1, true);
    memset(s->likely, 0, rows.words * sizeof *s->likely);
    for (uint32_t i = 0; i < gw_min(GROUPS, groups); i++) {
        uint32_t best = 0;
        for (uint32_t g = 1; g < groups; g++)
            if (scores[g] > scores[best]) best = g;
        scores[best] = -INFINITY;
        for (uint32_t t = best * size; t < (best + 1) * size; t++) {
            uint32_t id = (uint32_t)w->ordering[t];
            s->likely[id / 32] |= 1u << id % 32;
        }
    }
    return rows;
}

/* Returns the first of `rows` with the greatest logit. */
static int32_t best_of(const gw_rows *rows, const float *logits, uint32_t n) {
    int32_t best = -1;
    for (uint32_t p = 0; p < (n + GW_PANEL - 1) / GW_PANEL; p++) {
        uint32_t bits = gw_rows_of(rows, p);
        for (uint32_t id = p * GW_PANEL; bits && id < n; id++, bits >>= 1)
            if (bits & 1 && (best < 0 || logits[id] > logits[best])) best = (int32_t)id;
    }
    return best;
}

int32_t gw_forward_draft(gw_state *s, const gw_kv *kv, uint32_t pos) {
    const gw_weights *w = s->weights;
    gw_batch *b = &s->batch;
    gw_rows rows = { 0 };
    b->segments[0] = (gw_segment){ .n = 1, .pos = pos, .kv = kv };
    gw_forward_begin(s, 1);
    b->pair.n = s->logits.n = 1;
    find_angles(s, b->segments);
    linear(s, b->pair, &w->pre_proj, b->x, true);
    b->segments[0].pos--; /* the row only attends to positions before pos */
    for (uint32_t l = 0; l < s->config->n_layer; l++) {
        gw_forward_keep(s, l, 0);
        gw_forward_attend(s, l, 0);
        gw_forward_feed(s, l, 0);
    }
    gw_view h = head_input(s, 0, 1);
    linear(s, h, &w->post_proj, (gw_view){ b->pair.at + s->config->n_target, 1, s->config->n_target }, true);
    if (w->centroids.type) {
        rows = likely_rows(s, h);
        gw_matmul_some(&s->ops, h.at, &w->output.matrix, &rows, s->logits.at);
    } else linear(s, h, &w->output, s->logits, true);
    return best_of(&rows, s->logits.at, s->config->n_vocab);
}
