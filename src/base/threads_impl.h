/* threads_impl: the pool's internals, for threads.c and pure.c only.
 *
 * A task is open while its caller is inside gw_parallel or gw_parallel_pure. A helper increments `inside`, then checks
 * whether a task is open; the caller closes the task, then waits for inside == 0. All atomic operations are
 * sequentially consistent unless they say otherwise, so either the caller sees the helper or the helper sees the task
 * closed; and a caller that has seen the decremented count also sees everything that the helper wrote before. A helper
 * that arrives too late, or never because another program occupies its core, delays nothing: the caller computes the
 * items itself.
 *
 * gw_helper.at is the state of a helper. Brackets show which thread sets the state, and from which state:
 *   HERE        asleep, or counted by `inside`
 *   AWAY + i    not counted, computing item i of gw_parallel_pure; the caller does not wait yet  [helper, from HERE]
 *   PUTTING     not counted, storing the result; the caller waits  [helper, from AWAY + i]
 *   LATE        not counted, still computing; the caller computes the item itself, and the helper's result is dropped
 *               [caller, from AWAY + i]
 * From PUTTING and LATE the helper returns to HERE. If a helper trapped, the host sets HERE from any state
 * (gw_pool_fail). Transitions from AWAY are compare-and-swaps, so each item's result is stored once: by the helper or
 * by the caller. */
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

/* Iterations of a spin loop before a thread sleeps: at least 15 microseconds, longer than the single-threaded work
 * between two matrix products. With fewer, helpers would sleep during that work, and waking them takes a system
 * call. */
#ifndef GW_SPINS
#define GW_SPINS 60000
#endif

#define GW_TICK 100000000
#define GW_PATIENCE 35

#define HERE 0u
#define AWAY 1u
#define PUTTING (UINT32_MAX - 1)
#define LATE UINT32_MAX

typedef struct {
    _Alignas(64) _Atomic uint32_t at; /* state of a helper thread; each helper has a separate cache line */
    _Atomic uint32_t beat;            /* items completed by the helper: shows waiting threads that it is alive */
    /* memory area (pure.h) that the helper may still read while its state is LATE; written by the caller only */
    const void *place;
} gw_helper;

/* Computes items of the open task; returns false if none is left. */
typedef bool gw_help(gw_pool *p, gw_helper *h, const void *task);

struct gw_pool {
    _Atomic uint32_t epoch;  /* counts tasks; idle helper threads wait on this word */
    _Atomic uint32_t inside; /* number of helpers inside the open task; the caller waits on this word */
    _Atomic uint32_t in_use; /* threads in use; unused helpers wait on this word, so that tasks do not wake them */
    _Atomic uint32_t sleepers, caller_sleeps, open, stop, failed;
    _Atomic int next;
    uint32_t patience; /* ticks to wait for a helper thread: GW_PATIENCE, except in tests */
    bool lost;         /* a helper stopped responding: the caller computes all items from then on */
    gw_help *help;     /* fields help, task and n describe the open task */
    const void *task;
    int n;
    int n_threads;
    gw_helper helper[GW_MAX_THREADS]; /* helpers by thread number; thread 0 is the caller */
    uint8_t *stacks;                  /* stacks of all helper threads, wasm only */
#ifdef GW_POSIX_THREADS
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[GW_MAX_THREADS];
    _Atomic int arrived;
#endif
};

/* Returns whether the caller computes all n items of a task itself. */
static inline bool gw_alone(const gw_pool *p, int n) {
#if defined(GW_HOST_THREADS) || defined(GW_POSIX_THREADS)
    return p->in_use == 1 || n == 1 || p->lost;
#else
    return (void)p, (void)n, true;
#endif
}

/* Opens a task. The task must not change until gw_close(). */
void gw_open(gw_pool *p, gw_help *help, const void *task, int n);
void gw_close(gw_pool *p); /* ends the open task: returns when no helper is inside it */
void gw_leave(gw_pool *p); /* decrements gw_pool.inside, and may wake the caller */

void gw_wake(gw_pool *p, _Atomic uint32_t *at);

/* Waits until helpers have changed *at from value; for the caller of a task only. Returns false if no helper finished
 * an item for gw_pool.patience ticks of GW_TICK nanoseconds. No item takes nearly that long, so a helper must have died
 * or been stopped inside an item; the pool is then unusable. */
bool gw_await_helpers(gw_pool *p, _Atomic uint32_t *at, uint32_t value);

static inline void gw_beat(gw_helper *h) { atomic_fetch_add_explicit(&h->beat, 1, memory_order_relaxed); }

#endif
