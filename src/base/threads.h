/* threads: a thread pool with one operation: gw_parallel runs f(ctx, i) for i in [0, n) on all threads of a pool, each
 * i once, in any order, and returns when all calls are done. No result may depend on which thread ran which i. */
#ifndef GW_THREADS_H
#define GW_THREADS_H

#include "base/base.h"

typedef struct gw_pool gw_pool;
typedef void (*gw_work)(void *ctx, int i);

/* Makes a pool of n_threads threads, which include the caller. Returns NULL if out of memory or if n_threads is not
 * in 1..GW_MAX_THREADS. */
gw_pool *gw_pool_new(int n_threads);
void gw_pool_free(gw_pool *p); /* stops the threads of a pool; native builds also join them */
/* Returns how many threads take part in tasks, including the caller. */
int gw_pool_threads(const gw_pool *p);
/* Sets how many threads take part in tasks, from 1 to all; initially all. The other helpers sleep. Must not be called
 * during a task. */
void gw_pool_use(gw_pool *p, int n);
void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n);

/* For hosts that start the helper threads themselves (wasm): see api.h. */
void *gw_pool_stack(gw_pool *p, int i); /* returns the top of the stack of helper thread i */
void gw_pool_enter(gw_pool *p, int i);  /* runs helper thread i; returns after gw_pool_stop */
void gw_pool_stop(gw_pool *p);
/* Reports that helper i trapped inside gw_pool_enter while it computed an item. gw_parallel stops waiting for this
 * helper, and the pool is unusable from then on. Code that uses results of gw_parallel must check gw_pool_failed. */
void gw_pool_fail(gw_pool *p, int i);
bool gw_pool_failed(const gw_pool *p);

#endif
