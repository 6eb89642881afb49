/* tiles.h: several rows of activations by two panels, in both SIMD builds: a block's scales, products of int16,
 * and how sums go into totals. A tile has two panels, so that a splatted activation meets two vectors of weights: 27
 * instructions for 64 products of int16, one panel takes 17 for 32. Included by codes_*.c only. */
#ifndef GW_TILES_H
#define GW_TILES_H

#include "kernels/quants.h"

enum { TILE = 4, PAIR = 2 };   /* rows of activations, panels of a tile */

/* Sums of a tile, of four rows of weights each. */
typedef v128_t sums[TILE][PAIR];

#define EACH_SUM(rows, i, p)               \
    for (int i = 0; i < (rows); i++)       \
        for (int p = 0; p < PAIR; p++)

/* Scales and mins of a block of PAIR panels. */
typedef struct { v128_t scale[PAIR], min[PAIR], small[2][PAIR], small_min[2][PAIR]; } block_scales;

/* Those of panel p and block j of a group. */
INLINE void open_scales(const shape *f, const fronts *h, uint32_t j, const scale_masks *m, block_scales *out, int p) {
    uint32_t at = f->subs == 2 || f->blocks == 1 ? 0 : j;
    out->scale[p] = h->scale[at];
    if (f->mins) out->min[p] = h->min[at];
    if (f->subs == 1) return;
    pairs small = pairs_of(f, h, j, m);
    out->small[0][p] = first_of(small.scale);
    out->small[1][p] = second_of(small.scale);
    if (!f->mins) return;
    out->small_min[0][p] = first_of(small.min);
    out->small_min[1][p] = second_of(small.min);
}

/* A block of PAIR panels as int16: vector 2 g holds columns (4 g, 4 g + 2) of four rows side by side, vector 2 g + 1
 * columns (4 g + 1, 4 g + 3). */
typedef v128_t wide_block[2 * COLUMNS][PAIR];

/* Bytes without sign as int16. */
INLINE v128_t even_of(v128_t c) { return wasm_v128_and(c, wasm_i16x8_splat(255)); }
INLINE v128_t odd_of(v128_t c) { return wasm_u16x8_shr(c, 8); }

/* Four columns of codes that count from `offset`, to two of panel p. */
INLINE void widen_codes(v128_t c, int offset, v128_t (*out)[PAIR], int p) {
    v128_t from = wasm_i16x8_splat((int16_t)offset);
    out[0][p] = wasm_i16x8_sub(even_of(c), from);
    out[1][p] = wasm_i16x8_sub(odd_of(c), from);
}

/* Products of part h of a block, which has a scale, with a block's activations from q on, in the order 0 2 1 3, rows
 * side by side. */
INLINE void part_16(const shape *f, int rows, const v128_t (*block)[PAIR], uint32_t h, const int16_t *q, sums dot) {
    uint32_t each = 2 * COLUMNS / f->subs;
    const v128_t *c = block[h * each], *end = c + each * PAIR;
    q += 2 * each * h;
    EACH_SUM(rows, i, p) dot[i][p] = wasm_i32x4_splat(0);
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 2)
        EACH_SUM(rows, i, p)
            dot[i][p] = wasm_i32x4_add(dot[i][p], wasm_i32x4_dot_i16x8(c[p], SPLAT(q + i * GW_BLOCK)));
}

/* Sums of a part times its small scales. */
INLINE void weigh_part(int rows, const v128_t *small, sums dot) {
    EACH_SUM(rows, i, p) dot[i][p] = wasm_i32x4_mul(dot[i][p], small[p]);
}

/* Sums of a block's products into the totals; sum: of the activations that each scale covers; by: their scales. */
INLINE void add_sums(const shape *f, int rows, const block_scales *w, const sums *dot, v128_t (*sum)[2],
                     const float *by_rows, sums total) {
    EACH_SUM(rows, i, p) {
        v128_t by = SPLAT(by_rows + i), part = sum[i][0];
        v128_t all = f->subs == 2 ? wasm_i32x4_add(dot[0][i][p], dot[1][i][p]) : dot[0][i][p];
        total[i][p] = add_scaled(total[i][p], all, w->scale[p], by);
        if (!f->mins) continue;
        if (f->subs == 2)
            part = wasm_i32x4_add(wasm_i32x4_mul(sum[i][0], w->small_min[0][p]),
                                  wasm_i32x4_mul(sum[i][1], w->small_min[1][p]));
        total[i][p] = add_min(total[i][p], w->min[p], part, by);
    }
}

#endif
