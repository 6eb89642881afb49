/* kv: see kv.h. Rounds rows to the type of the cache: i16 has a scale for each head, q8 a bfloat16 scale for each 32
 * columns of a head. The integers are small enough for the 32-bit sums of the attention kernels; for i16 keys, their
 * norm is limited, too. Rows of saved states are untrusted, so they are checked against the same bounds. */
#include "model/kv.h"
#include "kernels/kernels.h"
#include "file/types.h"

#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t head_bytes(int type, uint32_t d) {
    if (type == GW_KV_Q8) return (uint64_t)d + ((uint64_t)d + GW_BLOCK - 1) / GW_BLOCK * sizeof(uint16_t);
    return type == GW_KV_I16 ? GW_I16_BYTES(d) : (uint64_t)d * sizeof(float);
}

static gw_kv_layer take_layer(const gw_layer_shape *s, int type, uint32_t rows, gw_arena *arena) {
    bool ring = s->window != 0;
    if (type == GW_KV_AUTO) type = ring ? GW_KV_F32 : GW_KV_I16;
    uint64_t head = head_bytes(type, s->head_dim), bytes = gw_times(gw_times(rows, s->n_head_kv), head);
    uint8_t *k = gw_arena_take(arena, bytes), *v = gw_arena_take(arena, bytes);
    return (gw_kv_layer){ k, v, rows, s->n_head_kv, s->head_dim, (uint32_t)head, type, ring };
}

void gw_kv_init(gw_kv *kv, gw_kv_shape shape, gw_arena *arena) {
    /* Rings consist of whole blocks of GW_KEYS rows, so that no block wraps around the end of its ring. */
    uint32_t all = (uint32_t)gw_round_up(shape.n_ctx, GW_KEYS);
    uint32_t ring = (uint32_t)gw_min(gw_round_up((size_t)shape.window + shape.batch, GW_KEYS), all);
    bool measuring = !arena->base;
    kv->layers = gw_arena_take(arena, shape.n_layer * sizeof *kv->layers);
    kv->saved = gw_arena_take(arena, shape.n_layer * sizeof *kv->saved);
    kv->shape = shape;
    kv->pos = kv->low = kv->saved_pos = 0;
    for (uint32_t l = 0; l < shape.n_layer; l++) {
        const gw_layer_shape *s = &shape.layer[l];
        gw_kv_layer layer = { 0 }, saved = { 0 };
        if (s->kv_owner == l) layer = take_layer(s, shape.type, s->window ? ring : all, arena);
        if (layer.ring && ring < all) saved = take_layer(s, shape.type, shape.window, arena);
        if (measuring) continue;
        kv->layers[l] = layer;
        kv->saved[l] = saved;
    }
}

uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p) {
    return p >= kv->shape.window ? p - kv->shape.window + 1 : 0;
}

/* Returns the offset of position pos in the keys or values of a layer. */
static size_t offset_of(const gw_kv_layer *l, uint32_t pos) { return (size_t)(pos % l->rows) * l->n_head * l->head; }

static void copy_rows(const gw_kv_layer *to, const gw_kv_layer *from, uint32_t first, uint32_t last) {
    size_t row = (size_t)to->n_head * to->head;
    for (uint32_t p = first; p < last; p++) {
        memcpy(to->k + offset_of(to, p), from->k + offset_of(from, p), row);
        memcpy(to->v + offset_of(to, p), from->v + offset_of(from, p), row);
    }
}

static void copy_rings(gw_kv *kv, uint32_t length, bool save) {
    uint32_t first = gw_kv_window_start(kv, length);
    for (uint32_t l = 0; l < kv->shape.n_layer; l++) {
        gw_kv_layer *aside = &kv->saved[l], *ring = &kv->layers[l];
        if (aside->rows) copy_rows(save ? aside : ring, save ? ring : aside, first, length);
    }
}

static bool rings_reach(const gw_kv *kv, uint32_t length) { return gw_kv_window_start(kv, length) >= kv->low; }

uint32_t gw_kv_reach(const gw_kv *kv, uint32_t length) {
    if (length > kv->pos) length = kv->pos;
    if (rings_reach(kv, length)) return length;
    return kv->saved_pos <= length ? kv->saved_pos : 0;
}

uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length) {
    bool rings = rings_reach(kv, (uint32_t)gw_min(length, kv->pos));
    kv->pos = gw_kv_reach(kv, length);
    if (!rings) {
        kv->low = gw_kv_window_start(kv, kv->pos);
        copy_rings(kv, kv->pos, false);
    }
    if (kv->saved_pos > kv->pos) kv->saved_pos = 0; /* the saved ring rows include positions that rewinding discarded */
    return kv->pos;
}

