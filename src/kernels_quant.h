/* kernels_quant: what the SIMD kernels of the types in quant_formats.h share: the shape of a format as
 * constants, its codes as bytes in vectors, its scales as floats of four rows. Included by kernels_quant_*.c
 * only; every function is inlined into a kernel that knows the shape, so what a type does not need is gone.
 *
 * Codes of 32 columns come out as eight vectors: byte 4 r + i of vector g is row r, column 4 g + i. */
#ifndef GW_KERNELS_QUANT_H
#define GW_KERNELS_QUANT_H

#include "kernels_simd.h"

enum { COLUMNS = 8, SUBS = GW_MAX_SUBS };   /* vectors of 32 columns of bytes; scales of a group at most */

/* Scales and mins of four rows, for a group of blocks (one block, or a super-block of eight). */
typedef void head_reader(const uint8_t *head, v128_t *scale, v128_t *min);

typedef struct {
    uint32_t bits, offset, subs;       /* subs: scales of 32 columns, 1 or 2 */
    bool mins, table;
    uint32_t blocks, bytes, head;      /* of a group: blocks of 32 columns, bytes, bytes before the codes */
    head_reader *read;
    bool whole;                        /* see kernels_quant_relaxed.c */
} shape;

#define GW_SHAPE(NAME, name, items, bits, sub, offset, mins, table, first_half, halves, first_word, words)    \
    static const shape shape_##name = { bits, offset, 32 / sub, mins, table, items / 32,                         \
                                        GW_PANEL * (items * bits / 8 + 2 * halves + 4 * words),                  \
                                        GW_PANEL * (2 * halves + 4 * words), head_##name, false };

/* --- codes --- */

#define LOAD(p, i) wasm_v128_load((p) + 16 * (i))
#define AND(v, mask) wasm_v128_and(v, wasm_i8x16_splat(mask))
#define OR wasm_v128_or
/* Bits that cross into the next byte are masked off by all who call these. */
#define LEFT(v, n) wasm_i16x8_shl(v, n)
#define RIGHT(v, n) wasm_u16x8_shr(v, n)   /* V8 makes five instructions of a shift of bytes */

INLINE void unpack2(const uint8_t *p, v128_t *c) {
    for (int h = 0; h < 2; h++) {
        v128_t v = LOAD(p, h);
        c[4 * h] = AND(v, 3);
        c[4 * h + 1] = AND(RIGHT(v, 2), 3);
        c[4 * h + 2] = AND(RIGHT(v, 4), 3);
        c[4 * h + 3] = AND(RIGHT(v, 6), 3);
    }
}

INLINE void unpack3(const uint8_t *p, v128_t *c) {
    v128_t v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], 7);
        c[i + 3] = AND(RIGHT(v[i], 3), 7);
    }
    c[6] = OR(AND(RIGHT(v[0], 6), 3), AND(RIGHT(v[2], 4), 4));
    c[7] = OR(AND(RIGHT(v[1], 6), 3), AND(RIGHT(v[2], 5), 4));
}

INLINE void unpack4(const uint8_t *p, v128_t *c) {
    for (int i = 0; i < 4; i++) {
        v128_t v = LOAD(p, i);
        c[i] = AND(v, 15);
        c[i + 4] = AND(RIGHT(v, 4), 15);
    }
}

INLINE void unpack5(const uint8_t *p, v128_t *c) {
    v128_t v[5];
    for (int i = 0; i < 5; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], 31);
    }
    c[5] = OR(AND(RIGHT(v[0], 5), 7), AND(RIGHT(v[3], 2), 24));
    c[6] = OR(AND(RIGHT(v[1], 5), 7), AND(RIGHT(v[4], 2), 24));
    c[7] = OR(AND(RIGHT(v[2], 5), 7), OR(AND(RIGHT(v[3], 4), 8), AND(RIGHT(v[4], 3), 16)));
}

INLINE void unpack6(const uint8_t *p, v128_t *c) {
    v128_t v[6];
    for (int i = 0; i < 6; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], 63);
    }
    for (int h = 0; h < 2; h++)
        c[6 + h] = OR(AND(RIGHT(v[3 * h], 6), 3), OR(AND(RIGHT(v[3 * h + 1], 4), 12), AND(RIGHT(v[3 * h + 2], 2), 48)));
}

INLINE void unpack(const shape *f, const uint8_t *codes, v128_t *c) {
    if (f->bits == 2) unpack2(codes, c);
    else if (f->bits == 3) unpack3(codes, c);
    else if (f->bits == 4) unpack4(codes, c);
    else if (f->bits == 5) unpack5(codes, c);
    else unpack6(codes, c);
}

/* Codes of block j of a group. */
INLINE const uint8_t *codes_of(const shape *f, const uint8_t *group, uint32_t j) {
    return group + f->head + j * 16 * f->bits;
}

/* --- scales --- */

INLINE v128_t byte_of(v128_t v, int i) { return wasm_v128_and(wasm_u32x4_shr(v, 8 * i), wasm_i32x4_splat(255)); }

/* d * (n - bias) for n below 2^23: put under the exponent of 2^23, n is a float. (Where a compiler knows that
 * n is not negative it converts it as unsigned, in eight instructions.) */
INLINE v128_t times(v128_t d, v128_t n, float bias) {
    v128_t big = OR(n, wasm_i32x4_splat(0x4b000000));
    return wasm_f32x4_mul(d, wasm_f32x4_sub(big, wasm_f32x4_splat(8388608.0f + bias)));
}

INLINE void head_q5_0(const uint8_t *head, v128_t *scale, v128_t *min) {
    scale[0] = f16x4(head);
    (void)min;
}

