/* Evaluation through the API: results are near those of a naive forward pass, and have the same bits with any number of
 * threads, in batches or token by token, with one row of logits or all, with a reused prefix or without, after an
 * abort, beside another model. */
#include "api.h"
#include "model/load.h"
#include "naive.h"
#include "file/types.h"
#include "run/session.h"
#include "text/grammar.h"
#include "rig.h"
#include "test.h"

#if !defined(__wasm__)
#include <pthread.h>
#endif

enum { VOCAB = 50, MOST = 400 };

static void run(gw_model *m) {
    CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    CHECK_INT(gw_pending(m), 0);
    CHECK_INT(gw_logit_rows(m), 1);
    CHECK_INT(gw_logit_first(m), gw_position(m) - 1);
}

static uint32_t sync_run(gw_model *m, const int32_t *ids, uint32_t n) {
    int kept = gw_sync(m, ids, n);
    CHECK(kept >= 0 && (uint32_t)kept < n);
    CHECK_INT(gw_position(m), kept);
    CHECK_INT(gw_pending(m), n - (uint32_t)kept);
    run(m);
    CHECK_INT(gw_position(m), n);
    return (uint32_t)kept;
}

static void step(gw_model *m, int32_t id) {
    CHECK_INT(gw_append(m, id), 0);
    run(m);
}

/* Computes the logits of every position, [n][n_vocab], token by token. */
static void by_steps(gw_model *m, const int32_t *ids, uint32_t n, uint32_t n_vocab, float *out) {
    gw_clear(m);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0) sync_run(m, ids, 1);
        else step(m, ids[i]);
        memcpy(out + (size_t)i * n_vocab, gw_logits(m), n_vocab * sizeof *out);
    }
}

static void by_rows(gw_model *m, const int32_t *ids, uint32_t n, uint32_t n_vocab, float *out) {
    uint32_t seen = 0;
    CHECK(gw_sync(m, ids, n) >= 0);
    gw_want_all(m, 1);
    for (int how; (how = gw_run(m, 2)) != GW_RUN_DONE;) {
        if (how == GW_RUN_MORE) continue;
        CHECK_INT(how, GW_RUN_LOGITS);
        CHECK_INT(gw_logit_first(m), seen);
        memcpy(out + (size_t)seen * n_vocab, gw_logits(m), gw_logit_rows(m) * n_vocab * sizeof *out);
        seen += gw_logit_rows(m);
    }
    CHECK_INT(seen, n);
    CHECK(!memcmp(gw_logits(m), out + (size_t)(n - 1) * n_vocab, n_vocab * sizeof *out));
}

static void check_bits(const float *got, const float *expected, size_t n, const char *what, uint32_t at) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got))
            gw_test_fail(__FILE__, __LINE__, "%s %u, logit %zu: expected %.9g, got %.9g", what, at, i, expected[i],
                         got[i]);
}

#define SHAPE(width, layers, ff, heads, kv, dim, win, vocab, every, bools, te, ta, tf, th) \
    { .n_embd = width,                                                                     \
      .n_layer = layers,                                                                   \
      .n_ff = ff,                                                                          \
      .n_head = heads,                                                                     \
      .n_head_kv = kv,                                                                     \
      .head_dim = dim,                                                                     \
      .window = win,                                                                       \
      .n_ctx = 200,                                                                        \
      .n_vocab = vocab,                                                                    \
      .pattern = every,                                                                    \
      .pattern_as_bools = bools,                                                           \
      .embd = te,                                                                          \
      .attn = ta,                                                                          \
      .ffn = tf,                                                                           \
      .head = th,                                                                          \
      .seed = 9 }
