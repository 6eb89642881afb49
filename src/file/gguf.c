/* gguf: see gguf.h. The file is a sequence of items: magic, version, counts, then for every entry a
 * key and a value (or an array head and its elements), then tensor infos. `readers` has one function
 * per kind of item; it consumes whole items or nothing, and settle() returns the kind of the next item. */
#include "file/gguf.h"
#include "file/errors.h"

#include <string.h>

enum { MAGIC, VERSION, COUNTS, KEY, VALUE, ARRAY, ELEMENT, TENSOR, DONE };

/* Reads one item, or many elements, from p[0..n). Returns the bytes consumed, 0 if the item is incomplete, or a
 * negative code. */
typedef int (*reader)(gw_gguf *g, const uint8_t *p, size_t n);

static uint32_t load32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load64(const uint8_t *p) { return load32(p) | (uint64_t)load32(p + 4) << 32; }

/* Bytes of a metadata value in the file, by its type (GW_GGUF_*); 0: the type is not a scalar. */
static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
enum { N_TYPES = sizeof widths };

/* --- errors ----------------------------------------------------------------------------------- */

/* The first bytes of other kinds of files, so that the error can say which kind of file was chosen by mistake. */
static const struct {
    const char *start, *what;
} impostors[] = {
    { "<", "a web page" },
    { "PK", "a zip archive or PyTorch file" },
    { "vers", "a Git LFS pointer" },
    { "{", "JSON" },
    { "ggjt", "a GGML file from before GGUF" },
    { "lmgg", "a GGML file from before GGUF" },
    { "tjgg", "a GGML file from before GGUF" },
    { "FUGG", "GGUF spelt backwards" },
    { "\x1f\x8b", "a gzip archive" },
};

static int bad_magic(gw_gguf *g, const uint8_t *p) {
    for (size_t i = 0; i < sizeof impostors / sizeof *impostors; i++)
        if (!memcmp(p, impostors[i].start, strlen(impostors[i].start)))
            return gw_fail(g->error, MSG_NOT_GGUF, impostors[i].what);
    return gw_fail(g->error, MSG_NOT_GGUF_BYTES, p[0], p[1], p[2], p[3]);
}

/* Checks a metadata key or tensor name: they appear in one-line messages and in C strings, so they must not be empty or
 * have control characters. what, index: name the string in errors. */
static int check_printable(gw_gguf *g, const uint8_t *p, size_t n, const char *what, uint64_t index) {
    bool printable = n > 0;
    for (size_t i = 0; i < n; i++) printable &= p[i] >= 32 && p[i] != 127;
    if (printable) return 0;
    return gw_fail(g->error, MSG_NOT_PRINTABLE, what, (unsigned)index, n ? "control characters" : "an empty string");
}

/* Checks a string of at most `most` bytes. `what` names the string in errors. Returns 8 + the string's length, 0 if it
 * is incomplete, or an error. */
static int take_string(gw_gguf *g, const uint8_t *p, size_t n, size_t most, const char *what) {
    if (n < 8) return 0;
    uint64_t len = load64(p);
    if (len > most) return gw_fail(g->error, MSG_TOO_LONG, what, most, (unsigned long long)len);
    return n - 8 < len ? 0 : (int)(8 + len);
}

static int bad_type(gw_gguf *g, uint32_t type) { return gw_fail(g->error, MSG_VALUE_TYPE, g->key, N_TYPES - 1, type); }

/* --- items ------------------------------------------------------------------------------------ */

static int read_magic(gw_gguf *g, const uint8_t *p, size_t n) {
    if (n < 4) return 0;
    return memcmp(p, "GGUF", 4) ? bad_magic(g, p) : 4;
}

static int read_version(gw_gguf *g, const uint8_t *p, size_t n) {
    if (n < 4) return 0;
    g->version = load32(p);
    if (g->version == 2 || g->version == 3) return 4;
    if (g->version && !(g->version & 0xffff)) return gw_fail(g->error, MSG_BIG_ENDIAN, (uint32_t)p[2] << 8 | p[3]);
    return gw_fail(g->error, MSG_GGUF_VERSION, g->version);
}

static int check_count(gw_gguf *g, const char *unit, const char *key, uint64_t count, uint64_t most) {
    if (count <= most) return 0;
    return gw_fail(g->error, MSG_TOO_MANY, unit, key, (unsigned long long)most, (unsigned long long)count);
}

static int read_counts(gw_gguf *g, const uint8_t *p, size_t n) {
    if (n < 16) return 0;
    g->n_tensors = load64(p);
    g->n_metadata = load64(p + 8);
    int bad = check_count(g, "tensors", "", g->n_tensors, GW_MAX_TENSORS);
    if (!bad) bad = check_count(g, "metadata entries", "", g->n_metadata, GW_MAX_METADATA);
    if (!bad && g->on.header) bad = g->on.header(g->on.ctx, g->version, g->n_tensors, g->n_metadata);
    return bad ? bad : 16;
}

