/* topk: the soft cap of logits, and the two-stage output head, which computes only logits that may be among the k
 * greatest. */
#ifndef GW_TOPK_H
#define GW_TOPK_H

#include "model/ops.h"

/* Replaces each of x[n] by cap * tanh(x / cap); does nothing if cap is 0. */
void gw_soft_cap(gw_ops *o, float *x, size_t n, float cap);

/* The rows of the output matrix whose logits are needed: the n rows in `required` and, of the other rows in `rows`, the
 * `best` ones with the greatest logits. */
typedef struct {
    uint32_t best;
    int n;
    const int32_t *required;
    gw_rows rows;
    float *to; /* [gw_ld(rows)] destination of the logits; NULL: the argument y of gw_matmul_topk */
} gw_topk;

/* Computes logits y[n][gw_ld(m->rows)] = gw_soft_cap(gw_matmul(x, m, int15)) for n rows x of hidden states. For row i,
 * the logits that t[i] asks for are exact, and so are all others that an upper bound (topk.c) cannot exclude; excluded
 * ones become -INFINITY. All are exact if m has no norms, or is too small for the bound to exclude any. Returns the
 * number of panels of m (4 logits each) that were not excluded: the maximum of all rows of x. */
uint32_t gw_matmul_topk(gw_ops *o, const gw_view *x, const gw_matrix *m, float cap, const gw_topk *t, float *y);

/* Returns whether gw_matmul_few is faster for these rows than computing all logits. */
bool gw_few_rows(const gw_matrix *m, const gw_rows *rows);
/* Computes logits y = gw_soft_cap(gw_matmul(x[k], m, int15)) for the panels that contain a row of `rows`; all other
 * logits become -INFINITY. */
void gw_matmul_few(gw_ops *o, const float *x, const gw_matrix *m, float cap, const gw_rows *rows, float *y);

/* Runs the first pass of the two-stage output head, for tests: y[r] approximates logit r, upper[r] is an upper bound of
 * logit r. middle: whether the pass reads the middle plane. */
void gw_matmul_bounds(gw_ops *o, const float *x, const gw_matrix *m, bool middle, float *y, float *upper);

#endif