static const struct {
    const char *name;
    double tolerance;
    tiny_config c;
} shapes[] = {
    { "heads 4/1, ff 36", 1e-6, SHAPE(32, 3, 36, 4, 1, 24, 24, 261, 3, false, GW_F32, GW_F32, GW_F32, -1) },
    { "heads 6/3, untied", 1e-6, SHAPE(36, 3, 40, 6, 3, 8, 24, 31, 3, false, GW_F32, GW_F32, GW_F32, GW_F32) },
    { "heads 20/1, sizes not by 4", 1e-6, SHAPE(30, 3, 41, 20, 1, 8, 24, 33, 3, false, GW_F32, GW_F32, GW_F32, -1) },
    { "heads 34/2, f16, bf16", 1e-6, SHAPE(24, 3, 50, 34, 2, 16, 24, 29, 3, false, GW_F16, GW_BF16, GW_F16, GW_BF16) },
    { "pattern as bools, window 1", 1e-6, SHAPE(16, 3, 24, 2, 2, 16, 1, 20, 3, true, GW_F32, GW_F32, GW_F32, -1) },
    { "pattern by default, no window", 1e-6, SHAPE(16, 7, 24, 2, 1, 8, 999, 20, 0, false, GW_F32, GW_F32, GW_F32, -1) },
    { "all layers global", 1e-6, SHAPE(16, 3, 24, 2, 1, 8, 24, 20, 1, false, GW_F32, GW_F32, GW_F32, -1) },
    { "all layers local", 1e-6, SHAPE(16, 3, 24, 2, 1, 8, 24, 20, 4, false, GW_F32, GW_F32, GW_F32, -1) },
    { "the smallest", 1e-6, SHAPE(8, 1, 8, 1, 1, 8, 24, 7, 1, false, GW_F32, GW_F32, GW_F32, -1) },
    { "Q8_0", 1e-5, SHAPE(64, 3, 96, 4, 2, 24, 24, 45, 3, false, GW_Q8_0, GW_Q8_0, GW_Q8_0, -1) },
    { "Q4_0", 1e-3, SHAPE(64, 3, 96, 4, 4, 16, 24, 45, 3, false, GW_Q8_0, GW_Q4_0, GW_Q4_0, GW_Q4_0) },
};

static void check_shape(const tiny_config *c, double tolerance, const char *name) {
    enum { N = 170 }; /* more tokens than a batch or a KV ring holds */
    scoped_file f = tiny_make(c);
    scoped_rig r = rig_new(c, 2, 0);
    int32_t ids[N];
    make_ids(ids, N, c->n_vocab, 5);
    size_t n = (size_t)N * c->n_vocab;
    float *steps = malloc(n * sizeof *steps), *rows = malloc(n * sizeof *rows);
    double *truth = malloc(n * sizeof *truth);
    CHECK(steps && rows && truth);
    naive_logits(c, &f, ids, N, truth);
    by_steps(r.m, ids, N, c->n_vocab, steps);
    by_rows(r.m, ids, N, c->n_vocab, rows);
    for (uint32_t i = 0; i < N; i++) {
        size_t at = (size_t)i * c->n_vocab;
        double error = naive_nmse(steps + at, truth + at, c->n_vocab);
        if (!(error <= tolerance))
            gw_test_fail(__FILE__, __LINE__, "%s: position %u: NMSE %g, at most %g", name, i, error, tolerance);
    }
    check_bits(rows, steps, n, name, 0);
    sync_run(r.m, ids, N);
    check_bits(gw_logits(r.m), steps + n - c->n_vocab, c->n_vocab, name, N);
    free(steps), free(rows), free(truth);
}

THREADED_TEST(engine_agrees_with_a_naive_forward_pass) {
    for (size_t i = 0; i < COUNT(shapes); i++)
        if (!TSAN_LEAVES_OUT(i)) check_shape(&shapes[i].c, shapes[i].tolerance, shapes[i].name);
}

static void prefill_and_steps(int threads, float *out) {
    scoped_rig r = rig_new(&base, threads, 0);
    int32_t ids[160];
    make_ids(ids, 160, VOCAB, 1);
    sync_run(r.m, ids, 150);
    memcpy(out, gw_logits(r.m), VOCAB * sizeof *out);
    for (int i = 150; i < 160; i++) {
        step(r.m, ids[i]);
        memcpy(out + (i - 149) * VOCAB, gw_logits(r.m), VOCAB * sizeof *out);
    }
}

