/* pure: gw_parallel for items that may run twice. A thread whose core another program has just taken must not hold up
 * the others for the rest of that program's time slice: they repeat its item and continue. The late thread may still
 * read its inputs, so each task keeps them in a separate place. */
#ifndef GW_PURE_H
#define GW_PURE_H

#include "base/threads.h"

/* work: computes item i to out from the task's place and from constant data; may run twice, and may still run after
 * gw_parallel_pure has returned. put: stores out; runs once for each i, before gw_parallel_pure returns. */
typedef struct {
    void (*work)(const void *place, int i, float *out);
    void (*put)(void *place, int i, const float *out);
} gw_pure;
enum { GW_PURE_FLOATS = 4096 }; /* most floats that `work` may write to out */

/* Returns one of the GW_PLACES consecutive `places` of `bytes` each that no late thread reads. */
enum { GW_PLACES = 4 };
void *gw_pure_place(const gw_pool *p, void *places, size_t bytes);

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *place, int n);

/* Returns when no thread is late. Call it before freeing or writing places or other data that `work` reads. */
void gw_pure_settle(gw_pool *p);

#endif
