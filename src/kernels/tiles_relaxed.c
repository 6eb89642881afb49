/* tiles_relaxed: multiplies quantised weights by several rows of activations (prompts) with the relaxed dot product of
 * bytes. Activations are int8, or int15 in two planes of int8; chunks hold quants as bytes (tiles.h). If the dot
 * product is slow and two are needed for each byte, chunks and activations are converted to int16
 * (gw_relaxed_rows_16). */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"
#include "kernels/tiles.h"

/* Halves of the IQ4 values in table_values, rounded down and up: bytes below 128. */
static const uint8_t low_values[16] = { 0, 11, 22, 31, 39, 46, 52, 58, 64, 70, 76, 82, 90, 98, 108, 120 };
static const uint8_t high_values[16] = { 0, 12, 22, 31, 39, 46, 53, 59, 64, 70, 76, 83, 90, 98, 108, 120 };

INLINE void open_group(const format *f, const strip *s, const uint8_t *group, open_block *out, int p) {
    v128_t c[COLUMNS];
    header h;
    const constants k = constants_of(f, s->with_sign);
    read_header(f, group, &h, &k.scales);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++, out++) {
        unpack_quants(f, s->with_sign, quants_of(f, group, j), c, &k);
        for (int g = 0; g < COLUMNS; g++) out->column[g][p] = c[g];
        open_scales(f, &h, j, &k.scales, &out->scales, p);
    }
}

enum { BY_DOTS, BY_TABLE, BY_PAIRS, BY_PAIRS_OF_4, BY_INT16 }; /* ways to multiply: values of kind.way */

/* Adds the products of `run` vectors of quants in 16 bits, in which they fit, then widens the sums. */
INLINE void tile_pairs(const kind *k, uint32_t run, const v128_t *c, const v128_t *end, const int8_t *q, sums dot) {
    sums sum;
    while (c != end) {
        const v128_t *next = c + run * PAIR;
        EACH_SUM (k->rows, i, p) sum[i][p] = wasm_i32x4_splat(0);
        KEEP_LOOP
        for (; c != next; c += PAIR, q += 4)
            EACH_SUM (k->rows, i, p) sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * GW_BLOCK), c[p]);
        EACH_SUM (k->rows, i, p) dot[i][p] = wasm_i32x4_add(dot[i][p], wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]));
    }
}

/* Multiplies a block of 4-bit quants with one scale, with all sums in 16 bits. Each of the two 16-bit lanes of a sum
 * starts at -offset / 2 times the sum of the activations (offset is at most 8). Its magnitude is always at most
 * 127 * 16 * (15 - 4) + 127 * 16 * 4 < 2^15. */
INLINE void tile_pairs_of_4(const kind *k, int offset, const v128_t *c, const int8_t *q, const int32_t *sum_of,
                            sums dot) {
    sums sum;
    const v128_t *end = c + COLUMNS * PAIR;
    for (int i = 0; i < k->rows; i++) {
        v128_t start = wasm_i16x8_mul(wasm_v128_load16_splat(sum_of + i), wasm_i16x8_splat((int16_t)(-offset / 2)));
        for (int p = 0; p < PAIR; p++) sum[i][p] = start;
    }
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        EACH_SUM (k->rows, i, p) sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * GW_BLOCK), c[p]);
    EACH_SUM (k->rows, i, p) dot[i][p] = wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]);
}

/* Returns dot + activations x times quants c, or times the IQ4 values of c, each a sum of two table values. */
INLINE v128_t dot_column(const kind *k, v128_t x, v128_t c, v128_t dot, const v128_t *table) {
    if (k->way != BY_TABLE) return DOT(x, c, dot);
    return DOT(x, SWIZZLE(table[1], c), DOT(x, SWIZZLE(table[0], c), dot));
}

/* Multiplies with sums in 32 bits. The loop must not be unrolled, because LLVM would then make each product wait for
 * the previous one of the same sum. */
INLINE void tile_dots(const kind *k, const v128_t *c, const v128_t *end, const int8_t *q, sums dot, sums high) {
    /* Distances in bytes to the next row of activations and to the low plane of the same row. */
    const int row = GW_BLOCK * k->planes, low = GW_BLOCK * (k->planes - 1);
    v128_t table[2] = { wasm_v128_load(low_values), wasm_v128_load(high_values) };
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        EACH_SUM (k->rows, i, p) {
            dot[i][p] = dot_column(k, SPLAT(q + i * row + low), c[p], dot[i][p], table);
            if (k->planes == 2) high[i][p] = dot_column(k, SPLAT(q + i * row), c[p], high[i][p], table);
        }
}

/* Returns -offset times the sum of the activations, the initial value of sums, which has the effect of subtracting the
 * offset from every quant. Without mins, a scalar product is cheaper, because nothing else needs the splatted sum; LLVM
 * does this by itself except for BY_DOTS. */
INLINE v128_t start_of(const kind *k, int offset, v128_t sum) {
    if (k->way == BY_DOTS && !k->mins) return wasm_i32x4_splat(-offset * wasm_i32x4_extract_lane(sum, 0));
    return wasm_i32x4_mul(sum, wasm_i32x4_splat(-offset));
}

