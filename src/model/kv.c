/* kv: see kv.h. Rounds rows to the type of the cache: i16 has a scale for each head, q8 a bfloat16 scale for each 32
 * columns of a head. The integers are small enough for the 32-bit sums of the attention kernels; for i16 keys, their
 * norm is limited, too. Rows of saved states are untrusted, so they are checked against the same bounds. */
#include "model/kv.h"
#include "file/types.h"

#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t head_bytes(int type, uint32_t d) {
    if (type == GW_KV_Q8) return (uint64_t)d + ((uint64_t)d + GW_BLOCK - 1) / GW_BLOCK * sizeof(uint16_t);
    return type == GW_KV_I16 ? GW_I16_BYTES(d) : (uint64_t)d * sizeof(float);
}

/* --- pages --- */

#define NO_PAGE UINT32_MAX

static gw_kv_pool *pool_of(const gw_kv *kv, int table) { return &kv->memory->pools[table != GW_KV_GLOBAL]; }

/* Returns the entry of page `number` in a table: of positions number * GW_KEYS to number * GW_KEYS + GW_KEYS - 1. */
static uint32_t *page_at(const gw_kv *kv, int table, uint32_t number) {
    return &kv->tables[table].pages[number % kv->tables[table].n];
}

static bool take_page(gw_kv_pool *p, uint32_t *page) {
    while (p->first < p->n && p->users[p->first]) p->first++;
    if (p->first == p->n) return false;
    *page = p->first;
    p->users[*page] = 1;
    return true;
}

static void drop_page(gw_kv_pool *p, uint32_t *page) {
    if (*page != NO_PAGE && --p->users[*page] == 0) p->first = (uint32_t)gw_min(p->first, *page);
    *page = NO_PAGE;
}

static void drop_pages(gw_kv *kv, int table, uint32_t first) {
    for (uint32_t i = first; i < kv->tables[table].n; i++) drop_page(pool_of(kv, table), &kv->tables[table].pages[i]);
}

/* Makes a table hold the pages of positions begin .. end - 1 of another cache's table, or of another table. */
static void share_pages(gw_kv *to, int table, const gw_kv *from, int from_table, uint32_t begin, uint32_t end) {
    drop_pages(to, table, 0);
    if (begin >= end || !to->tables[table].n) return;
    for (uint32_t i = begin / GW_KEYS; i * GW_KEYS < end; i++) {
        uint32_t page = *page_at(from, from_table, i);
        *page_at(to, table, i) = page;
        pool_of(to, table)->users[page]++;
    }
}

static void copy_page(const gw_kv *kv, bool ring, uint32_t from, uint32_t to) {
    for (uint32_t l = 0; l < kv->memory->shape.n_layer; l++) {
        const gw_kv_layer *layer = &kv->layers[l];
        size_t bytes = (size_t)GW_KEYS * layer->n_head * layer->head;
        if (!layer->rows || layer->ring != ring) continue;
        memcpy(layer->k + to * bytes, layer->k + from * bytes, bytes);
        memcpy(layer->v + to * bytes, layer->v + from * bytes, bytes);
    }
}

/* Gives a table unshared pages for the positions begin .. end - 1. Rows before `begin` keep their contents. */
static bool own_pages(gw_kv *kv, int table, uint32_t begin, uint32_t end) {
    gw_kv_pool *pool = pool_of(kv, table);
    if (!kv->tables[table].n) return true;
    for (uint32_t i = begin / GW_KEYS; i * GW_KEYS < end; i++) {
        uint32_t *page = page_at(kv, table, i), own;
        if (*page != NO_PAGE && pool->users[*page] == 1) continue;
        if (!take_page(pool, &own)) return false;
        if (*page != NO_PAGE && i * GW_KEYS < begin) copy_page(kv, table != GW_KV_GLOBAL, *page, own);
        drop_page(pool, page);
        *page = own;
    }
    return true;
}

uint64_t gw_kv_free(const gw_kv_memory *m) {
    uint64_t free = 0;
    for (uint32_t i = 0; i < m->pools->n; i++) free += !m->pools->users[i];
    return free * GW_KEYS;
}

/* --- memory --- */

/* The pages of a cache's tables. A ring holds the window of the first row of a batch and the whole batch. */
typedef struct {
    uint32_t n[GW_KV_TABLES];
} page_counts;

static page_counts counts_of(const gw_kv_shape *s) {
    uint32_t all = (uint32_t)gw_round_up(s->n_ctx, GW_KEYS) / GW_KEYS;
    uint32_t window = (uint32_t)gw_round_up(s->window, GW_KEYS) / GW_KEYS + 1;
    uint32_t ring = (uint32_t)gw_round_up((size_t)s->window + s->batch, GW_KEYS) / GW_KEYS + 1;
    page_counts c = { { all, (uint32_t)gw_min(ring, all), ring < all ? window : 0 } };
    bool rings = false;
    for (uint32_t l = 0; l < s->n_layer; l++) rings |= s->layer[l].kv_owner == l && s->layer[l].window != 0;
    if (!rings) c.n[GW_KV_RING] = c.n[GW_KV_SAVED] = 0;
    return c;
}

