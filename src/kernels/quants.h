/* quants: one descriptor per weight format (`format`), generated from GW_ALL_FORMATS: how to unpack its quants to
 * bytes, how to read its scales, and what its products need. For the SIMD kernels only, into which every function is
 * inlined with a constant descriptor, so the compiler removes code for properties that a format lacks. The quants of
 * one block unpack to eight vectors: byte 4 r + i of vector g is row r, column 4 g + i. */
#ifndef GW_QUANTS_H
#define GW_QUANTS_H

#include "kernels/simd.h"
#ifdef GW_HAVE_RELAXED
#include "kernels/relaxed.h"
#endif

enum { COLUMNS = 8, GROUP = 8 }; /* vectors of an unpacked block; maximum number of blocks in a group */
enum { FEW = 8 };                /* up to this number of rows, products are limited by memory bandwidth */

#define LOAD(p, i) wasm_v128_load((p) + 16 * (i))
#define AND wasm_v128_and
#define OR wasm_v128_or
/* Shifts of 16-bit lanes; callers mask off the bits that cross into the next byte. V8 emits five instructions for a
 * shift of bytes. */
#define LEFT(v, n) wasm_i16x8_shl(v, n)
#define RIGHT(v, n) wasm_u16x8_shr(v, n)

#ifdef GW_HAVE_RELAXED
INLINE v128_t unknown_bytes(uint32_t byte) { return unknown(0x01010101 * byte); }
#else /* V8 runs out of registers in simd128 kernels, so rebuilding constants is faster than loading them */
INLINE v128_t unknown_bytes(uint32_t byte) { return wasm_i8x16_splat((int8_t)byte); }
#endif

/* --- unpacking quants --- */

/* Masks for unpacking quants: the low bits of each byte (8-bit quants: the sign bit), and other bit fields. */
typedef struct {
    v128_t low, part[4];
} bit_masks;

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

/* Converts signed bytes to unsigned quants, which are larger by 128. */
INLINE void unpack8(const uint8_t *p, v128_t *c, const bit_masks *m) {
    for (int g = 0; g < COLUMNS; g++) c[g] = wasm_v128_xor(LOAD(p, g), m->low);
}

/* --- reading scales --- */

typedef struct {
    v128_t low, sign_and_rest, two112, four;
} scale_masks;

INLINE scale_masks scale_masks_of(void) {
    return (scale_masks){ unknown_bytes(15), unknown(0x8fffe000), unknown(0x77800000), unknown(0x000f000f) };
}

INLINE v128_t halves(const uint8_t *p, const scale_masks *m) {
    return wasm_f32x4_mul(AND(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), m->sign_and_rest), m->two112);
}

/* The header of a group: scales and mins of four rows, one for each block. In formats with two sub-scales per block,
 * all blocks share the factors scale[0] and min[0] of the integers at `sub_scales`. */
typedef struct {
    v128_t scale[GROUP], min[GROUP];
    uint8_t room[2 * GROUP * GW_PANEL];
    const uint8_t *sub_scales;
} header;

/* Constants for converting the sub-scales of super-blocks to floats. Byte i of a word is converted without shifting it
 * down, so it is 256^i times too large and is multiplied by d / 256^i (d: the super-block's scale). All steps are
 * exact: an f16 times 6 bits. The constants are loaded through a pointer that is opaque to the compiler. Otherwise, it
 * would rebuild them at every use, and would choose the unsigned conversion, which takes eight instructions, because it
 * knows that the numbers are not negative. */
typedef struct {
    uint32_t low, two, six, byte[3], apart, sign_and_rest;
    float two112, minus_two112, per_byte, thirty_two;
} header_words;

INLINE const header_words *hidden_words(void) {
    static const header_words words = { 0x0f0f0f0f, 0x30303030, 0x3f3f3f3f, { 0xff, 0xff00, 0xff0000 },
                                        0x00ff00ff, 0x8fffe000, 0x1p112f,   -0x1p112f,
                                        0x1p-8f,    32 };
    const header_words *volatile hidden = &words;
    return hidden;
}

