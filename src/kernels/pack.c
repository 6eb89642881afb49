/* pack: see pack.h. The layouts of this table are the same transposition: for each block, the heads
 * (scales) of the four rows side by side, then word by word the bodies side by side. formats.c
 * packs the types of its own table. */
#include "kernels/pack.h"
#include "kernels/kernels.h"
#include "file/formats.h"

#include <string.h>

enum { MAX_BLOCK = 64 };

static const struct layout { int type; uint32_t front, word; } layouts[] = {
    { GW_F32, 0, 4 }, { GW_F16, 0, 2 }, { GW_BF16, 0, 2 }, { GW_Q4_0, 2, 4 }, { GW_Q8_0, 2, 4 },
};

static const struct layout *layout_of(const gw_type *type) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (type && layouts[i].type == type->id) return &layouts[i];
    return NULL;
}

bool gw_can_pack(const gw_type *type) { return type && (layout_of(type) || gw_format_of(type->id)); }

uint64_t gw_packed_bytes(const gw_type *type, size_t rows, size_t k) {
    return gw_times(gw_round_up(rows, GW_PANEL), gw_row_bytes(type, k));
}

/* One row into its place among four. Called with constant front and word, so the copies unroll. */
static inline void pack_row(const uint8_t *in, uint8_t *out, size_t r, size_t blocks, uint32_t bytes,
                            uint32_t front, uint32_t word) {
    for (size_t b = 0; b < blocks; b++, in += bytes, out += GW_PANEL * bytes) {
        memcpy(out + r * front, in, front);
        for (uint32_t at = front; at < bytes; at += word) memcpy(out + GW_PANEL * at + r * word, in + at, word);
    }
}

typedef uint32_t words __attribute__((vector_size(16)));

static inline words load_words(const uint8_t *p) {
    words w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Four words of each of four rows, word by word side by side. */
static inline void transpose(const uint8_t *in, size_t row_bytes, uint8_t *out) {
    words a = load_words(in), b = load_words(in + row_bytes);
    words c = load_words(in + 2 * row_bytes), d = load_words(in + 3 * row_bytes);
    words to[] = { { a[0], b[0], c[0], d[0] }, { a[1], b[1], c[1], d[1] },
                   { a[2], b[2], c[2], d[2] }, { a[3], b[3], c[3], d[3] } };
    memcpy(out, to, sizeof to);
}

/* Whole panels of blocks that are a half-width scale and some sixteens of bytes. Called with constant bytes. */
static inline void pack_four(const uint8_t *rows, size_t row_bytes, size_t blocks, uint32_t bytes, uint8_t *out) {
    for (size_t b = 0; b < blocks; b++, rows += bytes, out += GW_PANEL * bytes) {
        for (size_t r = 0; r < GW_PANEL; r++) memcpy(out + 2 * r, rows + r * row_bytes, 2);
        for (uint32_t at = 2; at < bytes; at += sizeof(words)) transpose(rows + at, row_bytes, out + GW_PANEL * at);
    }
}

void gw_pack_panel(const gw_type *type, const uint8_t *rows, int n, size_t k, uint8_t *panel) {
    const struct layout *l = layout_of(type);
    size_t row_bytes = gw_row_bytes(type, k), blocks = k / type->items;
    if (!l) {
        const gw_format *f = gw_format_of(type->id);
        for (size_t b = 0; b < blocks; b++)
            gw_format_pack(f, rows + b * f->bytes, row_bytes, n, panel + b * GW_PANEL * f->bytes);
        return;
    }
    if (n == GW_PANEL && l->front) {
        if (type->id == GW_Q4_0) pack_four(rows, row_bytes, blocks, GW_Q4_BYTES / GW_PANEL, panel);
        else pack_four(rows, row_bytes, blocks, GW_Q8_BYTES / GW_PANEL, panel);
        return;
    }
    if (n < GW_PANEL) memset(panel, 0, GW_PANEL * row_bytes);
    for (int r = 0; r < n; r++) {
        const uint8_t *in = rows + r * row_bytes;
        if (l->front) pack_row(in, panel, r, blocks, type->bytes, 2, 4);
        else if (l->word == 4) pack_row(in, panel, r, blocks, type->bytes, 0, 4);
        else pack_row(in, panel, r, blocks, type->bytes, 0, 2);
    }
}

/* --- what is not finite --- */

/* Numbers of `words` times eight bytes at the beginning of each of n blocks. In an exponent of ones a carry from its
 * lowest bit goes through to the sign's place. */
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
    switch (type->id) {
    case GW_F32: return finite_words(rows, words, 8, 1, F32_EXPONENT) && finite_words(end, 1, 8, 1, F32_EXPONENT);
    case GW_F16: return finite_words(rows, words, 8, 1, F16_EXPONENT) && finite_words(end, 1, 8, 1, F16_EXPONENT);
    default: return finite_words(rows, words, 8, 1, BF16_EXPONENT) && finite_words(end, 1, 8, 1, BF16_EXPONENT);
    }
}

