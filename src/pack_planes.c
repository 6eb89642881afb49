/* pack_planes: Q8_0 in two planes, see pack.h and kernels.h, by way of a panel as Q8_0 has it. */
#include "pack.h"
#include "kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __clang__
#define KEEP_LOOP _Pragma("nounroll")   /* unrolled it is no faster, and four times as long */
#else
#define KEEP_LOOP
#endif

enum { LANES = 16, GROUPS = 8, MAX_BYTES = GW_PLANES_MAX_K / GW_BLOCK * GW_Q8_BYTES };

/* Sums of the squares of a panel's rows, by plane. */
typedef struct { double high[GW_PANEL], low[GW_PANEL]; } squares;

/* One block of four rows; to each lane's sums the squares of 2 n - 15, an eighth of what n stands for, and l - 8. */
static void split_block(const uint8_t *in, uint8_t *high, uint8_t *low, uint16_t *n2, uint16_t *l2) {
    KEEP_LOOP
    for (int g = 0; g < GROUPS / 2; g++, high += LANES, low += LANES)
        for (int i = 0; i < LANES; i++) {
            uint8_t a = in[LANES * g + i] ^ 128, b = in[LANES * (g + 4) + i] ^ 128;
            int16_t na = (int16_t)(2 * (a >> 4) - 15), nb = (int16_t)(2 * (b >> 4) - 15);
            int16_t la = (int16_t)((a & 15) - 8), lb = (int16_t)((b & 15) - 8);
            high[i] = (uint8_t)(a >> 4 | (b & 0xf0));
            low[i] = (uint8_t)((a & 15) | b << 4);
            n2[i] = (uint16_t)(n2[i] + na * na + nb * nb);
            l2[i] = (uint16_t)(l2[i] + la * la + lb * lb);
        }
}

static double scale_at(const uint8_t *block, int r) {
    return gw_f16_to_f32((uint16_t)(block[2 * r] | block[2 * r + 1] << 8));
}

static void add_squares(const uint8_t *block, const uint16_t *n2, const uint16_t *l2, squares *s) {
    for (int r = 0; r < GW_PANEL; r++) {
        double d = scale_at(block, r);
        int high = 0, low = 0;
        for (int i = 4 * r; i < 4 * r + 4; i++) high += n2[i], low += l2[i];
        s->high[r] += d * d * 64 * high;
        s->low[r] += d * d * low;
    }
}

/* Rounded up: the double's and the float's errors are far below a millionth. */
static float norm_of(double square) {
    double norm = sqrt(square) * (1 + 1e-6);
    return norm <= FLT_MAX ? (float)norm : INFINITY;
}

bool gw_planes_fit(const gw_type *type, size_t k) { return type->id == GW_Q8_0 && k <= GW_PLANES_MAX_K; }

void gw_pack_planes(const uint8_t *rows, int n, size_t k, uint8_t *high, uint8_t *low,
                    float *high_norm, float *low_norm) {
    uint8_t panel[MAX_BYTES];
    const uint8_t *in = panel;
    squares sum = { 0 };
    gw_pack_panel(gw_type_of(GW_Q8_0), rows, n, k, panel);
    for (size_t b = 0; b < k / GW_BLOCK; b++, in += GW_Q8_BYTES, high += GW_HIGH_BYTES, low += GW_LOW_BYTES) {
        uint16_t n2[LANES] = { 0 }, l2[LANES] = { 0 };
        memcpy(high, in, 8);
        split_block(in + 8, high + 8, low, n2, l2);
        add_squares(in, n2, l2, &sum);
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
        float d = (float)scale_at(high, (int)r);
        for (int c = 0; c < GW_BLOCK; c++) {
            size_t at = c % 16 / 4 * LANES + 4 * r + c % 4;
            int shift = c < 16 ? 0 : 4, code = (high[8 + at] >> shift & 15) * 16 + (low[at] >> shift & 15) - 128;
            out[c] = (float)code * d;
        }
    }
}
