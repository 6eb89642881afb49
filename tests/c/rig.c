/* rig: see rig.h. */
#include "rig.h"
#include "file/types.h"
#include "model/load.h"
#include "run/session.h"
#include "test.h"

const tiny_config base = {
    .n_embd = 32,
    .n_layer = 3,
    .n_ff = 64,
    .n_head = 4,
    .n_head_kv = 2,
    .head_dim = 16,
    .window = 24,
    .n_ctx = 400,
    .n_vocab = 50,
    .pattern = 3,
    .embd = GW_Q8_0,
    .attn = GW_Q4_0,
    .ffn = GW_Q4_0,
    .head = -1,
    .seed = 3,
};

const tiny_config small = {
    .n_embd = 32,
    .n_layer = 2,
    .n_ff = 64,
    .n_head = 4,
    .n_head_kv = 2,
    .head_dim = 8,
    .window = 8,
    .n_ctx = 128,
    .n_vocab = 40,
    .pattern = 2,
    .embd = GW_Q8_0,
    .attn = GW_Q4_0,
    .ffn = GW_Q4_0,
    .head = -1,
    .seed = 1,
};

void make_parts(tiny_config c, uint32_t n, tiny_file *files) {
    c.n_parts = n;
    for (c.part = 0; c.part < n; c.part++) files[c.part] = tiny_make(&c);
}

void free_parts(parts *files) {
    for (int i = 0; i < MOST_PARTS; i++) tiny_free(&(*files)[i]);
}

gw_model *fresh(gw_pool *pool) {
    gw_model *m = gw_model_new(pool);
    CHECK(m);
    return m;
}

gw_pool *one_thread(void) {
    static gw_pool *pool;
    if (!pool) pool = gw_pool_new(1);
    CHECK(pool);
    return pool;
}

rig rig_with(const tiny_config *c, int threads, uint32_t n_ctx, const char *option, const char *value) {
    scoped_file f = tiny_make(c);
    rig r = { gw_pool_new(threads), NULL };
    CHECK(r.pool);
    r.m = fresh(r.pool);
    if (option) CHECK_INT(gw_load_option(r.m, option, value), 0);
    int state = tiny_feed(r.m, f.data, f.size, 1 << 30, n_ctx);
    if (state != GW_LOAD_READY)
        gw_test_fail(__FILE__, __LINE__, "load: %s: %s", gw_error_name(state), gw_error_text(r.m, "what"));
    return r;
}

void rig_free(rig *r) {
    gw_model_free(r->m);
    gw_pool_free(r->pool);
}

void feed_header(gw_model *m, const tiny_file *f) {
    int state = GW_LOAD_HEADER;
    for (size_t at = 0, n; at < f->header && state == GW_LOAD_HEADER; at += n) {
        n = gw_min(gw_load_room(m), f->header - at);
        memcpy(gw_load_window(m), f->data + at, n);
        state = gw_load_commit(m, n);
    }
    CHECK_INT(state, GW_LOAD_PLAN);
}

void make_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t seed) {
    uint64_t state = seed + 1;
    for (uint32_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % n_vocab);
    }
}

void logits_of(gw_model *m, float *out, uint32_t n_vocab) {
    const int32_t ids[] = { 2, 7, 11, 13, 5, 39, 0, 8, 21, 34, 17 };
    CHECK_INT(gw_sync(m, ids, 11), 0);
    CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
    memcpy(out, gw_logits(m), n_vocab * sizeof *out);
}
