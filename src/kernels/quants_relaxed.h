/* quants_relaxed.h: what products of quantised weights by the relaxed dot product share, of one row of activations
 * (quants_relaxed.c) and of several (tiles_relaxed.c).
 *
 * The second operand of that product is only defined for 7 bits. Codes (0..63) are well inside. Bytes of Q8_0 and
 * values of IQ4 are not. What an engine does with 8 bits is asked (takes): none, or as if without a sign (x86:
 * vpdpbusd), or with one (ARM: sdot; x86: vpdpbssd). Sums are exact, so they are the same. */
#ifndef GW_QUANTS_RELAXED_H
#define GW_QUANTS_RELAXED_H

#include "kernels/quants.h"
#include "kernels/relaxed.h"
#include "kernels/tiles.h"

enum { HALF = COLUMNS / 2 };

typedef struct {   /* a batch's activations of one precision, see gw_acts */
    const int8_t *q;                  /* [blocks][stride][planes][32] */
    const float *scale;
    const int32_t *sum, *half;
    size_t blocks, stride;
    int n, streams;
    const int16_t *joined;            /* for gw_relaxed_rows_16; else NULL, and from: 0 */
    size_t from;
} acts;

INLINE acts narrow_of(const gw_acts *a) {
    return (acts){ .q = a->q8, .scale = a->s8, .sum = a->sum8, .half = a->half8, .blocks = a->k / GW_BLOCK,
                   .stride = a->stride, .n = a->n, .streams = a->streams };
}

INLINE acts wide_of(const gw_acts *a) {
    return (acts){ .q = (const int8_t *)a->q16, .scale = a->s16, .sum = a->sum16, .half = a->half16,
                   .blocks = a->k / GW_BLOCK, .stride = a->stride, .n = a->n, .streams = a->streams };
}

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

INLINE v128_t joined(v128_t high, v128_t low) { return wasm_i32x4_add(wasm_i32x4_shl(high, 7), low); }

/* A block's activations as int16, in the order 0 2 1 3. */
INLINE void join(int planes, const int8_t *q, int16_t *out) {
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

/* --- several rows of activations --- */

enum { FEW = 8 };   /* rows that are too few for tiles */

/* How many of n rows tiles take. */
INLINE int gw_in_tiles(int n, bool wide) { return n < FEW ? 0 : n - n % (wide ? TILE / 2 : TILE); }

/* y[t][0..4 * panels) = at most PAIR panels * row t, for t < n: whole tiles. */
typedef void gw_rows_kernel(bits_taken how, bool wide, const uint8_t *w, int panels, const acts *a, int n, float *y,
                            size_t ldy);

/* The same by products of 16 bits, all panels, `panel` bytes apart; n: whole tiles of TILE rows. Activations are joined
 * to int16, JOINED blocks of JOINED_ROWS rows at a time; with these `several` makes two panels' part of the products:
 * joined: blocks from number `from` on, [rows / TILE][JOINED][TILE][32], in the order 0 2 1 3. */
void gw_relaxed_rows_16(gw_rows_kernel *several, int planes, const uint8_t *w, size_t panel, int panels, const acts *a,
                        int n, float *y, size_t ldy);
enum { JOINED = 16, JOINED_ROWS = 64 };

#define GW_ROWS_X(NAME, name, ...) gw_rows_kernel gw_relaxed_rows_##name;
GW_FORMATS(GW_ROWS_X)
GW_ROWS_X(Q4_0, q4, )
GW_ROWS_X(Q8_0, q8, )
#undef GW_ROWS_X

#endif
