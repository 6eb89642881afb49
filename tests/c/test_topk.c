/* Tests the two-stage output head: packing in planes, the product bit for bit against the one-plane product, the bounds
 * of every row, and the greatest logits of matrices made to mislead an approximation, with and without a soft
 * cap. */
#include "model/topk.h"
#include "kernels/pack.h"
#include "file/formats.h"
#include "api.h"
#include "rig.h"
#include "test.h"

#include <stdint.h>
#include <stdlib.h>

static uint64_t seed = 7;

static uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) ^ (uint32_t)(seed >> 11);
}

static float random_float(void) {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(random_bits() & 0xffff) / 65536.0f - 0.5f;
    return sum;
}

/* WIDTH: usual length of a row; TYPE_ROWS: rows of matrices of types other than Q8_0; STEPS: tokens of an answer. They
 * are smaller under sanitizers, because neither a race nor an access out of bounds depends on how often a loop runs. */
#if defined(__SANITIZE_THREAD__)
enum { WIDTH = 64, TYPE_ROWS = 503, STEPS = 12 };
#elif defined(__SANITIZE_ADDRESS__)
enum { WIDTH = 320, TYPE_ROWS = 503, STEPS = 12 };
#else
enum { WIDTH = 320, TYPE_ROWS = 2003, STEPS = 60 };
#endif
enum { MOST_ROWS = 3000, MOST_K = 320, MOST_N = 10, MOST_BYTES = (MOST_ROWS + 4) * MOST_K / 32 * 34 };

/* A random matrix in the file's layout (file), packed in one plane (one), and packed in planes (high, middle, low). */
static struct {
    uint8_t file[MOST_BYTES], one[MOST_BYTES], high[MOST_BYTES], middle[MOST_BYTES], low[MOST_BYTES];
    float norms[GW_NORMS * (MOST_ROWS + 4)];
    float x[MOST_N * MOST_K];
    gw_matrix plain, staged;
    gw_pool *pool;
    gw_ops ops;
    void *block;
} fixture;

static float whole[MOST_N * (MOST_ROWS + 4)], top[MOST_N * (MOST_ROWS + 4)];

static const gw_rows all_rows;

static uint8_t *block_of(uint32_t row, uint32_t b) { return fixture.file + (row * (fixture.plain.k / 32) + b) * 34; }

static void set_scale(uint8_t *block, uint16_t f16) {
    block[0] = (uint8_t)f16;
    block[1] = (uint8_t)(f16 >> 8);
}

static void set_up(uint32_t rows, uint32_t k, int threads) {
    const gw_type *q8 = gw_type_of(GW_Q8_0);
    fixture.plain = (gw_matrix){ .type = q8, .rows = rows, .k = k, .data = fixture.one };
    fixture.staged = (gw_matrix){ .type = q8,
                                  .rows = rows,
                                  .k = k,
                                  .planes = { fixture.high, fixture.middle, fixture.low },
                                  .norms = fixture.norms };
    fixture.pool = gw_pool_new(threads);
    CHECK(fixture.pool);
    gw_arena measure = { 0 };
    gw_ops_init(&fixture.ops, fixture.pool, MOST_N, k, 16, &measure);
    fixture.block = gw_alloc(measure.used);
    CHECK(fixture.block);
    gw_arena arena = { .base = fixture.block, .size = measure.used };
    gw_ops_init(&fixture.ops, fixture.pool, MOST_N, k, 16, &arena);
}

static void tear_down(void) {
    gw_pool_free(fixture.pool);
    gw_free(fixture.block);
}

static void pack(void) {
    const gw_type *q8 = fixture.plain.type;
    uint32_t k = fixture.plain.k, rows = fixture.plain.rows, bytes = k / 32 * 34;
    gw_pure_settle(fixture.pool); /* a slow helper thread may still be reading weights */
    for (uint32_t r = 0; r < rows; r += 4) {
        int n = (int)gw_min(4, rows - r);
        gw_pack_panel(q8, fixture.file + r * bytes, n, k, fixture.one + r * bytes);
        gw_pack_planes(fixture.file + r * bytes, n, k, gw_matrix_planes(&fixture.staged, r / 4), fixture.norms + r,
                       gw_ld(rows));
    }
}

static void random_rows(float size) {
    for (uint32_t r = 0; r < fixture.plain.rows; r++) {
        float row[MOST_K];
        for (uint32_t i = 0; i < fixture.plain.k; i++) row[i] = random_float() * size;
        fixture.plain.type->quantise(row, block_of(r, 0), fixture.plain.k);
    }
}

static void random_x(float size) {
    for (int i = 0; i < MOST_N * MOST_K; i++) fixture.x[i] = random_float() * size;
}

static void set_up_random(int threads) {
    set_up(MOST_ROWS, WIDTH, threads);
    random_rows(1);
    random_x(1);
}

/* Returns n rows of activations from row `first` on, valid until the next call. */
static const gw_view *x_from(int first, int n) {
    static gw_view x;
    x = (gw_view){ fixture.x + first * MOST_K, n, MOST_K };
    return &x;
}

static void product(const gw_matrix *m, int n, float *y) { gw_matmul(&fixture.ops, x_from(0, n), &m, &y, 1, true); }

static int32_t arg_max(const float *y) {
    scoped_sampler *s = gw_sampler_new(fixture.plain.rows);
    gw_error e;
    CHECK(s && !gw_sampler_set(s, "temperature", 0, &e));
    int32_t id = gw_sampler_draw(s, y);
    return id;
}

static void check_same(const float *got, const float *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, 4))
            gw_test_fail(__FILE__, __LINE__, "%s, output %zu: expected %.9g, got %.9g", what, i, want[i], got[i]);
}

