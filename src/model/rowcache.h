/* rowcache: the most recently used rows of a matrix that stays in the file. A step of the model reads only its tokens'
 * rows. The engine reads no files: it names the missing rows, and the host copies them here. */
#ifndef GW_ROWCACHE_H
#define GW_ROWCACHE_H

#include "model/matrix.h"

enum { GW_ROWS_AT_ONCE = 128 };

/* The missing rows of a row cache, ascending, as gw_rows_wanted() of api.h returns them. */
typedef struct {
    int32_t tensor, n; /* tensor: index of the matrix in the file's tensor directory */
    int32_t row[GW_ROWS_AT_ONCE];
} gw_rows_wanted_list;

typedef struct gw_row_cache {
    gw_rows_wanted_list wanted;
    uint32_t slot[GW_ROWS_AT_ONCE];
    const gw_type *from;
    gw_matrix panel;  /* packs and unpacks a row like weights in memory, so that results have the same bits */
    uint8_t *scratch; /* [row_bytes] copy of a row, because packing overwrites its source */
    size_t row_bytes;
    uint32_t n_slots, clock;
    int32_t *row;   /* [n_slots] matrix row in each slot; -1: empty */
    uint32_t *used; /* [n_slots] value of `clock` at each slot's last use */
    uint8_t *bytes; /* [n_slots][row_bytes] rows as in the file */
} gw_row_cache;

/* Allocates a cache of rows of matrix m in the arena; returns NULL if the arena only adds up sizes. from: type of the
 * rows in the file. tensor: index of the matrix in the file's tensor directory. */
gw_row_cache *gw_row_cache_place(const gw_matrix *m, const gw_type *from, uint32_t tensor, gw_arena *arena);
/* Looks up n <= GW_ROWS_AT_ONCE rows, which are not evicted before the next call. Reserves slots for the missing rows
 * and returns their number. */
int gw_row_cache_want(gw_row_cache *c, const int32_t *rows, int n);
/* Returns the address to which the host must copy the bytes of wanted row i. */
uint8_t *gw_row_cache_room(gw_row_cache *c, int i);
/* Adds the wanted rows to the cache after the host has copied all of them. Returns -1, or the index of a row with a
 * number that is not finite; then no row is added. */
int32_t gw_row_cache_commit(gw_row_cache *c);
/* Unpacks a row, which must be in the cache, to floats[k]. */
void gw_row_cache_get(gw_row_cache *c, size_t row, float *out);

#endif
