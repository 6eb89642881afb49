/* Several sequences of one model, evaluated together: each gives the same bits as alone, whatever runs beside it. */
#include "api.h"
#include "model/load.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

enum { VOCAB = 50, MOST = 400, N = 4, STEPS = 40 };

static rig rig_of(int threads, int sequences) {
    char count[16];
    snprintf(count, sizeof count, "%d", sequences);
    return rig_with(&base, threads, 0, "sequences", count);
}

/* A prompt, then STEPS tokens, and the logits after the prompt and after each token. */
typedef struct {
    uint32_t n, done;
    int32_t ids[MOST];
    float logits[STEPS + 1][VOCAB];
} text;

static void make_texts(text *texts) {
    /* Prompt lengths: more than the rows of a KV ring, one id, less than a batch, more than a batch. */
    static const uint32_t prompts[N] = { 170, 1, 33, 140 };
    for (uint32_t i = 0; i < N; i++) {
        texts[i].n = prompts[i], texts[i].done = 0;
        make_ids(texts[i].ids, prompts[i] + STEPS, VOCAB, i);
    }
}

static void run_alone(gw_model *m, text *t) {
    CHECK(gw_sync(m, t->ids, t->n) >= 0);
    for (uint32_t i = 0; i <= STEPS; i++) {
        if (i) CHECK_INT(gw_append(m, t->ids[t->n + i - 1]), 0);
        CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
        memcpy(t->logits[i], gw_logits(m), sizeof t->logits[i]);
    }
}

/* Compares the logits of a sequence without pending ids, and appends its next token. Returns whether it has one. */
static bool check_next(gw_model *m, uint32_t i, text *t) {
    CHECK_INT(gw_select(m, i), 0);
    CHECK_INT(gw_logit_rows(m), 1);
    CHECK_INT(gw_logit_first(m), gw_position(m) - 1);
    if (memcmp(gw_logits(m), t->logits[t->done], sizeof t->logits[0]))
        gw_test_fail(__FILE__, __LINE__, "sequence %u, token %u: not the logits that the sequence has alone", i,
                     t->done);
    if (t->done == STEPS) return false;
    CHECK_INT(gw_append(m, t->ids[t->n + t->done++]), 0);
    return true;
}

static void run_together(gw_model *m, text *texts, uint32_t mask, int layers) {
    while (mask) {
        int how = gw_step(m, mask, layers);
        CHECK(how == GW_RUN_MORE || how == GW_RUN_DONE);
        for (uint32_t i = 0; i < N && how == GW_RUN_DONE; i++) {
            if (!(mask >> i & 1)) continue;
            CHECK_INT(gw_select(m, i), 0);
            if (gw_pending(m) == 0 && !check_next(m, i, &texts[i])) mask &= ~(1u << i);
        }
    }
}

static text texts[N];

static void know_texts(void) {
    scoped_rig alone = rig_of(1, 1);
    make_texts(texts);
    for (uint32_t i = 0; i < N; i++) run_alone(alone.m, &texts[i]);
}

static void sync_all(gw_model *m) {
    for (uint32_t i = 0; i < N; i++) {
        CHECK_INT(gw_select(m, i), 0);
        CHECK(gw_sync(m, texts[i].ids, texts[i].n) >= 0);
        texts[i].done = 0;
    }
}

THREADED_TEST(sequences_have_the_bits_that_they_have_alone) {
    know_texts();
    for (int threads = 1; threads <= 4; threads++)
        for (int layers = 0; layers < 2; layers++) {
            if (TSAN_LEAVES_OUT(threads + layers)) continue;
            scoped_rig r = rig_of(threads, N);
            sync_all(r.m);
            run_together(r.m, texts, 15, layers);
        }
}

