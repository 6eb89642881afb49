/* codes_relaxed: products of all quantised weights with int8 activations, and with wide ones as two planes of
 * int8, by the relaxed dot product of bytes, whose second operand is only defined for 7 bits. Codes (0..63) are well
 * inside. Bytes of Q8_0 and values of IQ4 are not. What an engine does with 8 bits is asked (takes): none, or as if
 * without a sign (x86: vpdpbusd), or with one (ARM: sdot; x86: vpdpbssd). Sums are exact, so they are the same.
 * Decode with IQ4 takes products of 16 bits where bytes are not taken whole (table_dots). */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/codes.h"
#include "kernels/relaxed.h"

enum { STREAMS = 4, TILE = 4, PAIR = 2, HALF = COLUMNS / 2 };
enum { CHUNK = 40 };   /* blocks unpacked at once, whole groups */

typedef struct {   /* a batch's activations of one precision, see gw_acts */
    const int8_t *q;                  /* [blocks][stride][planes][32] */
    const float *scale;
    const int32_t *sum, *half;
    size_t blocks, stride;
    int n, streams;
} acts;

/* --- bytes of 8 bits --- */

typedef enum { SEVEN, UNSIGNED, SIGNED } bits_taken;

/* How a product with bytes above 127 comes out, where the other bytes are at most `most`. Asked in each function
 * that relies on it, so that both are compiled alike. */
INLINE bits_taken takes(int8_t most) {
    static volatile uint8_t top = 255;
    if (gw_relaxed_only_7_bits) return SEVEN;
    v128_t all = DOT(wasm_i8x16_splat(most), wasm_i8x16_splat((int8_t)top), wasm_i32x4_splat(0));
    int32_t sum = wasm_i32x4_extract_lane(all, 0);
    return sum == 4 * 255 * most ? UNSIGNED : sum == -4 * most ? SIGNED : SEVEN;
}

/* table_values / 2, rounded down and up */
static const uint8_t low_values[16] = { 0, 11, 22, 31, 39, 46, 52, 58, 64, 70, 76, 82, 90, 98, 108, 120 };
static const uint8_t high_values[16] = { 0, 12, 22, 31, 39, 46, 53, 59, 64, 70, 76, 83, 90, 98, 108, 120 };

/* What a kernel needs beside codes: how to take bytes apart, and values of codes. */
typedef struct {
    bit_masks bits;
    scale_masks scales;
    table_masks table;
    v128_t flip;   /* flip: turns bytes of Q8_0 into codes */
} constants;

INLINE constants constants_of(const shape *f, bits_taken how) {
    constants k = { .bits = masks_of(f), .scales = scale_masks_of() };
    if (f->table) k.table = table_masks_of();
    if (f->table && how == SIGNED) k.table.values = wasm_v128_load(gw_iq4_values);
    if (f->bits == 8 && how != SIGNED) k.flip = unknown_bytes(128);
    return k;
}

/* dot + x times column c of codes */
INLINE v128_t dot_column(const shape *f, v128_t x, v128_t c, v128_t dot, const v128_t *table) {
    if (f->bits == 8 && !f->whole) {   /* 2 (c / 2) + c % 2 */
        v128_t most = AND(RIGHT(c, 1), wasm_i8x16_splat(127));
        return DOT(x, AND(c, wasm_i8x16_splat(1)), DOT(x, most, DOT(x, most, dot)));
    }
    if (!f->table) return DOT(x, c, dot);
    dot = DOT(x, SWIZZLE(table[0], c), dot);
    return f->whole ? dot : DOT(x, SWIZZLE(table[1], c), dot);
}

/* What to count codes from. Bytes of Q8_0 are codes from 128 and values of IQ4 begin at 0, but where they are taken
 * with a sign. */
INLINE int offset_of(const shape *f, bits_taken how) {
    if (f->bits != 8 && !f->table) return (int)f->offset;
    return how == SIGNED ? 0 : f->table ? TABLE_OFFSET : 128;
}

