/* threads: see threads.h.
 *
 * A task is open while its caller is inside gw_parallel. A helper announces itself (inside++),
 * then looks whether the task is open; the caller closes the task, then waits for inside == 0.
 * Both orders are sequentially consistent, so either the caller sees the helper or the helper sees
 * the task closed. A helper that is late, or not scheduled at all because another program has its
 * core, costs nothing: the caller takes the items itself.
 * Waiting spins for a bounded time (tens of microseconds), then sleeps. */
#include "threads.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__wasm__) && defined(__wasm_atomics__)
#define GW_HOST_THREADS 1
#elif !defined(__wasm__)
#define GW_POSIX_THREADS 1
#include <pthread.h>
#endif

enum { SPINS = 20000, STACK_BYTES = 256 * 1024 };

struct gw_pool {
    _Atomic uint32_t epoch;      /* counts tasks; helpers sleep on it */
    _Atomic uint32_t inside;     /* helpers that look at the task; the caller sleeps on it */
    _Atomic uint32_t sleepers, caller_sleeps, open, stop, failed;
    _Atomic int next;            /* next item of the task */
    gw_work work;
    void *ctx;
    int n, n_threads;
    uint8_t *stacks;             /* (n_threads - 1) x STACK_BYTES, wasm only */
#ifdef GW_POSIX_THREADS
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[GW_MAX_THREADS];
#endif
};

#if defined(GW_HOST_THREADS)

static void sleep_while(gw_pool *p, _Atomic uint32_t *at, uint32_t value) {
    (void)p;
    __builtin_wasm_memory_atomic_wait32((int *)at, (int)value, -1);
}

static void wake(gw_pool *p, _Atomic uint32_t *at) {
    (void)p;
    __builtin_wasm_memory_atomic_notify((int *)at, GW_MAX_THREADS);
}

#elif defined(GW_POSIX_THREADS)

static void sleep_while(gw_pool *p, _Atomic uint32_t *at, uint32_t value) {
    pthread_mutex_lock(&p->lock);
    while (atomic_load(at) == value) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void wake(gw_pool *p, _Atomic uint32_t *at) {
    (void)at;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

#endif

static void take_items(gw_pool *p) {
    for (;;) {
        int i = atomic_fetch_add(&p->next, 1);
        if (i >= p->n) return;
        p->work(p->ctx, i);
    }
}

#if defined(GW_HOST_THREADS) || defined(GW_POSIX_THREADS)

/* Returns when *at differs from value. `flag` tells the other side that someone sleeps. */
static void await_change(gw_pool *p, _Atomic uint32_t *at, uint32_t value, _Atomic uint32_t *flag) {
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(at, memory_order_acquire) != value) return;
    atomic_fetch_add(flag, 1);
    while (atomic_load(at) == value) sleep_while(p, at, value);
    atomic_fetch_sub(flag, 1);
}

static void leave(gw_pool *p) {
    if (atomic_fetch_sub(&p->inside, 1) == 1 && atomic_load(&p->caller_sleeps)) wake(p, &p->inside);
}

void gw_pool_enter(gw_pool *p, int i) {
    (void)i;
    uint32_t seen = 0;
    for (;;) {
        await_change(p, &p->epoch, seen, &p->sleepers);
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->stop)) return;
        atomic_fetch_add(&p->inside, 1);
        if (atomic_load(&p->open)) take_items(p);
        leave(p);
    }
}

void gw_pool_fail(gw_pool *p) {
    atomic_store(&p->failed, 1);
    leave(p);
}

static void await_helpers(gw_pool *p) {
    uint32_t n;
    while ((n = atomic_load(&p->inside)) != 0) await_change(p, &p->inside, n, &p->caller_sleeps);
}

void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n) {
    if (p->n_threads == 1 || n == 1) {
        for (int i = 0; i < n; i++) f(ctx, i);
        return;
    }
    p->work = f;
    p->ctx = ctx;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers)) wake(p, &p->epoch);
    take_items(p);
    atomic_store(&p->open, 0);
    await_helpers(p);
}

void gw_pool_stop(gw_pool *p) {
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->epoch, 1);
    wake(p, &p->epoch);
}

#else   /* one thread */

void gw_pool_enter(gw_pool *p, int i) { (void)p; (void)i; }
void gw_pool_stop(gw_pool *p) { (void)p; }
void gw_pool_fail(gw_pool *p) { p->failed = 1; }

void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n) {
    p->work = f;
    p->ctx = ctx;
    p->n = n;
    p->next = 0;
    take_items(p);
}

#endif

int gw_pool_threads(const gw_pool *p) { return p->n_threads; }
bool gw_pool_failed(const gw_pool *p) { return p->failed != 0; }

void *gw_pool_stack(gw_pool *p, int i) {
    return p->stacks && i >= 1 && i < p->n_threads ? p->stacks + (size_t)i * STACK_BYTES : NULL;
}

#ifdef GW_POSIX_THREADS

static void *enter(void *p) {
    gw_pool_enter(p, 0);
    return NULL;
}

static bool start_threads(gw_pool *p) {
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (int i = 1; i < p->n_threads; i++) {
        if (pthread_create(&p->thread[i], NULL, enter, p) == 0) continue;
        p->n_threads = i;   /* those that exist can be stopped */
        return false;
    }
    return true;
}

static void end_threads(gw_pool *p) {
    gw_pool_stop(p);
    for (int i = 1; i < p->n_threads; i++) pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

#else

static bool start_threads(gw_pool *p) {
#ifdef GW_HOST_THREADS
    if (p->n_threads == 1) return true;
    p->stacks = gw_alloc((size_t)(p->n_threads - 1) * STACK_BYTES);
    return p->stacks != NULL;
#else
    p->n_threads = 1;
    return true;
#endif
}

static void end_threads(gw_pool *p) { gw_pool_stop(p); }

#endif

gw_pool *gw_pool_new(int n_threads) {
    if (n_threads < 1 || n_threads > GW_MAX_THREADS) return NULL;
    gw_pool *p = gw_alloc(sizeof *p);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    if (start_threads(p)) return p;
    gw_pool_free(p);
    return NULL;
}

void gw_pool_free(gw_pool *p) {
    if (!p) return;
    end_threads(p);
    gw_free(p->stacks);
    gw_free(p);
}
