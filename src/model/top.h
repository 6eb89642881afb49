/* top: what the output's logits need besides a product: a soft cap, and, for greedy decoding, only those that may be
 * the greatest. */
#ifndef GW_TOP_H
#define GW_TOP_H

#include "model/ops.h"

/* x[n]: each becomes cap * tanh(x / cap); cap 0: nothing happens. */
void gw_soft_cap(gw_ops *o, float *x, size_t n, float cap);

/* For an arg max over y = gw_soft_cap(gw_matmul(x[k], m, wide)): y[r] is exactly that for the n rows in `exact`, the
 * greatest of all others, those equal to it, and those that a bound does not tell from it, and -INFINITY for the rest.
 * rows: those among which the greatest is looked for. Where the matrix has no planes, for all rows. Returns how many
 * panels the bound did not exclude. */
uint32_t gw_matmul_top(gw_ops *o, const float *x, const gw_matrix *m, float cap, const int32_t *exact, int n,
                       const gw_rows *rows, float *y);

/* Whether they are so few that gw_matmul_few takes less than all. */
bool gw_few_rows(const gw_matrix *m, const gw_rows *rows);
/* y = gw_soft_cap(gw_matmul(x[k], m, wide)) for rows of panels that have some of these, -INFINITY for the rest. */
void gw_matmul_few(gw_ops *o, const float *x, const gw_matrix *m, float cap, const gw_rows *rows, float *y);

/* For tests: what it knows of rows before any is computed exactly: y[r] approximates them, upper[r] is no less. */
void gw_matmul_bounds(gw_ops *o, const float *x, const gw_matrix *m, float *y, float *upper);

#endif
