/* base: see base.h. The only file that calls malloc. */
#include "base/base.h"
#include "base/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int code;
    const char *name, *remedy;
} errors[] = {
#define GW_X(symbol, value, name, remedy) { symbol, name, remedy },
    GW_ERRORS(GW_X)
#undef GW_X
};
enum { ERRORS = sizeof errors / sizeof *errors };

const char *gw_error_name(int code) {
    if (code >= 0) return "ok";
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].code == code) return errors[i].name;
    return "unknown";
}

int gw_fail(gw_error *e, int code, const char *format, ...) {
    if (!e) return code;
    va_list args;
    va_start(args, format);
    vsnprintf(e->what, sizeof e->what, format, args);
    va_end(args);
    for (char *c = e->what; *c; c++) /* error messages quote model files, whose text may contain line breaks */
        if (*c > 0 && *c < ' ') *c = ' ';
    size_t used = strlen(e->what);
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].code == code && errors[i].remedy[0])
            snprintf(e->what + used, sizeof e->what - used, " %s", errors[i].remedy);
    e->code = code;
    return code;
}

int gw_no_memory(gw_error *e, const char *what, uint64_t bytes) {
    char size[40] = "";
    if (bytes) snprintf(size, sizeof size, " (%llu bytes)", (unsigned long long)bytes);
    return gw_fail(e, MSG_NO_MEMORY, what, size);
}

void *gw_arena_take(gw_arena *a, uint64_t bytes) {
    uint64_t at = a->used, size = (bytes + GW_ALIGN - 1) / GW_ALIGN * GW_ALIGN;
    if (size < bytes || a->used + size < a->used) {
        a->used = UINT64_MAX; /* the sum saturates, so that a memory plan that overflows does not look small */
        return NULL;
    }
    a->used += size;
    return a->base && a->used <= a->size ? a->base + at : NULL;
}

/* Returns the largest size that may be requested from the allocator. In wasm, emmalloc and sbrk do not check for
 * overflow: a sum beyond 4 GB wraps around, and the allocator returns an invalid block. */
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
