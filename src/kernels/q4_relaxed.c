/* q4_relaxed: Q4_0 and one row of activations, or a few, by the relaxed dot product of bytes. Its second operand is
 * only defined for 7 bits: nibbles (0..15) are well inside, so every engine gives the same exact sums. Tiles of rows go
 * to tiles_relaxed.c. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

enum { STREAMS = 8, TOGETHER = 2 };   /* panels walked at once; rows that share a panel's bytes */

/* -8 * sum of the activations: where the accumulators begin, so that nibbles count from -8. */
INLINE v128_t start_of(const int32_t *sum) {
    return wasm_i32x4_neg(wasm_i32x4_shl(wasm_v128_load32_splat(sum), 3));
}

/* --- one row of activations --- */

/* Sums of products of one block with 32 activations. */
INLINE v128_t dots(const uint8_t *block, const int8_t *q, const int32_t *sum, const gw_masks *m, bool pairs) {
    v128_t first = wasm_v128_load(q), second = wasm_v128_load(q + 16), zero = wasm_i32x4_splat(0);
    v128_t low = pairs ? zero : start_of(sum), high = zero;
#define GROUP(g)                                                                              \
    v128_t v##g = wasm_v128_load(block + 8 + 16 * g);                                         \
    v128_t a##g = wasm_v128_and(v##g, m->low), b##g = wasm_v128_and(wasm_u16x8_shr(v##g, 4), m->low); \
    low = pairs ? add_pairs(low, LANE(first, g), a##g) : DOT(LANE(first, g), a##g, low);      \
    high = pairs ? add_pairs(high, LANE(second, g), b##g) : DOT(LANE(second, g), b##g, high);
    GROUP(0) GROUP(1) GROUP(2) GROUP(3)
#undef GROUP
    if (!pairs) return wasm_i32x4_add(low, high);
    return wasm_i32x4_add(wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(low, high)), start_of(sum));
}

/* total + one block of four rows, with 32 activations */
INLINE v128_t add_block(v128_t total, const uint8_t *block, const int8_t *q, const float *scale, const int32_t *sum,
                        const gw_masks *m, bool pairs) {
    return add_scaled(total, dots(block, q, sum, m, pairs), scales_from(block, m), SPLAT(scale));
}

/* y[s * step] of panels w + s * stride, s < n */
INLINE void streams(const uint8_t *w, size_t stride, int n, const gw_acts *a, float *y, size_t step, gw_masks m,
                    bool pairs) {
    v128_t total[STREAMS];
    size_t blocks = a->k / GW_BLOCK;
    const int8_t *q = a->q8;
    const float *scale = a->s8;
    const int32_t *sum = a->sum8;
    UNROLL
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks; b++, w += GW_Q4_BYTES, q += GW_BLOCK)
        UNROLL
        for (int s = 0; s < n; s++) total[s] = add_block(total[s], w + s * stride, q, scale + b, sum + b, &m, pairs);
    UNROLL
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* y[i * ldy] of `rows` rows of activations from row t on, by one panel, which is read once. */
INLINE void together(const uint8_t *w, const gw_acts *a, int t, int rows, float *y, size_t ldy, gw_masks m,
                     bool pairs) {
    v128_t total[TOGETHER];
    size_t blocks = a->k / GW_BLOCK, stride = a->stride;
    const int8_t *q = a->q8 + t * GW_BLOCK;
    const float *scale = a->s8 + t;
    const int32_t *sum = a->sum8 + t;
    UNROLL
    for (int i = 0; i < rows; i++) total[i] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks; b++, w += GW_Q4_BYTES, q += stride * GW_BLOCK, scale += stride, sum += stride)
        UNROLL
        for (int i = 0; i < rows; i++)
            total[i] = add_block(total[i], w, q + i * GW_BLOCK, scale + i, sum + i, &m, pairs);
    UNROLL
    for (int i = 0; i < rows; i++) wasm_v128_store(y + i * ldy, total[i]);
}

/* Rows t … by each panel, which stays in a cache for them. */
INLINE void each_panel(const uint8_t *w, int panels, const gw_acts *a, int t, float *y, size_t ldy, gw_masks m,
                       bool pairs) {
    size_t panel = a->k / GW_BLOCK * GW_Q4_BYTES;
    KEEP_LOOP
    for (int p = 0; p < panels; p++, w += panel, y += GW_PANEL) {
        int i = t;
        KEEP_LOOP
        for (; i + TOGETHER <= a->n; i += TOGETHER) together(w, a, i, TOGETHER, y + i * ldy, ldy, m, pairs);
        KEEP_LOOP
        for (; i < a->n; i++) together(w, a, i, 1, y + i * ldy, ldy, m, pairs);
    }
}

/* One row by several panels at once, several by tiles as far as they go, the others by each panel. */
INLINE void product(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy, bool pairs) {
    size_t panel = a->k / GW_BLOCK * GW_Q4_BYTES;
    int each = a->n > 1 || a->streams == 1 ? 0 : panels / STREAMS, t = gw_in_tiles(a->n, false);
    gw_masks m = masks();
    acts all = narrow_of(a);
    for (int i = 0; i < each; i++)
        streams(w + i * panel, each * panel, STREAMS, a, y + i * GW_PANEL, (size_t)each * GW_PANEL, m, pairs);
    for (int p = each * STREAMS; p < panels; p += PAIR) {
        int n = (int)gw_min(PAIR, panels - p);
        gw_relaxed_rows_q4(SEVEN, false, w + p * panel, n, &all, t, y + p * GW_PANEL, ldy);
        each_panel(w + p * panel, n, a, t, y + p * GW_PANEL, ldy, m, pairs);
    }
}

OUTLINE void by_dots(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    product(w, panels, a, y, ldy, false);
}
OUTLINE void by_pairs(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    product(w, panels, a, y, ldy, true);
}

void gw_relaxed_matmul_q4(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    (adds_pairs() ? by_pairs : by_dots)(w, panels, a, y, ldy);
}

#endif
