/* kernels_quant_relaxed: products of the types in quant_formats.h with int8 activations and the relaxed dot
 * product of bytes, whose second operand is only defined for 7 bits. Codes (0..63) are well inside. The values of
 * IQ4 are not: each is taken from two tables of 0..120 that add up to value + 127, or, where the engine turns out to
 * take that operand as 8 bits without a sign, from one table. The sums are exact, so they are the same. */
#include "kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels_quant.h"

enum { STREAMS = 4, TILE = 4, PAIR = 2, CHUNK = 40 };   /* CHUNK: blocks unpacked at once, whole groups */

#define SPLAT(p) wasm_v128_load32_splat(p)
#define DOT wasm_i32x4_relaxed_dot_i8x16_i7x16_add
#define TABLE_OFFSET 127

/* What to count codes from: the format's offset, or what the tables add. */
INLINE int offset_of(const shape *f) { return f->table ? TABLE_OFFSET : (int)f->offset; }

/* (value + 127) / 2, rounded down and up */
static const uint8_t low_values[16] = { 0, 11, 22, 31, 39, 46, 52, 58, 64, 70, 76, 82, 90, 98, 108, 120 };
static const uint8_t high_values[16] = { 0, 12, 22, 31, 39, 46, 53, 59, 64, 70, 76, 83, 90, 98, 108, 120 };

static const uint8_t whole_values[16] = { 0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240 };

/* Does a product with bytes above 127 come out as if they had no sign (vpdpbusd)? Asked in each function that
 * relies on it, so that both are compiled alike. */
INLINE bool takes_8_bits(void) {
    static volatile uint8_t top = 255;
    v128_t dot = DOT(wasm_i8x16_splat(127), wasm_u8x16_splat(top), wasm_i32x4_splat(0));
    return wasm_i32x4_all_true(wasm_i32x4_eq(dot, wasm_i32x4_splat(4 * 127 * 255)));
}

/* Where sums of products begin, so that codes count from the offset. */
INLINE v128_t start_of(const shape *f, v128_t sum) {
    return offset_of(f) ? wasm_i32x4_mul(sum, wasm_i32x4_splat(-offset_of(f))) : wasm_i32x4_splat(0);
}

INLINE v128_t dot_column(const shape *f, v128_t x, v128_t c, v128_t dot) {
    if (!f->table) return DOT(x, c, dot);
    if (f->whole) return DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(whole_values), c), dot);
    dot = DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(low_values), c), dot);
    return DOT(x, wasm_i8x16_relaxed_swizzle(wasm_v128_load(high_values), c), dot);
}

/* --- one row of activations --- */

/* y[s * step] of panels w + s * stride, s < n */
INLINE void streams(const shape *f, const uint8_t *w, size_t stride, int n, const gw_acts *a, float *y, size_t step) {
    v128_t total[STREAMS], scale[STREAMS][SUBS], min[STREAMS][SUBS];
    size_t blocks = a->k / GW_BLOCK;
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < blocks; b += f->blocks, w += f->bytes) {
        for (int s = 0; s < n; s++) f->read(w + s * stride, scale[s], min[s]);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++) {
            v128_t sum[2], dot[2], c[COLUMNS], by = SPLAT(a->s8 + b + j);
            const int8_t *q = a->q8 + (b + j) * GW_BLOCK;
            sums_of(f, a->sum8 + b + j, a->half8 + b + j, sum);
            UNROLL   /* in a loop each load would jump between streams: prefetchers give up, and two thirds are lost */
            for (int s = 0; s < n; s++) {
                unpack(f, codes_of(f, w + s * stride, j), c);
                for (uint32_t i = 0; i < f->subs; i++) dot[i] = start_of(f, sum[i]);
                for (int g = 0; g < COLUMNS; g++) {
                    int i = f->subs == 2 ? g / 4 : 0;
                    dot[i] = dot_column(f, SPLAT(q + 4 * g), c[g], dot[i]);
                }
                total[s] = add_block(f, total[s], dot, scale[s] + j * f->subs, min[s] + j * f->subs, sum, by);
            }
        }
    }
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* --- several rows --- */

/* A chunk of PAIR panels: codes as bytes, vector g being columns 4 g … 4 g + 3. */
typedef struct {
    v128_t column[CHUNK][COLUMNS][PAIR], scale[CHUNK][2][PAIR], min[CHUNK][2][PAIR];
} unpacked;

INLINE void unpack_group(const shape *f, const uint8_t *group, unpacked *out, uint32_t first, int p) {
    v128_t scale[SUBS], min[SUBS], c[COLUMNS];
    f->read(group, scale, min);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++) {
        unpack(f, codes_of(f, group, j), c);
        for (int g = 0; g < COLUMNS; g++) out->column[first + j][g][p] = c[g];
        for (uint32_t i = 0; i < f->subs; i++) {
            out->scale[first + j][i][p] = scale[j * f->subs + i];
            if (f->mins) out->min[first + j][i][p] = min[j * f->subs + i];
        }
    }
}

/* Where a tile works: tokens from `t` on against the chunk that begins at block b. */
typedef struct {
    const gw_acts *a;
    size_t blocks, b;
    uint32_t n_blocks;
    float *y;
    size_t ldy;
} place;

