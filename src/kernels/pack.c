/* pack: see pack.h. Packing transposes: a block of a panel has the scales of the four rows side by side, then the
 * quants, one 32-bit word of each row in turn. formats.c packs quantised formats in general; whole panels of Q4_0 and
 * Q8_0 have a fast path here. */
#include "kernels/pack.h"

#include <string.h>

uint64_t gw_packed_bytes(const gw_type *type, size_t rows, size_t k) {
    return gw_times(gw_round_up(rows, GW_PANEL), gw_row_bytes(type, k));
}

/* Copies a row of floats into a panel. Called with a constant size, so that each copy compiles to a load and a
 * store. */
static inline void pack_floats(const uint8_t *in, uint8_t *out, size_t k, size_t size) {
    for (size_t i = 0; i < k; i++, in += size, out += GW_PANEL * size) memcpy(out, in, size);
}

typedef uint32_t words __attribute__((vector_size(16)));

static inline words load_words(const uint8_t *p) {
    words w;
    memcpy(&w, p, sizeof w);
    return w;
}

static inline void transpose(const uint8_t *in, size_t row_bytes, uint8_t *out) {
    words a = load_words(in), b = load_words(in + row_bytes);
    words c = load_words(in + 2 * row_bytes), d = load_words(in + 3 * row_bytes);
    words to[] = {
        { a[0], b[0], c[0], d[0] }, { a[1], b[1], c[1], d[1] }, { a[2], b[2], c[2], d[2] }, { a[3], b[3], c[3], d[3] }
    };
    memcpy(out, to, sizeof to);
}

/* Packs a whole panel of a format whose blocks are an f16 scale and a multiple of 16 bytes. Called with a constant
 * number of bytes, so that the compiler can unroll the loops. */
static inline void pack_four(const uint8_t *rows, size_t row_bytes, size_t blocks, uint32_t bytes, uint8_t *out) {
    for (size_t b = 0; b < blocks; b++, rows += bytes, out += GW_PANEL * bytes) {
        for (size_t r = 0; r < GW_PANEL; r++) memcpy(out + 2 * r, rows + r * row_bytes, 2);
        for (uint32_t at = 2; at < bytes; at += sizeof(words)) transpose(rows + at, row_bytes, out + GW_PANEL * at);
    }
}

void gw_pack_panel(const gw_type *type, const uint8_t *rows, int n, size_t k, uint8_t *panel) {
    const gw_format *f = gw_format_of(type->id);
    size_t row_bytes = gw_row_bytes(type, k), blocks = k / type->items;
    if (n == GW_PANEL && type->id == GW_Q4_0) pack_four(rows, row_bytes, blocks, GW_Q4_BYTES / GW_PANEL, panel);
    else if (n == GW_PANEL && type->id == GW_Q8_0) pack_four(rows, row_bytes, blocks, GW_Q8_BYTES / GW_PANEL, panel);
    else if (f)
        for (size_t b = 0; b < blocks; b++)
            gw_format_pack(f, rows + b * f->bytes, row_bytes, n, panel + b * GW_PANEL * f->bytes);
    else {
        if (n < GW_PANEL) memset(panel, 0, GW_PANEL * row_bytes);
        for (int r = 0; r < n; r++, rows += row_bytes) {
            if (type->bytes == 4) pack_floats(rows, panel + 4 * r, k, 4);
            else pack_floats(rows, panel + 2 * r, k, 2);
        }
    }
}

/* Returns whether all numbers in the first `words` 8-byte words of each of n blocks are finite. Adding 1 to an exponent
 * whose bits are all ones carries into the sign bit, which is tested. */
static inline bool finite_words(const uint8_t *at, size_t n, size_t bytes, size_t words, uint64_t exponent,
                                uint64_t one) {
    uint64_t sign = exponent + one, wild = 0, w;
    for (size_t b = 0; b < n; b++, at += bytes)
        for (size_t i = 0; i < words; i++) {
            memcpy(&w, at + i * sizeof w, sizeof w);
            wild |= ((w & exponent) + one) & sign;
        }
    return !wild;
}

#define F16_EXPONENT 0x7c007c007c007c00u, 0x0400040004000400u
#define BF16_EXPONENT 0x7f807f807f807f80u, 0x0080008000800080u
#define F32_EXPONENT 0x7f8000007f800000u, 0x0080000000800000u

bool gw_rows_finite(const gw_type *type, const uint8_t *rows, size_t n, size_t k) {
    size_t bytes = n * gw_row_bytes(type, k), words = bytes / 8;
    uint8_t end[8] = { 0 };
    memcpy(end, rows + words * 8, bytes % 8);
#define FINITE(exponent) (finite_words(rows, words, 8, 1, exponent) && finite_words(end, 1, 8, 1, exponent))
    if (type->id == GW_F32) return FINITE(F32_EXPONENT);
    return type->id == GW_F16 ? FINITE(F16_EXPONENT) : FINITE(BF16_EXPONENT);
#undef FINITE
}

bool gw_planes_finite(const uint8_t *high, size_t k) {
    return finite_words(high, k / GW_BLOCK, GW_HIGH_BYTES, 1, F16_EXPONENT);
}

bool gw_panel_finite(const gw_type *type, const uint8_t *panel, size_t k) {
    const gw_format *f = gw_format_of(type->id);
    size_t blocks = k / type->items, bytes = GW_PANEL * type->bytes;
    if (!f) return gw_rows_finite(type, panel, GW_PANEL, k);
    /* In formats with a table of values (IQ4), the second 16-bit word holds bits of sub-scales, not a float. */
    return finite_words(panel, blocks, bytes, f->values ? 1 : f->halves, F16_EXPONENT);
}

const gw_type *gw_packed_type(const gw_type *type, size_t k, bool floats_to_q8) {
    return floats_to_q8 && type->items == 1 && k % GW_BLOCK == 0 ? gw_type_of(GW_Q8_0) : type;
}

void gw_round_rows(const gw_type *from, uint8_t *rows, int n, size_t k) {
    gw_round_kernel *round = from->id == GW_F32   ? GW_KERNEL(round_f32)
                             : from->id == GW_F16 ? GW_KERNEL(round_f16)
                                                  : GW_KERNEL(round_bf16);
    size_t before = gw_row_bytes(from, k), after = gw_row_bytes(gw_type_of(GW_Q8_0), k);
    for (int r = 0; r < n; r++) round(rows + r * before, k, rows + r * after);
}

void gw_unpack_row(const gw_type *type, const uint8_t *panels, size_t row, size_t k, float *out) {
    const gw_format *f = gw_format_of(type->id);
    const uint8_t *in = panels + row / GW_PANEL * GW_PANEL * gw_row_bytes(type, k);
    size_t r = row % GW_PANEL;
    uint8_t quant[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS];
    for (size_t i = 0; i < k; i += type->items, in += GW_PANEL * type->bytes) {
        if (!f) {
            type->dequantise(in + r * type->bytes, out + i, 1);
            continue;
        }
        gw_format_unpack(f, in, (int)r, quant, scale, min);
        gw_format_values(f, quant, scale, min, out + i);
    }
}