INLINE void tile_part(const kind *k, const strip *s, const open_block *w, uint32_t h, const tile_rows *r, sums dot) {
    const acts *a = s->a;
    if (k->way == BY_INT16) {
        part_16(k, s->wide[r->j], h, a->joined + (r->t * JOINED + r->j * TILE) * GW_BLOCK, dot);
        return;
    }
    uint32_t each = COLUMNS / k->subs;
    const v128_t *c = w->column[h * each], *end = c + each * PAIR;
    const int8_t *q = a->q + r->at * GW_BLOCK * k->planes + 4 * each * h;
    sums high;
    if (k->way == BY_PAIRS_OF_4) {
        tile_pairs_of_4(k, s->offset, c, q, a->sum + r->at, dot);
        return;
    }
    EACH_SUM (k->rows, i, p) {
        dot[i][p] = start_of(k, s->offset, r->sum[i][h]);
        high[i][p] = wasm_i32x4_splat(0);
    }
    if (k->way == BY_PAIRS) tile_pairs(k, s->run, c, end, q, dot);
    else tile_dots(k, c, end, q, dot, high);
    if (k->planes == 2)
        EACH_SUM (k->rows, i, p) dot[i][p] = joined(high[i][p], dot[i][p]);
}

/* Widens a chunk's quants to int16; quants of the IQ4 formats are replaced by their table values. */
OUTLINE void widen(const chunk *u, const strip *s, wide_block *out) {
    v128_t values = wasm_v128_load(table_values);
    uint32_t blocks = s->blocks;
    bool table = s->table;
    int offset = s->offset;
    for (uint32_t j = 0; j < blocks; j++) {
        KEEP_LOOP
        for (int g = 0; g < COLUMNS; g++)
            for (int p = 0; p < PAIR; p++) {
                v128_t c = u->block[j].column[g][p];
                widen_quants(table ? SWIZZLE(values, c) : c, offset, out[j] + 2 * g, p);
            }
    }
}

INLINE void int16_tiles(const kind *k, const strip *given, const chunk *u, int n) {
    wide_block wide[JOINED];
    strip s = *given;
    widen(u, &s, wide);
    s.wide = wide;
    all_tiles(k, &s, u, n);
}

TILES(dots, all_tiles, .planes = 1, .rows = TILE)
TILES(int15_dots, all_tiles, .planes = 2, .rows = TILE / 2)
TILER(by_table, all_tiles, .planes = 1, .rows = TILE, .subs = 1, .way = BY_TABLE)
TILER(int15_by_table, all_tiles, .planes = 2, .rows = TILE / 2, .subs = 1, .way = BY_TABLE)
TILES(by_pairs, all_tiles, .planes = 1, .rows = TILE, .way = BY_PAIRS)
TILER(by_pairs_of_4, all_tiles, .planes = 1, .rows = TILE, .subs = 1, .way = BY_PAIRS_OF_4)
TILER(by_pairs_of_4_mins, all_tiles, .planes = 1, .rows = TILE, .subs = 1, .mins = true, .way = BY_PAIRS_OF_4)
TILES(by_int16, int16_tiles, .planes = 1, .rows = TILE, .way = BY_INT16)

INLINE tiler *tiler_of(const format *f, bool int15, bool int16) {
    bool pairs = f->bits < 8 && !f->table && adds_pairs() && !int15;
    if (int16) return by_int16[f->subs - 1][f->mins];
    if (f->table) return int15 ? int15_by_table : by_table;
    if (pairs && f->bits == 4) return f->mins ? by_pairs_of_4_mins : by_pairs_of_4;
    return (pairs ? by_pairs : int15 ? int15_dots : dots)[f->subs - 1][f->mins];
}

INLINE void rows(const format *f, const job *j, int n, bool with_sign) {
    const acts *a = j->a;
    bool int15 = a->planes == 2;
    size_t end = a->joined ? gw_min(a->blocks, a->from + JOINED) : a->blocks;
    strip s = { .b = a->from, .offset = offset_of(f, with_sign), .table = f->table, .run = run_of(f, int15) };
    tiler *tiles = tiler_of(f, int15, a->joined);
    s.with_sign = f->bits == 8 && with_sign;
    /* Two calls, so that s.with_sign is a constant in each and is not tested in every block. */
    if (s.with_sign) strip_rows(f, j, &s, end, n, tiles);
    else strip_rows(f, j, &s, end, n, tiles);
}

#define GW_X(NAME, name, ...)                                          \
    void gw_relaxed_rows_##name(const job *j, int n, bool with_sign) { \
        if (n) rows(&format_##name, j, n, with_sign);                  \
    }
GW_ALL_FORMATS(GW_X)
#undef GW_X

INLINE void join_rows(int planes, const acts *a, int n, int16_t *out) {
    size_t blocks = gw_min(JOINED, a->blocks - a->from);
    for (int t = 0; t < n; t++)
        for (size_t j = 0; j < blocks; j++)
            join(planes, a->q + ((a->from + j) * a->stride + t) * planes * GW_BLOCK,
                 out + ((t / TILE * JOINED + j) * TILE + t % TILE) * GW_BLOCK);
}

void gw_relaxed_rows_16(gw_rows_kernel *several, const job *j, int n) {
    int16_t room[JOINED_ROWS * JOINED * GW_BLOCK];
    acts part = *j->a;
    job rest = *j;
    part.joined = room;
    rest.a = &part;
    for (int t = 0; t < n; t += JOINED_ROWS, rest.y += JOINED_ROWS * j->ldy) {
        int rows = (int)gw_min(JOINED_ROWS, n - t);
        for (part.from = 0; part.from < part.blocks; part.from += JOINED) {
            if (part.planes == 2) join_rows(2, &part, rows, room);
            else join_rows(1, &part, rows, room);
            for (int p = 0; p < j->panels; p += PAIR) {
                const job two = panels_from(&rest, p, (int)gw_min(PAIR, j->panels - p));
                several(&two, rows, false);
            }
        }
        part.q += JOINED_ROWS * part.planes * GW_BLOCK, part.scale += JOINED_ROWS;
        part.sum += JOINED_ROWS, part.half += JOINED_ROWS;
    }
}

#endif
