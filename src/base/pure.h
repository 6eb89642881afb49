/* pure: gw_parallel for items that may be done twice. A thread whose core another program has just taken must not hold
 * up the others for the rest of that program's slice: they do its item once more, and go on. What it read must stay as
 * it is until it finds out, so each task has a place of its own for that. */
#ifndef GW_PURE_H
#define GW_PURE_H

#include "base/threads.h"

/* work: item i, from the task's place and from what nobody writes, to out; perhaps twice, and perhaps still after
 * gw_parallel_pure has returned. put: out to where the caller wants it; once for each i, and before that. */
typedef struct {
    void (*work)(const void *place, int i, float *out);
    void (*put)(void *place, int i, const float *out);
} gw_pure;
enum { GW_PURE_FLOATS = 4096 }; /* of out */

/* `places` are GW_PLACES of `bytes` each, one behind the other. Gives one that no late thread reads. */
enum { GW_PLACES = 4 };
void *gw_pure_place(const gw_pool *p, void *places, size_t bytes);

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *place, int n);

/* Returns when no thread is late: to be called before places, or what work reads besides, are freed or written. */
void gw_pure_settle(gw_pool *p);

#endif
