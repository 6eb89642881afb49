/* threads: every item runs once with any number of threads, and the caller sees all results. */
#include "base/pure.h"
#include "base/threads_impl.h"
#include "scoped.h"
#include "test.h"

#include <stdatomic.h>
#include <time.h>

typedef struct {
    _Atomic int runs[1000];
    _Atomic long sum;
} tally;

static void count(void *ctx, int i) {
    tally *t = ctx;
    atomic_fetch_add(&t->runs[i], 1);
    atomic_fetch_add(&t->sum, i);
}

static void each_item_once(int threads) {
    scoped_pool *p = gw_pool_new(threads);
    CHECK(p != NULL);
    static tally t;
    for (int round = 0; round < 2000; round++) {
        int n = 1 + round % 999;
        memset(&t, 0, sizeof t);
        gw_parallel(p, count, &t, n);
        for (int i = 0; i < n; i++) CHECK_INT(t.runs[i], 1);
        CHECK_INT(t.sum, (long)n * (n - 1) / 2);
    }
}

TEST(threads_each_item_once_1) { each_item_once(1); }
THREADED_TEST(threads_each_item_once_2) { each_item_once(2); }
THREADED_TEST(threads_each_item_once_4) { each_item_once(4); }

TEST(threads_refuses_bad_counts) {
    CHECK(gw_pool_new(0) == NULL);
    CHECK(gw_pool_new(GW_MAX_THREADS + 1) == NULL);
}

static void plain_add(void *ctx, int i) { ((long *)ctx)[i] += i; } /* plain addition, so that TSan checks the barrier */

THREADED_TEST(threads_results_are_visible_after_the_barrier) {
    scoped_pool *p = gw_pool_new(3);
    static long cells[64];
    memset(cells, 0, sizeof cells);
    for (int round = 0; round < 500; round++) gw_parallel(p, plain_add, cells, 64);
    for (int i = 0; i < 64; i++) CHECK_INT(cells[i], 500L * i);
}

typedef struct {
    int offset, n;
    long *cells;
    _Atomic int placed;
} pure_job;

static void square(const void *ctx, int i, float *out) { *out = (float)(i * i + ((const pure_job *)ctx)->offset); }

static void put(void *ctx, int i, const float *out) {
    pure_job *j = ctx;
    j->cells[i] += (long)*out;
    atomic_fetch_add(&j->placed, 1);
}

static const gw_pure squares = { square, put };

/* Runs tasks of pure items (pure.h), each with its job in a place that no late thread reads. */
static void each_pure_item_once(int threads) {
    scoped_pool *p = gw_pool_new(threads);
    static pure_job jobs[GW_PLACES];
    for (int round = 0; round < 2000; round++) {
        long cells[100] = { 0 };
        int n = 1 + round % 99;
        pure_job *job = gw_pure_place(p, jobs, sizeof *jobs);
        CHECK(job >= jobs && job < jobs + GW_PLACES);
        *job = (pure_job){ round, n, cells, 0 };
        gw_parallel_pure(p, &squares, job, n);
        CHECK_INT(job->placed, n);
        for (int i = 0; i < n; i++) CHECK_INT(cells[i], i * i + round);
        if (round % 7 == 0) gw_parallel(p, plain_add, cells, 64);
    }
    gw_pure_settle(p);
}

TEST(threads_each_pure_item_once_1) { each_pure_item_once(1); }
THREADED_TEST(threads_each_pure_item_once_2) { each_pure_item_once(2); }
THREADED_TEST(threads_each_pure_item_once_4) { each_pure_item_once(4); }

#ifndef __wasm__
#include <pthread.h>

/* A helper thread that traps never returns from gw_pool_enter(); its host reports the trap by gw_pool_fail(). */
static pthread_t caller;
static _Atomic int trapped;

static void trap_in_helper(void *ctx, int i) {
    (void)i;
    while (pthread_equal(pthread_self(), caller) && !atomic_load(&trapped)) continue;
    if (pthread_equal(pthread_self(), caller) || atomic_exchange(&trapped, 1)) return;
    gw_pool_fail(ctx, 1); /* any helper's number is valid here: none works on a pure item */
    pthread_exit(NULL);
}

