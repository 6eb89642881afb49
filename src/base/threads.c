/* threads: see threads.h; threads_impl.h explains how helpers and callers synchronise. */
#include "base/threads_impl.h"

#include <string.h>

enum { STACK_BYTES = 256 * 1024 };

/* sleep_while() sleeps until *at differs from value; if `ticks` is set, for at most one tick (GW_TICK nanoseconds). It
 * may return early. */

#if defined(GW_HOST_THREADS)

static void sleep_while(gw_pool *p, _Atomic uint32_t *at, uint32_t value, bool ticks) {
    (void)p;
    __builtin_wasm_memory_atomic_wait32((int *)at, (int)value, ticks ? GW_TICK : -1);
}

void gw_wake(gw_pool *p, _Atomic uint32_t *at) {
    (void)p;
    __builtin_wasm_memory_atomic_notify((int *)at, GW_MAX_THREADS);
}

#elif defined(GW_POSIX_THREADS)

static void sleep_while(gw_pool *p, _Atomic uint32_t *at, uint32_t value, bool ticks) {
    struct timespec until;
    timespec_get(&until, TIME_UTC);
    until.tv_sec += (until.tv_nsec + GW_TICK) / 1000000000;
    until.tv_nsec = (until.tv_nsec + GW_TICK) % 1000000000;
    int late = 0;
    pthread_mutex_lock(&p->lock);
    while (!late && atomic_load(at) == value)
        late = ticks ? pthread_cond_timedwait(&p->changed, &p->lock, &until) : pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void gw_wake(gw_pool *p, _Atomic uint32_t *at) {
    (void)at;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

#else /* a build with a single thread, which never waits */

static void sleep_while(gw_pool *p, _Atomic uint32_t *at, uint32_t value, bool ticks) {
    (void)p, (void)at, (void)value, (void)ticks;
}

void gw_wake(gw_pool *p, _Atomic uint32_t *at) { (void)p, (void)at; }

#endif

/* Waits for the next task: returns when the epoch differs from `seen`. While spinning, an acquire load is enough.
 * Before it sleeps, the helper counts itself as a sleeper and reads the epoch again, both sequentially consistent:
 * either it sees the change, or the thread that makes the change sees the sleeper. */
static void await_epoch(gw_pool *p, uint32_t seen) {
    for (int i = 0; i < GW_SPINS; i++)
        if (atomic_load_explicit(&p->epoch, memory_order_acquire) != seen) return;
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->epoch) == seen) sleep_while(p, &p->epoch, seen, false);
    atomic_fetch_sub(&p->sleepers, 1);
}

static uint32_t beats_of(gw_pool *p) {
    uint32_t sum = 0;
    for (int h = 1; h < p->n_threads; h++) sum += atomic_load_explicit(&p->helper[h].beat, memory_order_relaxed);
    return sum;
}

/* Counts ticks instead of reading a clock, so that the timeout excludes time in which a laptop sleeps or a tab is
 * frozen. */
bool gw_await_helpers(gw_pool *p, _Atomic uint32_t *at, uint32_t value) {
    uint32_t beats = beats_of(p), now, ticks = 0;
    for (int i = 0; i < GW_SPINS; i++)
        if (atomic_load_explicit(at, memory_order_acquire) != value) return true;
    atomic_fetch_add(&p->caller_sleeps, 1);
    while (atomic_load(at) == value && !p->lost) {
        sleep_while(p, at, value, true);
        if ((now = beats_of(p)) != beats) beats = now, ticks = 0;
        else if (++ticks > p->patience) p->lost = true, p->failed = 1;
    }
    atomic_fetch_sub(&p->caller_sleeps, 1);
    return !p->lost;
}

void gw_open(gw_pool *p, gw_help *help, const void *task, int n) {
    p->help = help;
    p->task = task;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers)) gw_wake(p, &p->epoch);
}

void gw_close(gw_pool *p) {
    uint32_t n;
    atomic_store(&p->open, 0);
    while ((n = atomic_load(&p->inside)) != 0 && gw_await_helpers(p, &p->inside, n)) continue;
}

void gw_leave(gw_pool *p) {
    if (atomic_fetch_sub(&p->inside, 1) == 1 && atomic_load(&p->caller_sleeps)) gw_wake(p, &p->inside);
}

void gw_pool_enter(gw_pool *p, int i) {
    uint32_t seen = 0;
    for (;;) {
        await_epoch(p, seen);
        seen = atomic_load(&p->epoch);
        for (uint32_t n; (n = atomic_load(&p->in_use)) <= (uint32_t)i;) sleep_while(p, &p->in_use, n, false);
        if (atomic_load(&p->stop)) return;
        atomic_fetch_add(&p->inside, 1);
        while (atomic_load(&p->open) && atomic_load(&p->in_use) > (uint32_t)i)
            if (!p->help(p, &p->helper[i], p->task)) break;
        gw_leave(p);
    }
}

void gw_pool_use(gw_pool *p, int n) {
    atomic_store(&p->in_use, (uint32_t)n);
    atomic_fetch_add(&p->epoch, 1);
    gw_wake(p, &p->in_use);
    gw_wake(p, &p->epoch);
}

void gw_pool_stop(gw_pool *p) {
    atomic_store(&p->stop, 1);
    gw_pool_use(p, GW_MAX_THREADS);
}

void gw_pool_fail(gw_pool *p, int i) {
    atomic_store(&p->failed, 1);
    if (atomic_exchange(&p->helper[i].at, HERE) == HERE) gw_leave(p);
    else gw_wake(p, &p->helper[i].at);
}

bool gw_pool_failed(const gw_pool *p) { return p->failed != 0; }

typedef struct {
    gw_work work;
    void *ctx;
} task;

static bool take_items(gw_pool *p, gw_helper *h, const void *ctx) {
    const task *t = ctx;
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->n; gw_beat(h)) t->work(t->ctx, i);
    return false;
}

void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n) {
    if (gw_alone(p, n)) {
        for (int i = 0; i < n; i++) f(ctx, i);
        return;
    }
    task t = { f, ctx };
    gw_open(p, take_items, &t, n);
    take_items(p, &p->helper[0], &t);
    gw_close(p);
}

int gw_pool_threads(const gw_pool *p) { return (int)p->in_use; }

void *gw_pool_stack(gw_pool *p, int i) {
    return p->stacks && i >= 1 && i < p->n_threads ? p->stacks + (size_t)i * STACK_BYTES : NULL;
}

#ifdef GW_POSIX_THREADS

static void *enter(void *pool) {
    gw_pool *p = pool;
    gw_pool_enter(p, 1 + atomic_fetch_add(&p->arrived, 1));
    return NULL;
}

static bool start_threads(gw_pool *p) {
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (int i = 1; i < p->n_threads; i++) {
        if (pthread_create(&p->thread[i], NULL, enter, p) == 0) continue;
        p->n_threads = i; /* lets gw_pool_free() stop only the threads that were started */
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
    p->in_use = 1;
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
    p->in_use = (uint32_t)n_threads;
    p->patience = GW_PATIENCE;
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
