/* quants: what the SIMD kernels of the types in formats.h share: the shape of a format as
 * constants, its codes as bytes in vectors, its scales as floats of four rows. Included by codes_*.c
 * only; every function is inlined into a kernel that knows the shape, so what a type does not need is gone.
 *
 * Codes of 32 columns come out as eight vectors: byte 4 r + i of vector g is row r, column 4 g + i. */
#ifndef GW_QUANTS_H
#define GW_QUANTS_H

#include "kernels/simd.h"
#ifdef GW_HAVE_RELAXED
#include "kernels/relaxed.h"
#endif

enum { COLUMNS = 8, GROUP = 8 };   /* vectors of 32 columns of bytes; blocks of a group at most */

/* Scales and mins of four rows, for a group of blocks (one block, or a super-block of eight): one for each block. Where
 * a block has two of them, only what its small numbers are multiplied with, in [0]; they begin at smalls. */
typedef struct {
    v128_t scale[GROUP], min[GROUP];
    uint8_t room[2 * GROUP * GW_PANEL];
    const uint8_t *smalls;
} fronts;

typedef void front_reader(const uint8_t *group, fronts *out);

typedef struct {
    uint32_t bits, offset, subs;       /* subs: scales of 32 columns, 1 or 2 */
    bool mins, table;
    uint32_t blocks, bytes, front;     /* of a group: blocks of 32 columns, bytes, bytes before the codes */
    front_reader *read;
    bool whole;                        /* this and run: see quants_relaxed.c */
    uint32_t run;
} shape;

#define GW_SHAPE(NAME, name, items, bits, sub, offset, mins, table, first_half, halves, first_word, words)    \
    static const shape shape_##name = { bits, offset, 32 / sub, mins, table, items / 32,                         \
                                        GW_PANEL * (items * bits / 8 + 2 * halves + 4 * words),                  \
                                        GW_PANEL * (2 * halves + 4 * words), front_##name, false, 0 };

/* --- codes --- */

#define LOAD(p, i) wasm_v128_load((p) + 16 * (i))
#define AND wasm_v128_and
#define OR wasm_v128_or
/* Bits that cross into the next byte are masked off by all who call these. */
#define LEFT(v, n) wasm_i16x8_shl(v, n)
#define RIGHT(v, n) wasm_u16x8_shr(v, n)   /* V8 makes five instructions of a shift of bytes */

#ifdef GW_HAVE_RELAXED
INLINE v128_t unknown_bytes(uint32_t byte) { return unknown(0x01010101 * byte); }
#else   /* V8 has no registers left there: constants made anew are faster than loads */
INLINE v128_t unknown_bytes(uint32_t byte) { return wasm_i8x16_splat((int8_t)byte); }
#endif

/* What codes are masked with: bits 0 … of each byte, and single fields. */
typedef struct { v128_t low, part[4]; } bit_masks;

INLINE bit_masks masks_of(const shape *f) {
    static const uint8_t parts[GW_MAX_BITS + 1][4] = { [3] = { 3, 4 }, [5] = { 7, 8, 16, 24 }, [6] = { 3, 12, 48 } };
    bit_masks m = { .low = unknown_bytes((1u << (f->bits % 8)) - 1) };
    if (f->bits > GW_MAX_BITS) return m;
    UNROLL
    for (int i = 0; i < 4; i++)
        if (parts[f->bits][i]) m.part[i] = unknown_bytes(parts[f->bits][i]);
    return m;
}

INLINE void unpack2(const uint8_t *p, v128_t *c, const bit_masks *m) {
    for (int h = 0; h < 2; h++) {
        v128_t v = LOAD(p, h);
        c[4 * h] = AND(v, m->low);
        c[4 * h + 1] = AND(RIGHT(v, 2), m->low);
        c[4 * h + 2] = AND(RIGHT(v, 4), m->low);
        c[4 * h + 3] = AND(RIGHT(v, 6), m->low);
    }
}

INLINE void unpack3(const uint8_t *p, v128_t *c, const bit_masks *m) {
    v128_t v[3], two = m->part[0], top = m->part[1];
    for (int i = 0; i < 3; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], m->low);
        c[i + 3] = AND(RIGHT(v[i], 3), m->low);
    }
    c[6] = OR(AND(RIGHT(v[0], 6), two), AND(RIGHT(v[2], 4), top));
    c[7] = OR(AND(RIGHT(v[1], 6), two), AND(RIGHT(v[2], 5), top));
}

