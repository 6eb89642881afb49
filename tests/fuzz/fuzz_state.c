/* Fuzz harness of saved states. An input that begins like a state is restored unchanged. Any other input is a recipe:
 * the first bytes choose a model, its cache and the chunks in which bytes are fed; the rest are edits of a valid state.
 * If only the checksum is wrong, it is corrected, to reach later code. The result must be a coded error, or a context
 * that evaluates, samples, and saves to the same bytes. Afterwards the model must give its usual results. */
#include "../c/tiny_gguf.h"
#include "fuzz.h"
#include "model/load.h"
#include "file/types.h"
#include "run/session.h"

/* CONTEXT: more tokens than a KV ring has rows, so that rows of rings are saved for a retry. */
enum { MODELS = 8, VOCAB = 30, CONTEXT = 250, MOST_STATE = 1 << 18, BLANK = 5 };

typedef struct {
    gw_pool *pool;
    gw_model *m;
    uint8_t state[MOST_STATE];
    size_t bytes;
    float logits[VOCAB];
} rig;

static int32_t ids[CONTEXT];

static void eval(gw_model *m, uint32_t n) {
    REQUIRE(gw_sync(m, ids, n) >= 0);
    REQUIRE(gw_run(m, 0) == GW_RUN_DONE);
}

static size_t save(gw_model *m, const int32_t *of, uint32_t n, uint8_t *out) {
    size_t at = 0;
    REQUIRE(gw_save(m, of, n) == 0 && gw_save_bytes(m) <= MOST_STATE);
    double bytes = gw_save_bytes(m);
    for (size_t part; (part = gw_save_next(m)) > 0; at += part) memcpy(out + at, gw_state_window(m), part);
    REQUIRE(at == bytes);
    return at;
}

/* Returns a model, made once per index. Window, cache type and heads vary with the index. */
static rig *rig_of(unsigned i) {
    static rig made[MODELS];
    static const char *const kv_types[] = { "auto", "f32", "i16", "q8_0" };
    rig *r = &made[i];
    if (r->m) return r;
    tiny_config c = { .n_embd = 32,
                      .n_layer = 3,
                      .n_ff = 32,
                      .n_head = 2,
                      .n_head_kv = 1 + i % 2,
                      .head_dim = 16,
                      .window = i / 4 ? 999 : 10,
                      .n_ctx = CONTEXT,
                      .n_vocab = VOCAB,
                      .pattern = 3,
                      .embd = GW_Q8_0,
                      .attn = GW_Q8_0,
                      .ffn = GW_Q8_0,
                      .head = -1,
                      .seed = i };
    tiny_file f = tiny_make(&c);
    r->pool = gw_pool_new(1);
    r->m = gw_model_new(r->pool);
    REQUIRE(gw_load_option(r->m, "kvType", kv_types[i % 4]) == 0);
    REQUIRE(tiny_feed(r->m, f.data, f.size, 1 << 30, CONTEXT) == GW_LOAD_READY);
    tiny_free(&f);
    for (int k = 0; k < CONTEXT; k++) ids[k] = (k * 7 + k / 5) % VOCAB;
    eval(r->m, 100);
    memcpy(r->logits, gw_logits(r->m), sizeof r->logits);
    REQUIRE(gw_set_bias(r->m, 3, 1) == 0);
    for (int k = 0; k < 9; k++) gw_sampler_accept(gw_sampler_of(r->m), ids[k]);
    r->bytes = save(r->m, ids, 100, r->state);
    return r;
}

static void edit(fuzz_input *in, uint8_t *at, size_t n) {
    static const uint32_t rogues[] = { 0,      1,       0x7f,        0x80,       0x7fff,     0x8000,
                                       0x7f80, 0xffc0,  1u << 31,    UINT32_MAX, 0x7f800000, 0x7fc00000,
                                       100,    CONTEXT, CONTEXT + 1, 1 << 20 };
    unsigned how = fuzz_byte(in), place = (unsigned)fuzz_byte(in) << 8;
    place |= fuzz_byte(in);
    size_t where = how % 2 ? place % gw_min(n, 700) : (size_t)place * 17 % n;
    uint32_t value = how / 4 % 4 ? rogues[how / 16] : fuzz_byte(in);
    memcpy(at + where, &value, gw_min(n - where, how / 2 % 2 ? 4 : 1));
}

