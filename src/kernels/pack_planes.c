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

/* The norms need the squares of x - b / 2 for three parts x of each quant: the nibble n of the high plane (b = 15), the
 * nibble 4 m + l (b = 16), and l (b = 4); see kernels.h. Such a square is (b / 2)^2 - x (b - x), so only x (b - x) is
 * added up, which is at most 64. */
typedef halves sums[GW_NORMS]; /* sums of x (b - x) over the columns of a block, one for each norm */

/* For each part x: the bits of a nibble that contain x, and b. */
static const int16_t part_bits[] = { 15, 15, 3 }, part_base[] = { 15, 16, 4 };

/* Returns for each lane the sum of x * (b - x) over part number i of its nibbles. Does not look them up in a table: on
 * x86 without AVX, the baseline compiler of V8 11.3 (Node 20) gives i8x16.swizzle wrong indices. A wrong norm could
 * exclude the right token, and no check at load covers the norms. Inlined copies would make the module larger. */
__attribute__((noinline)) static halves sum_of(int i, const halves nibbles[GROUPS / 2]) {
    halves sum = { 0 };
#ifdef __clang__
#pragma nounroll
#endif
    for (int g = 0; g < GROUPS / 2; g++) {
        for (int shift = 0; shift < 16; shift += 4) {
            halves x = nibbles[g] >> shift & part_bits[i];
            sum += x * (part_base[i] - x);
        }
    }
    return sum;
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

static inline void split_block(const uint8_t *in, gw_planes to, sums s) {
    const int16_t sign = (int16_t)0x8080, upper = (int16_t)0xf0f0, lower = 0x0f0f;
    halves up[GROUPS / 2], down[GROUPS / 2];
    for (int g = 0; g < GROUPS / 2; g++) {
        halves a, b;
        memcpy(&a, in + LANES * g, LANES);
        memcpy(&b, in + LANES * (g + 4), LANES);
        a ^= sign, b ^= sign;
        up[g] = (a >> 4 & lower) | (b & upper);
        down[g] = (a & lower) | (b << 4 & upper);
        memcpy(to.high + 8 + LANES * g, &up[g], LANES);
    }
    for (int i = 0; i < GW_NORMS; i++) s[i] = sum_of(i, i ? down : up);
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

/* Adds a block to the rows' sums of squares: (16 n - 120)^2 = 14400 - 256 n (15 - n), (r - 8)^2 = 64 - r (16 - r) for
 * r = 4 m + l, and (l - 2)^2 = 4 - l (4 - l). */
static inline void add_squares(const uint8_t *block, const sums s, floats *square) {
    static const int32_t most[] = { 14400, 64, 4 }, factor[] = { 256, 1, 1 };
    floats scale = scales_of(block);
    for (int i = 0; i < GW_NORMS; i++)
        square[i] += scale * scale * __builtin_convertvector(most[i] * GW_BLOCK - factor[i] * by_row(s[i]), floats);
}

/* Factor that exceeds the rounding errors of a float sum with a term for each block: at most 256 terms, each of which
 * adds errors of 2^-24 of the sum. */
#define FLOAT_SLACK 1.0001

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
    floats square[GW_NORMS] = { { 0 } };
    gw_pack_panel(gw_type_of(GW_Q8_0), rows, n, k, panel);
    for (size_t b = 0; b < k / GW_BLOCK; b++, in += GW_Q8_BYTES, to = gw_planes_from(to, 1)) {
        sums s;
        memcpy(to.high, in, 8);
        split_block(in + 8, to, s);
        add_squares(in, s, square);
    }
    for (int i = 0; i < GW_NORMS; i++)
        for (int r = 0; r < GW_PANEL; r++) norms[i * ld + (size_t)r] = norm_of(square[i][r] * FLOAT_SLACK);
}

void gw_unpack_planes(gw_planes w, size_t row, size_t k, float *out) {
    size_t blocks = k / GW_BLOCK, r = row % GW_PANEL;
    w = gw_planes_from(w, row / GW_PANEL * blocks);
    for (size_t b = 0; b < blocks; b++, w = gw_planes_from(w, 1), out += GW_BLOCK) {
        float d = gw_f16_to_f32(gw_load16(w.high + 2 * r));
        for (int c = 0; c < GW_BLOCK; c++) out[c] = (float)(gw_planes_code(w, (int)r, c) - 128) * d;
    }
}
