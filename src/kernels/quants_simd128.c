/* quants_simd128: multiplies quantised weights by int16 activations (every four in the order 0 2 1 3), without relaxed
 * SIMD. The quants of a block are unpacked to bytes, widened to int16 and multiplied pairwise; quants.h has the code
 * that differs between formats. One row of activations is multiplied by several panels at the same time (floats.c). For
 * several rows, chunks of two panels are widened once (tiles.h). */
#include "kernels/kernels.h"

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)

#include "kernels/tiles.h"

enum { INTERLEAVED = 4, AHEAD = 4 }; /* number of panels read at the same time; number of blocks fetched ahead */

volatile bool gw_simd_no_swizzle;

INLINE v128_t nibble_dot(const uint8_t *quants, const int16_t *q) {
    nibble_sums s = nibble_sums_of(quants, q);
    return wasm_i32x4_add(s.at0, wasm_i32x4_add(wasm_i32x4_shr(s.at4, 4), wasm_i32x4_shr(s.at8, 8)));
}

INLINE v128_t less_offset(const format *f, v128_t dot, v128_t sum) {
    return wasm_i32x4_sub(dot, wasm_i32x4_mul(sum, wasm_i32x4_splat((int)f->offset)));
}

/* Multiplies a block's quants by activations, with a dot product for each of its one or two scales. sum: for each
 * scale, the sum of the activations that it covers. */
INLINE void dots(const format *f, const uint8_t *quants, const int16_t *q, const v128_t *sum, v128_t *dot) {
    if (f->bits == 4) {
        dot[0] = nibble_dot(quants, q);
    } else {
        v128_t c[COLUMNS];
        bit_masks m = masks_of(f);
        unpack(f, quants, c, &m);
        for (uint32_t i = 0; i < f->subs; i++) {
            v128_t even = wasm_i32x4_splat(0), odd = even;
            for (uint32_t g = i * 4; g < (f->subs == 1 ? 8 : i * 4 + 4); g++) {
                even = add_dot(even, even_of(c[g]), SPLAT(q + 4 * g));
                odd = add_dot(odd, odd_of(c[g]), SPLAT(q + 4 * g + 2));
            }
            dot[i] = wasm_i32x4_add(even, odd);
        }
    }
    for (uint32_t i = 0; i < f->subs && f->offset; i++) dot[i] = less_offset(f, dot[i], sum[i]);
}

/* The scale of a block of activations, and for each scale of the weights the sum of the activations that it covers. */
typedef struct {
    v128_t sum[2], scale;
} block_acts;

INLINE v128_t add_block(const format *f, v128_t total, const v128_t *dot, const header *h, uint32_t j,
                        const block_acts *a, const scale_masks *m) {
    uint32_t at = scale_of(f, j);
    v128_t all = dot[0], part = a->sum[0];
    if (f->subs == 2) {
        pairs p = pairs_of(f, h, j, m);
        all = weighed(dot[0], dot[1], p.scale);
        if (f->mins) part = weighed(a->sum[0], a->sum[1], p.min);
    }
    total = add_scaled(total, all, h->scale[at], a->scale);
    return f->mins ? add_min(total, h->min[at], part, a->scale) : total;
}

INLINE block_acts acts_at(const format *f, const acts *a, size_t at) {
    block_acts b;
    b.scale = SPLAT(a->scale + at);
    sums_of(f->subs, a->sum + at, a->half + at, b.sum);
    return b;
}

/* Multiplies one block of nibbles of n panels, `stride` bytes apart, by int8 activations. A byte m + 16 n, of nibbles
 * for activations x and y, is multiplied whole by y, and its low nibble by 16 x - y: 16 (m x + n y) = (m + 16 n) y + m
 * (16 x - y). So each panel needs only one sum. */
INLINE void nibble_dots(const uint8_t *quants, size_t stride, int n, const int16_t *q, v128_t *dot) {
    v128_t low = wasm_i16x8_splat(15), byte = wasm_i16x8_splat(255);
    int16_t rest[GW_BLOCK / 2];
    for (int i = 0; i < GW_BLOCK / 2; i += 8) {
        v128_t x = wasm_v128_load(q + i), y = wasm_v128_load(q + GW_BLOCK / 2 + i);
        wasm_v128_store(rest + i, wasm_i16x8_sub(wasm_i16x8_shl(x, 4), y));
    }
    for (int s = 0; s < n; s++) dot[s] = wasm_i32x4_splat(0);
    KEEP_LOOP
    for (int g = 0; g < GW_BLOCK / 2; g += 4, quants += 16, q += 4) {
        v128_t a = SPLAT(rest + g), b = SPLAT(rest + g + 2), c = SPLAT(q + 16), d = SPLAT(q + 18);
        UNROLL
        for (int s = 0; s < n; s++) {
            v128_t v = wasm_v128_load(quants + s * stride), odd = RIGHT(v, 8);
            dot[s] = add_dot(dot[s], AND(v, low), a);
            dot[s] = add_dot(dot[s], AND(v, byte), c);
            dot[s] = add_dot(dot[s], AND(odd, low), b);
            dot[s] = add_dot(dot[s], odd, d);
        }
    }
    for (int s = 0; s < n; s++) dot[s] = wasm_i32x4_shr(dot[s], 4);
}

