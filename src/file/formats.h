/* formats: the block formats whose weights are codes of a few bits with scales: one table, how
 * each lies in a file, and the one layout that all of them are packed into.
 *
 * What they share: a block is codes and a front (the rest: f16 numbers and words of small scales). `sub`
 * columns have one scale, and where the format has them one min:
 *   value = scale * (code - offset) + min      or, with a list of values,      scale * values[code]
 *
 * Packed, four rows of one block lie together and keep their bytes: the f16 numbers of the front side by
 * side, then its words side by side, then for every 32 columns `bits` vectors of 16 bytes. Column
 * 4 g + i of row r is in byte 4 r + i of these; which of its bits are where, gw_fields says. Where 16 columns have
 * a scale, the words' first two bytes of all rows come before their last two: what a block needs lies together.
 *
 * Adding a type: its number below, a row in GW_FORMATS, its codes_… and smalls_… in formats.c, its
 * front_… in quants.h (NULL if read_front can do it, as for all but small scales of 32 columns), a row in
 * tools/vectors/formats.py for the test against ggml. Everything else (table of types, packing, kernels of all builds
 * and their tests, products, error texts) comes from the row.
 *
 * Source of the formats: ggml's block structs; the values are ggml's dequantize_row_*, bit for bit. */
#ifndef GW_FORMATS_H
#define GW_FORMATS_H

#include "base/base.h"

/* GGML type numbers. `blocks` are along a row: a row of k items has k / items blocks. */
enum {
    GW_F32 = 0, GW_F16 = 1, GW_Q4_0 = 2, GW_Q4_1 = 3, GW_Q5_0 = 6, GW_Q5_1 = 7, GW_Q8_0 = 8,
    GW_Q2_K = 10, GW_Q3_K = 11, GW_Q4_K = 12, GW_Q5_K = 13, GW_Q6_K = 14, GW_IQ4_NL = 20, GW_IQ4_XS = 23,
    GW_BF16 = 30,
};

/* X(NAME, name, items, bits, sub, offset, mins, table, first f16, f16s, first word, words)
 * items: columns of a block; offset: the code that is worth 0; table: codes choose from gw_iq4_values;
 * first …: byte of a file's block where they begin. */
#define GW_FORMATS(X)                                       \
    X(Q4_1, q4_1, 32, 4, 32, 0, 1, 0, 0, 2, 0, 0)           \
    X(Q5_0, q5_0, 32, 5, 32, 16, 0, 0, 0, 1, 0, 0)          \
    X(Q5_1, q5_1, 32, 5, 32, 0, 1, 0, 0, 2, 0, 0)           \
    X(Q2_K, q2_k, 256, 2, 16, 0, 1, 0, 80, 2, 0, 4)         \
    X(Q3_K, q3_k, 256, 3, 16, 4, 0, 0, 108, 1, 96, 3)       \
    X(Q4_K, q4_k, 256, 4, 32, 0, 1, 0, 0, 2, 4, 3)          \
    X(Q5_K, q5_k, 256, 5, 32, 0, 1, 0, 0, 2, 4, 3)          \
    X(Q6_K, q6_k, 256, 6, 16, 32, 0, 0, 208, 1, 192, 4)     \
    X(IQ4_NL, iq4_nl, 32, 4, 32, 0, 0, 1, 0, 1, 0, 0)       \
    X(IQ4_XS, iq4_xs, 256, 4, 32, 0, 0, 1, 0, 2, 4, 1)

enum { GW_MAX_ITEMS = 256, GW_MAX_SUBS = 16, GW_MAX_FRONT = 24, GW_MAX_BITS = 6 };

typedef struct {
    int type;                      /* GGML's number */
    uint32_t items, bytes;
    uint32_t bits, sub, offset;
    bool mins;
    const int8_t *values;          /* of the codes; NULL: code - offset */
    uint32_t first_half, halves, first_word, words;
    /* Codes of one block of a file. */
    void (*codes)(const uint8_t *block, uint8_t *code);
    /* What its f16 numbers are multiplied with: a scale is the first one times that, a min minus the second one times
     * that. front: the f16 numbers, then the words of one block. */
    void (*smalls)(const uint8_t *front, int8_t *scale, int8_t *min);
} gw_format;

extern const int8_t gw_iq4_values[16];

/* NULL if the type is none of these. */
const gw_format *gw_format_of(int type);

/* k items of blocks as a file has them, to floats. */
void gw_format_dequantise(const gw_format *f, const uint8_t *blocks, float *out, size_t k);

/* n <= 4 blocks, one of each row, `stride` bytes apart, into one packed group of 4 * bytes; the rest zero. */
void gw_format_pack(const gw_format *f, const uint8_t *blocks, size_t stride, int n, uint8_t *group);

/* Row r of a packed group: its f16 numbers and words. */
void gw_format_front(const gw_format *f, const uint8_t *group, int r, uint8_t *front);

/* The same row: its codes, scales and mins. */
void gw_format_unpack(const gw_format *f, const uint8_t *group, int r, uint8_t *code, float *scale, float *min);

/* What `items` codes are worth. */
void gw_format_values(const gw_format *f, const uint8_t *code, const float *scale, const float *min, float *out);

#endif
