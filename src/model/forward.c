/* forward: see forward.h */
#include "model/forward.h"
#include "model/attention.h"
#include "model/top.h"

#include <string.h>

void gw_forward_embed(gw_state *s, const int32_t *ids, uint32_t pos, int n) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    b->n = n;
    b->pos = pos;
    for (int t = 0; t < n; t++) {
        float *x = b->x + t * gw_ld(c->n_embd);
        gw_matrix_row(&s->weights->embedding, ids[t], x);
        for (uint32_t i = 0; i < c->n_embd; i++) x[i] *= c->embedding_scale;
    }
    gw_rope_angles(b->angles[0], n, pos, c->head_dim, c->rope_base_local, 1.0);
    gw_rope_angles(b->angles[1], n, pos, c->head_dim, c->rope_base, c->position_scale);
}

/* Queries, keys and values; queries only of the tokens from `first` on. */
static void project(gw_state *s, const gw_layer *w, int first) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    gw_ops *o = &s->ops;
    size_t ld = gw_ld(c->n_embd), ldq = gw_ld(c->n_head * c->head_dim);
    const gw_matrix *all[] = { &w->k, &w->v, &w->q };
    float *out[] = { b->k, b->v, b->q };
    gw_matmul(o, b->h, ld, b->n, all, out, first == 0 ? 3 : 2, true);
    if (first > 0 && first < b->n)
        gw_matmul(o, b->h + first * ld, ld, b->n - first, all + 2, (float *[]){ b->q + first * ldq }, 1, true);
}

static void attention_block(gw_state *s, const gw_layer *w, uint32_t layer, int first) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    gw_ops *o = &s->ops;
    bool global = c->is_global[layer];
    gw_heads heads = { .n_head = c->n_head, .n_head_kv = c->n_head_kv, .head_dim = c->head_dim,
                       .window = global ? 0 : c->window };
    size_t ld = gw_ld(c->n_embd), ldq = gw_ld(c->n_head * c->head_dim), ldk = gw_ld(c->n_head_kv * c->head_dim);
    int n = b->n - first;
    float *x = b->x + first * ld, *q = b->q + first * ldq;
    const float *angles = b->angles[global], *from = angles + (size_t)first * c->head_dim;

    gw_rmsnorm(o, b->x, ld, w->attn_norm, b->n, 1, c->n_embd, c->eps, false, b->h, ld);
    project(s, w, first);
    gw_rmsnorm(o, b->k, ldk, w->k_norm, b->n, c->n_head_kv, c->head_dim, c->eps, false, b->k, ldk);
    gw_rope(o, b->k, ldk, b->n, c->n_head_kv, c->head_dim, angles, 1.0f);
    for (int t = 0; t < b->n; t++) gw_kv_store(&s->kv, layer, b->pos + t, b->k + t * ldk, b->v + t * ldk);
    if (n == 0) return;
    gw_rmsnorm(o, q, ldq, w->q_norm, n, c->n_head, c->head_dim, c->eps, false, q, ldq);
    gw_rope(o, q, ldq, n, c->n_head, c->head_dim, from, c->query_scale);
    gw_attention(o, heads, &s->kv.layers[layer], b->pos + first, q, ldq, n, b->a);
    gw_matmul(o, b->a, ldq, n, (const gw_matrix *[]){ &w->o }, (float *[]){ b->h }, 1, true);
    gw_rmsnorm(o, b->h, ld, w->post_attn_norm, n, 1, c->n_embd, c->eps, true, x, ld);
}

static void feed_forward_block(gw_state *s, const gw_layer *w, int first) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    gw_ops *o = &s->ops;
    size_t ld = gw_ld(c->n_embd), ldf = gw_ld(c->n_ff);
    int n = b->n - first;
    float *x = b->x + first * ld;

    gw_rmsnorm(o, x, ld, w->ffn_norm, n, 1, c->n_embd, c->eps, false, b->h, ld);
    gw_matmul(o, b->h, ld, n, (const gw_matrix *[]){ &w->gate, &w->up }, (float *[]){ b->gate, b->up }, 2, false);
    gw_geglu(o, b->gate, b->up, n, ldf);
    gw_matmul(o, b->gate, ldf, n, (const gw_matrix *[]){ &w->down }, (float *[]){ b->h }, 1, false);
    gw_rmsnorm(o, b->h, ld, w->post_ffw_norm, n, 1, c->n_embd, c->eps, true, x, ld);
}

void gw_forward_layer(gw_state *s, uint32_t layer, int first) {
    attention_block(s, &s->weights->layers[layer], layer, first);
    if (first < s->batch.n) feed_forward_block(s, &s->weights->layers[layer], first);
}

void gw_forward_head(gw_state *s, int first, int rows) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    size_t ld = gw_ld(c->n_embd), ldv = gw_ld(c->n_vocab);
    gw_rmsnorm(&s->ops, b->x + first * ld, ld, s->weights->output_norm, rows, 1, c->n_embd, c->eps, false, b->h, ld);
    gw_matmul(&s->ops, b->h, ld, rows, (const gw_matrix *[]){ &s->weights->head }, (float *[]){ s->logits }, 1, true);
    if (ldv != c->n_vocab)   /* callers see rows of exactly n_vocab */
        for (int r = 1; r < rows; r++)
            memmove(s->logits + (size_t)r * c->n_vocab, s->logits + r * ldv, c->n_vocab * sizeof(float));
}

void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    size_t ld = gw_ld(c->n_embd);
    gw_rmsnorm(&s->ops, b->x + token * ld, ld, s->weights->output_norm, 1, 1, c->n_embd, c->eps, false, b->h, ld);
    gw_matmul_top(&s->ops, b->h, &s->weights->head, 0, exact, n, s->logits);
}
