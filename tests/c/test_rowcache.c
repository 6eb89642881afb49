/* Embedding matrices that stay in the file: only the rows of tokens are read, results have the same bits as with
 * matrices in memory, and rows that are not finite give an error. */
#include "model/load.h"
#include "model/rowcache.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

#include <math.h>

enum { VOCAB = 300, PROMPT = 100 };

static tiny_config untied(void) {
    tiny_config c = small;
    c.n_ctx = 256, c.n_vocab = VOCAB, c.head = GW_Q8_0;
    return c;
}

typedef struct {
    gw_model *m;
    const tiny_file *file;
    size_t loaded, rows;
} host;

static void host_free(host *h) { gw_model_free(h->m); }
#define scoped_host SCOPED(host_free) host

static int feed(host *h, size_t chunk) {
    int state = gw_load_commit(h->m, 0);
    while (state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS) {
        size_t at = (size_t)gw_load_offset(h->m), n = gw_min(gw_load_room(h->m), chunk);
        CHECK(at < h->file->size);
        n = gw_min(n, h->file->size - at);
        memcpy(gw_load_window(h->m), h->file->data + at, n);
        h->loaded += n;
        state = tiny_commit(h->m, n, 0);
    }
    return state;
}

static host load(gw_pool *pool, const tiny_file *f, const char *tables, const char *floats) {
    host h = { .m = gw_model_new(pool), .file = f };
    CHECK_INT(gw_load_option(h.m, "tables", tables), 0);
    CHECK_INT(gw_load_option(h.m, "quantizeFloats", floats), 0);
    CHECK_INT(feed(&h, 1000), GW_LOAD_READY);
    return h;
}

static void give_rows(host *h) {
    const int32_t *wanted = gw_rows_wanted(h->m);
    CHECK(wanted && wanted[1] > 0 && wanted[1] <= GW_BATCH);
    const tiny_tensor *t = &h->file->tensors[wanted[0]];
    size_t bytes = (size_t)(t->bytes / t->shape[1]);
    for (int i = 0; i < wanted[1]; i++) {
        if (i) CHECK(wanted[2 + i] > wanted[1 + i]);
        const uint8_t *row = h->file->data + h->file->header + t->offset + (size_t)wanted[2 + i] * bytes;
        memcpy(gw_rows_room(h->m, i), row, bytes);
    }
    h->rows += (size_t)wanted[1];
}

static int run(host *h, int layers) {
    for (;;) {
        int state = gw_run(h->m, layers);
        if (state == GW_RUN_ROWS) {
            give_rows(h);
            int bad = gw_rows_commit(h->m);
            if (bad) return bad;
        } else if (state != GW_RUN_MORE) return state;
    }
}

static void prompt_of(int32_t *ids, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((seed = seed * 1664525 + 1013904223) >> 8) % VOCAB;
}

/* Evaluates a long prompt in portions, some single tokens, and another prompt with a common prefix. */
static void answers_of(host *h, float *out) {
    int32_t ids[PROMPT];
    prompt_of(ids, PROMPT, 7);
    CHECK(gw_sync(h->m, ids, PROMPT) >= 0);
    CHECK_INT(run(h, 1), GW_RUN_DONE);
    memcpy(out, gw_logits(h->m), VOCAB * sizeof *out);
    for (int32_t id = 10; id < 20; id++) {
        CHECK_INT(gw_append(h->m, id * 29 % VOCAB), 0);
        CHECK_INT(run(h, 0), GW_RUN_DONE);
    }
    memcpy(out + VOCAB, gw_logits(h->m), VOCAB * sizeof *out);
    prompt_of(ids + 50, PROMPT - 50, 8);
    CHECK_INT(gw_sync(h->m, ids, PROMPT), 50);
    CHECK_INT(run(h, 0), GW_RUN_DONE);
    memcpy(out + 2 * VOCAB, gw_logits(h->m), VOCAB * sizeof *out);
}

THREADED_TEST(rowcache_rows_in_the_file_give_the_same_bits) {
    static const int types[] = { GW_F32, GW_F16, GW_BF16, GW_Q8_0, GW_Q4_0 };
    static float memory[3 * VOCAB], disk[3 * VOCAB];
    scoped_pool *pool = gw_pool_new(2);
    for (int i = 0; i < 10; i++) {
        tiny_config c = untied();
        c.embd = types[i / 2];
        const char *floats = i % 2 ? "q8_0" : "auto";
        scoped_file f = tiny_make(&c);
        scoped_host a = load(pool, &f, "memory", floats), b = load(pool, &f, "file", floats);
        const tiny_tensor *t = tiny_find(&f, "token_embd.weight");
        CHECK(a.loaded >= b.loaded + (size_t)t->bytes / 2);
        CHECK_NEAR(gw_plan_bytes(a.m, 0, "disk"), 0, 0);
        CHECK_NEAR(gw_plan_bytes(b.m, 0, "disk"), (double)t->bytes, 0);
        CHECK_TEXT(gw_state_name(a.m), gw_state_name(b.m));
        answers_of(&a, memory);
        answers_of(&b, disk);
        CHECK(!memcmp(memory, disk, sizeof memory));
        CHECK_INT(a.rows, 0);
        CHECK(b.rows > PROMPT / 2 && b.rows < 2 * PROMPT);
    }
}

TEST(rowcache_small_and_tied_tables_stay_in_memory) {
    tiny_config c = untied(), tied = c;
    tied.head = -1;
    scoped_file f = tiny_make(&c), g = tiny_make(&tied);
    scoped_host a = load(one_thread(), &f, "large", "auto"), b = load(one_thread(), &g, "file", "auto");
    CHECK_NEAR(gw_plan_bytes(a.m, 0, "disk") + gw_plan_bytes(b.m, 0, "disk"), 0, 0);
}