/* Factors for bytes 0 to 3 of a word of sub-scales: d, d / 256, d / 256^2, and d again, because byte 3 is shifted down.
 * d: the super-block's scale. */
typedef struct {
    v128_t by[4];
} byte_scales;

INLINE byte_scales byte_scales_of(const uint8_t *half, const float *two112, const header_words *m) {
    const scale_masks masks = { .sign_and_rest = SPLAT(&m->sign_and_rest), .two112 = SPLAT(two112) };
    v128_t d = halves(half, &masks), second = wasm_f32x4_mul(d, SPLAT(&m->per_byte));
    return (byte_scales){ { d, second, wasm_f32x4_mul(second, SPLAT(&m->per_byte)), d } };
}

/* Returns the scale d times byte i of each word of v, as floats. Bytes are below 128. */
INLINE v128_t times_byte(const byte_scales *d, v128_t v, int i, const header_words *m) {
    v128_t n = i == 3 ? wasm_i32x4_shr(v, 24) : AND(v, SPLAT(&m->byte[i]));
    return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(n), d->by[i]);
}

typedef void header_reader(const uint8_t *group, header *restrict out);

OUTLINE void header_of_k(const uint8_t *group, header *restrict out) { /* Q4_K, Q5_K */
    const header_words *m = hidden_words();
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

/* Reads the header of a group of IQ4_XS: one super-block of each of four rows. Sub-scales have an offset of 32; their
 * top two bits are stored together in a 16-bit number. */
OUTLINE void header_of_table(const uint8_t *group, header *restrict out) {
    const header_words *m = hidden_words();
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

/* --- descriptors --- */

typedef struct {
    uint32_t bits, offset, subs;    /* bits of a quant; offset: quant of value 0; subs: sub-scales in a block, 1 or 2 */
    bool mins, table;               /* table: quants are indices of table_values */
    uint32_t blocks, bytes, header; /* number of blocks of a group, its size in bytes, its bytes before the quants */
    header_reader *read;            /* reader of super-blocks with one scale per block; NULL: read_header() is used */
} format;

#define GW_X(NAME, name, items, bits, sub, offset, mins, table, first_half, halves, first_word, words) \
    static const format format_##name = { bits,                                                        \
                                          offset,                                                      \
                                          GW_BLOCK / sub,                                              \
                                          mins,                                                        \
                                          table,                                                       \
                                          items / GW_BLOCK,                                            \
                                          GW_PANEL * (items * bits / 8 + 2 * halves + 4 * words),      \
                                          GW_PANEL * (2 * halves + 4 * words),                         \
                                          sub < GW_BLOCK || !words ? NULL                              \
                                          : table                  ? header_of_table                   \
                                                                   : header_of_k };
GW_ALL_FORMATS(GW_X)
#undef GW_X

INLINE bit_masks masks_of(const format *f) {
    static const uint8_t parts[9][4] = { [3] = { 3, 4 }, [5] = { 7, 8, 16, 24 }, [6] = { 3, 12, 48 } };
    bit_masks m = { .low = unknown_bytes(f->bits == 8 ? 128 : (1u << f->bits) - 1) };
    UNROLL
    for (int i = 0; i < 4; i++)
        if (parts[f->bits][i]) m.part[i] = unknown_bytes(parts[f->bits][i]);
    return m;
}

/* Unpacks a block's quants to bytes. The function is not a pointer in `format`, because compilers resolve such a
 * pointer too late to inline the function. */
INLINE void unpack(const format *f, const uint8_t *quants, v128_t *c, const bit_masks *m) {
    if (f->bits == 2) unpack2(quants, c, m);
    else if (f->bits == 3) unpack3(quants, c, m);
    else if (f->bits == 4) unpack4(quants, c, m);
    else if (f->bits == 5) unpack5(quants, c, m);
    else if (f->bits == 6) unpack6(quants, c, m);
    else unpack8(quants, c, m);
}

INLINE const uint8_t *quants_of(const format *f, const uint8_t *group, uint32_t j) {
    return group + f->header + j * 16 * f->bits;
}

/* Converts the sub-scales of a group of Q3_K, 16 of 6 bits for each of the four rows, to signed bytes in `room`. */
INLINE const uint8_t *sub_scales_q3_k(const uint8_t *words, uint8_t *room, const scale_masks *m) {
    v128_t top = LOAD(words, 2), two = unknown_bytes(48), middle = unknown_bytes(32);
    UNROLL
    for (int w = 0; w < 4; w++) {
        v128_t v = LOAD(words, w & 1), low = AND(w < 2 ? v : RIGHT(v, 4), m->low);
        v128_t six = OR(low, AND(w < 2 ? LEFT(top, 4 - 2 * w) : RIGHT(top, 2 * w - 4), two));
        wasm_v128_store(room + 16 * w, wasm_i8x16_sub(six, middle));
    }
    return room;
}

INLINE void read_header(const format *f, const uint8_t *group, header *out, const scale_masks *m) {
    if (f->read) {
        f->read(group, out);
        return;
    }
    const uint8_t *words = group + 2 * GW_PANEL * (f->mins ? 2 : 1);
    out->scale[0] = halves(group, m);
    if (f->mins) out->min[0] = halves(group + 2 * GW_PANEL, m);
    if (f->subs == 1) return;
    if (f->mins) out->min[0] = wasm_f32x4_neg(out->min[0]);
    out->sub_scales = f->bits == 3 ? sub_scales_q3_k(words, out->room, m) : words;
}

/* Returns the index of block j's scale in a header. */
INLINE uint32_t scale_of(const format *f, uint32_t j) { return f->subs == 2 || f->blocks == 1 ? 0 : j; }

/* The two sub-scales and the two sub-mins of a block, as pairs of 16-bit numbers. */
typedef struct {
    v128_t scale, min;
} pairs;

INLINE pairs pairs_of(const format *f, const header *h, uint32_t j, const scale_masks *m) {
    const uint8_t *p = h->sub_scales + 2 * GW_PANEL * j;
    if (!f->mins) return (pairs){ .scale = wasm_i16x8_load8x8(p) };
    v128_t v = wasm_u16x8_load8x8(p); /* a byte is a sub-scale and a sub-min of four bits each */
    return (pairs){ AND(v, m->four), RIGHT(v, 4) };
}

INLINE v128_t first_of(v128_t pair) { return wasm_i32x4_shr(wasm_i32x4_shl(pair, 16), 16); }
INLINE v128_t second_of(v128_t pair) { return wasm_i32x4_shr(pair, 16); }

INLINE v128_t weighed(v128_t a, v128_t b, v128_t pair) {
    return wasm_i32x4_add(wasm_i32x4_mul(a, first_of(pair)), wasm_i32x4_mul(b, second_of(pair)));
}

/* --- products with a table of values --- */

#define TABLE_OFFSET 127

/* The values of IQ4 quants 0 to 15, plus TABLE_OFFSET. */
static const uint8_t table_values[16] = { 0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240 };

#ifndef GW_HAVE_RELAXED
#define SWIZZLE wasm_i8x16_swizzle
#endif

/* The table of values; a mask of 15 in each byte; a mask of 255 in each 16-bit lane. */
typedef struct {
    v128_t values, low, byte;
} table_masks;

INLINE table_masks table_masks_of(void) {
    const uint8_t *volatile hidden = table_values;
    return (table_masks){ wasm_v128_load(hidden), unknown_bytes(15), unknown(0x00ff00ff) };
}

/* Multiplies one block of IQ4 quants of each of n panels, `stride` bytes apart, by int16 activations (every four in the
 * order 0 2 1 3). The outer loop is not unrolled, so that activations, table and masks stay in registers. */
INLINE void table_dots(const uint8_t *quants, size_t stride, int n, const int16_t *q, int32_t sum, v128_t *dot,
                       const table_masks *m) {
    for (int s = 0; s < n; s++) dot[s] = wasm_i32x4_splat(-TABLE_OFFSET * sum);
    KEEP_LOOP
    for (int g = 0; g < 4; g++, quants += 16, q += 4) {
        v128_t a = SPLAT(q), b = SPLAT(q + 2), c = SPLAT(q + 16), d = SPLAT(q + 18);
        UNROLL
        for (int s = 0; s < n; s++) {
            v128_t v = wasm_v128_load(quants + s * stride);
            v128_t first = SWIZZLE(m->values, AND(v, m->low)), last = SWIZZLE(m->values, AND(RIGHT(v, 4), m->low));
            dot[s] = add_dot(dot[s], AND(first, m->byte), a);
            dot[s] = add_dot(dot[s], RIGHT(first, 8), b);
            dot[s] = add_dot(dot[s], AND(last, m->byte), c);
            dot[s] = add_dot(dot[s], RIGHT(last, 8), d);
        }
    }
}

/* --- sums --- */

INLINE v128_t add_min(v128_t total, v128_t min, v128_t sum, v128_t scale) {
    return add_product(total, min, wasm_f32x4_mul(scale, wasm_f32x4_convert_i32x4(sum)));
}

/* Computes, for each of a block's `subs` scales, the sum of the activations in the columns that the scale covers. */
INLINE void sums_of(uint32_t subs, const int32_t *sum, const int32_t *half, v128_t *out) {
    out[0] = wasm_v128_load32_splat(subs == 1 ? sum : half);
    if (subs == 2) out[1] = wasm_i32x4_sub(wasm_v128_load32_splat(sum), out[0]);
}

/* --- jobs --- */

enum { TILE = 4, PAIR = 2 }; /* rows of activations and panels in a tile (tiles.h) */

/* The int8 or int15 activations of a batch: fields of gw_acts (kernels.h). */
typedef struct {
    const gw_int8 *q; /* [blocks][stride][planes][32] quantised activations */
    const float *scale;
    const int32_t *sum, *half;
    size_t blocks, stride;
    int n, sequential, planes;
#ifdef GW_HAVE_RELAXED
    const int16_t *joined; /* for gw_relaxed_rows_16: blocks from index `from` on as int16; otherwise NULL and 0 */
    size_t from;
#endif
} acts;

/* Returns the int8 (bits 8) or int15 (bits 16) activations of the gw_acts a. */
#define ACTS(a, bits)                           \
    (acts){ .q = (const gw_int8 *)(a)->q##bits, \
            .scale = (a)->s##bits,              \
            .sum = (a)->sum##bits,              \
            .n = (a)->n,                        \
            .half = (a)->half##bits,            \
            .blocks = (a)->k / GW_BLOCK,        \
            .stride = (a)->stride,              \
            .sequential = (a)->sequential,      \
            .planes = bits / 8 }

/* A matrix product: y[t][0 .. 4 * panels) = weight panels, `panel` bytes apart, times row t of the activations. */
typedef struct {
    const uint8_t *w;
    size_t panel;
    int panels;
    const acts *a;
    float *y;
    size_t ldy;
} job;

INLINE job job_of(const format *f, const uint8_t *w, int panels, const acts *a, float *y, size_t ldy) {
    return (job){ w, a->blocks / f->blocks * f->bytes, panels, a, y, ldy };
}

INLINE job panels_from(const job *j, int p, int panels) {
    return (job){ j->w + p * j->panel, j->panel, panels, j->a, j->y + p * GW_PANEL, j->ldy };
}

/* n panels that are read at the same time, `stride` bytes apart. Their results are `step` floats apart. */
typedef struct {
    const uint8_t *w;
    size_t stride;
    int n;
    float *y;
    size_t step;
} walk;

/* Returns walk i of `each` walks, which share the panels of a job. Walk i reads n panels at the same time: i, i + each,
 * i + 2 each … */
INLINE walk walk_of(const job *j, int i, int each, int n) {
    return (walk){ j->w + i * j->panel, each * j->panel, n, j->y + i * GW_PANEL, (size_t)each * GW_PANEL };
}

#endif