static int32_t drawn(const float *y, uint32_t k) {
    scoped_sampler *s = gw_sampler_new(fixture.plain.rows);
    gw_error e;
    CHECK(s && !gw_sampler_set(s, "temperature", 2, &e) && !gw_sampler_set(s, "top_k", k, &e));
    CHECK(!gw_sampler_set(s, "seed", k, &e));
    int32_t id = gw_sampler_draw(s, y);
    return id;
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Checks gw_matmul_topk() for the k greatest logits: the draw is the same, computed logits have the bits of the full
 * product, and every excluded logit is less than the k-th. Returns the number of panels that were computed exactly. */
static uint32_t check_k(const char *what, float cap, uint32_t k) {
    static float sorted[MOST_ROWS];
    uint32_t rows = fixture.plain.rows, exact;
    memcpy(sorted, whole, rows * sizeof *sorted);
    qsort(sorted, rows, sizeof *sorted, descending);
    exact = gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, cap, &(gw_topk){ .best = k }, top);
    CHECK_INT(drawn(top, k), drawn(whole, k));
    for (uint32_t r = 0; r < rows; r++)
        if (top[r] != -INFINITY) check_same(top + r, whole + r, 1, what);
        else CHECK(whole[r] < sorted[k - 1]);
    return exact;
}

/* Checks the greatest logits for several k. Returns the number of panels that were computed exactly for k = 1. */
static uint32_t check_capped(const char *what, float cap) {
    uint32_t rows = fixture.plain.rows;
    product(&fixture.plain, 1, whole);
    gw_soft_cap(&fixture.ops, whole, rows, cap);
    uint32_t most = TSAN_LEAVES_OUT(1) ? 2 : gw_min(199, rows);
    for (uint32_t k = 2; k <= most; k = k * 3 - 1) check_k(what, cap, k);
    uint32_t exact = check_k(what, cap, 1);
    CHECK_INT(arg_max(top), arg_max(whole));
    return exact;
}

static uint32_t check_top(const char *what) { return check_capped(what, 0); }

TEST(top_planes_hold_every_code_and_scale) {
    enum { ROWS = 11, K = 64 };
    float one[K], two[K];
    set_up(ROWS, K, 1);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t b = 0; b < K / 32; b++) {
            set_scale(block_of(r, b), (uint16_t)(random_bits() & 0xfbff));
            for (int i = 0; i < 32; i++) block_of(r, b)[2 + i] = (uint8_t)((r * 2 + b) * 32 + i);
        }
    pack();
    for (uint32_t r = 0; r < ROWS; r++) {
        gw_matrix_row(&fixture.plain, r, one);
        gw_matrix_row(&fixture.staged, r, two);
        check_same(two, one, K, "row");
        for (int i = 0; i < GW_NORMS; i++) {
            int dropped = i < 2 ? 16 : 4; /* norms: of the upper 4 bits, the lower 4 bits, the lower 2 bits */
            double square = 0;
            for (int c = 0; c < K; c++) {
                int code = (int8_t)block_of(r, c / 32)[2 + c % 32] + 128, rest = code % dropped - dropped / 2;
                double d = gw_f16_to_f32((uint16_t)(block_of(r, c / 32)[0] | block_of(r, c / 32)[1] << 8));
                double part = d * (i ? rest : code - 128 - rest);
                square += part * part;
            }
            float norm = fixture.norms[i * gw_ld(ROWS) + r];
            CHECK(norm >= sqrt(square) && norm <= sqrt(square) * (1 + 1e-4));
        }
    }
    tear_down();
}

THREADED_TEST(top_product_has_the_bits_of_one_plane) {
    static const struct {
        uint32_t rows, k;
    } sizes[] = { { 1, 32 }, { 18, 64 }, { 31, 320 }, { 64, 96 }, { 301, 32 } };
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int n = 1; n <= MOST_N; n++) {
            set_up(sizes[i].rows, sizes[i].k, 1 + n % 3);
            random_rows(1);
            random_x(1);
            for (uint32_t r = 0; r < sizes[i].rows; r += 5) {
                block_of(r, 0)[2] = 128;                             /* -128, a value that no quantiser writes */
                set_scale(block_of(r, 0), r % 10 ? 0x0001 : 0x7bff); /* the smallest and the greatest f16 */
            }
            pack();
            product(&fixture.plain, n, whole);
            product(&fixture.staged, n, top);
            check_same(top, whole, n * gw_ld(sizes[i].rows), "product");
            tear_down();
        }
}

#ifdef GW_HAVE_SIMD
#if defined(GW_HAVE_RELAXED)
#define FAST(name) gw_relaxed_##name
#else
#define FAST(name) gw_simd_##name
#endif

enum { MOST_BLOCKS = (MOST_N | 1) * MOST_K / 32 };
static float s8[2][MOST_BLOCKS], s16[2][MOST_BLOCKS];
static gw_int8 q8[2][MOST_BLOCKS * 32];
static int16_t q16[2][MOST_BLOCKS * 32];
static int32_t sums[2][4][MOST_BLOCKS];

/* Returns activations quantised for the reference kernels (side 0) or the fast kernels (side 1), which order them
 * differently. */