uint32_t gw_kv_copy(gw_kv *to, const gw_kv *from, uint32_t length) {
    bool rings = rings_reach(from, (uint32_t)gw_min(length, from->pos));
    to->pos = gw_kv_reach(from, length);
    to->low = rings ? from->low : gw_kv_window_start(from, to->pos);
    to->saved_pos = 0;
    for (uint32_t l = 0; l < to->shape.n_layer; l++) {
        const gw_kv_layer *layer = &to->layers[l];
        const gw_kv_layer *source = layer->ring && !rings ? &from->saved[l] : &from->layers[l];
        if (layer->rows && source->rows) copy_rows(layer, source, layer->ring ? to->low : 0, to->pos);
    }
    return to->pos;
}

void gw_kv_reserve(gw_kv *kv, uint32_t n) {
    uint32_t end = kv->pos + n;
    for (uint32_t l = 0; l < kv->shape.n_layer; l++)
        if (kv->layers[l].ring && end > kv->layers[l].rows)
            kv->low = (uint32_t)gw_max(kv->low, end - kv->layers[l].rows);
}

/* Each store_… function converts the keys or values in[d] of one head to the format of a cache type. */

static void store_f32(uint8_t *out, const float *in, uint32_t d) { memcpy(out, in, d * sizeof *in); }

/* Returns x, limited to half of FLT_MAX in magnitude, or 0 for NaN: callers mark NaN in the scale of a row. */
static float finite(float x) {
    if (x != x) return 0;
    return x > FLT_MAX / 2 ? FLT_MAX / 2 : x < -FLT_MAX / 2 ? -FLT_MAX / 2 : x;
}

static float largest_of(const float *in, uint32_t d) {
    float largest = 0;
    for (uint32_t i = 0; i < d; i++) largest = fabsf(finite(in[i])) > largest ? fabsf(finite(in[i])) : largest;
    return largest;
}

/* Returns the largest of the norms of the four SIMD lanes (kernels.h) of in[d] / unit. */
static float lane_norm(const float *in, uint32_t d, float unit) {
    float sum[GW_I16_LANES] = { 0 }, largest = 0, inverse = 1.0f / unit;
    for (uint32_t i = 0; i < d; i++) {
        float x = finite(in[i]) * inverse;
        sum[i / 2 % GW_I16_LANES] += x * x;
    }
    for (int l = 0; l < GW_I16_LANES; l++) largest = sum[l] > largest ? sum[l] : largest;
    return sqrtf(largest);
}

/* The 8 that round_i16() subtracts leaves room for rounding, which adds at most 1/2 to each of a lane's 128 items, so
 * at most 6 to the lane's norm. */
_Static_assert(GW_MAX_HEAD_DIM / GW_I16_LANES <= 128,
               "a lane must have at most 128 items: the norm leaves room for their rounding");
static void round_i16(uint8_t *out, const float *in, uint32_t d, bool norm) {
    float largest = largest_of(in, d), scale = 0;
    if (largest > GW_TINY) {
        float by_norm = norm ? lane_norm(in, d, largest) / (GW_I16_NORM - 8) : 0;
        scale = largest * (by_norm > 1.0f / GW_I16_TOP ? by_norm : 1.0f / GW_I16_TOP);
    }
    float inverse = scale > 0 ? 1.0f / scale : 0;
    for (uint32_t i = 0; i < d; i++) {
        int16_t v = (int16_t)rintf(finite(in[i]) * inverse);
        memcpy(out + i * sizeof v, &v, sizeof v);
    }
    for (uint32_t i = 0; i < d; i++)
        if (in[i] != in[i]) scale = in[i];
    memcpy(out + d * sizeof(int16_t), &scale, sizeof scale);
}

static void store_i16(uint8_t *out, const float *in, uint32_t d) { round_i16(out, in, d, false); }

void gw_kv_query(uint8_t *row, const float *q, uint32_t d) { round_i16(row, q, d, true); }

/* Returns the scale of a block of int8, as a bfloat16, rounded up so that no item exceeds 127. */
static uint16_t scale_for(float largest) {
    float scale = largest / 127.0f;
    uint32_t u;
    memcpy(&u, &scale, sizeof u);
    return (uint16_t)((u + 0xffff) >> 16);
}

enum { NOT_A_NUMBER = 0x7fc0 }; /* a bfloat16 NaN */

static void store_q8(uint8_t *out, const float *in, uint32_t d) {
    for (uint32_t b = 0; b < d; b += GW_BLOCK) {
        uint32_t end = (uint32_t)gw_min(d, b + GW_BLOCK);
        float largest = 0;
        for (uint32_t i = b; i < end; i++) largest = fmaxf(largest, fabsf(in[i]));
        uint16_t scale = scale_for(largest > GW_TINY ? fminf(largest, FLT_MAX / 2) : 0);
        float inverse = scale ? 1.0f / gw_bf16_to_f32(scale) : 0;
        for (uint32_t i = b; i < end; i++) {
            out[i] = (uint8_t)(int8_t)rintf(fmaxf(-127.0f, fminf(127.0f, finite(in[i]) * inverse)));
            if (in[i] != in[i]) scale = NOT_A_NUMBER, out[i] = 1;
        }
        memcpy(out + d + b / GW_BLOCK * sizeof scale, &scale, sizeof scale);
    }
}

