/* Fuzz harness of the loader. An input that begins like a GGUF file is loaded unchanged. Any other input is a recipe:
 * the first bytes choose a small valid file, whole or split, and the chunks in which it is fed; the rest are edits. The
 * result must be a coded error with a message, or a model that can be evaluated, and must not depend on the chunks.
 * Afterwards a valid file must load and give its usual results. */
#include "../c/tiny_gguf.h"
#include "fuzz.h"
#include "model/load.h"
#include "file/types.h"
#include "run/session.h"

#include <math.h>

enum { MOST_BYTES = 4 << 20, MOST_CONTEXT = 12, MOST_FILE = 1 << 20, SOUND_FILES = 64, MOST_PARTS = 3, STEPS = 8 };

/* Fills tensors of types without a quantiser (types.h) with random bytes. */
static void fill(tiny_file *f, uint64_t seed) {
    for (uint32_t i = 0; i < f->n_tensors; i++) {
        const tiny_tensor *t = &f->tensors[i];
        if (gw_type_of(t->type)->quantise || t->type == GW_I32) continue;
        for (uint64_t at = 0; at < t->bytes; at++)
            f->data[f->header + t->offset + at] = (uint8_t)(fuzz_random(&seed) % (at % 7 ? 256 : 60) &
                                                            0xbf); /* the mask keeps f16 scales finite */
    }
}

/* The target of all assistants. */
static const tiny_config target_config = {
    .n_embd = 48,
    .n_layer = 2,
    .n_ff = 32,
    .n_head = 2,
    .n_head_kv = 1,
    .head_dim = 16,
    .window = 8,
    .n_ctx = 96,
    .n_vocab = 23,
    .pattern = 2,
    .head = -1,
};

/* Returns the target, which has evaluated a few ids. */
static gw_model *target(void) {
    static gw_model *m;
    static const int32_t ids[] = { 2, 7, 1, 9, 4, 11, 3, 8, 0, 5, 6 };
    if (m) return m;
    tiny_file f = tiny_make(&target_config);
    m = gw_model_new(gw_pool_new(1));
    REQUIRE(m && tiny_feed(m, f.data, f.size, 1 << 30, 0) == GW_LOAD_READY);
    REQUIRE(gw_sync(m, ids, sizeof ids / sizeof *ids) == 0 && gw_run(m, 0) == GW_RUN_DONE);
    tiny_free(&f);
    return m;
}

/* Returns a valid file, made once per index. Types, shapes and the number of parts vary with the index. */
static const tiny_file *sound_file(unsigned i, unsigned part) {
    static const int types[] = { GW_F32,    GW_F16,  GW_BF16, GW_Q8_0, GW_Q4_0, GW_Q4_1, GW_Q5_0,  GW_Q5_1,
                                 GW_IQ4_NL, GW_Q2_K, GW_Q3_K, GW_Q4_K, GW_Q5_K, GW_Q6_K, GW_IQ4_XS };
    static tiny_file made[SOUND_FILES][MOST_PARTS];
    tiny_file *f = &made[i][part];
    if (f->data) return f;
    bool big = i % 8 == 6; /* big: the file's types have blocks of 256 weights */
    unsigned width = big ? 256 : 32, n = big ? 15 : 9;
    tiny_config c = {
        .n_embd = width,
        .n_layer = 1 + i % 2,
        .n_ff = width,
        .n_head = 2,
        .n_head_kv = 1 + i / 2 % 2,
        .head_dim = big ? 128 : 16,
        .window = 1 + i % 5 * 7,
        .n_ctx = 96,
        .n_vocab = 5 + i % 7 * 6,
        .pattern = i % 3,
        .pattern_as_bools = i / 4 % 2,
        .embd = types[i % n],
        .attn = types[(i / 5 + i / 2) % n],
        .ffn = types[(i + i / 3) % n],
        .head = i % 4 ? -1 : GW_Q8_0,
        .alignment = i % 9 ? 0 : 64,
        .seed = i,
        .n_parts = i % 8 == 5 ? 1 + i / 8 % MOST_PARTS : 0,
        .part = part,
        .bare_first = i % 5 == 0,
    };
    if (i % 7 == 3 && !big) {
        c.target = target_config.n_embd, c.n_head_kv = target_config.n_head_kv, c.window = target_config.window;
        c.centroids = i % 2 ? c.n_vocab : 0;
    }
    *f = tiny_make(&c);
    fill(f, i);
    return f;
}

static unsigned parts_of(unsigned i) { return i % 8 == 5 ? 1 + i / 8 % MOST_PARTS : 1; }

typedef struct {
    uint8_t *data;
    size_t size;
} bytes;

static void put(bytes *f, size_t at, uint64_t value, size_t n) {
    for (size_t i = 0; i < n && at + i < f->size; i++) f->data[at + i] = (uint8_t)(value >> 8 * i);
}

/* Returns the offset of an edit, nearly always in the header. */
static size_t place(fuzz_input *in, const bytes *f, size_t header) {
    size_t at = (size_t)fuzz_byte(in) << 8;
    at |= fuzz_byte(in);
    return at % (at % 61 ? header : f->size);
}

