/* planes_simd128: multiplies an output matrix in two planes of nibbles by int16 activations (every four in the order
 * 0 2 1 3), without relaxed SIMD. One row of activations is multiplied by several panels at the same time (floats.c).
 * For several rows, the nibbles of a block are joined to bytes once. */
#include "kernels/kernels.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)

#include "kernels/planes.h"

/* Returns, for each of four rows, 16 times the sum of a block's nibbles times activations. */
INLINE v128_t nibble_dot(const uint8_t *nibbles, const int16_t *q) {
    nibble_sums s = nibble_sums_of(nibbles, q);
    return wasm_i32x4_add(wasm_i32x4_shl(s.at0, 4), wasm_i32x4_add(s.at4, wasm_i32x4_shr(s.at8, 4)));
}

OUTLINE void walk_high(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own; /* a local copy of the walk, which stores cannot alias */
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[INTERLEAVED];
    for (int s = 0; s < INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++) {
        size_t at = b * a->stride;
        v128_t offset = wasm_i32x4_mul(SPLAT(a->sum8 + at), wasm_i32x4_splat(-120));
        UNROLL
        for (int s = 0; s < INTERLEAVED; s++) {
            const uint8_t *block = w->w[s].high + b * GW_HIGH_BYTES;
            v128_t dot = wasm_i32x4_add(nibble_dot(block + 8, a->q8 + at * GW_BLOCK), offset);
            total[s] = add_scaled(total[s], dot, f16x4(block), SPLAT(a->s8 + at));
        }
    }
    for (int s = 0; s < INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

void gw_simd_planes_high(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    each_upper(walk_high, w, panels, a, y, ldy);
}

/* Joins vector g of a block in both planes to bytes (quants plus 128): *first receives columns 4 g … 4 g + 3 of the
 * four rows, *second columns 16 + 4 g … 16 + 4 g + 3. */
INLINE void join(v128_t high, v128_t low, v128_t *first, v128_t *second) {
    v128_t bottom = wasm_i8x16_splat(15), top = wasm_i8x16_splat(-16);
    *first = wasm_v128_or(wasm_v128_and(wasm_i16x8_shl(high, 4), top), wasm_v128_and(low, bottom));
    *second = wasm_v128_or(wasm_v128_and(high, top), wasm_v128_and(wasm_u16x8_shr(low, 4), bottom));
}

INLINE v128_t join_dot(gw_planes w, const int16_t *q) {
    v128_t even = wasm_i32x4_splat(0), odd = even, c[2];
    for (int g = 0; g < 4; g++) {
        join(wasm_v128_load(w.high + 8 + 16 * g), wasm_v128_load(w.low + 16 * g), &c[0], &c[1]);
        for (int h = 0; h < 2; h++) {
            even = add_dot(even, even_of(c[h]), SPLAT(q + 16 * h + 4 * g));
            odd = add_dot(odd, odd_of(c[h]), SPLAT(q + 16 * h + 4 * g + 2));
        }
    }
    return wasm_i32x4_add(even, odd);
}

OUTLINE void walk_whole(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own;
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[WHOLE_INTERLEAVED];
    for (int s = 0; s < WHOLE_INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++) {
        size_t at = b * a->stride;
        v128_t offset = wasm_i32x4_shl(SPLAT(a->sum16 + at), 7);
        UNROLL
        for (int s = 0; s < WHOLE_INTERLEAVED; s++) {
            gw_planes block = gw_planes_from(w->w[s], b);
            v128_t dot = wasm_i32x4_sub(join_dot(block, a->q16 + at * GW_BLOCK), offset);
            total[s] = add_scaled(total[s], dot, f16x4(block.high), SPLAT(a->s16 + at));
        }
    }
    for (int s = 0; s < WHOLE_INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

OUTLINE void tile(gw_planes w, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[TILE], dot[TILE], c[4];
    for (int i = 0; i < TILE; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++, w = gw_planes_from(w, 1)) {
        size_t at = b * a->stride;
        for (int i = 0; i < TILE; i++) dot[i] = wasm_i32x4_mul(SPLAT(a->sum16 + at + i), wasm_i32x4_splat(-128));
        KEEP_LOOP
        for (int g = 0; g < 4; g++) {
            join(wasm_v128_load(w.high + 8 + 16 * g), wasm_v128_load(w.low + 16 * g), &c[0], &c[2]);
            for (int h = 0; h < 4; h += 2) c[h + 1] = odd_of(c[h]), c[h] = even_of(c[h]);
            for (int i = 0; i < TILE; i++)
                for (int h = 0; h < 4; h++) {
                    const int16_t *x = a->q16 + (at + i) * GW_BLOCK + 4 * g + (h & 2) * 8 + (h & 1) * 2;
                    dot[i] = add_dot(dot[i], c[h], SPLAT(x));
                }
        }
        for (int i = 0; i < TILE; i++) total[i] = add_scaled(total[i], dot[i], f16x4(w.high), SPLAT(a->s16 + at + i));
    }
    for (int i = 0; i < TILE; i++) wasm_v128_store(y + i * ldy, total[i]);
}

DEFINE_PLANES(simd)

#endif
