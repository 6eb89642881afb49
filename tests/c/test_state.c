/* Saved states: a restored session gives the same bits as one that was never interrupted, with every type of cache,
 * with and without windows, with other threads and context lengths; the sampler continues; a state that is damaged,
 * truncated, forged, or of another model or cache is rejected, and the model stays usable. */
#include "api.h"
#include "base/hash.h"
#include "model/load.h"
#include "file/types.h"
#include "run/state.h"
#include "rig.h"
#include "test.h"

/* A prompt and its answer have more tokens than a KV ring has rows, so the rings have lost their first rows. */
enum { VOCAB = 50, CONTEXT = 300, PROMPT = 150, ANSWER = 20, MORE = 30, ALL = PROMPT + ANSWER + MORE };

static rig rig_of(const tiny_config *c, int threads, uint32_t n_ctx, const char *kv_type) {
    return rig_with(c, threads, n_ctx, "kvType", kv_type);
}

static const int32_t *some_ids(void) {
    static int32_t ids[CONTEXT];
    for (int i = 0; i < CONTEXT; i++) ids[i] = (i * 17 + i / 7) % VOCAB;
    return ids;
}

/* Evaluates ids[0..prompt) at once and the ids up to n one by one. Returns how many ids the cache already had. */
static int eval(gw_model *m, const int32_t *ids, uint32_t prompt, uint32_t n) {
    int kept = gw_sync(m, ids, prompt);
    CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    for (uint32_t i = prompt; i < n; i++) {
        CHECK_INT(gw_append(m, ids[i]), 0);
        CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    }
    return kept;
}

typedef struct {
    uint8_t *at;
    size_t n;
} bytes;

static void bytes_free(bytes *b) { free(b->at); }
#define scoped_bytes SCOPED(bytes_free) bytes

static bytes save(gw_model *m, const int32_t *ids, uint32_t n) {
    CHECK_INT(gw_save(m, ids, n), 0);
    bytes b = { malloc((size_t)gw_save_bytes(m)), (size_t)gw_save_bytes(m) };
    size_t at = 0;
    for (size_t part; (part = gw_save_next(m)) > 0; at += part) memcpy(b.at + at, gw_state_window(m), part);
    CHECK_INT(at, b.n);
    return b;
}

static int restore(gw_model *m, bytes b, size_t chunk) {
    int how = gw_restore(m, (double)b.n);
    for (size_t at = 0; how >= 0;) {
        size_t n = gw_min(gw_min(chunk, gw_state_left(m)), b.n - at);
        memcpy(gw_state_window(m), b.at + at, n);
        how = gw_restore_commit(m, n);
        at += n;
        if (how == 0) CHECK_INT(at, b.n);
        if (how == 0 || how < 0) break;
    }
    return how;
}

static void check_same(gw_model *a, gw_model *b, const int32_t *ids, uint32_t n, int kept) {
    CHECK_INT(eval(a, ids, n, n), kept);
    CHECK_INT(eval(b, ids, n, n), kept);
    CHECK(!memcmp(gw_logits(a), gw_logits(b), VOCAB * sizeof(float)));
}

static const char *const kv_types[] = { "auto", "f32", "i16", "q8_0" };

THREADED_TEST(state_goes_on_bit_for_bit) {
    enum { SAVED = 230, END = 260 }; /* the saved KV rings lack rows that a retry of the prompt needs */
    static const uint32_t windows[] = { 24, 1, 999 };
    const int32_t *ids = some_ids();
    for (int i = 0; i < 12; i++) {
        if (TSAN_LEAVES_OUT(i + i / 4)) continue;
        tiny_config c = base;
        c.window = windows[i / 4];
        scoped_rig whole = rig_of(&c, 1, CONTEXT, kv_types[i % 4]), other = rig_of(&c, 2, CONTEXT, kv_types[i % 4]);
        eval(whole.m, ids, PROMPT, SAVED);
        scoped_bytes b = save(whole.m, ids, SAVED);
        CHECK(b.n < gw_plan_bytes(whole.m, CONTEXT, "kv") + 4 * END + 4096);
        scoped_bytes all = save(whole.m, NULL, 0);
        CHECK_INT(all.n, b.n);
        CHECK(!memcmp(all.at, b.at, b.n));
        CHECK_INT(gw_save(other.m, NULL, 0), 1); /* nothing to save: no ids were evaluated */
        eval(other.m, ids + 40, 60, 60);
        CHECK_INT(restore(other.m, b, i % 3 ? 1000 : 1 << 30), 0);
        CHECK_INT(gw_position(other.m), SAVED);
        check_same(whole.m, other.m, ids, END, SAVED);
        scoped_rig again = rig_of(&c, 1, CONTEXT, kv_types[i % 4]);
        CHECK_INT(restore(again.m, b, 4096), 0);
        check_same(whole.m, again.m, ids, PROMPT, PROMPT - 1);
    }
}

