/* kernels_head_relaxed: two planes of Q8_0 with the relaxed dot product of bytes. Its second operand is only
 * defined for 7 bits; nibbles are well inside, so every engine gives the same exact sums. Where an engine takes 8
 * bits, both nibbles of a code are put together first. */
#include "kernels.h"

#ifdef GW_HAVE_RELAXED

#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))
#define OUTLINE static __attribute__((noinline))
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("nounroll")
#define SPLAT(p) wasm_v128_load32_splat(p)
#define DOT wasm_i32x4_relaxed_dot_i8x16_i7x16_add

enum { STREAMS = 4, TILE = 4 };   /* panels walked at once; rows of activations at once */

/* Where panels begin that are walked together, and where their results go. */
typedef struct {
    const uint8_t *high[STREAMS], *low[STREAMS];
    float *y[STREAMS];
} walk;

typedef void walker(const walk *w, const gw_acts *a);

/* n panels, STREAMS at a time: those listed, or all, then far apart. The last ones are walked more than once. */
OUTLINE void each_walk(walker *f, const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n,
                       const gw_acts *a, float *y) {
    size_t blocks = a->k / GW_BLOCK;
    int steps = (n + STREAMS - 1) / STREAMS;
    for (int i = 0; i < steps; i++) {
        walk w;
        for (int s = 0; s < STREAMS; s++) {
            int at = (int)gw_min(i + s * steps, n - 1);
            size_t p = panel ? panel[at] : (size_t)at;
            w.high[s] = high + p * blocks * GW_HIGH_BYTES;
            w.low[s] = low + p * blocks * GW_LOW_BYTES;
            w.y[s] = y + p * GW_PANEL;
        }
        f(&w, a);
    }
}

INLINE v128_t scales_of(const uint8_t *block) {   /* exact f16 -> f32, see kernels_simd128.c */
    v128_t u = wasm_u32x4_load16x4(block);
    v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x7fff)), 13);
    v128_t sign = wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x8000)), 16);
    return wasm_v128_or(wasm_f32x4_mul(magnitude, wasm_i32x4_splat(0x77800000)), sign);
}

/* total + (float)sum * (weight scales * activation scale) */
INLINE v128_t add_scaled(v128_t total, v128_t sum, v128_t weight_scales, const float *scale) {
    v128_t scales = wasm_f32x4_mul(weight_scales, SPLAT(scale));
    return wasm_f32x4_add(total, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), scales));
}

INLINE v128_t first_of(v128_t nibbles) { return wasm_v128_and(nibbles, wasm_i8x16_splat(15)); }
INLINE v128_t second_of(v128_t nibbles) { return wasm_v128_and(wasm_u16x8_shr(nibbles, 4), wasm_i8x16_splat(15)); }

/* --- the high plane --- */

OUTLINE void walk_high(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own;   /* a copy: what is stored cannot change it */
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[STREAMS];
    for (int s = 0; s < STREAMS; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++) {
        size_t at = b * a->stride;
        const int8_t *q = a->q8 + at * GW_BLOCK;
        v128_t dot[STREAMS], offset = wasm_i32x4_mul(SPLAT(a->sum8 + at), wasm_i32x4_splat(-120));
        for (int s = 0; s < STREAMS; s++) dot[s] = wasm_i32x4_splat(0);
        for (int g = 0; g < 4; g++) {
            v128_t x = SPLAT(q + 4 * g), x16 = SPLAT(q + 16 + 4 * g);
            for (int s = 0; s < STREAMS; s++) {
                v128_t v = wasm_v128_load(w->high[s] + b * GW_HIGH_BYTES + 8 + 16 * g);
                dot[s] = DOT(x16, second_of(v), DOT(x, first_of(v), dot[s]));
            }
        }
        for (int s = 0; s < STREAMS; s++) {
            v128_t sum = wasm_i32x4_add(wasm_i32x4_shl(dot[s], 4), offset);
            total[s] = add_scaled(total[s], sum, scales_of(w->high[s] + b * GW_HIGH_BYTES), a->s8 + at);
        }
    }
    for (int s = 0; s < STREAMS; s++) wasm_v128_store(w->y[s], total[s]);
}

void gw_relaxed_head_high(const uint8_t *high, int panels, const gw_acts *a, float *y) {
    each_walk(walk_high, high, high, NULL, panels, a, y);
}

/* --- both planes --- */

/* Sums over a block: nibbles n and l by the upper and the lower bytes of wide activations. */
typedef struct { v128_t n_up, n_low, l_up, l_low; } sums;

INLINE sums add_nibbles(sums s, v128_t up, v128_t low, v128_t n, v128_t l) {
    return (sums){ DOT(up, n, s.n_up), DOT(low, n, s.n_low), DOT(up, l, s.l_up), DOT(low, l, s.l_low) };
}

/* 128 (16 n_up + l_up) + 16 n_low + l_low - 128 times the sum of the activations */
INLINE v128_t joined(sums s, const int32_t *sum) {
    v128_t up = wasm_i32x4_add(wasm_i32x4_shl(s.n_up, 4), s.l_up);
    v128_t low = wasm_i32x4_add(wasm_i32x4_shl(s.n_low, 4), s.l_low);
    return wasm_i32x4_add(wasm_i32x4_shl(wasm_i32x4_sub(up, SPLAT(sum)), 7), low);
}

