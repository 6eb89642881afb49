/* formats: the table of quantised block formats, with the layout of their blocks in a file, and the packed layout to
 * which all formats are converted.
 *
 * A block is a header (f16 numbers and words of sub-scales) and quants of a few bits. `sub` columns share a scale
 * and, if the format has mins, a min:
 *   value = scale * (quant - offset) + min      or, with a table of values,      scale * values[quant]
 *
 * When packed, one block of each of four rows forms a group, with the same number of bytes as the four blocks: the f16
 * numbers of the four headers side by side, then their words side by side, then for every 32 columns `bits` vectors of
 * 16 bytes. Byte 4 r + i of a vector holds bits of row r, columns 4 g + i; `fields` in formats.c says which g and which
 * bits. If 16 columns share a scale, the first two bytes of the four rows' words come before the last two bytes, so
 * that the sub-scales of 32 columns are adjacent.
 *
 * To add a format, add its number below, a row in GW_FORMATS, its quants_… and sub_scales_… in formats.c, a header
 * reader in kernels/quants.h if super-blocks have one scale per 32 columns, and a row in tools/vectors/formats.py for
 * the test against ggml. The table of types, the packing, the kernels of all builds, their tests and the error texts
 * are generated from the row.
 *
 * Source: ggml's block structs; values equal ggml's dequantize_row_*, bit for bit. */
#ifndef GW_FORMATS_H
#define GW_FORMATS_H

#include "base/base.h"

/* GGML type numbers. */
enum {
    GW_F32 = 0,
    GW_F16 = 1,
    GW_Q4_0 = 2,
    GW_Q4_1 = 3,
    GW_Q5_0 = 6,
    GW_Q5_1 = 7,
    GW_Q8_0 = 8,
    GW_Q2_K = 10,
    GW_Q3_K = 11,
    GW_Q4_K = 12,
    GW_Q5_K = 13,
    GW_Q6_K = 14,
    GW_IQ4_NL = 20,
    GW_IQ4_XS = 23,
    GW_I32 = 26, /* token ids; not a type of weights */
    GW_BF16 = 30,
};

/* X(NAME, name, items, bits, sub, offset, mins, table, first f16, f16s, first word, words)
 * items: columns of a block; offset: the quant whose value is 0; table: quants are indices of gw_iq4_values; first f16,
 * first word: byte offsets of the f16 numbers and of the words in a file's block. Quants of 8 bits are stored as signed
 * bytes. */
#define GW_ALL_FORMATS(X)                         \
    X(Q4_0, q4, 32, 4, 32, 8, 0, 0, 0, 1, 0, 0)   \
    X(Q8_0, q8, 32, 8, 32, 128, 0, 0, 0, 1, 0, 0) \
    GW_FORMATS(X)

/* The formats whose scalar conversions (types.c) and packing (kernels/pack.c) are also generated from this table. */
#define GW_FORMATS(X)                                   \
    X(Q4_1, q4_1, 32, 4, 32, 0, 1, 0, 0, 2, 0, 0)       \
    X(Q5_0, q5_0, 32, 5, 32, 16, 0, 0, 0, 1, 0, 0)      \
    X(Q5_1, q5_1, 32, 5, 32, 0, 1, 0, 0, 2, 0, 0)       \
    X(Q2_K, q2_k, 256, 2, 16, 0, 1, 0, 80, 2, 0, 4)     \
    X(Q3_K, q3_k, 256, 3, 16, 4, 0, 0, 108, 1, 96, 3)   \
    X(Q4_K, q4_k, 256, 4, 32, 0, 1, 0, 0, 2, 4, 3)      \
    X(Q5_K, q5_k, 256, 5, 32, 0, 1, 0, 0, 2, 4, 3)      \
    X(Q6_K, q6_k, 256, 6, 16, 32, 0, 0, 208, 1, 192, 4) \
    X(IQ4_NL, iq4_nl, 32, 4, 32, 0, 0, 1, 0, 1, 0, 0)   \
    X(IQ4_XS, iq4_xs, 256, 4, 32, 0, 0, 1, 0, 2, 4, 1)

enum { GW_MAX_ITEMS = 256, GW_MAX_SUBS = 16, GW_MAX_HEADER = 24, GW_MAX_BITS = 8 };

typedef struct {
    int type; /* GGML type number of the format */
    uint32_t items, bytes;
    uint32_t bits, sub, offset;
    bool mins;
    const int8_t *values; /* values of the format's quants; NULL: the value is quant - offset */
    uint32_t first_half, halves, first_word, words;
    void (*quants)(const uint8_t *block, uint8_t *quant);
    /* Extracts the integer sub-scales from a header: a scale is the first f16 number times its sub-scale, a min is
     * minus the second f16 number times its sub-min. NULL: the format has no sub-scales, and the f16 numbers are the
     * scale and the min. */
    void (*sub_scales)(const uint8_t *header, int8_t *scale, int8_t *min);
} gw_format;

extern const int8_t gw_iq4_values[16];

/* Returns the format of a GGML type, or NULL if the type has no row in GW_ALL_FORMATS. */
const gw_format *gw_format_of(int type);

/* Converts k items, in blocks as in a file, to floats. */
void gw_format_dequantise(const gw_format *f, const uint8_t *blocks, float *out, size_t k);

/* Returns an upper bound of the sum of the squares of k items, in blocks as in a file, from their scales and mins
 * alone: the sum of (|scale| * m + |min|)^2, where m is the greatest magnitude of a value. */
double gw_format_square(const gw_format *f, const uint8_t *blocks, size_t k);

/* Packs n <= 4 blocks, one from each row and `stride` bytes apart, into a group of 4 * f->bytes bytes; missing rows
 * become zeros. */
void gw_format_pack(const gw_format *f, const uint8_t *blocks, size_t stride, int n, uint8_t *group);

/* Copies the header of row r out of a packed group. */
void gw_format_header(const gw_format *f, const uint8_t *group, int r, uint8_t *header);

/* Unpacks row r of a packed group: one byte per quant, and the scales and mins as floats. */
void gw_format_unpack(const gw_format *f, const uint8_t *group, int r, uint8_t *quant, float *scale, float *min);

static inline int gw_format_value(const gw_format *f, uint8_t quant) {
    return f->values ? f->values[quant] : f->bits == 8 ? (int8_t)quant : quant - (int)f->offset;
}

/* Converts the unpacked quants of a block to floats. */
void gw_format_values(const gw_format *f, const uint8_t *quant, const float *scale, const float *min, float *out);

#endif
