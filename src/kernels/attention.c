/* attention: the attention kernels with 128-bit vectors, for both SIMD builds. Each cache row is read once for all
 * queries of a tile; tiles are as large as sixteen registers allow. */
#include "kernels/simd.h"

#ifdef GW_HAVE_SIMD

/* Eight consecutive items of a cache row, as floats. */
typedef struct {
    v128_t low, high;
} eight;
typedef eight load_eight(const uint8_t *row, int i, int d);

INLINE eight load_f32(const uint8_t *row, int i, int d) {
    (void)d;
    return (eight){ wasm_v128_load(row + 4 * i), wasm_v128_load(row + 4 * i + 16) };
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

typedef struct {
    const uint8_t *at;
    size_t stride;
    int n, d;
} rows;

INLINE const uint8_t *row_of(rows r, int j) { return r.at + j * r.stride; }

/* --- scores: a tile has at most eight scores, of a few queries and keys --- */

INLINE void float_scores(load_eight *load, const void *const *q, int heads, rows k, float *scores) {
    v128_t sum[GW_HEADS][4];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < k.n; j++) sum[h][j] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (int i = 0; i < k.d; i += 8) {
        eight key[4];
        for (int j = 0; j < k.n; j++) key[j] = load(row_of(k, j), i, k.d);
        for (int h = 0; h < heads; h++) {
            eight x = load_f32(q[h], i, k.d);
            for (int j = 0; j < k.n; j++) sum[h][j] = add_product(sum[h][j], x.low, key[j].low);
            for (int j = 0; j < k.n; j++) sum[h][j] = add_product(sum[h][j], x.high, key[j].high);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < k.n; j++) scores[h * GW_SPAN + j] = add_lanes(sum[h][j]);
}

INLINE float scale_of(const uint8_t *row, int d) {
    float scale;
    __builtin_memcpy(&scale, row + 2 * d, sizeof scale);
    return scale;
}

INLINE void i16_scores(load_eight *load, const void *const *q, int heads, rows k, float *scores) {
    (void)load;
    v128_t sum[GW_HEADS][4];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < k.n; j++) sum[h][j] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (int i = 0; i < k.d; i += 8) {
        v128_t key[4];
        for (int j = 0; j < k.n; j++) key[j] = wasm_v128_load(row_of(k, j) + 2 * i);
        for (int h = 0; h < heads; h++) {
            v128_t x = wasm_v128_load((const uint8_t *)q[h] + 2 * i);
            for (int j = 0; j < k.n; j++) sum[h][j] = add_dot(sum[h][j], x, key[j]);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < k.n; j++)
            scores[h * GW_SPAN + j] = add_lanes(wasm_f32x4_convert_i32x4(sum[h][j])) *
                                      (scale_of(q[h], k.d) * scale_of(row_of(k, j), k.d));
}

typedef void scores_tile(load_eight *load, const void *const *q, int heads, rows k, float *scores);

INLINE void scores_of(scores_tile *tile, load_eight *load, const void *const *q, int heads, rows k, float *scores) {
    int j = 0, step = heads == GW_HEADS ? 2 : 4;
    for (; j + step <= k.n; j += step) tile(load, q, heads, (rows){ row_of(k, j), k.stride, step, k.d }, scores + j);
    for (; j < k.n; j++) tile(load, q, heads, (rows){ row_of(k, j), k.stride, 1, k.d }, scores + j);
}

/* --- mix (weighted sums of value rows): eight columns of all heads at once --- */

INLINE void float_mix(load_eight *load, const float *p, int heads, rows v, float *const *out) {
    for (int i = 0; i < v.d; i += 8) {
        eight sum[GW_HEADS];
        for (int h = 0; h < heads; h++) sum[h] = load_f32((const uint8_t *)out[h], i, v.d);
        KEEP_LOOP
        for (int j = 0; j < v.n; j++) {
            eight value = load(row_of(v, j), i, v.d);
            for (int h = 0; h < heads; h++) {
                v128_t pj = SPLAT(p + h * GW_SPAN + j);
                sum[h].low = add_product(sum[h].low, pj, value.low);
                sum[h].high = add_product(sum[h].high, pj, value.high);
            }
        }
        for (int h = 0; h < heads; h++) {
            wasm_v128_store(out[h] + i, sum[h].low);
            wasm_v128_store(out[h] + i + 4, sum[h].high);
        }
    }
}

/* Softmax weights of each head, quantised to integers and padded with zeros. step: the value of one unit. */
typedef struct {
    int16_t p[GW_HEADS][GW_KEYS];
    float step[GW_HEADS];
} weights;

/* Rounds w[GW_KEYS] to integer multiples of a step, and returns the step. Unused weights are zeros, which change
 * neither the sum nor the maximum. */
OUTLINE float round_weights(const float *w, int16_t *out) {
    v128_t largest = wasm_f32x4_splat(0), sum = largest, r[2];
    for (int j = 0; j < GW_KEYS; j += 4) {
        v128_t x = wasm_v128_load(w + j);
        largest = wasm_f32x4_pmax(largest, x);
        sum = wasm_f32x4_add(sum, x);
    }
    largest = wasm_f32x4_pmax(largest, wasm_i32x4_shuffle(largest, largest, 2, 3, 0, 1));
    largest = wasm_f32x4_pmax(largest, wasm_i32x4_shuffle(largest, largest, 1, 0, 3, 2));
    float by_largest = wasm_f32x4_extract_lane(largest, 0) / GW_I16_TOP, by_sum = add_lanes(sum) / GW_I16_SUM;
    float step = by_largest > by_sum ? by_largest : by_sum, inverse = step > GW_TINY ? 1.0f / step : 0;
    for (int j = 0; j < GW_KEYS; j += 8) {
        for (int i = 0; i < 2; i++)
            r[i] = wasm_i32x4_trunc_sat_f32x4(
                wasm_f32x4_nearest(wasm_f32x4_mul(wasm_v128_load(w + j + 4 * i), wasm_f32x4_splat(inverse))));
        wasm_v128_store(out + j, wasm_i16x8_narrow_i32x4(r[0], r[1]));
    }
    return step;
}

OUTLINE void i16_weights(weights *out, const float *p, int heads, const uint8_t *values, size_t stride, int n, int d) {
    float w[GW_KEYS] = { 0 };
    for (int h = 0; h < heads; h++) {
        for (int j = 0; j < n; j++) w[j] = p[h * GW_SPAN + j] * scale_of(values + j * stride, d);
        out->step[h] = round_weights(w, out->p[h]);
    }
}

/* Adds two value rows, times weights j and j + 1 of each head, to the heads' sums. */
INLINE void i16_add_pair(v128_t sum[][2], const weights *w, int heads, const uint8_t *row, const uint8_t *next, int j) {
    v128_t a = wasm_v128_load(row), b = wasm_v128_load(next);
    v128_t low = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    v128_t high = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    for (int h = 0; h < heads; h++) {
        v128_t pair = SPLAT(w->p[h] + j);
        sum[h][0] = add_dot(sum[h][0], low, pair);
        sum[h][1] = add_dot(sum[h][1], high, pair);
    }
}

INLINE void i16_mix(load_eight *load, const float *p, int heads, rows v, float *const *out) {
    weights w;
    (void)load;
    i16_weights(&w, p, heads, v.at, v.stride, v.n, v.d);
    for (int i = 0; i < v.d; i += 8) {
        v128_t sum[GW_HEADS][2];
        for (int h = 0; h < heads; h++) sum[h][0] = sum[h][1] = wasm_f32x4_splat(0);
        const uint8_t *row = v.at + 2 * i;
        int j = 0;
        KEEP_LOOP
        for (; j + 2 <= v.n; j += 2, row += 2 * v.stride) i16_add_pair(sum, &w, heads, row, row + v.stride, j);
        /* an unpaired last row is paired with itself, with weight 0 */
        if (j < v.n) i16_add_pair(sum, &w, heads, row, row, j);
        for (int h = 0; h < heads; h++)
            for (int half = 0; half < 2; half++) {
                float *at = out[h] + i + 4 * half;
                v128_t part = wasm_f32x4_convert_i32x4(sum[h][half]);
                wasm_v128_store(at, add_product(wasm_v128_load(at), part, SPLAT(&w.step[h])));
            }
    }
}

/* Processes GW_HEADS heads together, any other number of heads one by one: kernels for more numbers would double the
 * code, and few models need them. */
#define DEFINE_KERNELS(type, by, load)                                                                            \
    void gw_simd_scores_##type(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d, \
                               float *scores) {                                                                   \
        const rows k = { keys, stride, n, d };                                                                    \
        if (heads == GW_HEADS) scores_of(by##_scores, load, q, GW_HEADS, k, scores);                              \
        else                                                                                                      \
            for (int h = 0; h < heads; h++) scores_of(by##_scores, load, q + h, 1, k, scores + h * GW_SPAN);      \
    }                                                                                                             \
    void gw_simd_mix_##type(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,        \
                            float *const *out) {                                                                  \
        const rows v = { values, stride, n, d };                                                                  \
        if (heads == GW_HEADS) by##_mix(load, p, GW_HEADS, v, out);                                               \
        else                                                                                                      \
            for (int h = 0; h < heads; h++) by##_mix(load, p + h * GW_SPAN, 1, v, out + h);                       \
    }
DEFINE_KERNELS(f32, float, load_f32)
DEFINE_KERNELS(i16, i16, NULL)
DEFINE_KERNELS(q8, float, load_q8)

void gw_simd_widen_q8(const uint8_t *rows, size_t stride, int n, int d, float *out) {
    for (int j = 0; j < n; j++, out += d) {
        KEEP_LOOP
        for (int i = 0; i < d; i += 8) {
            eight v = load_q8(rows + j * stride, i, d);
            wasm_v128_store(out + i, v.low);
            wasm_v128_store(out + i + 4, v.high);
        }
    }
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

/* Computes gw_exp of four numbers. NaN stays NaN: no comparison with NaN holds, and NaN times any 2^n is NaN. */
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

void gw_simd_soft_cap(float *x, int n, float cap) {
    v128_t factor = wasm_f32x4_splat(-2.0f / cap), one = wasm_f32x4_splat(1.0f), sign = wasm_i32x4_splat(INT32_MIN);
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        v128_t v = wasm_v128_load(x + j), e = exp4(wasm_f32x4_mul(wasm_f32x4_abs(v), factor));
        v128_t t = wasm_f32x4_div(wasm_f32x4_sub(one, e), wasm_f32x4_add(one, e));
        wasm_v128_store(x + j, wasm_v128_bitselect(v, wasm_f32x4_mul(t, wasm_f32x4_splat(cap)), sign));
    }
    for (; j < n; j++) x[j] = gw_capped(x[j], cap);
}

#endif