INLINE void unpack_codes(const shape *f, bits_taken how, const uint8_t *codes, v128_t *c, const constants *k) {
    if (f->bits != 8) unpack(f, codes, c, &k->bits);
    else
        for (int g = 0; g < COLUMNS; g++)
            c[g] = how == SIGNED ? LOAD(codes, g) : wasm_v128_xor(LOAD(codes, g), k->flip);
}

/* Of how many columns, at most those that have a scale, pairs of products fit 16 bits in one sum: with activations up
 * to 127, or 64 in each plane of wide ones, a column's pair is 2 * 127 * 63 at most for 6 bits. Powers of two. */
INLINE uint32_t run_of(const shape *f, bool wide) {
    int pair = 2 * (wide ? 64 : 127) * ((1 << f->bits) - 1);
    uint32_t run = COLUMNS / f->subs;
    while ((int)run * pair > INT16_MAX) run /= 2;
    return run;
}

/* Sums of products that begin at -offset times the sum of the activations, so that codes count from there. */
INLINE v128_t start_of(int offset, v128_t sum) { return wasm_i32x4_mul(sum, wasm_i32x4_splat(-offset)); }

INLINE v128_t joined(v128_t high, v128_t low) { return wasm_i32x4_add(wasm_i32x4_shl(high, 7), low); }

/* --- one row of activations --- */

/* Four activations of sixteen, four times. */
INLINE v128_t four_of(v128_t x, int i) {
    return i == 0 ? LANE(x, 0) : i == 1 ? LANE(x, 1) : i == 2 ? LANE(x, 2) : LANE(x, 3);
}

/* sum + products of four activations of sixteen with four columns: in 16 bits at most `run` columns. */
INLINE v128_t add_columns(const shape *f, v128_t x, const v128_t *c, v128_t sum, const constants *k) {
    v128_t pairs = wasm_i32x4_splat(0);
    UNROLL
    for (int i = 0; i < 4; i++) {
        if (!f->run) sum = dot_column(f, four_of(x, i), c[i], sum, &k->table.values);
        else pairs = i % f->run ? add_pairs(pairs, four_of(x, i), c[i]) : PAIRS(four_of(x, i), c[i]);
        if (f->run && (i + 1) % f->run == 0) sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(pairs));
    }
    return sum;
}

/* Sums of a block's products, one for each of its scales. */
INLINE void dots(const shape *f, bits_taken how, int planes, const v128_t *c, const int8_t *q, const int32_t *sum,
                 v128_t *dot, const constants *k) {
    v128_t part[2][2];   /* of each plane, of each half of the block */
    UNROLL
    for (int p = 0; p < planes; p++)
        UNROLL
        for (int h = 0; h < 2; h++) {
            v128_t x = wasm_v128_load(q + p * GW_BLOCK + 16 * h);
            bool begins = p == planes - 1 && h < (int)f->subs;
            v128_t all = wasm_i32x4_splat(begins ? -offset_of(f, how) * sum[h] : 0);
            part[p][h] = add_columns(f, x, c + 4 * h, all, k);
        }
    UNROLL
    for (uint32_t i = 0; i < f->subs; i++) {
        UNROLL
        for (int p = 0; p < planes; p++)
            if (f->subs == 1) part[p][0] = wasm_i32x4_add(part[p][0], part[p][1]);
        dot[i] = planes == 2 ? joined(part[0][i], part[1][i]) : part[0][i];
    }
}

/* The first times one scale and the second times the other, of sums that fit 16 bits. */
INLINE v128_t weighed_16(v128_t a, v128_t b, v128_t pair) {
    v128_t both = wasm_i16x8_shuffle(a, wasm_i32x4_shl(b, 16), 0, 9, 2, 11, 4, 13, 6, 15);
    return wasm_i32x4_dot_i16x8(both, pair);
}