THREADED_TEST(sequences_keep_their_bits_when_one_is_aborted_or_changed) {
    know_texts();
    scoped_rig r = rig_of(2, N);
    sync_all(r.m);
    for (int i = 0; i < 2; i++) CHECK_INT(gw_step(r.m, 15, 1), GW_RUN_MORE);
    CHECK_INT(gw_select(r.m, 0), 0);
    *gw_abort_flag(r.m) = 1;
    CHECK_INT(gw_run(r.m, 1), GW_E_ABORTED);
    CHECK_INT(gw_pending(r.m), 0);
    CHECK_INT(gw_step(r.m, 14, 1), GW_RUN_MORE);
    CHECK_INT(gw_sync(r.m, texts[0].ids, 20), (int)gw_min(gw_position(r.m), 19)); /* the batch is not finished */
    CHECK_INT(gw_append(r.m, VOCAB), GW_E_BAD_TOKEN);
    run_together(r.m, texts, 14, 1);
    CHECK_INT(gw_select(r.m, 0), 0);
    CHECK(gw_sync(r.m, texts[0].ids, texts[0].n) >= 0);
    run_together(r.m, texts, 1, 0);
}

THREADED_TEST(sequences_share_a_prefix_by_a_copy) {
    static const uint32_t lengths[] = { 169, 1, 60, 130, 169 };
    know_texts();
    scoped_rig r = rig_of(2, N);
    CHECK(gw_sync(r.m, texts[0].ids, texts[0].n) >= 0);
    CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
    CHECK_INT(gw_select(r.m, 1), 0);
    for (size_t i = 0; i < (TSAN_LEAVES_OUT(1) ? 2 : COUNT(lengths)); i++) {
        if (i == 1) { /* the KV rings lose rows, but those before the last id of the prompt are saved */
            CHECK_INT(gw_select(r.m, 0), 0);
            for (int more = 0; more < 200; more++) CHECK_INT(gw_append(r.m, more % VOCAB), 0);
            CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
            CHECK_INT(gw_select(r.m, 1), 0);
        }
        int kept = gw_copy(r.m, 0, lengths[i]);
        CHECK_INT(gw_kept(r.m, 1, texts[0].ids, texts[0].n), kept);
        CHECK_INT(kept, lengths[i] == 169 ? 169 : 0);
        CHECK_INT(gw_sync(r.m, texts[0].ids, texts[0].n), kept);
        texts[0].done = 0;
        CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
        while (check_next(r.m, 1, &texts[0])) CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
    }
    CHECK_INT(gw_copy(r.m, 1, 5), GW_E_BAD_OPTION);
    CHECK_INT(gw_copy(r.m, N, 5), GW_E_BAD_OPTION);
    CHECK_INT(gw_kept(r.m, N, texts[0].ids, 5), GW_E_BAD_OPTION);
    CHECK_INT(gw_kept(r.m, 0, texts[1].ids, 1), 0);
    CHECK_INT(gw_kept(r.m, 0, texts[0].ids, 0), 0);
}

/* The rows of draft tokens, whose logits are wanted together, are not divided between two blocks. */
TEST(sequences_have_all_last_rows_beside_a_prompt_of_any_length) {
    know_texts();
    const text *t = &texts[2];
    for (uint32_t n = 122; n <= 130; n++) {
        scoped_rig r = rig_of(1, 2);
        CHECK_INT(gw_sync(r.m, texts[0].ids, n), 0);
        CHECK_INT(gw_select(r.m, 1), 0);
        CHECK_INT(gw_sync(r.m, t->ids, t->n), 0);
        CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
        CHECK_INT(gw_want_last(r.m, 4), 0);
        for (uint32_t i = 0; i < 4; i++) CHECK_INT(gw_append(r.m, t->ids[t->n + i]), 0);
        while (gw_pending(r.m)) CHECK_INT(gw_step(r.m, 3, 0), GW_RUN_DONE);
        CHECK_INT(gw_logit_rows(r.m), 4);
        for (int i = 0; i < 4; i++)
            CHECK(!memcmp(gw_logits(r.m) - (3 - i) * VOCAB, t->logits[i + 1], sizeof t->logits[0]));
    }
}

