/* round: rounds floats of a file to blocks of Q8_0 while a model loads, without relaxed SIMD. The results have the same
 * bits as those of quantise_q8_0 in types.c and of ggml's reference quantiser: the scale is the largest magnitude /
 * 127, and halves are rounded away from zero. */
#include "kernels/simd.h"
#include "file/types.h"

#ifdef GW_HAVE_SIMD

#include <math.h>
#include <string.h>

enum { VECTORS = GW_BLOCK / 4 };

INLINE v128_t load_f32(const uint8_t *p) { return wasm_v128_load(p); }

/* Converts four f16 to f32, including infinities and NaN, because the file's numbers are not checked yet. */
INLINE v128_t load_f16(const uint8_t *p) {
    v128_t u = wasm_u32x4_load16x4(p);
    v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x7fff)), 13);
    v128_t special = wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x0f7fffff));
    v128_t value = wasm_f32x4_mul(magnitude, TWO_112);
    value = wasm_v128_or(value, wasm_v128_and(special, wasm_i32x4_splat(0x7f800000)));
    return wasm_v128_or(value, wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x8000)), 16));
}

/* Returns the largest magnitude of a block; ignores NaN. */
INLINE float peak_of(const v128_t *v) {
    v128_t most = wasm_i32x4_splat(0);
    for (int i = 0; i < VECTORS; i++) most = wasm_f32x4_pmax(most, wasm_f32x4_abs(v[i]));
    most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
    most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(most, 0);
}

/* Rounds value * inverse to integers in -127 .. 127, NaN to -127. Adding just less than a half and truncating rounds
 * halves away from zero; adding 1.5 * 2^23 leaves the integer in the low bits. */
INLINE v128_t rounded(v128_t value, v128_t inverse) {
    v128_t x = wasm_f32x4_mul(value, inverse);
    x = wasm_f32x4_pmin(wasm_f32x4_splat(127.0f), wasm_f32x4_pmax(wasm_f32x4_splat(-127.0f), x));
    v128_t half = wasm_v128_or(wasm_v128_and(x, wasm_i32x4_splat((int)0x80000000)), wasm_i32x4_splat(0x3effffff));
    x = wasm_f32x4_add(wasm_f32x4_trunc(wasm_f32x4_add(x, half)), wasm_f32x4_splat(12582912.0f));
    return wasm_i32x4_sub(x, wasm_i32x4_splat(0x4b400000));
}

INLINE void round_block(const v128_t *v, uint8_t *block) {
    float d = peak_of(v) / 127.0f, id = d != 0 ? 1.0f / d : 0.0f;
    uint16_t scale = gw_f32_to_f16(d);
    memcpy(block, &scale, 2);
    v128_t inverse = wasm_f32x4_splat(isfinite(id) ? id : 0.0f), pairs[VECTORS / 2];
    for (int i = 0; i < VECTORS / 2; i++)
        pairs[i] = wasm_i16x8_narrow_i32x4(rounded(v[2 * i], inverse), rounded(v[2 * i + 1], inverse));
    wasm_v128_store(block + 2, wasm_i8x16_narrow_i16x8(pairs[0], pairs[1]));
    wasm_v128_store(block + 18, wasm_i8x16_narrow_i16x8(pairs[2], pairs[3]));
}

INLINE void round_row(const uint8_t *row, size_t item, v128_t (*load)(const uint8_t *), size_t k, uint8_t *blocks) {
    for (size_t i = 0; i < k; i += GW_BLOCK, blocks += GW_Q8_BYTES / GW_PANEL) {
        v128_t v[VECTORS];
        for (int j = 0; j < VECTORS; j++) v[j] = load(row + (i + 4 * j) * item);
        round_block(v, blocks);
    }
}

void gw_simd_round_f32(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(row, 4, load_f32, k, blocks); }
void gw_simd_round_f16(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(row, 2, load_f16, k, blocks); }
void gw_simd_round_bf16(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(row, 2, bf16x4, k, blocks); }

#endif