/* Two numbers of 16 bits in one of 32. */
INLINE int32_t two_of(int32_t low, int32_t high) { return (int32_t)((uint32_t)(low & 0xffff) | (uint32_t)high << 16); }

/* One block into the total. sum: of the activations that each scale covers; by: their scale. */
INLINE v128_t add_block(const shape *f, int planes, v128_t total, const v128_t *dot, const heads *h, uint32_t j,
                        const int32_t *sum, float by, const constants *k) {
    uint32_t at = f->subs == 2 || f->blocks == 1 ? 0 : j;
    v128_t all = dot[0], part = wasm_i32x4_splat(sum[0]);
    if (f->subs == 2) {
        pairs p = pairs_of(f, h, j, &k->scales);
        bool fits = planes == 1 && f->bits < 4;
        all = fits ? weighed_16(dot[0], dot[1], p.scale) : weighed(dot[0], dot[1], p.scale);
        if (f->mins && fits) part = wasm_i32x4_dot_i16x8(wasm_i32x4_splat(two_of(sum[0], sum[1])), p.min);
        else if (f->mins) part = weighed(part, wasm_i32x4_splat(sum[1]), p.min);
    }
    total = add_scaled(total, all, h->scale[at], wasm_f32x4_splat(by));
    if (f->mins && f->subs == 2) total = add_min(total, h->min[at], part, wasm_f32x4_splat(by));
    else if (f->mins)   /* one product for all rows */
        total = wasm_f32x4_add(total, wasm_f32x4_mul(h->min[at], wasm_f32x4_splat(by * (float)sum[0])));
    return total;
}

/* A block's activations as table_dots wants them. */
INLINE void widen(int planes, const int8_t *q, int16_t *out) {
    UNROLL
    for (int h = 0; h < 2; h++, q += 16, out += 16) {
        v128_t x = wasm_v128_load(q), even = wasm_i16x8_shr(wasm_i16x8_shl(x, 8), 8), odd = wasm_i16x8_shr(x, 8);
        if (planes == 2) {
            v128_t low = wasm_v128_load(q + GW_BLOCK);
            even = wasm_i16x8_add(wasm_i16x8_shl(even, 7), wasm_i16x8_shr(wasm_i16x8_shl(low, 8), 8));
            odd = wasm_i16x8_add(wasm_i16x8_shl(odd, 7), wasm_i16x8_shr(low, 8));
        }
        wasm_v128_store(out, wasm_i32x4_shuffle(even, odd, 0, 4, 1, 5));
        wasm_v128_store(out + 8, wasm_i32x4_shuffle(even, odd, 2, 6, 3, 7));
    }
}

/* y[s * step] of panels w + s * stride, s < n. each: a->stride, a constant where it is 1. */
INLINE void streams(const shape *f, bits_taken how, int planes, const uint8_t *w, size_t stride, int n, const acts *a,
                    size_t each, float *y, size_t step) {
    const constants k = constants_of(f, how);
    const int8_t *q = a->q;
    const float *scale = a->scale;
    const int32_t *all = a->sum, *half = a->half;
    v128_t total[STREAMS];
    heads head[STREAMS];
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        UNROLL
        for (int s = 0; s < n; s++) read_head(f, w + s * stride, head + s, &k.scales);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++, q += each * planes * GW_BLOCK, scale += each, all += each) {
            int32_t sum[2] = { f->subs == 1 ? *all : *half };
            if (f->subs == 2) sum[1] = *all - sum[0], half += each;
            if (f->table && !f->whole) {
                v128_t dot[STREAMS];
                int16_t wide[GW_BLOCK];
                widen(planes, q, wide);
                table_dots(codes_of(f, w, j), stride, n, wide, sum[0], dot, &k.table);
                UNROLL
                for (int s = 0; s < n; s++)
                    total[s] = add_block(f, planes, total[s], &dot[s], head + s, j, sum, *scale, &k);
                continue;
            }
            UNROLL   /* in a loop each load would jump between streams: prefetchers give up, and two thirds are lost */
            for (int s = 0; s < n; s++) {
                v128_t dot[2], c[COLUMNS];
                unpack_codes(f, how, codes_of(f, w + s * stride, j), c, &k);
                dots(f, how, planes, c, q, sum, dot, &k);
                total[s] = add_block(f, planes, total[s], dot, head + s, j, sum, *scale, &k);
            }
        }
    }
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* --- several rows --- */

