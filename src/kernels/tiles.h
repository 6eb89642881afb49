/* tiles: code that both SIMD builds share for products with several rows of activations. PAIR panels are unpacked chunk
 * by chunk, and each chunk is multiplied by tiles of up to TILE rows. With two panels, a splatted activation is used
 * for two vectors of weights: 27 instructions for 64 products of int16, while one panel needs 17 for 32. Each build
 * defines open_group, tile_part and tables of tilers. */
#ifndef GW_TILES_H
#define GW_TILES_H

#include "kernels/quants.h"

/* CHUNK: maximum number of blocks in a chunk, a multiple of the number in any group; VECTORS: vectors of an unpacked
 * block, of bytes or of int16. */
#ifdef GW_HAVE_RELAXED
enum { CHUNK = 40, VECTORS = COLUMNS };
#else
enum { CHUNK = 32, VECTORS = 2 * COLUMNS };
#endif

/* Returns how many blocks are unpacked at once for n rows of activations. Multiplying few rows takes no longer than
 * reading the weights. Chunks are then short, so that the prefetchers can read the next weights while a chunk is
 * multiplied. */
INLINE size_t chunk_of(const acts *a, int n) {
#ifdef GW_HAVE_RELAXED
    return n <= FEW && !a->joined ? GROUP : CHUNK;
#else
    (void)a, (void)n;
    return CHUNK;
#endif
}

/* A block of two panels as int16: vector 2 g holds columns (4 g, 4 g + 2) of each of the four rows, vector 2 g + 1
 * columns (4 g + 1, 4 g + 3). */
typedef v128_t wide_block[2 * COLUMNS][PAIR];

/* The scales and mins of a block of two panels. If a block has two sub-scales, `scale` and `min` are the floats by
 * which the sub-scales and sub-mins are multiplied. */
typedef struct {
    v128_t scale[PAIR], min[PAIR], sub[2][PAIR], sub_min[2][PAIR];
} block_scales;

/* A block of two panels, unpacked: its quants as bytes or int16, and its scales. */
typedef struct {
    v128_t column[VECTORS][PAIR];
    block_scales scales;
} open_block;
typedef struct {
    open_block block[CHUNK];
} chunk;

/* Sums of a tile: [row of activations][panel]. A vector has the sums of the panel's four weight rows. */
typedef v128_t sums[TILE][PAIR];

#define EACH_SUM(rows, i, p)         \
    for (int i = 0; i < (rows); i++) \
        for (int p = 0; p < PAIR; p++)

/* The kind of a tile: compile-time constants. Formats with the same number of scales in a block share the code of a
 * kind. */
typedef struct {
    uint32_t subs; /* number of sub-scales in a block, 1 or 2 */
    bool mins;
    int rows;
    /* In the relaxed build: number of planes that the activations have, and the way to multiply them, one of BY_…. */
    int planes, way;
} kind;

/* Two panels, and their chunk that begins at block b. next: distance in floats from the first panel's results to the
 * second's; 0 if only one panel is left, which then counts as both. */
typedef struct {
    const acts *a;
    size_t b;
    uint32_t blocks;
    float *y;
    size_t ldy, next;
#ifdef GW_HAVE_RELAXED
    int offset; /* quant that stands for the value 0 */
    bool table;
    uint32_t run;           /* number of vectors of quants whose products are added in 16 bits (run_of) */
    bool with_sign;         /* Q8_0 quants stay signed bytes, because the JavaScript engine can multiply these */
    const wide_block *wide; /* [blocks] quants as int16, for kinds with the way BY_INT16 */
#endif
} strip;

/* A tile's rows of activations in block j of a chunk: first row t, index `at` of that row's block, and for each row the
 * sums of its activations in each part of the block. */
typedef struct {
    int t;
    uint32_t j;
    size_t at;
    v128_t sum[TILE][2];
} tile_rows;

/* Unpacks a group of panel p (0 or 1) into the blocks from *out on. */
INLINE void open_group(const format *f, const strip *s, const uint8_t *group, open_block *out, int p);

/* Multiplies part h of a block (the columns of one scale) by the rows of a tile. */
INLINE void tile_part(const kind *k, const strip *s, const open_block *w, uint32_t h, const tile_rows *r, sums dot);

INLINE void open_scales(const format *f, const header *h, uint32_t j, const scale_masks *m, block_scales *out, int p) {
    uint32_t at = scale_of(f, j);
    out->scale[p] = h->scale[at];
    if (f->mins) out->min[p] = h->min[at];
    if (f->subs == 1) return;
    pairs sub = pairs_of(f, h, j, m);
    out->sub[0][p] = first_of(sub.scale);
    out->sub[1][p] = second_of(sub.scale);
    if (!f->mins) return;
    out->sub_min[0][p] = first_of(sub.min);
    out->sub_min[1][p] = second_of(sub.min);
}

/* Widens a vector of quants (four columns) to int16 and subtracts `offset`; the result is two vectors of panel p. */
INLINE void widen_quants(v128_t c, int offset, v128_t (*out)[PAIR], int p) {
    v128_t from = wasm_i16x8_splat((int16_t)offset);
    out[0][p] = wasm_i16x8_sub(even_of(c), from);
    out[1][p] = wasm_i16x8_sub(odd_of(c), from);
}

/* Multiplies part h of a block by int16 activations q (every four in the order 0 2 1 3), whose rows are GW_BLOCK
 * apart. */
