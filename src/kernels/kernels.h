/* kernels: the inner loops. ref.c is the reference implementation; the SIMD kernels produce the same bits
 * (tests/c/test_kernels.c), so every build and every thread count gives the same logits. Only this header chooses the
 * kernels of a build.
 *
 *             |<- block ->|           block   32 columns with one scale, or with one for each half
 *       +-----------------------      group   one block, or a super-block of 8 with one header
 *   row 0   s ########### s ###       panel   4 rows, stored together group by group; row r is lane r of a vector,
 *   row 1   s ########### s ###               so no kernel has to add up the lanes of a vector
 *   row 2   s ########### s ###       plane   some bits of numbers that are split: hi and lo of int15 activations,
 *   row 3   s ########### s ###               or the high, middle and low bits of an output head
 *       +-----------------------      tile    2 panels by 4 rows of activations, so that all sums fit the registers
 *   row 4   next panel                chunk   some blocks of 2 panels, unpacked once for all tiles
 *
 * Packed weights, one panel after the other:
 *   F32, F16, BF16   [k][4] elements: column by column, the four rows side by side
 *   Q4_0             a block is 72 bytes: 4 scales f16, then 4 vectors of 16 bytes; byte 4 r + i of vector g holds
 *                    row r, column 4 g + i (low nibble) and 16 + 4 g + i (high nibble); value = scale * (nibble - 8)
 *   Q8_0             136 bytes: 4 scales f16, then 8 vectors; byte 4 r + i of vector g holds row r, column 4 g + i;
 *                    value = scale * byte
 *   all others       see file/formats.h
 *
 * Activations are quantised once per row, in blocks of 32. int8: scale = largest magnitude / 127; int15:
 * scale = largest magnitude / 8192; q = 128 hi + lo, hi in -64 .. 64, lo in -64 .. 63. With such small planes, the sum
 * of two products with 8-bit quants fits 16 bits (2 * 64 * 255); JavaScript engines without a better instruction add
 * products in 16 bits. Products of a block are summed exactly in integers, then, block after block, in float32:
 *   y[row] += (float)sum * (weight scale * activation scale)
 *   y[row] += min * (activation scale * (float)(sum of the activations))        for formats with mins
 * If each half of a block has its own scale and min, these are small integers times a common float: both sums include
 * the integers, and the float is used as the scale or min. */
#ifndef GW_KERNELS_H
#define GW_KERNELS_H

#include "base/base.h"
#include "file/formats.h"

enum { GW_PANEL = 4, GW_BLOCK = 32, GW_Q4_BYTES = 72, GW_Q8_BYTES = 136 };
/* GW_SPAN: attention positions in a span. GW_KEYS, GW_HEADS: maximum cache rows and queries in a call of an attention
 * kernel. */
enum { GW_SPAN = 128, GW_KEYS = 32, GW_HEADS = 4 };

/* GW_HAVE_SIMD: the build has kernels with 128-bit vectors, which SIMDe emulates in native builds. GW_HAVE_RELAXED:
 * products use relaxed SIMD and are named gw_relaxed_… instead of gw_simd_…. Native builds define it (GW_RELAXED_SIMDE)
 * only for tests. */
#if defined(__wasm_simd128__) || defined(GW_SIMDE)
#define GW_HAVE_SIMD 1
#endif
#if defined(__wasm_relaxed_simd__) || (defined(GW_SIMDE) && defined(GW_RELAXED_SIMDE))
#define GW_HAVE_RELAXED 1
#endif

/* int8 activations are stored as int8_t if the build multiplies bytes, else as int16_t. */
#if defined(GW_HAVE_RELAXED)
typedef int8_t gw_int8;
#else
typedef int16_t gw_int8;
#endif

/* int16 activations are stored in the order 0 2 1 3 within every four columns: a 16-bit lane of a weight vector holds
 * columns 0 and 1 (or 2 and 3) of one row as low and high byte, so masking and shifting lanes yields columns (0, 2) and
 * (1, 3). int8 activations keep their order. */
#define GW_INT16_ORDER(c) (((c) & ~3) | ((c) & 1) << 1 | ((c) >> 1 & 1))

enum { GW_INT8_TOP = 127, GW_INT15_TOP = 64 * 128 }; /* largest magnitude of quantised activations: int8 and int15 */

#define GW_TINY 1e-30f /* blocks of activations of at most this magnitude are quantised to zeros */

