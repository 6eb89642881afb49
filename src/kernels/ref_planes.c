/* ref_planes: the specification of the kernels for two planes of Q8_0, in plain C. */
#include "kernels/kernels.h"
#include "file/types.h"

#include <string.h>

static int nibble_at(const uint8_t *vectors, int r, int c) {
    int byte = vectors[c % 16 / 4 * 16 + 4 * r + c % 4];
    return c < 16 ? byte & 15 : byte >> 4;
}

static float scale_at(const uint8_t *block, int r) {
    uint16_t h;
    memcpy(&h, block + 2 * r, 2);
    return gw_f16_to_f32(h);
}

static float high_row(const uint8_t *high, const gw_acts *a, int r) {
    float total = 0;
    for (size_t b = 0; b < a->k / GW_BLOCK; b++, high += GW_HIGH_BYTES) {
        int32_t sum = 0;
        for (int c = 0; c < GW_BLOCK; c++)
            sum += (16 * nibble_at(high + 8, r, c) - 120) * gw_narrow_at(a->q8 + b * a->stride * GW_BLOCK, c);
        total += (float)sum * (scale_at(high, r) * a->s8[b * a->stride]);
    }
    return total;
}

void gw_ref_planes_high(const uint8_t *high, int panels, const gw_acts *a, float *y) {
    size_t blocks = a->k / GW_BLOCK;
    for (int p = 0; p < panels; p++)
        for (int r = 0; r < GW_PANEL; r++) y[p * GW_PANEL + r] = high_row(high + p * blocks * GW_HIGH_BYTES, a, r);
}

static float whole_row(const uint8_t *high, const uint8_t *low, const gw_acts *a, int t, int r) {
    size_t blocks = a->k / GW_BLOCK;
    float total = 0;
    for (size_t b = 0; b < blocks; b++, high += GW_HIGH_BYTES, low += GW_LOW_BYTES) {
        int32_t sum = 0;
        for (int c = 0; c < GW_BLOCK; c++) {
            int code = 16 * nibble_at(high + 8, r, c) + nibble_at(low, r, c) - 128;
            sum += code * a->q16[(b * a->stride + t) * GW_BLOCK + GW_WIDE_ORDER(c)];   /* in all builds */
        }
        total += (float)sum * (scale_at(high, r) * a->s16[b * a->stride + t]);
    }
    return total;
}

void gw_ref_planes_whole(const uint8_t *high, const uint8_t *low, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    for (int p = 0; p < panels; p++, high += blocks * GW_HIGH_BYTES, low += blocks * GW_LOW_BYTES)
        for (int t = 0; t < a->n; t++)
            for (int r = 0; r < GW_PANEL; r++) y[t * ldy + p * GW_PANEL + r] = whole_row(high, low, a, t, r);
}

void gw_ref_planes_some(const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n, const gw_acts *a,
                      float *y) {
    size_t blocks = a->k / GW_BLOCK;
    for (int i = 0; i < n; i++)
        gw_ref_planes_whole(high + panel[i] * blocks * GW_HIGH_BYTES, low + panel[i] * blocks * GW_LOW_BYTES, 1, a,
                           y + (size_t)panel[i] * GW_PANEL, 0);
}
