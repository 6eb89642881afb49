/* ops: the operations of the forward pass over a batch of n tokens, spread over the pool's threads. A token's result
 * never depends on its batch or on the thread count. Matrices of floats are [n][ld]; ld is a multiple of 4, so that a
 * kernel may write whole panels. */
#ifndef GW_OPS_H
#define GW_OPS_H

#include "base/pure.h"
#include "model/matrix.h"

typedef struct {
    gw_pool *pool;
    gw_acts acts;
    uint8_t *places; /* [GW_PLACES][place_bytes] memory areas (base/pure.h) for products with one row of activations */
    size_t place_bytes;
    float *partial; /* scratch memory of gw_attention() for batches of a single token */
} gw_ops;

enum { GW_JOB_BYTES = 16384 };

/* Allocates buffers for batches of `batch` rows of up to k_max columns, and for `partials` floats of attention. */
void gw_ops_init(gw_ops *o, gw_pool *pool, uint32_t batch, size_t k_max, uint64_t partials, gw_arena *arena);

/* Returns a memory area (base/pure.h) for the product of a matrix and one row of activations: GW_JOB_BYTES for the job,
 * followed by x[k], quantised. Sets *acts to describe the quantised x. */
void *gw_ops_row(const gw_ops *o, const float *x, size_t k, bool int8, bool int15, gw_acts *acts);

/* Returns the first k columns of x as a batch, which kernels quantise to the buffers of o. */
gw_acts gw_ops_batch(const gw_ops *o, const gw_view *x, size_t k);

/* Multiplies `panels` panels of a matrix, from index `first` on, by int15 or int8 activations (by floats if the weights
 * are floats). Sets y[t][0 .. 4 * panels) for each row t of the activations. Rows of y are ld floats apart. */
void gw_multiply_panels(const gw_matrix *m, bool int15, uint32_t first, uint32_t panels, const gw_acts *acts, float *y,
                        size_t ld);
/* Multiplies the n listed panels by one row of int15 activations. Panel p sets y[4 p .. 4 p + 3]. */
void gw_multiply_listed(const gw_matrix *m, const uint32_t *list, int n, const gw_acts *acts, float *y);

/* Computes y[i][n][gw_ld(rows i)] = x times matrix i, for the n rows of x and `count` matrices of equal k at once.
 * int15: whether all quantised types use int15 activations (kernels.h); if not, only Q8_0 does, and the others use
 * int8. The output head needs int15, because its errors are directly visible; the products around attention need it,
 * because they are a tenth of the work, but would cause three quarters of the error with int8. */
void gw_matmul(gw_ops *o, const gw_view *x, const gw_matrix *const *m, float *const *y, int count, bool int15);

/* A set of rows of a matrix: bit r % 32 of word r / 32; rows beyond the last word are not in the set. bits NULL: all
 * rows. */
typedef struct {
    const uint32_t *bits;
    uint32_t words;
} gw_rows;

/* Returns which of the four rows of panel p are in a set of rows, as 4 bits. */
static inline uint32_t gw_rows_of(const gw_rows *rows, uint32_t p) {
    if (!rows->bits) return 15;
    return p / 8 < rows->words ? rows->bits[p / 8] >> p % 8 * GW_PANEL & 15 : 0;
}

/* Multiplies matrix m by one row x of int15 activations. Computes only the panels with a row in `rows`; all other
 * elements of y become -INFINITY. */
void gw_matmul_some(gw_ops *o, const float *x, const gw_matrix *m, const gw_rows *rows, float *y);

#endif
