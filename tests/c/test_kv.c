/* The key/value cache against a naive model: a list of what was last stored at each position. Every
 * item of a row holds the number of its storing, so a row that was lost or mixed up shows. */
#include "kv.h"
#include "quant.h"
#include "test.h"

enum { WINDOW = 10, BATCH = 16, CONTEXT = 300, ROW = 8, LAYERS = 3, RING = 32 };   /* 10 + 16 -> whole blocks of 16 */
static const uint8_t is_global[LAYERS] = { 0, 1, 0 };

typedef struct {
    gw_kv kv;
    void *block;
    float stored[CONTEXT];    /* per position: number of the storing that ought to be there */
    float count;
} rig;

static void rig_init(rig *r, uint32_t n_ctx) {
    gw_kv_shape shape = { LAYERS, n_ctx, WINDOW, BATCH, ROW, is_global };
    gw_arena a = { 0 };
    gw_kv_init(&r->kv, shape, &a);
    a = (gw_arena){ .base = gw_alloc(a.used), .size = a.used };
    r->block = a.base;
    CHECK(r->block);
    memset(r->block, 0xff, a.size);   /* NaN: a row that nobody wrote shows too */
    gw_kv_init(&r->kv, shape, &a);
    CHECK_INT(a.used, a.size);
    r->count = 0;
}

static void store(rig *r, uint32_t layer, uint32_t pos, float mark) {
    float k[ROW], v[ROW];
    for (int i = 0; i < ROW; i++) k[i] = mark + (float)layer, v[i] = -(mark + (float)layer);
    gw_kv_store(&r->kv, layer, pos, k, v);
}

/* n rows through `layers` layers; through all of them they count. */
static void write(rig *r, uint32_t n, uint32_t layers) {
    while (n > 0) {
        uint32_t rows = (uint32_t)gw_min(n, BATCH), pos = r->kv.pos;
        gw_kv_reserve(&r->kv, rows);
        float marks[BATCH];
        for (uint32_t i = 0; i < rows; i++) marks[i] = r->count = fmodf(r->count + 4.0f, 2000.0f);   /* exact in f16 */
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t i = 0; i < rows; i++) store(r, l, pos + i, marks[i]);
        if (layers < LAYERS) return;   /* aborted */
        memcpy(r->stored + pos, marks, rows * sizeof *marks);
        gw_kv_advance(&r->kv, rows);
        n -= rows;
    }
}

static float item(const gw_kv_layer *l, const void *plane, uint32_t pos, uint32_t i) {
    size_t at = (size_t)(pos % l->rows) * ROW + i;
    return l->half ? gw_f16_to_f32(((const uint16_t *)plane)[at]) : ((const float *)plane)[at];
}

/* All that a query at kv.pos could see is what was stored last. */
static void check_visible(const rig *r) {
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint32_t first = is_global[l] || r->kv.pos < WINDOW ? 0 : r->kv.pos - WINDOW + 1;
        for (uint32_t p = first; p < r->kv.pos; p++)
            for (uint32_t i = 0; i < ROW; i++) {
                float expected = r->stored[p] + (float)l, k = item(&r->kv.layers[l], r->kv.layers[l].k, p, i);
                float v = item(&r->kv.layers[l], r->kv.layers[l].v, p, i);
                if (k != expected || v != -expected)
                    gw_test_fail(__FILE__, __LINE__, "layer %u, position %u of %u: expected %g, got %g and %g", l, p,
                                 r->kv.pos, expected, k, v);
            }
    }
}

TEST(kv_rings_are_short_and_global_layers_whole) {
    rig r;
    rig_init(&r, CONTEXT);
    CHECK_INT(r.kv.layers[0].rows, RING);
    CHECK_INT(r.kv.layers[1].rows, 304);   /* whole blocks of 16 */
    CHECK(!r.kv.layers[0].half && r.kv.layers[1].half && !r.kv.layers[2].half);
    CHECK_INT(r.kv.saved[0].rows, WINDOW);
    CHECK_INT(r.kv.saved[1].rows, 0);
    gw_free(r.block);
    rig_init(&r, 20);
    CHECK_INT(r.kv.layers[0].rows, 32);
    CHECK_INT(r.kv.saved[0].rows, 0);      /* a ring that never wraps needs nothing aside */
    gw_free(r.block);
}

