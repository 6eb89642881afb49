/* threads: one verb, gw_parallel: run f(ctx, i) for i in [0, n) on all threads of a pool, each i
 * once, in any order; return when all are done. The result of a caller must not depend on which thread ran
 * which i. pure.h has a second verb, for items that may be done twice. */
#ifndef GW_THREADS_H
#define GW_THREADS_H

#include "base/base.h"

typedef struct gw_pool gw_pool;
typedef void (*gw_work)(void *ctx, int i);

gw_pool *gw_pool_new(int n_threads); /* NULL if no memory or n out of 1..GW_MAX_THREADS */
void gw_pool_free(gw_pool *p);       /* stops and, natively, joins */
int gw_pool_threads(const gw_pool *p);
void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n);

/* For hosts that start the helper threads themselves (wasm): see api.h. */
void *gw_pool_stack(gw_pool *p, int i); /* top of helper i's stack */
void gw_pool_enter(gw_pool *p, int i);  /* helper i's body; returns after gw_pool_stop */
void gw_pool_stop(gw_pool *p);
/* For helper i whose gw_pool_enter trapped, thus inside an item: its caller waits for it no more, and the
 * pool is of no use from then on. Everyone who uses results of gw_parallel asks gw_pool_failed. */
void gw_pool_fail(gw_pool *p, int i);
bool gw_pool_failed(const gw_pool *p);
/* A helper is gone, in the middle of something or not: no one is waited for any more, and the pool has failed. */
void gw_pool_lose(gw_pool *p);

#endif
