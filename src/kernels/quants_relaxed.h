/* quants_relaxed: code for multiplying quantised weights with the relaxed dot product, for one row of activations
 * (quants_relaxed.c, q4_relaxed.c) and for several rows (few_relaxed.c, tiles_relaxed.c). The result of this
 * instruction is only defined if the bytes of the second operand are below 128. Quants of up to 6 bits fit. Bytes of
 * Q8_0 and values of IQ4 do not, so kernels probe how the JavaScript engine treats 8 bits (takes() in relaxed.h). Sums
 * are exact, so all ways to multiply give the same results. */
#ifndef GW_QUANTS_RELAXED_H
#define GW_QUANTS_RELAXED_H

#include "kernels/quants.h"

typedef struct {
    bit_masks bits;
    scale_masks scales;
    table_masks table;
} constants;

INLINE constants constants_of(const format *f, bool with_sign) {
    constants k = { .scales = scale_masks_of() };
    if (f->bits < 8 || !with_sign) k.bits = masks_of(f);
    if (f->table) k.table = table_masks_of();
    if (f->table && with_sign) k.table.values = wasm_v128_load(gw_iq4_values);
    return k;
}

/* Returns the quant whose value is 0: 0 for Q8_0 and table values if the JavaScript engine multiplies signed bytes;
 * otherwise 128 for Q8_0, whose sign bit is flipped, and TABLE_OFFSET for table values. */
INLINE int offset_of(const format *f, bool with_sign) {
    if (f->bits != 8 && !f->table) return (int)f->offset;
    return with_sign ? 0 : f->table ? TABLE_OFFSET : 128;
}

INLINE void unpack_quants(const format *f, bool with_sign, const uint8_t *quants, v128_t *c, const constants *k) {
    if (f->bits < 8) unpack(f, quants, c, &k->bits);
    else
        for (int g = 0; g < COLUMNS; g++)
            c[g] = with_sign ? LOAD(quants, g) : wasm_v128_xor(LOAD(quants, g), k->bits.low);
}

/* Returns how many vectors of quants can be multiplied and added up in 16 bits: a power of two, at most the number of
 * vectors that share a scale. Each vector adds a pair of products: at most 2 * 127 * 63 for int8 activations and quants
 * of 6 bits; planes of int15 activations are at most 64. */
INLINE uint32_t run_of(const format *f, bool int15) {
    int pair = 2 * (int15 ? 64 : 127) * ((1 << f->bits) - 1);
    uint32_t run = COLUMNS / f->subs;
    while ((int)run * pair > INT16_MAX) run /= 2;
    return run;
}

INLINE v128_t joined(v128_t high, v128_t low) { return wasm_i32x4_add(wasm_i32x4_shl(high, 7), low); }

/* Converts a block of activations in one or two planes to int16, every four in the order 0 2 1 3. */
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

/* Returns how many of the n rows are processed in tiles. */
INLINE int gw_in_tiles(int n, bool int15) { return n - n % (int15 ? TILE / 2 : TILE); }

/* Multiplies panels of Q4_0 by all rows of a job, several panels at the same time, if there are 2 to FEW rows and the
 * dot product is fast. Returns the number of panels multiplied, from 0 to all panels of the job. */
int gw_relaxed_few(const job *j);

/* Multiplies the job's panels, at most PAIR, by its first n rows, which must be whole tiles. with_sign: multiplies the
 * signed bytes of Q8_0 directly. */
typedef void gw_rows_kernel(const job *j, int n, bool with_sign);

/* Multiplies all panels of a job by n rows, a multiple of TILE, with products of int16. Converts activations to int16,
 * JOINED blocks of JOINED_ROWS rows at a time ([rows / TILE][JOINED][TILE][32], columns 4 i … 4 i + 3 in the order
 * 0 2 1 3), and calls `several` to multiply them by two panels at a time. */
void gw_relaxed_rows_16(gw_rows_kernel *several, const job *j, int n);
enum { JOINED = 16, JOINED_ROWS = 64 };

#define GW_X(NAME, name, ...) gw_rows_kernel gw_relaxed_rows_##name;
GW_ALL_FORMATS(GW_X)
#undef GW_X

#endif