/* Hashes states without the sampler's part, which test_sampler.c covers. The hashes change with the layout of states
 * and the results of evaluation. */
TEST(state_layout_has_a_version) {
    static const uint64_t known[] = { 0x932db0754c74f475, 0xeb5ad2938a983291,
                                      0x97a120dfa773d4d2 }; /* if these hashes change, increase GW_LAYOUT */
    for (int i = 0; i < 3; i++) {
        scoped_rig r = rig_of(&base, 1, CONTEXT, kv_types[i + 1]);
        eval(r.m, some_ids(), PROMPT, PROMPT + ANSWER);
        scoped_bytes b = save(r.m, NULL, 0);
        gw_state_header head;
        memcpy(&head, b.at, sizeof head);
        size_t ids = sizeof head + head.pos * sizeof(int32_t), rows = ids + head.sampler;
        head.layout = head.sampler = 0;
        head.bytes = 0;
        uint64_t hash = gw_hash(gw_hash(0, &head, sizeof head), b.at + sizeof head, ids - sizeof head);
        hash = gw_hash(hash, b.at + rows, b.n - rows - sizeof hash);
        if (hash != known[i]) printf("%s: 0x%016llx\n", kv_types[i + 1], (unsigned long long)hash);
        CHECK(hash == known[i]);
    }
}

TEST(state_fits_other_context_lengths) {
    static const uint32_t contexts[][2] = { { 60, 300 }, { 300, 60 }, { 96, 97 }, { 300, 400 }, { 90, 400 } };
    const int32_t *ids = some_ids();
    for (size_t i = 0; i < COUNT(contexts); i++) {
        scoped_rig from = rig_of(&base, 1, contexts[i][0], "auto"), to = rig_of(&base, 1, contexts[i][1], "auto");
        uint32_t n = 50;
        eval(from.m, ids, 30, n);
        scoped_bytes b = save(from.m, ids, n);
        CHECK_INT(restore(to.m, b, 1 << 30), 0);
        check_same(from.m, to.m, ids, n + 9, (int)n);
    }
    scoped_rig from = rig_of(&base, 1, 300, "auto"), to = rig_of(&base, 1, 100, "auto");
    eval(from.m, ids, PROMPT, PROMPT);
    scoped_bytes b = save(from.m, ids, PROMPT);
    CHECK_INT(restore(to.m, b, 1 << 30), GW_E_BAD_SAVED);
    CHECK_SAYS(gw_error_text(to.m, "what"), "(got 150)");
}

TEST(state_of_a_beginning_and_of_what_is_not_there) {
    const int32_t *ids = some_ids();
    scoped_rig a = rig_of(&base, 1, CONTEXT, "auto"), b = rig_of(&base, 1, CONTEXT, "auto");
    CHECK_INT(gw_save(a.m, ids, 5), 1);
    eval(a.m, ids, ALL, ALL);
    CHECK_INT(gw_save(a.m, ids, ALL + 1), 1);
    CHECK_INT(gw_save(a.m, ids + 1, 10), 1);
    CHECK_INT(gw_save(a.m, ids, 10), 1); /* the KV rings have lost the rows before position 10 */
    scoped_bytes s = save(a.m, ids, PROMPT - 9);
    CHECK_INT(restore(b.m, s, 777), 0);
    CHECK_INT(eval(a.m, ids, PROMPT, PROMPT), PROMPT - 1);
    CHECK_INT(eval(b.m, ids, PROMPT, PROMPT), PROMPT - 9);
    CHECK(!memcmp(gw_logits(a.m), gw_logits(b.m), VOCAB * sizeof(float)));
    CHECK_INT(gw_sync(a.m, ids + 3, 100), 0);
    CHECK_INT(gw_run(a.m, 1), GW_RUN_MORE);
    CHECK_INT(gw_save(a.m, ids + 3, 20), 1); /* nothing is saved in the middle of a batch */
}