static gw_acts acts_of(int side, int n, uint32_t k) {
    int32_t (*sum)[MOST_BLOCKS] = sums[side];
    gw_acts a = { .n = n,
                  .k = k,
                  .stride = gw_acts_stride(n),
                  .x = fixture.x,
                  .ldx = MOST_K,
                  .q8 = q8[side],
                  .s8 = s8[side],
                  .sum8 = sum[0],
                  .half8 = sum[1],
                  .q16 = q16[side],
                  .s16 = s16[side],
                  .sum16 = sum[2],
                  .half16 = sum[3] };
    for (int t = 0; t < n; t++) {
        (side ? FAST(quantise_int8) : gw_ref_quantise_int8)(&a, t, 0, k);
        (side ? FAST(quantise_int15) : gw_ref_quantise_int15)(&a, t, 0, k);
    }
    return a;
}

TEST(top_kernels_agree_with_the_specification) {
    static const uint32_t list[] = { 7, 0, 3, 19, 8, 12, 11 };
    enum { ROWS = 77, K = 160, PANELS = 20 };
    set_up(ROWS, K, 1);
    for (int round = 0; round < 20; round++) {
#ifdef GW_HAVE_RELAXED
        gw_relaxed_only_7_bits = round % 2;
        gw_relaxed_pairs = round / 2 % 2;
#endif
#if defined(GW_HAVE_RELAXED) && defined(GW_RELAXED_SIMDE)
        gw_relaxed_engine = GW_ENGINE_PAIRS + round / 4 % 3;
#endif
        random_rows(1);
        random_x(1);
        for (int i = 0; i < 40; i++)
            block_of(random_bits() % ROWS, random_bits() % 5)[2 + i % 32] = (uint8_t)random_bits();
        pack();
        for (int n = 1; n <= MOST_N; n++) {
            gw_acts slow = acts_of(0, n, K), fast = acts_of(1, n, K);
            gw_ref_planes_whole(fixture.staged.planes, PANELS, &slow, whole, 4 * PANELS);
            FAST(planes_whole)(fixture.staged.planes, PANELS, &fast, top, 4 * PANELS);
            check_same(top, whole, (size_t)n * 4 * PANELS, "all planes");
        }
        gw_acts slow = acts_of(0, 1, K), fast = acts_of(1, 1, K);
        for (uint32_t n = 0; n <= 7; n++) {
            memset(whole, 0, sizeof whole), memset(top, 0, sizeof top);
            gw_ref_planes_some(fixture.staged.planes, list, (int)n, &slow, whole);
            FAST(planes_some)(fixture.staged.planes, list, (int)n, &fast, top);
            check_same(top, whole, 4 * PANELS, "some panels");
        }
        for (int n = 1; n <= MOST_N; n++) {
            slow = acts_of(0, n, K), fast = acts_of(1, n, K);
            gw_ref_planes_high(fixture.staged.planes, PANELS, &slow, whole, 4 * PANELS);
            FAST(planes_high)(fixture.staged.planes, PANELS, &fast, top, 4 * PANELS);
            check_same(top, whole, (size_t)n * 4 * PANELS, "the high plane");
#if GW_MIDDLE_PLANE
            gw_ref_planes_upper(fixture.staged.planes, PANELS, &slow, whole, 4 * PANELS);
            FAST(planes_upper)(fixture.staged.planes, PANELS, &fast, top, 4 * PANELS);
            check_same(top, whole, (size_t)n * 4 * PANELS, "the upper planes");
#endif
        }
    }
#ifdef GW_HAVE_RELAXED
    gw_relaxed_only_7_bits = false;
    gw_relaxed_pairs = GW_PAIRS_ASK;
#endif
#if defined(GW_HAVE_RELAXED) && defined(GW_RELAXED_SIMDE)
    gw_relaxed_engine = GW_ENGINE_PAIRS;
#endif
    tear_down();
}
#endif

static void check_bound(const char *what, bool middle) {
    uint32_t rows = fixture.plain.rows;
    product(&fixture.plain, 1, whole);
    gw_matmul_bounds(&fixture.ops, fixture.x, &fixture.staged, middle, top, top + gw_ld(rows));
    for (uint32_t r = 0; r < rows; r++) {
        double upper = top[gw_ld(rows) + r], error = fabs((double)whole[r] - top[r]);
        if (upper == INFINITY) continue;
        if (!(error <= upper - top[r]))
            gw_test_fail(__FILE__, __LINE__, "%s, row %u: exact %.9g, approximate %.9g, bound %.9g", what, r, whole[r],
                         top[r], upper - top[r]);
    }
}

/* Makes rows for which the first pass is as wrong as possible, so that the errors of the logits nearly reach their
 * bound: the bits of quants that this pass does not read are all ones where x is positive, and zeros elsewhere. */
static void worst_rows(bool middle) {
    int unread = middle ? 3 : 15;
    for (uint32_t r = 0; r < fixture.plain.rows; r++)
        for (uint32_t i = 0; i < fixture.plain.k; i++) {
            uint8_t *block = block_of(r, i / 32);
            set_scale(block, (uint16_t)(0x2000 + r));
            block[2 + i % 32] = (uint8_t)((random_bits() & ~(uint32_t)unread) |
                                          (uint32_t)(fixture.x[i] > 0 ? unread : 0));
        }
}

THREADED_TEST(top_bound_holds_for_every_row) {
    static const float sizes[] = { 1, 1e-20f, 1e-37f, 1e-42f, 1e20f };
    set_up(MOST_ROWS, WIDTH, 2);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        if (TSAN_LEAVES_OUT(i)) continue;
        random_rows(sizes[i] > 1 ? 1e3f : 0.1f);
        random_x(sizes[i]);
        for (int j = 0; j < 100; j++)
            set_scale(block_of(random_bits() % MOST_ROWS, 0), (uint16_t)(random_bits() & 0xfbff));
        pack();
        check_bound("random", false);
        check_bound("random", GW_MIDDLE_PLANE);
    }
    for (int round = 0; round < 10; round++) {
        if (TSAN_LEAVES_OUT(round)) continue;
        random_x(1);
        for (int i = 0; i < MOST_K; i++) /* activations of similar magnitudes, in later rounds with outliers */
            fixture.x[i] = (fixture.x[i] > 0 ? 1 : -1) * (round < 5 ? 1 + 0.01f * random_float()
                                                          : i % 40  ? 0.02f
                                                                    : 3.0f);
        worst_rows(GW_MIDDLE_PLANE && round % 2);
        pack();
        check_bound("worst", GW_MIDDLE_PLANE && round % 2);
    }
    tear_down();
}

