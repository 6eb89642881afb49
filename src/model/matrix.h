/* matrix: one matrix of weights in the packed layout of kernels.h, and views of floats. */
#ifndef GW_MATRIX_H
#define GW_MATRIX_H

#include "kernels/pack.h"

typedef struct {
    const gw_type *type; /* type of the packed weights; NULL: the model lacks this matrix */
    uint32_t rows, k;
    uint8_t *data;    /* packed weights, NULL if they are in planes; the model's arena owns the memory */
    gw_planes planes; /* bit planes of a Q8_0 output matrix (kernels.h); otherwise NULL */
    float *norms;     /* [gw_head_norms()][gw_ld(rows)] norms of a two-stage output head (pack.h); otherwise NULL */
    /* Row cache (rowcache.h) if the rows stay in the file and `data` is NULL; otherwise NULL. */
    struct gw_row_cache *cache;
} gw_matrix;

/* Returns the stride of rows of `columns` floats, rounded up because a kernel may write whole panels. */
static inline size_t gw_ld(size_t columns) { return gw_round_up(columns, GW_PANEL); }

/* Allocates a matrix in the arena. norms: number of norms of a row (gw_head_norms); a matrix with GW_NORMS norms is
 * stored in bit planes. If the arena only adds up sizes, leaves the matrix unchanged. */
void gw_matrix_place(gw_matrix *m, int norms, gw_arena *arena);
/* Packs n <= 4 consecutive rows of type `from` to matrix m, from row `row` (a multiple of 4) on; overwrites the source
 * bytes. Returns false if a number or a block's scale is not finite. */
bool gw_matrix_put(const gw_matrix *m, const gw_type *from, uint8_t *rows, int n, size_t row);
/* Unpacks one row of a matrix to floats out[k]. If the matrix has a row cache, the row must be in the cache. */
void gw_matrix_row(const gw_matrix *m, size_t row, float *out);
static inline uint32_t gw_matrix_panels(const gw_matrix *m) { return (uint32_t)(gw_ld(m->rows) / GW_PANEL); }
static inline gw_planes gw_matrix_planes(const gw_matrix *m, size_t panel) {
    return gw_planes_from(m->planes, panel * (m->k / GW_BLOCK));
}
/* Returns rows first .. first + rows - 1 (first: a multiple of 4) of m as a matrix that shares the bytes. */
gw_matrix gw_matrix_rows(const gw_matrix *m, uint32_t first, uint32_t rows);

/* A view of n rows of `columns` floats, gw_ld(columns) apart. */
typedef struct {
    float *at;
    int n;
    uint32_t columns;
} gw_view;

/* Allocates room for `rows` rows in the arena. The view has no rows yet. */
gw_view gw_view_take(gw_arena *a, size_t rows, uint32_t columns);
static inline float *gw_row(gw_view v, int i) { return v.at + (size_t)i * gw_ld(v.columns); }
/* Returns a view without its rows before `first`. */
static inline gw_view gw_from(gw_view v, int first) { return (gw_view){ gw_row(v, first), v.n - first, v.columns }; }

#endif
