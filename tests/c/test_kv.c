/* Compares the key/value cache with a naive model: a list of what was last stored at each position. Every item of a row
 * holds the number of the write that stored it, which reveals lost and misplaced rows. */
#include "kernels/kernels.h"
#include "model/kv.h"
#include "file/types.h"
#include "scoped.h"
#include "test.h"

/* RING: rows for WINDOW + BATCH positions in pages of 32, and one more page; SAVED: the same for WINDOW positions. */
enum { WINDOW = 10, BATCH = 16, CONTEXT = 300, ROW = 16, LAYERS = 4, RING = 64, SAVED = 64 };
/* Layers with different heads: one local, one global, one with a shorter window, and one that shares the rows of layer
 * 1. */
static const gw_layer_shape shapes[LAYERS] = {
    { .n_head_kv = 2, .head_dim = 8, .window = WINDOW, .kv_owner = 0 },
    { .n_head_kv = 1, .head_dim = 16, .kv_owner = 1 },
    { .n_head_kv = 4, .head_dim = 4, .window = WINDOW / 2, .kv_owner = 2 },
    { .n_head_kv = 1, .head_dim = 16, .kv_owner = 1 },
};

typedef struct {
    gw_kv kv;
    gw_kv_memory memory;
    void *block;
    float stored[CONTEXT]; /* for each position, the number of the write that its row must contain */
    float count;
} rig;

/* Makes n caches in the memory of the first one. */
static void rigs_of(rig *r, uint32_t n, uint32_t n_ctx, int type, uint64_t tokens) {
    gw_kv_shape shape = { LAYERS, n_ctx, WINDOW, BATCH, shapes, type };
    gw_arena a = { 0 };
    for (int pass = 0; pass < 2; pass++) {
        gw_kv_memory_init(&r->memory, shape, n, tokens, &a);
        for (uint32_t i = 0; i < n; i++) gw_kv_init(&r[i].kv, &r->memory, &a), r[i].count = 0;
        if (pass) break;
        a = (gw_arena){ .base = gw_alloc(a.used), .size = a.used };
        r->block = a.base;
        CHECK(r->block);
        memset(r->block, 0xff, a.size); /* NaN shows reads of rows that were never written */
    }
    CHECK_INT(a.used, a.size);
}

static void rig_of(rig *r, uint32_t n_ctx, int type) { rigs_of(r, 1, n_ctx, type, UINT64_MAX); }

static void rig_free(rig *r) { gw_free(r->block); }
#define scoped_rig SCOPED(rig_free) rig

static void rig_init(rig *r, uint32_t n_ctx) { rig_of(r, n_ctx, GW_KV_AUTO); }

static void store(rig *r, uint32_t layer, uint32_t pos, float mark) {
    float k[ROW], v[ROW];
    for (int i = 0; i < ROW; i++) k[i] = mark + (float)layer, v[i] = -(mark + (float)layer);
    if (r->kv.layers[layer].rows) gw_kv_store(&r->kv.layers[layer], pos, k, v);
}

/* Writes n rows in the first `layers` layers. Rows that are not in all layers do not count as stored, as in an aborted
 * batch. */
static void write(rig *r, uint32_t n, uint32_t layers) {
    while (n > 0) {
        uint32_t rows = (uint32_t)gw_min(n, BATCH), pos = r->kv.pos;
        CHECK(gw_kv_reserve(&r->kv, rows));
        float marks[BATCH];
        for (uint32_t i = 0; i < rows; i++) marks[i] = r->count = fmodf(r->count + 4.0f, 2000.0f);
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t i = 0; i < rows; i++) store(r, l, pos + i, marks[i]);
        if (layers < LAYERS) return;
        memcpy(r->stored + pos, marks, rows * sizeof *marks);
        gw_kv_advance(&r->kv, rows);
        n -= rows;
    }
}

static float item(const gw_kv_layer *l, const void *plane, uint32_t pos, uint32_t i) {
    const uint8_t *head = (const uint8_t *)plane + (gw_kv_row(l, pos) * l->n_head + i / l->head_dim) * l->head;
    float f;
    int16_t whole;
    uint16_t scale;
    i %= l->head_dim;
    memcpy(&f, head + (l->type == GW_KV_F32 ? 4 * i : 2 * l->head_dim), sizeof f);
    if (l->type == GW_KV_F32) return f;
    memcpy(&whole, head + 2 * i, sizeof whole);
    if (l->type == GW_KV_I16) return f * (float)whole;
    memcpy(&scale, head + l->head_dim, sizeof scale);
    return gw_bf16_to_f32(scale) * (float)(int8_t)head[i];
}

