/* threads: see threads.h.
 *
 * A task is open while its caller is inside gw_parallel. A helper announces itself (inside++),
 * then looks whether the task is open; the caller closes the task, then waits for inside == 0.
 * Both orders are sequentially consistent, so either the caller sees the helper or the helper sees
 * the task closed. A helper that is late, or not scheduled at all because another program has its
 * core, costs nothing: the caller takes the items itself.
 * Waiting spins for a bounded time (tens of microseconds), then sleeps.
 *
 * A helper leaves a task while it works at a pure item, so that the caller need not wait for it, and comes back to
 * place the result. `item` says who may: the helper by item + 1 -> PLACING, the caller, which then does the item
 * itself, by item + 1 -> LATE. A late helper reads its slot until it finds out. */
#include "base/threads.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__wasm__) && defined(__wasm_atomics__)
#define GW_HOST_THREADS 1
#elif !defined(__wasm__)
#define GW_POSIX_THREADS 1
#include <pthread.h>
#endif

#ifndef GW_SPINS
#define GW_SPINS 20000   /* some tens of microseconds */
#endif
enum { SPINS = GW_SPINS, STACK_BYTES = 256 * 1024 };

#define PLACING (UINT32_MAX - 1)
#define LATE UINT32_MAX

typedef struct {
    _Atomic uint32_t item;       /* 0, or 1 + the pure item that it works at, or PLACING, or LATE */
    int slot;                    /* LATE: what it reads; the caller's */
    char own_line[56];
} helper;

struct gw_pool {
    _Atomic uint32_t epoch;      /* counts tasks; helpers sleep on it */
    _Atomic uint32_t inside;     /* helpers that look at the task; the caller sleeps on it */
    _Atomic uint32_t sleepers, caller_sleeps, open, stop, failed;
    _Atomic int next;            /* next item of the task */
    gw_work work;                /* NULL: the items of `pure` */
    const gw_pure *pure;
    void *ctx;
    int n, slot, n_threads;
    helper helper[GW_MAX_THREADS];   /* by number of the thread; 0 is the caller */
    uint8_t *stacks;             /* (n_threads - 1) x STACK_BYTES, wasm only */
#ifdef GW_POSIX_THREADS
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[GW_MAX_THREADS];
    _Atomic int arrived;
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

static void do_pure(const gw_pure *f, void *ctx, int i, float *out) {
    f->work(ctx, i, out);
    f->place(ctx, i, out);
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

/* One pure item, from inside the task and back; false if there was none left. */
static bool help_with_one(gw_pool *p, helper *h, float *out) {
    int i = atomic_fetch_add(&p->next, 1);
    if (i >= p->n) return false;
    const gw_pure *f = p->pure;
    void *ctx = p->ctx;
    uint32_t mine = (uint32_t)i + 1;
    atomic_store(&h->item, mine);
    leave(p);
    f->work(ctx, i, out);
    if (atomic_compare_exchange_strong(&h->item, &mine, PLACING)) f->place(ctx, i, out);
    atomic_store(&h->item, 0);
    if (atomic_load(&p->caller_sleeps)) wake(p, &h->item);
    atomic_fetch_add(&p->inside, 1);
    return true;
}

void gw_pool_enter(gw_pool *p, int i) {
    uint32_t seen = 0;
    float out[GW_PURE_FLOATS];
    for (;;) {
        await_change(p, &p->epoch, seen, &p->sleepers);
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->stop)) return;
        atomic_fetch_add(&p->inside, 1);
        while (atomic_load(&p->open)) {   /* perhaps another task, when it comes back */
            if (p->work) take_items(p);
            if (p->work || !help_with_one(p, &p->helper[i], out)) break;
        }
        leave(p);
    }
}

void gw_pool_fail(gw_pool *p, int i) {
    atomic_store(&p->failed, 1);
    if (atomic_exchange(&p->helper[i].item, 0) == 0) leave(p);
    else wake(p, &p->helper[i].item);
}

