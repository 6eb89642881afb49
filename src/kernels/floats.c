/* floats: products with F32, F16 and BF16 weights, with 128-bit vectors of fixed semantics. Also built natively
 * through SIMDe. One row of activations (decode): several panels at once, far apart, for the memory system follows
 * several streams better than one. Several rows (prefill): tiles of two panels and some rows. */
#include "kernels/simd.h"

#ifdef GW_HAVE_SIMD

enum { TILE = 4, PAIR = 2, STREAMS = 4 };   /* rows of activations, panels of a tile; panels at once */

typedef v128_t loader(const uint8_t *);

INLINE v128_t load_f32(const uint8_t *p) { return wasm_v128_load(p); }

/* --- one row of activations --- */

/* sums += column of `streams` panels, `stride` bytes apart, times x; `small`: w is 2^-112 of what it should be. */
INLINE void add_column(v128_t *sum, const uint8_t *w, size_t stride, int streams, loader *load, const float *x,
                       bool small) {
    v128_t xi = wasm_v128_load32_splat(x);
    if (small) xi = wasm_f32x4_mul(xi, TWO_112);
    UNROLL
    for (int s = 0; s < streams; s++)
        sum[s] = wasm_f32x4_add(sum[s], wasm_f32x4_mul(load(w + s * stride), xi));
}

INLINE void float_streams(const uint8_t *w, size_t stride, int streams, size_t item, loader *load, bool small,
                          const gw_acts *a, float *y, size_t step) {
    v128_t sum[STREAMS];
    size_t i = 0, column = item * GW_PANEL;
    for (int s = 0; s < streams; s++) sum[s] = wasm_f32x4_splat(0);
    for (; i + 2 <= a->k; i += 2, w += 2 * column) {
        add_column(sum, w, stride, streams, load, a->x + i, small);
        add_column(sum, w + column, stride, streams, load, a->x + i + 1, small);
    }
    if (i < a->k) add_column(sum, w, stride, streams, load, a->x + i, small);
    for (int s = 0; s < streams; s++) wasm_v128_store(y + s * step, sum[s]);
}

INLINE void float_row(const uint8_t *w, int panels, size_t item, loader *load, bool small, const gw_acts *a, float *y) {
    size_t panel = GW_PANEL * a->k * item;
    int each = panels / STREAMS, p = each * STREAMS;
    for (int i = 0; i < each; i++)
        float_streams(w + i * panel, each * panel, STREAMS, item, load, small, a, y + i * GW_PANEL,
                      (size_t)each * GW_PANEL);
    for (; p < panels; p++) float_streams(w + p * panel, 0, 1, item, load, small, a, y + p * GW_PANEL, 0);
}

/* Is every |x| small enough to be multiplied by 2^112? */
INLINE bool has_room(const float *x, size_t k) {
    v128_t small = wasm_i32x4_splat(-1), bound = wasm_f32x4_splat(32768.0f);
    size_t i = 0;
    for (; i + 4 <= k; i += 4)
        small = wasm_v128_and(small, wasm_f32x4_lt(wasm_f32x4_abs(wasm_v128_load(x + i)), bound));
    bool room = wasm_i32x4_all_true(small);
    for (; i < k; i++) room &= x[i] > -32768.0f && x[i] < 32768.0f;
    return room;
}

/* --- several rows --- */

/* `rows` rows by PAIR panels, `panel` bytes apart, whose results are `next` apart. Sums of one panel alone would wait
 * for each other: an addition takes some cycles. */
INLINE void float_tile(const uint8_t *w, size_t panel, size_t item, loader *load, const float *x, size_t ldx, size_t k,
                       float *y, size_t ldy, size_t next, int rows) {
    v128_t sum[TILE][PAIR];
    for (int t = 0; t < rows; t++) sum[t][0] = sum[t][1] = wasm_f32x4_splat(0);
    for (size_t i = 0; i < k; i++, w += item * GW_PANEL) {
        v128_t first = load(w), second = load(w + panel);
        for (int t = 0; t < rows; t++) {
            v128_t xi = SPLAT(x + t * ldx + i);
            sum[t][0] = wasm_f32x4_add(sum[t][0], wasm_f32x4_mul(first, xi));
            sum[t][1] = wasm_f32x4_add(sum[t][1], wasm_f32x4_mul(second, xi));
        }
    }
    for (int t = 0; t < rows; t++) {
        wasm_v128_store(y + t * ldy, sum[t][0]);
        wasm_v128_store(y + t * ldy + next, sum[t][1]);
    }
}

/* The last panel may be a pair with itself. */
INLINE void float_rows(const uint8_t *w, int panels, size_t item, loader *load, const gw_acts *a, float *y,
                       size_t ldy) {
    size_t panel = GW_PANEL * a->k * item;
    for (int p = 0; p < panels; p += PAIR, w += PAIR * panel, y += PAIR * GW_PANEL) {
        size_t step = p + 1 < panels ? panel : 0, next = step ? GW_PANEL : 0;
        int t = 0;
        for (; t + TILE <= a->n; t += TILE)
            float_tile(w, step, item, load, a->x + t * a->ldx, a->ldx, a->k, y + t * ldy, ldy, next, TILE);
        for (; t < a->n; t++)
            float_tile(w, step, item, load, a->x + t * a->ldx, a->ldx, a->k, y + t * ldy, ldy, next, 1);
    }
}

void gw_simd_matmul_f32(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1) float_row(w, panels, 4, load_f32, false, a, y);
    else float_rows(w, panels, 4, load_f32, a, y, ldy);
}

/* Products with weights of 2^-112 and activations of 2^112 have the same bits, and the factor is multiplied in
 * once for all panels. */
void gw_simd_matmul_f16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1 && has_room(a->x, a->k)) float_row(w, panels, 2, small_f16x4, true, a, y);
    else float_rows(w, panels, 2, f16x4, a, y, ldy);
}

void gw_simd_matmul_bf16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1) float_row(w, panels, 2, bf16x4, false, a, y);
    else float_rows(w, panels, 2, bf16x4, a, y, ldy);
}

#endif