static void set_sampler(gw_model *m) {
    static const struct {
        const char *name;
        double value;
    } options[] = { { "temperature", 1.5 },        { "top_k", 0 },           { "top_p", 0.9 },
                    { "repetition_penalty", 1.3 }, { "penalty_window", 20 }, { "seed", 77 } };
    for (size_t i = 0; i < COUNT(options); i++) CHECK_INT(gw_set_option(m, options[i].name, options[i].value), 0);
    CHECK_INT(gw_set_bias(m, 7, -INFINITY), 0);
    CHECK_INT(gw_set_bias(m, 9, 2), 0);
}

static uint32_t draw_on(gw_model *m, int32_t *ids, uint32_t n, uint32_t more) {
    for (uint32_t i = 0; i < more; i++) {
        int32_t id = ids[n++] = gw_draw(m, gw_logits(m));
        CHECK(id >= 0 && id != 7);
        gw_sampler_accept(gw_sampler_of(m), id);
        CHECK_INT(gw_append(m, id), 0);
        CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    }
    return n;
}

TEST(state_draws_on) {
    int32_t whole[120], again[120];
    scoped_rig a = rig_of(&base, 1, CONTEXT, "auto"), b = rig_of(&base, 1, CONTEXT, "auto");
    memcpy(whole, some_ids(), 40 * sizeof *whole);
    set_sampler(a.m);
    eval(a.m, whole, 40, 40);
    uint32_t n = draw_on(a.m, whole, 40, 30);
    scoped_bytes s = save(a.m, whole, n);
    memcpy(again, whole, n * sizeof *whole);
    draw_on(a.m, whole, n, 40);
    CHECK_INT(restore(b.m, s, 1 << 30), 0);
    CHECK_INT(eval(b.m, again, n, n), n - 1);
    draw_on(b.m, again, n, 40);
    CHECK(!memcmp(whole, again, (n + 40) * sizeof *whole));
}

static void check_lives(gw_model *m, gw_model *sound) {
    const int32_t *ids = some_ids();
    eval(m, ids, 70, 70);
    gw_clear(sound);
    eval(sound, ids, 70, 70);
    CHECK(!memcmp(gw_logits(m), gw_logits(sound), VOCAB * sizeof(float)));
}

THREADED_TEST(state_of_another_model_or_cache_is_refused_and_nothing_changes) {
    const int32_t *ids = some_ids();
    tiny_config changed[6];
    for (int i = 0; i < 6; i++) changed[i] = base;
    changed[0].seed = 4;
    changed[1].window = 25;
    changed[2].n_layer = 4;
    changed[3].n_head_kv = 4;
    changed[4].attn = GW_Q8_0;
    changed[5] = base;
    scoped_rig from = rig_of(&base, 1, CONTEXT, "i16");
    eval(from.m, ids, 60, 60);
    scoped_bytes s = save(from.m, ids, 60);
    for (int i = 0; i < 6; i++) {
        scoped_rig to = rig_of(&changed[i], 1, CONTEXT, i == 5 ? "q8_0" : "i16");
        CHECK(strcmp(gw_state_name(to.m), gw_state_name(from.m)));
        eval(to.m, ids, 50, 50);
        CHECK_INT(restore(to.m, s, 1 << 30), GW_E_BAD_SAVED);
        CHECK_TEXT(gw_error_text(to.m, "code"), "bad-saved");
        CHECK_INT(eval(to.m, ids, 50, 50), 49);
    }
    scoped_rig same = rig_of(&base, 2, 200, "i16");
    CHECK_TEXT(gw_state_name(same.m), gw_state_name(from.m));
}

