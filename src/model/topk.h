/* topk: the soft cap of logits, and the two-stage output head, which computes only logits that may be among the k
 * greatest. */
#ifndef GW_TOPK_H
#define GW_TOPK_H

#include "model/ops.h"

/* Replaces each of x[n] by cap * tanh(x / cap); does nothing if cap is 0. */
void gw_soft_cap(gw_ops *o, float *x, size_t n, float cap);

/* The rows whose logits are needed: the n in `required`, and the `best` greatest of the other `rows`. */
typedef struct {
    uint32_t best;
    int n;
    const int32_t *required;
    gw_rows rows;
    float *to; /* [gw_ld(rows)] destination of the logits; NULL: y of gw_matmul_topk */
} gw_topk;

/* Computes y[n][gw_ld(rows)] = gw_soft_cap(gw_matmul(x[n][ldx], m, int15)) exactly for the rows of t and for every row
 * that the bound cannot exclude; sets the others to -INFINITY. Computes all rows if the matrix has no planes, or too
 * few parts for the bound to exclude rows. Returns the number of panels not excluded, the maximum over the rows of
 * x. */
uint32_t gw_matmul_topk(gw_ops *o, const float *x, size_t ldx, int n, const gw_matrix *m, float cap, const gw_topk *t,
                        float *y);

/* Returns whether gw_matmul_few is faster than computing all rows. */
bool gw_few_rows(const gw_matrix *m, const gw_rows *rows);
/* Computes y = gw_soft_cap(gw_matmul(x[k], m, int15)) for the panels that contain a row of `rows`, -INFINITY
 * elsewhere. */
void gw_matmul_few(gw_ops *o, const float *x, const gw_matrix *m, float cap, const gw_rows *rows, float *y);

/* For tests: runs the first pass. y[r] approximates logit r, upper[r] is an upper bound. middle: reads the middle
 * plane. */
void gw_matmul_bounds(gw_ops *o, const float *x, const gw_matrix *m, bool middle, float *y, float *upper);

#endif