THREADED_TEST(engine_threads_do_not_change_bits) {
    float one[11 * VOCAB], many[11 * VOCAB];
    prefill_and_steps(1, one);
    for (int threads = 2; threads <= 5; threads++) {
        prefill_and_steps(threads, many);
        check_bits(many, one, 11 * VOCAB, "threads", (uint32_t)threads);
    }
}

THREADED_TEST(engine_prefill_equals_steps_equals_all_rows) {
    static const uint32_t lengths[] = { 1, 2, 3, 23, 24, 25, 63, 64, 65, 66, 95, 96, 97, 127, 128, 129, 160 };
    static float steps[160 * VOCAB], rows[160 * VOCAB];
    scoped_rig r = rig_new(&base, 2, 0);
    int32_t ids[160];
    make_ids(ids, 160, VOCAB, 2);
    by_steps(r.m, ids, 160, VOCAB, steps);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        uint32_t n = lengths[i];
        if (TSAN_LEAVES_OUT(i)) continue;
        gw_clear(r.m);
        CHECK_INT(sync_run(r.m, ids, n), 0);
        check_bits(gw_logits(r.m), steps + (n - 1) * VOCAB, VOCAB, "prefill of", n);
        by_rows(r.m, ids, n, VOCAB, rows);
        check_bits(rows, steps, n * VOCAB, "all rows of", n);
    }
}

/* Evaluates ids in groups of up to four. In some groups, all ids but the first are wrong; gw_truncate() then removes
 * these. */
THREADED_TEST(engine_gives_the_last_rows_and_takes_ids_back) {
    static float steps[300 * VOCAB];
    scoped_rig r = rig_new(&base, 2, 0);
    int32_t ids[300];
    uint32_t end = TSAN_LEAVES_OUT(1) ? 100 : 300;
    make_ids(ids, end, VOCAB, 2);
    by_steps(r.m, ids, end, VOCAB, steps);
    gw_clear(r.m);
    CHECK_INT(sync_run(r.m, ids, 3), 0);
    for (uint32_t n = 3, group = 1; n + 4 <= end; group = group % 4 + 1) {
        bool wrong = n % 3 == 0;
        CHECK_INT(gw_want_last(r.m, group), 0);
        for (uint32_t i = 0; i < group; i++) CHECK_INT(gw_append(r.m, wrong && i ? ids[n + i] ^ 1 : ids[n + i]), 0);
        CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
        uint32_t right = wrong ? 1 : group;
        for (uint32_t i = 0; i < right; i++)
            check_bits(gw_logits(r.m) - (group - 1 - i) * VOCAB, steps + (n + i) * VOCAB, VOCAB, "row", n + i);
        gw_truncate(r.m, n += right);
        CHECK_INT(gw_position(r.m), n);
        CHECK_INT(gw_pending(r.m), 0);
    }
    CHECK_INT(gw_want_last(r.m, 5), GW_E_BAD_OPTION);
}

THREADED_TEST(engine_runs_in_portions_of_layers) {
    float whole[VOCAB];
    scoped_rig r = rig_new(&base, 2, 0);
    int32_t ids[130];
    make_ids(ids, 130, VOCAB, 2);
    sync_run(r.m, ids, 130);
    memcpy(whole, gw_logits(r.m), sizeof whole);
    for (int layers = 1; layers <= 5; layers++) {
        int how, calls = 0;
        gw_clear(r.m);
        CHECK_INT(gw_sync(r.m, ids, 130), 0);
        while ((how = gw_run(r.m, layers)) == GW_RUN_MORE) calls++;
        CHECK_INT(how, GW_RUN_DONE);
        CHECK(calls >= 2 * 3 / layers); /* the ids fill two batches; the model has three layers */
        check_bits(gw_logits(r.m), whole, VOCAB, "layers", (uint32_t)layers);
        CHECK_INT(gw_run(r.m, layers), GW_RUN_DONE); /* without pending ids, the logits do not change */
        check_bits(gw_logits(r.m), whole, VOCAB, "layers, again", (uint32_t)layers);
    }
}

