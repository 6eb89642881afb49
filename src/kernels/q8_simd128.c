/* q8_simd128: kernels.h with 128-bit vectors of fixed semantics: Q8_0. Also built natively
 * through SIMDe, so that sanitizers see these loops.
 *
 * One row of activations (decode): each call walks several panels at once, far apart, because the
 * memory system follows several streams better than one. Several rows (prefill): a few panels are
 * widened into a small buffer once and multiplied with tiles of four rows. */
#include "kernels/simd.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)   /* that build has products and quantisers of its own */

enum { TILE = 4, CHUNK = 32 };   /* rows of a tile; blocks of a panel that are widened at once */

/* --- Q8_0, int16 activations (order 0 2 1 3); the other quantised types: codes_simd128.c --- */

INLINE v128_t q8_block(const uint8_t *block, const int16_t *q) {
    v128_t even = wasm_i32x4_splat(0), odd = even;
    for (int g = 0; g < 8; g++) {
        v128_t v = wasm_v128_load(block + 8 + 16 * g);
        even = wasm_i32x4_add(even, wasm_i32x4_dot_i16x8(wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8),
                                                         wasm_v128_load32_splat(q + 4 * g)));
        odd = wasm_i32x4_add(odd, wasm_i32x4_dot_i16x8(wasm_i16x8_shr(v, 8), wasm_v128_load32_splat(q + 4 * g + 2)));
    }
    return wasm_i32x4_add(even, odd);
}

INLINE void q8_streams(const uint8_t *w, size_t stride, int streams, const int16_t *q, const float *scale,
                       size_t blocks, float *y, size_t step) {
    v128_t total[4];
    for (int s = 0; s < streams; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++)
        UNROLL
        for (int s = 0; s < streams; s++) {
            const uint8_t *block = w + s * stride + b * GW_Q8_BYTES;
            total[s] = add_scaled(total[s], q8_block(block, q + b * GW_BLOCK), f16x4(block), SPLAT(scale + b));
        }
    for (int s = 0; s < streams; s++) wasm_v128_store(y + s * step, total[s]);
}

/* Widened block: 16 vectors of int16; vector 2 g holds columns (4 g, 4 g + 2) of the four rows side by
 * side, vector 2 g + 1 columns (4 g + 1, 4 g + 3). */
typedef struct {
    v128_t column[CHUNK][16], scales[CHUNK];
} widened;

INLINE void widen_q8(const uint8_t *block, v128_t *out) {
    for (int g = 0; g < 8; g++) {
        v128_t v = wasm_v128_load(block + 8 + 16 * g);
        out[2 * g] = wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8);
        out[2 * g + 1] = wasm_i16x8_shr(v, 8);
    }
}

INLINE void wide_tile(const widened *w, int n_blocks, const int16_t *q, const float *scale, size_t stride, float *y,
                      size_t ldy, int rows, int first) {
    v128_t total[TILE];
    for (int t = 0; t < rows; t++) total[t] = first ? wasm_f32x4_splat(0) : wasm_v128_load(y + t * ldy);
    for (int b = 0; b < n_blocks; b++) {
        v128_t sum[TILE];
        for (int t = 0; t < rows; t++) sum[t] = wasm_i32x4_splat(0);
        for (int c = 0; c < 16; c++)
            for (int t = 0; t < rows; t++)
                sum[t] = wasm_i32x4_add(sum[t], wasm_i32x4_dot_i16x8(w->column[b][c],
                                        wasm_v128_load32_splat(q + (b * stride + t) * GW_BLOCK + 2 * c)));
        for (int t = 0; t < rows; t++) total[t] = add_scaled(total[t], sum[t], w->scales[b],
                                                         SPLAT(scale + b * stride + t));
    }
    for (int t = 0; t < rows; t++) wasm_v128_store(y + t * ldy, total[t]);
}

/* One panel against all rows, CHUNK blocks at a time. */
INLINE void wide_rows(const uint8_t *panel, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    widened w;
    for (size_t b = 0; b < blocks; b += CHUNK) {
        int n_blocks = (int)gw_min(CHUNK, blocks - b);
        for (int i = 0; i < n_blocks; i++) {
            widen_q8(panel + (b + i) * GW_Q8_BYTES, w.column[i]);
            w.scales[i] = f16x4(panel + (b + i) * GW_Q8_BYTES);
        }
        size_t at = b * a->stride;
        int t = 0;
        for (; t + TILE <= a->n; t += TILE)
            wide_tile(&w, n_blocks, a->q16 + (at + t) * GW_BLOCK, a->s16 + at + t, a->stride, y + t * ldy, ldy, TILE,
                      b == 0);
        const int16_t *q = a->q16 + (at + t) * GW_BLOCK;
        const float *scale = a->s16 + at + t;
        float *out = y + t * ldy;
        if (a->n - t == 3) wide_tile(&w, n_blocks, q, scale, a->stride, out, ldy, 3, b == 0);
        else if (a->n - t == 2) wide_tile(&w, n_blocks, q, scale, a->stride, out, ldy, 2, b == 0);
        else if (a->n - t == 1) wide_tile(&w, n_blocks, q, scale, a->stride, out, ldy, 1, b == 0);
    }
}

void gw_simd_matmul_q8_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK, panel = blocks * GW_Q8_BYTES;
    if (a->n > 1) {
        for (int p = 0; p < panels; p++)
            wide_rows(w + p * panel, a, y + p * GW_PANEL, ldy);
        return;
    }
    int each = panels / 4, p = each * 4;
    for (int i = 0; i < each; i++)
        q8_streams(w + i * panel, each * panel, 4, a->q16, a->s16, blocks, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    for (; p < panels; p++) q8_streams(w + p * panel, 0, 1, a->q16, a->s16, blocks, y + p * GW_PANEL, 0);
}

#endif
