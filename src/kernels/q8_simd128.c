/* q8_simd128: kernels.h with 128-bit vectors of fixed semantics: Q8_0. Also built natively
 * through SIMDe, so that sanitizers see these loops.
 *
 * One row of activations (decode): each call walks several panels at once, far apart, because the
 * memory system follows several streams better than one. Several rows: quants_simd128.c. */
#include "kernels/codes_simd128.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)   /* that build has products and quantisers of its own */

/* --- int16 activations (order 0 2 1 3) --- */

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

void gw_simd_matmul_q8_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK, panel = blocks * GW_Q8_BYTES;
    if (a->n > 1) {
        gw_simd_rows_q8(w, panels, a, y, ldy);
        return;
    }
    int each = panels / 4, p = each * 4;
    for (int i = 0; i < each; i++)
        q8_streams(w + i * panel, each * panel, 4, a->q16, a->s16, blocks, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    for (; p < panels; p++) q8_streams(w + p * panel, 0, 1, a->q16, a->s16, blocks, y + p * GW_PANEL, 0);
}

#endif