/* Checks that every row visible to a query at position kv.pos is the one that was stored last. */
static void check_visible(const rig *r) {
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint32_t window = shapes[l].window, first = !window || r->kv.pos < window ? 0 : r->kv.pos - window + 1;
        for (uint32_t p = first; r->kv.layers[l].rows && p < r->kv.pos; p++)
            for (uint32_t i = 0; i < ROW; i++) {
                float expected = r->stored[p] + (float)l, k = item(&r->kv.layers[l], r->kv.layers[l].k, p, i);
                float v = item(&r->kv.layers[l], r->kv.layers[l].v, p, i);
                /* Tolerance: half a quantisation step, and the rounding of a scale. */
                float off = r->kv.layers[l].type == GW_KV_Q8    ? expected / 250
                            : r->kv.layers[l].type == GW_KV_I16 ? expected / 60000
                                                                : 0;
                if (!(fabsf(k - expected) <= off && fabsf(v + expected) <= off))
                    gw_test_fail(__FILE__, __LINE__, "layer %u, position %u of %u: expected %g, got %g and %g", l, p,
                                 r->kv.pos, expected, k, v);
            }
    }
}

TEST(kv_rings_are_short_and_global_layers_whole) {
    scoped_rig r;
    rig_init(&r, CONTEXT);
    CHECK_INT(r.kv.layers[0].rows, RING);
    CHECK_INT(r.kv.layers[1].rows, 320); /* cache rows come in whole blocks of 32 */
    CHECK(r.kv.layers[0].type == GW_KV_F32 && r.kv.layers[1].type == GW_KV_I16 && r.kv.layers[2].type == GW_KV_F32);
    CHECK_INT(r.kv.saved[0].rows, SAVED);
    CHECK_INT(r.kv.saved[1].rows, 0);
    CHECK_INT(r.kv.saved[2].rows, SAVED);
    CHECK_INT(r.kv.layers[3].rows, 0);
    CHECK_INT(gw_kv_row_bytes(&r.kv.layers[2]), ROW * sizeof(float));
    scoped_rig few;
    rig_init(&few, 20);
    CHECK_INT(few.kv.layers[0].rows, 32);
    CHECK_INT(few.kv.saved[0].rows, 0); /* a ring that never wraps needs no saved rows */
}

TEST(kv_rewinds_as_far_as_the_rings_reach) {
    scoped_rig r;
    rig_init(&r, CONTEXT);
    write(&r, 100, LAYERS);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 500), 100); /* a rewind beyond the last stored position stays at that position */
    /* The last batch ended at position 100, so the KV rings hold positions 64 to 99: a query at 73 sees 64 and later
     * ones. */
    CHECK_INT(gw_kv_rewind(&r.kv, 73), 73);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 72), 0);
    write(&r, 100, LAYERS);
    gw_kv_rewind(&r.kv, 90);
    write(&r, 4, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 73), 73);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 0), 0);
    write(&r, 5, LAYERS);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 1), 1);
    check_visible(&r);
}

TEST(kv_goes_back_to_what_was_saved) {
    scoped_rig r;
    rig_init(&r, CONTEXT);
    write(&r, 100, LAYERS);
    gw_kv_save(&r.kv, 99);
    CHECK_INT(r.kv.saved_pos, 99);
    for (int i = 0; i < 3; i++) {
        write(&r, 150, LAYERS);
        CHECK_INT(gw_kv_rewind(&r.kv, 120), 99); /* the KV rings have lost rows before 120: only saved rows come back */
        check_visible(&r);
    }
    write(&r, 10, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 105), 105);
    check_visible(&r);
    write(&r, 150, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 98), 0); /* 98 is before the saved rows: all rows are dropped, the saved ones too */
    CHECK_INT(r.kv.saved_pos, 0);
    write(&r, 250, LAYERS);
    gw_kv_save(&r.kv, 200); /* the KV rings have lost rows before 200, so nothing is saved */
    CHECK_INT(r.kv.saved_pos, 0);
    gw_kv_save(&r.kv, 249);
    gw_kv_rewind(&r.kv, 248); /* overwritten rows cannot be restored */
    write(&r, 52, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 249), 0);
}

TEST(kv_lengths_that_fit_the_ring_never_lose_anything) {
    scoped_rig r;
    rig_init(&r, RING);
    write(&r, RING, LAYERS);
    for (uint32_t length = RING; length-- > 0;) {
        CHECK_INT(gw_kv_rewind(&r.kv, length), length);
        check_visible(&r);
    }
}

static uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