static int restore(gw_model *m, const uint8_t *bytes, size_t n, size_t chunk) {
    int how = gw_restore(m, (double)n);
    for (size_t at = 0; how > 0 || at == 0;) {
        size_t step = gw_min(gw_min(chunk, gw_state_left(m)), n - at);
        memcpy(gw_state_window(m), bytes + at, step);
        how = gw_restore_commit(m, step);
        at += step;
        if (how <= 0) break;
    }
    return how;
}

/* Restores a state. If only its checksum is wrong, corrects the checksum and restores the state again. Returns 0, or an
 * error with a message. */
static int offer(rig *r, uint8_t *bytes, size_t n, size_t chunk) {
    int how = restore(r->m, bytes, n, chunk);
    if (how == 0) return 0;
    const char *what = gw_error_text(r->m, "what"), *checksum = strstr(what, "checksum must be ");
    REQUIRE(how == GW_E_BAD_SAVED && !strcmp(gw_error_text(r->m, "code"), "bad-saved"));
    REQUIRE(strchr(what, '.'));
    if (!checksum) return how;
    uint64_t hash = strtoull(checksum + strlen("checksum must be "), NULL, 16);
    memcpy(bytes + n - sizeof hash, &hash, sizeof hash);
    return restore(r->m, bytes, n, chunk);
}

static void use(rig *r, const uint8_t *bytes, size_t n) {
    static uint8_t again[MOST_STATE];
    uint32_t pos = gw_position(r->m);
    int32_t held[CONTEXT];
    REQUIRE(pos >= 1 && pos <= CONTEXT);
    memcpy(held, bytes + 64, pos * sizeof *held); /* ids follow the header (state.h) */
    REQUIRE(save(r->m, held, pos, again) == n && !memcmp(again, bytes, n));
    gw_draw(r->m, r->logits);
    if (pos < CONTEXT) {
        REQUIRE(gw_append(r->m, held[0]) == 0);
        REQUIRE(gw_run(r->m, 0) == GW_RUN_DONE);
        gw_draw(r->m, gw_logits(r->m));
    }
    REQUIRE(gw_sync(r->m, held, pos - pos / 8) >= 0);
    REQUIRE(gw_run(r->m, 0) == GW_RUN_DONE);
}

/* Checks that earlier states left no trace in the model: it gives its usual logits. */
static void check_sound(rig *r) {
    gw_clear(r->m);
    eval(r->m, 100);
    REQUIRE(!memcmp(gw_logits(r->m), r->logits, sizeof r->logits));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t bytes[MOST_STATE];
    static unsigned runs;
    fuzz_input in = { data, size };
    bool as_it_is = size >= 7 && !memcmp(data, "gwstate", 7);
    if (size < 3 || size > MOST_STATE) return 0;
    unsigned which = as_it_is ? 0 : fuzz_byte(&in), step = as_it_is ? 255 : fuzz_byte(&in);
    rig *r = rig_of(which % MODELS);
    size_t n = as_it_is ? size : r->bytes;
    memcpy(bytes, as_it_is ? data : r->state, n);
    if (!as_it_is && which / MODELS == BLANK) n -= (size_t)fuzz_byte(&in) * 64 % n; /* the offered state ends early */
    for (int edits = fuzz_byte(&in) % 8; !as_it_is && edits > 0; edits--) edit(&in, bytes, n);
    if (offer(r, bytes, n, step == 255 ? MOST_STATE : 1 + step * step) == 0) use(r, bytes, n);
    if (runs++ % 16 == 0) check_sound(r);
    return 0;
}