TEST(rowcache_loading_skips_the_table) {
    tiny_config c = untied();
    scoped_file f = tiny_make(&c);
    static float first[3 * VOCAB], again[3 * VOCAB];
    for (size_t chunk = 1; chunk < 100000; chunk *= 7) {
        scoped_host h = { .m = fresh(one_thread()), .file = &f };
        CHECK_INT(gw_load_option(h.m, "tables", "file"), 0);
        CHECK_INT(feed(&h, chunk), GW_LOAD_READY);
        answers_of(&h, chunk == 1 ? first : again);
        if (chunk > 1) CHECK(!memcmp(first, again, sizeof first));
        CHECK_INT(gw_load_option(h.m, "tables", "memory"), GW_E_BAD_STATE);
    }
}

TEST(rowcache_refuses_rows_that_are_not_finite_and_stays_usable) {
    tiny_config c = untied();
    c.embd = GW_F32;
    scoped_file f = tiny_make(&c);
    static float sound[3 * VOCAB], after[3 * VOCAB];
    scoped_host g = load(one_thread(), &f, "file", "auto"), h = load(one_thread(), &f, "file", "auto");
    answers_of(&g, sound);
    const tiny_tensor *t = tiny_find(&f, "token_embd.weight");
    float *row = (float *)(f.data + f.header + t->offset) + 37 * 32, kept = row[5];
    row[5] = NAN;
    const int32_t ids[] = { 2, 37, 5 }, others[] = { 2, 36, 5 };
    CHECK_INT(gw_rows_commit(h.m), GW_E_BAD_STATE);
    CHECK_INT(gw_sync(h.m, ids, 3), 0);
    CHECK_INT(run(&h, 0), GW_E_NOT_FINITE);
    CHECK_SAYS(gw_error_text(h.m, "what"), "Tensor token_embd.weight has NaN or an infinity at row 37.");
    CHECK_INT(gw_sync(h.m, others, 3), 0);
    CHECK_INT(run(&h, 0), GW_RUN_DONE);
    row[5] = kept;
    answers_of(&h, after);
    CHECK(!memcmp(sound, after, sizeof sound));
}

TEST(rowcache_waits_for_rows_and_can_be_left) {
    tiny_config c = untied();
    scoped_file f = tiny_make(&c);
    static float sound[3 * VOCAB], after[3 * VOCAB];
    scoped_host h = load(one_thread(), &f, "file", "auto"), g = load(one_thread(), &f, "file", "auto");
    answers_of(&g, sound);
    int32_t ids[PROMPT];
    prompt_of(ids, PROMPT, 7);
    CHECK_INT(gw_sync(h.m, ids, PROMPT), 0);
    for (int i = 0; i < 3; i++) CHECK_INT(gw_run(h.m, 0), GW_RUN_ROWS); /* no evaluation before the rows are read */
    CHECK_INT((int)gw_position(h.m), 0);
    *gw_abort_flag(h.m) = 1;
    CHECK_INT(gw_run(h.m, 0), GW_E_ABORTED);
    answers_of(&h, after);
    CHECK(!memcmp(sound, after, sizeof sound));
}

enum { WIDE = 65536, ROWS = 1000, SLOTS = GW_ROWS_AT_ONCE };

static float value_of(int32_t row, uint32_t i) { return (float)row + (float)i / WIDE; }

static int want(gw_row_cache *c, const int32_t *rows, int n) {
    int missing = gw_row_cache_want(c, rows, n);
    for (int i = 0; i < missing; i++) {
        float *to = (float *)gw_row_cache_room(c, i);
        for (uint32_t k = 0; k < WIDE; k++) to[k] = value_of(c->wanted.row[i], k);
    }
    CHECK_INT(gw_row_cache_commit(c), -1);
    return missing;
}

TEST(rowcache_evicts_the_least_recently_used_row) {
    static float out[WIDE];
    const gw_type *f32 = gw_type_of(GW_F32);
    gw_matrix m = { .type = f32, .rows = ROWS, .k = WIDE };
    gw_arena arena = { 0 };
    CHECK(!gw_row_cache_place(&m, f32, 3, &arena));
    arena = (gw_arena){ .base = gw_alloc(arena.used), .size = arena.used };
    gw_row_cache *c = gw_row_cache_place(&m, f32, 3, &arena);
    CHECK_INT(c->n_slots, SLOTS);
    int32_t rows[SLOTS];
    for (int i = 0; i < SLOTS; i++) rows[i] = (SLOTS - 1 - i) * 7 % ROWS;
    CHECK_INT(want(c, rows, SLOTS), SLOTS);
    CHECK_INT(want(c, rows, SLOTS), 0);
    CHECK_INT(want(c, (int32_t[]){ rows[5], rows[5], 999, 999, rows[5] }, 5), 1);
    for (int i = 0; i < 40; i++) CHECK_INT(want(c, (int32_t[]){ 950 + i, 999 }, 2), 1);
    CHECK_INT(want(c, (int32_t[]){ 999, 989, 970 }, 3), 0);
    CHECK_INT(want(c, rows, SLOTS), 41); /* 41 rows were evicted, not rows[5], which was used last */
    for (int i = 0; i < SLOTS; i++) {
        gw_row_cache_get(c, (size_t)rows[i], out);
        CHECK(out[0] == value_of(rows[i], 0) && out[WIDE - 1] == value_of(rows[i], WIDE - 1));
    }
    c->clock = UINT32_MAX;
    CHECK_INT(want(c, rows, SLOTS), 0);
    CHECK_INT(want(c, (int32_t[]){ 1 }, 1), 1);
    gw_free(arena.base);
}
