/* threads_impl: the pool's internals, for threads.c and pure.c only.
 *
 * A task is open while its caller is inside gw_parallel or gw_parallel_pure. A helper announces itself (inside++), then
 * checks whether a task is open; the caller closes the task, then waits for inside == 0. All atomic operations are
 * sequentially consistent unless they say otherwise, so either the caller sees the helper or the helper sees the task
 * closed; and a caller that has seen the decremented count also sees everything the helper wrote before inside--. A
 * helper that arrives too late, or never because another program occupies its core, delays nothing: the caller runs the
 * items itself.
 *
 * `at` is the state of a helper, one of four. Brackets show which side (helper or caller) enters the state, and from
 * which state:
 *   HERE        asleep, or inside as `inside` counts
 *   AWAY + i    outside, working on pure item i; the caller does not wait yet  [helper, from HERE, before its inside--]
 *   PUTTING     outside, putting the result where it belongs; the caller waits   [helper, from AWAY + i]
 *   LATE        outside, still working; the caller does the item itself, and the helper's result is dropped
 *               [caller, from AWAY + i]
 * From PUTTING and LATE the helper returns to HERE. From any state, a host that found the helper trapped sets HERE
 * (gw_pool_fail). Transitions from AWAY are compare-and-swaps, so each item's result is put once: by the helper or by
 * the caller. */
#ifndef GW_THREADS_IMPL_H
#define GW_THREADS_IMPL_H

#include "base/threads.h"

#include <stdatomic.h>

#if defined(__wasm__) && defined(__wasm_atomics__)
#define GW_HOST_THREADS 1
#elif !defined(__wasm__)
#define GW_POSIX_THREADS 1
#include <pthread.h>
#include <time.h>
#endif

#ifndef GW_SPINS
#define GW_SPINS 20000 /* iterations of a spin loop: some tens of microseconds */
#endif

#define GW_TICK 100000000
#define GW_PATIENCE 35

#define HERE 0u
#define AWAY 1u
#define PUTTING (UINT32_MAX - 1)
#define LATE UINT32_MAX

typedef struct {
    _Alignas(64) _Atomic uint32_t at; /* has its own cache line */
    _Atomic uint32_t beat;            /* number of items done, so that waiting threads see that this helper is alive */
    /* the place (pure.h) that a LATE helper may still read; written by the caller only */
    const void *place;
} gw_helper;

/* Does one item of the open task; returns false if none is left. */
typedef bool gw_help(gw_pool *p, gw_helper *h, const void *task);

struct gw_pool {
    _Atomic uint32_t epoch;  /* counts tasks; idle helpers wait on this word */
    _Atomic uint32_t inside; /* helpers inside the task; the caller waits on this word */
    _Atomic uint32_t in_use; /* threads in use; the other helpers wait on this word, so that tasks do not wake them */
    _Atomic uint32_t sleepers, caller_sleeps, open, stop, failed;
    _Atomic int next;  /* next item of the task */
    uint32_t patience; /* GW_PATIENCE, except in tests */
    bool lost;         /* a helper never answered: the caller works alone from then on */
    gw_help *help;     /* help, task and n describe the open task */
    const void *task;
    int n;
    int n_threads;
    gw_helper helper[GW_MAX_THREADS]; /* by thread number; 0 is the caller */
    uint8_t *stacks;                  /* the stacks of all helpers, wasm only */
#ifdef GW_POSIX_THREADS
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[GW_MAX_THREADS];
    _Atomic int arrived;
#endif
};

/* Returns whether a task of n items needs no helper. */
static inline bool gw_alone(const gw_pool *p, int n) {
#if defined(GW_HOST_THREADS) || defined(GW_POSIX_THREADS)
    return p->in_use == 1 || n == 1 || p->lost;
#else
    return (void)p, (void)n, true;
#endif
}

/* Opens a task. The task must not change until gw_close(). */
void gw_open(gw_pool *p, gw_help *help, const void *task, int n);
void gw_close(gw_pool *p); /* returns when no helper is inside */
void gw_leave(gw_pool *p); /* does inside-- */

/* Returns when *at differs from value: spins for a bounded time, then sleeps. `sleeps` is nonzero while a thread
 * sleeps: the thread that changes *at reads `sleeps` afterwards, to find out whether it must wake the sleeper. */
void gw_await_change(gw_pool *p, _Atomic uint32_t *at, uint32_t value, _Atomic uint32_t *sleeps);
void gw_wake(gw_pool *p, _Atomic uint32_t *at);

/* Like gw_await_change(), for a caller that waits for helpers. Returns false if no helper finished an item for
 * `patience` ticks of GW_TICK nanoseconds: then a helper died or was stopped inside an item, and the pool is unusable.
 * No item takes nearly as long. */
bool gw_await_helpers(gw_pool *p, _Atomic uint32_t *at, uint32_t value);

static inline void gw_beat(gw_helper *h) { atomic_fetch_add_explicit(&h->beat, 1, memory_order_relaxed); }

#endif