/* A chunk of PAIR panels: codes as bytes, vector g being columns 4 g … 4 g + 3. */
typedef struct {
    struct { v128_t column[COLUMNS][PAIR], scale[PAIR], min[PAIR], small[2][PAIR], small_min[2][PAIR]; } block[CHUNK];
} unpacked;

INLINE void unpack_group(const shape *f, bits_taken how, const uint8_t *group, unpacked *out, uint32_t first, int p) {
    v128_t c[COLUMNS];
    heads h;
    const constants k = constants_of(f, how);
    read_head(f, group, &h, &k.scales);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++) {
        uint32_t b = first + j, at = f->subs == 2 || f->blocks == 1 ? 0 : j;
        unpack_codes(f, how, codes_of(f, group, j), c, &k);
        for (int g = 0; g < COLUMNS; g++) out->block[b].column[g][p] = c[g];
        out->block[b].scale[p] = h.scale[at];
        if (f->mins) out->block[b].min[p] = h.min[at];
        if (f->subs == 1) continue;
        pairs small = pairs_of(f, &h, j, &k.scales);
        out->block[b].small[0][p] = first_of(small.scale);
        out->block[b].small[1][p] = second_of(small.scale);
        if (!f->mins) continue;
        out->block[b].small_min[0][p] = first_of(small.min);
        out->block[b].small_min[1][p] = second_of(small.min);
    }
}

/* Where tiles work: against the chunk that begins at block b. */
typedef struct {
    const acts *a;
    size_t b;
    uint32_t n_blocks;
    float *y;
    size_t ldy;
} place;

/* The same products by pairs: sums of `run` columns' pairs fit 16 bits. */
INLINE void tile_pairs(int planes, uint32_t run, const v128_t *c, const v128_t *end, const int8_t *q, int row, int low,
                       v128_t (*dot)[PAIR], v128_t (*high)[PAIR], int rows, int panels) {
    v128_t sum[TILE][PAIR], up[TILE][PAIR];
    while (c != end) {
        const v128_t *next = c + run * PAIR;
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++) sum[i][p] = up[i][p] = wasm_i32x4_splat(0);
        KEEP_LOOP
        for (; c != next; c += PAIR, q += 4)
            for (int i = 0; i < rows; i++)
                for (int p = 0; p < panels; p++) {
                    sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * row + low), c[p]);
                    if (planes == 2) up[i][p] = add_pairs(up[i][p], SPLAT(q + i * row), c[p]);
                }
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++) {
                dot[i][p] = wasm_i32x4_add(dot[i][p], wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]));
                if (planes == 2) high[i][p] = wasm_i32x4_add(high[i][p], wasm_i32x4_extadd_pairwise_i16x8(up[i][p]));
            }
    }
}

/* A block of 4-bit codes with one scale, in 16 bits from the first to the last. Codes count from `offset`, 8 at most:
 * half of what that takes off a sum is where each of its two 16-bit lanes begins. Wherever a lane goes, it ends within
 * 127 * 16 * (15 - 4) + 127 * 16 * 4 < 2^15. */
