/* pack_planes: packs Q8_0 in planes, and computes the norms of an output head's rows (pack.h). Rows of Q8_0 are packed
 * to a panel, which is then split. */
#include "kernels/pack.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 16, GROUPS = 8, MAX_BYTES = GW_HEAD_MAX_K / GW_BLOCK * GW_Q8_BYTES };

/* Vector types; each quarter of a vector belongs to one row of the panel. */
typedef uint16_t f16s __attribute__((vector_size(8)));
typedef int16_t halves __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(16)));

/* Sums of x (x - b), b a constant, over each row of a block, for parts x of its quants (kernels.h): n in the high
 * plane, l in the low plane, c = 4 n + m in the upper two, rest = 4 m + l in the lower two. */
typedef struct {
    halves n, rest, c, l;
} sums;

/* Adds x (x - b) of the parts x of the four quants in each 16-bit lane, which has room for a block: 16 * 32 * 31. */
static inline void add_codes(sums *s, halves up, halves down) {
    for (int shift = 0; shift < 16; shift += 4) {
        halves n = up >> shift & 15, rest = down >> shift & 15, c = 4 * n + (rest >> 2), l = rest & 3;
        s->n += n * (n - 15);
        s->rest += rest * (rest - 16);
        s->c += c * (c - 63);
        s->l += l * (l - 4);
    }
}

static inline void split_nibbles(const halves down[GROUPS / 2], uint8_t *middle, uint8_t *low) {
    const int16_t even = 0x3333, odd = (int16_t)0xcccc;
    if (!GW_MIDDLE_PLANE) memcpy(low, down, GW_LOW_BYTES);
    for (int v = 0; v < 2 && GW_MIDDLE_PLANE; v++) {
        halves first = down[2 * v], second = down[2 * v + 1];
        halves m = (first >> 2 & even) | (second & odd), l = (first & even) | (second << 2 & odd);
        memcpy(middle + LANES * v, &m, LANES);
        memcpy(low + LANES * v, &l, LANES);
    }
}

static inline void split_block(const uint8_t *in, gw_planes to, sums *s) {
    const int16_t sign = (int16_t)0x8080, upper = (int16_t)0xf0f0, lower = 0x0f0f;
    halves down[GROUPS / 2];
    for (int g = 0; g < GROUPS / 2; g++) {
        halves a, b;
        memcpy(&a, in + LANES * g, LANES);
        memcpy(&b, in + LANES * (g + 4), LANES);
        a ^= sign, b ^= sign;
        halves up = (a >> 4 & lower) | (b & upper);
        down[g] = (a & lower) | (b << 4 & upper);
        memcpy(to.high + 8 + LANES * g, &up, LANES);
        add_codes(s, up, down[g]);
    }
    split_nibbles(down, to.middle, to.low);
}

/* Returns the magnitudes of the four rows' f16 scales as floats, exactly, including infinities and NaN. */
static inline floats scales_of(const uint8_t *block) {
    f16s h;
    memcpy(&h, block, sizeof h);
    ints bits = (__builtin_convertvector(h, ints) & 0x7fff) << 13;
    bits += (bits >= 0x0f800000) & 0x70000000;
    return (floats)bits * 0x1p112f;
}

/* Adds neighbouring lanes, which belong to the same row. */
static inline ints by_row(halves sum) {
    ints pairs = (ints)sum;
    return (pairs << 16 >> 16) + (pairs >> 16);
}

/* Adds a block to the rows' sums of squares, one sum for each part less its middle: 16 n - 120 = 8 (2 n - 15),
 * rest - 8, 4 c - 126 = 2 (2 c - 63) and l - 2. */
static inline void add_squares(const uint8_t *block, const sums *s, double (*square)[GW_PANEL]) {
    floats scale = scales_of(block);
    const ints parts[GW_NORMS] = { 64 * (4 * by_row(s->n) + 225 * GW_BLOCK), by_row(s->rest) + 64 * GW_BLOCK,
                                   4 * (4 * by_row(s->c) + 3969 * GW_BLOCK), by_row(s->l) + 4 * GW_BLOCK };
    for (int i = 0; i < GW_NORMS; i++)
        for (int r = 0; r < GW_PANEL; r++) square[i][r] += (double)scale[r] * scale[r] * parts[i][r];
}

/* Returns the root of a sum of squares, rounded up: adding a millionth exceeds all rounding errors of double and
 * float. */
static float norm_of(double square) {
    double norm = sqrt(square) * (1 + 1e-6);
    return norm <= FLT_MAX ? (float)norm : INFINITY;
}

int gw_head_norms(const gw_type *type, size_t k) {
    if (k > GW_HEAD_MAX_K || !gw_format_of(type->id)) return 0;
    return type->id == GW_Q8_0 ? GW_NORMS : GW_FASTER_INT8;
}

void gw_row_norms(const gw_type *type, const uint8_t *rows, int n, size_t k, float *norms) {
    const gw_format *f = gw_format_of(type->id);
    for (int r = 0; r < GW_PANEL; r++, rows += gw_row_bytes(type, k))
        norms[r] = r < n ? norm_of(gw_format_square(f, rows, k)) : 0;
}

void gw_pack_planes(const uint8_t *rows, int n, size_t k, gw_planes to, float *norms, size_t ld) {
    uint8_t panel[MAX_BYTES];
    const uint8_t *in = panel;
    double square[GW_NORMS][GW_PANEL] = { { 0 } };
    gw_pack_panel(gw_type_of(GW_Q8_0), rows, n, k, panel);
    for (size_t b = 0; b < k / GW_BLOCK; b++, in += GW_Q8_BYTES, to = gw_planes_from(to, 1)) {
        sums s = { 0 };
        memcpy(to.high, in, 8);
        split_block(in + 8, to, &s);
        add_squares(in, &s, square);
    }
    for (int i = 0; i < GW_NORMS; i++)
        for (int r = 0; r < GW_PANEL; r++) norms[i * ld + (size_t)r] = norm_of(square[i][r]);
}

void gw_unpack_planes(gw_planes w, size_t row, size_t k, float *out) {
    size_t blocks = k / GW_BLOCK, r = row % GW_PANEL;
    w = gw_planes_from(w, row / GW_PANEL * blocks);
    for (size_t b = 0; b < blocks; b++, w = gw_planes_from(w, 1), out += GW_BLOCK) {
        float d = gw_f16_to_f32((uint16_t)(w.high[2 * r] | w.high[2 * r + 1] << 8));
        for (int c = 0; c < GW_BLOCK; c++) out[c] = (float)(gw_planes_code(w, (int)r, c) - 128) * d;
    }
}