bool gw_planes_finite(const uint8_t *high, size_t k) {
    return finite_words(high, k / GW_BLOCK, GW_HIGH_BYTES, 1, F16_EXPONENT);
}

bool gw_panel_finite(const gw_type *type, const uint8_t *panel, size_t k) {
    const gw_format *f = gw_format_of(type->id);
    size_t blocks = k / type->items, bytes = GW_PANEL * type->bytes;
    if (type->items == 1) return gw_rows_finite(type, panel, GW_PANEL, k);
    /* The second half-word of types with a table is bits of small scales, no number. */
    if (f) return finite_words(panel, blocks, bytes, f->values ? 1 : f->halves, F16_EXPONENT);
    return type->id == GW_Q4_0 ? finite_words(panel, blocks, GW_Q4_BYTES, 1, F16_EXPONENT)
                               : finite_words(panel, blocks, GW_Q8_BYTES, 1, F16_EXPONENT);
}

const gw_type *gw_packed_type(const gw_type *type, size_t k, bool floats_to_q8) {
    return floats_to_q8 && type->items == 1 && k % GW_BLOCK == 0 ? gw_type_of(GW_Q8_0) : type;
}

void gw_round_rows(const gw_type *from, uint8_t *rows, int n, size_t k) {
    gw_round_kernel *round = from->id == GW_F32 ? GW_KERNEL(round_f32)
                           : from->id == GW_F16 ? GW_KERNEL(round_f16) : GW_KERNEL(round_bf16);
    size_t before = gw_row_bytes(from, k), after = gw_row_bytes(gw_type_of(GW_Q8_0), k);
    for (int r = 0; r < n; r++) round(rows + r * before, k, rows + r * after);
}

static void unpack_format(const gw_format *f, const uint8_t *in, int r, size_t k, float *out) {
    uint8_t code[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS];
    for (size_t i = 0; i < k; i += f->items, in += GW_PANEL * f->bytes) {
        gw_format_unpack(f, in, r, code, scale, min);
        gw_format_values(f, code, scale, min, out + i);
    }
}

void gw_unpack_row(const gw_type *type, const uint8_t *panels, size_t row, size_t k, float *out) {
    const struct layout *l = layout_of(type);
    const uint8_t *in = panels + row / GW_PANEL * GW_PANEL * gw_row_bytes(type, k);
    size_t r = row % GW_PANEL;
    if (!l) {
        unpack_format(gw_format_of(type->id), in, (int)r, k, out);
        return;
    }
    uint8_t block[MAX_BLOCK];
    for (size_t b = 0; b < k / type->items; b++, in += GW_PANEL * type->bytes, out += type->items) {
        memcpy(block, in + r * l->front, l->front);
        for (uint32_t at = l->front; at < type->bytes; at += l->word)
            memcpy(block + at, in + GW_PANEL * at + r * l->word, l->word);
        type->dequantise(block, out, type->items);
    }
}
