/* planes_relaxed: multiplies the output head's matrix, which is stored in planes of bits (kernels.h), with the relaxed
 * dot product of bytes. 4 or 6 bits of a quant fit its 7-bit operand, so every JavaScript engine gives the same exact
 * sums. If the engine multiplies unsigned bytes, all bits of a quant are joined to a byte first. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/planes.h"
#include "kernels/relaxed.h"

INLINE v128_t first_of(v128_t nibbles, const gw_nibble_masks *m) { return wasm_v128_and(nibbles, m->low); }
INLINE v128_t second_of(v128_t nibbles, const gw_nibble_masks *m) {
    return wasm_v128_and(wasm_u16x8_shr(nibbles, 4), m->low);
}

#define BYTES(v, mask) wasm_v128_and(v, wasm_i8x16_splat((int8_t)(mask)))

/* Returns nibbles 4 m + l of the four rows of a block: columns 4 g … 4 g + 3 in the low four bits of the bytes, columns
 * 16 + 4 g … in the high four. */
INLINE v128_t lower_nibbles(gw_planes w, int g) {
    v128_t m = wasm_v128_load(w.middle + g / 2 * 16), l = wasm_v128_load(w.low + g / 2 * 16);
    return wasm_v128_or(BYTES(g % 2 ? m : wasm_i16x8_shl(m, 2), 0xcc), BYTES(g % 2 ? wasm_u16x8_shr(l, 2) : l, 0x33));
}

/* Sets c[0] and c[1] to the upper six bits 4 n + m of columns 4 g … 4 g + 3 and 16 + 4 g … of a block. Masks: high is
 * 60 in each byte, low is 3. */
INLINE void upper_codes(gw_planes w, int g, v128_t high, v128_t low, v128_t c[2]) {
    v128_t n = wasm_v128_load(w.high + 8 + 16 * g), m = wasm_v128_load(w.middle + g / 2 * 16);
    v128_t first = g % 2 ? wasm_u16x8_shr(m, 2) : m, second = wasm_u16x8_shr(m, g % 2 ? 6 : 4);
    c[0] = wasm_v128_or(wasm_v128_and(wasm_i16x8_shl(n, 2), high), wasm_v128_and(first, low));
    c[1] = wasm_v128_or(wasm_v128_and(wasm_u16x8_shr(n, 2), high), wasm_v128_and(second, low));
}

/* Returns the sum over a block of (16 n - 120) q: nibbles n of the high plane, int8 activations q. */
INLINE v128_t high_dot(gw_planes w, const int8_t *q, const int32_t *sum, const gw_nibble_masks *m, bool pairs) {
    v128_t minus = wasm_i32x4_mul(SPLAT(sum), wasm_i32x4_splat(-120));
    return wasm_i32x4_add(wasm_i32x4_shl(nibble_dot(w.high + 8, q, wasm_i32x4_splat(0), m, pairs), 4), minus);
}

/* Returns the sum over a block of (4 c - 126) q: c = 4 n + m from the high and middle planes, int8 activations q.
 * pairs: adds pairs of products in 16 bits, which have room for 4 products: 4 * 127 * 63. */
INLINE v128_t upper_dot(gw_planes w, const int8_t *q, const int32_t *sum, v128_t high, v128_t low, bool pairs) {
    v128_t x[2] = { wasm_v128_load(q), wasm_v128_load(q + 16) }, total = wasm_i32x4_splat(0), c[2], dot[2];
#define GROUP(g)                                                                                         \
    upper_codes(w, g, high, low, c);                                                                     \
    for (int h = 0; h < 2; h++) {                                                                        \
        if (pairs) dot[h] = g % 2 ? add_pairs(dot[h], LANE(x[h], g), c[h]) : PAIRS(LANE(x[h], g), c[h]); \
        else dot[h] = DOT(LANE(x[h], g), c[h], g ? dot[h] : total);                                      \
        if (pairs && g % 2) total = wasm_i32x4_add(total, wasm_i32x4_extadd_pairwise_i16x8(dot[h]));     \
    }
    GROUP(0)
    GROUP(1)
    GROUP(2)
    GROUP(3)
#undef GROUP
    if (!pairs) total = wasm_i32x4_add(dot[0], dot[1]);
    return wasm_i32x4_add(wasm_i32x4_shl(total, 2), wasm_i32x4_mul(SPLAT(sum), wasm_i32x4_splat(-126)));
}

