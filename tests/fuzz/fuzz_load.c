/* Fuzz harness: a small sound GGUF, damaged by the input: pairs (place, byte) overwrite its header, the
 * first bytes choose shape, types and how it is fed. Whatever comes: a coded error or a model that
 * evaluates; nothing is read or written outside, nothing is left over. */
#include "../c/tiny_gguf.c"   /* the writer belongs to the tests, not to the library */
#include "session.h"

enum { MOST_BYTES = 64 << 20, MOST_TOKENS = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
    if (!condition) abort();
}

static tiny_file file_of(const uint8_t *data) {
    static const int types[] = { GW_F32, GW_F16, GW_BF16, GW_Q8_0, GW_Q4_0 };
    tiny_config c = {
        .n_embd = 32, .n_layer = 1 + data[0] % 2, .n_ff = 32, .n_head = 2, .n_head_kv = 1 + data[0] / 2 % 2,
        .head_dim = 16, .window = 1 + data[1] % 40, .n_ctx = 96, .n_vocab = 5 + data[2] % 40,
        .pattern = data[0] / 4 % 3,
        .pattern_as_bools = data[0] / 16 % 2, .embd = types[data[3] % 5], .attn = types[data[3] / 5 % 5],
        .ffn = types[data[4] % 5], .head = data[4] / 5 % 6 ? -1 : GW_Q8_0, .seed = data[5],
    };
    return tiny_make(&c);
}

/* Three bytes a time: two of place (mostly within the header), one of value. */
static void damage(tiny_file *f, const uint8_t *data, size_t size) {
    for (; size >= 3; data += 3, size -= 3) {
        size_t place = ((size_t)data[0] << 8 | data[1]) % f->size;
        f->data[place] = data[2];
    }
}

static void evaluate(gw_model *m) {
    int32_t ids[MOST_TOKENS];
    uint32_t n_vocab = (uint32_t)gw_model_number(m, "n_vocab"), n_ctx = (uint32_t)gw_model_number(m, "n_ctx");
    uint32_t n = (uint32_t)gw_min(n_ctx, MOST_TOKENS);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 7 % n_vocab);
    require(gw_sync(m, ids, n) == 0);
    require(gw_run(m, 0) == GW_RUN_DONE);
    require(gw_append(m, 0) == (n < n_ctx ? 0 : GW_E_CONTEXT));
    require(gw_run(m, 1) >= 0);
    int32_t id = gw_sampler_draw(gw_sampler_of(m), gw_logits(m));
    require(id == GW_E_BAD_STATE || (id >= 0 && (uint32_t)id < n_vocab));   /* damaged weights: not finite */
    require(gw_sync(m, ids, n / 2 + 1) >= 0);
    require(gw_run(m, 0) == GW_RUN_DONE);
}

static void ask(gw_model *m) {
    char text[16];
    int32_t ids[8];
    for (uint32_t i = 0; i < 60; i++) {
        const char *json = gw_metadata_json(m, i);
        require(!json || json[0] == '{');
        json = gw_tensor_json(m, i);
        require(!json || json[0] == '{');
        require(gw_decode(m, (int32_t)i, 1, text, sizeof text) >= GW_E_ABORTED);
    }
    require(gw_encode(m, "ab <eos>", 8, 1, ids, 8) <= 8);
    gw_model_text(m, "quantisation");
    gw_model_number(m, "parameters");
}

/* As tiny_feed, but what needs too much memory is not reserved. */
static void load(gw_model *m, const tiny_file *f, const uint8_t *steps, size_t n_steps) {
    int state = GW_LOAD_HEADER;
    for (size_t at = 0, i = 0; at < f->size && (state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS); i++) {
        size_t n = n_steps ? (size_t)steps[i % n_steps] * steps[i % n_steps] + 1 : f->size;
        n = gw_min(gw_min(n, gw_load_room(m)), f->size - at);
        require(n > 0);
        memcpy(gw_load_window(m), f->data + at, n);
        at += n;
        state = gw_load_commit(m, n);
        if (state != GW_LOAD_PLAN) continue;
        ask(m);
        uint32_t n_ctx = (uint32_t)gw_min((size_t)gw_model_number(m, "context_length"), 100);
        if (!(gw_plan_bytes(m, n_ctx, "total") <= MOST_BYTES)) return;
        state = gw_load_reserve(m, n_ctx);
        if (state == 0) state = gw_load_commit(m, 0);
    }
    int end = gw_load_end(m);
    require(end == (state < 0 ? state : state == GW_LOAD_READY ? 0 : GW_E_TRUNCATED));
    require(state >= 0 || strcmp(gw_error_text(m, "code"), "ok"));
    if (state == GW_LOAD_READY) evaluate(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 8) return 0;
    tiny_file f = file_of(data);
    damage(&f, data + 8, gw_min(size - 8, data[7] % 4 ? data[7] % 16 : size));
    gw_pool *pool = gw_pool_new(1 + data[6] % 2);
    gw_model *m = pool ? gw_model_new(pool) : NULL;
    require(m != NULL);
    size_t cut = data[7] % 8 ? 0 : data[7] / 8 * f.size / 64;   /* one in eight ends early */
    f.size -= cut;
    load(m, &f, data + 8, size % 3 ? gw_min(size - 8, 16) : 0);
    gw_model_free(m);
    gw_pool_free(pool);
    tiny_free(&f);
    return 0;
}
