/* relaxed: the switches of the relaxed kernels (kernels.h); in native builds, functions that imitate relaxed
 * instructions. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/relaxed.h"

volatile bool gw_relaxed_only_7_bits;
volatile int gw_relaxed_pairs = GW_PAIRS_ASK;

#ifdef GW_SIMDE

int gw_relaxed_engine = GW_ENGINE_PAIRS;
int gw_relaxed_fault = GW_FAULT_NONE;

typedef struct {
    v128_t low, high;
} pair_sums;

static pair_sums pair_sums_of(v128_t x, v128_t c) {
    bool with_sign = gw_relaxed_engine == GW_ENGINE_SIGNED;
    v128_t low = with_sign ? wasm_i16x8_extend_low_i8x16(c) : wasm_u16x8_extend_low_u8x16(c);
    v128_t high = with_sign ? wasm_i16x8_extend_high_i8x16(c) : wasm_u16x8_extend_high_u8x16(c);
    return (pair_sums){ wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(x), low),
                        wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(x), high) };
}

/* Imitates i16x8.relaxed_dot_i8x16_i7x16_s. With GW_FAULT_PAIRS, also imitates a fault of V8 (proof.h): the second
 * operand replaces the first. */
v128_t gw_simde_pairs(v128_t x, v128_t c) {
    pair_sums sum = pair_sums_of(gw_relaxed_fault == GW_FAULT_PAIRS ? c : x, c);
    return wasm_i16x8_narrow_i32x4(sum.low, sum.high);
}

/* For tests, imitates a fault that the probe takes() cannot detect: bytes above 127 become 0, unless all bytes are
 * above 127. */
static v128_t without_8_bits(v128_t c) {
    v128_t above = wasm_i8x16_shr(c, 7), all = wasm_i32x4_splat(-1);
    return wasm_v128_any_true(wasm_v128_andnot(all, above)) ? wasm_v128_andnot(c, above) : c;
}

v128_t gw_simde_dot(v128_t x, v128_t c, v128_t total) {
    if (gw_relaxed_fault == GW_FAULT_DOT) x = c;
    if (gw_relaxed_fault == GW_FAULT_8_BITS) c = without_8_bits(c);
    pair_sums sum = pair_sums_of(x, c);
    if (gw_relaxed_engine == GW_ENGINE_PAIRS) {
        v128_t pairs = wasm_i16x8_narrow_i32x4(sum.low, sum.high);
        return wasm_i32x4_add(total, wasm_i32x4_extadd_pairwise_i16x8(pairs));
    }
    v128_t even = wasm_i32x4_shuffle(sum.low, sum.high, 0, 2, 4, 6);
    v128_t odd = wasm_i32x4_shuffle(sum.low, sum.high, 1, 3, 5, 7);
    return wasm_i32x4_add(total, wasm_i32x4_add(even, odd));
}

/* Imitates i8x16.relaxed_swizzle. Engines differ only for indices above 15, which kernels never use. */
v128_t gw_simde_swizzle(v128_t table, v128_t c) {
    return wasm_i8x16_swizzle(table, gw_relaxed_fault == GW_FAULT_SWIZZLE ? wasm_v128_xor(c, wasm_i8x16_splat(1)) : c);
}

#endif

#endif