TEST(state_with_other_sizes_is_refused_by_the_name_of_the_size) {
    static const struct {
        size_t at;
        const char *name;
    } sizes[] = {
        { offsetof(gw_state_header, n_layer), "its number of layers" },
        { offsetof(gw_state_header, n_head_kv), "its number of KV heads" },
        { offsetof(gw_state_header, head_dim), "the size of its heads" },
        { offsetof(gw_state_header, window), "its sliding window" },
    };
    const int32_t *ids = some_ids();
    scoped_rig a = rig_of(&base, 1, CONTEXT, "auto");
    eval(a.m, ids, 60, 60);
    scoped_bytes s = save(a.m, ids, 60);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char sentence[96];
        uint32_t own, other;
        memcpy(&own, s.at + sizes[i].at, sizeof own);
        other = own + 1;
        snprintf(sentence, sizeof sentence, "restored: %s must be %u (got %u).", sizes[i].name, own, other);
        memcpy(s.at + sizes[i].at, &other, sizeof other);
        CHECK_INT(restore(a.m, s, 1 << 30), GW_E_BAD_SAVED);
        CHECK_SAYS(gw_error_text(a.m, "what"), sentence);
        memcpy(s.at + sizes[i].at, &own, sizeof own);
    }
    CHECK_INT(restore(a.m, s, 1 << 30), 0);
}

TEST(state_of_a_split_model_fits_the_whole_one) {
    const int32_t *ids = some_ids();
    scoped_parts files = { 0 };
    scoped_rig whole = rig_of(&base, 1, CONTEXT, "auto"), split = { gw_pool_new(1), NULL };
    make_parts(base, 3, files);
    split.m = gw_model_new(split.pool);
    CHECK_INT(gw_load_parts(split.m, 3), 0);
    CHECK_INT(tiny_feed_parts(split.m, files, 3, 1 << 12, CONTEXT), GW_LOAD_READY);
    eval(split.m, ids, 60, 60);
    scoped_bytes s = save(split.m, ids, 60);
    CHECK_INT(restore(whole.m, s, 1 << 30), 0);
    check_same(whole.m, split.m, ids, 70, 60);
}

TEST(state_that_is_damaged_or_cut_is_refused) {
    const int32_t *ids = some_ids();
    scoped_rig a = rig_of(&base, 1, CONTEXT, "auto"), sound = rig_of(&base, 1, CONTEXT, "auto");
    eval(a.m, ids, 100, 110);
    scoped_bytes s = save(a.m, ids, 110);
    for (size_t at = 0; at < s.n; at += at < 700 ? 1 : 997) {
        s.at[at] ^= (uint8_t)(1 << at % 8);
        CHECK_INT(restore(a.m, s, 1 << 30), GW_E_BAD_SAVED);
        s.at[at] ^= (uint8_t)(1 << at % 8);
    }
    check_lives(a.m, sound.m);
    for (size_t n = 0; n < s.n; n += n < 700 ? 13 : 4999)
        CHECK_INT(restore(a.m, (bytes){ s.at, n }, 1 << 30), GW_E_BAD_SAVED);
    CHECK_INT(restore(a.m, (bytes){ s.at, 10 }, 1 << 30), GW_E_BAD_SAVED);
    CHECK_SAYS(gw_error_text(a.m, "what"), "The saved state is incomplete.");
    CHECK_INT(gw_restore(a.m, (double)s.n), 0); /* all bytes were announced, only some arrived */
    memcpy(gw_state_window(a.m), s.at, 5000);
    CHECK_INT(gw_restore_commit(a.m, 5000), 1);
    CHECK_INT(gw_restore_commit(a.m, 0), GW_E_BAD_SAVED);
    CHECK_INT(gw_restore_commit(a.m, 1), GW_E_BAD_STATE);
    CHECK_INT(gw_restore_commit(a.m, 0), GW_E_BAD_STATE);
    CHECK_INT(gw_save_next(a.m), 0);
    check_lives(a.m, sound.m);
    CHECK_INT(restore(a.m, s, 1 << 30), 0);
}

