/* codes_simd128: products of the types in formats.h with int16 activations (order 0 2 1 3),
 * with 128-bit vectors of fixed semantics. One shape for all but IQ4 with one row: a block's codes as bytes, widened
 * to int16 and multiplied pairwise; see codes.h for what a type adds. As in q8_simd128.c one row of
 * activations walks several panels at once, and several rows share a chunk of a panel that was widened once. */
#include "kernels/kernels.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)

#include "kernels/codes.h"
#include "kernels/codes_simd128.h"

enum { STREAMS = 4, TILE = 4, CHUNK = 32 };   /* panels walked at once; rows of a tile; blocks widened at once */

volatile bool gw_simd_no_swizzle;

typedef struct {   /* a batch's activations of one precision */
    const int16_t *q;
    const float *scale;
    const int32_t *sum, *half;
    size_t blocks, stride;
    int n;
} acts;

/* --- one row of activations --- */

INLINE v128_t nibble_dot(const uint8_t *codes, const int16_t *q) {
    nibble_sums s = nibble_sums_of(codes, q);
    return wasm_i32x4_add(s.at0, wasm_i32x4_add(wasm_i32x4_shr(s.at4, 4), wasm_i32x4_shr(s.at8, 8)));
}

INLINE v128_t even_of(v128_t c) { return wasm_v128_and(c, wasm_i16x8_splat(255)); }
INLINE v128_t odd_of(v128_t c) { return wasm_u16x8_shr(c, 8); }

/* Sums of products of a block, one for each of its scales; codes count from the offset. No tables. */
INLINE void dots(const shape *f, const uint8_t *codes, const int16_t *q, const v128_t *sum, v128_t *dot) {
    if (f->bits == 4) {
        dot[0] = nibble_dot(codes, q);
    } else {
        v128_t c[COLUMNS];
        bit_masks m = masks_of(f);
        unpack(f, codes, c, &m);
        for (uint32_t i = 0; i < f->subs; i++) {
            v128_t even = wasm_i32x4_splat(0), odd = even;
            for (uint32_t g = i * 4; g < (f->subs == 1 ? 8 : i * 4 + 4); g++) {
                even = wasm_i32x4_add(even, DOT(even_of(c[g]), SPLAT(q + 4 * g)));
                odd = wasm_i32x4_add(odd, DOT(odd_of(c[g]), SPLAT(q + 4 * g + 2)));
            }
            dot[i] = wasm_i32x4_add(even, odd);
        }
    }
    for (uint32_t i = 0; i < f->subs && f->offset; i++)
        dot[i] = wasm_i32x4_sub(dot[i], wasm_i32x4_mul(sum[i], wasm_i32x4_splat((int)f->offset)));
}

/* One block into the total. */
INLINE v128_t add_block(const shape *f, v128_t total, const v128_t *dot, const fronts *h, uint32_t j,
                        const v128_t *sum, v128_t by, const scale_masks *k) {
    uint32_t at = f->subs == 2 || f->blocks == 1 ? 0 : j;
    v128_t all = dot[0], part = sum[0];
    if (f->subs == 2) {
        pairs p = pairs_of(f, h, j, k);
        all = weighed(dot[0], dot[1], p.scale);
        if (f->mins) part = weighed(sum[0], sum[1], p.min);
    }
    total = add_scaled(total, all, h->scale[at], by);
    return f->mins ? add_min(total, h->min[at], part, by) : total;
}

/* y[s * step] of panels w + s * stride, s < n */
INLINE void streams(const shape *f, const uint8_t *w, size_t stride, int n, const acts *a, float *y, size_t step) {
    v128_t total[STREAMS];
    fronts first[STREAMS];
    const scale_masks k = scale_masks_of();
    table_masks t = { 0 };
    if (f->table) t = table_masks_of();
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        UNROLL
        for (int s = 0; s < n; s++) read_front(f, w + s * stride, first + s, &k);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++) {
            v128_t sum[2], dot[2], by = SPLAT(a->scale + b + j);
            sums_of(f, a->sum + b + j, a->half + b + j, sum);
            if (f->table) {
                v128_t all[STREAMS];
                table_dots(codes_of(f, w, j), stride, n, a->q + (b + j) * GW_BLOCK, a->sum[b + j], all, &t);
                UNROLL
                for (int s = 0; s < n; s++) total[s] = add_block(f, total[s], &all[s], first + s, j, sum, by, &k);
                continue;
            }
            UNROLL   /* in a loop each load would jump between streams: prefetchers give up, and two thirds are lost */
            for (int s = 0; s < n; s++) {
                dots(f, codes_of(f, w + s * stride, j), a->q + (b + j) * GW_BLOCK, sum, dot);
                total[s] = add_block(f, total[s], dot, first + s, j, sum, by, &k);
            }
        }
    }
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* --- several rows --- */

