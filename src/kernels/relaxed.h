/* relaxed.h: what kernels with the relaxed dot product share. Included by *_relaxed.c only.
 *
 * In V8 a splatted load costs an address more than a load, so four activations at a time are splatted out of one
 * vector of sixteen. Constants are such that no compiler knows: see simd.h. */
#ifndef GW_RELAXED_H
#define GW_RELAXED_H

#include "kernels/simd.h"

/* DOT: sum + products of bytes, four to a lane. PAIRS: what DOT leaves out: neighbouring products are added in 16 bits,
 * and go no further. SWIZZLE: byte c of a table. All are defined for the second operand's bytes below 128, or 16. */
#ifdef GW_SIMDE
#include "kernels/relaxed_simde.h"
#else
#define DOT wasm_i32x4_relaxed_dot_i8x16_i7x16_add
#define PAIRS wasm_i16x8_relaxed_dot_i8x16_i7x16
#define SWIZZLE wasm_i8x16_relaxed_swizzle
#endif

#define LANE(v, i) wasm_i32x4_shuffle(v, v, i, i, i, i)   /* lane i four times */

typedef struct { v128_t low, half, two112; } gw_masks;   /* 15 in each byte; sign, exponent and mantissa; 2^112 */

INLINE gw_masks masks(void) { return (gw_masks){ unknown(0x0f0f0f0f), unknown(0x8fffe000), unknown(0x77800000) }; }

/* Whether DOT takes this engine three instructions (x86 without VNNI, or an engine that does not use it): pairs of
 * products in 16 bits, whose sums saturate, then pairs of these, then the sum. There a block's pairs are added in 16
 * bits as long as they fit, and widened once. Sums are exact either way. Asked where it is relied on, so that both are
 * compiled alike. */
INLINE bool adds_pairs(void) {
    static volatile uint8_t top = 255;
    v128_t sum = DOT(wasm_i8x16_splat(127), wasm_i8x16_splat((int8_t)top), wasm_i32x4_splat(0));
    return gw_relaxed_pairs == GW_PAIRS_ASK ? wasm_i32x4_extract_lane(sum, 0) == 2 * INT16_MAX : gw_relaxed_pairs;
}

INLINE v128_t add_pairs(v128_t sum, v128_t x, v128_t c) { return wasm_i16x8_add(sum, PAIRS(x, c)); }

/* four f16 -> f32: exact for every finite value, denormals too (no inf, no NaN) */
INLINE v128_t scales_from(const uint8_t *p, const gw_masks *m) {
    return wasm_f32x4_mul(wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), m->half), m->two112);
}

#endif
