/* simd: shared by all kernels with 128-bit vectors: the intrinsics (from the compiler for wasm, from SIMDe in native
 * builds, so that sanitizers check the same loops), hints to the compiler, conversions of 16-bit floats, and sums.
 * Included by the kernels only. */
#ifndef GW_SIMD_H
#define GW_SIMD_H

#include "kernels/kernels.h"

#ifdef GW_HAVE_SIMD

#ifdef GW_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
#else
#include <wasm_simd128.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define OUTLINE static __attribute__((noinline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("nounroll") /* for loops that, if unrolled, would spill registers */
#else
#define UNROLL
#define KEEP_LOOP
#endif
#define SPLAT(p) wasm_v128_load32_splat(p)

/* Returns a splatted word that is opaque to the compiler: V8 rebuilds a constant vector with three instructions at
 * every use, even in loops. */
INLINE v128_t unknown(uint32_t word) {
    volatile uint32_t hidden = word;
    return wasm_i32x4_splat((int32_t)hidden);
}

#define TWO_112 wasm_i32x4_splat(0x77800000)

/* Returns four f16 times 2^-112: sign, exponent and mantissa are shifted to their positions in a float. Exact for every
 * finite value, including denormals; wrong for infinities and NaN. */
INLINE v128_t small_f16x4(const uint8_t *p) {
    return wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), wasm_i32x4_splat((int)0x8fffe000));
}

INLINE v128_t f16x4(const uint8_t *p) { return wasm_f32x4_mul(small_f16x4(p), TWO_112); }
INLINE v128_t bf16x4(const uint8_t *p) { return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }

INLINE v128_t add_product(v128_t sum, v128_t a, v128_t b) { return wasm_f32x4_add(sum, wasm_f32x4_mul(a, b)); }

INLINE v128_t add_scaled(v128_t total, v128_t sum, v128_t weight_scales, v128_t scale) {
    return add_product(total, wasm_f32x4_convert_i32x4(sum), wasm_f32x4_mul(weight_scales, scale));
}

/* Returns sum + the products of int16 items; each lane adds two of them. */
INLINE v128_t add_dot(v128_t sum, v128_t a, v128_t b) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(a, b)); }

/* Return the even and the odd bytes, as unsigned numbers, in 16-bit lanes. */
INLINE v128_t even_of(v128_t bytes) { return wasm_v128_and(bytes, wasm_i16x8_splat(255)); }
INLINE v128_t odd_of(v128_t bytes) { return wasm_u16x8_shr(bytes, 8); }

#ifndef GW_HAVE_RELAXED

#define DOT wasm_i32x4_dot_i16x8

/* Sums of nibbles times int16 activations (every four in the order 0 2 1 3). Nibbles are multiplied at their position
 * in a 16-bit lane: sums of nibbles at bit n are 2^n times too large and are shifted once, which is cheaper. */
typedef struct {
    v128_t at0, at4, at8;
} nibble_sums;

INLINE nibble_sums nibble_sums_of(const uint8_t *nibbles, const int16_t *q) {
    nibble_sums s = { wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
    for (int g = 0; g < 4; g++) {
        v128_t v = wasm_v128_load(nibbles + 16 * g);
        v128_t low = DOT(wasm_v128_and(v, wasm_i16x8_splat(0x000f)), SPLAT(q + 4 * g));
        v128_t top = DOT(wasm_u16x8_shr(v, 12), SPLAT(q + 16 + 4 * g + 2));
        s.at0 = wasm_i32x4_add(s.at0, wasm_i32x4_add(low, top));
        s.at4 = add_dot(s.at4, wasm_v128_and(v, wasm_i16x8_splat(0x00f0)), SPLAT(q + 16 + 4 * g));
        s.at8 = add_dot(s.at8, wasm_v128_and(v, wasm_i16x8_splat(0x0f00)), SPLAT(q + 4 * g + 2));
    }
    return s;
}

#endif
#endif
#endif