THREADED_TEST(threads_a_helper_that_traps_is_not_waited_for) {
    for (int threads = 2; threads <= 4; threads++) {
        scoped_pool *p = gw_pool_new(threads);
        CHECK(p && !gw_pool_failed(p));
        caller = pthread_self();
        trapped = 0;
        gw_parallel(p, trap_in_helper, p, 100);
        CHECK(trapped && gw_pool_failed(p));
        long cells[64] = { 0 };
        gw_parallel(p, plain_add, cells, 64);
        for (int i = 0; i < 64; i++) CHECK_INT(cells[i], i);
    }
}

/* Numbers of helper threads that hang in an item, and that should hang, as if other programs had taken their cores. */
static _Atomic int stuck, held;

static void stick(const void *ctx, int i, float *out) {
    if (!pthread_equal(pthread_self(), caller)) {
        atomic_fetch_add(&stuck, 1);
        while (atomic_load(&held)) continue;
        atomic_fetch_sub(&stuck, 1);
    } else {
        while (atomic_load(&held) > atomic_load(&stuck)) continue; /* the caller waits until all helpers hang */
    }
    square(ctx, i, out);
}

static const gw_pure sticking = { stick, put };

/* Checks that the caller does all items, in one task after another, while each helper hangs in an item. */
static void not_waited_for(int threads) {
    scoped_pool *p = gw_pool_new(threads);
    static pure_job jobs[GW_PLACES];
    long cells[100] = { 0 };
    caller = pthread_self();
    held = threads - 1;
    pure_job *first = gw_pure_place(p, jobs, sizeof *jobs);
    *first = (pure_job){ 5, 100, cells, 0 };
    gw_parallel_pure(p, &sticking, first, 100);
    CHECK_INT(first->placed, 100);
    CHECK_INT(stuck, threads - 1);
    for (int round = 0; round < 20; round++) {
        pure_job *job = gw_pure_place(p, jobs, sizeof *jobs);
        CHECK(job != first); /* late helpers may still read the first job */
        *job = (pure_job){ round, 100, cells, 0 };
        gw_parallel_pure(p, &squares, job, 100);
    }
    held = 0;
    gw_pure_settle(p);
    CHECK_INT(stuck, 0);
    for (int i = 0; i < 100; i++) CHECK_INT(cells[i], 5 + 190 + 21L * i * i); /* late helpers' results were dropped */
    CHECK(gw_pure_place(p, jobs, sizeof *jobs) == first);
    first->offset = 0; /* now the first job may be written, which TSan checks */
    gw_parallel_pure(p, &squares, first, 100);
    for (int i = 0; i < 100; i++) CHECK_INT(cells[i], 5 + 190 + 22L * i * i);
}

THREADED_TEST(threads_a_late_helper_is_not_waited_for) { not_waited_for(2); }
THREADED_TEST(threads_late_helpers_are_not_waited_for) { not_waited_for(GW_PLACES); }

/* Releases the hanging helpers after 50 ms. Meanwhile, the caller waits, because only one place for jobs is free. */
static void *let_go(void *ctx) {
    while (atomic_load(&stuck) < *(const int *)ctx) continue;
    for (clock_t begin = clock(); clock() - begin < CLOCKS_PER_SEC / 20;) continue;
    atomic_store(&held, 0);
    return NULL;
}

THREADED_TEST(threads_as_many_may_be_late_as_there_are_places) {
    scoped_pool *p = gw_pool_new(GW_PLACES + 1);
    pthread_t other;
    long cells[100] = { 0 };
    static pure_job job;
    job = (pure_job){ 0, 100, cells, 0 };
    caller = pthread_self();
    held = GW_PLACES;
    int all = GW_PLACES;
    CHECK_INT(pthread_create(&other, NULL, let_go, &all), 0);
    gw_parallel_pure(p, &sticking, &job, 100);
    gw_pure_settle(p);
    CHECK_INT(job.placed, 100);
    for (int i = 0; i < 100; i++) CHECK_INT(cells[i], i * i);
    CHECK_INT(pthread_join(other, NULL), 0);
}

/* Simulates a helper thread that died or was stopped inside an item: the caller must continue alone. */
static void vanish(void *ctx, int i) {
    if (pthread_equal(pthread_self(), caller)) {
        while (!atomic_load(&stuck)) continue;
    } else {
        atomic_fetch_add(&stuck, 1);
        while (atomic_load(&held)) continue;
    }
    plain_add(ctx, i);
}

static void vanish_in_pure(const void *ctx, int i, float *out) { stick(ctx, i, out); }
static void put_slowly(void *ctx, int i, const float *out) {
    while (!pthread_equal(pthread_self(), caller) && atomic_load(&held)) continue;
    put(ctx, i, out);
}

