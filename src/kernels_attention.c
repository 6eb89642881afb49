/* kernels_attention: attention's part of kernels.h with 128-bit vectors, for both SIMD builds. Also built natively
 * through SIMDe. A row of the cache is widened in registers once for all queries of a tile; tiles are as large as
 * sixteen registers allow. */
#include "kernels_simd.h"

#ifdef GW_HAVE_SIMD

/* Items i .. i + 7 of a row of d. */
typedef struct { v128_t low, high; } eight;
typedef eight load_eight(const uint8_t *row, int i, int d);

INLINE eight load_f32(const uint8_t *row, int i, int d) {
    (void)d;
    return (eight){ wasm_v128_load(row + 4 * i), wasm_v128_load(row + 4 * i + 16) };
}

INLINE eight load_f16(const uint8_t *row, int i, int d) {
    (void)d;
    return (eight){ f16x4(row + 2 * i), f16x4(row + 2 * i + 8) };
}

INLINE eight load_q8(const uint8_t *row, int i, int d) {
    v128_t bytes = wasm_i16x8_load8x8(row + i);
    v128_t scale = wasm_i32x4_shl(wasm_v128_load16_splat(row + d + i / GW_BLOCK * 2), 16);
    return (eight){ wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(bytes)), scale),
                    wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(bytes)), scale) };
}

