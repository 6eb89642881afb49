/* ops: the operations of the forward pass over a batch of n tokens, spread over the pool's threads.
 * A token's result never depends on the others in its batch nor on the thread count. Matrices of
 * floats are [n][ld]; ld is a multiple of 4, so that a kernel may write whole panels. */
#ifndef GW_OPS_H
#define GW_OPS_H

#include "kernels/kernels.h"
#include "file/types.h"
#include "base/pure.h"

typedef struct {
    const gw_type *type;
    uint32_t rows, k;
    uint8_t *data;        /* packed, see kernels.h; owned by the model's arena, as are the next two */
    uint8_t *low;         /* the low plane, where data is the high one of two (Q8_0 only); else NULL */
    float *norms;         /* [2][gw_ld(rows)] of its rows: high parts, low parts */
} gw_matrix;

typedef struct {
    gw_pool *pool;
    gw_acts acts;         /* buffers for a batch's quantised activations; streams: as in kernels.h */
    uint8_t *places;      /* [GW_PLACES][place_bytes]: for products of one row */
    size_t place_bytes;
    float *partial;       /* for attention of one token, see attention.c */
} gw_ops;

enum { GW_JOB_BYTES = 16384 };

static inline size_t gw_ld(size_t rows) { return gw_round_up(rows, GW_PANEL); }

/* Buffers for batches of `batch` rows of up to k_max columns, and for `partials` floats of attention. */
void gw_ops_init(gw_ops *o, gw_pool *pool, uint32_t batch, size_t k_max, uint64_t partials, gw_arena *arena);

/* For a product of one row, whose items are pure (pure.h): a place with GW_JOB_BYTES for what they share, and, behind
 * these, x[k] quantised, which is in acts. */
void *gw_ops_row(const gw_ops *o, const float *x, size_t k, bool narrow, bool wide, gw_acts *acts);

/* y[i][n][gw_ld(rows i)] = x[n][ldx] times matrix i, for `count` matrices of equal k at once.
 * `wide`: wide activations (kernels.h) for all quantised types: for the output head, where the error is seen
 * directly, and around attention, a tenth of the work whose error would be three quarters of the whole.
 * Q8_0 always has them; otherwise types of 2 to 6 bits have narrow ones. */
void gw_matmul(gw_ops *o, const float *x, size_t ldx, int n, const gw_matrix *const *m, float *const *y,
               int count, bool wide);

/* Row `row` of a matrix as floats[k]. */
void gw_matrix_row(const gw_matrix *m, size_t row, float *out);

/* out[n][ldo] = rmsnorm(x[n][ldx]) * w over `heads` groups of d columns each; add: out += instead.
 * y = x / sqrt(mean(x^2) + eps) * w (Zhang & Sennrich 2019; a GGUF stores Gemma's 1 + w). */
void gw_rmsnorm(gw_ops *o, const float *x, size_t ldx, const float *w, int n, int heads, int d, float eps,
                bool add, float *out, size_t ldo);

/* Rotate halves (i, i + d/2) of each head of x[n][ldx] by position * base^(-2i/d) (Su et al. 2021),
 * then multiply by scale. angles: [n][d], filled by gw_rope_angles. */
void gw_rope_angles(float *angles, int n, uint32_t pos, int d, double base, double position_scale);
void gw_rope(gw_ops *o, float *x, size_t ldx, int n, int heads, int d, const float *angles, float scale);

/* gate = gelu_tanh(gate) * up */
void gw_geglu(gw_ops *o, float *gate, const float *up, int n, size_t width);

#endif
