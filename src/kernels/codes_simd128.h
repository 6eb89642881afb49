/* codes_simd128.h: nibbles times int16 activations (order 0 2 1 3), with 128-bit vectors of fixed semantics: for 4-bit
 * codes and for the planes of an output head. */
#ifndef GW_CODES_SIMD128_H
#define GW_CODES_SIMD128_H

#include "kernels/simd.h"

#define DOT wasm_i32x4_dot_i16x8

/* Q8_0 by several rows of wide activations, see gw_matmul_kernel. */
gw_matmul_kernel gw_simd_rows_q8;

/* Nibbles are multiplied where they are in their lane of 16 bits: the sums of those n bits up are 2^n times too large,
 * and shifted down once, which is cheaper than moving every nibble. */
typedef struct { v128_t at0, at4, at8; } nibble_sums;

INLINE nibble_sums nibble_sums_of(const uint8_t *nibbles, const int16_t *q) {
    nibble_sums s = { wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
    for (int g = 0; g < 4; g++) {
        v128_t v = wasm_v128_load(nibbles + 16 * g);
        v128_t low = DOT(wasm_v128_and(v, wasm_i16x8_splat(0x000f)), SPLAT(q + 4 * g));
        v128_t top = DOT(wasm_u16x8_shr(v, 12), SPLAT(q + 16 + 4 * g + 2));
        s.at0 = wasm_i32x4_add(s.at0, wasm_i32x4_add(low, top));
        s.at4 = wasm_i32x4_add(s.at4, DOT(wasm_v128_and(v, wasm_i16x8_splat(0x00f0)), SPLAT(q + 16 + 4 * g)));
        s.at8 = wasm_i32x4_add(s.at8, DOT(wasm_v128_and(v, wasm_i16x8_splat(0x0f00)), SPLAT(q + 4 * g + 2)));
    }
    return s;
}

#endif
