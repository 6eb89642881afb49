/* relaxed: the relaxed SIMD instructions, and code shared by all kernels that use them. */
#ifndef GW_RELAXED_H
#define GW_RELAXED_H

#include "kernels/simd.h"

/* DOT(x, c, sum) adds four products of bytes to each 32-bit lane. PAIRS(x, c) is its first half: sums of two
 * neighbouring products in 16 bits. SWIZZLE(table, c) looks up bytes at the indices c. Results are defined for bytes of
 * c below 128, for SWIZZLE below 16. Native builds call functions (relaxed.c), so that tests and sanitizers run the
 * same kernels; these are not inlined, because the kernels would then take minutes to compile. */
#ifdef GW_SIMDE
v128_t gw_simde_pairs(v128_t x, v128_t c);
v128_t gw_simde_dot(v128_t x, v128_t c, v128_t total);
v128_t gw_simde_swizzle(v128_t table, v128_t c);
#define DOT gw_simde_dot
#define PAIRS gw_simde_pairs
#define SWIZZLE gw_simde_swizzle
#else
#define DOT wasm_i32x4_relaxed_dot_i8x16_i7x16_add
#define PAIRS wasm_i16x8_relaxed_dot_i8x16_i7x16
#define SWIZZLE wasm_i8x16_relaxed_swizzle
#endif

/* Returns lane i in all four lanes. In V8, a load with a splat needs one more address computation than a plain load, so
 * kernels load sixteen activations and splat four at a time. */
#define LANE(v, i) wasm_i32x4_shuffle(v, v, i, i, i, i)

typedef struct {
    v128_t low, half, two112;
} gw_nibble_masks; /* low: 15 in each byte; half: mask for an f16's bits shifted left by 13; two112: 2^112 */

INLINE gw_nibble_masks masks(void) {
    return (gw_nibble_masks){ unknown(0x0f0f0f0f), unknown(0x8fffe000), unknown(0x77800000) };
}

/* How the JavaScript engine treats bytes above 127 in the second operand of the relaxed dot product. SEVEN: neither as
 * unsigned nor as signed numbers, so kernels use only 7 bits; UNSIGNED: as unsigned numbers (x86: vpdpbusd); SIGNED: as
 * signed numbers (ARM: sdot; x86: vpdpbssd). */
typedef enum { SEVEN, UNSIGNED, SIGNED } bits_taken;

/* Probes how the JavaScript engine's dot product treats bytes above 127, with bytes of at most `most` in the first
 * operand. Inlined into each function that relies on the result, so that the same compiler tier compiles the probe and
 * the kernel. */
INLINE bits_taken takes(int8_t most) {
    static volatile uint8_t top = 255;
    if (gw_relaxed_only_7_bits) return SEVEN;
    v128_t all = DOT(wasm_i8x16_splat(most), wasm_i8x16_splat((int8_t)top), wasm_i32x4_splat(0));
    int32_t sum = wasm_i32x4_extract_lane(all, 0);
    return sum == 4 * 255 * most ? UNSIGNED : sum == -4 * most ? SIGNED : SEVEN;
}

/* Probes whether the relaxed dot product is slow: three instructions, as on x86 without VNNI. One adds pairs of
 * products in 16 bits with saturation, one adds pairs of these sums, one adds the result to the total. If so, kernels
 * add up as many pairs of products in 16 bits as fit, and widen the sums once. Sums are exact in both cases. */
INLINE bool adds_pairs(void) {
    static volatile uint8_t top = 255;
    v128_t sum = DOT(wasm_i8x16_splat(127), wasm_i8x16_splat((int8_t)top), wasm_i32x4_splat(0));
    return gw_relaxed_pairs == GW_PAIRS_ASK ? wasm_i32x4_extract_lane(sum, 0) == 2 * INT16_MAX : gw_relaxed_pairs;
}

INLINE v128_t add_pairs(v128_t sum, v128_t x, v128_t c) { return wasm_i16x8_add(sum, PAIRS(x, c)); }

/* Returns start + nibbles times 32 activations. pairs: adds pairs of products in 16 bits. */
INLINE v128_t nibble_dot(const uint8_t *nibbles, const int8_t *q, v128_t start, const gw_nibble_masks *m, bool pairs) {
    v128_t first = wasm_v128_load(q), second = wasm_v128_load(q + 16), low = start, high = wasm_i32x4_splat(0);
#define GROUP(g)                                                                                      \
    v128_t v##g = wasm_v128_load(nibbles + 16 * g);                                                   \
    v128_t a##g = wasm_v128_and(v##g, m->low), b##g = wasm_v128_and(wasm_u16x8_shr(v##g, 4), m->low); \
    low = pairs ? add_pairs(low, LANE(first, g), a##g) : DOT(LANE(first, g), a##g, low);              \
    high = pairs ? add_pairs(high, LANE(second, g), b##g) : DOT(LANE(second, g), b##g, high);
    GROUP(0)
    GROUP(1)
    GROUP(2)
    GROUP(3)
#undef GROUP
    return pairs ? wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(low, high)) : wasm_i32x4_add(low, high);
}

/* Multiplies panels of a high plane (kernels.h) by two or more rows of int8 activations, several panels at the same
 * time. Returns the number of panels multiplied; see gw_relaxed_few. */
int gw_relaxed_few_high(const uint8_t *high, int panels, const gw_acts *a, float *y, size_t ldy);

/* Converts four f16 to f32. Exact for every finite value, including denormals; wrong for infinities and NaN. */
INLINE v128_t scales_from(const uint8_t *p, const gw_nibble_masks *m) {
    return wasm_f32x4_mul(wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), m->half), m->two112);
}

#endif