static void check_fresh(gw_model *m, gw_model *reference, const int32_t *ids, uint32_t n, const char *what) {
    gw_clear(reference);
    CHECK_INT(sync_run(reference, ids, n), 0);
    check_bits(gw_logits(m), gw_logits(reference), VOCAB, what, n);
}

static void append(gw_model *m, int32_t *ids, uint32_t *n, uint32_t count, uint32_t seed) {
    make_ids(ids + *n, count, VOCAB, seed);
    for (uint32_t i = 0; i < count; i++) step(m, ids[(*n)++]);
}

THREADED_TEST(engine_reuses_what_the_cache_still_holds) {
    scoped_rig a = rig_new(&base, 2, 0), b = rig_new(&base, 1, 0);
    int32_t ids[MOST], other[MOST];
    uint32_t n = 250;
    make_ids(ids, n, VOCAB, 1);
    CHECK_INT(sync_run(a.m, ids, n), 0);
    append(a.m, ids, &n, 20, 2);
    check_fresh(a.m, b.m, ids, n, "prompt and answer");
    make_ids(ids + n, 30, VOCAB, 3);
    CHECK_INT(sync_run(a.m, ids, n + 30), n);
    check_fresh(a.m, b.m, ids, n += 30, "extension");
    CHECK_INT(sync_run(a.m, ids, n), n - 1); /* after a sync of unchanged ids, only the last id is evaluated */
    check_fresh(a.m, b.m, ids, n, "repetition");
    CHECK_INT(sync_run(a.m, ids, n - 10), n - 11); /* the KV rings still hold what position n - 11 needs */
    check_fresh(a.m, b.m, ids, n - 10, "a little back");
    memcpy(other, ids, sizeof other);
    make_ids(other + 280, 40, VOCAB, 4);
    CHECK_INT(sync_run(a.m, other, 320), 280); /* the KV rings still hold what position 280 needs */
    check_fresh(a.m, b.m, other, 320, "another answer");
    make_ids(other, 40, VOCAB, 6);
    CHECK_INT(sync_run(a.m, other, 320), other[0] == ids[0]);
    check_fresh(a.m, b.m, other, 320, "unrelated");
    CHECK_INT(sync_run(a.m, other, 150), 0); /* the KV rings have lost the rows before 150: nothing is reused */
    check_fresh(a.m, b.m, other, 150, "far back");
}

THREADED_TEST(engine_retries_a_long_answer_from_the_saved_rings) {
    scoped_rig a = rig_new(&base, 2, 0), b = rig_new(&base, 1, 0);
    int32_t ids[MOST];
    uint32_t n = 200;
    make_ids(ids, n, VOCAB, 1);
    sync_run(a.m, ids, n);
    for (uint32_t retry = 0; retry < 3; retry++) {
        if (TSAN_LEAVES_OUT(retry)) continue;
        append(a.m, ids, &n, 190, 10 + retry);
        CHECK_INT(sync_run(a.m, ids, 200), 199);
        check_fresh(a.m, b.m, ids, 200, "retry");
        n = 200;
    }
    append(a.m, ids, &n, 190, 10);
    memcpy(ids + 200, ids + 300, 50 * sizeof *ids);
    CHECK_INT(sync_run(a.m, ids, 250), 199);
    check_fresh(a.m, b.m, ids, 250, "the prompt and other text");
}

