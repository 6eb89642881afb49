/* kernels_quant_relaxed: products of all quantised weights with int8 activations, and with wide ones as two planes of
 * int8, by the relaxed dot product of bytes, whose second operand is only defined for 7 bits. Codes (0..63) are well
 * inside. Bytes of Q8_0 and values of IQ4 are not. What an engine does with 8 bits is asked (takes): none, or as if
 * without a sign (x86: vpdpbusd), or with one (ARM: sdot; x86: vpdpbssd). Sums are exact, so they are the same. */
#include "kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels_quant.h"
#include "kernels_relaxed.h"

enum { STREAMS = 4, TILE = 4, PAIR = 2, CHUNK = 40 };   /* CHUNK: blocks unpacked at once, whole groups */

#define TABLE_OFFSET 127

volatile bool gw_relaxed_only_7_bits;

typedef struct {   /* a batch's activations of one precision, see gw_acts */
    const int8_t *q;                  /* [blocks][stride][planes][32] */
    const float *scale;
    const int32_t *sum, *half;
    size_t blocks, stride;
    int n;
} acts;

/* --- bytes of 8 bits --- */

typedef enum { SEVEN, UNSIGNED, SIGNED } bits_taken;

/* How a product with bytes above 127 comes out, where the other bytes are at most `most`. Asked in each function
 * that relies on it, so that both are compiled alike. */
INLINE bits_taken takes(int8_t most) {
    static volatile uint8_t top = 255;
    if (gw_relaxed_only_7_bits) return SEVEN;
    int32_t sum = wasm_i32x4_extract_lane(DOT(wasm_i8x16_splat(most), wasm_u8x16_splat(top), wasm_i32x4_splat(0)), 0);
    return sum == 4 * 255 * most ? UNSIGNED : sum == -4 * most ? SIGNED : SEVEN;
}

/* (value + 127) / 2, rounded down and up; and value + 127 */
static const uint8_t low_values[16] = { 0, 11, 22, 31, 39, 46, 52, 58, 64, 70, 76, 82, 90, 98, 108, 120 };
static const uint8_t high_values[16] = { 0, 12, 22, 31, 39, 46, 53, 59, 64, 70, 76, 83, 90, 98, 108, 120 };
static const uint8_t whole_values[16] = { 0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240 };

/* dot + x times column c of codes */
INLINE v128_t dot_column(const shape *f, v128_t x, v128_t c, v128_t dot) {
    if (f->bits == 8 && !f->whole) {   /* 2 (c / 2) + c % 2 */
        v128_t most = AND(RIGHT(c, 1), 127);
        return DOT(x, AND(c, 1), DOT(x, most, DOT(x, most, dot)));
    }
    if (!f->table) return DOT(x, c, dot);
    if (f->whole) return DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(whole_values), c), dot);
    dot = DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(low_values), c), dot);
    return DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(high_values), c), dot);
}

/* What to count codes from. Bytes of Q8_0 are codes from 128, but where they are taken with a sign. */
INLINE int offset_of(const shape *f, bits_taken how) {
    if (f->bits == 8) return how == SIGNED ? 0 : 128;
    return f->table ? TABLE_OFFSET : (int)f->offset;
}

INLINE void unpack_codes(const shape *f, bits_taken how, const uint8_t *codes, v128_t *c) {
    v128_t flip = wasm_i8x16_splat((int8_t)(how == SIGNED ? 0 : 128));
    if (f->bits == 8)
        for (int g = 0; g < COLUMNS; g++) c[g] = wasm_v128_xor(LOAD(codes, g), flip);
    else
        unpack(f, codes, c);
}

/* Sums of products that begin at -offset times the sum of the activations, so that codes count from there. */
INLINE v128_t start_of(int offset, v128_t sum) { return wasm_i32x4_mul(sum, wasm_i32x4_splat(-offset)); }

INLINE v128_t joined(v128_t high, v128_t low) { return wasm_i32x4_add(wasm_i32x4_shl(high, 7), low); }

/* --- one row of activations --- */