/* A batch of n rows of k activations. Unused pointers are NULL. Equal-numbered blocks of all rows are adjacent: block b
 * of row t has index b * stride + t, so the rows of a tile are at fixed distances. The stride is odd, because otherwise
 * the blocks of one row would compete for a few sets of the CPU cache. */
typedef struct {
    int n;
    size_t k, stride;
    const float *x;
    size_t ldx;              /* [n][ldx] */
    gw_int8 *q8;             /* [k / 32][stride][32], -127..127 */
    float *s8;               /* [k / 32][stride] */
    int32_t *sum8, *half8;   /* [k / 32][stride], sums of q8 over each block and over its first half */
    int16_t *q16;            /* [k / 32][stride][32], -8192..8192; relaxed build: 32 high int8, 32 low int8 */
    float *s16;              /* [k / 32][stride] */
    int32_t *sum16, *half16; /* [k / 32][stride] */
    /* With one row (decode): 1 if kernels read panels of weights one after the other, 0 if several at once. */
    int sequential;
} gw_acts;

static inline size_t gw_acts_stride(int n) { return (size_t)n | 1; }

/* Multiplies `panels` panels of weights w by a->n rows of activations: sets y[t][0 .. 4 * panels) for each row t, rows
 * of y being ldy floats apart. */
typedef void gw_matmul_kernel(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy);

/* Quantises k columns of row t of a->x, beginning at column `from`. Both k and `from` are multiples of 32. */
typedef void gw_quantise_kernel(const gw_acts *a, int t, size_t from, size_t k);

/* Attention kernels multiply up to GW_HEADS queries by the same n <= GW_KEYS rows of a cache at once, so that each row
 * is read once. A row holds d items, a multiple of 8; rows are `stride` bytes apart:
 *   f32        floats
 *   i16        d int16, -32767..32767, a float scale, and 12 unused bytes, so that no vector crosses a cache line;
 *              value = scale * int16
 *   q8         d signed bytes, then a bfloat16 for each 32 of them (the last may have fewer); value = scale * byte
 * With i16 keys, a query is an i16 row, too, and products are summed exactly in int32: lane l of a vector adds the
 * products of items i with i / 2 mod 4 = l. In every row, the norm of a lane's items is at most GW_I16_NORM, so by the
 * Cauchy-Schwarz inequality no partial sum exceeds GW_I16_NORM^2 < 2^31. */
enum { GW_MAX_HEAD_DIM = 512, GW_I16_TOP = 32767, GW_I16_LANES = 4, GW_I16_NORM = 46340 };
#define GW_I16_BYTES(d) ((d) * sizeof(int16_t) + 16)

/* Computes scores[h * GW_SPAN + j] = dot(q[h], key j) from four partial sums, added as (0 + 1) + (2 + 3).
 * f32, q8: q[h] are floats; item i belongs to sum i mod 4. i16: sums are by lane; they are converted to float and
 * added, and the total is multiplied by the product of the two scales. */
typedef void gw_scores_kernel(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d,
                              float *scores);
/* Computes out[h][0..d) += p[h * GW_SPAN] v[0] + p[h * GW_SPAN + 1] v[1] + …, in this order.
 * i16: the weights w[j] = p[j] * scale of v[j] are rounded to integer multiples of a step, the larger of (largest w) /
 * 32767 and (sum of w) / 65500; if it is below GW_TINY, all multiples are 0. The multiples add up to at most 65500 + n
 * / 2, so sums of products with int16 stay below 2^31. out[h] += (float)sum * step. */
typedef void gw_mix_kernel(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,
                           float *const *out);
enum { GW_I16_SUM = 65500 };
/* Converts n cache rows of d items to floats, out[n][d]. */
typedef void gw_widen_kernel(const uint8_t *rows, size_t stride, int n, int d, float *out);
/* Sets p[j] = exp(p[j] - max). Returns their sum: four partial sums (index mod 4), added as (0 + 1) + (2 + 3). */
typedef float gw_weigh_kernel(float *p, int n, float max);
/* Sets x[j] = cap * tanh(x[j] / cap) for j < n. */
typedef void gw_cap_kernel(float *x, int n, float cap);

/* Rounds k floats of a row in a GGUF file (F32, F16 or BF16, unaligned) to Q8_0 blocks in the file's layout. `blocks`
 * may be `row` or a lower address. k is a multiple of 32. */
typedef void gw_round_kernel(const uint8_t *row, size_t k, uint8_t *blocks);

