/* tiles_relaxed: products of quantised weights with several rows of activations (prompts), int8 or wide ones as
 * two planes of int8, by the relaxed dot product of bytes. Codes of two panels are unpacked to bytes once, some blocks
 * at a time, and meet tiles of rows; where that product is slow and two are needed, as int16 (gw_relaxed_rows_16). */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

enum { CHUNK = 40 };           /* blocks unpacked at once, whole groups */

/* table_values / 2, rounded down and up */
static const uint8_t low_values[16] = { 0, 11, 22, 31, 39, 46, 52, 58, 64, 70, 76, 82, 90, 98, 108, 120 };
static const uint8_t high_values[16] = { 0, 12, 22, 31, 39, 46, 53, 59, 64, 70, 76, 83, 90, 98, 108, 120 };

/* Sums of products that begin at -offset times the sum of the activations, so that codes count from there. */
INLINE v128_t start_of(int offset, v128_t sum) { return wasm_i32x4_mul(sum, wasm_i32x4_splat(-offset)); }

/* A block of PAIR panels, unpacked: codes as bytes, vector g being columns 4 g … 4 g + 3; its scales and mins. */
typedef struct {
    v128_t column[COLUMNS][PAIR];
    block_scales scales;
} open_block;
typedef struct { open_block block[CHUNK]; } unpacked;

INLINE void unpack_group(const shape *f, bits_taken how, const uint8_t *group, open_block *out, int p) {
    v128_t c[COLUMNS];
    fronts h;
    const constants k = constants_of(f, how);
    read_front(f, group, &h, &k.scales);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++, out++) {
        unpack_codes(f, how, codes_of(f, group, j), c, &k);
        for (int g = 0; g < COLUMNS; g++) out->column[g][p] = c[g];
        open_scales(f, &h, j, &k.scales, &out->scales, p);
    }
}

/* --- tiles --- */

/* What tiles of one kind have in common, all constants where they are compiled: see shape. bits: 4, or 0: any;
 * by_pairs: products are added in 16 bits first; joined: they are of 16 bits; rows of a tile. */
typedef struct {
    int planes;
    uint32_t subs;
    bool mins, table, by_pairs, joined;
    uint32_t bits;
    int rows;
} kind;

/* Where tiles work: against the chunk that begins at block b. offset: what codes count from; run: see run_of; next:
 * from a panel's results to the next one's, 0 where one panel is a pair with itself; wide: the chunk as int16. */
typedef struct {
    const acts *a;
    int offset;
    uint32_t run;
    size_t b;
    uint32_t n_blocks;
    float *y;
    size_t ldy, next;
    const wide_block *wide;   /* [n_blocks] */
} place;

/* The same products by pairs: sums of `run` columns' pairs fit 16 bits. */
INLINE void tile_pairs(const kind *f, uint32_t run, const v128_t *c, const v128_t *end, const int8_t *q, sums dot) {
    sums sum;
    while (c != end) {
        const v128_t *next = c + run * PAIR;
        EACH_SUM(f->rows, i, p) sum[i][p] = wasm_i32x4_splat(0);
        KEEP_LOOP
        for (; c != next; c += PAIR, q += 4)
            EACH_SUM(f->rows, i, p) sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * GW_BLOCK), c[p]);
        EACH_SUM(f->rows, i, p)
            dot[i][p] = wasm_i32x4_add(dot[i][p], wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]));
    }
}

/* A block of 4-bit codes with one scale, in 16 bits from the first to the last. Codes count from `offset`, 8 at most:
 * half of what that takes off a sum is where each of its two 16-bit lanes begins. Wherever a lane goes, it ends within
 * 127 * 16 * (15 - 4) + 127 * 16 * 4 < 2^15. */
INLINE void tile_whole(const kind *f, int offset, const v128_t *c, const int8_t *q, const int32_t *sum_of, sums dot) {
    sums sum;
    const v128_t *end = c + COLUMNS * PAIR;
    for (int i = 0; i < f->rows; i++) {
        v128_t start = wasm_i16x8_mul(wasm_v128_load16_splat(sum_of + i), wasm_i16x8_splat((int16_t)(-offset / 2)));
        for (int p = 0; p < PAIR; p++) sum[i][p] = start;
    }
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        EACH_SUM(f->rows, i, p) sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * GW_BLOCK), c[p]);
    EACH_SUM(f->rows, i, p) dot[i][p] = wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]);
}