/* Loads a byte early. Loops over the columns of several panels load too little at a time to hide the latency of memory:
 * without this, a quarter of the speed is lost. */
INLINE void touch(const uint8_t *p) { (void)*(const volatile uint8_t *)p; }

/* Multiplies several panels, which are read at the same time, by a single row of activations. together: each load of
 * activations serves all panels. */
INLINE void interleaved(const format *f, bool together, const walk *to, const acts *a) {
    const walk own = *to, *s = &own;
    const uint8_t *w = s->w;
    v128_t total[INTERLEAVED];
    header first[INTERLEAVED];
    const scale_masks m = scale_masks_of();
    table_masks t = { 0 };
    if (f->table) t = table_masks_of();
    for (int i = 0; i < s->n; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        UNROLL
        for (int i = 0; i < s->n; i++) read_header(f, w + i * s->stride, first + i, &m);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++) {
            const int16_t *q = a->q + (b + j) * GW_BLOCK;
            block_acts x = acts_at(f, a, b + j);
            if (together) {
                v128_t all[INTERLEAVED];
                UNROLL
                for (int i = 0; i < s->n && b + j + 2 * AHEAD < a->blocks; i++)
                    touch(quants_of(f, w, j + AHEAD) + i * s->stride);
                if (f->table) table_dots(quants_of(f, w, j), s->stride, s->n, q, a->sum[b + j], all, &t);
                else nibble_dots(quants_of(f, w, j), s->stride, s->n, q, all);
                UNROLL
                for (int i = 0; i < s->n && f->offset; i++) all[i] = less_offset(f, all[i], x.sum[0]);
                UNROLL
                for (int i = 0; i < s->n; i++) total[i] = add_block(f, total[i], &all[i], first + i, j, &x, &m);
                continue;
            }
            /* Without unrolling, each load is from another panel, which defeats the prefetchers: 3 times slower. */
            UNROLL
            for (int i = 0; i < s->n; i++) {
                v128_t dot[2];
                dots(f, quants_of(f, w + i * s->stride, j), q, x.sum, dot);
                total[i] = add_block(f, total[i], dot, first + i, j, &x, &m);
            }
        }
    }
    for (int i = 0; i < s->n; i++) wasm_v128_store(s->y + i * s->step, total[i]);
}

/* Multiplies two rows of activations by a panel of nibbles, which are masked once for both: cheaper than widening
 * them. */
INLINE void two_rows(const format *f, const uint8_t *panel, const acts *a, float *y, size_t ldy) {
    v128_t total[2] = { wasm_f32x4_splat(0), wasm_f32x4_splat(0) };
    header first;
    const scale_masks m = scale_masks_of();
    for (size_t b = 0; b < a->blocks; b += f->blocks, panel += f->bytes) {
        read_header(f, panel, &first, &m);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++) {
            UNROLL
            for (size_t i = 0, at = (b + j) * a->stride; i < 2; i++, at++) {
                v128_t dot[2];
                block_acts x = acts_at(f, a, at);
                dots(f, quants_of(f, panel, j), a->q + at * GW_BLOCK, x.sum, dot);
                total[i] = add_block(f, total[i], dot, &first, j, &x, &m);
            }
        }
    }
    for (int i = 0; i < 2; i++) wasm_v128_store(y + i * ldy, total[i]);
}

/* Looks up the values of IQ4 quants, without i8x16.swizzle on JavaScript engines that compile this instruction
 * wrongly. */
OUTLINE v128_t values_of(v128_t quants) {
    uint8_t c[16];
    if (!gw_simd_no_swizzle) return wasm_i8x16_swizzle(wasm_v128_load(table_values), quants);
    wasm_v128_store(c, quants);
    for (int i = 0; i < 16; i++) c[i] = table_values[c[i] & 15];
    return wasm_v128_load(c);
}

INLINE void open_group(const format *f, const strip *s, const uint8_t *group, open_block *out, int p) {
    v128_t c[COLUMNS];
    bit_masks m = masks_of(f);
    header h;
    const scale_masks k = scale_masks_of();
    (void)s;
    read_header(f, group, &h, &k);
    KEEP_LOOP
    for (uint32_t j = 0; j < f->blocks; j++, out++) {
        unpack(f, quants_of(f, group, j), c, &m);
        for (int g = 0; g < COLUMNS; g++) {
            if (f->table) c[g] = values_of(c[g]);
            widen_quants(c[g], f->table ? TABLE_OFFSET : (int)f->offset, out->column + 2 * g, p);
        }
        open_scales(f, &h, j, &k, &out->scales, p);
    }
}

