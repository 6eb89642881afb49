/* store: see store.h. Keys and strings are in one pool, which moves while it grows, so entries store offsets into the
 * pool. Keys are found by linear search, but duplicates by sorting all names, because a hostile file may have many
 * names. */
#include "file/store.h"
#include "file/errors.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(gw_error *e) { return gw_no_memory(e, "the file's metadata", 0); }

static int pool_text(gw_store *s, const char *text, size_t len, size_t *at, gw_error *e) {
    *at = s->pool.used;
    char *to = gw_buffer_add(&s->pool, len + 1);
    if (!to) return no_memory(e);
    memcpy(to, text, len);
    to[len] = 0;
    return 0;
}

static int keep_entry(gw_store *s, const char *key, gw_entry entry, gw_error *e) {
    const gw_gguf_value *v = &entry.value;
    int bad = pool_text(s, key, strlen(key), &entry.key, e);
    if (!bad && v->type == GW_GGUF_STRING) bad = pool_text(s, v->text, v->len, &entry.text, e);
    if (bad) return bad;
    entry.value.text = NULL;
    gw_entry *to = gw_buffer_add(&s->entries, sizeof entry);
    if (!to) return no_memory(e);
    *to = entry;
    return 0;
}

int gw_store_value(gw_store *s, const char *key, const gw_gguf_value *v, gw_error *e) {
    return keep_entry(s, key, (gw_entry){ .value = *v, .first = GW_NOT_KEPT }, e);
}

int gw_store_array(gw_store *s, const char *key, int of, uint64_t count, gw_error *e) {
    bool kept = of != GW_GGUF_STRING && count <= GW_MAX_LAYERS;
    return keep_entry(s, key,
                      (gw_entry){ .value = { .type = GW_GGUF_ARRAY },
                                  .of = of,
                                  .count = count,
                                  .first = kept ? s->numbers.used / sizeof(double) : GW_NOT_KEPT },
                      e);
}

int gw_store_element(gw_store *s, const gw_gguf_value *v, gw_error *e) {
    const gw_entry *last = gw_store_entry(s, gw_store_entries(s) - 1);
    if (last->first == GW_NOT_KEPT) return 0;
    double *to = gw_buffer_add(&s->numbers, sizeof *to);
    if (!to) return no_memory(e);
    *to = v->number;
    return 0;
}

int gw_store_tensor(gw_store *s, const gw_gguf_tensor *t, uint32_t part, gw_error *e) {
    const gw_type *type = gw_type_of(t->type);
    if (!type) return gw_fail(e, MSG_UNKNOWN_TYPE, t->name, t->type);
    if (t->shape[0] % type->items)
        return gw_fail(e, MSG_ROW_LENGTH, t->name, type->items, type->name, (unsigned long long)t->shape[0]);
    gw_tensor *to = gw_buffer_add(&s->tensors, sizeof *to);
    if (!to) return no_memory(e);
    /* The parser bounds the product of the shape, so neither rows nor bytes overflow. */
    uint64_t rows = t->shape[1] * t->shape[2] * t->shape[3], bytes = t->shape[0] / type->items * type->bytes * rows;
    *to = (gw_tensor){ .info = *t, .type = type, .bytes = bytes, .part = part };
    return 0;
}

/* --- duplicates --- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts the names. Returns one that occurs twice, or NULL. */
static const char *find_twice(const char **names, uint32_t n) {
    qsort(names, n, sizeof *names, by_text);
    for (uint32_t i = 1; i < n; i++)
        if (!strcmp(names[i - 1], names[i])) return names[i];
    return NULL;
}

int gw_store_check(const gw_store *s, gw_error *e) {
    uint32_t keys = gw_store_entries(s), tensors = gw_store_tensors(s);
    const char **names = gw_alloc(gw_max(keys, tensors) * sizeof *names);
    if (!names) return no_memory(e);
    for (uint32_t i = 0; i < keys; i++) names[i] = gw_store_pooled(s, gw_store_entry(s, i)->key);
    const char *kind = "metadata key", *twice = find_twice(names, keys);
    if (!twice) {
        for (uint32_t i = 0; i < tensors; i++) names[i] = gw_store_tensor_at(s, i)->info.name;
        kind = "tensor", twice = find_twice(names, tensors);
    }
    gw_free(names);
    return twice ? gw_fail(e, MSG_TWICE, kind, twice) : 0;
}

void gw_store_free(gw_store *s) {
    gw_buffer_free(&s->pool);
    gw_buffer_free(&s->entries);
    gw_buffer_free(&s->numbers);
    gw_buffer_free(&s->tensors);
}

size_t gw_store_bytes(const gw_store *s) { return s->pool.size + s->entries.size + s->numbers.size + s->tensors.size; }

/* --- reading --- */

uint32_t gw_store_entries(const gw_store *s) { return (uint32_t)(s->entries.used / sizeof(gw_entry)); }
uint32_t gw_store_tensors(const gw_store *s) { return (uint32_t)(s->tensors.used / sizeof(gw_tensor)); }
const gw_entry *gw_store_entry(const gw_store *s, uint32_t i) { return (gw_entry *)s->entries.data + i; }
const gw_tensor *gw_store_tensor_at(const gw_store *s, uint32_t i) { return (gw_tensor *)s->tensors.data + i; }
const char *gw_store_pooled(const gw_store *s, size_t at) { return (const char *)s->pool.data + at; }

const gw_entry *gw_store_find(const gw_store *s, const char *key) {
    for (uint32_t i = 0; i < gw_store_entries(s); i++)
        if (!strcmp(gw_store_pooled(s, gw_store_entry(s, i)->key), key)) return gw_store_entry(s, i);
    return NULL;
}

const char *gw_store_text(const gw_store *s, const char *key) {
    const gw_entry *e = gw_store_find(s, key);
    return e && e->value.type == GW_GGUF_STRING ? gw_store_pooled(s, e->text) : NULL;
}

bool gw_is_number(const gw_entry *e) { return e && e->value.type != GW_GGUF_STRING && e->value.type != GW_GGUF_ARRAY; }

const double *gw_store_numbers(const gw_store *s, const gw_entry *e) {
    bool kept = e && e->value.type == GW_GGUF_ARRAY && e->first != GW_NOT_KEPT;
    return kept ? (const double *)s->numbers.data + e->first : NULL;
}
