/* simd: what all files with 128-bit vectors share: where the intrinsics come from (the compiler for wasm,
 * SIMDe natively, so that sanitizers see the loops), words to the compiler, half-width floats widened, and how sums of
 * integers go into totals.
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
#define KEEP_LOOP _Pragma("nounroll")   /* unrolled, the next loop's registers would spill */
#else
#define UNROLL
#define KEEP_LOOP
#endif
#define SPLAT(p) wasm_v128_load32_splat(p)

/* V8 makes a constant vector anew wherever it is used, in a loop each time round, with three instructions. This is a
 * word four times that no compiler knows. */
INLINE v128_t unknown(uint32_t word) {
    volatile uint32_t hidden = word;
    return wasm_i32x4_splat((int32_t)hidden);
}

#define TWO_112 wasm_i32x4_splat(0x77800000)

/* Four f16 times 2^-112: sign, exponent and mantissa go where a float has them. Exact for every finite value,
 * denormals too (no inf, no NaN). */
INLINE v128_t small_f16x4(const uint8_t *p) {
    return wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), wasm_i32x4_splat((int)0x8fffe000));
}

INLINE v128_t f16x4(const uint8_t *p) { return wasm_f32x4_mul(small_f16x4(p), TWO_112); }
INLINE v128_t bf16x4(const uint8_t *p) { return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }

/* total + (float)sum * (weight scales * activation scale) */
INLINE v128_t add_scaled(v128_t total, v128_t sum, v128_t weight_scales, v128_t scale) {
    return wasm_f32x4_add(total, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), wasm_f32x4_mul(weight_scales, scale)));
}

#endif
#endif