THREADED_TEST(engine_random_walk) {
    tiny_config c = base;
    c.n_layer = 2, c.pattern = 2, c.window = 16, c.seed = 8;
    scoped_rig a = rig_new(&c, 2, 300), b = rig_new(&c, 1, 300);
    int32_t ids[300];
    uint32_t n = 40, random[3];
    make_ids(ids, n, VOCAB, 1);
    sync_run(a.m, ids, n);
    for (uint32_t i = 0; i < (TSAN_LEAVES_OUT(1) ? 12 : 45); i++) {
        int32_t draw[3];
        make_ids(draw, 3, 1 << 20, 100 + i);
        for (int k = 0; k < 3; k++) random[k] = (uint32_t)draw[k];
        if (random[0] % 4 == 0) {
            append(a.m, ids, &n, (uint32_t)gw_min(300 - n, random[1] % 60), i);
        } else {
            uint32_t common = random[0] % 4 == 1 ? random[1] % n : n - random[1] % (uint32_t)gw_min(n, 40);
            n = (uint32_t)gw_min(300, common + 1 + random[2] % 70);
            make_ids(ids + common, n - common, VOCAB, i);
            CHECK(gw_sync(a.m, ids, n) >= 0);
            if (random[0] % 4 == 3) CHECK(gw_run(a.m, (int)(random[1] % 5)) >= 0); /* a sync interrupts the run */
            if (random[0] % 4 == 2) {
                CHECK(gw_run(a.m, 1 + (int)(random[1] % 3)) >= 0);
                __atomic_store_n(gw_abort_flag(a.m), 1, __ATOMIC_SEQ_CST);
                int how = gw_run(a.m, 0);
                CHECK(how == GW_RUN_DONE || how == GW_E_ABORTED);
                CHECK_INT(gw_pending(a.m), 0);
            }
            sync_run(a.m, ids, n);
        }
        check_fresh(a.m, b.m, ids, n, "walk");
    }
}

static void check_pack(gw_model *m, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling) {
    uint32_t n = base.n_embd;
    float alone[8][32];
    const int32_t *from = ids;
    for (uint32_t i = 0; i < texts; from += lengths[i++]) {
        CHECK_INT(gw_pack(m, from, &lengths[i], 1, pooling), 0);
        CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
        memcpy(alone[i], gw_vector(m, 0), n * sizeof(float));
    }
    CHECK_INT(gw_pack(m, ids, lengths, texts, pooling), 0);
    CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    CHECK_INT(gw_position(m), 0);
    for (uint32_t i = 0; i < texts; i++) check_bits(gw_vector(m, i), alone[i], n, "packed", i);
}

THREADED_TEST(engine_packs_texts_that_see_earlier_tokens_only) {
    static const uint32_t lengths[][8] = {
        { 1, 1 }, { 2, 5, 1 }, { 30, 33, 1 }, { 62, 2 }, { 9, 1, 8, 7, 6, 5, 4, 3 }
    };
    static const uint32_t texts[] = { 2, 3, 3, 2, 8 };
    int32_t ids[64];
    make_ids(ids, 64, VOCAB, 11);
    for (int threads = 1; threads <= 3; threads += 2) {
        scoped_rig r = rig_new(&base, threads, 128), fresh = rig_new(&base, 1, 128);
        for (int i = 0; i < 5; i++) {
            check_pack(r.m, ids, lengths[i], texts[i], GW_POOL_MEAN);
            check_pack(r.m, ids, lengths[i], texts[i], GW_POOL_LAST);
        }
        sync_run(r.m, ids, 40);
        check_fresh(r.m, fresh.m, ids, 40, "after packing");
    }
}