static void open_task(gw_pool *p, gw_work work, const gw_pure *pure, void *ctx, int n) {
    p->work = work;
    p->pure = pure;
    p->ctx = ctx;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers)) wake(p, &p->epoch);
}

static void close_task(gw_pool *p) {
    uint32_t n;
    atomic_store(&p->open, 0);
    while ((n = atomic_load(&p->inside)) != 0) await_change(p, &p->inside, n, &p->caller_sleeps);
}

void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n) {
    if (p->n_threads == 1 || n == 1) {
        for (int i = 0; i < n; i++) f(ctx, i);
        return;
    }
    open_task(p, f, NULL, ctx, n);
    take_items(p);
    close_task(p);
}

/* --- pure items --- */

static int late_helpers(const gw_pool *p, int slot) {
    int late = 0;
    for (int h = 1; h < p->n_threads; h++)
        late += atomic_load(&p->helper[h].item) == LATE && (slot < 0 || p->helper[h].slot == slot);
    return late;
}

/* Waits for a helper's item, for a bounded time if there is another slot to go on with. Returns the item if the
 * caller has to do it, else -1. */
static int item_of_late(gw_pool *p, helper *h, int slot) {
    uint32_t item = atomic_load(&h->item);
    if (item == 0 || item == LATE) return -1;
    for (int i = 0; i < SPINS && item != PLACING; i++)
        if (atomic_load_explicit(&h->item, memory_order_acquire) != item) break;
    h->slot = slot;
    bool may = item != PLACING && late_helpers(p, -1) < GW_SLOTS - 1;
    if (may && atomic_compare_exchange_strong(&h->item, &item, LATE)) return (int)item - 1;
    while ((item = atomic_load(&h->item)) != 0) await_change(p, &h->item, item, &p->caller_sleeps);
    return -1;
}

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *ctx, int slot, int n) {
    float out[GW_PURE_FLOATS];
    int i;
    if (p->n_threads == 1 || n == 1) {
        for (i = 0; i < n; i++) do_pure(f, ctx, i, out);
        return;
    }
    open_task(p, NULL, f, ctx, n);
    while ((i = atomic_fetch_add(&p->next, 1)) < n) do_pure(f, ctx, i, out);
    close_task(p);
    for (int h = 1; h < p->n_threads; h++)
        if ((i = item_of_late(p, &p->helper[h], slot)) >= 0) do_pure(f, ctx, i, out);
}

int gw_pool_slot(gw_pool *p) {
    int slot = 0;
    while (slot < GW_SLOTS - 1 && late_helpers(p, slot)) slot++;
    return slot;
}

void gw_pool_settle(gw_pool *p) {
    for (int h = 1; h < p->n_threads; h++)
        while (atomic_load(&p->helper[h].item) == LATE)
            await_change(p, &p->helper[h].item, LATE, &p->caller_sleeps);
}

void gw_pool_stop(gw_pool *p) {
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->epoch, 1);
    wake(p, &p->epoch);
}

#else   /* one thread */

void gw_pool_enter(gw_pool *p, int i) { (void)p; (void)i; }
void gw_pool_stop(gw_pool *p) { (void)p; }
void gw_pool_fail(gw_pool *p, int i) { (void)i; p->failed = 1; }
int gw_pool_slot(gw_pool *p) { (void)p; return 0; }
void gw_pool_settle(gw_pool *p) { (void)p; }

void gw_parallel(gw_pool *p, gw_work f, void *ctx, int n) {
    p->work = f;
    p->ctx = ctx;
    p->n = n;
    p->next = 0;
    take_items(p);
}

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *ctx, int slot, int n) {
    float out[GW_PURE_FLOATS];
    (void)p, (void)slot;
    for (int i = 0; i < n; i++) do_pure(f, ctx, i, out);
}

#endif

int gw_pool_threads(const gw_pool *p) { return p->n_threads; }
bool gw_pool_failed(const gw_pool *p) { return p->failed != 0; }

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
