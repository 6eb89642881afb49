/* planes: shared by both SIMD builds: loops over the panels of an output head in two planes. Included by planes_*.c
 * only. */
#ifndef GW_PLANES_H
#define GW_PLANES_H

#include "kernels/simd.h"

enum { INTERLEAVED = 4, TILE = 4 }; /* panels read at the same time; rows of activations of a tile */

/* Panels that are read at the same time, and the destinations of their results. */
typedef struct {
    const uint8_t *high[INTERLEAVED], *low[INTERLEAVED];
    float *y[INTERLEAVED];
} walk;

typedef void walker(const walk *w, const gw_acts *a);

/* walk_both multiplies both planes of several panels by one row of activations, tile both planes of one panel by TILE
 * rows. */
OUTLINE void walk_both(const walk *to, const gw_acts *a);
OUTLINE void tile(const uint8_t *high, const uint8_t *low, const gw_acts *a, float *y, size_t ldy);

/* Calls f for n panels, INTERLEAVED at a time and far apart: the panels in the list, or panels 0 to n - 1 if `panel` is
 * NULL. The last panels may be computed twice. */
OUTLINE void each_walk(walker *f, const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n,
                       const gw_acts *a, float *y) {
    size_t blocks = a->k / GW_BLOCK;
    int steps = (n + INTERLEAVED - 1) / INTERLEAVED;
    for (int i = 0; i < steps; i++) {
        walk w;
        for (int s = 0; s < INTERLEAVED; s++) {
            int at = (int)gw_min(i + s * steps, n - 1);
            size_t p = panel ? panel[at] : (size_t)at;
            w.high[s] = high + p * blocks * GW_HIGH_BYTES;
            w.low[s] = low + p * blocks * GW_LOW_BYTES;
            w.y[s] = y + p * GW_PANEL;
        }
        f(&w, a);
    }
}

/* Multiplies the high plane by all rows, one by one, from panel `begin` on. */
INLINE void each_high(walker *f, const uint8_t *high, int begin, int panels, const gw_acts *a, float *y, size_t ldy) {
    high += begin * (a->k / GW_BLOCK) * GW_HIGH_BYTES, y += begin * GW_PANEL;
    for (int t = 0; t < a->n; t++) {
        gw_acts row = *a;
        row.q8 += t * GW_BLOCK, row.s8 += t, row.sum8 += t;
        each_walk(f, high, high, NULL, panels - begin, &row, y + t * ldy);
    }
}

/* Multiplies all rows by all panels: TILE rows at a time, the remaining rows one by one. */
INLINE void whole(const uint8_t *high, const uint8_t *low, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    for (int t = 0, rows; t < a->n; t += rows) {
        gw_acts rest = *a;
        rest.q16 += t * GW_BLOCK, rest.s16 += t, rest.sum16 += t;
        rows = t + TILE <= a->n ? TILE : 1;
        if (rows == 1) each_walk(walk_both, high, low, NULL, panels, &rest, y + t * ldy);
        else
            for (size_t p = 0; p < (size_t)panels; p++)
                tile(high + p * blocks * GW_HIGH_BYTES, low + p * blocks * GW_LOW_BYTES, &rest,
                     y + t * ldy + p * GW_PANEL, ldy);
    }
}

#define DEFINE_PLANES(build)                                                                                        \
    void gw_##build##_planes_some(const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n,            \
                                  const gw_acts *a, float *y) {                                                     \
        each_walk(walk_both, high, low, panel, n, a, y);                                                            \
    }                                                                                                               \
    void gw_##build##_planes_whole(const uint8_t *high, const uint8_t *low, int panels, const gw_acts *a, float *y, \
                                   size_t ldy) {                                                                    \
        whole(high, low, panels, a, y, ldy);                                                                        \
    }

#endif
