/* forward: see forward.h */
#include "model/forward.h"
#include "model/elements.h"
#include "model/top.h"

#include <string.h>

/* y[i] = w[i] x for `count` matrices that take the same x. wide: see gw_matmul. */
static void linear(gw_state *s, gw_view x, const gw_linear *const *w, const gw_view *y, int count, bool wide) {
    const gw_matrix *matrix[3];
    float *out[3];
    for (int i = 0; i < count; i++) matrix[i] = &w[i]->matrix, out[i] = y[i].at;
    gw_matmul(&s->ops, x.at, gw_ld(x.columns), x.n, matrix, out, count, wide);
    for (int i = 0; i < count; i++) gw_add_bias(s->ops.pool, y[i], w[i]->bias);
}

static void norm(gw_state *s, const gw_norm *w, gw_view x, gw_view out) {
    gw_norm_rule rule = { s->config->arch->norm, s->config->eps };
    gw_normalise(s->ops.pool, rule, w, x.columns, x, out, false);
}

static void norm_heads(gw_state *s, const gw_norm *w, gw_view x) {
    gw_norm_rule rule = { s->config->arch->norm, s->config->eps };
    gw_normalise(s->ops.pool, rule, w, s->config->head_dim, x, x, false);
}

/* x += norm(h) */
static void add(gw_state *s, const gw_norm *w, gw_view h, gw_view x) {
    gw_norm_rule rule = { s->config->arch->norm, s->config->eps };
    gw_normalise(s->ops.pool, rule, w, x.columns, h, x, true);
}

/* A piece's rows from row `first` of the batch on; none: n = 0. */
static gw_piece piece_from(gw_piece p, int first) {
    int skip = first > p.row ? (int)gw_min(first - p.row, p.n) : 0;
    return (gw_piece){ p.row + skip, p.n - skip, p.pos + skip, p.length, p.cache, p.turn + skip, p.text };
}

/* x: the batch's rows from `first` on. */
static void rotate(gw_state *s, gw_view x, bool global, int first, float scale) {
    const gw_config *c = s->config;
    const gw_batch *b = &s->batch;
    for (int i = 0; i < b->n_pieces; i++) {
        gw_piece p = piece_from(b->pieces[i], first);
        if (!p.n) continue;
        gw_view rows = { gw_row(x, p.row - first), p.n, x.columns };
        const float *angles = b->angles[global] ? b->angles[global] + (size_t)p.turn * c->head_dim : NULL;
        gw_rotate(s->ops.pool, rows, c->head_dim, angles, c->arch->positions == GW_POSITIONS_PAIRS, scale);
    }
}

void gw_forward_begin(gw_state *s, const gw_piece *pieces, int n_pieces) {
    gw_batch *b = &s->batch;
    int n = 0;
    for (int i = 0; i < n_pieces; i++) n += (b->pieces[i] = pieces[i]).n;
    b->n_pieces = n_pieces;
    b->n = b->x.n = b->h.n = b->q.n = b->a.n = b->k.n = b->v.n = b->gate.n = b->up.n = n;
}

/* Rotations of n positions from pos on, from row `turn` of the angles on. */
static void turn(gw_state *s, uint32_t at, uint32_t pos, int n) {
    const gw_config *c = s->config;
    float *const *angles = s->batch.angles;
    const float *factors = s->weights->rope_factors;
    size_t row = (size_t)at * c->head_dim;
    if (angles[0]) gw_rope_angles(angles[0] + row, n, pos, c->head_dim, c->rope_base_local, 1.0, factors);
    if (angles[1]) gw_rope_angles(angles[1] + row, n, pos, c->head_dim, c->rope_base, c->position_scale, factors);
}

/* Positions come again in every text, so theirs are kept. */
static void turn_piece(gw_state *s, const gw_piece *p) {
    gw_batch *b = &s->batch;
    uint32_t end = p->pos + (uint32_t)p->n;
    if (!s->config->arch->both_ways) turn(s, p->turn, p->pos, p->n);
    else if (end > b->turns) {
        turn(s, b->turns, b->turns, (int)(end - b->turns));
        b->turns = end;
    }
}

void gw_forward_embed(gw_state *s, const int32_t *ids) {
    const gw_config *c = s->config;
    const gw_weights *w = s->weights;
    gw_batch *b = &s->batch;
    for (int i = 0; i < b->n_pieces; i++) {
        const gw_piece *p = &b->pieces[i];
        for (int t = p->row; t < p->row + p->n; t++) {
            float *x = gw_row(b->x, t), *at = gw_row(b->h, t);
            gw_matrix_row(&w->embedding, (size_t)ids[t], x);
            for (uint32_t j = 0; j < c->n_embd; j++) x[j] *= c->embedding_scale;
            if (!w->positions.type) continue;
            gw_matrix_row(&w->positions, p->pos + (size_t)(t - p->row), at);
            for (uint32_t j = 0; j < c->n_embd; j++) x[j] += at[j];
        }
        turn_piece(s, p);
    }
}

/* Keys and values of all tokens, queries of those from `first` on. */
static void project(gw_state *s, const gw_layer *w, int first) {
    gw_batch *b = &s->batch;
    const gw_linear *all[] = { &w->k, &w->v, &w->q };
    const gw_view out[] = { b->k, b->v, b->q };
    linear(s, b->h, all, out, first == 0 ? 3 : 2, true);
    gw_view q = gw_from(b->q, first);
    if (first > 0 && q.n > 0) linear(s, gw_from(b->h, first), all + 2, &q, 1, true);
}

