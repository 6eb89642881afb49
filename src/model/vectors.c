/* vectors: see vectors.h. Outputs of a text's tokens are added one by one, in double, so that a vector's bits do not
 * depend on how texts are batched. */
#include "model/vectors.h"

#include <string.h>

void gw_vectors_init(gw_vectors *v, const gw_config *c, uint32_t texts, gw_arena *arena) {
    v->sum = gw_arena_take(arena, c->n_embd * sizeof *v->sum);
    v->rows = gw_view_take(arena, texts, c->n_embd);
    v->wide = gw_view_take(arena, c->n_dense ? texts : 0, c->n_dense);
}

static void add_segment(gw_vectors *v, gw_view h, const gw_segment *p) {
    uint32_t width = h.columns;
    bool first = p->pos == 0, last = p->pos + (uint32_t)p->n == p->length;
    float *out = gw_row(v->rows, (int)p->text);
    if (first) memset(v->sum, 0, width * sizeof *v->sum);
    for (int t = p->row; t < p->row + p->n; t++) {
        const float *x = gw_row(h, t);
        for (uint32_t i = 0; i < width; i++) v->sum[i] += x[i];
    }
    if (!last) return;
    const float *end = gw_row(h, p->row + p->n - 1);
    for (uint32_t i = 0; i < width; i++) out[i] = v->pooling == GW_POOL_LAST ? end[i] : (float)(v->sum[i] / p->length);
}

void gw_vectors_add(gw_vectors *v, gw_state *s) {
    gw_forward_hidden(s);
    for (int i = 0; i < s->batch.n_segments; i++) add_segment(v, s->batch.h, &s->batch.segments[i]);
}

void gw_vectors_finish(gw_vectors *v, gw_state *s, int n) {
    const gw_matrix *in = &s->weights->dense_2.matrix, *out = &s->weights->dense_3.matrix;
    if (!in->type) return;
    v->rows.n = v->wide.n = n;
    gw_matmul(&s->ops, &v->rows, &in, &v->wide.at, 1, true);
    gw_matmul(&s->ops, &v->wide, &out, &v->rows.at, 1, true);
}