INLINE void head_q4_1(const uint8_t *head, v128_t *scale, v128_t *min) {
    scale[0] = f16x4(head);
    min[0] = f16x4(head + 8);
}

OUTLINE void head_q2_k(const uint8_t *head, v128_t *scale, v128_t *min) {
    v128_t d = f16x4(head), m = wasm_f32x4_neg(f16x4(head + 8));
    for (int w = 0; w < 4; w++) {
        v128_t v = LOAD(head + 16, w), low = AND(v, 15), high = AND(RIGHT(v, 4), 15);
        for (int i = 0; i < 4; i++) {
            scale[4 * w + i] = times(d, byte_of(low, i), 0);
            min[4 * w + i] = times(m, byte_of(high, i), 0);
        }
    }
}

OUTLINE void head_q3_k(const uint8_t *head, v128_t *scale, v128_t *min) {
    v128_t d = f16x4(head), top = LOAD(head + 8, 2);
    (void)min;
    for (int w = 0; w < 4; w++) {
        v128_t v = LOAD(head + 8, w & 1), low = w < 2 ? AND(v, 15) : AND(RIGHT(v, 4), 15);
        v128_t six = OR(low, LEFT(AND(RIGHT(top, 2 * w), 3), 4));
        for (int i = 0; i < 4; i++) scale[4 * w + i] = times(d, byte_of(six, i), 32);
    }
}

OUTLINE void head_q4_k(const uint8_t *head, v128_t *scale, v128_t *min) {
    v128_t d = f16x4(head), m = wasm_f32x4_neg(f16x4(head + 8));
    v128_t a = LOAD(head + 16, 0), b = LOAD(head + 16, 1), c = LOAD(head + 16, 2);
    v128_t scales[2] = { AND(a, 63), OR(AND(c, 15), AND(RIGHT(a, 2), 48)) };
    v128_t mins[2] = { AND(b, 63), OR(AND(RIGHT(c, 4), 15), AND(RIGHT(b, 2), 48)) };
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < 4; i++) {
            scale[4 * w + i] = times(d, byte_of(scales[w], i), 0);
            min[4 * w + i] = times(m, byte_of(mins[w], i), 0);
        }
}

OUTLINE void head_q6_k(const uint8_t *head, v128_t *scale, v128_t *min) {
    v128_t d = f16x4(head);
    (void)min;
    for (int w = 0; w < 4; w++) {
        v128_t v = LOAD(head + 8, w);
        for (int i = 0; i < 4; i++) {
            v128_t n = wasm_i32x4_shr(wasm_i32x4_shl(v, 24 - 8 * i), 24);
            scale[4 * w + i] = wasm_f32x4_mul(d, wasm_f32x4_convert_i32x4(n));
        }
    }
}

OUTLINE void head_iq4_xs(const uint8_t *head, v128_t *scale, v128_t *min) {
    v128_t d = f16x4(head), top = wasm_u32x4_load16x4(head + 8), low = LOAD(head + 16, 0);
    v128_t three = wasm_i32x4_splat(3), fifteen = wasm_i32x4_splat(15);
    (void)min;
    for (int i = 0; i < 8; i++) {
        v128_t six = OR(wasm_v128_and(wasm_u32x4_shr(low, 4 * i), fifteen),
                        wasm_i32x4_shl(wasm_v128_and(wasm_u32x4_shr(top, 2 * i), three), 4));
        scale[i] = times(d, six, 32);
    }
}

#define head_q5_1 head_q4_1
#define head_q5_k head_q4_k
#define head_iq4_nl head_q5_0
GW_FORMATS(GW_SHAPE)

/* Q4_0 and Q8_0 have their own packing, which is the same layout. */
static const shape shape_q4 = { 4, 8, 1, false, false, 1, GW_Q4_BYTES, 2 * GW_PANEL, head_q5_0, false };
#ifdef GW_HAVE_RELAXED
static const shape shape_q8 = { 8, 128, 1, false, false, 1, GW_Q8_BYTES, 2 * GW_PANEL, head_q5_0, false };
#endif

/* --- sums --- */

/* total + (float)dot * (weight scales * activation scale) */
INLINE v128_t add_scaled(v128_t total, v128_t dot, v128_t weight_scales, v128_t scale) {
    return wasm_f32x4_add(total, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(dot), wasm_f32x4_mul(weight_scales, scale)));
}

/* total + min * (activation scale * (float)sum of the activations) */
INLINE v128_t add_min(v128_t total, v128_t min, v128_t sum, v128_t scale) {
    return wasm_f32x4_add(total, wasm_f32x4_mul(min, wasm_f32x4_mul(scale, wasm_f32x4_convert_i32x4(sum))));
}

/* Sums of the activations that each scale of a block covers. */
INLINE void sums_of(const shape *f, const int32_t *sum, const int32_t *half, v128_t *out) {
    out[0] = wasm_v128_load32_splat(f->subs == 1 ? sum : half);
    if (f->subs == 2) out[1] = wasm_i32x4_sub(wasm_v128_load32_splat(sum), out[0]);
}

/* One block into the total: its dots with their scales, its mins with the sums. */
INLINE v128_t add_block(const shape *f, v128_t total, const v128_t *dot, const v128_t *weight_scales,
                        const v128_t *min, const v128_t *sum, v128_t scale) {
    for (uint32_t i = 0; i < f->subs; i++) {
        total = add_scaled(total, dot[i], weight_scales[i], scale);
        if (f->mins) total = add_min(total, min[i], sum[i], scale);
    }
    return total;
}

#endif
