/* formats: see formats.h. Packing must keep up with a download, so the loops are scalar loops over bytes that compilers
 * vectorise. */
#include "file/formats.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, COLUMNS = 32, LANES = 16, GROUPS = 8 };

const int8_t gw_iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

/* --- quants: assembled from the bits of one block of a file --- */

/* Unpacks 32 quants of 4 bits: the low halves of 16 bytes, then the high halves. */
static void nibbles(const uint8_t *in, uint8_t *quant) {
    for (int i = 0; i < 16; i++) {
        quant[i] = in[i] & 15;
        quant[i + 16] = in[i] >> 4;
    }
}

static void fifth_bits(const uint8_t *in, uint8_t *quant) { /* sets the fifth bit of quant i to bit i of `in` */
    for (int i = 0; i < 32; i++) quant[i] |= (uint8_t)((in[i / 8] >> i % 8 & 1) << 4);
}

static void quants_q4(const uint8_t *block, uint8_t *quant) { nibbles(block + 2, quant); }
static void quants_q8(const uint8_t *block, uint8_t *quant) { memcpy(quant, block + 2, 32); }
static void quants_q4_1(const uint8_t *block, uint8_t *quant) { nibbles(block + 4, quant); }
#define quants_iq4_nl quants_q4

static void quants_q5_0(const uint8_t *block, uint8_t *quant) {
    nibbles(block + 6, quant);
    fifth_bits(block + 2, quant);
}

static void quants_q5_1(const uint8_t *block, uint8_t *quant) {
    nibbles(block + 8, quant);
    fifth_bits(block + 4, quant);
}

/* Unpacks 256 quants of 2 bits: each half of a block has 32 bytes of four 2-bit fields; field j holds columns 32 j to
 * 32 j + 31 of the half. */
static void pairs(const uint8_t *in, uint8_t *quant) {
    for (int h = 0; h < 2; h++)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++) quant[128 * h + 32 * j + i] = in[32 * h + i] >> 2 * j & 3;
}

static void quants_q2_k(const uint8_t *block, uint8_t *quant) { pairs(block + 16, quant); }

/* Unpacks Q3_K, whose first 32 bytes of a block hold the third bit of each quant. */
static void quants_q3_k(const uint8_t *block, uint8_t *quant) {
    pairs(block + 32, quant);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) quant[32 * j + i] |= (uint8_t)((block[i] >> j & 1) << 2);
}

/* Unpacks 256 quants of 4 bits: of every 32 bytes, the low halves, then the high halves. */
static void long_nibbles(const uint8_t *in, uint8_t *quant) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 32; i++) {
            quant[64 * j + i] = in[32 * j + i] & 15;
            quant[64 * j + 32 + i] = in[32 * j + i] >> 4;
        }
}

static void quants_q4_k(const uint8_t *block, uint8_t *quant) { long_nibbles(block + 16, quant); }

static void quants_q5_k(const uint8_t *block, uint8_t *quant) {
    long_nibbles(block + 48, quant);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) quant[32 * j + i] |= (uint8_t)((block[16 + i] >> j & 1) << 4);
}

static void quants_q6_k(const uint8_t *block, uint8_t *quant) {
    for (int h = 0; h < 2; h++) {
        const uint8_t *low = block + 64 * h, *high = block + 128 + 32 * h;
        for (int i = 0; i < 64; i++) {
            quant[128 * h + i] = (uint8_t)((low[i] & 15) | (high[i % 32] >> i / 32 * 2 & 3) << 4);
            quant[128 * h + 64 + i] = (uint8_t)(low[i] >> 4 | (high[i % 32] >> (4 + i / 32 * 2) & 3) << 4);
        }
    }
}

static void quants_iq4_xs(const uint8_t *block, uint8_t *quant) {
    for (int j = 0; j < 8; j++) nibbles(block + 8 + 16 * j, quant + 32 * j);
}

/* --- sub-scales, extracted from the header of one row --- */

#define sub_scales_q4 NULL
#define sub_scales_q8 NULL
#define sub_scales_q4_1 NULL
#define sub_scales_q5_0 NULL
#define sub_scales_q5_1 NULL
#define sub_scales_iq4_nl NULL
#define sub_scales_q5_k sub_scales_q4_k

