/* planes_relaxed: products of an output head in two planes by the relaxed dot product of bytes. Its result is only
 * defined if the bytes of the second operand have 7 bits; nibbles fit, so every engine gives the same exact sums. If an
 * engine multiplies unsigned bytes, the two nibbles of each quant are joined to a byte first. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/planes.h"
#include "kernels/relaxed.h"

INLINE v128_t first_of(v128_t nibbles, const gw_nibble_masks *m) { return wasm_v128_and(nibbles, m->low); }
INLINE v128_t second_of(v128_t nibbles, const gw_nibble_masks *m) {
    return wasm_v128_and(wasm_u16x8_shr(nibbles, 4), m->low);
}

/* --- the high plane --- */

INLINE v128_t high_dot(const uint8_t *high, const int8_t *q, const int32_t *sum, const gw_nibble_masks *m, bool pairs) {
    v128_t minus = wasm_i32x4_mul(SPLAT(sum), wasm_i32x4_splat(-120));
    return wasm_i32x4_add(wasm_i32x4_shl(nibble_dot(high + 8, q, wasm_i32x4_splat(0), m, pairs), 4), minus);
}

INLINE void walk_high(const walk *to, const gw_acts *a, bool pairs) {
    const walk own = *to, *w = &own; /* a local copy, which stores cannot alias */
    const gw_nibble_masks m = masks();
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[INTERLEAVED];
    for (int s = 0; s < INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks; b++) {
        UNROLL
        for (int s = 0; s < INTERLEAVED; s++) {
            const uint8_t *high = w->high[s] + b * GW_HIGH_BYTES;
            size_t at = b * a->stride;
            v128_t dot = high_dot(high, a->q8 + at * GW_BLOCK, a->sum8 + at, &m, pairs);
            total[s] = add_scaled(total[s], dot, scales_from(high, &m), SPLAT(a->s8 + at));
        }
    }
    for (int s = 0; s < INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

OUTLINE void high_by_dots(const walk *w, const gw_acts *a) { walk_high(w, a, false); }
OUTLINE void high_by_pairs(const walk *w, const gw_acts *a) { walk_high(w, a, true); }

void gw_relaxed_planes_high(const uint8_t *high, int panels, const gw_acts *a, float *y, size_t ldy) {
    int done = gw_relaxed_few_high(high, panels, a, y, ldy);
    each_high(adds_pairs() ? high_by_pairs : high_by_dots, high, done, panels, a, y, ldy);
}

/* --- both planes --- */

/* Sums over a block: the nibbles n and l (kernels.h) times the upper and lower plane of the activations. */
typedef struct {
    v128_t n_up, n_low, l_up, l_low;
} sums;

INLINE sums add_nibbles(sums s, v128_t up, v128_t low, v128_t n, v128_t l) {
    return (sums){ DOT(up, n, s.n_up), DOT(low, n, s.n_low), DOT(up, l, s.l_up), DOT(low, l, s.l_low) };
}

/* Returns 128 (16 n_up + l_up) + 16 n_low + l_low - 128 times the sum of the activations. */
INLINE v128_t joined(sums s, const int32_t *sum) {
    v128_t up = wasm_i32x4_add(wasm_i32x4_shl(s.n_up, 4), s.l_up);
    v128_t low = wasm_i32x4_add(wasm_i32x4_shl(s.n_low, 4), s.l_low);
    return wasm_i32x4_add(wasm_i32x4_shl(wasm_i32x4_sub(up, SPLAT(sum)), 7), low);
}

/* Multiplies one block of a panel by one row of activations; the upper plane of the activations is at q, followed by
 * the lower plane. */
INLINE v128_t block_dot(const uint8_t *high, const uint8_t *low, const int8_t *q, const int32_t *sum,
                        const gw_nibble_masks *m) {
    sums s = { wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
    KEEP_LOOP
    for (int g = 0; g < 4; g++, q += 4) {
        v128_t n = wasm_v128_load(high + 8 + 16 * g), l = wasm_v128_load(low + 16 * g);
        s = add_nibbles(s, SPLAT(q), SPLAT(q + GW_BLOCK), first_of(n, m), first_of(l, m));
        s = add_nibbles(s, SPLAT(q + 16), SPLAT(q + GW_BLOCK + 16), second_of(n, m), second_of(l, m));
    }
    return joined(s, sum);
}

/* Like block_dot(), for engines that multiply unsigned bytes: needs half as many products, with quants plus 128. */
INLINE v128_t whole_dot(const uint8_t *high, const uint8_t *low, const int8_t *q, const int32_t *sum,
                        const gw_nibble_masks *m) {
    v128_t up0 = wasm_v128_load(q), up16 = wasm_v128_load(q + 16), low0 = wasm_v128_load(q + 32);
    v128_t low16 = wasm_v128_load(q + 48), up = wasm_i32x4_splat(0), down = up;
#define GROUP(g)                                                                                      \
    v128_t n##g = wasm_v128_load(high + 8 + 16 * g), l##g = wasm_v128_load(low + 16 * g);             \
    v128_t a##g = wasm_v128_or(first_of(l##g, m), wasm_v128_andnot(wasm_i16x8_shl(n##g, 4), m->low)); \
    v128_t b##g = wasm_v128_or(wasm_v128_andnot(n##g, m->low), second_of(l##g, m));                   \
    up = DOT(LANE(up16, g), b##g, DOT(LANE(up0, g), a##g, up));                                       \
    down = DOT(LANE(low16, g), b##g, DOT(LANE(low0, g), a##g, down));
    GROUP(0)
    GROUP(1)
    GROUP(2)
    GROUP(3)
#undef GROUP
    return wasm_i32x4_add(wasm_i32x4_shl(wasm_i32x4_sub(up, SPLAT(sum)), 7), down);
}

/* Returns total + the product with block b of panel s of the walk. eight: the engine multiplies unsigned bytes. */
INLINE v128_t add_both(v128_t total, const walk *w, int s, size_t b, const gw_acts *a, const gw_nibble_masks *m,
                       bool eight) {
    const uint8_t *high = w->high[s] + b * GW_HIGH_BYTES, *low = w->low[s] + b * GW_LOW_BYTES;
    size_t at = b * a->stride;
    const int8_t *q = (const int8_t *)a->q16 + 2 * at * GW_BLOCK;
    v128_t dot = (eight ? whole_dot : block_dot)(high, low, q, a->sum16 + at, m);
    return add_scaled(total, dot, scales_from(high, m), SPLAT(a->s16 + at));
}

OUTLINE void walk_both(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own;
    const gw_nibble_masks m = masks();
    size_t blocks = a->k / GW_BLOCK;
    bool eight = takes(64) == UNSIGNED;
    v128_t total[INTERLEAVED];
    for (int s = 0; s < INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks && eight; b++) {
        UNROLL
        for (int s = 0; s < INTERLEAVED; s++) total[s] = add_both(total[s], w, s, b, a, &m, true);
    }
    KEEP_LOOP
    for (size_t b = 0; b < blocks && !eight; b++) {
        KEEP_LOOP
        for (int s = 0; s < INTERLEAVED; s++) total[s] = add_both(total[s], w, s, b, a, &m, false);
    }
    for (int s = 0; s < INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

OUTLINE void tile(const uint8_t *high, const uint8_t *low, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    const gw_nibble_masks m = masks();
    v128_t total[TILE];
    for (int i = 0; i < TILE; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++, high += GW_HIGH_BYTES, low += GW_LOW_BYTES) {
        size_t at = b * a->stride;
        const int8_t *q = (const int8_t *)(a->q16 + at * GW_BLOCK);
        KEEP_LOOP
        for (int i = 0; i < TILE; i++) {
            v128_t dot = block_dot(high, low, q + 2 * i * GW_BLOCK, a->sum16 + at + i, &m);
            total[i] = add_scaled(total[i], dot, scales_from(high, &m), SPLAT(a->s16 + at + i));
        }
    }
    for (int i = 0; i < TILE; i++) wasm_v128_store(y + i * ldy, total[i]);
}

DEFINE_PLANES(relaxed)

#endif