/* A chunk of one panel: 16 vectors of int16 for each block; vector 2 g holds columns (4 g, 4 g + 2) of the
 * four rows side by side, vector 2 g + 1 columns (4 g + 1, 4 g + 3). */
typedef struct {
    v128_t column[CHUNK][2 * COLUMNS], scale[CHUNK], min[CHUNK], small[CHUNK][2], small_min[CHUNK][2];
} widened;

/* Values of codes; without i8x16.swizzle where an engine has it wrong. */
OUTLINE v128_t values_of(v128_t codes) {
    uint8_t c[16];
    if (!gw_simd_no_swizzle) return wasm_i8x16_swizzle(wasm_v128_load(table_values), codes);
    wasm_v128_store(c, codes);
    for (int i = 0; i < 16; i++) c[i] = table_values[c[i] & 15];
    return wasm_v128_load(c);
}

INLINE void widen(const shape *f, const uint8_t *group, widened *out, uint32_t first) {
    v128_t c[COLUMNS], offset = wasm_i16x8_splat((int16_t)(f->table ? TABLE_OFFSET : f->offset));
    bit_masks m = masks_of(f);
    fronts h;
    const scale_masks k = scale_masks_of();
    read_front(f, group, &h, &k);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++) {
        uint32_t b = first + j, at = f->subs == 2 || f->blocks == 1 ? 0 : j;
        unpack(f, codes_of(f, group, j), c, &m);
        for (int g = 0; g < COLUMNS; g++) {
            if (f->table) c[g] = values_of(c[g]);
            out->column[b][2 * g] = wasm_i16x8_sub(even_of(c[g]), offset);
            out->column[b][2 * g + 1] = wasm_i16x8_sub(odd_of(c[g]), offset);
        }
        out->scale[b] = h.scale[at];
        if (f->mins) out->min[b] = h.min[at];
        if (f->subs == 1) continue;
        pairs small = pairs_of(f, &h, j, &k);
        out->small[b][0] = first_of(small.scale);
        out->small[b][1] = second_of(small.scale);
        if (!f->mins) continue;
        out->small_min[b][0] = first_of(small.min);
        out->small_min[b][1] = second_of(small.min);
    }
}

/* Products of part `h` of block j, which has a scale, with tokens whose activations begin at q. */
INLINE void tile_part(const shape *f, const widened *w, uint32_t j, uint32_t h, const int16_t *q, int rows,
                      v128_t *dot) {
    uint32_t each = 2 * COLUMNS / f->subs;
    for (int i = 0; i < rows; i++) dot[i] = wasm_i32x4_splat(0);
    KEEP_LOOP
    for (uint32_t c = h * each; c < (h + 1) * each; c++)
        for (int i = 0; i < rows; i++)
            dot[i] = wasm_i32x4_add(dot[i], DOT(w->column[j][c], SPLAT(q + i * GW_BLOCK + 2 * c)));
    for (int i = 0; i < rows && f->subs == 2; i++) dot[i] = wasm_i32x4_mul(dot[i], w->small[j][h]);
}

/* y[t] of `rows` tokens from t on; b: first block of the chunk. f: only its subs and mins are used. */
INLINE void tile(const shape *f, const widened *w, uint32_t n_blocks, const acts *a, size_t b, int t, int rows,
                 float *y, size_t ldy) {
    v128_t total[TILE];
    size_t at = b * a->stride + t;
    y += t * ldy;
    for (int i = 0; i < rows; i++) total[i] = b ? wasm_v128_load(y + i * ldy) : wasm_f32x4_splat(0);
    for (uint32_t j = 0; j < n_blocks; j++, at += a->stride) {
        v128_t dot[2][TILE], sum[2];
        for (uint32_t h = 0; h < f->subs; h++) tile_part(f, w, j, h, a->q + at * GW_BLOCK, rows, dot[h]);
        for (int i = 0; i < rows; i++) {
            v128_t by = SPLAT(a->scale + at + i), all = f->subs == 2 ? wasm_i32x4_add(dot[0][i], dot[1][i]) : dot[0][i];
            total[i] = add_scaled(total[i], all, w->scale[j], by);
            if (!f->mins) continue;
            sums_of(f, a->sum + at + i, a->half + at + i, sum);
            v128_t part = sum[0];
            if (f->subs == 2)
                part = wasm_i32x4_add(wasm_i32x4_mul(sum[0], w->small_min[j][0]),
                                      wasm_i32x4_mul(sum[1], w->small_min[j][1]));
            total[i] = add_min(total[i], w->min[j], part, by);
        }
    }
    for (int i = 0; i < rows; i++) wasm_v128_store(y + i * ldy, total[i]);
}