TEST(engine_packs_no_more_than_rows_behind_it_allow) {
    int32_t ids[64];
    uint32_t both[] = { 8, 9 }, one = 40;
    make_ids(ids, 64, VOCAB, 12);
    scoped_rig r = rig_new(&base, 1, 48), small = rig_new(&base, 1, 20);
    CHECK_INT((int)gw_model_number(r.m, "pack_ids"), 16);
    CHECK_INT(gw_pack(r.m, ids, both, 2, GW_POOL_MEAN), GW_E_CONTEXT);
    both[1] = 8;
    check_pack(r.m, ids, both, 2, GW_POOL_MEAN);
    CHECK_INT(gw_pack(r.m, ids, &one, 1, GW_POOL_MEAN), 0);
    CHECK_INT(gw_append(r.m, ids[0]), GW_E_BAD_STATE);
    CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
    CHECK_INT((int)gw_model_number(small.m, "pack_ids"), 0);
    CHECK_INT(gw_pack(small.m, ids, both, 2, GW_POOL_MEAN), GW_E_CONTEXT);
}

THREADED_TEST(engine_fills_the_context_exactly) {
    static const uint32_t sizes[] = { 1, 2, 16, 63, 64, 65, 100, 101 };
    int32_t ids[102];
    make_ids(ids, 102, VOCAB, 1);
    scoped_rig b = rig_new(&base, 1, 0);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint32_t n = sizes[i];
        if (TSAN_LEAVES_OUT(i + 1)) continue;
        scoped_rig a = rig_new(&base, 2, n);
        CHECK_INT(gw_sync(a.m, ids, n + 1), GW_E_CONTEXT);
        CHECK_TEXT(gw_error_text(a.m, "code"), "context-exceeded");
        sync_run(a.m, ids, n);
        check_fresh(a.m, b.m, ids, n, "context of");
        CHECK_INT(gw_append(a.m, 1), GW_E_CONTEXT);
        CHECK_INT(gw_pending(a.m), 0);
        gw_clear(a.m);
        sync_run(a.m, ids, 1);
        for (uint32_t t = 1; t < n; t++) step(a.m, ids[t]);
        check_fresh(a.m, b.m, ids, n, "steps through a context of");
        CHECK_INT(gw_append(a.m, 1), GW_E_CONTEXT);
    }
}

TEST(engine_refuses_bad_ids_and_stays_as_it_was) {
    scoped_rig a = rig_new(&base, 1, 0), b = rig_new(&base, 1, 0);
    int32_t ids[40], bad[3] = { 2, VOCAB, 3 };
    uint32_t n = 30;
    make_ids(ids, n, VOCAB, 1);
    sync_run(a.m, ids, n);
    CHECK_INT(gw_sync(a.m, bad, 3), GW_E_BAD_TOKEN);
    CHECK_SAYS(gw_error_text(a.m, "what"), "0 to 49 (got 50)");
    CHECK_INT(gw_sync(a.m, bad, 0), GW_E_BAD_OPTION);
    CHECK_INT(gw_append(a.m, -1), GW_E_BAD_TOKEN);
    CHECK_INT(gw_append(a.m, INT32_MAX), GW_E_BAD_TOKEN);
    CHECK_INT(gw_position(a.m), n);
    append(a.m, ids, &n, 5, 2);
    check_fresh(a.m, b.m, ids, n, "after errors");
}

TEST(engine_says_that_a_helper_failed) {
    scoped_rig r = rig_new(&base, 1, 0);
    const int32_t ids[] = { 2, 5, 7 };
    sync_run(r.m, ids, 3);
    gw_pool_fail(r.pool, 1);
    CHECK(gw_sync(r.m, ids, 2) >= 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(gw_run(r.m, 0), GW_E_WORKER);
        CHECK_TEXT(gw_error_text(r.m, "code"), "worker-failed");
    }
    scoped_file f = tiny_make(&base);
    scoped_model *m = gw_model_new(r.pool);
    CHECK_INT(tiny_feed(m, f.data, f.size, 1 << 30, 0), GW_E_WORKER);
}

