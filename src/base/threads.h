/* threads: one verb, gw_parallel: runs f(ctx, i) for i in [0, n) on all threads of a pool, each i once, in
 * any order, and returns when all are done. No result may depend on which thread ran which i. pure.h has a
 * second verb, for items that may run twice. */
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
/* Reports that gw_pool_enter of helper i trapped, that is, inside an item: the caller stops waiting for it, and the
 * pool is unusable from then on. Code that uses results of gw_parallel must check gw_pool_failed. */
void gw_pool_fail(gw_pool *p, int i);
bool gw_pool_failed(const gw_pool *p);
/* Reports that a helper is gone, inside an item or not: the caller stops waiting for helpers, and the pool has failed.
 */
void gw_pool_lose(gw_pool *p);

#endif