static void edit(fuzz_input *in, bytes *f, size_t header) {
    static const uint64_t rogues[] = { 0,
                                       1,
                                       2,
                                       31,
                                       33,
                                       255,
                                       1 << 16,
                                       1 << 24,
                                       1u << 31,
                                       UINT32_MAX,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 53,
                                       (uint64_t)1 << 62,
                                       (uint64_t)1 << 63,
                                       UINT64_MAX - 31,
                                       UINT64_MAX };
    unsigned how = fuzz_byte(in);
    if (f->size == 0) return;
    size_t at = place(in, f, header), from, n;
    uint64_t value = rogues[how / 4 % 16];
    switch (how % 4) {
    case 0: put(f, at, fuzz_byte(in), 1); break;
    case 1: put(f, at, value, 4); break;
    case 2: put(f, at, value, 8); break;
    default:
        from = place(in, f, header);
        n = gw_min(how / 4 + 1, f->size - gw_max(at, from));
        memmove(f->data + at, f->data + from, n);
    }
}

typedef struct {
    int state; /* GW_LOAD_*, the result of gw_load_end(), or an error */
    char text[512];
    uint64_t logits; /* hash of the logits of a fixed prompt */
} outcome;

static uint64_t hash(const void *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}

static uint64_t draft(gw_model *m) {
    uint32_t n_vocab = (uint32_t)gw_model_number(m, "n_vocab");
    int32_t id = 5;
    for (int i = 0; i < 3; i++) {
        id = gw_draft(m, id, i > 0);
        REQUIRE(id >= 0 ? (uint32_t)id < n_vocab : id == GW_E_BAD_STATE);
    }
    return id < 0 ? 0 : hash(gw_logits(m), n_vocab * sizeof(float));
}

static uint64_t evaluate(gw_model *m) {
    if (gw_pair(m, target())) return draft(m);
    int32_t ids[MOST_CONTEXT];
    uint32_t n_vocab = (uint32_t)gw_model_number(m, "n_vocab"), n_ctx = (uint32_t)gw_model_number(m, "n_ctx");
    uint32_t n = (uint32_t)gw_min(n_ctx, 4);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 7 % n_vocab);
    REQUIRE(gw_sync(m, ids, n) == 0);
    REQUIRE(gw_run(m, 0) == GW_RUN_DONE);
    uint64_t h = hash(gw_logits(m), n_vocab * sizeof(float));
    int32_t id = gw_sampler_draw(gw_sampler_of(m), gw_logits(m));
    REQUIRE(id == GW_E_BAD_STATE || (id >= 0 && (uint32_t)id < n_vocab)); /* damaged weights can give NaN */
    REQUIRE(gw_append(m, 0) == (n < n_ctx ? 0 : GW_E_CONTEXT));
    REQUIRE(gw_run(m, 1) >= 0);
    REQUIRE(gw_sync(m, ids, n / 2 + 1) >= 0);
    REQUIRE(gw_run(m, 0) == GW_RUN_DONE);
    return h;
}

static void ask(gw_model *m) {
    char text[16];
    int32_t ids[8];
    double n = gw_model_number(m, "n_tensors") + gw_model_number(m, "n_metadata");
    REQUIRE(n > 0);
    for (uint32_t i = 0; i < n && i < 80; i++) {
        const char *json = gw_metadata_json(m, i);
        REQUIRE(!json || (json[0] == '{' && json[strlen(json) - 1] == '}'));
        json = gw_tensor_json(m, i);
        REQUIRE(!json || (json[0] == '{' && json[strlen(json) - 1] == '}'));
        int len = gw_decode(m, -1, (int32_t)i, i % 2, text, sizeof text);
        REQUIRE(len >= 0 || len == GW_E_BAD_TOKEN);
    }
    REQUIRE(gw_encode(m, "ab <eos>", 8, 1, ids, 8) <= 8);
    REQUIRE(gw_model_text(m, "architecture") != NULL);
    gw_model_text(m, "chat_template");
    REQUIRE(gw_model_text(m, "quantisation") != NULL);
    REQUIRE(gw_model_number(m, "parameters") > 0);
}

/* Reserves memory after the header, unless the plan is too large for a harness. Returns the load state or an error. */
static int reserve(gw_model *m) {
    static const char *const floats[] = { "auto", "keep", "q8_0" };
    ask(m);
    const char *wanted = floats[(int)fmod(gw_model_number(m, "file_bytes"), 3)];
    REQUIRE(gw_load_option(m, "quantizeFloats", wanted) == 0);
    uint32_t n_ctx = (uint32_t)gw_min((size_t)gw_model_number(m, "context_length"), MOST_CONTEXT);
    if (!(gw_plan_bytes(m, n_ctx, "total") <= MOST_BYTES)) return GW_LOAD_PLAN;
    if (gw_pair(m, target()) < 0) return GW_LOAD_PLAN;
    int bad = gw_load_reserve(m, n_ctx);
    return bad ? bad : gw_load_commit(m, 0);
}