INLINE void tile_whole(int offset, const v128_t *c, const int8_t *q, const int32_t *sums, v128_t (*dot)[PAIR],
                       int rows, int panels) {
    v128_t sum[TILE][PAIR];
    const v128_t *end = c + COLUMNS * PAIR;
    for (int i = 0; i < rows; i++) {
        v128_t start = wasm_i16x8_mul(wasm_v128_load16_splat(sums + i), wasm_i16x8_splat((int16_t)(-offset / 2)));
        for (int p = 0; p < panels; p++) sum[i][p] = start;
    }
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++) sum[i][p] = add_pairs(sum[i][p], SPLAT(q + i * GW_BLOCK), c[p]);
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < panels; p++) dot[i][p] = wasm_i32x4_extadd_pairwise_i16x8(sum[i][p]);
}

/* Products of part `h` of block j, which has a scale, with tokens t …; at: number of its block of activations; sum: of
 * these. f: its subs, mins, table and run. The loop over columns stays rolled up: unrolled, LLVM makes one chain of
 * each sum's products. */
INLINE void tile_part(const shape *f, int planes, int offset, const unpacked *w, uint32_t j, uint32_t h, const acts *a,
                      size_t at, v128_t (*sum)[2], v128_t (*dot)[PAIR], int rows, int panels) {
    const int row = GW_BLOCK * planes, low = GW_BLOCK * (planes - 1);   /* bytes to the next row, to the low plane */
    uint32_t each = COLUMNS / f->subs;
    v128_t high[TILE][PAIR], table[2] = { wasm_v128_load(low_values), wasm_v128_load(high_values) };
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < panels; p++) {
            dot[i][p] = start_of(offset, sum[i][h]);
            high[i][p] = wasm_i32x4_splat(0);
        }
    const v128_t *c = w->block[j].column[h * each], *end = c + each * PAIR;
    const int8_t *q = a->q + at * row + 4 * each * h;
    if (f->bits == 4 && planes == 1) {   /* known of PAIR_TILES only */
        tile_whole(offset, c, q, a->sum + at, dot, rows, panels);
        return;
    }
    if (f->run) {
        tile_pairs(planes, f->run, c, end, q, row, low, dot, high, rows, panels);
        end = c;
    }
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++) {
                dot[i][p] = dot_column(f, SPLAT(q + i * row + low), c[p], dot[i][p], table);
                if (planes == 2) high[i][p] = dot_column(f, SPLAT(q + i * row), c[p], high[i][p], table);
            }
    for (int i = 0; i < rows && planes == 2; i++)
        for (int p = 0; p < panels; p++) dot[i][p] = joined(high[i][p], dot[i][p]);
}

INLINE void tile_block(const shape *f, int planes, int offset, const unpacked *w, uint32_t j, const acts *a, size_t at,
                       v128_t (*total)[PAIR], int rows, int panels) {
    v128_t dot[2][TILE][PAIR], sum[TILE][2];
    for (int i = 0; i < rows; i++) sums_of(f, a->sum + at + i, a->half + at + i, sum[i]);
    for (uint32_t h = 0; h < f->subs; h++) {
        tile_part(f, planes, offset, w, j, h, a, at, sum, dot[h], rows, panels);
        for (int i = 0; i < rows && f->subs == 2; i++)
            for (int p = 0; p < panels; p++) dot[h][i][p] = wasm_i32x4_mul(dot[h][i][p], w->block[j].small[h][p]);
    }
    for (int i = 0; i < rows; i++) {
        v128_t by = SPLAT(a->scale + at + i);
        for (int p = 0; p < panels; p++) {
            v128_t all = f->subs == 2 ? wasm_i32x4_add(dot[0][i][p], dot[1][i][p]) : dot[0][i][p], part = sum[i][0];
            total[i][p] = add_scaled(total[i][p], all, w->block[j].scale[p], by);
            if (!f->mins) continue;
            if (f->subs == 2)
                part = wasm_i32x4_add(wasm_i32x4_mul(sum[i][0], w->block[j].small_min[0][p]),
                                      wasm_i32x4_mul(sum[i][1], w->block[j].small_min[1][p]));
            total[i][p] = add_min(total[i][p], w->block[j].min[p], part, by);
        }
    }
}