THREADED_TEST(engine_aborts_between_layers_and_goes_on) {
    tiny_config three = base; /* three batches */
    three.n_ctx = 300;
    scoped_rig a = rig_new(&three, 2, 0);
    int32_t ids[300];
    float whole[VOCAB];
    make_ids(ids, 300, VOCAB, 1);
    sync_run(a.m, ids, 300);
    memcpy(whole, gw_logits(a.m), sizeof whole);
    for (int layers = 0; layers < 12; layers++) {
        if (TSAN_LEAVES_OUT(layers + layers / 4)) continue;
        gw_clear(a.m);
        CHECK_INT(gw_sync(a.m, ids, 300), 0);
        if (layers) CHECK_INT(gw_run(a.m, layers), GW_RUN_MORE);
        *gw_abort_flag(a.m) = 1;
        CHECK_INT(gw_run(a.m, 0), GW_E_ABORTED);
        CHECK_TEXT(gw_error_text(a.m, "code"), "aborted");
        CHECK_INT(*gw_abort_flag(a.m), 0);
        CHECK_INT(gw_pending(a.m), 0);
        CHECK_INT(gw_position(a.m), layers / 4 * GW_BATCH); /* a batch takes four calls: three layers and its end */
        uint32_t kept = gw_position(a.m);
        CHECK_INT(sync_run(a.m, ids, 300), kept);
        check_bits(gw_logits(a.m), whole, VOCAB, "aborted after layers", (uint32_t)layers);
    }
    CHECK(gw_sync(a.m, ids, 300) >= 0);
    gw_want_all(a.m, 1);
    while (gw_run(a.m, 1) != GW_RUN_LOGITS) CHECK(gw_pending(a.m) > 0);
    *gw_abort_flag(a.m) = 1;
    CHECK_INT(gw_run(a.m, 0), GW_E_ABORTED);
    CHECK_INT(sync_run(a.m, ids, 300), 0);
    check_bits(gw_logits(a.m), whole, VOCAB, "aborted while giving rows", 0);
    *gw_abort_flag(a.m) = 1;
    sync_run(a.m, ids, 299); /* gw_sync() clears the abort flag */
}

#if !defined(__wasm__)

typedef struct {
    int32_t *flag;
    _Atomic int stop;
} nuisance;

static void *set_flag(void *ctx) {
    nuisance *n = ctx;
    while (!atomic_load(&n->stop))
        for (int i = 0; i < 100000; i++)
            if (i == 0) __atomic_store_n(n->flag, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

THREADED_TEST(engine_aborts_from_another_thread) {
    scoped_rig a = rig_new(&base, 2, 0), b = rig_new(&base, 1, 0);
    int32_t ids[200];
    make_ids(ids, 200, VOCAB, 1);
    nuisance n = { gw_abort_flag(a.m), 0 };
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, set_flag, &n), 0);
    for (int aborted = 0; aborted < 5;) {
        CHECK(gw_sync(a.m, ids, 200) >= 0);
        int how = gw_run(a.m, 0);
        CHECK(how == GW_RUN_DONE || how == GW_E_ABORTED);
        aborted += how == GW_E_ABORTED;
    }
    atomic_store(&n.stop, 1);
    pthread_join(thread, NULL);
    sync_run(a.m, ids, 200);
    check_fresh(a.m, b.m, ids, 200, "after aborts");
}

#endif

THREADED_TEST(engine_two_models_at_once) {
    tiny_config other = base;
    other.seed = 77, other.n_embd = 64, other.attn = GW_F16, other.window = 10;
    float alone[2][VOCAB];
    int32_t ids[2][140];
    for (int k = 0; k < 2; k++) {
        scoped_rig r = rig_new(k ? &other : &base, 2, 0);
        make_ids(ids[k], 140, VOCAB, 5 + (uint32_t)k);
        sync_run(r.m, ids[k], 140);
        memcpy(alone[k], gw_logits(r.m), sizeof alone[k]);
    }
    rig r[2] = { rig_new(&base, 2, 0), rig_new(&other, 3, 0) };
    int how[2];
    for (int k = 0; k < 2; k++) CHECK_INT(gw_sync(r[k].m, ids[k], 140), 0);
    do
        for (int k = 0; k < 2; k++) CHECK((how[k] = gw_run(r[k].m, 1)) >= 0);
    while (how[0] != GW_RUN_DONE || how[1] != GW_RUN_DONE);
    for (int k = 0; k < 2; k++) check_bits(gw_logits(r[k].m), alone[k], VOCAB, "model", (uint32_t)k);
    rig_free(&r[1]);
    CHECK_INT(gw_append(r[0].m, 1), 0);
    run(r[0].m);
    rig_free(&r[0]);
}