static void random_walk(int type) {
    scoped_rig r;
    rig_of(&r, CONTEXT, type);
    uint64_t state = 1;
    uint32_t restored = 0, emptied = 0;
    for (int i = 0; i < 5000; i++) {
        uint32_t room = CONTEXT - r.kv.pos, kind = draw(&state, 5), pos = r.kv.pos;
        if (kind == 0 && room) write(&r, (uint32_t)gw_min(room, 1 + draw(&state, 60)), LAYERS);
        if (kind == 1 && room) write(&r, (uint32_t)gw_min(room, 1 + draw(&state, 3)), LAYERS);
        if (kind == 2 && room) write(&r, (uint32_t)gw_min(room, 1 + draw(&state, BATCH)), draw(&state, LAYERS));
        if (kind == 3 && pos) gw_kv_save(&r.kv, pos - (uint32_t)gw_min(pos, draw(&state, 3)));
        if (kind == 4) {
            uint32_t back = draw(&state, draw(&state, 3) ? 40 : 200), saved = r.kv.saved_pos;
            uint32_t length = pos - (uint32_t)gw_min(pos, back);
            uint32_t kept = gw_kv_rewind(&r.kv, length);
            CHECK(kept <= length && (kept == length || kept == saved || kept == 0));
            CHECK(r.kv.saved_pos <= kept);
            restored += kept && kept < length;
            emptied += length && !kept;
        }
        check_visible(&r);
    }
    CHECK(restored > 10 && emptied > 10);
}

TEST(kv_random_walk) {
    for (int type = GW_KV_AUTO; type < GW_KV_TYPES; type++) random_walk(type);
}

/* Caches share their first positions. Each keeps its rows whatever the others write, and a shared page is allocated
 * once. The memory has room for fewer positions than the caches need. */
static void shared_walk(int type) {
    enum { CACHES = 3, TOKENS = 400 };
    rig r[CACHES];
    rigs_of(r, CACHES, CONTEXT, type, TOKENS);
    uint64_t state = 2, most = gw_kv_free(&r->memory);
    uint32_t shared = 0, full = 0;
    CHECK_INT(most, TOKENS / GW_KEYS * GW_KEYS);
    for (int i = 0; i < 6000; i++) {
        rig *one = &r[draw(&state, CACHES)];
        const rig *other = &r[draw(&state, CACHES)];
        uint32_t room = CONTEXT - one->kv.pos, kind = draw(&state, 6), n = (uint32_t)gw_min(room, 1 + draw(&state, 60));
        bool fits = gw_kv_free(&r->memory) >= n + 2 * GW_KEYS;
        full += !fits;
        if (kind == 0 && fits) write(one, n, LAYERS);
        if (kind == 1 && room && fits) write(one, 1, LAYERS);
        if (kind == 2 && one->kv.pos) gw_kv_save(&one->kv, one->kv.pos - draw(&state, 2));
        if (kind == 3) gw_kv_rewind(&one->kv, one->kv.pos - (uint32_t)gw_min(one->kv.pos, draw(&state, 90)));
        if (kind == 4 && one != other && draw(&state, 3) == 0) {
            uint64_t own = one->kv.pos, before = gw_kv_free(&r->memory);
            shared += gw_kv_share(&one->kv, &other->kv,
                                  other->kv.pos - (uint32_t)gw_min(other->kv.pos, draw(&state, 9)));
            CHECK(gw_kv_free(&r->memory) >= before && gw_kv_free(&r->memory) <= before + own + GW_KEYS);
            memcpy(one->stored, other->stored, sizeof one->stored);
        }
        if (kind == 5 && draw(&state, 20) == 0) gw_kv_rewind(&one->kv, 0);
        for (int c = 0; c < CACHES; c++) check_visible(&r[c]);
    }
    CHECK(shared > 1000 && full > 100);
    for (int c = 0; c < CACHES; c++) gw_kv_rewind(&r[c].kv, 0);
    CHECK_INT(gw_kv_free(&r->memory), most);
    for (uint32_t p = 0; p < r->memory.pools[1].n; p++) CHECK_INT(r->memory.pools[1].users[p], 0);
    rig_free(r);
}

TEST(kv_shared_walk) {
    for (int type = GW_KV_AUTO; type < GW_KV_TYPES; type++) shared_walk(type);
}

TEST(kv_without_room_says_so_and_keeps_its_rows) {
    rig r[2];
    rigs_of(r, 2, CONTEXT, GW_KV_AUTO, CONTEXT);
    write(&r[0], 200, LAYERS);
    write(&r[1], 90, LAYERS);
    CHECK(!gw_kv_reserve(&r[1].kv, BATCH));
    check_visible(&r[1]);
    CHECK_INT(gw_kv_rewind(&r[0].kv, 0), 0);
    write(&r[1], 200, LAYERS);
    check_visible(&r[1]);
    rig_free(r);
}