/* Sums of a block's products, one for each of its scales. */
INLINE void dots(const shape *f, bits_taken how, int planes, const v128_t *c, const int8_t *q, const v128_t *sum,
                 v128_t *dot) {
    v128_t high[2];
    for (uint32_t i = 0; i < f->subs; i++) {
        dot[i] = start_of(offset_of(f, how), sum[i]);
        high[i] = wasm_i32x4_splat(0);
    }
    for (int g = 0; g < COLUMNS; g++) {
        int i = f->subs == 2 ? g / 4 : 0;
        if (planes == 2) high[i] = dot_column(f, SPLAT(q + 4 * g), c[g], high[i]);
        dot[i] = dot_column(f, SPLAT(q + (planes - 1) * GW_BLOCK + 4 * g), c[g], dot[i]);
    }
    for (uint32_t i = 0; i < f->subs && planes == 2; i++) dot[i] = joined(high[i], dot[i]);
}

/* y[s * step] of panels w + s * stride, s < n */
INLINE void streams(const shape *f, bits_taken how, int planes, const uint8_t *w, size_t stride, int n, const acts *a,
                    float *y, size_t step) {
    v128_t total[STREAMS], scale[STREAMS][SUBS], min[STREAMS][SUBS];
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        for (int s = 0; s < n; s++) f->read(w + s * stride, scale[s], min[s]);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++) {
            size_t at = (b + j) * a->stride;
            v128_t sum[2], dot[2], c[COLUMNS], by = SPLAT(a->scale + at);
            const int8_t *q = a->q + at * GW_BLOCK * planes;
            sums_of(f, a->sum + at, a->half + at, sum);
            UNROLL   /* in a loop each load would jump between streams: prefetchers give up, and two thirds are lost */
            for (int s = 0; s < n; s++) {
                unpack_codes(f, how, codes_of(f, w + s * stride, j), c);
                dots(f, how, planes, c, q, sum, dot);
                total[s] = add_block(f, total[s], dot, scale[s] + j * f->subs, min[s] + j * f->subs, sum, by);
            }
        }
    }
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* --- several rows --- */

/* A chunk of PAIR panels: codes as bytes, vector g being columns 4 g … 4 g + 3. */
typedef struct {
    struct { v128_t column[COLUMNS][PAIR], scale[2][PAIR], min[2][PAIR]; } block[CHUNK];
} unpacked;