INLINE void tile(const shape *f, int planes, int offset, const unpacked *w, const place *at, int t, int rows,
                 int panels) {
    const acts *a = at->a;
    float *y = at->y + t * at->ldy;
    size_t block = at->b * a->stride + t;
    v128_t total[TILE][PAIR];
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < panels; p++)
            total[i][p] = at->b ? wasm_v128_load(y + i * at->ldy + p * GW_PANEL) : wasm_f32x4_splat(0);
    KEEP_LOOP
    for (uint32_t j = 0; j < at->n_blocks; j++, block += a->stride)
        tile_block(f, planes, offset, w, j, a, block, total, rows, panels);
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < panels; p++) wasm_v128_store(y + i * at->ldy + p * GW_PANEL, total[i][p]);
}

/* All tokens from the t-th on against one chunk; shared by all types of the same subs, mins and table. */
#define TILES(name, planes, subs_, mins_, table_)                                                             \
    OUTLINE void name(const unpacked *w, const place *where, int t, int panels, int offset) {                    \
        static const shape f = { .subs = subs_, .mins = mins_, .table = table_ };                                \
        const acts a = *where->a;   /* copies: what is stored cannot change them */                              \
        place own = *where, *at = &own;                                                                          \
        own.a = &a;                                                                                              \
        int step = TILE / planes;                                                                                \
        for (; panels == PAIR && t + step <= a.n; t += step) tile(&f, planes, offset, w, at, t, step, PAIR);     \
        for (; panels == PAIR && t < a.n; t++) tile(&f, planes, offset, w, at, t, 1, PAIR);                      \
        for (; t < a.n; t++) tile(&f, planes, offset, w, at, t, 1, 1);                                           \
    }
/* The same by pairs, of types with as many bits or any (0), and what makes no whole tile by `rest`. */
#define PAIR_TILES(name, rest, planes, subs_, mins_, bits_)                                                   \
    OUTLINE void name(const unpacked *w, const place *where, int panels, int offset, uint32_t run) {             \
        const shape f = { .subs = subs_, .mins = mins_, .bits = bits_, .run = run };                             \
        const acts a = *where->a;                                                                                \
        place own = *where, *at = &own;                                                                          \
        own.a = &a;                                                                                              \
        int t = 0, step = TILE / planes;                                                                         \
        for (; panels == PAIR && t + step <= a.n; t += step) tile(&f, planes, offset, w, at, t, step, PAIR);     \
        rest(w, where, t, panels, offset);                                                                       \
    }
TILES(tiles_1, 1, 1, false, false)
TILES(tiles_1_mins, 1, 1, true, false)
TILES(tiles_1_table, 1, 1, false, true)
TILES(tiles_2, 1, 2, false, false)
TILES(tiles_2_mins, 1, 2, true, false)
TILES(wide_tiles_1, 2, 1, false, false)
TILES(wide_tiles_1_mins, 2, 1, true, false)
TILES(wide_tiles_1_table, 2, 1, false, true)
TILES(wide_tiles_2, 2, 2, false, false)
TILES(wide_tiles_2_mins, 2, 2, true, false)
PAIR_TILES(pair_tiles_1, tiles_1, 1, 1, false, 0)
PAIR_TILES(pair_tiles_1_mins, tiles_1_mins, 1, 1, true, 0)
PAIR_TILES(pair_tiles_1_of_4, tiles_1, 1, 1, false, 4)
PAIR_TILES(pair_tiles_1_mins_of_4, tiles_1_mins, 1, 1, true, 4)
PAIR_TILES(pair_tiles_2, tiles_2, 1, 2, false, 0)
PAIR_TILES(pair_tiles_2_mins, tiles_2_mins, 1, 2, true, 0)
PAIR_TILES(pair_wide_tiles_1, wide_tiles_1, 2, 1, false, 0)

