/* Tests assistants: drafts depend only on the keys, values and hidden states of the target, not on its batches.
 * assistant.test.js compares drafts with transformers. */
#include "api.h"
#include "file/types.h"
#include "model/load.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

enum { VOCAB = 50, CHAIN = 3 };

static const tiny_config assistant = {
    .n_embd = 64,
    .n_layer = 3,
    .n_ff = 32,
    .n_head = 4,
    .n_head_kv = 2,
    .head_dim = 16,
    .window = 24,
    .n_ctx = 300,
    .n_vocab = VOCAB,
    .pattern = 3,
    .embd = GW_Q8_0,
    .attn = GW_Q4_0,
    .ffn = GW_F32,
    .head = -1,
    .seed = 8,
    .target = 32,
    .centroids = 50, /* gw_draft() uses the best 32 centroids */
};

/* Loads an assistant of a target. */
static gw_model *load(const tiny_config *c, rig *target, uint32_t n_ctx) {
    scoped_file f = tiny_make(c);
    gw_model *m = fresh(target->pool);
    feed_header(m, &f);
    CHECK_INT(gw_load_reserve(m, n_ctx), GW_E_UNSUPPORTED_ARCH);
    CHECK_INT(gw_pair(m, target->m), 1);
    CHECK_INT(gw_load_reserve(m, n_ctx), 0);
    memcpy(gw_load_window(m), f.data + f.header, f.size - f.header);
    CHECK_INT(gw_load_commit(m, f.size - f.header), GW_LOAD_READY);
    return m;
}

/* The draft tokens after an id, and the logits of the last of them. */
typedef struct {
    int32_t ids[CHAIN];
    float logits[VOCAB];
} drafts;

static drafts draft_after(gw_model *m, int32_t id) {
    drafts d;
    for (int i = 0; i < CHAIN; i++) {
        id = d.ids[i] = gw_draft(m, id, i > 0);
        CHECK(id >= 0 && id < VOCAB);
    }
    memcpy(d.logits, gw_logits(m), sizeof d.logits);
    return d;
}

static void check_same(const drafts *a, const drafts *b) {
    CHECK(!memcmp(a->ids, b->ids, sizeof a->ids));
    CHECK(!memcmp(a->logits, b->logits, sizeof a->logits));
}

static void check_drafts(const tiny_config *c, int threads) {
    scoped_rig target = rig_with(&base, threads, 0, "sequences", "2");
    scoped_model *m = load(c, &target, 0);
    int32_t ids[280];
    make_ids(ids, 280, VOCAB, 4);
    for (uint32_t n = 1; n < 280; n += n < 30 ? 7 : 61) {
        /* Drafts are the same after one batch, and in another sequence after single tokens and several rows of
         * logits. */
        CHECK(gw_select(target.m, 0) == 0 && gw_sync(target.m, ids, n) >= 0);
        CHECK_INT(gw_run(target.m, 0), GW_RUN_DONE);
        drafts expected = draft_after(m, ids[n]), again = draft_after(m, ids[n]);
        check_same(&again, &expected);
        CHECK(gw_select(target.m, 1) == 0 && gw_sync(target.m, ids, 1) >= 0);
        for (uint32_t i = 1; i < n; i++) {
            CHECK_INT(gw_run(target.m, 0), GW_RUN_DONE);
            CHECK_INT(gw_append(target.m, ids[i]), 0);
        }
        CHECK_INT(gw_want_last(target.m, 3), 0);
        CHECK(gw_append(target.m, ids[n]) == 0 && gw_append(target.m, 7) == 0);
        CHECK_INT(gw_run(target.m, 0), GW_RUN_DONE);
        gw_truncate(target.m, n);
        again = draft_after(m, ids[n]);
        check_same(&again, &expected);
    }
}

TEST(drafts_do_not_depend_on_the_batches_of_the_target) {
    tiny_config dense = assistant;
    dense.centroids = 0;
    check_drafts(&assistant, 1);
    check_drafts(&dense, 1);
}

THREADED_TEST(drafts_are_the_same_with_several_threads) { check_drafts(&assistant, 3); }

TEST(drafts_need_a_hidden_state) {
    scoped_rig target = rig_new(&base, 1, 0);
    scoped_model *m = load(&assistant, &target, 40);
    int32_t ids[60] = { 2, 5, 9 };
    CHECK_INT(gw_draft(m, 5, 0), GW_E_BAD_STATE);
    CHECK_INT(gw_sync(target.m, ids, 3), 0);
    CHECK_INT(gw_draft(m, 5, 0), GW_E_BAD_STATE);
    CHECK_INT(gw_run(target.m, 0), GW_RUN_DONE);
    CHECK(gw_draft(m, 5, 0) >= 0);
    CHECK_INT(gw_draft(m, VOCAB, 0), GW_E_BAD_STATE);
    CHECK_INT(gw_draft(m, -1, 1), GW_E_BAD_STATE);
    gw_truncate(target.m, 2);
    CHECK_INT(gw_draft(m, 5, 0), GW_E_BAD_STATE);
    CHECK(gw_sync(target.m, ids, 40) >= 0); /* the ids fill the assistant's context */
    CHECK_INT(gw_run(target.m, 0), GW_RUN_DONE);
    CHECK_INT(gw_draft(m, 5, 0), GW_E_BAD_STATE);
}

TEST(assistants_of_other_models_are_refused) {
    const struct {
        size_t field;
        uint32_t value;
    } wrong[] = {
        { offsetof(tiny_config, target), 64 },
        { offsetof(tiny_config, n_head_kv), 4 },
        { offsetof(tiny_config, head_dim), 8 },
        { offsetof(tiny_config, window), 25 },
    };
    scoped_rig target = rig_new(&base, 1, 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tiny_config c = assistant;
        *(uint32_t *)((char *)&c + wrong[i].field) = wrong[i].value;
        scoped_file f = tiny_make(&c);
        scoped_model *m = fresh(target.pool);
        feed_header(m, &f);
        CHECK_INT(gw_pair(m, target.m), GW_E_BAD_OPTION);
        CHECK_INT(gw_pair(target.m, m), 0);
        CHECK_INT(gw_load_reserve(m, 0), GW_E_UNSUPPORTED_ARCH);
    }
}