/* The matrix of the two-stage output head (model/topk.c): Q8_0 in three planes of 4, 2 and 2 bits,
 * quant + 128 = 16 n + 4 m + l. A block of a panel has
 *   high           the layout of Q4_0, with nibbles n
 *   middle, low    2 vectors of 16 bytes each: byte 4 r + i of vector g / 2 holds m or l of row r, column 4 g + i at
 *                  bit 2 (g mod 2), of column 16 + 4 g + i at bit 4 + 2 (g mod 2)
 * Without relaxed SIMD, multiplying two planes takes as long as all of them, so there is no middle plane: the low plane
 * has the vectors of the high plane, with nibbles 4 m + l. */
typedef struct {
    uint8_t *high, *middle, *low;
} gw_planes;

#if defined(GW_HAVE_RELAXED)
#define GW_MIDDLE_PLANE 1
#else
#define GW_MIDDLE_PLANE 0
#endif
/* Whether products with int8 activations are faster than with int15. simd128 builds compute both with int16. */
#if defined(__wasm_simd128__) && !defined(GW_HAVE_RELAXED)
#define GW_FASTER_INT8 0
#else
#define GW_FASTER_INT8 1
#endif
/* Bytes per plane of a block: 32 columns of a panel's four rows. */
enum { GW_HIGH_BYTES = GW_Q4_BYTES, GW_MIDDLE_BYTES = GW_MIDDLE_PLANE ? 32 : 0, GW_LOW_BYTES = 64 - GW_MIDDLE_BYTES };

static inline gw_planes gw_planes_from(gw_planes w, size_t block) {
    return (gw_planes){ w.high + block * GW_HIGH_BYTES, w.middle + block * GW_MIDDLE_BYTES,
                        w.low + block * GW_LOW_BYTES };
}

/* Returns the quant in row r (0..3), column c (0..31) of the first block, plus 128. */
static inline int gw_planes_code(gw_planes w, int r, int c) {
    int g = c % 16 / 4, at = 4 * r + c % 4, shift = c / 16 * 4, n = w.high[8 + 16 * g + at] >> shift & 15;
    int byte = g / 2 * 16 + at, two = shift + g % 2 * 2;
    if (!GW_MIDDLE_PLANE) return 16 * n + (w.low[16 * g + at] >> shift & 15);
    return 16 * n + 4 * (w.middle[byte] >> two & 3) + (w.low[byte] >> two & 3);
}

/* planes_high multiplies the high plane, whose nibbles n stand for quants 16 n - 120, by int8 activations; planes_upper
 * the high and middle planes, for quants 16 n + 4 m - 126. planes_whole multiplies all planes by int15 activations,
 * with the same bits as matmul_q8_int15. Results are y[t][0 .. 4 * panels) for row t. */
typedef void gw_planes_kernel(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy);
/* Multiplies all planes of the n listed panels by one row of int15 activations. Panel p sets y[4 p .. 4 p + 3]. */
typedef void gw_some_kernel(gw_planes w, const uint32_t *panel, int n, const gw_acts *a, float *y);

/* Return the quantised activation in column c of a block of gw_acts.q8 or gw_acts.q16. */
static inline int32_t gw_int8_at(const gw_int8 *block, size_t c) {
    return block[sizeof(gw_int8) == 1 ? c : GW_INT16_ORDER(c)];
}
static inline int32_t gw_int15_at(const int16_t *block, size_t c) {
#if defined(GW_HAVE_RELAXED)
    return 128 * ((const int8_t *)block)[c] + ((const int8_t *)block)[GW_BLOCK + c];
#else
    return block[GW_INT16_ORDER(c)];
#endif
}

#define GW_FLOAT_KERNELS(X)          \
    X(gw_matmul_kernel, matmul_f32)  \
    X(gw_matmul_kernel, matmul_f16)  \
    X(gw_matmul_kernel, matmul_bf16) \
    X(gw_scores_kernel, scores_f32)  \
    X(gw_scores_kernel, scores_i16)  \
    X(gw_scores_kernel, scores_q8)   \
    X(gw_mix_kernel, mix_f32)        \
    X(gw_mix_kernel, mix_i16)        \
    X(gw_mix_kernel, mix_q8)         \
    X(gw_widen_kernel, widen_q8)     \
    X(gw_weigh_kernel, weigh)        \
    X(gw_cap_kernel, soft_cap)       \
    X(gw_round_kernel, round_f32)    \
    X(gw_round_kernel, round_f16)    \
    X(gw_round_kernel, round_bf16)

/* The kernels for quantised activations. There are also planes_upper, in ref.c and in builds with a middle plane, and
 * GW_FORMAT_KERNELS of each weight format (Q8_0: int15 only, except in ref.c). */