/* One chunk: by the function for a shape. */
INLINE void tiles_of(const shape *f, bool wide, const unpacked *w, const place *at, int panels, int offset) {
    bool pairs = f->bits < 8 && !f->table && adds_pairs();
    uint32_t run = run_of(f, wide);
    if (pairs && !wide && f->bits == 4 && !f->mins) pair_tiles_1_of_4(w, at, panels, offset, run);
    else if (pairs && !wide && f->bits == 4) pair_tiles_1_mins_of_4(w, at, panels, offset, run);
    else if (pairs && !wide && f->subs == 1 && !f->mins) pair_tiles_1(w, at, panels, offset, run);
    else if (pairs && !wide && f->subs == 1) pair_tiles_1_mins(w, at, panels, offset, run);
    else if (pairs && !wide && !f->mins) pair_tiles_2(w, at, panels, offset, run);
    else if (pairs && !wide) pair_tiles_2_mins(w, at, panels, offset, run);
    else if (pairs && f->subs == 1 && !f->mins) pair_wide_tiles_1(w, at, panels, offset, run);
    else if (f->table) (wide ? wide_tiles_1_table : tiles_1_table)(w, at, 0, panels, offset);
    else if (f->subs == 1 && !f->mins) (wide ? wide_tiles_1 : tiles_1)(w, at, 0, panels, offset);
    else if (f->subs == 1) (wide ? wide_tiles_1_mins : tiles_1_mins)(w, at, 0, panels, offset);
    else if (!f->mins) (wide ? wide_tiles_2 : tiles_2)(w, at, 0, panels, offset);
    else (wide ? wide_tiles_2_mins : tiles_2_mins)(w, at, 0, panels, offset);
}

/* All tokens against PAIR panels or one. */
typedef void panel_rows(bits_taken how, bool wide, const uint8_t *w, int panels, const acts *a, float *y, size_t ldy);

INLINE void unpack_rows(const shape *f, bits_taken how, bool wide, const uint8_t *w, int panels, const acts *a,
                        float *y, size_t ldy) {
    unpacked u;
    size_t panel = a->blocks / f->blocks * f->bytes;
    place at = { .a = a, .y = y, .ldy = ldy };
    for (; at.b < a->blocks; at.b += CHUNK) {
        at.n_blocks = (uint32_t)gw_min(CHUNK, a->blocks - at.b);
        for (uint32_t i = 0; i < at.n_blocks; i += f->blocks, w += f->bytes)
            for (int p = 0; p < panels; p++) unpack_group(f, how, w + p * panel, &u, i, p);
        tiles_of(f, wide, &u, &at, panels, offset_of(f, how));
    }
}

/* --- products --- */

/* One row by the panels from p on, one after the other. */
INLINE void each_panel(const shape *f, bits_taken how, int planes, const uint8_t *w, int panels, int p, const acts *a,
                       float *y) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    for (; p < panels; p++) streams(f, how, planes, w + p * panel, 0, 1, a, 1, y + p * GW_PANEL, 0);
}