INLINE void unpack4(const uint8_t *p, v128_t *c, const bit_masks *m) {
    for (int i = 0; i < 4; i++) {
        v128_t v = LOAD(p, i);
        c[i] = AND(v, m->low);
        c[i + 4] = AND(RIGHT(v, 4), m->low);
    }
}

INLINE void unpack5(const uint8_t *p, v128_t *c, const bit_masks *m) {
    v128_t v[5], three = m->part[0], eight = m->part[1], sixteen = m->part[2], both = m->part[3];
    for (int i = 0; i < 5; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], m->low);
    }
    c[5] = OR(AND(RIGHT(v[0], 5), three), AND(RIGHT(v[3], 2), both));
    c[6] = OR(AND(RIGHT(v[1], 5), three), AND(RIGHT(v[4], 2), both));
    c[7] = OR(AND(RIGHT(v[2], 5), three), OR(AND(RIGHT(v[3], 4), eight), AND(RIGHT(v[4], 3), sixteen)));
}

INLINE void unpack6(const uint8_t *p, v128_t *c, const bit_masks *m) {
    v128_t v[6], two = m->part[0], middle = m->part[1], top = m->part[2];
    for (int i = 0; i < 6; i++) {
        v[i] = LOAD(p, i);
        c[i] = AND(v[i], m->low);
    }
    for (int h = 0; h < 2; h++) {
        v128_t high = OR(AND(RIGHT(v[3 * h + 1], 4), middle), AND(RIGHT(v[3 * h + 2], 2), top));
        c[6 + h] = OR(AND(RIGHT(v[3 * h], 6), two), high);
    }
}

INLINE void unpack(const shape *f, const uint8_t *codes, v128_t *c, const bit_masks *m) {
    if (f->bits == 2) unpack2(codes, c, m);
    else if (f->bits == 3) unpack3(codes, c, m);
    else if (f->bits == 4) unpack4(codes, c, m);
    else if (f->bits == 5) unpack5(codes, c, m);
    else unpack6(codes, c, m);
}

/* Codes of block j of a group. */
INLINE const uint8_t *codes_of(const shape *f, const uint8_t *group, uint32_t j) {
    return group + f->front + j * 16 * f->bits;
}

/* --- scales --- */

/* What takes bytes of small scales apart, and half-width floats. */
typedef struct { v128_t low, sign_and_rest, two112, four; } scale_masks;

INLINE scale_masks scale_masks_of(void) {
    return (scale_masks){ unknown_bytes(15), unknown(0x8fffe000), unknown(0x77800000), unknown(0x000f000f) };
}

INLINE v128_t halves(const uint8_t *p, const scale_masks *m) {
    return wasm_f32x4_mul(AND(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), m->sign_and_rest), m->two112);
}

/* None: read_front reads what is f16 numbers and small ones of 16 columns. */
#define front_q4_1 NULL
#define front_q5_0 NULL
#define front_q5_1 NULL
#define front_iq4_nl NULL
#define front_q2_k NULL
#define front_q3_k NULL
#define front_q6_k NULL

/* Small scales of super-blocks are made floats where they are: byte i of a word counts 256^i times, so it is multiplied
 * with d / 256^i. All exact: an f16 times 6 bits. Constants come through a pointer that no compiler knows, so that
 * they are not made anew, and none sees that what is converted is not negative: without sign that takes eight
 * instructions. */
typedef struct {
    uint32_t low, two, six, byte[3], apart, sign_and_rest;
    float two112, minus_two112, per_byte, thirty_two;
} front_words;

INLINE const front_words *hidden_words(void) {
    static const front_words words = { 0x0f0f0f0f, 0x30303030, 0x3f3f3f3f, { 0xff, 0xff00, 0xff0000 }, 0x00ff00ff,
                                      0x8fffe000, 0x1p112f, -0x1p112f, 0x1p-8f, 32 };
    const front_words *volatile hidden = &words;
    return hidden;
}

/* d, d / 256, d / 256^2, and d again, for byte 3 is moved down. */
typedef struct { v128_t by[4]; } byte_scales;