static void sub_scales_q2_k(const uint8_t *header, int8_t *scale, int8_t *min) {
    for (int i = 0; i < 16; i++) {
        scale[i] = (int8_t)(header[4 + i] & 15);
        min[i] = (int8_t)(header[4 + i] >> 4);
    }
}

static void sub_scales_q3_k(const uint8_t *header, int8_t *scale, int8_t *min) {
    const uint8_t *low = header + 2, *high = header + 10; /* low 4 bits and high 2 bits of 16 Q3_K sub-scales */
    (void)min;
    for (int i = 0; i < 16; i++) {
        int six = (i < 8 ? low[i] & 15 : low[i - 8] >> 4) | (high[i % 4] >> i / 4 * 2 & 3) << 4;
        scale[i] = (int8_t)(six - 32);
    }
}

/* Extracts 8 scales and 8 mins of 6 bits. The first four scales are the low six bits of a byte each, and the top two
 * bits of these bytes belong to the last four scales; mins are stored likewise. */
static void sub_scales_q4_k(const uint8_t *header, int8_t *scale, int8_t *min) {
    const uint8_t *a = header + 4, *b = header + 8, *c = header + 12;
    for (int i = 0; i < 4; i++) {
        scale[i] = (int8_t)(a[i] & 63);
        min[i] = (int8_t)(b[i] & 63);
        scale[4 + i] = (int8_t)((c[i] & 15) | a[i] >> 6 << 4);
        min[4 + i] = (int8_t)(c[i] >> 4 | b[i] >> 6 << 4);
    }
}

static void sub_scales_q6_k(const uint8_t *header, int8_t *scale, int8_t *min) {
    (void)min;
    memcpy(scale, header + 2, 16);
}

static void sub_scales_iq4_xs(const uint8_t *header, int8_t *scale, int8_t *min) {
    int high = gw_load16(header + 2); /* top 2 bits of eight sub-scales, stored where other formats have a second f16 */
    (void)min;
    for (int i = 0; i < 8; i++) {
        int six = (header[4 + i / 2] >> i % 2 * 4 & 15) | (high >> 2 * i & 3) << 4;
        scale[i] = (int8_t)(six - 32);
    }
}

static void scales_of(const gw_format *f, const uint8_t *header, float *scale, float *min) {
    int8_t sub[GW_MAX_SUBS], sub_min[GW_MAX_SUBS];
    float d = gw_f16_to_f32(gw_load16(header)), m = f->mins ? gw_f16_to_f32(gw_load16(header + 2)) : 0;
    scale[0] = d, min[0] = m;
    if (!f->sub_scales) return;
    f->sub_scales(header, sub, sub_min);
    for (uint32_t i = 0; i < f->items / f->sub; i++) {
        scale[i] = d * (float)sub[i];
        min[i] = f->mins ? -(m * (float)sub_min[i]) : 0;
    }
}

/* --- table of formats --- */

#define ROW(NAME, name, items, bits, sub, offset, mins, table, first_half, halves, first_word, words) \
    { GW_##NAME,                                                                                      \
      items,                                                                                          \
      items * bits / 8 + 2 * halves + 4 * words,                                                      \
      bits,                                                                                           \
      sub,                                                                                            \
      offset,                                                                                         \
      mins,                                                                                           \
      (table) ? gw_iq4_values : NULL,                                                                 \
      first_half,                                                                                     \
      halves,                                                                                         \
      first_word,                                                                                     \
      words,                                                                                          \
      quants_##name,                                                                                  \
      sub_scales_##name },

static const gw_format formats[] = { GW_ALL_FORMATS(ROW) };

const gw_format *gw_format_of(int type) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type) return &formats[i];
    return NULL;
}

void gw_format_values(const gw_format *f, const uint8_t *quant, const float *scale, const float *min, float *out) {
    for (uint32_t s = 0; s < f->items / f->sub; s++)
        for (uint32_t i = s * f->sub; i < (s + 1) * f->sub; i++) {
            out[i] = scale[s] * (float)gw_format_value(f, quant[i]);
            if (f->mins) out[i] += min[s]; /* a format without mins must not add 0, which would turn -0 into +0 */
        }
}