/* The same products, each in 32 bits. The loop over columns stays rolled up: unrolled, LLVM makes one chain of each
 * sum's products. */
INLINE void tile_dots(const kind *f, const v128_t *c, const v128_t *end, const int8_t *q, sums dot, sums high) {
    const shape codes = { .table = f->table };
    const int row = GW_BLOCK * f->planes, low = GW_BLOCK * (f->planes - 1);   /* to the next row, to the low plane */
    v128_t table[2] = { wasm_v128_load(low_values), wasm_v128_load(high_values) };
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        EACH_SUM(f->rows, i, p) {
            dot[i][p] = dot_column(&codes, SPLAT(q + i * row + low), c[p], dot[i][p], table);
            if (f->planes == 2) high[i][p] = dot_column(&codes, SPLAT(q + i * row), c[p], high[i][p], table);
        }
}

/* Products of part h of a block, which has a scale, with the activations number `at` …, whose sums are `sum`. */
INLINE void tile_part(const kind *f, const place *where, const open_block *w, uint32_t h, size_t at, v128_t (*sum)[2],
                      sums dot) {
    uint32_t each = COLUMNS / f->subs;
    const v128_t *c = w->column[h * each], *end = c + each * PAIR;
    const int8_t *q = where->a->q + at * GW_BLOCK * f->planes + 4 * each * h;
    sums high;
    if (f->by_pairs && f->bits == 4 && f->planes == 1) {
        tile_whole(f, where->offset, c, q, where->a->sum + at, dot);
        return;
    }
    EACH_SUM(f->rows, i, p) {
        dot[i][p] = start_of(where->offset, sum[i][h]);
        high[i][p] = wasm_i32x4_splat(0);
    }
    if (f->by_pairs) tile_pairs(f, where->run, c, end, q, dot);
    else tile_dots(f, c, end, q, dot, high);
    if (f->planes == 2) EACH_SUM(f->rows, i, p) dot[i][p] = joined(high[i][p], dot[i][p]);
}

/* Block j of a chunk. t: first row; at: number of its activations. */
INLINE void tile_block(const kind *f, const place *where, const unpacked *u, uint32_t j, int t, size_t at, sums total) {
    const shape scales = { .subs = f->subs, .mins = f->mins };
    const acts *a = where->a;
    const open_block *w = u->block + j;
    sums dot[2];
    v128_t sum[TILE][2];
    for (int i = 0; i < f->rows; i++) sums_of(&scales, a->sum + at + i, a->half + at + i, sum[i]);
    for (uint32_t h = 0; h < f->subs; h++) {
        const int16_t *q = f->joined ? a->joined + (t * JOINED + j * TILE) * GW_BLOCK : NULL;
        if (f->joined) part_16(&scales, f->rows, where->wide[j], h, q, dot[h]);
        else tile_part(f, where, w, h, at, sum, dot[h]);
        if (f->subs == 2) weigh_part(f->rows, w->scales.small[h], dot[h]);
    }
    add_sums(&scales, f->rows, &w->scales, dot, sum, a->scale + at, total);
}

/* Rows t … against a chunk. */
INLINE void tile(const kind *f, const place *where, const unpacked *w, int t) {
    float *y = where->y + t * where->ldy;
    size_t at = where->b * where->a->stride + t;
    sums total;
    EACH_SUM(f->rows, i, p)
        total[i][p] = where->b ? wasm_v128_load(y + i * where->ldy + p * where->next) : wasm_f32x4_splat(0);
    KEEP_LOOP
    for (uint32_t j = 0; j < where->n_blocks; j++, at += where->a->stride)
        tile_block(f, where, w, j, t, at, total);
    EACH_SUM(f->rows, i, p) wasm_v128_store(y + i * where->ldy + p * where->next, total[i][p]);
}

/* n rows, whole tiles, against the panels of a chunk. */
typedef void tiler(const place *where, const unpacked *w, int n);

