/* pure: a variant of gw_parallel whose items may be computed twice. If another program preempts a helper thread during
 * an item, the calling thread computes the item itself, so the task is not delayed for a whole time slice. The helper
 * is then late: it may still read the task's inputs, so each task keeps its inputs in a separate memory area, a
 * place. */
#ifndef GW_PURE_H
#define GW_PURE_H

#include "base/threads.h"

/* work: computes item i from the task's place and from constant data, and writes the result to out; may run twice, and
 * after gw_parallel_pure has returned. put: stores the result at its destination; runs once for each i, before
 * gw_parallel_pure returns. */
typedef struct {
    void (*work)(const void *place, int i, float *out);
    void (*put)(void *place, int i, const float *out);
} gw_pure;
enum { GW_PURE_FLOATS = 4096 }; /* maximum number of floats that gw_pure.work may write to `out` */

/* Returns a place that no late helper reads: one of the GW_PLACES memory areas that begin at `places` and have `bytes`
 * bytes each. */
enum { GW_PLACES = 4 };
void *gw_pure_place(const gw_pool *p, void *places, size_t bytes);

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *place, int n);

/* Waits until late helpers have finished. Call it before freeing or changing data that gw_pure.work reads. */
void gw_pure_settle(gw_pool *p);

#endif