/* A gw_sync() between two parts of a state drops the pages that the restore writes, so the state is rejected. */
TEST(state_with_a_prompt_between_its_parts_is_refused) {
    const int32_t *ids = some_ids();
    scoped_rig a = rig_of(&base, 1, CONTEXT, "auto"), sound = rig_of(&base, 1, CONTEXT, "auto");
    eval(a.m, ids, PROMPT, PROMPT + ANSWER);
    scoped_bytes s = save(a.m, ids, PROMPT + ANSWER);
    int how = gw_restore(a.m, (double)s.n);
    for (size_t at = 0, n; how >= 0 && at < s.n; at += n) {
        n = gw_min(gw_min(5000, gw_state_left(a.m)), s.n - at);
        memcpy(gw_state_window(a.m), s.at + at, n);
        how = gw_restore_commit(a.m, n);
        if (how == 1) CHECK_INT(gw_sync(a.m, ids, 1), 0);
    }
    CHECK_INT(how, GW_E_BAD_SAVED);
    check_lives(a.m, sound.m);
    eval(a.m, ids, PROMPT, PROMPT + ANSWER);
    CHECK_INT(gw_save(a.m, ids, PROMPT + ANSWER), 0);
    CHECK_INT(gw_sync(a.m, ids + 1, 1), 0);
    while (gw_save_next(a.m)) continue;
    check_lives(a.m, sound.m);
}

TEST(state_rows_are_what_kernels_rely_on) {
    uint8_t row[256];
    static const gw_layer_shape layer = { .n_head_kv = 1, .head_dim = 8 };
    for (int type = GW_KV_F32; type < GW_KV_TYPES; type++) {
        gw_kv kv;
        gw_arena a = { 0 };
        gw_kv_shape shape = { 1, 16, 16, 4, &layer, type };
        gw_kv_memory memory;
        gw_kv_memory_init(&memory, shape, 1, 0, &a);
        gw_kv_init(&kv, &memory, &a);
        uint8_t *aligned = gw_alloc(a.used);
        a = (gw_arena){ .base = aligned, .size = a.used };
        gw_kv_memory_init(&memory, shape, 1, 0, &a);
        gw_kv_init(&kv, &memory, &a);
        CHECK(gw_kv_reserve(&kv, 4));
        float k[8] = { 1, -2, 3, -4, 5, -6, 7, -8 };
        gw_kv_store(kv.layers, 3, k, k);
        uint32_t n = gw_kv_row_bytes(kv.layers);
        CHECK_INT(n, type == GW_KV_F32 ? 32 : type == GW_KV_I16 ? 20 : 10);
        for (int values = 0; values < 2; values++) {
            gw_kv_row_out(kv.layers, values, 3, row);
            CHECK(gw_kv_row_in(kv.layers, values, 3, row));
            static const struct {
                int type;
                uint32_t at;
                uint16_t value;
            } wrong[] = { { GW_KV_F32, 2, 0x7f80 },  { GW_KV_F32, 30, 0xffc0 }, { GW_KV_I16, 0, 0x8000 },
                          { GW_KV_I16, 18, 0xbf80 }, { GW_KV_I16, 18, 0x7fc0 }, { GW_KV_I16, 18, 0x7f00 },
                          { GW_KV_Q8, 0, 0x0180 },   { GW_KV_Q8, 8, 0x7f80 },   { GW_KV_Q8, 8, 0xbf80 } };
            for (size_t i = 0; i < COUNT(wrong); i++) {
                uint8_t bad[256];
                memcpy(bad, row, n);
                memcpy(bad + wrong[i].at, &wrong[i].value, 2);
                if (wrong[i].type == type) CHECK(!gw_kv_row_in(kv.layers, values, 3, bad));
            }
        }
        gw_free(aligned);
    }
}
