/* activations: quantises activations with 128-bit vectors, for both SIMD builds, in the order in which the build's
 * matrix kernels read them. kernels.h defines scale, values and sums of a block. */
#include "kernels/simd.h"

#ifdef GW_HAVE_SIMD

/* Returns the largest magnitude of a block of 32. Magnitudes are compared as integers, which have the same order. NaN
 * compares as the largest, so a NaN becomes the scale and thereby the result of every product. */
INLINE float block_largest(const float *x) {
    v128_t m = wasm_f32x4_abs(wasm_v128_load(x));
    for (int i = 4; i < GW_BLOCK; i += 4) m = wasm_i32x4_max(m, wasm_f32x4_abs(wasm_v128_load(x + i)));
    m = wasm_i32x4_max(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
    m = wasm_i32x4_max(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(m, 0);
}

INLINE v128_t rounded(const float *x, v128_t inverse, float top) {
    v128_t v = wasm_f32x4_mul(wasm_v128_load(x), inverse);
    v = wasm_f32x4_pmax(wasm_f32x4_splat(-top), wasm_f32x4_pmin(wasm_f32x4_splat(top), v));
    return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(v));
}

INLINE int32_t sum_of(v128_t v) {
    return wasm_i32x4_extract_lane(v, 0) + wasm_i32x4_extract_lane(v, 1) + wasm_i32x4_extract_lane(v, 2) +
           wasm_i32x4_extract_lane(v, 3);
}

INLINE void quantise(const float *x, float top, v128_t *v, float *scale, int32_t *sum, int32_t *half) {
    float largest = block_largest(x);
    v128_t inverse = wasm_f32x4_splat(largest > GW_TINY ? top / largest : 0), total = wasm_i32x4_splat(0);
    for (int i = 0; i < 4; i++) {
        v128_t low = rounded(x + 8 * i, inverse, top), high = rounded(x + 8 * i + 4, inverse, top);
        total = wasm_i32x4_add(total, wasm_i32x4_add(low, high));
        if (i == 1) *half = sum_of(total);
        v[i] = wasm_i16x8_narrow_i32x4(low, high);
    }
    *scale = largest / top;
    *sum = sum_of(total);
}

/* Defines a kernel for int8 or int15 activations: bits is 8 or 16 (fields q8, s8 … or q16, s16 … of gw_acts). */
#define DEFINE(name, top, bits, store)                                                                       \
    void name(const gw_acts *a, int t, size_t from, size_t k) {                                              \
        for (size_t i = from; i < from + k; i += GW_BLOCK) {                                                 \
            v128_t v[4];                                                                                     \
            size_t at = i / GW_BLOCK * a->stride + t;                                                        \
            quantise(a->x + t * a->ldx + i, top, v, a->s##bits + at, a->sum##bits + at, a->half##bits + at); \
            store(a->q##bits + at * GW_BLOCK, v);                                                            \
        }                                                                                                    \
    }

#ifndef GW_HAVE_RELAXED

/* Stores 32 int16, every four in the order 0 2 1 3 (GW_INT16_ORDER). */
INLINE void store(int16_t *q, const v128_t *v) {
    for (int i = 0; i < 4; i++) wasm_v128_store(q + 8 * i, wasm_i16x8_shuffle(v[i], v[i], 0, 2, 1, 3, 4, 6, 5, 7));
}

DEFINE(gw_simd_quantise_int8, GW_INT8_TOP, 8, store)
DEFINE(gw_simd_quantise_int15, GW_INT15_TOP, 16, store)

#else

INLINE void store(int8_t *q, const v128_t *v) {
    for (int i = 0; i < 2; i++) wasm_v128_store(q + 16 * i, wasm_i8x16_narrow_i16x8(v[2 * i], v[2 * i + 1]));
}

INLINE void store_planes(int16_t *q, v128_t *low) {
    v128_t high[4];
    for (int i = 0; i < 4; i++) {
        high[i] = wasm_i16x8_shr(wasm_i16x8_add(low[i], wasm_i16x8_splat(64)), 7);
        low[i] = wasm_i16x8_sub(low[i], wasm_i16x8_shl(high[i], 7));
    }
    store((int8_t *)q, high);
    store((int8_t *)q + GW_BLOCK, low);
}

DEFINE(gw_relaxed_quantise_int8, GW_INT8_TOP, 8, store)
DEFINE(gw_relaxed_quantise_int15, GW_INT15_TOP, 16, store_planes)

#endif

#endif