static void random_blocks(const gw_type *type) {
    const gw_format *f = gw_format_of(type->id);
    uint32_t rows = fixture.plain.rows, k = fixture.plain.k, bytes = k / type->items * type->bytes;
    gw_pure_settle(fixture.pool); /* a slow helper thread may still be reading weights */
    fixture.plain = (gw_matrix){ .type = type, .rows = rows, .k = k, .data = fixture.one };
    fixture.staged = fixture.plain;
    fixture.staged.norms = fixture.norms;
    for (uint32_t i = 0; i < rows * bytes; i++) fixture.file[i] = (uint8_t)random_bits();
    for (uint32_t b = 0; b < rows * (k / type->items); b++)
        for (uint32_t h = 0; h < (f->values ? 1 : f->halves); h++)
            set_scale(fixture.file + b * type->bytes + f->first_half + 2 * h,
                      (uint16_t)(0x2000 + random_bits() % 0x800 + (h ? 0 : random_bits() % 2 * 0x8000)));
    for (uint32_t r = 0; r < rows; r += 4)
        CHECK(gw_matrix_put(&fixture.staged, type, fixture.file + r * bytes, (int)gw_min(4, rows - r), r));
}

/* Calls `check` for every quantised type whose output head has one norm per row: all except Q8_0. */
static void each_type(void (*check)(const gw_type *type)) {
    static const int types[] = {
#define GW_X(NAME, ...) GW_##NAME,
        GW_ALL_FORMATS(GW_X)
#undef GW_X
    };
    for (size_t i = 0; i < COUNT(types); i++) {
        if (types[i] == GW_Q8_0 || TSAN_LEAVES_OUT(i)) continue;
        set_up(TYPE_ROWS, 256, 1 + i % 3);
        CHECK_INT(gw_head_norms(gw_type_of(types[i]), 256), GW_FASTER_INT8);
        CHECK_INT(gw_head_norms(gw_type_of(types[i]), GW_HEAD_MAX_K + 256), 0);
        if (GW_FASTER_INT8) check(gw_type_of(types[i]));
        tear_down();
    }
}

static void check_type_bound(const gw_type *type) {
    static const float sizes[] = { 1, 1e-20f, 1e-37f, 1e-42f, 1e20f };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        random_blocks(type);
        random_x(sizes[i]);
        check_bound(type->name, false);
    }
    float row[256];
    for (uint32_t r = 0; r < fixture.plain.rows; r++) {
        double square = 0;
        gw_matrix_row(&fixture.plain, r, row);
        for (int c = 0; c < 256; c++) square += (double)row[c] * row[c];
        CHECK(fixture.norms[r] >= sqrt(square) && fixture.norms[r] < 8 * sqrt(square));
    }
}

THREADED_TEST(top_bound_holds_for_types_without_planes) { each_type(check_type_bound); }

static void check_type_top(const gw_type *type) {
    for (int round = 0; round < 2; round++) {
        if (TSAN_LEAVES_OUT(round)) continue;
        random_blocks(type);
        random_x(1);
        CHECK(check_top(type->name) < TYPE_ROWS / 4 / 2);
        check_capped(type->name, 30);
    }
    gw_topk two[] = { { .best = 1 }, { .best = 9 } };
    size_t ld = gw_ld(TYPE_ROWS);
    gw_matmul_topk(&fixture.ops, x_from(0, 2), &fixture.staged, 0, two, top);
    for (size_t t = 0; t < 2; t++) {
        gw_matmul_topk(&fixture.ops, x_from((int)t, 1), &fixture.staged, 0, two + t, whole);
        check_same(top + t * ld, whole, TYPE_ROWS, "two rows of activations");
    }
}

THREADED_TEST(top_is_exact_for_types_without_planes) { each_type(check_type_top); }

/* Compares the norms with sums in double. All 256 quants occur, so every index of the tables of squares is used. */
TEST(top_norms_are_those_of_the_parts_of_quants) {
    set_up_random(1);
    pack();
    for (uint32_t r = 0; r < fixture.plain.rows; r++) {
        double square[] = { 0, 0, 0 };
        for (uint32_t b = 0; b < fixture.plain.k / 32; b++) {
            const uint8_t *block = block_of(r, b);
            double d = gw_f16_to_f32(gw_load16(block));
            for (int c = 0; c < 32; c++) {
                int code = (block[2 + c] ^ 128), n = code >> 4, low = code & 15, lowest = code & 3;
                int parts[] = { 16 * n - 120, low - 8, lowest - 2 };
                for (int i = 0; i < 3; i++) square[i] += d * d * parts[i] * parts[i];
            }
        }
        for (int i = 0; i < GW_NORMS; i++) {
            double norm = fixture.norms[(size_t)i * gw_ld(fixture.plain.rows) + r], want = sqrt(square[i]);
            CHECK(norm >= want && norm <= want * 1.0001);
        }
    }
    tear_down();
}

