/* planes: loops over the panels of an output matrix in planes of bits (kernels.h), for planes_*.c only. */
#ifndef GW_PLANES_H
#define GW_PLANES_H

#include "kernels/simd.h"

/* INTERLEAVED: panels read at the same time for approximate logits. WHOLE_INTERLEAVED: panels read at the same time
 * from all planes; with a middle plane, four panels would be twelve memory streams. TILE: rows of activations in a
 * tile. */
enum { INTERLEAVED = 4, WHOLE_INTERLEAVED = GW_MIDDLE_PLANE ? 2 : 4, TILE = 4 };

typedef struct {
    gw_planes w[INTERLEAVED];
    float *y[INTERLEAVED];
} walk;

typedef void walker(const walk *w, const gw_acts *a);

/* walk_whole multiplies all planes of several panels by one row of activations, `tile` all planes of one panel by TILE
 * rows. */
OUTLINE void walk_whole(const walk *to, const gw_acts *a);
OUTLINE void tile(gw_planes w, const gw_acts *a, float *y, size_t ldy);

/* Calls f for n panels, `side` panels at a time, far apart in memory. panel: the numbers of the panels; NULL: 0 to
 * n - 1. The last panels may be computed twice. */
OUTLINE void each_walk(walker *f, int side, gw_planes w, const uint32_t *panel, int n, const gw_acts *a, float *y) {
    size_t blocks = a->k / GW_BLOCK;
    int steps = (n + side - 1) / side;
    for (int i = 0; i < steps; i++) {
        walk to;
        for (int s = 0; s < side; s++) {
            int at = (int)gw_min(i + s * steps, n - 1);
            size_t p = panel ? panel[at] : (size_t)at;
            to.w[s] = gw_planes_from(w, p * blocks);
            to.y[s] = y + p * GW_PANEL;
        }
        f(&to, a);
    }
}

INLINE void each_upper(walker *f, gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    for (int t = 0; t < a->n; t++) {
        gw_acts row = *a;
        row.q8 += t * GW_BLOCK, row.s8 += t, row.sum8 += t;
        each_walk(f, INTERLEAVED, w, NULL, panels, &row, y + t * ldy);
    }
}

/* Multiplies all planes by all rows of activations: TILE rows at a time, the remaining rows one by one. */
INLINE void whole(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK;
    for (int t = 0, rows; t < a->n; t += rows) {
        gw_acts rest = *a;
        rest.q16 += t * GW_BLOCK, rest.s16 += t, rest.sum16 += t;
        rows = t + TILE <= a->n ? TILE : 1;
        if (rows == 1) each_walk(walk_whole, WHOLE_INTERLEAVED, w, NULL, panels, &rest, y + t * ldy);
        else
            for (size_t p = 0; p < (size_t)panels; p++)
                tile(gw_planes_from(w, p * blocks), &rest, y + t * ldy + p * GW_PANEL, ldy);
    }
}

#define DEFINE_PLANES(build)                                                                               \
    void gw_##build##_planes_some(gw_planes w, const uint32_t *panel, int n, const gw_acts *a, float *y) { \
        each_walk(walk_whole, WHOLE_INTERLEAVED, w, panel, n, a, y);                                       \
    }                                                                                                      \
    void gw_##build##_planes_whole(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {      \
        whole(w, panels, a, y, ldy);                                                                       \
    }

#endif
