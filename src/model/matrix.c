/* matrix: see matrix.h. The rows of a matrix are in packed panels, in bit planes, or in a row cache. kernels/pack.h has
 * the layouts of the first two. */
#include "model/matrix.h"
#include "model/rowcache.h"

void gw_matrix_place(gw_matrix *m, int norms, gw_arena *arena) {
    uint64_t bytes = gw_packed_bytes(m->type, m->rows, m->k), blocks = bytes / GW_Q8_BYTES;
    bool planes = norms == GW_NORMS;
    void *data = planes ? NULL : gw_arena_take(arena, bytes);
    gw_planes in = { 0 };
    if (planes) {
        in.high = gw_arena_take(arena, blocks * GW_HIGH_BYTES);
        in.middle = gw_arena_take(arena, blocks * GW_MIDDLE_BYTES);
        in.low = gw_arena_take(arena, blocks * GW_LOW_BYTES);
    }
    float *of_rows = norms ? gw_arena_take(arena, (size_t)norms * gw_ld(m->rows) * sizeof *of_rows) : NULL;
    if (!arena->base) return;
    m->data = data;
    m->planes = in;
    m->norms = of_rows;
}

bool gw_matrix_put(const gw_matrix *m, const gw_type *from, uint8_t *rows, int n, size_t row) {
    bool finite = m->type == from || gw_rows_finite(from, rows, (size_t)n, m->k);
    if (m->type != from) gw_round_rows(from, rows, n, m->k);
    if (m->data) {
        uint8_t *panel = m->data + row * gw_row_bytes(m->type, m->k);
        gw_pack_panel(m->type, rows, n, m->k, panel);
        if (GW_FASTER_INT8 && m->norms) gw_row_norms(m->type, rows, n, m->k, m->norms + row);
        return finite && gw_panel_finite(m->type, panel, m->k);
    }
    gw_planes to = gw_matrix_planes(m, row / GW_PANEL);
    gw_pack_planes(rows, n, m->k, to, m->norms + row, gw_ld(m->rows));
    return finite && gw_planes_finite(to.high, m->k);
}

void gw_matrix_row(const gw_matrix *m, size_t row, float *out) {
    if (m->cache) gw_row_cache_get(m->cache, row, out);
    else if (m->planes.high) gw_unpack_planes(m->planes, row, m->k, out);
    else gw_unpack_row(m->type, m->data, row, m->k, out);
}

gw_matrix gw_matrix_rows(const gw_matrix *m, uint32_t first, uint32_t rows) {
    gw_matrix part = *m;
    part.rows = rows;
    part.data += first * gw_row_bytes(m->type, m->k);
    return part;
}

gw_view gw_view_take(gw_arena *a, size_t rows, uint32_t columns) {
    return (gw_view){ gw_arena_take(a, (uint64_t)rows * gw_ld(columns) * sizeof(float)), 0, columns };
}
