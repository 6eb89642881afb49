/* kv: the key/value cache. Rows are [kv head][head_dim]. Global layers hold every position, as f16;
 * sliding-window layers a ring of the last positions (row = position % rows), as f32: there f16
 * would cost more accuracy than all else (tests/vectors/parity.md), and rings are small. So a long
 * context costs little. Knows no model beyond sizes. */
#ifndef GW_KV_H
#define GW_KV_H

#include "base.h"

typedef struct {
    uint32_t n_layer, n_ctx, window, batch;   /* window in positions; batch: most rows written at once */
    uint32_t row;                             /* n_head_kv * head_dim */
    const uint8_t *is_global;                 /* [n_layer] */
} gw_kv_shape;

/* Position p is at row p % rows. Items are uint16_t (f16) if half, else float. */
typedef struct {
    void *k, *v;
    uint32_t rows;
    bool half;
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
/* Rows up to pos + n - 1 are complete in all layers. */
void gw_kv_advance(gw_kv *kv, uint32_t n);

/* Save the rings as they are for a later rewind to length (length <= pos, within the window's reach). */
void gw_kv_save(gw_kv *kv, uint32_t length);

#endif
