/* matrix: see matrix.h */
#include "model/matrix.h"
#include "kernels/pack.h"
#include "model/rowcache.h"

void gw_matrix_place(gw_matrix *m, bool planes, gw_arena *arena) {
    uint64_t bytes = gw_packed_bytes(m->type, m->rows, m->k), low = bytes / GW_Q8_BYTES * GW_LOW_BYTES;
    void *at = gw_arena_take(arena, planes ? bytes - low : bytes);
    void *low_at = planes ? gw_arena_take(arena, low) : NULL;
    void *norms = planes ? gw_arena_take(arena, 2 * gw_ld(m->rows) * sizeof(float)) : NULL;
    if (!arena->base) return;
    m->data = at;
    m->low = low_at;
    m->norms = norms;
}

bool gw_matrix_put(const gw_matrix *m, const gw_type *from, uint8_t *rows, int n, size_t row) {
    size_t at = row / GW_PANEL * (m->k / GW_BLOCK);
    bool finite = m->type == from || gw_rows_finite(from, rows, (size_t)n, m->k);
    uint8_t *panel = m->data + (m->low ? at * GW_HIGH_BYTES : row * gw_row_bytes(m->type, m->k));
    if (m->type != from) gw_round_rows(from, rows, n, m->k);
    if (!m->low) {
        gw_pack_panel(m->type, rows, n, m->k, panel);
        return finite && gw_panel_finite(m->type, panel, m->k);
    }
    gw_pack_planes(rows, n, m->k, panel, m->low + at * GW_LOW_BYTES, m->norms + row, m->norms + gw_ld(m->rows) + row);
    return finite && gw_planes_finite(panel, m->k);
}

void gw_matrix_row(const gw_matrix *m, size_t row, float *out) {
    if (m->cache) gw_row_cache_get(m->cache, row, out);
    else if (m->low) gw_unpack_planes(m->data, m->low, row, m->k, out);
    else gw_unpack_row(m->type, m->data, row, m->k, out);
}

gw_matrix gw_matrix_rows(const gw_matrix *m, uint32_t first, uint32_t rows) {
    gw_matrix part = *m;
    part.rows = rows;
    part.data += first * gw_row_bytes(m->type, m->k);
    return part;
}
