/* pack_planes: packs Q8_0 in two planes, see pack.h and kernels.h. Rows are packed to a panel of Q8_0, which is then
 * split. */
#include "kernels/pack.h"
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 16, GROUPS = 8, MAX_BYTES = GW_PLANES_MAX_K / GW_BLOCK * GW_Q8_BYTES };

/* Vector types; each quarter of a vector belongs to one row of the panel. */
typedef uint16_t f16s __attribute__((vector_size(8)));
typedef int16_t halves __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(16)));

/* Sums of squares of the rows of a panel, for each plane. */
typedef struct {
    double high[GW_PANEL], low[GW_PANEL];
} squares;

/* Adds x (x - zero) to each lane, for each of the four nibbles x in the lane. */
static inline halves add_products(halves sum, halves bytes, int zero) {
    for (int shift = 0; shift < 16; shift += 4) {
        halves x = bytes >> shift & 15;
        sum += x * (x - (int16_t)zero);
    }
    return sum;
}

/* Splits a block of four rows; adds n (n - 15) of the upper nibbles n and l (l - 16) of the lower nibbles l to the
 * sums. */
static inline void split_block(const uint8_t *in, uint8_t *high, uint8_t *low, halves *n, halves *l) {
    const int16_t sign = (int16_t)0x8080, upper = (int16_t)0xf0f0, lower = 0x0f0f;
    for (int g = 0; g < GROUPS / 2; g++) {
        halves a, b;
        memcpy(&a, in + LANES * g, LANES);
        memcpy(&b, in + LANES * (g + 4), LANES);
        a ^= sign, b ^= sign;
        halves up = (a >> 4 & lower) | (b & upper), down = (a & lower) | (b << 4 & upper);
        memcpy(high + LANES * g, &up, LANES);
        memcpy(low + LANES * g, &down, LANES);
        *n = add_products(*n, up, 15);
        *l = add_products(*l, down, 16);
    }
}

/* Returns the magnitudes of the four rows' scales: exact; infinities and NaN are kept. */
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

/* Adds a block's squares to the sums: 16 n - 120 = 8 (2 n - 15), (2 n - 15)^2 = 4 n (n - 15) + 225, and
 * (l - 8)^2 = l (l - 16) + 64. */
static inline void add_squares(const uint8_t *block, halves n, halves l, squares *s) {
    floats scale = scales_of(block);
    ints high = 4 * by_row(n) + 225 * GW_BLOCK, low = by_row(l) + 64 * GW_BLOCK;
    for (int r = 0; r < GW_PANEL; r++) {
        double d = scale[r];
        s->high[r] += d * d * 64 * high[r];
        s->low[r] += d * d * low[r];
    }
}

/* Returns the root of a sum of squares, rounded up: adding a millionth exceeds all rounding errors of double and
 * float. */
static float norm_of(double square) {
    double norm = sqrt(square) * (1 + 1e-6);
    return norm <= FLT_MAX ? (float)norm : INFINITY;
}

bool gw_planes_fit(const gw_type *type, size_t k) { return type->id == GW_Q8_0 && k <= GW_PLANES_MAX_K; }

void gw_pack_planes(const uint8_t *rows, int n, size_t k, uint8_t *high, uint8_t *low, float *high_norm,
                    float *low_norm) {
    uint8_t panel[MAX_BYTES];
    const uint8_t *in = panel;
    squares sum = { 0 };
    gw_pack_panel(gw_type_of(GW_Q8_0), rows, n, k, panel);
    for (size_t b = 0; b < k / GW_BLOCK; b++, in += GW_Q8_BYTES, high += GW_HIGH_BYTES, low += GW_LOW_BYTES) {
        halves n = { 0 }, l = { 0 };
        memcpy(high, in, 8);
        split_block(in + 8, high + 8, low, &n, &l);
        add_squares(in, n, l, &sum);
    }
    for (int r = 0; r < GW_PANEL; r++) {
        high_norm[r] = norm_of(sum.high[r]);
        low_norm[r] = norm_of(sum.low[r]);
    }
}

void gw_unpack_planes(const uint8_t *high, const uint8_t *low, size_t row, size_t k, float *out) {
    size_t blocks = k / GW_BLOCK, panel = row / GW_PANEL, r = row % GW_PANEL;
    high += panel * blocks * GW_HIGH_BYTES;
    low += panel * blocks * GW_LOW_BYTES;
    for (size_t b = 0; b < blocks; b++, high += GW_HIGH_BYTES, low += GW_LOW_BYTES, out += GW_BLOCK) {
        float d = gw_f16_to_f32((uint16_t)(high[2 * r] | high[2 * r + 1] << 8));
        for (int c = 0; c < GW_BLOCK; c++) {
            size_t at = c % 16 / 4 * LANES + 4 * r + c % 4;
            int shift = c < 16 ? 0 : 4, code = (high[8 + at] >> shift & 15) * 16 + (low[at] >> shift & 15) - 128;
            out[c] = (float)code * d;
        }
    }
}
