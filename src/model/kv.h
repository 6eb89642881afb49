/* kv: the key/value cache. Rows are [kv head][head_dim] in one of the types of kernels.h. Global layers hold every
 * position, sliding-window layers a ring of the last positions (row = position % rows), so a long context needs little
 * memory. Only layers that own their keys and values (kv_owner) have rows.
 * GW_KV_AUTO: i16 in global layers, f32 in rings: rings are small, and i16 in them would cost more accuracy than all
 * other rounding (tests/vectors/kv-types.md). */
#ifndef GW_KV_H
#define GW_KV_H

#include "model/arch.h"

enum { GW_KV_AUTO, GW_KV_F32, GW_KV_I16, GW_KV_Q8, GW_KV_TYPES };

typedef struct {
    uint32_t n_layer, n_ctx;
    uint32_t window;             /* the largest window of any layer: all rings hold equally many positions */
    uint32_t batch;              /* maximum number of cache rows written at once */
    const gw_layer_shape *layer; /* [n_layer] */
    int type;
} gw_kv_shape;

/* The keys and values of a layer. Position p is at row p % rows; a row has n_head heads of `head` bytes. */
typedef struct {
    uint8_t *k, *v;
    uint32_t rows, n_head, head_dim, head;
    int type; /* type of the rows: GW_KV_…, but not GW_KV_AUTO */
    bool ring;
} gw_kv_layer;

typedef struct {
    gw_kv_shape shape;
    gw_kv_layer *layers; /* [n_layer]; all zeros for layers that share another layer's rows */
    uint32_t pos;        /* positions 0 .. pos - 1 are valid in global layers */
    uint32_t low;        /* positions low .. pos - 1 are valid in the rings */
    /* Copies of the rows of the rings before position saved_pos, so that a retry of an answer can rewind to saved_pos
     * after the rings have overwritten these rows. saved_pos 0: no rows are saved. */
    gw_kv_layer *saved; /* [n_layer] saved rows of rings; all zeros for layers without a ring */
    uint32_t saved_pos;
} gw_kv;

/* Allocates the cache in the arena, which may only add up sizes (base.h). */
void gw_kv_init(gw_kv *kv, gw_kv_shape shape, gw_arena *arena);

/* Returns the greatest length <= `length` to which the cache can still be truncated. */
uint32_t gw_kv_reach(const gw_kv *kv, uint32_t length);
/* Truncates the cache to gw_kv_reach(kv, length); returns the new length. */
uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length);

/* Copies the first `length` positions of the cache `from` to `to`, a cache of the same shape; fewer if the rings of
 * `from` no longer hold the rows they need. Returns the number of positions copied. */
uint32_t gw_kv_copy(gw_kv *to, const gw_kv *from, uint32_t length);

/* Prepares the cache for writing rows pos .. pos + n - 1 (n <= batch), which may overwrite the oldest rows of rings.
 * Must be called before these rows are written. */
void gw_kv_reserve(gw_kv *kv, uint32_t n);
void gw_kv_store(const gw_kv_layer *l, uint32_t pos, const float *k, const float *v);
/* Returns the part of a layer's cache from row `row` on, for one of several texts that share a cache. */
gw_kv_layer gw_kv_from(const gw_kv_layer *l, uint32_t row);
/* Adds n positions to the cache. Must be called when rows up to pos + n - 1 are complete in all layers. */
void gw_kv_advance(gw_kv *kv, uint32_t n);
/* Converts a query q[d] to a row in the format of keys of GW_KV_I16. */
void gw_kv_query(uint8_t *row, const float *q, uint32_t d);

/* Rows in the format of saved states (run/state.h): heads without gaps. gw_kv_row_bytes returns the bytes of one row of
 * keys or of values. gw_kv_row_in returns false for a row that gw_kv_store would never write, because kernels rely on
 * the bounds of stored rows. */
uint32_t gw_kv_row_bytes(const gw_kv_layer *l);
void gw_kv_row_out(const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out);
bool gw_kv_row_in(const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in);
/* Returns the first position that a query at position p attends to in a ring. */
uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p);

/* Copies the rows of rings that a later rewind to `length` <= pos needs. Does nothing if the rings no longer hold these
 * rows. */
void gw_kv_save(gw_kv *kv, uint32_t length);

#endif
