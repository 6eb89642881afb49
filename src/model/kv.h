/* kv: the key/value cache. Rows are [kv head][head_dim] in one of the types of kernels.h. Global layers hold every
 * position, sliding-window layers a ring of the last ones (row = position % rows), so a long context costs little. Only
 * layers that own their keys and values (kv_owner) have rows.
 * GW_KV_AUTO: i16 in global layers, f32 in rings, which are small and where i16 would cost more accuracy than all else
 * (tests/vectors/kv-types.md). */
#ifndef GW_KV_H
#define GW_KV_H

#include "model/arch.h"

enum { GW_KV_AUTO, GW_KV_F32, GW_KV_I16, GW_KV_Q8, GW_KV_TYPES };

typedef struct {
    uint32_t n_layer, n_ctx;
    uint32_t window;             /* the largest of any layer: all rings reach back equally far */
    uint32_t batch;              /* most rows written at once */
    const gw_layer_shape *layer; /* [n_layer] */
    int type;                    /* GW_KV_* of all layers */
} gw_kv_shape;

/* Position p is at row p % rows; a row has n_head heads of `head` bytes. */
typedef struct {
    uint8_t *k, *v;
    uint32_t rows, n_head, head_dim, head;
    int type;  /* not GW_KV_AUTO */
    bool ring; /* of a layer with a window */
} gw_kv_layer;

typedef struct {
    gw_kv_shape shape;
    gw_kv_layer *layers; /* [n_layer]; all zeros if another layer owns the rows */
    uint32_t pos;        /* positions 0 .. pos - 1 are valid in global layers */
    uint32_t low;        /* and low .. pos - 1 in the rings */
    /* Copies of the rows that rings held before one position, so that a retry can rewind to it after the rings have
     * moved on. */
    gw_kv_layer *saved; /* [n_layer], rings only */
    uint32_t saved_pos; /* 0: nothing saved */
} gw_kv;

/* Takes all memory from the arena (which may only measure). */
void gw_kv_init(gw_kv *kv, gw_kv_shape shape, gw_arena *arena);

/* Returns the greatest length <= `length` that the cache can still serve. */
uint32_t gw_kv_reach(const gw_kv *kv, uint32_t length);
/* Truncates the cache to the greatest length <= `length` that it can still serve; returns that length. */
uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length);

/* Makes `to`, of the same shape, the first `length` positions of `from`, or fewer if the rings of `from` no longer
 * reach back to them. Returns that length. */
uint32_t gw_kv_copy(gw_kv *to, const gw_kv *from, uint32_t length);

/* Call before rows pos .. pos + n - 1 are written (n <= batch). */
void gw_kv_reserve(gw_kv *kv, uint32_t n);
void gw_kv_store(const gw_kv_layer *l, uint32_t pos, const float *k, const float *v);
/* Returns the rows from `row` on as a layer: the cache of one of several texts. */
gw_kv_layer gw_kv_from(const gw_kv_layer *l, uint32_t row);
/* Call when rows up to pos + n - 1 are complete in all layers. */
void gw_kv_advance(gw_kv *kv, uint32_t n);
/* Converts a query q[d] to a row like the keys of GW_KV_I16. */
void gw_kv_query(uint8_t *row, const float *q, uint32_t d);

/* Rows in the format of saved states (run/state.h): heads one after the other without gaps. gw_kv_row_bytes returns the
 * bytes of one row of keys or of values; gw_kv_row_in returns false for a row that gw_kv_store would never write:
 * kernels rely on its bounds. */
uint32_t gw_kv_row_bytes(const gw_kv_layer *l);
void gw_kv_row_out(const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out);
bool gw_kv_row_in(const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in);
/* Returns the first position that a query at position p attends to in a ring. */
uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p);

/* Saves the rings as they are for a later rewind to length (length <= pos, within the window's reach). */
void gw_kv_save(gw_kv *kv, uint32_t length);

#endif