TEST(kv_without_rings_rewinds_to_any_length) {
    static const gw_layer_shape global = { .n_head_kv = 1, .head_dim = ROW };
    gw_kv_shape shape = { 1, CONTEXT, CONTEXT, BATCH, &global, GW_KV_F32 };
    gw_kv_memory memory;
    gw_kv kv;
    gw_arena a = { 0 };
    gw_kv_memory_init(&memory, shape, 1, UINT64_MAX, &a);
    gw_kv_init(&kv, &memory, &a);
    a = (gw_arena){ .base = gw_alloc(a.used), .size = a.used };
    gw_kv_memory_init(&memory, shape, 1, UINT64_MAX, &a);
    gw_kv_init(&kv, &memory, &a);
    for (uint32_t length = CONTEXT - 1; length > 0; length -= 23) {
        while (kv.pos < CONTEXT) {
            uint32_t n = (uint32_t)gw_min(BATCH, CONTEXT - kv.pos);
            CHECK(gw_kv_reserve(&kv, n));
            gw_kv_advance(&kv, n);
        }
        gw_kv_save(&kv, CONTEXT - 1);
        CHECK_INT(gw_kv_rewind(&kv, length), length);
    }
    gw_free(a.base);
}

static uint64_t bytes_of(gw_kv_shape shape) {
    gw_arena a = { 0 };
    gw_kv_memory memory;
    gw_kv kv;
    gw_kv_memory_init(&memory, shape, 1, UINT64_MAX, &a);
    gw_kv_init(&kv, &memory, &a);
    return a.used;
}

TEST(kv_sizes_of_one_b) {
    gw_layer_shape layers[26];
    for (uint32_t l = 0; l < 26; l++)
        layers[l] = (gw_layer_shape){ .n_head_kv = 1, .head_dim = 256, .window = l % 6 == 5 ? 0 : 512, .kv_owner = l };
    gw_kv_shape shape = { 26, 32768, 512, 64, layers, GW_KV_AUTO };
    CHECK(bytes_of(shape) < 200000000);
    uint64_t used[GW_KV_TYPES];
    for (shape.type = 0; shape.type < GW_KV_TYPES; shape.type++) used[shape.type] = bytes_of(shape);
    CHECK_NEAR((double)used[GW_KV_I16] / (double)used[GW_KV_F32], 528.0 / 1024, 1e-4);
    CHECK_NEAR((double)used[GW_KV_Q8] / (double)used[GW_KV_F32], 34.0 / 128, 1e-4);
    CHECK(used[GW_KV_I16] < used[GW_KV_AUTO] && used[GW_KV_AUTO] < used[GW_KV_F32]);
    shape.type = GW_KV_AUTO;
    shape.n_ctx = 1;
    CHECK(bytes_of(shape) < 26u * GW_KEYS * 256 * 4 * 2 + 10000);
}

TEST(kv_sizes_beyond_the_address_space_are_exact_and_refused) {
    gw_layer_shape large = { .n_head_kv = 1u << 20, .head_dim = 1u << 11 };
    gw_kv_shape shape = { 1, 1 << 20, 512, 64, &large, GW_KV_AUTO };
    uint64_t used = bytes_of(shape);
    CHECK((double)used >= 2.0 * 2 * (1 << 20) * 2147483648.0 && used < UINT64_MAX / 2);
    CHECK(sizeof(size_t) > 4 || gw_size(used) == SIZE_MAX);
    for (size_t less = 0; less < 65536; less += 13) CHECK(!gw_alloc(SIZE_MAX - less));
}

enum { D_I16 = 72 };
static void floats_of(const uint8_t *row, float *out) {
    float scale;
    memcpy(&scale, row + 2 * D_I16, sizeof scale);
    for (int i = 0; i < D_I16; i++) {
        int16_t v;
        memcpy(&v, row + 2 * i, sizeof v);
        out[i] = scale * (float)v;
    }
}

static void store_i16(const float *in, uint8_t plane[2][2 * D_I16 + 16], float out[2][D_I16]) {
    gw_kv_layer layer = { .k = plane[0],
                          .v = plane[1],
                          .rows = 1,
                          .n_head = 1,
                          .head_dim = D_I16,
                          .head = 2 * D_I16 + 16,
                          .type = GW_KV_I16 };
    gw_kv_store(&layer, 0, in, in);
    for (int i = 0; i < 2; i++) floats_of(plane[i], out[i]);
}

