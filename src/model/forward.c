/* forward: see forward.h */
#include "model/forward.h"
#include "model/attention.h"
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

static void rotate(gw_state *s, gw_view x, bool global, int first, float scale) {
    const gw_config *c = s->config;
    const float *angles = s->batch.angles[global];
    if (angles) angles += (size_t)first * c->head_dim;
    gw_rotate(s->ops.pool, x, c->head_dim, angles, c->arch->positions == GW_POSITIONS_PAIRS, scale);
}

void gw_forward_embed(gw_state *s, const int32_t *ids, uint32_t pos, int n) {
    const gw_config *c = s->config;
    const gw_weights *w = s->weights;
    gw_batch *b = &s->batch;
    b->n = b->x.n = b->h.n = b->q.n = b->a.n = b->k.n = b->v.n = b->gate.n = b->up.n = n;
    b->pos = pos;
    for (int t = 0; t < n; t++) {
        float *x = gw_row(b->x, t), *at = gw_row(b->h, t);
        gw_matrix_row(&w->embedding, (size_t)ids[t], x);
        for (uint32_t i = 0; i < c->n_embd; i++) x[i] *= c->embedding_scale;
        if (!w->positions.type) continue;
        gw_matrix_row(&w->positions, pos + (size_t)t, at);
        for (uint32_t i = 0; i < c->n_embd; i++) x[i] += at[i];
    }
    if (b->angles[0]) gw_rope_angles(b->angles[0], n, pos, c->head_dim, c->rope_base_local, 1.0, w->rope_factors);
    if (b->angles[1])
        gw_rope_angles(b->angles[1], n, pos, c->head_dim, c->rope_base, c->position_scale, w->rope_factors);
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

static void attention_block(gw_state *s, uint32_t layer, int first) {
    const gw_layer *w = &s->weights->layers[layer];
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    bool global = c->is_global[layer];
    gw_heads heads = { .n_head = (int)c->n_head, .n_head_kv = (int)c->n_head_kv, .head_dim = (int)c->head_dim,
                       .window = global ? 0 : c->window, .cap = c->attn_cap };
    gw_view x = gw_from(b->x, first), q = gw_from(b->q, first), a = b->a, h = b->h;
    a.n = h.n = x.n;

    norm(s, &w->attn_norm, b->x, b->h);
    project(s, w, first);
    norm_heads(s, &w->k_norm, b->k);
    rotate(s, b->k, global, 0, 1.0f);
    for (int t = 0; t < b->n; t++) gw_kv_store(&s->kv, layer, b->pos + t, gw_row(b->k, t), gw_row(b->v, t));
    if (x.n == 0) return;
    norm_heads(s, &w->q_norm, q);
    rotate(s, q, global, first, c->query_scale);
    gw_attention(&s->ops, heads, &s->kv.layers[layer], b->pos + first, q.at, gw_ld(q.columns), q.n, a.at);
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
    attention_block(s, layer, first);
    if (first < s->batch.n) gw_forward_feed(s, layer, first);
}

void gw_forward_logits(gw_state *s, int first, int rows) {
    gw_view x = gw_from(s->batch.x, first), h = s->batch.h, y = s->logits;
    x.n = h.n = y.n = rows;
    norm(s, &s->weights->output_norm, x, h);
    linear(s, h, (const gw_linear *[]){ &s->weights->output }, &y, 1, true);
    gw_soft_cap(&s->ops, y.at, (size_t)rows * gw_ld(y.columns), s->config->logit_cap);
    for (int r = 1; r < rows; r++) memmove(y.at + (size_t)r * y.columns, gw_row(y, r), y.columns * sizeof(float));
}

void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n) {
    gw_view x = gw_from(s->batch.x, token), h = s->batch.h;
    x.n = h.n = 1;
    norm(s, &s->weights->output_norm, x, h);
    gw_matmul_top(&s->ops, h.at, &s->weights->output.matrix, s->config->logit_cap, exact, n, s->logits.at);
}
