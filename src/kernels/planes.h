/* planes.h: how both SIMD builds walk the panels of an output head in two planes. Included by planes_*.c only. */
#ifndef GW_PLANES_H
#define GW_PLANES_H

#include "kernels/simd.h"

enum { STREAMS = 4, TILE = 4 };   /* panels walked at once; rows of activations at once */

/* Where panels begin that are walked together, and where their results go. */
typedef struct {
    const uint8_t *high[STREAMS], *low[STREAMS];
    float *y[STREAMS];
} walk;

typedef void walker(const walk *w, const gw_acts *a);

/* n panels, STREAMS at a time: those listed, or all, then far apart. The last ones are walked more than once. */
OUTLINE void each_walk(walker *f, const uint8_t *high, const uint8_t *low, const uint32_t *panel, int n,
                       const gw_acts *a, float *y) {
    size_t blocks = a->k / GW_BLOCK;
    int steps = (n + STREAMS - 1) / STREAMS;
    for (int i = 0; i < steps; i++) {
        walk w;
        for (int s = 0; s < STREAMS; s++) {
            int at = (int)gw_min(i + s * steps, n - 1);
            size_t p = panel ? panel[at] : (size_t)at;
            w.high[s] = high + p * blocks * GW_HIGH_BYTES;
            w.low[s] = low + p * blocks * GW_LOW_BYTES;
            w.y[s] = y + p * GW_PANEL;
        }
        f(&w, a);
    }
}

#endif