TEST(kv_rewinds_as_far_as_the_rings_reach) {
    rig r;
    rig_init(&r, CONTEXT);
    write(&r, 100, LAYERS);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 500), 100);            /* not beyond what is there */
    /* The last batch ended at 100, so the rings hold 68 .. 99: a query at 77 sees 68 on. */
    CHECK_INT(gw_kv_rewind(&r.kv, 77), 77);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 76), 0);
    write(&r, 100, LAYERS);
    gw_kv_rewind(&r.kv, 90);
    write(&r, 4, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 77), 77);              /* 68 is still there */
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 0), 0);
    write(&r, 5, LAYERS);
    check_visible(&r);
    CHECK_INT(gw_kv_rewind(&r.kv, 1), 1);
    check_visible(&r);
    gw_free(r.block);
}

TEST(kv_goes_back_to_what_was_saved) {
    rig r;
    rig_init(&r, CONTEXT);
    write(&r, 100, LAYERS);
    gw_kv_save(&r.kv, 99);
    CHECK_INT(r.kv.saved_pos, 99);
    for (int i = 0; i < 3; i++) {
        write(&r, 150, LAYERS);
        CHECK_INT(gw_kv_rewind(&r.kv, 120), 99);         /* the rings have moved on */
        check_visible(&r);
    }
    write(&r, 10, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 105), 105);            /* within reach: no need of the saved rows */
    check_visible(&r);
    write(&r, 150, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 98), 0);               /* before them: all is gone, they are too */
    CHECK_INT(r.kv.saved_pos, 0);
    write(&r, 250, LAYERS);
    gw_kv_save(&r.kv, 200);                              /* out of reach: refused */
    CHECK_INT(r.kv.saved_pos, 0);
    gw_kv_save(&r.kv, 249);
    gw_kv_rewind(&r.kv, 248);                            /* a past that is overwritten cannot come back */
    write(&r, 40, LAYERS);
    CHECK_INT(gw_kv_rewind(&r.kv, 249), 0);
    gw_free(r.block);
}

TEST(kv_lengths_that_fit_the_ring_never_lose_anything) {
    rig r;
    rig_init(&r, RING);
    write(&r, RING, LAYERS);
    for (uint32_t length = RING; length-- > 0;) {
        CHECK_INT(gw_kv_rewind(&r.kv, length), length);
        check_visible(&r);
    }
    gw_free(r.block);
}

static uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

TEST(kv_random_walk) {
    rig r;
    rig_init(&r, CONTEXT);
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
    CHECK(restored > 10 && emptied > 10);   /* the walk went everywhere */
    gw_free(r.block);
}

TEST(kv_sizes_of_one_b) {
    uint8_t global[26];
    for (int l = 0; l < 26; l++) global[l] = l % 6 == 5;
    gw_kv_shape shape = { 26, 32768, 512, 64, 256, global };
    gw_arena whole = { 0 }, none = { 0 };
    gw_kv kv;
    gw_kv_init(&kv, shape, &whole);
    CHECK(whole.used < 200000000);
    shape.n_ctx = 1;
    gw_kv_init(&kv, shape, &none);
    CHECK(none.used < 26u * 16 * 256 * 4 * 2 + 10000);
}

TEST(kv_sizes_beyond_the_address_space_are_exact_and_refused) {
    gw_kv_shape shape = { 1, 1 << 20, 512, 64, 1u << 31, (const uint8_t[]){ 1 } };
    gw_arena a = { 0 };
    gw_kv kv;
    gw_kv_init(&kv, shape, &a);
    CHECK((double)a.used >= 2.0 * 2 * (1 << 20) * 2147483648.0 && a.used < UINT64_MAX / 2);
    CHECK(sizeof(size_t) > 4 || gw_size(a.used) == SIZE_MAX);
    for (size_t less = 0; less < 65536; less += 13) CHECK(!gw_alloc(SIZE_MAX - less));
}

TEST(kv_f16_rows_saturate) {
    rig r;
    rig_init(&r, CONTEXT);
    float big[ROW] = { 1e9f, -1e9f, 65504, -65504, 65520, 0, -0.0f, 6e-8f };
    gw_kv_store(&r.kv, 1, 3, big, big);
    gw_kv_store(&r.kv, 0, 3, big, big);
    CHECK_NEAR(item(&r.kv.layers[1], r.kv.layers[1].k, 3, 0), 65504, 0);
    CHECK_NEAR(item(&r.kv.layers[1], r.kv.layers[1].v, 3, 1), -65504, 0);
    CHECK_NEAR(item(&r.kv.layers[1], r.kv.layers[1].k, 3, 4), 65504, 0);
    CHECK_NEAR(item(&r.kv.layers[0], r.kv.layers[0].k, 3, 0), 1e9f, 0);   /* rings keep floats */
    gw_free(r.block);
}