TEST(top_norm_of_a_scale_that_is_not_finite_is_infinite) {
    if (!GW_FASTER_INT8) return;
    set_up(4, 256, 1);
    random_blocks(gw_type_of(GW_Q6_K));
    set_scale(fixture.file + gw_format_of(GW_Q6_K)->first_half, 0x7c00);
    CHECK(!gw_matrix_put(&fixture.staged, fixture.plain.type, fixture.file, 4, 0));
    CHECK(fixture.norms[0] == INFINITY && fixture.norms[1] < INFINITY);
    tear_down();
}

static void copy_row(uint32_t to, uint32_t from) {
    memcpy(block_of(to, 0), block_of(from, 0), fixture.plain.k / 32 * 34);
}

/* Makes row r of the matrix a multiple of the input x, so that its logit is large. */
static void aim_row(uint32_t r, float size) {
    float row[MOST_K];
    for (uint32_t i = 0; i < fixture.plain.k; i++) row[i] = fixture.x[i] * size;
    fixture.plain.type->quantise(row, block_of(r, 0), fixture.plain.k);
}

THREADED_TEST(top_finds_the_id_of_the_whole_product) {
    static const struct {
        uint32_t rows, k;
    } sizes[] = {
        { 1, 32 }, { 3, 32 }, { 5, 64 }, { 50, 32 }, { 999, 320 }, { 1030, 96 }, { 3000, WIDTH },
    };
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int round = 0; round < 6; round++) {
            if (TSAN_LEAVES_OUT(i + 2)) continue;
            set_up(sizes[i].rows, sizes[i].k, 1 + round % 4);
            random_rows(1);
            random_x(round % 2 ? 1 : 1e-3f);
            if (round > 2) aim_row(random_bits() % sizes[i].rows, 1);
            pack();
            check_top("random");
            tear_down();
        }
}

THREADED_TEST(top_reads_little_where_one_stands_out) {
    set_up_random(2);
    aim_row(1234, 1);
    pack();
    CHECK(check_top("one stands out") <= 5);
    CHECK_INT(arg_max(top), 1234);
    tear_down();
}

THREADED_TEST(top_gives_the_lowest_id_of_equals) {
    set_up(2000, WIDTH, 3);
    random_rows(1);
    random_x(1);
    aim_row(700, 1);
    copy_row(1700, 700), copy_row(701, 700), copy_row(3, 700), copy_row(1999, 700);
    pack();
    check_top("ties");
    CHECK_INT(arg_max(top), 3);
    for (uint32_t r = 1; r < 2000; r++) copy_row(r, 0);
    pack();
    CHECK_INT(check_top("all equal"), 500);
    CHECK_INT(arg_max(top), 0);
    memset(fixture.file, 0, sizeof fixture.file);
    pack();
    check_top("all zero");
    CHECK_INT(arg_max(top), 0);
    tear_down();
}

/* Tests rows with equal high planes, whose low planes decide, and rows with a large value in the high plane that the
 * low plane cancels. */
THREADED_TEST(top_is_not_misled_by_the_high_plane) {
    set_up(MOST_ROWS, WIDTH, 2);
    for (int round = 0; round < 6; round++) {
        if (TSAN_LEAVES_OUT(round)) continue;
        random_rows(1);
        random_x(1);
        aim_row(17, 1);
        for (uint32_t r = 100; r < 400; r++) {
            copy_row(r, 17);
            for (uint32_t i = 0; i < WIDTH; i++) {
                uint8_t *code = block_of(r, i / 32) + 2 + i % 32;
                bool with = round % 2 ? fixture.x[i] > 0 : fixture.x[i] < 0;
                if (r % 3 == 0) *code = (uint8_t)((*code & 0xf0) | (random_bits() & 15));
                if (r % 3 == 1) *code = (uint8_t)((*code & 0xf0) | (with ? 15 : 0));
                if (r % 3 == 2 && random_bits() % 50 == 0) *code ^= 1; /* a change below the approximation's error */
            }
        }
        pack();
        check_top("misleading");
    }
    tear_down();
}

THREADED_TEST(top_with_odd_rows) {
    set_up_random(2);
    for (uint32_t r = 0; r < MOST_ROWS; r += 7)
        for (uint32_t b = 0; b < WIDTH / 32; b++) {
            static const uint16_t scales[] = { 0, 0x0001, 0x8001, 0x03ff, 0x8000, 0xa000 };
            set_scale(block_of(r, b), scales[r / 7 % 6]);
            if (r % 2) block_of(r, b)[2 + b % 32] = 128;
        }
    pack();
    check_top("small and zero scales");
    for (uint32_t b = 0; b < WIDTH / 32; b++) set_scale(block_of(2000, b), 0x7bff), set_scale(block_of(11, b), 0xfbff);
    pack();
    check_top("huge scales");
    memset(block_of(500, 0), 0, WIDTH / 32 * 34);
    pack();
    check_top("a row of zeros");
    tear_down();
}

/* Rows that the caller requires are computed, and do not hide the greatest of the other rows. */
THREADED_TEST(top_computes_the_rows_that_are_asked_for) {
    set_up_random(2);
    aim_row(1000, 1), aim_row(1001, 0.8f), aim_row(2500, 0.6f);
    pack();
    product(&fixture.plain, 1, whole);
    static const int32_t exact[] = { 1000, 0, 1001, 7, 7, MOST_ROWS - 1, 1000 };
    gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 0, &(gw_topk){ 1, 7, exact, all_rows, NULL }, top);
    for (int i = 0; i < 7; i++) check_same(top + exact[i], whole + exact[i], 1, "asked for");
    check_same(top + 2500, whole + 2500, 1, "the greatest of the others");
    static int32_t all[MOST_ROWS];
    for (int i = 0; i < MOST_ROWS; i++) all[i] = i;
    gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 0, &(gw_topk){ 1, MOST_ROWS, all, all_rows, NULL },
                   top);
    check_same(top, whole, MOST_ROWS, "all asked for");
    tear_down();
}