INLINE void walk_upper(const walk *to, const gw_acts *a, bool middle, bool pairs) {
    const walk own = *to, *w = &own; /* a local copy of the walk, which stores cannot alias */
    const gw_nibble_masks m = masks();
    v128_t high = unknown(0x3c3c3c3c), low = unknown(0x03030303);
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[INTERLEAVED];
    for (int s = 0; s < INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks; b++) {
        UNROLL
        for (int s = 0; s < INTERLEAVED; s++) {
            gw_planes block = gw_planes_from(w->w[s], b);
            size_t at = b * a->stride;
            const int8_t *q = a->q8 + at * GW_BLOCK;
            v128_t dot = middle ? upper_dot(block, q, a->sum8 + at, high, low, pairs)
                                : high_dot(block, q, a->sum8 + at, &m, pairs);
            total[s] = add_scaled(total[s], dot, scales_from(block.high, &m), SPLAT(a->s8 + at));
        }
    }
    for (int s = 0; s < INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

OUTLINE void high_by_dots(const walk *w, const gw_acts *a) { walk_upper(w, a, false, false); }
OUTLINE void high_by_pairs(const walk *w, const gw_acts *a) { walk_upper(w, a, false, true); }
OUTLINE void upper_by_dots(const walk *w, const gw_acts *a) { walk_upper(w, a, true, false); }
OUTLINE void upper_by_pairs(const walk *w, const gw_acts *a) { walk_upper(w, a, true, true); }

void gw_relaxed_planes_high(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    int done = gw_relaxed_few_high(w.high, panels, a, y, ldy);
    each_upper(adds_pairs() ? high_by_pairs : high_by_dots, gw_planes_from(w, done * (a->k / GW_BLOCK)), panels - done,
               a, y + done * GW_PANEL, ldy);
}

void gw_relaxed_planes_upper(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    each_upper(adds_pairs() ? upper_by_pairs : upper_by_dots, w, panels, a, y, ldy);
}

/* Four sums over a block: nibbles n (high plane) and l (lower_nibbles()), each multiplied by the upper and by the lower
 * plane of the activations. */
typedef struct {
    v128_t n_up, n_low, l_up, l_low;
} sums;

INLINE sums add_nibbles(sums s, v128_t up, v128_t low, v128_t n, v128_t l) {
    return (sums){ DOT(up, n, s.n_up), DOT(low, n, s.n_low), DOT(up, l, s.l_up), DOT(low, l, s.l_low) };
}

/* Returns the product of a block with int15 activations: subtracts 128 times the sum of the activations, because quants
 * are stored plus 128. */
INLINE v128_t joined(sums s, const int32_t *sum) {
    v128_t up = wasm_i32x4_add(wasm_i32x4_shl(s.n_up, 4), s.l_up);
    v128_t low = wasm_i32x4_add(wasm_i32x4_shl(s.n_low, 4), s.l_low);
    return wasm_i32x4_add(wasm_i32x4_shl(wasm_i32x4_sub(up, SPLAT(sum)), 7), low);
}

/* Multiplies one block of a panel by one row of activations, whose upper plane is at q, followed by the lower plane. */
INLINE v128_t block_dot(gw_planes w, const int8_t *q, const int32_t *sum, const gw_nibble_masks *m) {
    sums s = { wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
    UNROLL
    for (int g = 0; g < 4; g++, q += 4) {
        v128_t n = wasm_v128_load(w.high + 8 + 16 * g), l = lower_nibbles(w, g);
        s = add_nibbles(s, SPLAT(q), SPLAT(q + GW_BLOCK), first_of(n, m), first_of(l, m));
        s = add_nibbles(s, SPLAT(q + 16), SPLAT(q + GW_BLOCK + 16), second_of(n, m), second_of(l, m));
    }
    return joined(s, sum);
}

/* Returns the result of block_dot() with half as many products, of whole bytes, on JavaScript engines that multiply
 * unsigned bytes. */
INLINE v128_t whole_dot(gw_planes w, const int8_t *q, const int32_t *sum, const gw_nibble_masks *m) {
    v128_t up0 = wasm_v128_load(q), up16 = wasm_v128_load(q + 16), low0 = wasm_v128_load(q + 32);
    v128_t low16 = wasm_v128_load(q + 48), up = wasm_i32x4_splat(0), down = up;
#define GROUP(g)                                                                                      \
    v128_t n##g = wasm_v128_load(w.high + 8 + 16 * g), l##g = lower_nibbles(w, g);                    \
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

/* Adds the product of the activations and block b of the walk's panel s to `total`, and returns the sum. eight: the
 * JavaScript engine multiplies unsigned bytes. */
INLINE v128_t add_whole(v128_t total, const walk *w, int s, size_t b, const gw_acts *a, const gw_nibble_masks *m,
                        bool eight) {
    gw_planes block = gw_planes_from(w->w[s], b);
    size_t at = b * a->stride;
    const int8_t *q = (const int8_t *)a->q16 + 2 * at * GW_BLOCK;
    v128_t dot = (eight ? whole_dot : block_dot)(block, q, a->sum16 + at, m);
    return add_scaled(total, dot, scales_from(block.high, m), SPLAT(a->s16 + at));
}

OUTLINE void walk_whole(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own;
    const gw_nibble_masks m = masks();
    size_t blocks = a->k / GW_BLOCK;
    bool eight = takes(64) == UNSIGNED;
    v128_t total[WHOLE_INTERLEAVED];
    for (int s = 0; s < WHOLE_INTERLEAVED; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks && eight; b++) {
        UNROLL
        for (int s = 0; s < WHOLE_INTERLEAVED; s++) total[s] = add_whole(total[s], w, s, b, a, &m, true);
    }
    KEEP_LOOP
    for (size_t b = 0; b < blocks && !eight; b++) {
        KEEP_LOOP
        for (int s = 0; s < WHOLE_INTERLEAVED; s++) total[s] = add_whole(total[s], w, s, b, a, &m, false);
    }
    for (int s = 0; s < WHOLE_INTERLEAVED; s++) wasm_v128_store(w->y[s], total[s]);
}

OUTLINE void tile(gw_planes w, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    const gw_nibble_masks m = masks();
    v128_t total[TILE];
    for (int i = 0; i < TILE; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++, w = gw_planes_from(w, 1)) {
        size_t at = b * a->stride;
        const int8_t *q = (const int8_t *)(a->q16 + at * GW_BLOCK);
        KEEP_LOOP
        for (int i = 0; i < TILE; i++) {
            v128_t dot = block_dot(w, q + 2 * i * GW_BLOCK, a->sum16 + at + i, &m);
            total[i] = add_scaled(total[i], dot, scales_from(w.high, &m), SPLAT(a->s16 + at + i));
        }
    }
    for (int i = 0; i < TILE; i++) wasm_v128_store(y + i * ldy, total[i]);
}

DEFINE_PLANES(relaxed)

#endif