INLINE void unpack_group(const shape *f, bits_taken how, const uint8_t *group, unpacked *out, uint32_t first, int p) {
    v128_t scale[SUBS], min[SUBS], c[COLUMNS];
    f->read(group, scale, min);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++) {
        unpack_codes(f, how, codes_of(f, group, j), c);
        for (int g = 0; g < COLUMNS; g++) out->block[first + j].column[g][p] = c[g];
        for (uint32_t i = 0; i < f->subs; i++) {
            out->block[first + j].scale[i][p] = scale[j * f->subs + i];
            if (f->mins) out->block[first + j].min[i][p] = min[j * f->subs + i];
        }
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

/* Products of scale `h` of block j with tokens t …; at: number of its block of activations. f: its subs, mins and
 * table. The loop over columns stays rolled up: unrolled, LLVM makes one chain of each sum's products. */
INLINE void tile_part(const shape *f, int planes, int offset, const unpacked *w, uint32_t j, uint32_t h, const acts *a,
                      size_t at, v128_t (*total)[PAIR], int rows, int panels) {
    const int row = GW_BLOCK * planes, low = GW_BLOCK * (planes - 1);   /* bytes to the next row, to the low plane */
    uint32_t each = COLUMNS / f->subs;
    v128_t dot[TILE][PAIR], high[TILE][PAIR], sum[TILE][2];
    for (int i = 0; i < rows; i++) {
        sums_of(f, a->sum + at + i, a->half + at + i, sum[i]);
        for (int p = 0; p < panels; p++) {
            dot[i][p] = start_of(offset, sum[i][h]);
            high[i][p] = wasm_i32x4_splat(0);
        }
    }
    const v128_t *c = w->block[j].column[h * each], *end = c + each * PAIR;
    const int8_t *q = a->q + at * row + 4 * each * h;
    KEEP_LOOP
    for (; c != end; c += PAIR, q += 4)
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++) {
                dot[i][p] = dot_column(f, SPLAT(q + i * row + low), c[p], dot[i][p]);
                if (planes == 2) high[i][p] = dot_column(f, SPLAT(q + i * row), c[p], high[i][p]);
            }
    for (int i = 0; i < rows; i++) {
        v128_t by = SPLAT(a->scale + at + i);
        for (int p = 0; p < panels; p++) {
            v128_t all = planes == 2 ? joined(high[i][p], dot[i][p]) : dot[i][p];
            total[i][p] = add_scaled(total[i][p], all, w->block[j].scale[h][p], by);
            if (f->mins) total[i][p] = add_min(total[i][p], w->block[j].min[h][p], sum[i][h], by);
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
        for (uint32_t h = 0; h < f->subs; h++) tile_part(f, planes, offset, w, j, h, a, block, total, rows, panels);
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < panels; p++) wasm_v128_store(y + i * at->ldy + p * GW_PANEL, total[i][p]);
}

/* All tokens against one chunk; shared by all types of the same subs, mins and table. */
#define TILES(name, planes, subs_, mins_, table_)                                                             \
    OUTLINE void name(const unpacked *w, const place *where, int panels, int offset) {                           \
        static const shape f = { .subs = subs_, .mins = mins_, .table = table_ };                                \
        const acts a = *where->a;   /* copies: what is stored cannot change them */                              \
        place own = *where, *at = &own;                                                                          \
        own.a = &a;                                                                                              \
        int t = 0, step = TILE / planes;                                                                         \
        for (; panels == PAIR && t + step <= a.n; t += step) tile(&f, planes, offset, w, at, t, step, PAIR);     \
        for (; panels == PAIR && t < a.n; t++) tile(&f, planes, offset, w, at, t, 1, PAIR);                      \
        for (; t < a.n; t++) tile(&f, planes, offset, w, at, t, 1, 1);                                           \
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

typedef void tiles(const unpacked *w, const place *where, int panels, int offset);

INLINE tiles *tiles_of(const shape *f, bool wide) {
    if (f->table) return wide ? wide_tiles_1_table : tiles_1_table;
    if (f->subs == 1 && !f->mins) return wide ? wide_tiles_1 : tiles_1;
    if (f->subs == 1) return wide ? wide_tiles_1_mins : tiles_1_mins;
    if (!f->mins) return wide ? wide_tiles_2 : tiles_2;
    return wide ? wide_tiles_2_mins : tiles_2_mins;
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
        tiles_of(f, wide)(&u, &at, panels, offset_of(f, how));
    }
}

/* --- products --- */

INLINE void rows(const shape *f, bits_taken how, int planes, panel_rows *several, const uint8_t *w, int panels,
                 const acts *a, float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    int each = a->n == 1 ? panels / STREAMS : 0;
    for (int i = 0; i < each; i++)
        streams(f, how, planes, w + i * panel, each * panel, STREAMS, a, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    for (int p = each * STREAMS; p < panels; p += PAIR)
        several(how, planes == 2, w + p * panel, (int)gw_min(PAIR, panels - p), a, y + p * GW_PANEL, ldy);
}

/* Q8_0 on an engine that keeps to 7 bits: three products for one, a panel and a token at a time. */
OUTLINE void rows_of_7_bits(const uint8_t *w, int panels, const acts *all, float *y, size_t ldy) {
    for (int t = 0; t < all->n; t++) {
        acts a = *all;
        a.q += 2 * t * GW_BLOCK, a.scale += t, a.sum += t, a.half += t, a.n = 1;
        for (int p = 0; p < panels; p++)
            streams(&shape_q8, SEVEN, 2, w + p * a.blocks * GW_Q8_BYTES, 0, 1, &a, y + t * ldy + p * GW_PANEL, 0);
    }
}

INLINE acts narrow_of(const gw_acts *a) {
    return (acts){ a->q8, a->s8, a->sum8, a->half8, a->k / GW_BLOCK, a->stride, a->n };
}

INLINE acts wide_of(const gw_acts *a) {
    return (acts){ (const int8_t *)a->q16, a->s16, a->sum16, a->half16, a->k / GW_BLOCK, a->stride, a->n };
}

INLINE void matmul(const shape *f, int planes, panel_rows *several, const uint8_t *w, int panels, const acts *a,
                   float *y, size_t ldy) {
    if (a->n == 1 && f->table && takes(planes == 1 ? 127 : 64) == UNSIGNED) {
        shape whole = *f;
        whole.whole = true;
        rows(&whole, SEVEN, planes, several, w, panels, a, y, ldy);
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