/* Several rows of activations, one of them without an error bound, give the same logits as each row alone. */
THREADED_TEST(top_of_several_rows_is_that_of_each) {
    enum { N = MOST_N, LD = MOST_ROWS };
    static float alone[N * LD], apart[MOST_ROWS];
    gw_topk each[N];
    for (int threads = 1; threads <= 3; threads++)
        for (int cap = 0; cap <= 30; cap += 30) {
            if (TSAN_LEAVES_OUT(threads + cap)) continue; /* TSan runs only one of these cases */
            set_up_random(threads);
            fixture.x[2 * MOST_K + 33] = 1e30f;
            aim_row(1000, 1), aim_row(2500, 0.8f);
            pack();
            product(&fixture.plain, N, whole);
            gw_soft_cap(&fixture.ops, whole, N * LD, (float)cap);
            for (int t = 0; t < N; t++) {
                each[t] = (gw_topk){ .best = 1 + (uint32_t)t % 3 };
                gw_matmul_topk(&fixture.ops, x_from(t, 1), &fixture.staged, (float)cap, &each[t], alone + t * LD);
            }
            each[1].to = apart;
            for (int n = 2; n <= N; n++) {
                if (TSAN_LEAVES_OUT(n + 2)) continue;
                gw_matmul_topk(&fixture.ops, x_from(0, n), &fixture.staged, (float)cap, each, top);
                memcpy(top + LD, apart, sizeof apart);
                check_same(top, alone, (size_t)n * LD, "alone");
                for (int t = 0; t < n; t++) CHECK_INT(arg_max(top + t * LD), arg_max(whole + t * LD));
            }
            tear_down();
        }
}

/* Returns a random set of about one in `of` rows, without the last 40 of MOST_ROWS. */
static gw_rows random_rows_of(uint32_t of) {
    static uint32_t bits[MOST_ROWS / 32 + 1];
    memset(bits, 0, sizeof bits);
    for (uint32_t r = 0; r < MOST_ROWS; r++)
        if (random_bits() % of == 0) bits[r / 32] |= 1u << r % 32;
    return (gw_rows){ bits, (MOST_ROWS - 40) / 32 };
}

static bool has_row(const gw_rows *rows, uint32_t r) { return gw_rows_of(rows, r / 4) >> r % 4 & 1; }

static uint32_t best_of(const gw_rows *rows, const float *y) {
    uint32_t best = MOST_ROWS;
    for (uint32_t r = 0; r < MOST_ROWS; r++)
        if (has_row(rows, r) && (best == MOST_ROWS || y[r] > y[best])) best = r;
    return best;
}

THREADED_TEST(top_looks_for_the_greatest_among_candidates) {
    for (int cap = 0; cap <= 30; cap += 30) {
        set_up_random(2);
        for (uint32_t r = 0; r < 30; r++) aim_row(r * 91, 1);
        pack();
        product(&fixture.plain, 1, whole);
        gw_soft_cap(&fixture.ops, whole, MOST_ROWS, (float)cap);
        for (uint32_t of = 2; of < 500; of *= 3) {
            gw_rows rows = random_rows_of(of);
            gw_topk one = { .best = 1, .rows = rows };
            uint32_t open = gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, (float)cap, &one, top);
            CHECK_INT(best_of(&rows, top), best_of(&rows, whole));
            CHECK(open < MOST_ROWS / 4 / 2);
            for (uint32_t r = 0; r < MOST_ROWS; r++)
                if (top[r] != -INFINITY) check_same(top + r, whole + r, 1, "candidates");
        }
        tear_down();
    }
}

/* If few rows are wanted, their panels equal those of the full product, and no other panels are computed, whether the
 * matrix is in one plane or in several. */
THREADED_TEST(few_rows_are_those_of_the_whole_product) {
    for (int cap = 0; cap <= 30; cap += 30) {
        set_up_random(2);
        pack();
        product(&fixture.plain, 1, whole);
        gw_soft_cap(&fixture.ops, whole, MOST_ROWS, (float)cap);
        for (uint32_t of = 1; of < 9000; of *= 20) {
            gw_rows rows = random_rows_of(of);
            CHECK_INT(gw_few_rows(&fixture.staged, &rows), of > 1);
            for (int planes = 0; planes < 2; planes++) {
                gw_matmul_few(&fixture.ops, fixture.x, planes ? &fixture.staged : &fixture.plain, (float)cap, &rows,
                              top);
                for (uint32_t r = 0; r < MOST_ROWS; r++) {
                    if (gw_rows_of(&rows, r / 4)) check_same(top + r, whole + r, 1, "few");
                    else CHECK(top[r] == -INFINITY);
                }
            }
        }
        CHECK(!gw_few_rows(&fixture.staged, &all_rows));
        tear_down();
    }
}

