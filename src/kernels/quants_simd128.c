/* quants_simd128: products of the types in formats.h with int16 activations (order 0 2 1 3),
 * with 128-bit vectors of fixed semantics. One shape for all but IQ4 with one row: a block's codes as bytes, widened
 * to int16 and multiplied pairwise; see quants.h for what a type adds. As in q8_simd128.c one row of
 * activations walks several panels at once, and several rows share a chunk of a panel that was widened once. */
#include "kernels/kernels.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)

#include "kernels/quants.h"
#include "kernels/codes_simd128.h"
#include "kernels/tiles.h"

enum { STREAMS = 4, CHUNK = 32 };   /* panels walked at once; blocks widened at once */

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

/* A chunk of PAIR panels. */
typedef struct { wide_block column[CHUNK]; block_scales scales[CHUNK]; } widened;

/* Values of codes; without i8x16.swizzle where an engine has it wrong. */
OUTLINE v128_t values_of(v128_t codes) {
    uint8_t c[16];
    if (!gw_simd_no_swizzle) return wasm_i8x16_swizzle(wasm_v128_load(table_values), codes);
    wasm_v128_store(c, codes);
    for (int i = 0; i < 16; i++) c[i] = table_values[c[i] & 15];
    return wasm_v128_load(c);
}

/* A group of panel p, to block `first` … of the chunk. */
INLINE void widen(const shape *f, const uint8_t *group, widened *out, uint32_t first, int p) {
    v128_t c[COLUMNS];
    bit_masks m = masks_of(f);
    fronts h;
    const scale_masks k = scale_masks_of();
    read_front(f, group, &h, &k);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++) {
        const uint8_t *codes = codes_of(f, group, j);
        if (f->bits < 8) unpack(f, codes, c, &m);
        for (int g = 0; g < COLUMNS; g++) {
            if (f->bits == 8) c[g] = wasm_v128_xor(LOAD(codes, g), wasm_i8x16_splat(-128));
            if (f->table) c[g] = values_of(c[g]);
            widen_codes(c[g], f->table ? TABLE_OFFSET : (int)f->offset, out->column[first + j] + 2 * g, p);
        }
        open_scales(f, &h, j, &k, out->scales + first + j, p);
    }
}

/* Where tiles work: against the chunk that begins at block b. next: from a panel's results to the other's, 0 where one
 * panel is a pair with itself. */
typedef struct {
    const acts *a;
    size_t b;
    uint32_t n_blocks;
    float *y;
    size_t ldy, next;
} place;

/* Rows t … against a chunk. f: only its subs and mins are used. */
INLINE void tile(const shape *f, const place *where, const widened *w, int t, int rows) {
    const acts *a = where->a;
    float *y = where->y + t * where->ldy;
    size_t at = where->b * a->stride + t;
    sums total;
    EACH_SUM(rows, i, p)
        total[i][p] = where->b ? wasm_v128_load(y + i * where->ldy + p * where->next) : wasm_f32x4_splat(0);
    KEEP_LOOP
    for (uint32_t j = 0; j < where->n_blocks; j++, at += a->stride) {
        sums dot[2];
        v128_t sum[TILE][2];
        for (uint32_t h = 0; h < f->subs; h++) {
            part_16(f, rows, w->column[j], h, a->q + at * GW_BLOCK, dot[h]);
            if (f->subs == 2) weigh_part(rows, w->scales[j].small[h], dot[h]);
        }
        for (int i = 0; i < rows; i++) sums_of(f, a->sum + at + i, a->half + at + i, sum[i]);
        add_sums(f, rows, w->scales + j, dot, sum, a->scale + at, total);
    }
    EACH_SUM(rows, i, p) wasm_v128_store(y + i * where->ldy + p * where->next, total[i][p]);
}

/* All rows against one chunk, the last ones by a tile of their own; shared by all types of the same subs and mins. */
#define TILES(name, subs_, mins_)                                                       \
    OUTLINE void name(const place *given, const widened *w) {                           \
        static const shape f = { .subs = subs_, .mins = mins_ };                        \
        const acts a = *given->a;   /* copies: what is stored cannot change them */     \
        place own = *given;                                                             \
        own.a = &a;                                                                     \
        int t = 0;                                                                      \
        for (; t + TILE <= a.n; t += TILE) tile(&f, &own, w, t, TILE);                  \
        if (a.n - t == 3) tile(&f, &own, w, t, 3);                                      \
        else if (a.n - t == 2) tile(&f, &own, w, t, 2);                                 \
        else if (a.n - t == 1) tile(&f, &own, w, t, 1);                                 \
    }
TILES(tiles_1, 1, false)
TILES(tiles_1_mins, 1, true)
TILES(tiles_2, 2, false)
TILES(tiles_2_mins, 2, true)

/* All rows by PAIR panels, `panel` bytes apart: 0 where there is one, then `next` is 0 too. */
INLINE void panel_rows(const shape *f, const uint8_t *w, size_t panel, const acts *a, float *y, size_t ldy,
                       size_t next) {
    widened u;
    place where = { .a = a, .y = y, .ldy = ldy, .next = next };
    for (; where.b < a->blocks; where.b += CHUNK) {
        where.n_blocks = (uint32_t)gw_min(CHUNK, a->blocks - where.b);
        for (uint32_t i = 0; i < where.n_blocks; i += f->blocks, w += f->bytes)
            KEEP_LOOP
            for (int p = 0; p < PAIR; p++) widen(f, w + p * panel, &u, i, p);
        if (f->subs == 1 && !f->mins) tiles_1(&where, &u);
        else if (f->subs == 1) tiles_1_mins(&where, &u);
        else if (!f->mins) tiles_2(&where, &u);
        else tiles_2_mins(&where, &u);
    }
}

/* Panels from `first` on. */
INLINE void all_panels(const shape *f, const uint8_t *w, int panels, int first, const acts *a, float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    for (int p = first; p < panels; p += PAIR) {
        bool both = p + 1 < panels;
        panel_rows(f, w + p * panel, both ? panel : 0, a, y + p * GW_PANEL, ldy, both ? GW_PANEL : 0);
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
    all_panels(f, w, panels, each * STREAMS, a, y, ldy);
}

INLINE acts wide_of(const gw_acts *a) {
    return (acts){ a->q16, a->s16, a->sum16, a->half16, a->k / GW_BLOCK, a->stride, a->n };
}

void gw_simd_rows_q8(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    acts x = wide_of(a);
    all_panels(&shape_q8, w, panels, 0, &x, y, ldy);
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