INLINE void part_16(const kind *k, const v128_t (*block)[PAIR], uint32_t h, const int16_t *q, sums dot) {
    uint32_t each = 2 * COLUMNS / k->subs;
    const v128_t *c = block[h * each], *end = c + each * PAIR;
    q += 2 * each * h;
    EACH_SUM (k->rows, i, p) dot[i][p] = wasm_i32x4_splat(0);
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 2)
        EACH_SUM (k->rows, i, p) dot[i][p] = add_dot(dot[i][p], c[p], SPLAT(q + i * GW_BLOCK));
}

INLINE void tile_block(const kind *k, const strip *s, const open_block *w, tile_rows *r, sums total) {
    const acts *a = s->a;
    sums dot[2];
    for (int i = 0; i < k->rows; i++) sums_of(k->subs, a->sum + r->at + i, a->half + r->at + i, r->sum[i]);
    for (uint32_t h = 0; h < k->subs; h++) {
        tile_part(k, s, w, h, r, dot[h]);
        if (k->subs == 2)
            EACH_SUM (k->rows, i, p) dot[h][i][p] = wasm_i32x4_mul(dot[h][i][p], w->scales.sub[h][p]);
    }
    EACH_SUM (k->rows, i, p) {
        v128_t by = SPLAT(a->scale + r->at + i), part = r->sum[i][0];
        v128_t all = k->subs == 2 ? wasm_i32x4_add(dot[0][i][p], dot[1][i][p]) : dot[0][i][p];
        total[i][p] = add_scaled(total[i][p], all, w->scales.scale[p], by);
        if (!k->mins) continue;
        if (k->subs == 2)
            part = wasm_i32x4_add(wasm_i32x4_mul(r->sum[i][0], w->scales.sub_min[0][p]),
                                  wasm_i32x4_mul(r->sum[i][1], w->scales.sub_min[1][p]));
        total[i][p] = add_min(total[i][p], w->scales.min[p], part, by);
    }
}

INLINE void tile(const kind *k, const strip *s, const chunk *c, int t) {
    float *y = s->y + t * s->ldy;
    tile_rows rows = { .t = t, .at = s->b * s->a->stride + t };
    sums total;
    EACH_SUM (k->rows, i, p) total[i][p] = s->b ? wasm_v128_load(y + i * s->ldy + p * s->next) : wasm_f32x4_splat(0);
    KEEP_LOOP
    for (; rows.j < s->blocks; rows.j++, rows.at += s->a->stride) tile_block(k, s, c->block + rows.j, &rows, total);
    EACH_SUM (k->rows, i, p) wasm_v128_store(y + i * s->ldy + p * s->next, total[i][p]);
}

typedef void tiler(const strip *s, const chunk *c, int n);

INLINE void all_tiles(const kind *given, const strip *strip_, const chunk *c, int n) {
    const acts a = *strip_->a; /* a, s and k are local copies, so that stores to y cannot change them */
    strip s = *strip_;
    kind k = *given;
    int t = 0;
    s.a = &a;
    for (; t + k.rows <= n; t += k.rows) tile(&k, &s, c, t);
#ifndef GW_HAVE_RELAXED /* the relaxed build passes whole tiles only */
    UNROLL
    for (k.rows = TILE - 1; k.rows > 0; k.rows--)
        if (n - t == k.rows) tile(&k, &s, c, t);
#endif
}

/* Defines a tiler: a function that multiplies a chunk by n rows, in tiles of one kind. */
#define TILER(name, run, ...)                                  \
    OUTLINE void name(const strip *s, const chunk *c, int n) { \
        const kind k = { __VA_ARGS__ };                        \
        run(&k, s, c, n);                                      \
    }

/* Defines name[sub-scales - 1][mins], the tilers for all formats. */
#define TILES(name, run, ...)                                       \
    TILER(name##_1, run, .subs = 1, __VA_ARGS__)                    \
    TILER(name##_1_mins, run, .subs = 1, .mins = true, __VA_ARGS__) \
    TILER(name##_2, run, .subs = 2, __VA_ARGS__)                    \
    TILER(name##_2_mins, run, .subs = 2, .mins = true, __VA_ARGS__) \
    static tiler *const name[2][2] = { { name##_1, name##_1_mins }, { name##_2, name##_2_mins } };

/* Multiplies a job's one or two panels by n rows of activations: blocks s->b to end - 1. */
INLINE void strip_rows(const format *f, const job *j, strip *s, size_t end, int n, tiler *tiles) {
    chunk c;
    size_t panel = j->panels > 1 ? j->panel : 0;
    const uint8_t *w = j->w + s->b / f->blocks * f->bytes;
    const strip constants = *s; /* a local copy, which stays in registers */
    s->a = j->a, s->y = j->y, s->ldy = j->ldy, s->next = j->panels > 1 ? GW_PANEL : 0;
    const size_t step = chunk_of(j->a, n);
    for (; s->b < end; s->b += step) {
        s->blocks = (uint32_t)gw_min(step, end - s->b);
        for (uint32_t i = 0; i < s->blocks; i += f->blocks, w += f->bytes) {
            KEEP_LOOP
            for (int p = 0; p < PAIR; p++) open_group(f, &constants, w + p * panel, c.block + i, p);
        }
        tiles(s, &c, n);
    }
}

#endif