INLINE float add_lanes(v128_t v) {
    return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
           (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

INLINE v128_t add_product(v128_t sum, v128_t a, v128_t b) { return wasm_f32x4_add(sum, wasm_f32x4_mul(a, b)); }

/* --- scores: heads x n of them at once, at most eight --- */

INLINE void scores_tile(load_eight *load, const float *const *q, int heads, const uint8_t *keys, size_t stride, int n,
                        int d, float *scores) {
    v128_t sum[GW_HEADS][4];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n; j++) sum[h][j] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (int i = 0; i < d; i += 8) {
        eight k[4];
        for (int j = 0; j < n; j++) k[j] = load(keys + j * stride, i, d);
        for (int h = 0; h < heads; h++) {
            v128_t low = wasm_v128_load(q[h] + i), high = wasm_v128_load(q[h] + i + 4);
            for (int j = 0; j < n; j++) sum[h][j] = add_product(sum[h][j], low, k[j].low);
            for (int j = 0; j < n; j++) sum[h][j] = add_product(sum[h][j], high, k[j].high);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n; j++) scores[h * GW_KEYS + j] = add_lanes(sum[h][j]);
}

INLINE void scores_of(load_eight *load, const float *const *q, int heads, const uint8_t *keys, size_t stride, int n,
                      int d, float *scores) {
    int j = 0, step = heads == GW_HEADS ? 2 : 4;
    for (; j + step <= n; j += step) scores_tile(load, q, heads, keys + j * stride, stride, step, d, scores + j);
    for (; j < n; j++) scores_tile(load, q, heads, keys + j * stride, stride, 1, d, scores + j);
}

/* --- mix: eight columns of all heads at once --- */

INLINE void mix_of(load_eight *load, const float *p, const float *keep, int heads, const uint8_t *values, size_t stride,
                   int n, int d, float *const *out) {
    for (int i = 0; i < d; i += 8) {
        v128_t low[GW_HEADS], high[GW_HEADS];
        for (int h = 0; h < heads; h++) {
            v128_t k = wasm_v128_load32_splat(keep + h);
            low[h] = wasm_f32x4_mul(wasm_v128_load(out[h] + i), k);
            high[h] = wasm_f32x4_mul(wasm_v128_load(out[h] + i + 4), k);
        }
        KEEP_LOOP
        for (int j = 0; j < n; j++) {
            eight v = load(values + j * stride, i, d);
            for (int h = 0; h < heads; h++) {
                v128_t pj = wasm_v128_load32_splat(p + h * GW_KEYS + j);
                low[h] = add_product(low[h], pj, v.low);
                high[h] = add_product(high[h], pj, v.high);
            }
        }
        for (int h = 0; h < heads; h++) {
            wasm_v128_store(out[h] + i, low[h]);
            wasm_v128_store(out[h] + i + 4, high[h]);
        }
    }
}

/* All heads together, or one by one: in between would double the code for models that have no such numbers. */
#define DEFINE_TYPE(type)                                                                                          \
    void gw_simd_scores_##type(const float *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d, \
                               float *scores) {                                                                    \
        if (heads == GW_HEADS) scores_of(load_##type, q, GW_HEADS, keys, stride, n, d, scores);                    \
        else for (int h = 0; h < heads; h++)                                                                       \
            scores_of(load_##type, q + h, 1, keys, stride, n, d, scores + h * GW_KEYS);                            \
    }                                                                                                              \
    void gw_simd_mix_##type(const float *p, const float *keep, int heads, const uint8_t *values, size_t stride,    \
                            int n, int d, float *const *out) {                                                     \
        if (heads == GW_HEADS) mix_of(load_##type, p, keep, GW_HEADS, values, stride, n, d, out);                  \
        else for (int h = 0; h < heads; h++)                                                                       \
            mix_of(load_##type, p + h * GW_KEYS, keep + h, 1, values, stride, n, d, out + h);                      \
    }
DEFINE_TYPE(f32)
DEFINE_TYPE(f16)
DEFINE_TYPE(q8)

INLINE void widen(load_eight *load, const uint8_t *rows, size_t stride, int n, int d, float *out) {
    for (int j = 0; j < n; j++, out += d)
        KEEP_LOOP
        for (int i = 0; i < d; i += 8) {
            eight v = load(rows + j * stride, i, d);
            wasm_v128_store(out + i, v.low);
            wasm_v128_store(out + i + 4, v.high);
        }
}

void gw_simd_widen_f16(const uint8_t *rows, size_t stride, int n, int d, float *out) {
    widen(load_f16, rows, stride, n, d, out);
}

void gw_simd_widen_q8(const uint8_t *rows, size_t stride, int n, int d, float *out) {
    widen(load_q8, rows, stride, n, d, out);
}

/* --- weights --- */

INLINE v128_t polynomial(v128_t r) {
    static const float c[] = { 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                               5.0000001201e-1f };
    v128_t p = wasm_f32x4_splat(1.9875691500e-4f);
    for (int i = 0; i < 5; i++) p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_f32x4_splat(c[i]));
    p = wasm_f32x4_mul(p, wasm_f32x4_mul(r, r));
    return wasm_f32x4_add(wasm_f32x4_add(p, r), wasm_f32x4_splat(1.0f));
}

/* gw_exp of four. NaN goes through: no comparison holds for it, and what its exponent is does not matter. */
INLINE v128_t exp4(v128_t x) {
    x = wasm_f32x4_pmax(x, wasm_f32x4_splat(-87.0f));
    x = wasm_f32x4_pmin(x, wasm_f32x4_splat(88.0f));
    v128_t n = wasm_f32x4_nearest(wasm_f32x4_mul(x, wasm_f32x4_splat(1.44269504088896341f)));
    v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(0.693359375f)));
    r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, wasm_f32x4_splat(-2.12194440e-4f)));
    v128_t two_n = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127)), 23);
    return wasm_f32x4_mul(polynomial(r), two_n);
}

float gw_simd_weigh(float *p, int n, float max) {
    v128_t sum = wasm_f32x4_splat(0), m = wasm_f32x4_splat(max);
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        v128_t e = exp4(wasm_f32x4_sub(wasm_v128_load(p + j), m));
        wasm_v128_store(p + j, e);
        sum = wasm_f32x4_add(sum, e);
    }
    float part[4];
    wasm_v128_store(part, sum);
    for (; j < n; j++) part[j % 4] += p[j] = gw_exp(p[j] - max);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

#endif