THREADED_TEST(threads_a_helper_that_vanished_is_not_waited_for) {
    static long cells[100], after[100];
    scoped_pool *p = gw_pool_new(3);
    p->patience = 3;
    caller = pthread_self();
    stuck = 0;
    held = 1;
    gw_parallel(p, vanish, cells, 100);
    CHECK(gw_pool_failed(p) && stuck);
    for (int round = 0; round < 50; round++) gw_parallel(p, plain_add, after, 100);
    for (int i = 0; i < 100; i++) CHECK_INT(after[i], 50L * i);
    held = 0;
}

/* The caller waits for a stopped helper only while the helper stores a result, and when no place for a job is left. */
THREADED_TEST(threads_a_helper_that_vanished_in_a_pure_item_is_not_waited_for) {
    static const gw_pure puts = { square, put_slowly }, works = { vanish_in_pure, put };
    for (int i = 0; i < 2; i++) {
        static pure_job job;
        static long cells[2][1000];
        scoped_pool *p = gw_pool_new(GW_PLACES + 1);
        p->patience = 3;
        caller = pthread_self();
        stuck = 0;
        held = GW_PLACES;
        job = (pure_job){ 0, 1000, cells[i], 0 };
        while (!gw_pool_failed(p)) gw_parallel_pure(p, i ? &works : &puts, &job, 1000);
        gw_pure_settle(p);
        held = 0;
    }
}

THREADED_TEST(threads_a_slow_helper_is_waited_for) {
    scoped_pool *p = gw_pool_new(2);
    pthread_t other;
    static long cells[100];
    caller = pthread_self();
    stuck = 0;
    held = 1;
    int one = 1;
    CHECK_INT(pthread_create(&other, NULL, let_go, &one), 0);
    gw_parallel(p, vanish, cells, 100);
    CHECK(!gw_pool_failed(p));
    for (int i = 0; i < 100; i++) CHECK_INT(cells[i], i);
    CHECK_INT(pthread_join(other, NULL), 0);
}

static void put_nowhere(void *ctx, int i, const float *out) { (void)ctx, (void)i, (void)out; }

/* Counts the threads that take part in a round. A round does not end before `least` threads have begun an item. */
typedef struct {
    int round, least;
    _Atomic int threads;
} meeting;

static void meet(void *ctx, int i) {
    static _Thread_local int last;
    meeting *m = ctx;
    (void)i;
    if (last != m->round) atomic_fetch_add(&m->threads, 1);
    last = m->round;
    while (atomic_load(&m->threads) < m->least) continue;
}

static void meet_in_pure(const void *ctx, int i, float *out) {
    meet((void *)(uintptr_t)ctx, i);
    *out = 0;
}

THREADED_TEST(threads_not_in_use_take_no_part) {
    static const gw_pure meets = { meet_in_pure, put_nowhere };
    static const int in_use[] = { 2, 4, 1, 3 };
    static meeting m[60];
    gw_pool *p = gw_pool_new(4);
    CHECK_INT(gw_pool_threads(p), 4);
    for (int round = 0; round < 60; round++) {
        int n = in_use[round % 4];
        gw_pool_use(p, n);
        CHECK_INT(gw_pool_threads(p), n);
        m[round] = (meeting){ round + 1, n, 0 };
        if (round & 4) gw_parallel(p, meet, &m[round], 100);
        else gw_parallel_pure(p, &meets, &m[round], 100);
        CHECK_INT(m[round].threads, n);
    }
    gw_pure_settle(p);
    gw_pool_use(p, 2);
    gw_pool_free(p);
}

static void trap_in_pure(const void *ctx, int i, float *out) {
    (void)i;
    if (!pthread_equal(pthread_self(), caller)) {
        gw_pool_fail(*(gw_pool *const *)ctx, 1);
        atomic_store(&trapped, 1);
        pthread_exit(NULL);
    }
    while (!atomic_load(&trapped)) continue;
    *out = 1;
}

THREADED_TEST(threads_a_helper_that_traps_in_a_pure_item_is_not_waited_for) {
    static const gw_pure traps = { trap_in_pure, put_nowhere };
    scoped_pool *p = gw_pool_new(2);
    caller = pthread_self();
    trapped = 0;
    gw_parallel_pure(p, &traps, &p, 100);
    CHECK(trapped && gw_pool_failed(p));
    gw_pure_settle(p);
}
#endif