/* Feeds files as streams. Each stream continues where it stopped, which must be the offset that the loader requests. */
static int feed(gw_model *m, const bytes *files, unsigned n_files, const uint8_t *steps) {
    size_t read[MOST_PARTS] = { 0 };
    int state = n_files > 1 ? gw_load_parts(m, (int)n_files) : GW_LOAD_HEADER;
    for (size_t i = 0; state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS; i++) {
        unsigned part = (unsigned)gw_load_part(m);
        REQUIRE(part < n_files && gw_load_offset(m) == (double)read[part] && gw_load_room(m) > 0);
        size_t n = steps ? (size_t)steps[i % STEPS] * steps[i % STEPS] + 1 : MOST_FILE;
        n = gw_min(gw_min(n, gw_load_room(m)), files[part].size - read[part]);
        if (n == 0) break;
        memcpy(gw_load_window(m), files[part].data + read[part], n);
        read[part] += n;
        state = gw_load_commit(m, n);
        if (state == GW_LOAD_PLAN) state = reserve(m);
    }
    return state;
}

static outcome load(gw_pool *pool, const bytes *files, unsigned n_files, const uint8_t *steps) {
    outcome o = { 0 };
    gw_model *m = gw_model_new(pool);
    REQUIRE(m != NULL);
    int state = feed(m, files, n_files, steps);
    o.state = gw_load_end(m);
    REQUIRE(o.state == (state < 0 ? state : state == GW_LOAD_READY ? 0 : GW_E_TRUNCATED));
    if (o.state < 0) {
        snprintf(o.text, sizeof o.text, "%s", gw_error_text(m, "what"));
        if (!strchr(o.text, '.')) fprintf(stderr, "error %d: %s\n", o.state, o.text);
        REQUIRE(strchr(o.text, '.'));
        REQUIRE(!strcmp(gw_error_text(m, "code"), gw_error_name(o.state)));
        if (state == GW_LOAD_PLAN) o.text[0] = 0; /* the message has a number of bytes that depends on the chunks */
    } else {
        o.logits = evaluate(m);
    }
    gw_model_free(m);
    return o;
}

static void check(gw_pool *pool, const bytes *files, unsigned n_files, const uint8_t *steps) {
    outcome whole = load(pool, files, n_files, NULL), pieces = load(pool, files, n_files, steps);
    REQUIRE(whole.state == pieces.state && whole.logits == pieces.logits && !strcmp(whole.text, pieces.text));
}

/* Checks that a valid file gives the same logits as the first time, which shows that the engine is unchanged. */
static void check_sound(gw_pool *pool) {
    static uint64_t logits;
    const tiny_file *f = sound_file(1, 0);
    outcome o = load(pool, &(bytes){ f->data, f->size }, 1, NULL);
    REQUIRE(o.state == 0 && (!logits || o.logits == logits));
    logits = o.logits;
}

/* Makes valid files, then edits them. One file in eight ends early; parts may be missing or out of order. */
static unsigned make_files(fuzz_input *in, bytes *files, uint8_t *steps) {
    unsigned which = fuzz_byte(in) % SOUND_FILES, cut = fuzz_byte(in), n = parts_of(which), turn = 0;
    for (int i = 0; i < STEPS; i++) steps[i] = fuzz_byte(in);
    if (n > 1) turn = fuzz_byte(in) % 16, n -= turn == 9;
    size_t headers[MOST_PARTS];
    for (unsigned i = 0; i < n; i++) {
        const tiny_file *sound = sound_file(which, (i + (turn > 9)) % n);
        headers[i] = sound->header;
        files[i].size = sound->size - (cut % 8 || cut / 8 % n != i ? 0 : cut / 8 * sound->size / 32);
        memcpy(files[i].data, sound->data, files[i].size);
    }
    while (in->left >= 3) {
        unsigned i = n > 1 ? fuzz_byte(in) % n : 0;
        edit(in, &files[i], gw_min(headers[i], files[i].size));
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gw_pool *pools[2];
    static uint8_t buffers[MOST_PARTS][MOST_FILE];
    static unsigned runs;
    bytes files[MOST_PARTS] = { { buffers[0], size }, { buffers[1], 0 }, { buffers[2], 0 } };
    uint8_t steps[STEPS] = { 0, 9, 3, 1, 20, 5, 60, 2 };
    if (size < 4 || size > MOST_FILE) return 0;
    unsigned n_files = 1;
    fuzz_input in = { data, size };
    if (!memcmp(data, "GGUF", 4)) memcpy(buffers[0], data, size);
    else n_files = make_files(&in, files, steps);
    gw_pool **pool = &pools[size % 16 == 0];
    if (!*pool) *pool = gw_pool_new(size % 16 ? 1 : 2);
    REQUIRE(*pool != NULL);
    if (runs++ % 512 == 0) check_sound(*pool);
    check(*pool, files, n_files, steps);
    return 0;
}