/* Where texts are seen both ways no layer's cache outlasts the layer. */
static uint32_t cache_of(const gw_config *c, uint32_t layer) { return c->arch->both_ways ? 0 : layer; }

void gw_forward_keep(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    bool global = c->is_global[layer];
    gw_view q = gw_from(b->q, first);

    norm(s, &w->attn_norm, b->x, b->h);
    project(s, w, first);
    norm_heads(s, &w->k_norm, b->k);
    rotate(s, b->k, global, 0, 1.0f);
    for (int i = 0; i < b->n_pieces; i++) {
        const gw_piece *p = &b->pieces[i];
        for (int t = 0; t < p->n; t++)
            gw_kv_store(&s->kv, cache_of(c, layer), p->cache + p->pos + t, gw_row(b->k, p->row + t),
                        gw_row(b->v, p->row + t));
    }
    if (q.n == 0) return;
    norm_heads(s, &w->q_norm, q);
    rotate(s, q, global, first, c->query_scale);
}

gw_heads gw_forward_heads(const gw_config *c, uint32_t layer, uint32_t length) {
    return (gw_heads){ .n_head = (int)c->n_head, .n_head_kv = (int)c->n_head_kv, .head_dim = (int)c->head_dim,
                       .window = c->is_global[layer] ? 0 : c->window, .both_ways = c->arch->both_ways ? length : 0,
                       .cap = c->attn_cap };
}

gw_kv_layer gw_forward_cache(const gw_state *s, uint32_t layer, const gw_piece *p) {
    return gw_kv_from(&s->kv, cache_of(s->config, layer), p->cache);
}

void gw_forward_attend(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    gw_batch *b = &s->batch;
    gw_view x = gw_from(b->x, first), a = b->a, h = b->h;
    a.n = h.n = x.n;

    for (int i = 0; i < b->n_pieces; i++) {
        gw_piece p = piece_from(b->pieces[i], first);
        if (!p.n) continue;
        gw_kv_layer rows = gw_forward_cache(s, layer, &p);
        gw_attention(&s->ops, gw_forward_heads(s->config, layer, p.length), &rows, p.pos, gw_row(b->q, p.row),
                     gw_ld(b->q.columns), p.n, gw_row(a, p.row - first));
    }
    linear(s, a, (const gw_linear *[]){ &w->o }, &h, 1, true);
    add(s, &w->post_attn_norm, h, x);
}

void gw_forward_feed(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    gw_batch *b = &s->batch;
    bool gated = w->gate.matrix.type != NULL;
    gw_view x = gw_from(b->x, first), h = b->h, gate = b->gate, up = b->up;
    h.n = gate.n = up.n = x.n;
    if (!gated) gate.at = NULL;

    norm(s, &w->ffn_norm, x, h);
    if (gated) linear(s, h, (const gw_linear *[]){ &w->gate, &w->up }, (gw_view[]){ gate, up }, 2, false);
    else linear(s, h, (const gw_linear *[]){ &w->up }, &up, 1, false);
    gw_activate(s->ops.pool, s->config->arch->act, gate, up);
    linear(s, gated ? gate : up, (const gw_linear *[]){ &w->down }, &h, 1, false);
    add(s, &w->post_ffw_norm, h, x);
}

void gw_forward_layer(gw_state *s, uint32_t layer, int first) {
    gw_forward_keep(s, layer, first);
    if (first == s->batch.n) return;
    gw_forward_attend(s, layer, first);
    gw_forward_feed(s, layer, first);
}

void gw_forward_hidden(gw_state *s) { norm(s, &s->weights->output_norm, s->batch.x, s->batch.h); }

void gw_forward_logits(gw_state *s, int first, int rows) {
    gw_view x = gw_from(s->batch.x, first), h = s->batch.h, y = s->logits;
    x.n = h.n = y.n = rows;
    norm(s, &s->weights->output_norm, x, h);
    linear(s, h, (const gw_linear *[]){ &s->weights->output }, &y, 1, true);
    gw_soft_cap(&s->ops, y.at, (size_t)rows * gw_ld(y.columns), s->config->logit_cap);
    for (int r = 1; r < rows; r++) memmove(y.at + (size_t)r * y.columns, gw_row(y, r), y.columns * sizeof(float));
}

/* What the output's matrix is given of one token. */
static const float *head_input(gw_state *s, int token) {
    gw_view x = gw_from(s->batch.x, token), h = s->batch.h;
    x.n = h.n = 1;
    norm(s, &s->weights->output_norm, x, h);
    return h.at;
}

void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n, const gw_rows *rows) {
    const float *x = head_input(s, token);
    gw_matmul_top(&s->ops, x, &s->weights->output.matrix, s->config->logit_cap, exact, n, rows, s->logits.at);
}

bool gw_forward_few(gw_state *s, int token, const gw_rows *rows) {
    const gw_matrix *output = &s->weights->output.matrix;
    if (!gw_few_rows(output, rows)) return false;
    gw_matmul_few(&s->ops, head_input(s, token), output, s->config->logit_cap, rows, s->logits.at);
    return true;
}