INLINE void all_tiles(const kind *given, const place *where, const unpacked *w, int n) {
    kind f = *given;
    const acts a = *where->a;   /* copies: what is stored cannot change them */
    place own = *where;
    own.a = &a;
    f.rows = TILE / f.planes;
    for (int t = 0; t < n; t += f.rows) tile(&f, &own, w, t);
}

#define TILES(name, ...)                                                                                        \
    OUTLINE void name(const place *where, const unpacked *w, int n) {                                           \
        const kind f = { __VA_ARGS__ };                                                                         \
        all_tiles(&f, where, w, n);                                                                             \
    }
TILES(tiles_1, .planes = 1, .subs = 1)
TILES(tiles_1_mins, .planes = 1, .subs = 1, .mins = true)
TILES(tiles_1_table, .planes = 1, .subs = 1, .table = true)
TILES(tiles_2, .planes = 1, .subs = 2)
TILES(tiles_2_mins, .planes = 1, .subs = 2, .mins = true)
TILES(wide_tiles_1, .planes = 2, .subs = 1)
TILES(wide_tiles_1_mins, .planes = 2, .subs = 1, .mins = true)
TILES(wide_tiles_1_table, .planes = 2, .subs = 1, .table = true)
TILES(wide_tiles_2, .planes = 2, .subs = 2)
TILES(wide_tiles_2_mins, .planes = 2, .subs = 2, .mins = true)
TILES(pair_tiles_1, .planes = 1, .subs = 1, .by_pairs = true)
TILES(pair_tiles_1_mins, .planes = 1, .subs = 1, .mins = true, .by_pairs = true)
TILES(pair_tiles_1_of_4, .planes = 1, .subs = 1, .by_pairs = true, .bits = 4)
TILES(pair_tiles_1_mins_of_4, .planes = 1, .subs = 1, .mins = true, .by_pairs = true, .bits = 4)
TILES(pair_tiles_2, .planes = 1, .subs = 2, .by_pairs = true)
TILES(pair_tiles_2_mins, .planes = 1, .subs = 2, .mins = true, .by_pairs = true)
TILES(joined_tiles_1, .planes = 1, .subs = 1, .joined = true)
TILES(joined_tiles_1_mins, .planes = 1, .subs = 1, .mins = true, .joined = true)
TILES(joined_tiles_2, .planes = 1, .subs = 2, .joined = true)
TILES(joined_tiles_2_mins, .planes = 1, .subs = 2, .mins = true, .joined = true)

/* Functions are shared by all types of a kind: [wide][two scales in a block][mins]. */
INLINE tiler *tiler_of(const shape *f, bool wide, bool by_pairs) {
    static tiler *const of_tables[2] = { tiles_1_table, wide_tiles_1_table };
    static tiler *const of_dots[2][2][2] = {
        { { tiles_1, tiles_1_mins }, { tiles_2, tiles_2_mins } },
        { { wide_tiles_1, wide_tiles_1_mins }, { wide_tiles_2, wide_tiles_2_mins } },
    };
    static tiler *const of_pairs[2][2] = { { pair_tiles_1, pair_tiles_1_mins }, { pair_tiles_2, pair_tiles_2_mins } };
    static tiler *const of_4_bits[2] = { pair_tiles_1_of_4, pair_tiles_1_mins_of_4 };
    if (f->table) return of_tables[wide];
    if (by_pairs && !wide && f->bits == 4) return of_4_bits[f->mins];
    return (by_pairs && !wide ? of_pairs : of_dots[wide])[f->subs - 1][f->mins];
}

/* --- products --- */

/* A chunk's codes as int16. Values of IQ4 are their codes here. */
OUTLINE void widen(const unpacked *u, uint32_t n_blocks, bool table, int offset, wide_block *out) {
    v128_t values = wasm_v128_load(table_values);
    for (uint32_t j = 0; j < n_blocks; j++)
        KEEP_LOOP
        for (int g = 0; g < COLUMNS; g++)
            for (int p = 0; p < PAIR; p++) {
                v128_t c = u->block[j].column[g][p];
                widen_codes(table ? SWIZZLE(values, c) : c, offset, out[j] + 2 * g, p);
            }
}

