/* kernels: the inner loops, one verb each. ref.c is the specification; the SIMD files
 * must agree with it bit for bit (tests/c/test_kernels.c), so that every build and every thread
 * count gives the same logits. This header is the only place where a build chooses.
 *
 * Packed weights: panels of GW_PANEL = 4 rows, one panel behind the other.
 *   F32, F16, BF16   [k][4] elements: column by column, the four rows side by side
 *   Q4_0             per block of 32 columns 72 bytes: 4 scales f16, then 4 x 16 bytes; byte
 *                    4 r + i of vector g holds row r, column 4 g + i (low nibble) and
 *                    column 16 + 4 g + i (high nibble); value = scale * (nibble - 8)
 *   Q8_0             136 bytes: 4 scales f16, then 8 x 16 bytes; byte 4 r + i of vector g holds
 *                    row r, column 4 g + i; value = scale * byte
 *   all others       as formats.h says
 * One lane of a vector is one row, so no kernel ever adds across lanes.
 *
 * Activations are quantised once per row, in blocks of 32. Narrow: an integer q of 8 bits, scale = largest
 * magnitude / 127. Wide: 15 bits, made to be cut into two planes of 8, scale = largest magnitude / 8192:
 * q in -8192 .. 8192 is 128 hi + lo, hi in -64 .. 64, lo in -64 .. 63. Planes are that small so that pairs of
 * their products with bytes of 8 bits fit 16 (2 * 64 * 255), which is what the relaxed dot product of engines
 * without a better instruction adds them in. Products of a block are summed exactly in integers, then
 *   y[row] += (float)sum * (weight scale * activation scale)
 * block after block, in float32. Types with mins add
 *   min * (activation scale * (float)(sum of the activations))
 * right behind each of these. Where each half of a block has a scale and a min, they are a small integer times a
 * float: the integers are in the sums of both halves, the float takes the scale's place. */
#ifndef GW_KERNELS_H
#define GW_KERNELS_H

#include "base/base.h"
#include "file/formats.h"

enum { GW_PANEL = 4, GW_BLOCK = 32, GW_Q4_BYTES = 72, GW_Q8_BYTES = 136 };
enum { GW_SPAN = 128, GW_KEYS = 32, GW_HEADS = 4 };   /* of attention, see below */

/* GW_HAVE_SIMD: files with 128-bit vectors are compiled, natively through SIMDe. GW_HAVE_RELAXED: so are those with
 * relaxed products, and gw_relaxed_… takes the place of gw_simd_…; natively (GW_RELAXED_SIMDE) for tests alone, with
 * these products in relaxed.h. */
#if defined(__wasm_simd128__) || defined(GW_SIMDE)
#define GW_HAVE_SIMD 1
#endif
#if defined(__wasm_relaxed_simd__) || (defined(GW_SIMDE) && defined(GW_RELAXED_SIMDE))
#define GW_HAVE_RELAXED 1
#endif

/* Narrow activations are int8 where a kernel multiplies bytes, int16 elsewhere. */
#if defined(GW_HAVE_RELAXED)
typedef int8_t gw_narrow;
#else
typedef int16_t gw_narrow;
#endif

/* int16 activations (the relaxed build has none) lie, within each group of four columns, in the order 0 2 1 3: a
 * 16-bit lane of a weight vector holds columns 0 and 1 (or 2 and 3) of one row as its low and high byte, so masking
 * and shifting lanes yields columns (0, 2) and (1, 3). int8 ones lie as they come. */
#define GW_WIDE_ORDER(c) (((c) & ~3) | ((c) & 1) << 1 | ((c) >> 1 & 1))

enum { GW_NARROW_TOP = 127, GW_WIDE_TOP = 64 * 128 };   /* what a block's largest magnitude becomes */

#define GW_TINY 1e-30f   /* a block whose largest magnitude is below this counts as zero */

/* A batch of n rows of k activations. Pointers that no kernel of the batch needs are NULL. Quantised ones lie
 * block by block, the rows side by side: block b of row t is number b * stride + t. So a tile of some rows finds
 * them at fixed distances. The stride is odd, lest a column of blocks meet in few sets of a cache. */
typedef struct {
    int n;
    size_t k, stride;
    const float *x; size_t ldx;     /* [n][ldx] */
    gw_narrow *q8;                  /* [k / 32][stride][32], -127..127 */
    float *s8;                      /* [k / 32][stride] */
    int32_t *sum8, *half8;          /* [k / 32][stride], sums of q8 over a block and over its first 16 */
    int16_t *q16;                   /* [k / 32][stride][32], -8192..8192; relaxed build: 32 int8 hi, 32 int8 lo */
    float *s16;                     /* [k / 32][stride] */
    int32_t *sum16, *half16;        /* [k / 32][stride] */
    int streams;                    /* n = 1: panels read side by side; 1: one, or few; else as many as it likes */
} gw_acts;