void gw_kv_store(const gw_kv_layer *l, uint32_t pos, const float *k, const float *v) {
    static void (*const store[GW_KV_TYPES][2])(uint8_t *, const float *, uint32_t) = {
        [GW_KV_F32] = { store_f32, store_f32 },
        [GW_KV_I16] = { gw_kv_query, store_i16 },
        [GW_KV_Q8] = { store_q8, store_q8 },
    };
    uint32_t d = l->head_dim;
    size_t at = offset_of(l, pos);
    for (uint32_t h = 0; h < l->n_head; h++, at += l->head) {
        store[l->type][0](l->k + at, k + (size_t)h * d, d);
        store[l->type][1](l->v + at, v + (size_t)h * d, d);
    }
}

gw_kv_layer gw_kv_from(const gw_kv_layer *l, uint32_t row) {
    gw_kv_layer from = *l;
    size_t at = (size_t)row * l->n_head * l->head;
    from.k += at;
    from.v += at;
    from.rows -= row;
    return from;
}

void gw_kv_advance(gw_kv *kv, uint32_t n) { kv->pos += n; }

void gw_kv_save(gw_kv *kv, uint32_t length) {
    if (gw_kv_window_start(kv, length) < kv->low) return;
    copy_rings(kv, length, true);
    kv->saved_pos = length;
}

static size_t used_bytes(int type, uint32_t d) {
    return type == GW_KV_I16 ? d * sizeof(int16_t) + sizeof(float) : (size_t)head_bytes(type, d);
}

/* Each sound_… function returns whether a store_… function could have written the bytes. Stored scales have a bound,
 * because store_… functions limit numbers to FLT_MAX / 2. */
static bool sound_scale(float x, float parts) { return x >= 0 && x <= FLT_MAX / parts; }

static bool sound_f32(const uint8_t *in, uint32_t d) {
    const uint32_t infinity = 0x7f800000;
    uint32_t bits, wild = 0;
    for (uint32_t i = 0; i < d; i++) {
        memcpy(&bits, in + i * sizeof bits, sizeof bits);
        wild |= (bits & infinity) == infinity;
    }
    return !wild;
}

/* Checks the bounds that keep 32-bit sums of products from overflowing: the magnitude of each integer, and for keys the
 * norm of the integers whose products are added in the same SIMD lane (kernels.h). */
static bool sound_i16(const uint8_t *in, uint32_t d, bool values) {
    int64_t sum[GW_I16_LANES] = { 0 };
    float scale;
    for (uint32_t i = 0; i < d; i++) {
        int16_t x;
        memcpy(&x, in + i * sizeof x, sizeof x);
        if (x < -GW_I16_TOP) return false;
        sum[i / 2 % GW_I16_LANES] += (int32_t)x * x;
    }
    for (int l = 0; l < GW_I16_LANES && !values; l++)
        if (sum[l] > (int64_t)GW_I16_NORM * GW_I16_NORM) return false;
    memcpy(&scale, in + d * sizeof(int16_t), sizeof scale);
    return sound_scale(scale, 4096);
}

static bool sound_q8(const uint8_t *in, uint32_t d) {
    for (uint32_t i = 0; i < d; i++)
        if (in[i] == 0x80) return false; /* -128 */
    for (uint32_t b = 0; b < (d + GW_BLOCK - 1) / GW_BLOCK; b++) {
        uint16_t scale;
        memcpy(&scale, in + d + b * sizeof scale, sizeof scale);
        if (!sound_scale(gw_bf16_to_f32(scale), 128)) return false;
    }
    return true;
}

uint32_t gw_kv_row_bytes(const gw_kv_layer *l) { return (uint32_t)(l->n_head * used_bytes(l->type, l->head_dim)); }

void gw_kv_row_out(const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out) {
    size_t used = used_bytes(l->type, l->head_dim);
    const uint8_t *row = (values ? l->v : l->k) + offset_of(l, pos);
    for (uint32_t h = 0; h < l->n_head; h++) memcpy(out + h * used, row + (size_t)h * l->head, used);
}

bool gw_kv_row_in(const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in) {
    uint32_t d = l->head_dim;
    size_t used = used_bytes(l->type, d);
    uint8_t *row = (values ? l->v : l->k) + offset_of(l, pos);
    for (uint32_t h = 0; h < l->n_head; h++, in += used) {
        bool sound = l->type == GW_KV_F32  ? sound_f32(in, d)
                     : l->type == GW_KV_Q8 ? sound_q8(in, d)
                                           : sound_i16(in, d, values);
        if (!sound) return false;
        memcpy(row + (size_t)h * l->head, in, used);
    }
    return true;
}
