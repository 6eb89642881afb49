/* ops: the operations of the forward pass over a batch of n tokens, spread over the pool's threads.
 * A token's result never depends on the others in its batch nor on the thread count. Matrices of
 * floats are [n][ld]; ld is a multiple of 4, so that a kernel may write whole panels. */
#ifndef GW_OPS_H
#define GW_OPS_H

#include "base/pure.h"
#include "model/matrix.h"

typedef struct {
    gw_pool *pool;
    gw_acts acts;    /* buffers for a batch's quantised activations; sequential: as in kernels.h */
    uint8_t *places; /* [GW_PLACES][place_bytes]: for products of one row */
    size_t place_bytes;
    float *partial; /* for attention of one token, see attention.c */
} gw_ops;

enum { GW_JOB_BYTES = 16384 };

/* Buffers for batches of `batch` rows of up to k_max columns, and for `partials` floats of attention. */
void gw_ops_init(gw_ops *o, gw_pool *pool, uint32_t batch, size_t k_max, uint64_t partials, gw_arena *arena);

/* For a product of one row, whose items are pure (pure.h): a place with GW_JOB_BYTES for what they share, and, behind
 * these, x[k] quantised, which is in acts. */
void *gw_ops_row(const gw_ops *o, const float *x, size_t k, bool int8, bool int15, gw_acts *acts);

/* y[i][n][gw_ld(rows i)] = x[n][ldx] times matrix i, for `count` matrices of equal k at once.
 * `int15`: int15 activations (kernels.h) for all quantised types: for the output head, where the error is seen
 * directly, and around attention, a tenth of the work whose error would be three quarters of the whole.
 * Q8_0 always has them; otherwise types of 2 to 6 bits have int8 ones. */
void gw_matmul(gw_ops *o, const float *x, size_t ldx, int n, const gw_matrix *const *m, float *const *y, int count,
               bool int15);

/* Some rows of a matrix: bit r % 32 of word r / 32, behind the words none. bits: NULL: all of them. */
typedef struct {
    const uint32_t *bits;
    uint32_t words;
} gw_rows;

/* Which rows of panel p are among them, as 4 bits. */
static inline uint32_t gw_rows_of(const gw_rows *rows, uint32_t p) {
    if (!rows->bits) return 15;
    return p / 8 < rows->words ? rows->bits[p / 8] >> p % 8 * GW_PANEL & 15 : 0;
}

/* y[r] as gw_matmul gives it for one row of x, int15, where r's panel has one of these rows, -INFINITY elsewhere. */
void gw_matmul_some(gw_ops *o, const float *x, const gw_matrix *m, const gw_rows *rows, float *y);

#endif