/* Non-finite values and inputs without an error bound give the result of the full product. */
THREADED_TEST(top_of_damaged_numbers_is_the_whole_product) {
    static const float values[] = { INFINITY, -INFINITY, 1e30f, 3e38f };
    set_up(1001, WIDTH, 2);
    random_rows(1);
    for (size_t i = 0; i < COUNT(values); i++) {
        random_x(1);
        fixture.x[33] = values[i];
        pack();
        product(&fixture.plain, 1, whole);
        CHECK_INT(gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 0, &(gw_topk){ .best = 1 }, top),
                  gw_ld(1001) / 4);
        check_same(top, whole, 1001, "x");
    }
    static const uint16_t scales[] = { 0x7c00, 0xfc00, 0x7e01 };
    for (size_t i = 0; i < COUNT(scales); i++) {
        random_x(1);
        set_scale(block_of(77, 1), scales[i]);
        pack();
        product(&fixture.plain, 1, whole);
        gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 0, &(gw_topk){ .best = 1 }, top);
        CHECK(!memcmp(top + 77, whole + 77, 4));
        CHECK_INT(arg_max(top), arg_max(whole));
    }
    tear_down();
}

/* Returns how many logits of `whole` are less than the greatest, but equal it after the soft cap. */
static int ties(float cap) {
    int n = 0;
    float most = -INFINITY;
    for (uint32_t r = 0; r < fixture.plain.rows; r++) most = whole[r] > most ? whole[r] : most;
    for (uint32_t r = 0; r < fixture.plain.rows; r++)
        n += whole[r] != most && gw_capped(whole[r], cap) >= gw_capped(most, cap);
    return n;
}

/* Makes rows that differ from row 700 only in the lowest bit of some quants: their logits are slightly less or
 * greater. */
static void close_rows(uint32_t first, uint32_t last) {
    for (uint32_t r = first; r < last; r++) {
        copy_row(r, 700);
        for (uint32_t b = 0; b < WIDTH / 32; b++) block_of(r, b)[2 + random_bits() % 32] ^= 1;
    }
}

THREADED_TEST(top_finds_the_lowest_id_of_those_that_a_cap_makes_equal) {
    static const float sizes[] = { 0.01f, 0.5f, 1, 2, 3, 5, 100 };
    int equal = 0;
    set_up(MOST_ROWS, WIDTH, 3);
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int round = 0; round < 3; round++) {
            if (TSAN_LEAVES_OUT(i) || TSAN_LEAVES_OUT(round)) continue;
            random_rows(0.5f);
            random_x(1);
            aim_row(700, 1);
            close_rows(20, 40), close_rows(701, 720), close_rows(2990, MOST_ROWS);
            pack();
            product(&fixture.plain, 1, whole);
            float cap = whole[700] / sizes[i];
            equal += ties(cap);
            check_capped("capped", cap);
        }
    CHECK(TSAN_LEAVES_OUT(1) || equal > 100);
    tear_down();
}

/* If several logits reach the soft cap, the first of them wins, not the greatest. */
THREADED_TEST(top_at_the_cap_is_the_first_row_that_comes_there) {
    set_up(MOST_ROWS, WIDTH, 2);
    random_rows(0.001f);
    random_x(1);
    aim_row(2000, 1), aim_row(900, 0.7f), aim_row(30, 0.5f);
    pack();
    check_capped("at the cap", 0.5f);
    CHECK_INT(arg_max(top), 30);
    CHECK(top[30] == 0.5f && top[2000] == 0.5f);
    check_top("no cap");
    CHECK_INT(arg_max(top), 2000);
    tear_down();
}

THREADED_TEST(top_excludes_as_much_with_a_cap) {
    set_up_random(2);
    aim_row(1234, 320.0f / WIDTH);
    pack();
    CHECK(check_capped("one stands out", 30) <= 5);
    CHECK(top[1234] < 30 && top[1234] > 20);
    static const int32_t exact[] = { 8, 1235, 2999 }; /* row 1234 has the greatest logit and is in the panel of 1235 */
    product(&fixture.plain, 1, whole);
    gw_soft_cap(&fixture.ops, whole, MOST_ROWS, 30);
    gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 30, &(gw_topk){ 1, 3, exact, all_rows, NULL }, top);
    for (int i = 0; i < 3; i++) check_same(top + exact[i], whole + exact[i], 1, "asked for");
    tear_down();
}

THREADED_TEST(top_of_damaged_numbers_with_a_cap) {
    static const float values[] = { INFINITY, -INFINITY, 1e30f, 3e38f };
    set_up(1001, WIDTH, 2);
    random_rows(1);
    pack();
    for (size_t i = 0; i < COUNT(values); i++) {
        random_x(1);
        fixture.x[33] = values[i];
        product(&fixture.plain, 1, whole);
        gw_soft_cap(&fixture.ops, whole, 1001, 30);
        CHECK_INT(gw_matmul_topk(&fixture.ops, x_from(0, 1), &fixture.staged, 30, &(gw_topk){ .best = 1 }, top),
                  gw_ld(1001) / 4);
        for (int r = 0; r < 1001; r++) CHECK(isnan(whole[r]) ? isnan(top[r]) : top[r] == whole[r]);
    }
    tear_down();
}

THREADED_TEST(top_is_the_same_for_every_thread_count) {
    static float first[MOST_ROWS];
    for (int threads = 1; threads <= 5; threads++) {
        seed = 99;
        set_up_random(threads);
        aim_row(5, 0.3f);
        pack();
        check_top("threads");
        if (threads == 1) memcpy(first, top, sizeof first);
        check_same(top, first, MOST_ROWS, "threads");
        tear_down();
    }
}

enum { VOCAB = 901 };

/* Loads a model whose output matrix is in planes, which by default only a large matrix is. */
static rig start(int head, int threads) {
    tiny_config c = base;
    c.n_embd = 64, c.n_ctx = 200, c.n_vocab = VOCAB, c.head = head;
    return rig_with(&c, threads, 0, "output", "stages");
}

static int missing(gw_model *m) {
    int n = 0;
    for (int i = 0; i < VOCAB; i++) n += gw_logits(m)[i] == -INFINITY;
    return n;
}

