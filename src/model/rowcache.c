/* rowcache: see rowcache.h. Evicts the least recently used row. */
#include "model/rowcache.h"

#include <string.h>

enum { CACHE_BYTES = 8 << 20 };

gw_row_cache *gw_row_cache_place(const gw_matrix *m, const gw_type *from, uint32_t tensor, gw_arena *arena) {
    size_t row_bytes = gw_row_bytes(from, m->k);
    uint32_t slots = (uint32_t)gw_min(m->rows, gw_max(GW_ROWS_AT_ONCE, CACHE_BYTES / row_bytes));
    gw_row_cache *c = gw_arena_take(arena, sizeof *c);
    gw_matrix panel = { .type = m->type, .rows = GW_PANEL, .k = m->k };
    gw_matrix_place(&panel, 0, arena);
    uint8_t *scratch = gw_arena_take(arena, row_bytes);
    int32_t *row = gw_arena_take(arena, slots * sizeof *row);
    uint32_t *used = gw_arena_take(arena, slots * sizeof *used);
    uint8_t *bytes = gw_arena_take(arena, (uint64_t)slots * row_bytes);
    if (!arena->base) return NULL;
    memset(row, -1, slots * sizeof *row);
    memset(used, 0, slots * sizeof *used);
    *c = (gw_row_cache){ .wanted.tensor = (int32_t)tensor,
                         .from = from,
                         .panel = panel,
                         .scratch = scratch,
                         .row_bytes = row_bytes,
                         .n_slots = slots,
                         .row = row,
                         .used = used,
                         .bytes = bytes };
    return c;
}

static uint32_t find(const gw_row_cache *c, int32_t row) {
    uint32_t s = 0;
    while (s < c->n_slots && c->row[s] != row) s++;
    return s;
}

static void add_wanted(gw_rows_wanted_list *w, int32_t row) {
    int at = w->n;
    while (at > 0 && w->row[at - 1] >= row) at--;
    if (at < w->n && w->row[at] == row) return;
    memmove(w->row + at + 1, w->row + at, (size_t)(w->n - at) * sizeof *w->row);
    w->row[at] = row;
    w->n++;
}

static uint32_t evict(gw_row_cache *c) {
    uint32_t oldest = 0;
    for (uint32_t s = 1; s < c->n_slots; s++)
        if (c->used[s] < c->used[oldest]) oldest = s;
    c->row[oldest] = -1;
    c->used[oldest] = c->clock;
    return oldest;
}

int gw_row_cache_want(gw_row_cache *c, const int32_t *rows, int n) {
    if (++c->clock == 0) { /* the clock wraps to 0 after four billion calls; then all rows count as equally old */
        memset(c->used, 0, c->n_slots * sizeof *c->used);
        c->clock = 1;
    }
    c->wanted.n = 0;
    for (int i = 0; i < n; i++) {
        uint32_t s = find(c, rows[i]);
        if (s < c->n_slots) c->used[s] = c->clock;
        else add_wanted(&c->wanted, rows[i]);
    }
    for (int i = 0; i < c->wanted.n; i++) c->slot[i] = evict(c);
    return c->wanted.n;
}

uint8_t *gw_row_cache_room(gw_row_cache *c, int i) { return c->bytes + c->slot[i] * c->row_bytes; }

static bool pack(gw_row_cache *c, uint32_t slot) {
    memcpy(c->scratch, c->bytes + slot * c->row_bytes, c->row_bytes);
    return gw_matrix_put(&c->panel, c->from, c->scratch, 1, 0);
}

int32_t gw_row_cache_commit(gw_row_cache *c) {
    for (int i = 0; i < c->wanted.n; i++)
        if (!pack(c, c->slot[i])) return c->wanted.row[i];
    for (int i = 0; i < c->wanted.n; i++) c->row[c->slot[i]] = c->wanted.row[i];
    c->wanted.n = 0;
    return -1;
}

void gw_row_cache_get(gw_row_cache *c, size_t row, float *out) {
    pack(c, find(c, (int32_t)row));
    gw_matrix_row(&c->panel, 0, out);
}