static inline size_t gw_acts_stride(int n) { return (size_t)n | 1; }

/* y[t][0..4 * panels) = panels * activation row t, for all t < a->n; y has row stride ldy. */
typedef void gw_matmul_kernel(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy);

/* Quantise k columns of row t of a->x, from column `from` on; both are multiples of 32. */
typedef void gw_quantise_kernel(const gw_acts *a, int t, size_t from, size_t k);

/* Attention: up to GW_HEADS queries take the same n <= GW_KEYS rows of a cache at once, so that a row is read
 * once for all of them. A row holds d items, a multiple of 8, in one of three types; rows are `stride` bytes apart:
 *   f32        as they are
 *   i16        d int16, -32767..32767, then a float, and 12 bytes unused, so that no vector lies in two lines of
 *              a cache; value = scale * int16
 *   q8         d bytes with sign, then for each 32 of them (the last may be fewer) a bfloat16;
 *              value = scale * byte
 * Where keys are i16 a query is such a row too, and the products are summed exactly, in int32: lane l of a vector
 * adds up those of the items i with i / 2 mod 4 = l, and in every row of keys or queries the norm of these items of
 * a lane is at most GW_I16_NORM; so by Cauchy and Schwarz no sum of any of them is above GW_I16_NORM^2 < 2^31. */
enum { GW_MAX_HEAD_DIM = 512, GW_I16_TOP = 32767, GW_I16_LANES = 4, GW_I16_NORM = 46340 };
#define GW_I16_BYTES(d) ((d) * sizeof(int16_t) + 16)

/* scores[h * GW_SPAN + j] = dot(q[h], key j); four partial sums, added as (0 + 1) + (2 + 3). f32, q8: q[h] are
 * floats, sums are by index mod 4. i16: sums are by lane, then made floats; at last times the product of the scales. */
typedef void gw_scores_kernel(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d,
                              float *scores);
/* out[h][0..d) += p[h * GW_SPAN] v[0] + p[h * GW_SPAN + 1] v[1] + …, in this order.
 * i16: w[j] = p[j] * scale of v[j] are made integers: the step is the larger one of the largest w / 32767 and the
 * sum of all w / 65500; below GW_TINY all are 0. So the n rounded ones add up to 65500 + n / 2 at most, and a sum of
 * them times int16 stays below 2^31. out[h] += (float)sum * step. */
typedef void gw_mix_kernel(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,
                           float *const *out);
enum { GW_I16_SUM = 65500 };
/* out[n][d] = the rows as floats. */
typedef void gw_widen_kernel(const uint8_t *rows, size_t stride, int n, int d, float *out);
/* p[j] = exp(p[j] - max), and their sum: four partial sums (index mod 4), added as (0 + 1) + (2 + 3). */
typedef float gw_weigh_kernel(float *p, int n, float max);
/* x[j] = gw_capped(x[j], cap) */
typedef void gw_cap_kernel(float *x, int n, float cap);

/* Floats as a file has them, at any address, to its blocks of Q8_0 (types.h), which may lie at the same address
 * or below; k is a multiple of 32. */
typedef void gw_round_kernel(const uint8_t *row, size_t k, uint8_t *blocks);

/* Q8_0 in two planes, for the output head (see top.c): code + 128 = 16 n + l. The high plane has the layout of
 * Q4_0 with n for nibbles; the low plane has the same without scales, l for nibbles, 64 bytes for a block.
 * y[4 panels) = one row of narrow activations times the high plane, where code stands for 16 n - 120. */
typedef void gw_high_kernel(const uint8_t *high, int panels, const gw_acts *a, float *y);
/* The whole product with wide activations: bit by bit what matmul_q8_wide gives for the same codes. */
typedef void gw_planes_kernel(const uint8_t *high, const uint8_t *low, int panels, const gw_acts *a, float *y,
                              size_t ldy);
/* The same for one row of activations and n panels of a matrix: y[4 panel[i] ..) for i < n. */
typedef void gw_some_kernel(const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n, const gw_acts *a,
                            float *y);

enum { GW_HIGH_BYTES = GW_Q4_BYTES, GW_LOW_BYTES = 64 };   /* of a block in a panel */

/* Column c of the block at `block` of q8 or q16, as the build's kernels have it. */
static inline int32_t gw_narrow_at(const gw_narrow *block, size_t c) {
    return block[sizeof(gw_narrow) == 1 ? c : GW_WIDE_ORDER(c)];
}
static inline int32_t gw_wide_at(const int16_t *block, size_t c) {
#if defined(GW_HAVE_RELAXED)
    return 128 * ((const int8_t *)block)[c] + ((const int8_t *)block)[GW_BLOCK + c];
#else
    return block[GW_WIDE_ORDER(c)];
#endif
}