INLINE byte_scales byte_scales_of(const uint8_t *half, const float *two112, const front_words *m) {
    const scale_masks masks = { .sign_and_rest = SPLAT(&m->sign_and_rest), .two112 = SPLAT(two112) };
    v128_t d = halves(half, &masks), second = wasm_f32x4_mul(d, SPLAT(&m->per_byte));
    return (byte_scales){ { d, second, wasm_f32x4_mul(second, SPLAT(&m->per_byte)), d } };
}

/* d times byte i of each word, which is below 128. */
INLINE v128_t times_byte(const byte_scales *d, v128_t v, int i, const front_words *m) {
    v128_t n = i == 3 ? wasm_i32x4_shr(v, 24) : AND(v, SPLAT(&m->byte[i]));
    return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(n), d->by[i]);
}

OUTLINE void front_q4_k(const uint8_t *group, fronts *restrict out) {
    const front_words *m = hidden_words();
    byte_scales d = byte_scales_of(group, &m->two112, m), dmin = byte_scales_of(group + 8, &m->minus_two112, m);
    v128_t a = LOAD(group + 16, 0), b = LOAD(group + 16, 1), c = LOAD(group + 16, 2), high = wasm_i16x8_shr(c, 4);
    v128_t low = SPLAT(&m->low), two = SPLAT(&m->two), six = SPLAT(&m->six);
    v128_t scales[2] = { AND(a, six), OR(AND(c, low), AND(RIGHT(a, 2), two)) };
    v128_t mins[2] = { AND(b, six), OR(AND(high, low), AND(RIGHT(b, 2), two)) };
    for (int i = 0; i < 8; i++) {
        out->scale[i] = times_byte(&d, scales[i / 4], i % 4, m);
        out->min[i] = times_byte(&dmin, mins[i / 4], i % 4, m);
    }
}

/* Scales count from -32. Their top bits lie in a 16-bit number, two for each: they are spread over bytes. */
OUTLINE void front_iq4_xs(const uint8_t *group, fronts *restrict out) {
    const front_words *m = hidden_words();
    byte_scales d = byte_scales_of(group, &m->two112, m);
    v128_t words = LOAD(group + 16, 0), top = wasm_u32x4_load16x4(group + 8);
    v128_t low = SPLAT(&m->low), two = SPLAT(&m->two);
    top = AND(OR(top, wasm_i32x4_shl(top, 8)), SPLAT(&m->apart));
    top = AND(OR(top, wasm_i32x4_shl(top, 4)), low);
    v128_t scales[2] = { OR(AND(words, low), AND(LEFT(top, 4), two)),
                         OR(AND(RIGHT(words, 4), low), AND(LEFT(top, 2), two)) };
    v128_t from = wasm_f32x4_mul(d.by[0], SPLAT(&m->thirty_two));
    for (int i = 0; i < 8; i++) out->scale[i] = wasm_f32x4_sub(times_byte(&d, scales[i % 2], i / 2, m), from);
}

/* 16 scales of 6 bits, as bytes that count from 0, in the order of the words. */
INLINE const uint8_t *smalls_q3_k(const uint8_t *words, uint8_t *room, const scale_masks *m) {
    v128_t top = LOAD(words, 2), two = unknown_bytes(48), middle = unknown_bytes(32);
    UNROLL
    for (int w = 0; w < 4; w++) {
        v128_t v = LOAD(words, w & 1), low = AND(w < 2 ? v : RIGHT(v, 4), m->low);
        v128_t six = OR(low, AND(w < 2 ? LEFT(top, 4 - 2 * w) : RIGHT(top, 2 * w - 4), two));
        wasm_v128_store(room + 16 * w, wasm_i8x16_sub(six, middle));
    }
    return room;
}

#define front_q5_k front_q4_k
GW_FORMATS(GW_SHAPE)

/* Q4_0 and Q8_0 have their own packing, which is the same layout. */
static const shape shape_q4 = { 4, 8, 1, false, false, 1, GW_Q4_BYTES, 2 * GW_PANEL, NULL, false, 0 };
static const shape shape_q8 = { 8, 128, 1, false, false, 1, GW_Q8_BYTES, 2 * GW_PANEL, NULL, false, 0 };

INLINE void read_front(const shape *f, const uint8_t *group, fronts *out, const scale_masks *m) {
    if (f->read) {
        f->read(group, out);
        return;
    }
    const uint8_t *words = group + 2 * GW_PANEL * (f->mins ? 2 : 1);
    out->scale[0] = halves(group, m);
    if (f->mins) out->min[0] = halves(group + 2 * GW_PANEL, m);
    if (f->subs == 1) return;
    if (f->mins) out->min[0] = wasm_f32x4_neg(out->min[0]);
    out->smalls = f->bits == 3 ? smalls_q3_k(words, out->room, m) : words;
}

