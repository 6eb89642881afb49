/* base: see base.h. The only file that calls malloc. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gw_error_name(int code) {
    if (code >= 0) return "ok";
    switch (code) {
#define GW_X(sym, value, name) \
    case sym: return name;
        GW_ERRORS(GW_X)
#undef GW_X
    }
    return "unknown";
}

/* Moves one line of `text` to field[0..size); returns what follows the line. */
static const char *take_line(const char *text, char *field, size_t size) {
    size_t n = strcspn(text, "\n"), kept = gw_min(n, size - 1);
    memcpy(field, text, kept);
    field[kept] = 0;
    return text + n + (text[n] == '\n');
}

int gw_fail(gw_error *e, int code, const char *format, ...) {
    if (!e) return code;
    char text[sizeof(gw_error)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *rest = take_line(text, e->what, sizeof e->what);
    rest = take_line(rest, e->expected, sizeof e->expected);
    /* The third may be a text of the file's: of any bytes, also none. */
    if (rest > text && rest[-1] == '\n' && !rest[strspn(rest, "\n")]) rest = "nothing";
    take_line(rest + strspn(rest, "\n"), e->got, sizeof e->got);
    e->code = code;
    return code;
}

void *gw_arena_take(gw_arena *a, uint64_t bytes) {
    uint64_t at = a->used, size = (bytes + GW_ALIGN - 1) / GW_ALIGN * GW_ALIGN;
    if (size < bytes || a->used + size < a->used) {
        a->used = UINT64_MAX; /* a plan beyond all bounds must not look small */
        return NULL;
    }
    a->used += size;
    return a->base && a->used <= a->size ? a->base + at : NULL;
}

/* Bytes that may be asked for. In wasm, emmalloc and sbrk add without looking: a sum beyond 4 GB wraps,
 * and gives a block that is not there. */
static size_t most_bytes(void) {
    size_t taken = 65536;
#ifdef __wasm__
    taken += (size_t)__builtin_wasm_memory_size(0) * 65536;
#endif
    return taken < 65536 ? 0 : SIZE_MAX - taken;
}

void *gw_alloc(size_t bytes) {
    if (bytes > most_bytes()) return NULL;
    return aligned_alloc(GW_ALIGN, gw_round_up(bytes ? bytes : 1, GW_ALIGN));
}

void gw_free(void *p) { free(p); }

void *gw_buffer_add(gw_buffer *b, size_t bytes) {
    if (bytes > b->size - b->used) {
        size_t size = gw_max(b->size * 2, gw_round_up(b->used + bytes, 4096));
        if (b->used + bytes < bytes || size < b->used + bytes || size > most_bytes()) return NULL;
        uint8_t *data = realloc(b->data, size);
        if (!data) return NULL;
        b->data = data;
        b->size = size;
    }
    void *at = b->data + b->used;
    b->used += bytes;
    return at;
}

void gw_buffer_free(gw_buffer *b) {
    free(b->data);
    *b = (gw_buffer){ 0 };
}