TEST(engine_allocates_nothing_per_token) {
    rig r = rig_new(&base, 1, 0);
    int32_t ids[MOST];
    uint32_t n = 100;
    make_ids(ids, n, VOCAB, 1);
    double before = heap_in_use();
    sync_run(r.m, ids, n);
    for (int i = 0; i < 200; i++) {
        int32_t id = gw_sampler_draw(gw_sampler_of(r.m), gw_logits(r.m));
        CHECK(id >= 0 && id < VOCAB);
        gw_sampler_accept(gw_sampler_of(r.m), id);
        step(r.m, id);
    }
    sync_run(r.m, ids, n);
    double after = heap_in_use();
    rig_free(&r);
    CHECK_NEAR(after, before, 0);
    if (before < 0) gw_test_skip("under a sanitizer the heap is not counted");
}

TEST(engine_a_draw_that_fails_says_why) {
    scoped_rig r = rig_new(&base, 1, 64);
    scoped_memory float *logits = malloc(VOCAB * sizeof *logits);
    for (uint32_t i = 0; i < VOCAB; i++) logits[i] = i == 7 ? NAN : 0;
    CHECK_INT(gw_sync(r.m, (const int32_t[]){ 1 << 20 }, 1), GW_E_BAD_TOKEN);
    CHECK_INT(gw_draw(r.m, logits), GW_E_NOT_FINITE);
    CHECK_TEXT(gw_error_text(r.m, "code"), "not-finite");
    CHECK_SAYS(gw_error_text(r.m, "what"), "for the token id 7 after");
    /* a compiled grammar (grammar.h) of a single comma, which is token 49 */
    static const uint32_t comma[] = { 0x31475747,     1, 27, 2, 1, 2, 1,        1, 1, 0, 0, 0,        0, 1,
                                      ',' | ',' << 8, 0, 1,  1, 0, 1, GW_BYTES, 1, 1, 0, 0, GW_NEVER, 0 };
    gw_matcher *x = gw_match_new(r.m, comma, sizeof comma);
    CHECK(x != NULL);
    logits[49] = INFINITY;
    CHECK_INT(gw_match_draw(r.m, x, logits, 1), GW_E_NOT_FINITE);
    CHECK_SAYS(gw_error_text(r.m, "what"), "for the token id 49 after");
    logits[49] = -INFINITY;
    CHECK_INT(gw_match_draw(r.m, x, logits, 1), GW_E_BAD_STATE);
    CHECK_SAYS(gw_error_text(r.m, "what"), "all tokens that the format allows have the logit -infinity");
    gw_match_free(r.m, x);
    logits[7] = 1;
    gw_set_option(r.m, "temperature", 0);
    CHECK_INT(gw_draw(r.m, logits), 7);
}

TEST(engine_checks_every_row_of_logits) {
    scoped_rig r = rig_new(&base, 1, 64);
    const int32_t ids[] = { 2, 5, 7 };
    CHECK_INT(gw_sync(r.m, ids, 3), 0);
    CHECK_INT(gw_want_last(r.m, 2), 0);
    CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
    CHECK_INT(gw_check_logits(r.m), 0);
    ((float *)gw_logits(r.m))[7 - VOCAB] = NAN;
    CHECK_INT(gw_check_logits(r.m), GW_E_NOT_FINITE);
    CHECK_SAYS(gw_error_text(r.m, "what"), "for the token id 7 after 2 tokens");
}
