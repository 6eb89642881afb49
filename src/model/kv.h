/* kv: the key/value cache. Rows are [kv head][head_dim] in one of the types of kernels.h. Global layers hold every
 * position, sliding-window layers a ring of the last ones (row = position % rows), so a long context costs little.
 * GW_KV_AUTO: i16 in global layers and f32 in rings, where i16 would cost more accuracy than all else
 * (tests/vectors/kv-types.md) and bytes are few. Knows no model beyond sizes. */
#ifndef GW_KV_H
#define GW_KV_H

#include "base/base.h"

typedef struct {
    uint32_t n_layer, n_ctx, window, batch;   /* window in positions; batch: most rows written at once */
    uint32_t n_head_kv, head_dim;
    const uint8_t *is_global;                 /* [n_layer] */
    int type;                                 /* GW_KV_*, of all layers */
} gw_kv_shape;

enum { GW_KV_AUTO, GW_KV_F32, GW_KV_I16, GW_KV_Q8, GW_KV_TYPES };

/* Position p is at row p % rows; a row has n_head_kv heads of `head` bytes. */
typedef struct {
    uint8_t *k, *v;
    uint32_t rows, head;
    int type;                 /* not GW_KV_AUTO */
} gw_kv_layer;

typedef struct {
    gw_kv_shape shape;
    gw_kv_layer *layers;      /* [n_layer] */
    uint32_t pos;             /* positions 0 .. pos - 1 are valid in global layers */
    uint32_t low;             /* and low .. pos - 1 in the rings */
    /* The ring rows before one position, kept aside: going back there stays possible after the rings
     * have moved on (retry of an answer). */
    gw_kv_layer *saved;       /* [n_layer], rings only */
    uint32_t saved_pos;       /* 0: nothing saved */
} gw_kv;

/* Takes all memory from the arena (which may only measure). */
void gw_kv_init(gw_kv *kv, gw_kv_shape shape, gw_arena *arena);

/* Longest length <= length that the cache can be cut back to; cuts it. */
uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length);

/* Rows pos .. pos + n - 1 are about to be written (n <= batch). */
void gw_kv_reserve(gw_kv *kv, uint32_t n);
void gw_kv_store(gw_kv *kv, uint32_t layer, uint32_t pos, const float *k, const float *v);
/* A layer's rows from `row` on as a layer of their own: of one text of several. */
gw_kv_layer gw_kv_from(const gw_kv *kv, uint32_t layer, uint32_t row);
/* Rows up to pos + n - 1 are complete in all layers. */
void gw_kv_advance(gw_kv *kv, uint32_t n);
/* A query q[d] as keys of GW_KV_I16 want it: a row like theirs. */
void gw_kv_query(uint8_t *row, const float *q, uint32_t d);

/* Rows as saved states have them (run/state.h): heads one behind the other, with nothing in between. Bytes of one row
 * of keys or of values; one copied out; one put in, false if gw_kv_store makes no such row, on which kernels rely. */
uint32_t gw_kv_row_bytes(const gw_kv *kv, uint32_t layer);
void gw_kv_row_out(const gw_kv *kv, const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out);
bool gw_kv_row_in(const gw_kv *kv, const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in);
/* First position that a query at position p still sees in a layer with a window. */
uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p);

/* Save the rings as they are for a later rewind to length (length <= pos, within the window's reach). */
void gw_kv_save(gw_kv *kv, uint32_t length);

#endif