INLINE void tile_part(const kind *k, const strip *s, const open_block *w, uint32_t h, const tile_rows *r, sums dot) {
    part_16(k, w->column, h, s->a->q + r->at * GW_BLOCK, dot);
}

TILES(tiles, all_tiles, .rows = TILE)

INLINE void rows(const format *f, const job *j, int first) {
    for (int p = first; p < j->panels; p += PAIR) {
        job two = panels_from(j, p, (int)gw_min(PAIR, j->panels - p));
        strip s = { 0 };
        strip_rows(f, &two, &s, j->a->blocks, j->a->n, tiles[f->subs - 1][f->mins]);
    }
}

INLINE void matmul(const format *f, const job *j) {
    bool side_by_side = j->a->n == 1 && !(f->table && gw_simd_no_swizzle);
    int each = side_by_side ? j->panels / INTERLEAVED : 0;
    for (int i = 0; i < each; i++) {
        const walk to = walk_of(j, i, each, INTERLEAVED);
        if (f->table || (f->bits == 4 && j->a->planes == 1)) interleaved(f, true, &to, j->a);
        else interleaved(f, false, &to, j->a);
    }
    bool two = j->a->n == 2 && f->bits == 4 && !f->table;
    for (int p = 0; p < j->panels && two; p++) two_rows(f, j->w + p * j->panel, j->a, j->y + p * GW_PANEL, j->ldy);
    if (!two) rows(f, j, each * INTERLEAVED);
}

/* int8 and int15 activations share one function, so that the module contains the loops of each format once. */
#define PRECISION(name, suffix, bits)                                                                          \
    void gw_simd_matmul_##name##suffix(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) { \
        acts x = ACTS(a, bits);                                                                                \
        matmul_##name(w, panels, &x, y, ldy);                                                                  \
    }
#define DEFINE(NAME, name, ...)                                                                     \
    OUTLINE void matmul_##name(const uint8_t *w, int panels, const acts *a, float *y, size_t ldy) { \
        const job j = job_of(&format_##name, w, panels, a, y, ldy);                                 \
        matmul(&format_##name, &j);                                                                 \
    }                                                                                               \
    PRECISION(name, , 8) PRECISION(name, _int15, 16)
GW_FORMATS(DEFINE)
DEFINE(Q4_0, q4, )

/* Multiplies a block of Q8_0, whose signed bytes need no unpacking, by int15 activations. */
INLINE v128_t q8_block(const uint8_t *block, const int16_t *q) {
    v128_t even = wasm_i32x4_splat(0), odd = even;
    for (int g = 0; g < 8; g++) {
        v128_t v = wasm_v128_load(block + 8 + 16 * g);
        even = add_dot(even, wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8), SPLAT(q + 4 * g));
        odd = add_dot(odd, wasm_i16x8_shr(v, 8), SPLAT(q + 4 * g + 2));
    }
    return wasm_i32x4_add(even, odd);
}

INLINE void q8_interleaved(const walk *s, const gw_acts *a) {
    v128_t total[INTERLEAVED];
    for (int i = 0; i < s->n; i++) total[i] = wasm_f32x4_splat(0);
    for (size_t b = 0; b < a->k / GW_BLOCK; b++) {
        UNROLL
        for (int i = 0; i < s->n; i++) {
            const uint8_t *block = s->w + i * s->stride + b * GW_Q8_BYTES;
            total[i] = add_scaled(total[i], q8_block(block, a->q16 + b * GW_BLOCK), f16x4(block), SPLAT(a->s16 + b));
        }
    }
    for (int i = 0; i < s->n; i++) wasm_v128_store(s->y + i * s->step, total[i]);
}

OUTLINE void q8_rows(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    acts x = ACTS(a, 16);
    const job j = job_of(&format_q8, w, panels, &x, y, ldy);
    rows(&format_q8, &j, 0);
}

void gw_simd_matmul_q8_int15(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    const job j = { w, a->k / GW_BLOCK * GW_Q8_BYTES, panels, NULL, y, ldy };
    int each = panels / INTERLEAVED, p = each * INTERLEAVED;
    if (a->n > 1) {
        q8_rows(w, panels, a, y, ldy);
        return;
    }
    for (int i = 0; i < each; i++) {
        const walk to = walk_of(&j, i, each, INTERLEAVED);
        q8_interleaved(&to, a);
    }
    for (; p < panels; p++) {
        const walk to = walk_of(&j, p, 0, 1);
        q8_interleaved(&to, a);
    }
}

#endif
