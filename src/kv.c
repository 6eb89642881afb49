/* kv: see kv.h */
#include "kv.h"
#include "kernels.h"
#include "quant.h"

#include <string.h>

static void take_layer(gw_kv_layer *l, uint32_t rows, uint32_t row, bool half, gw_arena *arena) {
    uint64_t bytes = gw_times(gw_times(rows, row), half ? sizeof(uint16_t) : sizeof(float));
    void *k = gw_arena_take(arena, bytes), *v = gw_arena_take(arena, bytes);
    *l = (gw_kv_layer){ k, v, rows, half };
}

void gw_kv_init(gw_kv *kv, gw_kv_shape shape, gw_arena *arena) {
    /* Whole blocks of GW_KEYS, so that a block of keys never wraps around the ring's end. */
    uint32_t all = (uint32_t)gw_round_up(shape.n_ctx, GW_KEYS);
    uint32_t ring = (uint32_t)gw_min(gw_round_up((size_t)shape.window + shape.batch, GW_KEYS), all);
    gw_kv_layer measured;
    bool measuring = !arena->base;
    kv->layers = gw_arena_take(arena, shape.n_layer * sizeof *kv->layers);
    kv->saved = gw_arena_take(arena, shape.n_layer * sizeof *kv->saved);
    kv->shape = shape;
    kv->pos = kv->low = kv->saved_pos = 0;
    for (uint32_t l = 0; l < shape.n_layer; l++) {
        bool global = shape.is_global[l];
        take_layer(measuring ? &measured : &kv->layers[l], global ? all : ring, shape.row, global, arena);
        if (!measuring) kv->saved[l] = (gw_kv_layer){ 0 };
        if (!global && ring < all)
            take_layer(measuring ? &measured : &kv->saved[l], shape.window, shape.row, false, arena);
    }
}

/* First position that a query at position p still sees in a window layer. */
static uint32_t window_start(const gw_kv *kv, uint32_t p) {
    return p >= kv->shape.window ? p - kv->shape.window + 1 : 0;
}

/* Copy positions from .. to - 1 of one plane between two rings. */
static void copy_rows(float *to, uint32_t to_rows, const float *from, uint32_t from_rows,
                      uint32_t first, uint32_t last, uint32_t row) {
    for (uint32_t p = first; p < last; p++)
        memcpy(to + (size_t)(p % to_rows) * row, from + (size_t)(p % from_rows) * row, row * sizeof *to);
}

static void copy_rings(gw_kv *kv, uint32_t length, bool save) {
    uint32_t first = window_start(kv, length), row = kv->shape.row;
    for (uint32_t l = 0; l < kv->shape.n_layer; l++) {
        gw_kv_layer *aside = &kv->saved[l], *ring = &kv->layers[l];
        if (!aside->rows) continue;
        gw_kv_layer *to = save ? aside : ring, *from = save ? ring : aside;
        copy_rows(to->k, to->rows, from->k, from->rows, first, length, row);
        copy_rows(to->v, to->rows, from->v, from->rows, first, length, row);
    }
}

uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length) {
    if (length > kv->pos) length = kv->pos;
    if (window_start(kv, length) >= kv->low) {
        kv->pos = length;
    } else if (kv->saved_pos && kv->saved_pos <= length) {
        kv->pos = kv->saved_pos;
        kv->low = window_start(kv, kv->pos);
        copy_rings(kv, kv->pos, false);
    } else {
        kv->pos = kv->low = 0;
    }
    if (kv->saved_pos > kv->pos) kv->saved_pos = 0;   /* saved rows belong to a past that is gone */
    return kv->pos;
}

void gw_kv_reserve(gw_kv *kv, uint32_t n) {
    uint32_t end = kv->pos + n;
    for (uint32_t l = 0; l < kv->shape.n_layer; l++)
        if (!kv->shape.is_global[l] && end > kv->layers[l].rows)
            kv->low = (uint32_t)gw_max(kv->low, end - kv->layers[l].rows);
}

/* f16 has no room above 65504; a saturated value is closer to the truth than infinity. */
static uint16_t to_f16(float f) {
    return gw_f32_to_f16(f > 65504.0f ? 65504.0f : f < -65504.0f ? -65504.0f : f);
}

static void store_row(void *plane, size_t at, const float *in, uint32_t n, bool half) {
    if (half)
        for (uint32_t i = 0; i < n; i++) ((uint16_t *)plane)[at + i] = to_f16(in[i]);
    else
        memcpy((float *)plane + at, in, n * sizeof *in);
}

void gw_kv_store(gw_kv *kv, uint32_t layer, uint32_t pos, const float *k, const float *v) {
    gw_kv_layer *l = &kv->layers[layer];
    size_t at = (size_t)(pos % l->rows) * kv->shape.row;
    store_row(l->k, at, k, kv->shape.row, l->half);
    store_row(l->v, at, v, kv->shape.row, l->half);
}

void gw_kv_advance(gw_kv *kv, uint32_t n) { kv->pos += n; }

void gw_kv_save(gw_kv *kv, uint32_t length) {
    if (window_start(kv, length) < kv->low) return;
    copy_rings(kv, length, true);
    kv->saved_pos = length;
}