static int generated(gw_model *m, int top, int32_t *out) {
    static const int32_t prompt[] = { 2, 17, 300, 5, 44 };
    int left_out = 0;
    CHECK(gw_sync(m, prompt, 5) >= 0);
    gw_want_top(m, top);
    for (int i = 0; i < 5; i++) gw_sampler_accept(gw_sampler_of(m), prompt[i]);
    for (int i = 0; i < STEPS; i++) {
        CHECK_INT(gw_run(m, 0), 0);
        left_out += missing(m);
        out[i] = gw_sampler_draw(gw_sampler_of(m), gw_logits(m));
        CHECK(out[i] >= 0);
        gw_sampler_accept(gw_sampler_of(m), out[i]);
        CHECK_INT(gw_append(m, out[i]), 0);
    }
    return left_out;
}

static void set(gw_model *m, const char *name, double value) { CHECK_INT(gw_set_option(m, name, value), 0); }

static void options(gw_model *m, int kind) {
    gw_sampler_reset(gw_sampler_of(m));
    set(m, "temperature", 0);
    if (kind == 1) set(m, "repetition_penalty", 1.3);
    if (kind == 2) set(m, "frequency_penalty", 0.7), set(m, "presence_penalty", -0.4);
    if (kind == 3)
        for (int id = 0; id < VOCAB; id += 90) CHECK_INT(gw_set_bias(m, id, id % 180 ? 30.0f : -INFINITY), 0);
    if (kind == 4)
        for (int id = 0; id < 300; id++)
            CHECK_INT(gw_set_bias(m, id, -0.5f), 0); /* 300 biases are more than GW_MOST_REQUIRED */
    if (kind < 5) return;
    set(m, "temperature", 1), set(m, "top_k", 20), set(m, "seed", 11);
    if (kind == 6) set(m, "repetition_penalty", 1.3), set(m, "min_p", 0.1);
    if (kind == 7) set(m, "typical_p", 0.7), set(m, "top_p", 1);
    if (kind == 8) set(m, "top_k", 0);  /* without top-k, the draw needs all logits */
    if (kind == 9) set(m, "top_k", 64); /* 64 is too many: more than half of the parts (topk.c) */
}

THREADED_TEST(top_ids_are_the_same_with_and_without) {
    for (int head = -1; head <= GW_Q8_0; head += GW_Q8_0 + 1)
        for (int kind = 0; kind <= 9; kind++) {
            if (TSAN_LEAVES_OUT(kind)) continue;
            int32_t all[STEPS], some[STEPS];
            scoped_rig a = start(head, 2), b = start(head, 3);
            options(a.m, kind), options(b.m, kind);
            CHECK_INT(generated(a.m, 0, all), 0);
            int left_out = generated(b.m, 1, some);
            CHECK(kind == 4 || kind >= 8 ? left_out == 0 : left_out > 0);
            for (int i = 0; i < STEPS; i++) CHECK_INT(some[i], all[i]);
        }
}

THREADED_TEST(top_all_logits_are_there_unless_few_are_needed) {
    int32_t ids[STEPS];
    scoped_rig e = start(-1, 2);
    options(e.m, 0);
    CHECK(generated(e.m, 1, ids) > 0);
    CHECK_INT(gw_sync(e.m, ids, 3), 0);
    CHECK_INT(gw_run(e.m, 0), 0);
    CHECK_INT(missing(e.m), 0); /* gw_sync cancelled gw_want_top() */
    gw_want_top(e.m, 1);
    set(e.m, "temperature", 0.5), set(e.m, "top_k", 0);
    CHECK_INT(gw_append(e.m, 7), 0);
    CHECK_INT(gw_run(e.m, 0), 0);
    CHECK_INT(missing(e.m), 0);
    set(e.m, "temperature", 0);
    CHECK_INT(gw_append(e.m, 7), 0);
    CHECK_INT(gw_run(e.m, 0), 0);
    CHECK(missing(e.m) > 0);
    CHECK(gw_sync(e.m, ids, 5) >= 0);
    gw_want_top(e.m, 1);
    gw_want_all(e.m, 1); /* gw_want_all() cancels gw_want_top() */
    for (int how; (how = gw_run(e.m, 0)) != 0;) CHECK_INT(missing(e.m), 0);
}

TEST(top_in_planes_takes_the_bytes_of_its_norms_more) {
    static const char *const how[] = { "auto", "whole", "stages" };
    double bytes[3];
    for (int i = 0; i < 3; i++) {
        tiny_config c = small;
        c.n_embd = 64, c.n_vocab = VOCAB, c.header_only = true;
        scoped_file f = tiny_make(&c);
        scoped_model *m = fresh(one_thread());
        feed_header(m, &f);
        CHECK_INT(gw_load_option(m, "output", how[i]), 0);
        bytes[i] = gw_plan_bytes(m, 0, "weights");
    }
    CHECK_NEAR(bytes[0], bytes[1], 0);
    CHECK_NEAR(bytes[2] - bytes[1], GW_NORMS * 904 * sizeof(float), 128);
}

THREADED_TEST(top_abort_leaves_nothing_behind) {
    int32_t before[STEPS], after[STEPS];
    scoped_rig e = start(-1, 2);
    options(e.m, 0);
    generated(e.m, 1, before);
    CHECK_INT(gw_append(e.m, 3), 0);
    *gw_abort_flag(e.m) = 1;
    CHECK_INT(gw_run(e.m, 0), GW_E_ABORTED);
    options(e.m, 0);
    generated(e.m, 1, after);
    for (int i = 0; i < STEPS; i++) CHECK_INT(after[i], before[i]);
}
