/* threads: every item once, whatever the number of threads, and results that are seen afterwards. */
#include "../../src/threads.h"
#include "test.h"

#include <stdatomic.h>

typedef struct { _Atomic int runs[1000]; _Atomic long sum; } tally;

static void count(void *ctx, int i) {
    tally *t = ctx;
    atomic_fetch_add(&t->runs[i], 1);
    atomic_fetch_add(&t->sum, i);
}

static void each_item_once(int threads) {
    gw_pool *p = gw_pool_new(threads);
    CHECK(p != NULL);
    static tally t;
    for (int round = 0; round < 2000; round++) {
        int n = 1 + round % 999;
        memset(&t, 0, sizeof t);
        gw_parallel(p, count, &t, n);
        for (int i = 0; i < n; i++) CHECK_INT(t.runs[i], 1);
        CHECK_INT(t.sum, (long)n * (n - 1) / 2);
    }
    gw_pool_free(p);
}

TEST(threads_each_item_once_1) { each_item_once(1); }
TEST(threads_each_item_once_2) { each_item_once(2); }
TEST(threads_each_item_once_4) { each_item_once(4); }

TEST(threads_refuses_bad_counts) {
    CHECK(gw_pool_new(0) == NULL);
    CHECK(gw_pool_new(GW_MAX_THREADS + 1) == NULL);
}

static void plain_add(void *ctx, int i) { ((long *)ctx)[i] += i; }   /* no atomics: TSan judges the barrier */

TEST(threads_results_are_visible_after_the_barrier) {
    gw_pool *p = gw_pool_new(3);
    static long cells[64];
    memset(cells, 0, sizeof cells);
    for (int round = 0; round < 500; round++) gw_parallel(p, plain_add, cells, 64);
    for (int i = 0; i < 64; i++) CHECK_INT(cells[i], 500L * i);
    gw_pool_free(p);
}

#ifndef __wasm__
#include <pthread.h>

/* A helper that traps, as its host tells it: it never comes back from gw_pool_enter. */
static pthread_t caller;
static _Atomic int trapped;

static void trap_in_helper(void *ctx, int i) {
    (void)i;
    while (pthread_equal(pthread_self(), caller) && !atomic_load(&trapped)) continue;   /* until a helper has come */
    if (pthread_equal(pthread_self(), caller) || atomic_exchange(&trapped, 1)) return;
    gw_pool_fail(ctx);
    pthread_exit(NULL);
}

TEST(threads_a_helper_that_traps_is_not_waited_for) {
    for (int threads = 2; threads <= 4; threads++) {
        gw_pool *p = gw_pool_new(threads);
        CHECK(p && !gw_pool_failed(p));
        caller = pthread_self();
        trapped = 0;
        gw_parallel(p, trap_in_helper, p, 100);
        CHECK(trapped && gw_pool_failed(p));
        long cells[64] = { 0 };
        gw_parallel(p, plain_add, cells, 64);   /* and what follows ends, too */
        for (int i = 0; i < 64; i++) CHECK_INT(cells[i], i);
        gw_pool_free(p);
    }
}
#endif