static double norm_of_lane(const float *x, int lane) {
    double sum = 0;
    for (int i = 0; i < D_I16; i++)
        if (i / 2 % GW_I16_LANES == lane) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* Checks i16 rows of all magnitudes: errors are at most half a step. A step is the largest item / 32767; for keys, it
 * is at least the largest norm of a lane / GW_I16_NORM, so that integer sums fit their lanes. */
TEST(kv_i16_rows_keep_half_a_step) {
    uint8_t plane[2][2 * D_I16 + 16];
    float in[D_I16], out[2][D_I16];
    for (int power = -40; power <= 38; power += 2)
        for (int shape = 0; shape < 4; shape++) {
            double largest = 0, norm = 0, ints = 0;
            for (int i = 0; i < D_I16; i++) {
                float x = shape == 0   ? sinf((float)i)
                          : shape == 1 ? (float)(i % 3 - 1)
                          : shape == 2 ? (float)(i == 5)
                                       : 1;
                in[i] = x * powf(10, (float)power);
                largest = fmax(largest, fabs(in[i]));
            }
            store_i16(in, plane, out);
            float scale, whole[D_I16];
            memcpy(&scale, plane[0] + 2 * D_I16, sizeof scale);
            for (int i = 0; i < D_I16; i++) whole[i] = scale > 0 ? out[0][i] / scale : 0;
            for (int l = 0; l < GW_I16_LANES; l++) {
                norm = fmax(norm, norm_of_lane(in, l));
                ints = fmax(ints, norm_of_lane(whole, l));
            }
            CHECK(ints <= GW_I16_NORM);
            double step[2] = { fmax(largest / 32767, norm / (GW_I16_NORM - 9)), largest / 32767 };
            for (int side = 0; side < 2; side++)
                for (int i = 0; i < D_I16; i++)
                    CHECK_NEAR(out[side][i], in[i], largest > GW_TINY ? step[side] * 0.501 : largest);
        }
}

TEST(kv_i16_rows_saturate_and_keep_nan) {
    uint8_t plane[2][2 * D_I16 + 16];
    float in[D_I16], out[2][D_I16];
    for (int i = 0; i < D_I16; i++) in[i] = i % 3 ? INFINITY : -INFINITY;
    store_i16(in, plane, out);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < D_I16; i++)
            CHECK(isfinite(out[side][i]) && out[side][i] * in[i] > 0 && fabsf(out[side][i]) > 1e38f);
    in[7] = NAN;
    store_i16(in, plane, out);
    CHECK(isnan(out[0][7]) && isnan(out[1][7]));
    memset(in, 0, sizeof in);
    store_i16(in, plane, out);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < D_I16; i++) CHECK(out[side][i] == 0);
}

/* q8 rows have blocks of 32 items and a shorter last one, each with a scale. Items change by at most half a step. */
TEST(kv_q8_rows_keep_half_a_step) {
    enum { D = 72 };
    uint8_t plane[2][GW_KEYS * (D + 6)];
    gw_kv_layer layer = {
        .k = plane[0], .v = plane[1], .rows = GW_KEYS, .n_head = 1, .head_dim = D, .head = D + 6, .type = GW_KV_Q8
    };
    float in[D], out[D];
    for (int power = -40; power <= 38; power += 2) {
        for (int i = 0; i < D; i++) in[i] = sinf((float)i) * powf(10, (float)(i < GW_BLOCK ? power : -3));
        gw_kv_store(&layer, 5, in, in);
        gw_ref_widen_q8(plane[1] + 5 * layer.head, layer.head, 1, D, out);
        for (int b = 0; b < D; b += GW_BLOCK) {
            float largest = 0;
            for (int i = b; i < D && i < b + GW_BLOCK; i++) largest = fmaxf(largest, fabsf(in[i]));
            for (int i = b; i < D && i < b + GW_BLOCK; i++)
                CHECK_NEAR(out[i], in[i], largest > GW_TINY ? largest / 252 : largest);
        }
    }
    for (int i = 0; i < D; i++) in[i] = i == 40 ? INFINITY : 1;
    gw_kv_store(&layer, 0, in, in);
    gw_ref_widen_q8(plane[0], layer.head, 1, D, out);
    CHECK(isfinite(out[40]) && out[40] > 1e38f);
    CHECK_NEAR(out[0], 1, 1.0 / 252);
    in[40] = NAN; /* a NaN stays NaN, and affects no other block */
    gw_kv_store(&layer, 0, in, in);
    gw_ref_widen_q8(plane[0], layer.head, 1, D, out);
    CHECK(isnan(out[40]) && isnan(out[32]));
    CHECK_NEAR(out[0], 1, 1.0 / 252);
}