/* n rows against a chunk, by products of 16 bits. */
OUTLINE void joined_rows(const shape *f, place *where, const unpacked *u, int n) {
    static tiler *const tiles[2][2] = { { joined_tiles_1, joined_tiles_1_mins },
                                        { joined_tiles_2, joined_tiles_2_mins } };
    wide_block wide[JOINED];
    widen(u, where->n_blocks, f->table, where->offset, wide);
    where->wide = wide;
    tiles[f->subs - 1][f->mins](where, u, n);
}

/* n rows against PAIR panels, `panel` bytes apart: 0 where there is one, then `next` is 0 too. */
INLINE void unpack_rows(const shape *f, bits_taken how, bool wide, const uint8_t *w, size_t panel, const acts *a, int n,
                        float *y, size_t ldy, size_t next) {
    unpacked u;
    place where = { .a = a, .y = y, .ldy = ldy, .next = next, .offset = offset_of(f, how), .run = run_of(f, wide),
                    .b = a->from };
    size_t end = a->joined ? gw_min(a->blocks, a->from + JOINED) : a->blocks;
    tiler *tiles = tiler_of(f, wide, f->bits < 8 && !f->table && adds_pairs());
    w += a->from / f->blocks * f->bytes;
    for (; where.b < end; where.b += CHUNK) {
        where.n_blocks = (uint32_t)gw_min(CHUNK, end - where.b);
        for (uint32_t i = 0; i < where.n_blocks; i += f->blocks, w += f->bytes)
            KEEP_LOOP
            for (int p = 0; p < PAIR; p++) unpack_group(f, how, w + p * panel, u.block + i, p);
        if (a->joined) joined_rows(f, &where, &u, n);
        else tiles(&where, &u, n);
    }
}

/* Blocks from a->from on of n rows, for a->joined. */
INLINE void join_rows(int planes, const acts *a, int n, int16_t *out) {
    size_t n_blocks = gw_min(JOINED, a->blocks - a->from);
    for (int t = 0; t < n; t++)
        for (size_t j = 0; j < n_blocks; j++)
            join(planes, a->q + ((a->from + j) * a->stride + t) * planes * GW_BLOCK,
                 out + ((t / TILE * JOINED + j) * TILE + t % TILE) * GW_BLOCK);
}

void gw_relaxed_rows_16(gw_rows_kernel *several, int planes, const uint8_t *w, size_t panel, int panels, const acts *a,
                        int n, float *y, size_t ldy) {
    int16_t room[JOINED_ROWS * JOINED * GW_BLOCK];
    acts part = *a;
    part.joined = room;
    for (int t = 0; t < n; t += JOINED_ROWS, y += JOINED_ROWS * ldy) {
        int rows = (int)gw_min(JOINED_ROWS, n - t);
        for (part.from = 0; part.from < a->blocks; part.from += JOINED) {
            if (planes == 2) join_rows(2, &part, rows, room);
            else join_rows(1, &part, rows, room);
            for (int p = 0; p < panels; p += PAIR)
                several(SEVEN, planes == 2, w + p * panel, (int)gw_min(PAIR, panels - p), &part, rows,
                        y + p * GW_PANEL, ldy);
        }
        part.q += JOINED_ROWS * planes * GW_BLOCK, part.scale += JOINED_ROWS;
        part.sum += JOINED_ROWS, part.half += JOINED_ROWS;
    }
}

#define DEFINE(NAME, name, ...)                                                                                \
    void gw_relaxed_rows_##name(bits_taken how, bool wide, const uint8_t *w, int panels, const acts *a, int n,     \
                                float *y, size_t ldy) {                                                            \
        size_t panel = a->blocks / shape_##name.blocks * shape_##name.bytes;                                       \
        bool two = panels > 1;                                                                                     \
        if (n) unpack_rows(&shape_##name, how, wide, w, two ? panel : 0, a, n, y, ldy, two ? GW_PANEL : 0);        \
    }
GW_FORMATS(DEFINE)
DEFINE(Q4_0, q4, )
DEFINE(Q8_0, q8, )

#endif
