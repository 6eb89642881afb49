/* Fuzz harness of the GGUF parser. An input that begins like a GGUF file is parsed unchanged. Otherwise, the first byte
 * chooses whether the rest is parsed unchanged, after a header with small counts, or as a recipe for a nearly valid
 * file. Parsed whole and in chunks, an input must give equal events, results and errors; events must have the order and
 * the bounds that gguf.h promises to the listener, errors must have a message, and bytes that have not arrived must not
 * be read. */
#include "fuzz.h"
#include "file/gguf.h"

enum { MOST = 1 << 16 };

typedef struct {
    gw_gguf *g;
    const uint8_t *view; /* the bytes that the parser last received */
    size_t view_size;
    uint64_t hash;
    uint64_t values, arrays, tensors, elements;
    uint64_t left; /* elements of the current array still to come */
} watcher;

static int note(watcher *w, const void *p, size_t n) {
    for (size_t i = 0; i < n; i++) w->hash = (w->hash ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    w->hash = (w->hash ^ n) * 0x100000001b3u;
    return 0;
}

static void check_key(watcher *w, const char *key) {
    size_t len = strlen(key);
    REQUIRE(len > 0 && len <= GW_MAX_KEY);
    note(w, key, len);
}

static int check_value(watcher *w, const gw_gguf_value *v) {
    REQUIRE(v->type >= GW_GGUF_U8 && v->type <= GW_GGUF_F64 && v->type != GW_GGUF_ARRAY);
    note(w, &v->type, sizeof v->type);
    if (v->type != GW_GGUF_STRING) {
        if (v->type == GW_GGUF_BOOL) REQUIRE(v->i == 0 || v->i == 1);
        note(w, &v->i, sizeof v->i);
        return note(w, &v->number, sizeof v->number);
    }
    const uint8_t *text = (const uint8_t *)v->text;
    REQUIRE(v->len <= GW_MAX_STRING);
    REQUIRE(text >= w->view && v->len <= (size_t)(w->view + w->view_size - text));
    return note(w, text, v->len);
}

static int on_header(void *ctx, uint32_t version, uint64_t n_tensors, uint64_t n_metadata) {
    watcher *w = ctx;
    REQUIRE(version == 2 || version == 3);
    REQUIRE(n_tensors <= GW_MAX_TENSORS && n_metadata <= GW_MAX_METADATA);
    return note(w, &version, sizeof version);
}

static int on_value(void *ctx, const char *key, const gw_gguf_value *v) {
    watcher *w = ctx;
    REQUIRE(w->left == 0 && w->tensors == 0);
    w->values++;
    check_key(w, key);
    return check_value(w, v);
}

static int on_array(void *ctx, const char *key, int of, uint64_t count) {
    watcher *w = ctx;
    REQUIRE(w->left == 0 && w->tensors == 0 && count <= GW_GGUF_MAX_COUNT && of != GW_GGUF_ARRAY);
    w->arrays++;
    w->left = count;
    w->elements = 0;
    check_key(w, key);
    return note(w, &count, sizeof count);
}

static int on_element(void *ctx, const char *key, uint64_t i, const gw_gguf_value *v) {
    watcher *w = ctx;
    REQUIRE(w->left > 0 && i == w->elements && v->type == w->g->of);
    w->left--;
    w->elements++;
    if (i == 0) check_key(w, key);
    return check_value(w, v);
}

static int on_tensor(void *ctx, const gw_gguf_tensor *t) {
    watcher *w = ctx;
    uint64_t items = 1;
    REQUIRE(w->left == 0 && w->values + w->arrays == w->g->n_metadata);
    REQUIRE(t->n_dims >= 1 && t->n_dims <= GW_MAX_DIMS && strlen(t->name) > 0);
    for (uint32_t i = 0; i < GW_MAX_DIMS; i++) {
        REQUIRE(t->shape[i] >= 1 && items <= GW_GGUF_MAX_ITEMS / t->shape[i]);
        REQUIRE(i < t->n_dims || t->shape[i] == 1);
        items *= t->shape[i];
    }
    REQUIRE(t->offset <= GW_GGUF_MAX_ITEMS && t->offset % w->g->alignment == 0);
    w->tensors++;
    note(w, t->name, strlen(t->name));
    return note(w, t->shape, sizeof t->shape);
}

/* Feeds data[0..size) in chunks of random sizes up to `step` bytes, or at once if `step` is 0. Bytes that have not
 * arrived yet, or were consumed, must not be read. */
static int feed(gw_gguf *g, watcher *w, const uint8_t *data, size_t size, size_t step, uint64_t state) {
    static uint8_t copy[MOST + 8];
    fuzz_allow(copy, size + 8);
    memcpy(copy, data, size);
    fuzz_forbid(copy, size + 8);
    for (size_t at = 0, seen = step ? 0 : size, before = 0;;) {
        size_t used = 99;
        fuzz_allow(copy + before / 8 * 8, seen - before / 8 * 8);
        w->view = copy + at;
        w->view_size = seen - at;
        int result = gw_gguf_push(g, w->view, w->view_size, &used);
        REQUIRE(used <= seen - at);
        at += used;
        REQUIRE(g->offset == at);
        if (result || seen == size) return result;
        fuzz_forbid(copy, at / 8 * 8);
        before = seen;
        seen += gw_min(1 + fuzz_random(&state) % step, size - seen);
    }
}

static int parse(const uint8_t *data, size_t size, size_t step, uint64_t *hash, gw_error *e) {
    static gw_gguf g;
    watcher w = { .g = &g, .hash = 0xcbf29ce484222325u };
    gw_gguf_listener on = { &w, on_header, on_value, on_array, on_element, on_tensor };
    memset(e, 0, sizeof *e);
    gw_gguf_init(&g, on, e);
    int result = feed(&g, &w, data, size, step, size + step);
    REQUIRE(result <= 1);
    if (result < 0) {
        size_t used = 99;
        fuzz_check_error(e, result);
        REQUIRE(gw_gguf_push(&g, data, size, &used) == result && used == 0);
    }
    if (result == 1) {
        REQUIRE(w.values + w.arrays == g.n_metadata && w.tensors == g.n_tensors && w.left == 0);
        REQUIRE(g.data_offset >= g.offset && g.data_offset - g.offset < g.alignment);
        REQUIRE(g.data_offset % g.alignment == 0 && (g.alignment & (g.alignment - 1)) == 0);
    }
    *hash = w.hash;
    return result;
}

static void check(const uint8_t *data, size_t size) {
    static const size_t steps[] = { 1, 3, 17, 64, 500 };
    gw_error whole_error, error;
    uint64_t whole_hash, hash;
    int whole = parse(data, size, 0, &whole_hash, &whole_error);
    size_t step = steps[whole_hash % (sizeof steps / sizeof *steps)];
    REQUIRE(parse(data, size, step, &hash, &error) == whole && hash == whole_hash);
    REQUIRE(!memcmp(&error, &whole_error, sizeof error));
}

typedef struct {
    fuzz_input in;
    uint8_t out[1 << 14];
    size_t used;
} writer;

static uint32_t take(writer *w) { return fuzz_byte(&w->in); }

static void put(writer *w, uint64_t v, int bytes) {
    for (int i = 0; i < bytes && w->used < sizeof w->out; i++) w->out[w->used++] = (uint8_t)(v >> 8 * i);
}

/* Returns a number below `limit`, rarely a larger one. */
static uint64_t number(writer *w, uint32_t limit) {
    uint32_t v = take(w);
    return v == 251 ? (uint64_t)1 << take(w) % 64 : v == 252 ? UINT64_MAX - take(w) : v % limit;
}

static void put_text(writer *w, uint32_t most) {
    uint64_t len = 1 + number(w, most);
    put(w, len, 8);
    for (uint64_t i = 0; i < len && i <= most; i++) put(w, 'a' + take(w) % 26, 1);
}

static void put_value(writer *w, uint64_t type) {
    static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    if (type == GW_GGUF_STRING) put_text(w, 20);
    else put(w, type == GW_GGUF_BOOL ? number(w, 2) : number(w, 250), type <= GW_GGUF_F64 ? widths[type] : 1);
}

static void put_entry(writer *w) {
    uint64_t kind = number(w, 8), type = number(w, 13), n = 1;
    if (kind == 0) {
        put(w, 17, 8);
        for (const char *c = "general.alignment"; *c; c++) put(w, (uint8_t)*c, 1);
        put(w, GW_GGUF_U32, 4);
        put(w, (uint64_t)1 << number(w, 12) % 64, 4);
        return;
    }
    put_text(w, 12);
    put(w, type, 4);
    if (type == GW_GGUF_ARRAY) {
        put(w, type = number(w, 13), 4);
        put(w, n = number(w, 10), 8);
    }
    for (uint64_t i = 0; i < n && i < 16; i++) put_value(w, type);
}

static void put_tensor(writer *w) {
    put_text(w, 30);
    uint64_t n_dims = 1 + number(w, 4);
    put(w, n_dims, 4);
    for (uint64_t i = 0; i < n_dims && i < 8; i++) put(w, 1 + number(w, 100), 8);
    put(w, number(w, 32), 4);
    put(w, number(w, 200) * 4096, 8);
}

static size_t write_file(writer *w, int with_entries) {
    uint64_t n_tensors = number(w, 5), n_metadata = number(w, 9);
    put(w, 0x46554747, 4);
    put(w, 2 + (take(w) & 1), 4);
    put(w, n_tensors, 8);
    put(w, n_metadata, 8);
    if (!with_entries) {
        while (w->in.left && w->used < sizeof w->out) put(w, take(w), 1);
        return w->used;
    }
    for (uint64_t i = 0; i < n_metadata && i < 16; i++) put_entry(w);
    for (uint64_t i = 0; i < n_tensors && i < 16; i++) put_tensor(w);
    return w->used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static writer w;
    if (size > MOST) return 0;
    int kind = !size || (size >= 4 && !memcmp(data, "GGUF", 4)) ? 0 : data[0] % 4;
    if (kind == 0) {
        check(data, size);
        return 0;
    }
    w.in = (fuzz_input){ data + 1, size - 1 };
    w.used = 0;
    check(w.out, write_file(&w, kind > 1));
    return 0;
}