static void block_scales(const gw_format *f, const uint8_t *block, float *scale, float *min) {
    uint8_t header[GW_MAX_HEADER];
    memcpy(header, block + f->first_half, 2 * f->halves);
    memcpy(header + 2 * f->halves, block + f->first_word, 4 * f->words);
    scales_of(f, header, scale, min);
}

double gw_format_square(const gw_format *f, const uint8_t *blocks, size_t k) {
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS], most = f->values ? 127 : (float)(1u << (f->bits - 1));
    double square = 0;
    if (f->mins) most = (float)((1u << f->bits) - 1);
    for (size_t i = 0; i < k; i += f->items, blocks += f->bytes) {
        block_scales(f, blocks, scale, min);
        for (uint32_t s = 0; s < f->items / f->sub; s++) {
            double value = fabsf(scale[s]) * most + fabsf(min[s]);
            square += f->sub * value * value;
        }
    }
    return square;
}

void gw_format_dequantise(const gw_format *f, const uint8_t *blocks, float *out, size_t k) {
    uint8_t quant[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS];
    for (size_t i = 0; i < k; i += f->items, blocks += f->bytes) {
        block_scales(f, blocks, scale, min);
        f->quants(blocks, quant);
        gw_format_values(f, quant, scale, min, out + i);
    }
}

/* --- packed --- */

/* A bit field of a packed block. The block consists of 16-byte vectors. The field stores n bits of 16 quants (columns
 * 4 g … 4 g + 3 of the four rows) in vector v, one quant per byte. The bits start at bit `at` of the quant and at bit
 * `to` of the byte. Most quants have one field. In formats of 3, 5 and 6 bits, the quants of the last columns are split
 * into several fields, which fill the unused high bits of the bytes. */
typedef struct {
    uint8_t g, at, v, to, n;
} field;

static const field fields[GW_MAX_BITS + 1][13] = {
    [2] = { { 0, 0, 0, 0, 2 },
            { 1, 0, 0, 2, 2 },
            { 2, 0, 0, 4, 2 },
            { 3, 0, 0, 6, 2 },
            { 4, 0, 1, 0, 2 },
            { 5, 0, 1, 2, 2 },
            { 6, 0, 1, 4, 2 },
            { 7, 0, 1, 6, 2 } },
    [3] = { { 0, 0, 0, 0, 3 },
            { 1, 0, 1, 0, 3 },
            { 2, 0, 2, 0, 3 },
            { 3, 0, 0, 3, 3 },
            { 4, 0, 1, 3, 3 },
            { 5, 0, 2, 3, 3 },
            { 6, 0, 0, 6, 2 },
            { 6, 2, 2, 6, 1 },
            { 7, 0, 1, 6, 2 },
            { 7, 2, 2, 7, 1 } },
    [4] = { { 0, 0, 0, 0, 4 },
            { 1, 0, 1, 0, 4 },
            { 2, 0, 2, 0, 4 },
            { 3, 0, 3, 0, 4 },
            { 4, 0, 0, 4, 4 },
            { 5, 0, 1, 4, 4 },
            { 6, 0, 2, 4, 4 },
            { 7, 0, 3, 4, 4 } },
    [5] = { { 0, 0, 0, 0, 5 },
            { 1, 0, 1, 0, 5 },
            { 2, 0, 2, 0, 5 },
            { 3, 0, 3, 0, 5 },
            { 4, 0, 4, 0, 5 },
            { 5, 0, 0, 5, 3 },
            { 5, 3, 3, 5, 2 },
            { 6, 0, 1, 5, 3 },
            { 6, 3, 4, 5, 2 },
            { 7, 0, 2, 5, 3 },
            { 7, 3, 3, 7, 1 },
            { 7, 4, 4, 7, 1 } },
    [6] = { { 0, 0, 0, 0, 6 },
            { 1, 0, 1, 0, 6 },
            { 2, 0, 2, 0, 6 },
            { 3, 0, 3, 0, 6 },
            { 4, 0, 4, 0, 6 },
            { 5, 0, 5, 0, 6 },
            { 6, 0, 0, 6, 2 },
            { 6, 2, 1, 6, 2 },
            { 6, 4, 2, 6, 2 },
            { 7, 0, 3, 6, 2 },
            { 7, 2, 4, 6, 2 },
            { 7, 4, 5, 6, 2 } },
    [8] = { { 0, 0, 0, 0, 8 },
            { 1, 0, 1, 0, 8 },
            { 2, 0, 2, 0, 8 },
            { 3, 0, 3, 0, 8 },
            { 4, 0, 4, 0, 8 },
            { 5, 0, 5, 0, 8 },
            { 6, 0, 6, 0, 8 },
            { 7, 0, 7, 0, 8 } },
};