#define GW_FLOAT_KERNELS(X)                  \
    X(gw_matmul_kernel, matmul_f32)          \
    X(gw_matmul_kernel, matmul_f16)          \
    X(gw_matmul_kernel, matmul_bf16)         \
    X(gw_scores_kernel, scores_f32)          \
    X(gw_scores_kernel, scores_i16)          \
    X(gw_scores_kernel, scores_q8)           \
    X(gw_mix_kernel, mix_f32)                \
    X(gw_mix_kernel, mix_i16)                \
    X(gw_mix_kernel, mix_q8)                 \
    X(gw_widen_kernel, widen_q8)             \
    X(gw_weigh_kernel, weigh)                \
    X(gw_cap_kernel, soft_cap)               \
    X(gw_round_kernel, round_f32)            \
    X(gw_round_kernel, round_f16)            \
    X(gw_round_kernel, round_bf16)

/* What makes or takes quantised activations; with GW_FORMAT_KERNELS for the types of formats.h. */
#define GW_INT_KERNELS(X)                    \
    X(gw_matmul_kernel, matmul_q4)           \
    X(gw_matmul_kernel, matmul_q4_wide)      \
    X(gw_matmul_kernel, matmul_q8_wide)      \
    X(gw_high_kernel, planes_high)             \
    X(gw_planes_kernel, planes_whole)         \
    X(gw_some_kernel, planes_some)             \
    X(gw_quantise_kernel, narrow)            \
    X(gw_quantise_kernel, wide)
#define GW_FORMAT_KERNELS(NAME, name, ...)   \
    GW_KERNEL_X(gw_matmul_kernel, matmul_##name) \
    GW_KERNEL_X(gw_matmul_kernel, matmul_##name##_wide)

#define GW_KERNEL_X(type, name) type gw_ref_##name;
GW_FLOAT_KERNELS(GW_KERNEL_X)
GW_INT_KERNELS(GW_KERNEL_X)
GW_FORMATS(GW_FORMAT_KERNELS)
#undef GW_KERNEL_X

#ifdef GW_HAVE_SIMD
#define GW_KERNEL_X(type, name) type gw_simd_##name;
GW_FLOAT_KERNELS(GW_KERNEL_X)
#ifdef GW_HAVE_RELAXED
#undef GW_KERNEL_X
#define GW_KERNEL_X(type, name) type gw_relaxed_##name;
#endif
GW_INT_KERNELS(GW_KERNEL_X)
GW_FORMATS(GW_FORMAT_KERNELS)
#undef GW_KERNEL_X
#endif

/* simd128 build: true makes products with tables do without i8x16.swizzle, slowly. */
extern volatile bool gw_simd_no_swizzle;
/* Relaxed build: true makes products of bytes of 8 bits keep to what is defined on every engine. */
extern volatile bool gw_relaxed_only_7_bits;
/* The same: whether products are added by pairs in 16 bits: 1 or 0; otherwise it is asked what this engine does. All
 * three are set by tests, and where a proof fails (proof.h). */
extern volatile int gw_relaxed_pairs;
enum { GW_PAIRS_ASK = -1 };

/* The engine that native builds (relaxed.c) imitate: x86 without AVX-VNNI: bytes of 8 bits count without sign, pairs of products
 * saturate in 16 bits; x86 with it: they do not; ARM: bytes count with sign. */
extern int gw_relaxed_engine;
enum { GW_ENGINE_PAIRS, GW_ENGINE_UNSIGNED, GW_ENGINE_SIGNED };
/* Which instruction it has wrong. */
extern int gw_relaxed_fault;
enum { GW_FAULT_NONE, GW_FAULT_PAIRS, GW_FAULT_DOT, GW_FAULT_SWIZZLE, GW_FAULT_8_BITS };

/* GW_KERNEL: float kernels; GW_KERNEL_INT: those of GW_INT_KERNELS and GW_FORMAT_KERNELS. */
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

/* exp(x), the same bits in every build: range reduction and the degree-5 minimax polynomial of
 * Cephes expf, relative error 2e-7. Clamped to [-87, 88]. NaN, from a damaged file's weights, stays NaN. */
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
    union { uint32_t u; float f; } two_n = { .u = (uint32_t)((int32_t)n + 127) << 23 };
    return p * two_n.f;
}

/* cap * tanh(x / cap), the same bits in every build, off by at most GW_CAP_ERROR * cap (tests/c/test_attention.c):
 * tanh |u| = (1 - e) / (1 + e), e = exp(-2 |u|). NaN stays NaN. */
#define GW_CAP_ERROR 5e-7
static inline float gw_capped(float x, float cap) {
    float e = gw_exp(__builtin_fabsf(x) * (-2.0f / cap));
    return __builtin_copysignf((1.0f - e) / (1.0f + e) * cap, x);
}

#endif