/* Small scales and mins of block j, those of its halves as pairs of 16 bits. */
typedef struct { v128_t scale, min; } pairs;

INLINE pairs pairs_of(const shape *f, const fronts *h, uint32_t j, const scale_masks *m) {
    const uint8_t *p = h->smalls + 2 * GW_PANEL * j;
    if (!f->mins) return (pairs){ .scale = wasm_i16x8_load8x8(p) };
    v128_t v = wasm_u16x8_load8x8(p);   /* four bits each */
    return (pairs){ AND(v, m->four), RIGHT(v, 4) };
}

INLINE v128_t first_of(v128_t pair) { return wasm_i32x4_shr(wasm_i32x4_shl(pair, 16), 16); }
INLINE v128_t second_of(v128_t pair) { return wasm_i32x4_shr(pair, 16); }

/* --- tables --- */

#define TABLE_OFFSET 127

/* Values of IQ4, counted from -TABLE_OFFSET. */
static const uint8_t table_values[16] = { 0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240 };

#ifndef GW_HAVE_RELAXED
#define SWIZZLE wasm_i8x16_swizzle
#endif

/* The values, 15 in each byte, 255 in each 16 bits. */
typedef struct { v128_t values, low, byte; } table_masks;

INLINE table_masks table_masks_of(void) {
    const uint8_t *volatile hidden = table_values;
    return (table_masks){ wasm_v128_load(hidden), unknown_bytes(15), unknown(0x00ff00ff) };
}

/* Sums of a block's products with int16 activations (order 0 2 1 3), in each of n panels `stride` bytes apart. 32
 * weights of each at a time, in a loop that stays rolled up: so activations, table and masks keep their registers. */
INLINE void table_dots(const uint8_t *codes, size_t stride, int n, const int16_t *q, int32_t sum, v128_t *dot,
                       const table_masks *m) {
    for (int s = 0; s < n; s++) dot[s] = wasm_i32x4_splat(-TABLE_OFFSET * sum);
    KEEP_LOOP
    for (int g = 0; g < 4; g++, codes += 16, q += 4) {
        v128_t a = SPLAT(q), b = SPLAT(q + 2), c = SPLAT(q + 16), d = SPLAT(q + 18);
        UNROLL
        for (int s = 0; s < n; s++) {
            v128_t v = wasm_v128_load(codes + s * stride);
            v128_t first = SWIZZLE(m->values, AND(v, m->low)), last = SWIZZLE(m->values, AND(RIGHT(v, 4), m->low));
            dot[s] = wasm_i32x4_add(dot[s], wasm_i32x4_dot_i16x8(AND(first, m->byte), a));
            dot[s] = wasm_i32x4_add(dot[s], wasm_i32x4_dot_i16x8(RIGHT(first, 8), b));
            dot[s] = wasm_i32x4_add(dot[s], wasm_i32x4_dot_i16x8(AND(last, m->byte), c));
            dot[s] = wasm_i32x4_add(dot[s], wasm_i32x4_dot_i16x8(RIGHT(last, 8), d));
        }
    }
}

/* --- sums --- */

/* total + min * (activation scale * (float)sum of the activations) */
INLINE v128_t add_min(v128_t total, v128_t min, v128_t sum, v128_t scale) {
    return wasm_f32x4_add(total, wasm_f32x4_mul(min, wasm_f32x4_mul(scale, wasm_f32x4_convert_i32x4(sum))));
}

/* Sums of the activations that each scale of a block covers. */
INLINE void sums_of(const shape *f, const int32_t *sum, const int32_t *half, v128_t *out) {
    out[0] = wasm_v128_load32_splat(f->subs == 1 ? sum : half);
    if (f->subs == 2) out[1] = wasm_i32x4_sub(wasm_v128_load32_splat(sum), out[0]);
}

/* a times the first of each pair, and b times the second */
INLINE v128_t weighed(v128_t a, v128_t b, v128_t pair) {
    return wasm_i32x4_add(wasm_i32x4_mul(a, first_of(pair)), wasm_i32x4_mul(b, second_of(pair)));
}

#endif