/* One block of one panel by one row of activations, upper bytes at q, lower ones behind. */
INLINE v128_t block_dot(const uint8_t *high, const uint8_t *low, const int8_t *q, const int32_t *sum) {
    sums s = { wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
    for (int g = 0; g < 4; g++) {
        v128_t n = wasm_v128_load(high + 8 + 16 * g), l = wasm_v128_load(low + 16 * g);
        s = add_nibbles(s, SPLAT(q + 4 * g), SPLAT(q + GW_BLOCK + 4 * g), first_of(n), first_of(l));
        s = add_nibbles(s, SPLAT(q + 16 + 4 * g), SPLAT(q + GW_BLOCK + 16 + 4 * g), second_of(n), second_of(l));
    }
    return joined(s, sum);
}

/* Does this engine take 8 bits without a sign where the other bytes are at most 64? Then codes + 128 are put together.
 * Asked where it is relied on, so that both are compiled alike. */
INLINE bool takes_8_bits(void) {
    static volatile uint8_t top = 255;
    v128_t sum = DOT(wasm_i8x16_splat(64), wasm_u8x16_splat(top), wasm_i32x4_splat(0));
    return !gw_relaxed_only_7_bits && wasm_i32x4_all_true(wasm_i32x4_eq(sum, wasm_i32x4_splat(4 * 64 * 255)));
}

/* block_dot where the engine takes 8 bits: half the products, of codes + 128. */
INLINE v128_t whole_dot(const uint8_t *high, const uint8_t *low, const int8_t *q, const int32_t *sum) {
    v128_t up = wasm_i32x4_splat(0), down = up, mask = wasm_i8x16_splat(15);
    for (int g = 0; g < 4; g++) {
        v128_t n = wasm_v128_load(high + 8 + 16 * g), l = wasm_v128_load(low + 16 * g);
        v128_t first = wasm_v128_or(wasm_v128_and(l, mask), wasm_v128_andnot(wasm_i16x8_shl(n, 4), mask));
        v128_t second = wasm_v128_or(wasm_v128_andnot(n, mask), wasm_v128_and(wasm_u16x8_shr(l, 4), mask));
        up = DOT(SPLAT(q + 16 + 4 * g), second, DOT(SPLAT(q + 4 * g), first, up));
        down = DOT(SPLAT(q + GW_BLOCK + 16 + 4 * g), second, DOT(SPLAT(q + GW_BLOCK + 4 * g), first, down));
    }
    return wasm_i32x4_add(wasm_i32x4_shl(wasm_i32x4_sub(up, SPLAT(sum)), 7), down);
}

OUTLINE void walk_both(const walk *to, const gw_acts *a) {
    const walk own = *to, *w = &own;
    size_t blocks = a->k / GW_BLOCK;
    const int8_t *q = (const int8_t *)a->q16;
    bool whole = takes_8_bits();
    v128_t total[STREAMS];
    for (int s = 0; s < STREAMS; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks && whole; b++)
        UNROLL
        for (int s = 0; s < STREAMS; s++) {
            const uint8_t *high = w->high[s] + b * GW_HIGH_BYTES, *low = w->low[s] + b * GW_LOW_BYTES;
            size_t at = b * a->stride;
            v128_t dot = whole_dot(high, low, q + 2 * at * GW_BLOCK, a->sum16 + at);
            total[s] = add_scaled(total[s], dot, scales_of(high), a->s16 + at);
        }
    for (size_t b = 0; b < blocks && !whole; b++)
        KEEP_LOOP
        for (int s = 0; s < STREAMS; s++) {
            const uint8_t *high = w->high[s] + b * GW_HIGH_BYTES, *low = w->low[s] + b * GW_LOW_BYTES;
            size_t at = b * a->stride;
            v128_t dot = block_dot(high, low, q + 2 * at * GW_BLOCK, a->sum16 + at);
            total[s] = add_scaled(total[s], dot, scales_of(high), a->s16 + at);
        }
    for (int s = 0; s < STREAMS; s++) wasm_v128_store(w->y[s], total[s]);
}

void gw_relaxed_head_some(const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n, const gw_acts *a,
                          float *y) {
    each_walk(walk_both, high, low, panel, n, a, y);
}

/* TILE rows of activations, one panel. */
OUTLINE void tile(const uint8_t *high, const uint8_t *low, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    v128_t total[TILE];
    for (int i = 0; i < TILE; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b++, high += GW_HIGH_BYTES, low += GW_LOW_BYTES) {
        size_t at = b * a->stride;
        const int8_t *q = (const int8_t *)(a->q16 + at * GW_BLOCK);
        KEEP_LOOP
        for (int i = 0; i < TILE; i++) {
            v128_t dot = block_dot(high, low, q + 2 * i * GW_BLOCK, a->sum16 + at + i);
            total[i] = add_scaled(total[i], dot, scales_of(high), a->s16 + at + i);
        }
    }
    for (int i = 0; i < TILE; i++) wasm_v128_store(y + i * ldy, total[i]);
}

/* Activations from row t on. */
INLINE gw_acts from_row(const gw_acts *a, int t) {
    gw_acts rest = *a;
    rest.q16 += t * GW_BLOCK;
    rest.s16 += t;
    rest.sum16 += t;
    return rest;
}

void gw_relaxed_head_planes(const uint8_t *high, const uint8_t *low, int panels, const gw_acts *a, float *y,
                            size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    int t = 0;
    for (; t + TILE <= a->n; t += TILE) {
        gw_acts rest = from_row(a, t);
        for (size_t p = 0; p < (size_t)panels; p++)
            tile(high + p * blocks * GW_HIGH_BYTES, low + p * blocks * GW_LOW_BYTES, &rest,
                 y + t * ldy + p * GW_PANEL, ldy);
    }
    for (; t < a->n; t++) {
        gw_acts rest = from_row(a, t);
        each_walk(walk_both, high, low, NULL, panels, &rest, y + t * ldy);
    }
}

#endif