static int read_key(gw_gguf *g, const uint8_t *p, size_t n) {
    int len = take_string(g, p, n, GW_MAX_KEY, "a metadata key");
    if (len <= 0) return len;
    if (n - (size_t)len < 4) return 0;
    int bad = check_printable(g, p + 8, (size_t)len - 8, "Metadata key", g->seen_metadata);
    if (bad) return bad;
    memcpy(g->key, p + 8, (size_t)len - 8);
    g->key[len - 8] = 0;
    uint32_t type = load32(p + len);
    if (type >= N_TYPES) return bad_type(g, type);
    g->of = (int)type;
    return len + 4;
}

static void read_integer(gw_gguf_value *v, const uint8_t *p) {
    uint64_t u = widths[v->type] == 8   ? load64(p)
                 : widths[v->type] == 4 ? load32(p)
                 : widths[v->type] == 2 ? (uint64_t)p[0] | (uint64_t)p[1] << 8
                                        : p[0];
    switch (v->type) {
    case GW_GGUF_I8: v->i = (int8_t)u; break;
    case GW_GGUF_I16: v->i = (int16_t)u; break;
    case GW_GGUF_I32: v->i = (int32_t)u; break;
    case GW_GGUF_U64: v->i = u > INT64_MAX ? INT64_MAX : (int64_t)u; break;
    default: v->i = (int64_t)u;
    }
    v->number = v->type == GW_GGUF_U64 ? (double)u : (double)v->i;
}

static int read_float(gw_gguf_value *v, const uint8_t *p) {
    if (v->type == GW_GGUF_F32) {
        uint32_t u = load32(p);
        float f;
        memcpy(&f, &u, sizeof f);
        v->number = f;
        return 4;
    }
    uint64_t u = load64(p);
    memcpy(&v->number, &u, sizeof u);
    return 8;
}

/* Reads a value of type g->of. Returns the bytes consumed, 0 if the value is incomplete, or a negative code. */
static int take_value(gw_gguf *g, const uint8_t *p, size_t n, gw_gguf_value *v) {
    *v = (gw_gguf_value){ .type = g->of };
    if (v->type == GW_GGUF_STRING) {
        int len = take_string(g, p, n, GW_MAX_STRING, g->key);
        if (len > 0) {
            v->text = (const char *)p + 8;
            v->len = (size_t)len - 8;
        }
        return len;
    }
    int width = widths[v->type];
    if (n < (size_t)width) return 0;
    if (v->type == GW_GGUF_F32 || v->type == GW_GGUF_F64) return read_float(v, p);
    read_integer(v, p);
    if (v->type == GW_GGUF_BOOL && v->i > 1) return gw_fail(g->error, MSG_NOT_BOOL, g->key, (int)v->i);
    return width;
}

static int set_alignment(gw_gguf *g, const gw_gguf_value *v) {
    if (v->type != GW_GGUF_U32 || v->i == 0 || (v->i & (v->i - 1)))
        return gw_fail(g->error, MSG_ALIGNMENT, v->number, v->type == GW_GGUF_U32 ? "" : " of another type");
    g->alignment = (uint32_t)v->i;
    return 0;
}

static int read_value(gw_gguf *g, const uint8_t *p, size_t n) {
    gw_gguf_value v;
    int len = take_value(g, p, n, &v), bad = 0;
    if (len <= 0) return len;
    if (!strcmp(g->key, "general.alignment")) bad = set_alignment(g, &v);
    if (!bad && g->on.value) bad = g->on.value(g->on.ctx, g->key, &v);
    g->seen_metadata++;
    return bad ? bad : len;
}

static int read_array(gw_gguf *g, const uint8_t *p, size_t n) {
    if (n < 12) return 0;
    uint32_t of = load32(p);
    if (of >= N_TYPES) return bad_type(g, of);
    if (of == GW_GGUF_ARRAY) return gw_fail(g->error, MSG_NESTED_ARRAY, g->key);
    if (!strcmp(g->key, "general.alignment")) return gw_fail(g->error, MSG_ALIGNMENT_ARRAY);
    g->of = (int)of;
    g->count = load64(p + 4);
    g->index = 0;
    int bad = check_count(g, "elements of the metadata key ", g->key, g->count, GW_GGUF_MAX_COUNT);
    if (!bad && g->on.array) bad = g->on.array(g->on.ctx, g->key, g->of, g->count);
    if (!g->count) g->seen_metadata++;
    return bad ? bad : 12;
}

/* Reads all complete array elements in one call, since there may be a million, but stops before the number of bytes
 * exceeds an int. */