INLINE void rows(const shape *f, bits_taken how, int planes, panel_rows *several, const uint8_t *w, int panels,
                 const acts *a, float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    bool shared = f->table && !f->whole;   /* activations that are widened once for all panels */
    bool side_by_side = shared || (a->streams != 1 && (planes == 1 || f->bits == 8));   /* not where few weights are */
    int each = a->n == 1 && side_by_side ? panels / STREAMS : 0;
    for (int i = 0; i < each; i++)
        streams(f, how, planes, w + i * panel, each * panel, STREAMS, a, 1, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    if (a->n == 1) each_panel(f, how, planes, w, panels, each * STREAMS, a, y);
    for (int p = 0; p < panels && a->n > 1; p += PAIR)
        several(how, planes == 2, w + p * panel, (int)gw_min(PAIR, panels - p), a, y + p * GW_PANEL, ldy);
}

/* Q8_0 on an engine that keeps to 7 bits: three products for one, a panel and a token at a time. */
OUTLINE void rows_of_7_bits(const uint8_t *w, int panels, const acts *all, float *y, size_t ldy) {
    for (int t = 0; t < all->n; t++) {
        acts a = *all;
        a.q += 2 * t * GW_BLOCK, a.scale += t, a.sum += t, a.half += t, a.n = 1;
        for (int p = 0; p < panels; p++) {
            float *out = y + t * ldy + p * GW_PANEL;
            streams(&shape_q8, SEVEN, 2, w + p * a.blocks * GW_Q8_BYTES, 0, 1, &a, a.stride, out, 0);
        }
    }
}

INLINE acts narrow_of(const gw_acts *a) {
    return (acts){ a->q8, a->s8, a->sum8, a->half8, a->k / GW_BLOCK, a->stride, a->n, a->streams };
}

INLINE acts wide_of(const gw_acts *a) {
    return (acts){ (const int8_t *)a->q16, a->s16, a->sum16, a->half16, a->k / GW_BLOCK, a->stride, a->n, a->streams };
}

INLINE void matmul(const shape *f, int planes, panel_rows *several, const uint8_t *w, int panels, const acts *a,
                   float *y, size_t ldy) {
    bool by_pairs = !f->table && (planes == 1 || (f->bits == 4 && f->subs == 1 && !f->mins));
    bits_taken how = a->n == 1 && f->table ? takes(127) : SEVEN;
    if (f->table && how != SEVEN) {   /* for both precisions: such an engine has an instruction for it */
        shape whole = *f;
        whole.whole = true;
        rows(&whole, how, planes, several, w, panels, a, y, ldy);
        return;
    }
    if (a->n == 1 && by_pairs && adds_pairs()) {
        shape pairs = *f;
        pairs.run = gw_min(run_of(f, planes == 2), HALF);
        each_panel(&pairs, SEVEN, planes, w, panels, 0, a, y);
        return;
    }
    rows(f, SEVEN, planes, several, w, panels, a, y, ldy);
}

#define DEFINE_ROWS(NAME, name, ...)                                                                          \
    OUTLINE void rows_of_##name(bits_taken how, bool wide, const uint8_t *w, int panels, const acts *a, float *y, \
                                size_t ldy) {                                                                    \
        unpack_rows(&shape_##name, how, wide, w, panels, a, y, ldy);                                             \
    }
#define DEFINE_WIDE(NAME, name, ...)                                                                          \
    void gw_relaxed_matmul_##name##_wide(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) { \
        acts a = wide_of(all);                                                                                   \
        matmul(&shape_##name, 2, rows_of_##name, w, panels, &a, y, ldy);                                         \
    }
#define DEFINE(NAME, name, ...)                                                                               \
    void gw_relaxed_matmul_##name(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {      \
        acts a = narrow_of(all);                                                                                 \
        matmul(&shape_##name, 1, rows_of_##name, w, panels, &a, y, ldy);                                         \
    }
GW_FORMATS(DEFINE_ROWS)
GW_FORMATS(DEFINE)
GW_FORMATS(DEFINE_WIDE)
DEFINE_ROWS(Q4_0, q4, )
DEFINE_WIDE(Q4_0, q4, )
DEFINE_ROWS(Q8_0, q8, )

void gw_relaxed_rows_q4(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {
    acts a = narrow_of(all);
    size_t panel = a.blocks * GW_Q4_BYTES;
    for (int p = 0; p < panels; p += PAIR)
        rows_of_q4(SEVEN, false, w + p * panel, (int)gw_min(PAIR, panels - p), &a, y + p * GW_PANEL, ldy);
}

void gw_relaxed_matmul_q8_wide(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {
    acts a = wide_of(all);
    bits_taken how = takes(64);
    shape whole = shape_q8;
    whole.whole = true;
    if (how == SEVEN) rows_of_7_bits(w, panels, &a, y, ldy);
    else rows(&whole, how, 2, rows_of_q8, w, panels, &a, y, ldy);
}

#endif