/* Packs 32 columns of four rows into `bits` vectors. The quants are bytes in the order of the unpacked vectors. */
static void join(uint32_t bits, uint8_t (*quant)[LANES], uint8_t *out) {
    memset(out, 0, LANES * bits);
    for (const field *x = fields[bits]; x->n; x++) {
        uint8_t *v = out + LANES * x->v, *c = quant[x->g], mask = (uint8_t)((1 << x->n) - 1), at = x->at, to = x->to;
        for (int l = 0; l < LANES; l++) v[l] |= (uint8_t)((c[l] >> at & mask) << to);
    }
}

/* Unpacks 32 columns of row r from `bits` packed vectors. */
static void split(uint32_t bits, const uint8_t *in, int r, uint8_t *quant) {
    memset(quant, 0, COLUMNS);
    for (const field *x = fields[bits]; x->n; x++)
        for (int i = 0; i < 4; i++) {
            int byte = in[LANES * x->v + 4 * r + i];
            quant[4 * x->g + i] |= (uint8_t)((byte >> x->to & ((1 << x->n) - 1)) << x->at);
        }
}

/* Returns the offset of byte b of word i of row r among the words of a packed group (layout: formats.h). */
static size_t place_of(const gw_format *f, uint32_t i, int r, int b) {
    size_t in_word = f->sub == 16 ? 8 * (b / 2) + 2 * r + b % 2 : 4 * r + b;
    return 4 * ROWS * i + in_word;
}

void gw_format_pack(const gw_format *f, const uint8_t *blocks, size_t stride, int n, uint8_t *group) {
    uint8_t quant[GW_MAX_ITEMS], lanes[GW_MAX_ITEMS / 4][LANES];
    uint8_t *words = group + 2 * ROWS * f->halves, *quants = words + 4 * ROWS * f->words;
    if (n < ROWS) memset(group, 0, ROWS * f->bytes), memset(lanes, 0, sizeof lanes);
    for (int r = 0; r < n; r++) {
        const uint8_t *block = blocks + r * stride;
        for (uint32_t i = 0; i < f->halves; i++) memcpy(group + 2 * (ROWS * i + r), block + f->first_half + 2 * i, 2);
        for (uint32_t i = 0; i < f->words; i++)
            for (int b = 0; b < 4; b++) words[place_of(f, i, r, b)] = block[f->first_word + 4 * i + b];
        f->quants(block, quant);
        for (uint32_t g = 0; g < f->items / 4; g++) memcpy(lanes[g] + 4 * r, quant + 4 * g, 4);
    }
    for (uint32_t b = 0; b < f->items / COLUMNS; b++) join(f->bits, lanes + GROUPS * b, quants + LANES * f->bits * b);
}

void gw_format_header(const gw_format *f, const uint8_t *group, int r, uint8_t *header) {
    const uint8_t *words = group + 2 * ROWS * f->halves;
    for (uint32_t i = 0; i < f->halves; i++) memcpy(header + 2 * i, group + 2 * (ROWS * i + r), 2);
    for (uint32_t i = 0; i < f->words; i++)
        for (int b = 0; b < 4; b++) header[2 * f->halves + 4 * i + b] = words[place_of(f, i, r, b)];
}

void gw_format_unpack(const gw_format *f, const uint8_t *group, int r, uint8_t *quant, float *scale, float *min) {
    uint8_t header[GW_MAX_HEADER];
    const uint8_t *quants = group + ROWS * (2 * f->halves + 4 * f->words);
    gw_format_header(f, group, r, header);
    scales_of(f, header, scale, min);
    for (uint32_t b = 0; b < f->items / COLUMNS; b++)
        split(f->bits, quants + LANES * f->bits * b, r, quant + COLUMNS * b);
}