TEST(sequences_are_counted_and_bounded) {
    rig one = rig_of(1, 1), four = rig_of(1, N);
    CHECK(gw_plan_bytes(four.m, 0, "kv") > 3.9 * gw_plan_bytes(one.m, 0, "kv"));
    CHECK_INT(gw_select(one.m, 1), GW_E_BAD_OPTION);
    CHECK_INT(gw_select(four.m, N), GW_E_BAD_OPTION);
    CHECK_INT(gw_load_option(four.m, "sequences", "2"), GW_E_BAD_STATE);
    rig_free(&one);
    rig_free(&four);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(gw_load_option(m, "sequences", "0"), GW_E_BAD_OPTION);
    CHECK_INT(gw_load_option(m, "sequences", "17"), GW_E_BAD_OPTION);
    CHECK_TEXT(gw_error_text(m, "what"), "`sequences` must be 1 to 16 (got 17).");
    CHECK_INT(gw_load_option(m, "sequences", "16"), 0);
    static const char *const wrong[] = { "", "abc", "4x", " 4", "-4", "4e0", "16777217", "99999999999999999999" };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK_INT(gw_load_option(m, "sequences", wrong[i]), GW_E_BAD_OPTION);
        CHECK_INT(gw_load_option(m, "kvTokens", wrong[i]), GW_E_BAD_OPTION);
    }
    CHECK_INT(gw_load_option(m, "kvTokens", "16777216"), 0);
}

/* The prompts need 14 pages of 32 tokens, and the KV cache has 13. */
TEST(sequences_share_the_room_of_the_kv_cache) {
    know_texts();
    scoped_file f = tiny_make(&base);
    scoped_rig r = { gw_pool_new(1), NULL };
    r.m = fresh(r.pool);
    CHECK_INT(gw_load_option(r.m, "sequences", "4"), 0);
    CHECK_INT(gw_load_option(r.m, "kvTokens", "399"), 0);
    CHECK_INT(tiny_feed(r.m, f.data, f.size, 1 << 30, 0), GW_E_BAD_OPTION);
    CHECK_SAYS(gw_error_text(r.m, "what"), "`kvTokens` must be at least the context length, 400 (got 399).");
    gw_model_free(r.m);
    r.m = fresh(r.pool);
    CHECK_INT(gw_load_option(r.m, "sequences", "4"), 0);
    CHECK_INT(gw_load_option(r.m, "kvTokens", "400"), 0);
    CHECK_INT(tiny_feed(r.m, f.data, f.size, 1 << 30, 0), GW_LOAD_READY);
    CHECK_INT(gw_model_number(r.m, "kv_free"), 416);
    sync_all(r.m);
    int how = GW_RUN_MORE;
    while (how >= 0) how = gw_step(r.m, 15, 0);
    CHECK_INT(how, GW_E_NO_MEMORY);
    CHECK_TEXT(gw_error_text(r.m, "what"), "The KV cache has no room for 55 more tokens. Set a larger `kvTokens`.");
    CHECK_INT(gw_select(r.m, 0), 0);
    gw_clear(r.m);
    run_together(r.m, texts, 14, 0);
    double free = gw_model_number(r.m, "kv_free");
    CHECK_INT(gw_select(r.m, 0), 0);
    CHECK_INT(gw_copy(r.m, 3, 139), 139);
    CHECK_INT(gw_model_number(r.m, "kv_free"), free); /* the copy shares its pages */
    for (uint32_t i = 1; i < N; i++) {
        CHECK_INT(gw_select(r.m, i), 0);
        gw_clear(r.m);
    }
    CHECK_INT(gw_model_number(r.m, "kv_free"), 416 - 5 * 32);
    CHECK_INT(gw_select(r.m, 0), 0);
    texts[3].done = 0;
    CHECK_INT(gw_sync(r.m, texts[3].ids, texts[3].n), 139);
    CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
    while (check_next(r.m, 0, &texts[3])) CHECK_INT(gw_run(r.m, 0), GW_RUN_DONE);
}

TEST(sequences_that_want_all_logits_are_refused) {
    know_texts();
    scoped_rig r = rig_of(1, N);
    sync_all(r.m);
    gw_want_all(r.m, 1);
    CHECK_INT(gw_step(r.m, 15, 0), GW_E_BAD_STATE);
    run_together(r.m, texts, 7, 0);
}