static gw_kv_layer take_layer(const gw_layer_shape *s, int type, const gw_kv_pool *pools, gw_arena *arena) {
    bool ring = s->window != 0;
    if (type == GW_KV_AUTO) type = ring ? GW_KV_F32 : GW_KV_I16;
    uint64_t head = head_bytes(type, s->head_dim), rows = (uint64_t)pools[ring].n * GW_KEYS;
    uint64_t bytes = gw_times(gw_times(rows, s->n_head_kv), head);
    uint8_t *k = gw_arena_take(arena, bytes), *v = gw_arena_take(arena, bytes);
    return (gw_kv_layer){ .k = k,
                          .v = v,
                          .n_head = s->n_head_kv,
                          .head_dim = s->head_dim,
                          .head = (uint32_t)head,
                          .type = type,
                          .ring = ring };
}

void gw_kv_memory_init(gw_kv_memory *m, gw_kv_shape shape, uint32_t caches, uint64_t tokens, gw_arena *arena) {
    page_counts c = counts_of(&shape);
    uint64_t global = gw_min(gw_max(tokens / GW_KEYS, c.n[GW_KV_GLOBAL]), (uint64_t)caches * c.n[GW_KV_GLOBAL]);
    *m = (gw_kv_memory){ .shape = shape };
    m->pools[0].n = (uint32_t)global;
    m->pools[1].n = caches * (c.n[GW_KV_RING] + c.n[GW_KV_SAVED]);
    m->layers = gw_arena_take(arena, shape.n_layer * sizeof *m->layers);
    for (int i = 0; i < 2; i++) {
        m->pools[i].users = gw_arena_take(arena, m->pools[i].n);
        if (m->pools[i].users) memset(m->pools[i].users, 0, m->pools[i].n);
    }
    for (uint32_t l = 0; l < shape.n_layer; l++) {
        const gw_layer_shape *s = &shape.layer[l];
        gw_kv_layer layer = { 0 };
        if (s->kv_owner == l) layer = take_layer(s, shape.type, m->pools, arena);
        if (arena->base) m->layers[l] = layer;
    }
}

void gw_kv_init(gw_kv *kv, gw_kv_memory *memory, gw_arena *arena) {
    page_counts c = counts_of(&memory->shape);
    uint32_t layers = memory->shape.n_layer;
    *kv = (gw_kv){ .memory = memory, .window = memory->shape.window };
    kv->layers = gw_arena_take(arena, layers * sizeof *kv->layers);
    kv->saved = gw_arena_take(arena, layers * sizeof *kv->saved);
    for (int t = 0; t < GW_KV_TABLES; t++)
        kv->tables[t] = (gw_kv_table){ gw_arena_take(arena, c.n[t] * sizeof(uint32_t)), c.n[t] };
    if (!arena->base) return;
    for (int t = 0; t < GW_KV_TABLES; t++) memset(kv->tables[t].pages, 0xff, c.n[t] * sizeof(uint32_t)); /* NO_PAGE */
    for (uint32_t l = 0; l < layers; l++) {
        gw_kv_layer layer = memory->layers[l];
        const gw_kv_table *own = &kv->tables[layer.ring ? GW_KV_RING : GW_KV_GLOBAL], *saved = &kv->tables[GW_KV_SAVED];
        kv->layers[l] = kv->saved[l] = layer;
        if (layer.k) kv->layers[l].pages = own->pages, kv->layers[l].rows = own->n * GW_KEYS;
        if (layer.ring && saved->n) kv->saved[l].pages = saved->pages, kv->saved[l].rows = saved->n * GW_KEYS;
        else kv->saved[l] = (gw_kv_layer){ 0 };
    }
}

/* --- positions --- */

uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p) { return p >= kv->window ? p - kv->window + 1 : 0; }

static size_t offset_of(const gw_kv_layer *l, uint32_t pos) { return gw_kv_row(l, pos) * l->n_head * l->head; }

static bool rings_reach(const gw_kv *kv, uint32_t length) { return gw_kv_window_start(kv, length) >= kv->low; }

uint32_t gw_kv_reach(const gw_kv *kv, uint32_t length) {
    if (length > kv->pos) length = kv->pos;
    if (rings_reach(kv, length)) return length;
    return kv->saved_pos <= length ? kv->saved_pos : 0;
}

static void drop_saved(gw_kv *kv) {
    drop_pages(kv, GW_KV_SAVED, 0);
    kv->saved_pos = 0;
}

uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length) {
    bool rings = rings_reach(kv, (uint32_t)gw_min(length, kv->pos));
    kv->pos = gw_kv_reach(kv, length);
    if (!rings) kv->low = gw_kv_window_start(kv, kv->pos);
    if (!rings && kv->pos) share_pages(kv, GW_KV_RING, kv, GW_KV_SAVED, kv->low, kv->pos);
    if (!kv->pos) drop_pages(kv, GW_KV_RING, 0);
    drop_pages(kv, GW_KV_GLOBAL, (kv->pos + GW_KEYS - 1) / GW_KEYS);
    if (kv->saved_pos > kv->pos || !kv->pos) drop_saved(kv); /* saved rows include positions that are discarded */
    return kv->pos;
}

uint32_t gw_kv_share(gw_kv *to, const gw_kv *from, uint32_t length) {
    bool rings = rings_reach(from, (uint32_t)gw_min(length, from->pos));
    to->pos = gw_kv_reach(from, length);
    to->low = rings ? from->low : gw_kv_window_start(from, to->pos);
    drop_saved(to);
    share_pages(to, GW_KV_GLOBAL, from, GW_KV_GLOBAL, 0, to->pos);
    share_pages(to, GW_KV_RING, from, rings ? GW_KV_RING : GW_KV_SAVED, to->low, to->pos);
    return to->pos;
}

/* Raises `low` to the first position of the oldest page that rings hold when they have positions up to end - 1. */
static void raise_low(gw_kv *kv, uint32_t end) {
    uint32_t pages = (end + GW_KEYS - 1) / GW_KEYS, ring = kv->tables[GW_KV_RING].n;
    if (ring && pages > ring) kv->low = (uint32_t)gw_max(kv->low, (size_t)(pages - ring) * GW_KEYS);
}

bool gw_kv_reserve(gw_kv *kv, uint32_t n) {
    uint32_t end = kv->pos + n;
    if (!own_pages(kv, GW_KV_GLOBAL, kv->pos, end) || !own_pages(kv, GW_KV_RING, kv->pos, end)) return false;
    raise_low(kv, end);
    return true;
}

bool gw_kv_open(gw_kv *kv, uint32_t pos, uint32_t saved_pos) {
    return gw_kv_reserve(kv, pos) && own_pages(kv, GW_KV_SAVED, gw_kv_window_start(kv, saved_pos), saved_pos);
}

/* Returns whether a table has the pages of positions begin .. end - 1, or is empty because no layer needs it. */
static bool has_pages(const gw_kv *kv, int table, uint32_t begin, uint32_t end) {
    bool all = true;
    for (uint32_t i = begin / GW_KEYS; kv->tables[table].n && begin < end && i * GW_KEYS < end; i++)
        all = all && *page_at(kv, table, i) != NO_PAGE;
    return all;
}

bool gw_kv_opened(gw_kv *kv, uint32_t pos, uint32_t low, uint32_t saved_pos) {
    uint32_t before = kv->low;
    kv->low = low;
    raise_low(kv, pos);
    bool all = has_pages(kv, GW_KV_GLOBAL, 0, pos) && has_pages(kv, GW_KV_RING, kv->low, pos) &&
               has_pages(kv, GW_KV_SAVED, gw_kv_window_start(kv, saved_pos), saved_pos);
    if (all) kv->pos = pos, kv->saved_pos = kv->tables[GW_KV_SAVED].n ? saved_pos : 0;
    else kv->low = before;
    return all;
}

/* --- rows --- */

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
    if (!row) return from;
    from.pages = NULL;
    from.k += at;
    from.v += at;
    from.rows -= row;
    return from;
}

void gw_kv_advance(gw_kv *kv, uint32_t n) { kv->pos += n; }

void gw_kv_save(gw_kv *kv, uint32_t length) {
    uint32_t first = gw_kv_window_start(kv, length);
    if (first < kv->low) return;
    share_pages(kv, GW_KV_SAVED, kv, GW_KV_RING, first, length);
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

static bool has_row(const gw_kv_layer *l, uint32_t pos) { return l->pages[pos % l->rows / GW_KEYS] != NO_PAGE; }

void gw_kv_row_out(const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out) {
    size_t used = used_bytes(l->type, l->head_dim);
    if (!has_row(l, pos)) {
        memset(out, 0, l->n_head * used);
        return;
    }
    const uint8_t *row = (values ? l->v : l->k) + offset_of(l, pos);
    for (uint32_t h = 0; h < l->n_head; h++) memcpy(out + h * used, row + (size_t)h * l->head, used);
}

bool gw_kv_row_in(const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in) {
    uint32_t d = l->head_dim;
    size_t used = used_bytes(l->type, d);
    if (!has_row(l, pos)) return false;
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