static int read_elements(gw_gguf *g, const uint8_t *p, size_t n) {
    size_t used = 0;
    while (g->index < g->count && used < GW_MAX_STRING) {
        gw_gguf_value v;
        int len = take_value(g, p + used, n - used, &v);
        if (len == 0) break;
        int bad = len < 0 ? len : g->on.element ? g->on.element(g->on.ctx, g->key, g->index, &v) : 0;
        if (bad) return bad;
        used += (size_t)len;
        if (++g->index == g->count) g->seen_metadata++;
    }
    return (int)used;
}

/* Reads a tensor's dimensions at p. Their product is bounded, so that no size in bytes can overflow. */
static int take_shape(gw_gguf *g, const uint8_t *p, gw_gguf_tensor *t) {
    uint64_t items = 1;
    for (uint32_t i = 0; i < GW_MAX_DIMS; i++) t->shape[i] = i < t->n_dims ? load64(p + 8 * i) : 1;
    for (uint32_t i = 0; i < GW_MAX_DIMS; i++) {
        if (t->shape[i] == 0 || t->shape[i] > GW_GGUF_MAX_ITEMS / items)
            return gw_fail(g->error, MSG_TENSOR_SIZE, t->name, (unsigned long long)t->shape[0],
                           (unsigned long long)t->shape[1], (unsigned long long)t->shape[2],
                           (unsigned long long)t->shape[3]);
        items *= t->shape[i];
    }
    return 0;
}

static int take_tensor(gw_gguf *g, const uint8_t *p, gw_gguf_tensor *t) {
    int bad = take_shape(g, p, t);
    if (bad) return bad;
    t->type = load32(p + 8 * t->n_dims);
    t->offset = load64(p + 8 * t->n_dims + 4);
    if (t->offset % g->alignment || t->offset > GW_GGUF_MAX_ITEMS)
        return gw_fail(g->error, MSG_NOT_ALIGNED, t->name, g->alignment, (unsigned long long)t->offset);
    return g->on.tensor ? g->on.tensor(g->on.ctx, t) : 0;
}

static int read_tensor(gw_gguf *g, const uint8_t *p, size_t n) {
    gw_gguf_tensor t = { 0 };
    int len = take_string(g, p, n, GW_MAX_NAME, "a tensor name");
    if (len <= 0) return len;
    int bad = check_printable(g, p + 8, (size_t)len - 8, "The name of tensor", g->seen_tensors);
    if (bad) return bad;
    memcpy(t.name, p + 8, (size_t)len - 8);
    if (n - (size_t)len < 4) return 0;
    t.n_dims = load32(p + len);
    if (t.n_dims < 1 || t.n_dims > GW_MAX_DIMS) return gw_fail(g->error, MSG_DIMENSIONS, t.name, GW_MAX_DIMS, t.n_dims);
    size_t rest = 8 * t.n_dims + 12;
    if (n - (size_t)len - 4 < rest) return 0;
    bad = take_tensor(g, p + len + 4, &t);
    g->seen_tensors++;
    return bad ? bad : len + 4 + (int)rest;
}

static const reader readers[] = {
    [MAGIC] = read_magic, [VERSION] = read_version, [COUNTS] = read_counts,    [KEY] = read_key,
    [VALUE] = read_value, [ARRAY] = read_array,     [ELEMENT] = read_elements, [TENSOR] = read_tensor,
};

static int settle(const gw_gguf *g) {
    switch (g->state) {
    case MAGIC: return VERSION;
    case VERSION: return COUNTS;
    case KEY: return g->of == GW_GGUF_ARRAY ? ARRAY : VALUE;
    case ARRAY:
        if (g->count) return ELEMENT;
        break;
    case ELEMENT:
        if (g->index < g->count) return ELEMENT;
        break;
    }
    if (g->seen_metadata < g->n_metadata) return KEY;
    return g->seen_tensors < g->n_tensors ? TENSOR : DONE;
}

void gw_gguf_init(gw_gguf *g, gw_gguf_listener on, gw_error *error) {
    memset(g, 0, sizeof *g);
    g->on = on;
    g->error = error;
    g->alignment = 32;
}

int gw_gguf_push(gw_gguf *g, const uint8_t *bytes, size_t n, size_t *used) {
    *used = 0;
    while (g->state >= 0 && g->state != DONE) {
        int len = readers[g->state](g, bytes + *used, n - *used);
        if (len == 0) return 0;
        if (len < 0) {
            g->state = len; /* after an error, the parser stays in the failed state */
            break;
        }
        *used += (size_t)len;
        g->offset += (size_t)len;
        if (g->offset > GW_GGUF_MAX_HEADER)
            return g->state = gw_fail(g->error, MSG_HEADER_TOO_LONG, GW_GGUF_MAX_HEADER);
        g->state = settle(g);
        if (g->state == DONE) g->data_offset = (g->offset + g->alignment - 1) / g->alignment * g->alignment;
    }
    return g->state < 0 ? g->state : 1;
}