/* All tokens against one chunk, the last ones by a tile of their own; shared by all types of the same subs and mins. */
#define TILES(name, subs_, mins_)                                                                             \
    OUTLINE void name(const widened *w, uint32_t n_blocks, const acts *given, size_t b, float *y, size_t ldy) {  \
        static const shape f = { .subs = subs_, .mins = mins_ };                                                 \
        const acts own = *given, *a = &own;   /* a copy: what is stored cannot change it */                      \
        int t = 0;                                                                                               \
        for (; t + TILE <= a->n; t += TILE) tile(&f, w, n_blocks, a, b, t, TILE, y, ldy);                        \
        if (a->n - t == 3) tile(&f, w, n_blocks, a, b, t, 3, y, ldy);                                            \
        else if (a->n - t == 2) tile(&f, w, n_blocks, a, b, t, 2, y, ldy);                                       \
        else if (a->n - t == 1) tile(&f, w, n_blocks, a, b, t, 1, y, ldy);                                       \
    }
TILES(tiles_1, 1, false)
TILES(tiles_1_mins, 1, true)
TILES(tiles_2, 2, false)
TILES(tiles_2_mins, 2, true)

INLINE void panel_rows(const shape *f, const uint8_t *panel, const acts *a, float *y, size_t ldy) {
    widened w;
    for (size_t b = 0; b < a->blocks; b += CHUNK) {
        uint32_t n_blocks = (uint32_t)gw_min(CHUNK, a->blocks - b);
        for (uint32_t i = 0; i < n_blocks; i += f->blocks, panel += f->bytes) widen(f, panel, &w, i);
        if (f->subs == 1 && !f->mins) tiles_1(&w, n_blocks, a, b, y, ldy);
        else if (f->subs == 1) tiles_1_mins(&w, n_blocks, a, b, y, ldy);
        else if (!f->mins) tiles_2(&w, n_blocks, a, b, y, ldy);
        else tiles_2_mins(&w, n_blocks, a, b, y, ldy);
    }
}

/* Two rows by a panel of nibbles, which are masked for both at once: less than widening them takes. */
INLINE void two_rows(const shape *f, const uint8_t *panel, const acts *a, float *y, size_t ldy) {
    v128_t total[2] = { wasm_f32x4_splat(0), wasm_f32x4_splat(0) };
    fronts first;
    const scale_masks k = scale_masks_of();
    for (size_t b = 0; b < a->blocks; b += f->blocks, panel += f->bytes) {
        read_front(f, panel, &first, &k);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++)
            UNROLL
            for (size_t i = 0, at = (b + j) * a->stride; i < 2; i++, at++) {
                v128_t sum[2], dot[2];
                sums_of(f, a->sum + at, a->half + at, sum);
                dots(f, codes_of(f, panel, j), a->q + at * GW_BLOCK, sum, dot);
                total[i] = add_block(f, total[i], dot, &first, j, sum, SPLAT(a->scale + at), &k);
            }
    }
    for (int i = 0; i < 2; i++) wasm_v128_store(y + i * ldy, total[i]);
}

INLINE void matmul(const shape *f, const uint8_t *w, int panels, const acts *a, float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    bool side_by_side = a->n == 1 && !(f->table && gw_simd_no_swizzle);
    int each = side_by_side ? panels / STREAMS : 0;
    for (int i = 0; i < each; i++)
        streams(f, w + i * panel, each * panel, STREAMS, a, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    bool two = a->n == 2 && f->bits == 4 && !f->table;
    for (int p = 0; p < panels && two; p++) two_rows(f, w + p * panel, a, y + p * GW_PANEL, ldy);
    if (two) return;
    for (int p = each * STREAMS; p < panels; p++) panel_rows(f, w + p * panel, a, y + p * GW_PANEL, ldy);
}

INLINE acts wide_of(const gw_acts *a) {
    return (acts){ a->q16, a->s16, a->sum16, a->half16, a->k / GW_BLOCK, a->stride, a->n };
}

INLINE acts narrow_of(const gw_acts *a) {
    return (acts){ a->q8, a->s8, a->sum8, a->half8, a->k / GW_BLOCK, a->stride, a->n };
}

/* One product for both precisions, so that each type's loops are in a module once. */
#define DEFINE(NAME, name, ...)                                                                                \
    OUTLINE void matmul_##name(const uint8_t *w, int panels, const acts *a, float *y, size_t ldy) {              \
        matmul(&shape_##name, w, panels, a, y, ldy);                                                             \
    }                                                                                                            \
    void gw_simd_matmul_##name##_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {    \
        acts x = wide_of(a);                                                                                     \
        matmul_##name(w, panels, &x, y, ldy);                                                                    \
    }

#define DEFINE_NARROW(NAME, name, ...)                                                                         \
    void gw_simd_matmul_##name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {           \
        acts x = narrow_of(a);                                                                                   \
        matmul_##name(w, panels, &x, y, ldy);                                                                    \
    }

GW_FORMATS(DEFINE)
DEFINE(Q4_0, q4, )
GW_FORMATS(DEFINE_NARROW)
DEFINE_NARROW(Q4_0, q4, )

#endif