#define GW_INT_KERNELS(X)                \
    X(gw_planes_kernel, planes_high)     \
    X(gw_planes_kernel, planes_whole)    \
    X(gw_some_kernel, planes_some)       \
    X(gw_quantise_kernel, quantise_int8) \
    X(gw_quantise_kernel, quantise_int15)
#define GW_FORMAT_KERNELS(NAME, name, ...)       \
    GW_KERNEL_X(gw_matmul_kernel, matmul_##name) \
    GW_KERNEL_X(gw_matmul_kernel, matmul_##name##_int15)

#define GW_KERNEL_X(type, name) type gw_ref_##name;
GW_FLOAT_KERNELS(GW_KERNEL_X)
GW_INT_KERNELS(GW_KERNEL_X)
GW_KERNEL_X(gw_planes_kernel, planes_upper)
GW_ALL_FORMATS(GW_FORMAT_KERNELS)
#undef GW_KERNEL_X

#ifdef GW_HAVE_SIMD
#define GW_KERNEL_X(type, name) type gw_simd_##name;
GW_FLOAT_KERNELS(GW_KERNEL_X)
#ifdef GW_HAVE_RELAXED
#undef GW_KERNEL_X
#define GW_KERNEL_X(type, name) type gw_relaxed_##name;
GW_KERNEL_X(gw_planes_kernel, planes_upper)
#endif
GW_INT_KERNELS(GW_KERNEL_X)
GW_ALL_FORMATS(GW_FORMAT_KERNELS)
#undef GW_KERNEL_X
#endif

/* Switches for instructions that some JavaScript engines execute wrongly. Set by tests and by failed checks
 * (proof.h). */
extern volatile bool gw_simd_no_swizzle;     /* simd128 build: use slower code instead of i8x16.swizzle */
extern volatile bool gw_relaxed_only_7_bits; /* relaxed build: multiply only bytes below 128 */
extern volatile int gw_relaxed_pairs;        /* relaxed build: add pairs of products in 16 bits: 1, 0, or -1 to probe */
enum { GW_PAIRS_ASK = -1 };

/* The JavaScript engine that native builds imitate (relaxed.c): x86 without AVX-VNNI (unsigned bytes, pairs of products
 * saturate in 16 bits), x86 with AVX-VNNI (unsigned bytes), ARM (signed bytes); and the instruction that this engine
 * executes wrongly. */
extern int gw_relaxed_engine, gw_relaxed_fault;
enum { GW_ENGINE_PAIRS, GW_ENGINE_UNSIGNED, GW_ENGINE_SIGNED };
enum { GW_FAULT_NONE, GW_FAULT_PAIRS, GW_FAULT_DOT, GW_FAULT_SWIZZLE, GW_FAULT_8_BITS };

/* GW_KERNEL(name): this build's function for a float kernel; GW_KERNEL_INT(name): for a kernel of quantised
 * activations. */
#if defined(GW_HAVE_RELAXED)
#define GW_KERNEL_INT(name) gw_relaxed_##name
#define GW_KERNEL(name) gw_simd_##name
#define GW_BUILD "relaxed"
#elif defined(__wasm_simd128__)
#define GW_KERNEL_INT(name) gw_simd_##name
#define GW_KERNEL(name) gw_simd_##name
#define GW_BUILD "simd128"
#else
#define GW_KERNEL_INT(name) gw_ref_##name
#define GW_KERNEL(name) gw_ref_##name
#define GW_BUILD "reference"
#endif

/* Returns exp(x), with the same bits in every build: range reduction and the degree-5 minimax polynomial of Cephes
 * expf, relative error 2e-7. x is clamped to [-87, 88]. NaN (from a corrupt file's weights) stays NaN. */
static inline float gw_exp(float x) {
    if (x != x) return x;
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float n = __builtin_rintf(x * 1.44269504088896341f);
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    union {
        uint32_t u;
        float f;
    } two_n = { .u = (uint32_t)((int32_t)n + 127) << 23 };
    return p * two_n.f;
}

/* Returns cap * tanh(x / cap), with the same bits in every build and an error of at most GW_CAP_ERROR * cap
 * (test_attention.c): tanh |u| = (1 - e) / (1 + e), e = exp(-2 |u|). NaN stays NaN. */
#define GW_CAP_ERROR 5e-7
static inline float gw_capped(float x, float cap) {
    float e = gw_exp(__builtin_fabsf(x) * (-2.0f / cap));
    return __builtin_copysignf((1.0f - e) / (1.0f + e) * cap, x);
}

#endif