/* Products of scale `h` of block j, with `rows` tokens and `panels` panels. f: its subs, mins and table; `offset`. */
INLINE void tile_part(const shape *f, int offset, const unpacked *w, uint32_t j, uint32_t h, const place *at, int t,
                      int rows, int panels) {
    const gw_acts *a = at->a;
    size_t block = t * at->blocks + at->b + j;
    const int8_t *q = a->q8 + t * a->k + (at->b + j) * GW_BLOCK;
    uint32_t each = COLUMNS / f->subs;
    v128_t dot[TILE][PAIR], sum[TILE][2];
    for (int i = 0; i < rows; i++) {
        sums_of(f, a->sum8 + block + i * at->blocks, a->half8 + block + i * at->blocks, sum[i]);
        for (int p = 0; p < panels; p++) dot[i][p] = wasm_i32x4_mul(sum[i][h], wasm_i32x4_splat(-offset));
    }
    KEEP_LOOP
    for (uint32_t g = h * each; g < (h + 1) * each; g++)
        for (int i = 0; i < rows; i++) {
            v128_t x = SPLAT(q + i * a->k + 4 * g);
            for (int p = 0; p < panels; p++) dot[i][p] = dot_column(f, x, w->column[j][g][p], dot[i][p]);
        }
    for (int i = 0; i < rows; i++)   /* totals stay in memory: the registers belong to the sums */
        for (int p = 0; p < panels; p++) {
            float *y = at->y + (t + i) * at->ldy + p * GW_PANEL;
            v128_t by = SPLAT(a->s8 + block + i * at->blocks);
            v128_t total = add_scaled(wasm_v128_load(y), dot[i][p], w->scale[j][h][p], by);
            if (f->mins) total = add_min(total, w->min[j][h][p], sum[i][h], by);
            wasm_v128_store(y, total);
        }
}

INLINE void tile(const shape *f, int offset, const unpacked *w, const place *at, int t, int rows, int panels) {
    if (at->b == 0)
        for (int i = 0; i < rows; i++)
            for (int p = 0; p < panels; p++)
                wasm_v128_store(at->y + (t + i) * at->ldy + p * GW_PANEL, wasm_f32x4_splat(0));
    KEEP_LOOP
    for (uint32_t j = 0; j < at->n_blocks; j++)
        for (uint32_t h = 0; h < f->subs; h++) tile_part(f, offset, w, j, h, at, t, rows, panels);
}

/* All tokens against one chunk; shared by all types of the same subs, mins and table. */
#define TILES(name, subs_, mins_, table_)                                                                     \
    OUTLINE void name(const unpacked *w, const place *where, int panels, int offset) {                           \
        static const shape f = { .subs = subs_, .mins = mins_, .table = table_ };                                \
        const gw_acts a = *where->a;   /* copies: what is stored cannot change them */                           \
        place own = *where, *at = &own;                                                                          \
        own.a = &a;                                                                                              \
        int t = 0;                                                                                               \
        for (; panels == PAIR && t + TILE <= a.n; t += TILE) tile(&f, offset, w, at, t, TILE, PAIR);             \
        for (; panels == PAIR && t < a.n; t++) tile(&f, offset, w, at, t, 1, PAIR);                              \
        for (; t < a.n; t++) tile(&f, offset, w, at, t, 1, 1);                                                   \
    }
TILES(tiles_1, 1, false, false)
TILES(tiles_1_mins, 1, true, false)
TILES(tiles_1_table, 1, false, true)
TILES(tiles_2, 2, false, false)
TILES(tiles_2_mins, 2, true, false)

INLINE void panel_rows(const shape *f, const uint8_t *w, size_t panel, int panels, const gw_acts *a, float *y,
                       size_t ldy) {
    unpacked u;
    place at = { .a = a, .blocks = a->k / GW_BLOCK, .y = y, .ldy = ldy };
    for (; at.b < at.blocks; at.b += CHUNK) {
        at.n_blocks = (uint32_t)gw_min(CHUNK, at.blocks - at.b);
        for (uint32_t i = 0; i < at.n_blocks; i += f->blocks, w += f->bytes)
            for (int p = 0; p < panels; p++) unpack_group(f, w + p * panel, &u, i, p);
        if (f->table) tiles_1_table(&u, &at, panels, offset_of(f));
        else if (f->subs == 1 && !f->mins) tiles_1(&u, &at, panels, offset_of(f));
        else if (f->subs == 1) tiles_1_mins(&u, &at, panels, offset_of(f));
        else if (!f->mins) tiles_2(&u, &at, panels, offset_of(f));
        else tiles_2_mins(&u, &at, panels, offset_of(f));
    }
}

/* Decodes as many panels as the streams can share out; returns how many. */
INLINE int decode(const shape *f, const uint8_t *w, size_t panel, int panels, const gw_acts *a, float *y) {
    int each = panels / STREAMS;
    for (int i = 0; i < each; i++)
        streams(f, w + i * panel, each * panel, STREAMS, a, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    return each * STREAMS;
}

INLINE void matmul(const shape *f, const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t panel = a->k / GW_BLOCK / f->blocks * f->bytes;
    int p = 0;
    if (a->n == 1 && f->table && takes_8_bits()) {
        shape whole = *f;
        whole.whole = true;
        p = decode(&whole, w, panel, panels, a, y);
    } else if (a->n == 1) {
        p = decode(f, w, panel, panels, a, y);
    }
    for (; p < panels; p += PAIR)
        panel_rows(f, w + p * panel, panel, (int)gw_min(PAIR, panels - p), a, y + p * GW_PANEL, ldy);
}

#define DEFINE(NAME, name, ...)                                                                               \
    void gw_relaxed_matmul_##name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {        \
        matmul(&shape_##name, w, panels, a, y, ldy);                                                             \
    }
GW_FORMATS(DEFINE)

#endif
