/* q4_relaxed: multiplies Q4_0 weights by one row of int8 activations, or a few rows, with the relaxed dot product of
 * bytes. Nibbles fit its 7-bit operand, so every JavaScript engine gives the same exact sums. tiles_relaxed.c
 * multiplies more rows. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

enum { INTERLEAVED = 8, TOGETHER = 2 }; /* number of panels read at once; number of rows multiplied by each */

/* Returns -8 * sum of the activations, the initial value of sums, which has the effect of subtracting 8 from each
 * nibble. */
INLINE v128_t start_of(const int32_t *sum) { return wasm_i32x4_neg(wasm_i32x4_shl(wasm_v128_load32_splat(sum), 3)); }

INLINE v128_t dots(const uint8_t *block, const int8_t *q, const int32_t *sum, const gw_nibble_masks *m, bool pairs) {
    v128_t start = pairs ? wasm_i32x4_splat(0) : start_of(sum), dot = nibble_dot(block + 8, q, start, m, pairs);
    return pairs ? wasm_i32x4_add(dot, start_of(sum)) : dot;
}

typedef struct {
    const int8_t *q;
    const float *scale;
    const int32_t *sum;
} place;

INLINE v128_t add_block(v128_t total, const uint8_t *block, const place *x, int i, const gw_nibble_masks *m,
                        bool pairs) {
    v128_t dot = dots(block, x->q + i * GW_BLOCK, x->sum + i, m, pairs);
    return add_scaled(total, dot, scales_from(block, m), SPLAT(x->scale + i));
}

INLINE void interleaved(const walk *s, const gw_acts *a, gw_nibble_masks m, bool pairs) {
    const uint8_t *w = s->w;
    size_t blocks = a->k / GW_BLOCK;
    place x = { a->q8, a->s8, a->sum8 };
    v128_t total[INTERLEAVED];
    UNROLL
    for (int i = 0; i < INTERLEAVED; i++) total[i] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks; b++, w += GW_Q4_BYTES, x.q += GW_BLOCK, x.scale++, x.sum++) {
        UNROLL
        for (int i = 0; i < INTERLEAVED; i++) total[i] = add_block(total[i], w + i * s->stride, &x, 0, &m, pairs);
    }
    UNROLL
    for (int i = 0; i < INTERLEAVED; i++) wasm_v128_store(s->y + i * s->step, total[i]);
}

INLINE void together(const job *j, const gw_acts *a, int t, int rows, gw_nibble_masks m, bool pairs) {
    const uint8_t *w = j->w;
    size_t blocks = a->k / GW_BLOCK, stride = a->stride;
    place x = { a->q8 + t * GW_BLOCK, a->s8 + t, a->sum8 + t };
    v128_t total[TOGETHER];
    UNROLL
    for (int i = 0; i < rows; i++) total[i] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < blocks;
         b++, w += GW_Q4_BYTES, x.q += stride * GW_BLOCK, x.scale += stride, x.sum += stride) {
        UNROLL
        for (int i = 0; i < rows; i++) total[i] = add_block(total[i], w, &x, i, &m, pairs);
    }
    UNROLL
    for (int i = 0; i < rows; i++) wasm_v128_store(j->y + (t + i) * j->ldy, total[i]);
}

/* Multiplies one row, or a few rows, by several panels at once. If there are more rows, full groups of rows are
 * multiplied in tiles, and the remaining rows panel by panel, so that a panel stays in the CPU cache. */
INLINE void product(const job *j, const gw_acts *a, bool pairs) {
    int each = a->n > 1 || a->sequential ? 0 : j->panels / INTERLEAVED,
        tiled = pairs && a->n < FEW ? 0 : gw_in_tiles(a->n, false);
    int done = a->n > 1 ? gw_relaxed_few(j) : each * INTERLEAVED;
    gw_nibble_masks m = masks();
    for (int i = 0; i < each; i++) {
        const walk to = walk_of(j, i, each, INTERLEAVED);
        interleaved(&to, a, m, pairs);
    }
    for (int p = done; p < j->panels; p += PAIR) {
        const job two = panels_from(j, p, (int)gw_min(PAIR, j->panels - p)), copy = two;
        gw_relaxed_rows_q4(&copy, tiled, false);
        KEEP_LOOP
        for (int i = 0; i < two.panels; i++) {
            const job one = panels_from(&two, i, 1);
            int t = tiled;
            KEEP_LOOP
            for (; t + TOGETHER <= a->n; t += TOGETHER) together(&one, a, t, TOGETHER, m, pairs);
            KEEP_LOOP
            for (; t < a->n; t++) together(&one, a, t, 1, m, pairs);
        }
    }
}

#define DEFINE(name, pairs)                                                                   \
    OUTLINE void name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) { \
        acts all = ACTS(a, 8);                                                                \
        product(&(job){ w, a->k / GW_BLOCK * GW_Q4_BYTES, panels, &all, y, ldy }, a, pairs);  \
    }
DEFINE(by_dots, false)
DEFINE(by_pairs, true)

void gw_relaxed_matmul_q4(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    (adds_pairs() ? by_pairs : by_dots)(w, panels, a, y, ldy);
}

#endif
