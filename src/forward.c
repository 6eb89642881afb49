/* forward: see forward.h */
#include "forward.h"

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

static void attention_block(gw_state *s, const gw_layer *w, uint32_t layer) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    gw_ops *o = &s->ops;
    bool global = c->is_global[layer];
    gw_heads heads = { c->n_head, c->n_head_kv, c->head_dim, global ? 0 : c->window };
    const float *angles = b->angles[global];
    size_t ld = gw_ld(c->n_embd), ldq = gw_ld(c->n_head * c->head_dim), ldk = gw_ld(c->n_head_kv * c->head_dim);

    gw_rmsnorm(o, b->x, ld, w->attn_norm, b->n, 1, c->n_embd, c->eps, false, b->h, ld);
    gw_matmul(o, b->h, ld, b->n, (const gw_matrix *[]){ &w->q, &w->k, &w->v }, (float *[]){ b->q, b->k, b->v },
              3, true);
    gw_rmsnorm(o, b->q, ldq, w->q_norm, b->n, c->n_head, c->head_dim, c->eps, false, b->q, ldq);
    gw_rmsnorm(o, b->k, ldk, w->k_norm, b->n, c->n_head_kv, c->head_dim, c->eps, false, b->k, ldk);
    gw_rope(o, b->q, ldq, b->n, c->n_head, c->head_dim, angles, c->query_scale);
    gw_rope(o, b->k, ldk, b->n, c->n_head_kv, c->head_dim, angles, 1.0f);
    for (int t = 0; t < b->n; t++) gw_kv_store(&s->kv, layer, b->pos + t, b->k + t * ldk, b->v + t * ldk);
    gw_attention(o, heads, &s->kv.layers[layer], b->pos, b->q, ldq, b->n, b->a);
    gw_matmul(o, b->a, ldq, b->n, (const gw_matrix *[]){ &w->o }, (float *[]){ b->h }, 1, true);
    gw_rmsnorm(o, b->h, ld, w->post_attn_norm, b->n, 1, c->n_embd, c->eps, true, b->x, ld);
}

static void feed_forward_block(gw_state *s, const gw_layer *w) {
    const gw_config *c = s->config;
    gw_batch *b = &s->batch;
    gw_ops *o = &s->ops;
    size_t ld = gw_ld(c->n_embd), ldf = gw_ld(c->n_ff);

    gw_rmsnorm(o, b->x, ld, w->ffn_norm, b->n, 1, c->n_embd, c->eps, false, b->h, ld);
    gw_matmul(o, b->h, ld, b->n, (const gw_matrix *[]){ &w->gate, &w->up }, (float *[]){ b->gate, b->up }, 2, false);
    gw_geglu(o, b->gate, b->up, b->n, ldf);
    gw_matmul(o, b->gate, ldf, b->n, (const gw_matrix *[]){ &w->down }, (float *[]){ b->h }, 1, false);
    gw_rmsnorm(o, b->h, ld, w->post_ffw_norm, b->n, 1, c->n_embd, c->eps, true, b->x, ld);
}

void gw_forward_layer(gw_state *s, uint32_t layer) {
    attention_block(s, &s->weights->layers[layer], layer);
    feed_forward_block(s, &s->weights->layers[layer]);
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
    gw_matmul_top(&s->ops, b->h, &s->weights->head, exact, n, s->logits);
}
