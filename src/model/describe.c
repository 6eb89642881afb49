/* describe: see describe.h. The JSON is valid for every file: bytes that are not UTF-8 become U+FFFD, numbers that JSON
 * cannot represent exactly become strings, and long strings are cut. */
#include "model/describe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CUT = 65536 }; /* maximum bytes of a metadata string in the JSON */

static const char *const value_types[] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
};

__attribute__((format(printf, 2, 3))) static bool put(gw_buffer *out, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    void *to = n >= 0 && n < (int)sizeof text ? gw_buffer_add(out, n) : NULL;
    if (to) memcpy(to, text, n);
    return to != NULL;
}

static bool put_string(gw_buffer *out, const char *text, size_t len) {
    const uint8_t *s = (const uint8_t *)text;
    bool ok = put(out, "\"");
    for (size_t i = 0; ok && i < len;) {
        size_t n = gw_utf8_len(s + i, len - i);
        if (n == 0) ok = put(out, "\\ufffd"), n = 1;
        else if (s[i] == '"' || s[i] == '\\') ok = put(out, "\\%c", s[i]);
        else if (s[i] < 0x20) ok = put(out, "\\u%04x", s[i]);
        else ok = put(out, "%.*s", (int)n, text + i);
        i += n;
    }
    return ok && put(out, "\"");
}

/* Writes a metadata number as a JSON number, or as a string if JSON cannot represent it exactly. */
static bool put_number(gw_buffer *out, const gw_gguf_value *v) {
    if (v->type == GW_GGUF_BOOL) return put(out, v->i ? "true" : "false");
    if (v->type == GW_GGUF_F32 || v->type == GW_GGUF_F64)
        return isfinite(v->number) ? put(out, "%.*g", v->type == GW_GGUF_F32 ? 9 : 17, v->number)
                                   : put(out, "\"%g\"", v->number);
    return put(out, v->i > 9007199254740991 || v->i < -9007199254740991 ? "\"%lld\"" : "%lld", (long long)v->i);
}

static bool put_value(const gw_store *s, const gw_entry *e, gw_buffer *out) {
    if (e->value.type == GW_GGUF_ARRAY)
        return put(out, ",\"of\":\"%s\",\"count\":%llu", value_types[e->of], (unsigned long long)e->count);
    if (!put(out, ",\"value\":")) return false;
    if (e->value.type != GW_GGUF_STRING) return put_number(out, &e->value);
    size_t len = gw_min(e->value.len, CUT);
    return put_string(out, gw_store_pooled(s, e->text), len) && (len == e->value.len || put(out, ",\"cut\":true"));
}

static const char *finish(gw_buffer *out, bool ok) {
    char *end = ok ? gw_buffer_add(out, 2) : NULL;
    if (!end) return NULL;
    memcpy(end, "}", 2);
    return (const char *)out->data;
}

const char *gw_describe_entry(const gw_store *s, uint32_t i, gw_buffer *out) {
    if (i >= gw_store_entries(s)) return NULL;
    const gw_entry *e = gw_store_entry(s, i);
    const char *key = gw_store_pooled(s, e->key);
    out->used = 0;
    bool ok = put(out, "{\"key\":") && put_string(out, key, strlen(key)) &&
              put(out, ",\"type\":\"%s\"", value_types[e->value.type]) && put_value(s, e, out);
    return finish(out, ok);
}

const char *gw_describe_tensor(const gw_tensor *t, uint64_t data_offset, bool stays, gw_buffer *out) {
    out->used = 0;
    bool ok = put(out, "{\"name\":") && put_string(out, t->info.name, strlen(t->info.name)) &&
              put(out, ",\"type\":\"%s\",\"shape\":[", t->type->name);
    for (uint32_t d = 0; ok && d < t->info.n_dims; d++)
        ok = put(out, d ? ",%llu" : "%llu", (unsigned long long)t->info.shape[d]);
    ok = ok && put(out, "],\"offset\":%llu,\"bytes\":%llu", (unsigned long long)(data_offset + t->info.offset),
                   (unsigned long long)t->bytes);
    if (t->part) ok = ok && put(out, ",\"part\":%u", t->part);
    if (stays) ok = ok && put(out, ",\"onDisk\":true");
    return finish(out, ok);
}

static double parameters(const gw_store *s) {
    double n = 0;
    for (uint32_t i = 0; i < gw_store_tensors(s); i++) {
        const uint64_t *shape = gw_store_tensor_at(s, i)->info.shape;
        n += (double)shape[0] * shape[1] * shape[2] * shape[3];
    }
    return n;
}

double gw_describe_number(const gw_file *f, const char *key) {
    const gw_config *c = &f->config;
    const gw_layer_shape *first = c->layer;
    const gw_tokens *t = &f->tokens;
    const gw_store *s = &f->store;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        { "context_length", c->n_ctx_train },
        { "n_vocab", c->n_vocab },
        { "n_layer", c->n_layer },
        { "n_embd", c->n_embd },
        { "n_ff", first->n_ff },
        { "n_head", c->n_head },
        { "n_head_kv", first->n_head_kv },
        { "head_dim", first->head_dim },
        { "window", c->window },
        { "parameters", parameters(s) },
        { "gguf_version", s->version },
        { "alignment", s->alignment },
        { "add_bos", t->add_bos },
        { "add_eos", t->add_eos },
        { "bidirectional", c->arch->policy->bidirectional },
        { "pooling", c->pooling },
        { "dense", f->weights.dense_2.matrix.k },
        { "n_tensors", gw_store_tensors(s) },
        { "n_metadata", gw_store_entries(s) },
        { "bos_id", t->bos < 0 ? NAN : t->bos },
        { "eos_id", t->eos < 0 ? NAN : t->eos },
        { "eot_id", t->eot < 0 ? NAN : t->eot },
        { "pad_id", t->pad < 0 ? NAN : t->pad },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].key, key)) return numbers[i].value;
    return NAN;
}

const char *gw_describe_text(const gw_file *f, const char *key) {
    if (!strcmp(key, "architecture")) return gw_store_text(&f->store, "general.architecture");
    if (!strcmp(key, "name")) return gw_store_text(&f->store, "general.name");
    if (!strcmp(key, "chat_template")) return gw_store_text(&f->store, "tokenizer.chat_template");
    if (!strcmp(key, "quantisation")) return gw_file_layer_type(f)->name;
    return NULL;
}
