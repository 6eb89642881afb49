/* Tests attention: compares the SIMD kernels with the scalar reference kernels (ref.c), bit for bit, and the complete
 * operation with a softmax in double precision, for every type of cache. Checks that batches and threads do not change
 * a bit. */
#include "model/attention.h"
#include "scoped.h"
#include "test.h"

static uint64_t seed;

static float draw(void) { /* returns numbers in -1 .. 1, occasionally in -8 .. 8 */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float f = (float)(int32_t)(seed >> 32) / 2147483648.0f;
    return seed >> 26 & 63 ? f : f * 8;
}

#ifdef GW_HAVE_SIMD
#define TESTED(name) gw_simd_##name
enum { D = 72, STRIDE = D * 4 + 16 }; /* D = 72: the last block of a q8 cache row has 8 items */

static const struct {
    int type;
    gw_scores_kernel *scores[2];
    gw_mix_kernel *mix[2];
    gw_widen_kernel *widen[2];
} kernels[] = {
    { GW_KV_F32, { gw_ref_scores_f32, gw_simd_scores_f32 }, { gw_ref_mix_f32, gw_simd_mix_f32 }, { NULL, NULL } },
    { GW_KV_I16, { gw_ref_scores_i16, gw_simd_scores_i16 }, { gw_ref_mix_i16, gw_simd_mix_i16 }, { NULL, NULL } },
    { GW_KV_Q8,
      { gw_ref_scores_q8, gw_simd_scores_q8 },
      { gw_ref_mix_q8, gw_simd_mix_q8 },
      { gw_ref_widen_q8, gw_simd_widen_q8 } },
};

static void random_rows(uint8_t *keys, uint8_t *values, int type) {
    gw_kv_layer layer = {
        .k = keys, .v = values, .rows = GW_KEYS, .n_head = 1, .head_dim = D, .head = STRIDE, .type = type
    };
    float row[D];
    for (uint32_t j = 0; j < GW_KEYS; j++) {
        for (int i = 0; i < D; i++) row[i] = draw();
        gw_kv_store(&layer, j, row, row);
    }
}

/* Points q to GW_HEADS queries in the form that the cache type needs: quantised into `room`, or as floats. */
static void queries_of(int type, const float *in, uint8_t *room, const void **q) {
    for (int h = 0; h < GW_HEADS; h++) {
        q[h] = type == GW_KV_I16 ? room + h * GW_I16_BYTES(D) : (const void *)(in + (GW_HEADS - 1 - h) * D);
        if (type == GW_KV_I16) gw_kv_query(room + h * GW_I16_BYTES(D), in + (GW_HEADS - 1 - h) * D, D);
    }
}

static void same_kernels(int k, int heads, int n) {
    static uint8_t keys[GW_KEYS * STRIDE], values[GW_KEYS * STRIDE], room[GW_HEADS * STRIDE];
    float query[GW_HEADS * D], p[GW_HEADS * GW_SPAN], out[2][GW_HEADS * D], *at[2][GW_HEADS];
    float scores[2][GW_HEADS * GW_SPAN] = { { 0 } };
    const void *q[GW_HEADS];
    random_rows(keys, values, kernels[k].type);
    for (int i = 0; i < GW_HEADS * D; i++) query[i] = draw(), out[0][i] = out[1][i] = draw();
    for (int i = 0; i < GW_HEADS * GW_SPAN; i++) p[i] = fabsf(draw());
    queries_of(kernels[k].type, query, room, q);
    for (int s = 0; s < 2; s++) {
        for (int h = 0; h < GW_HEADS; h++) at[s][h] = out[s] + (h ^ 1) * D;
        kernels[k].scores[s](q, heads, keys, STRIDE, n, D, scores[s]);
        kernels[k].mix[s](p, heads, values, STRIDE, n, D, at[s]);
    }
    CHECK(!memcmp(scores[0], scores[1], sizeof scores[0]));
    CHECK(!memcmp(out[0], out[1], sizeof out[0]));
    if (!kernels[k].widen[0]) return;
    float wide[2][GW_KEYS * D];
    for (int s = 0; s < 2; s++) kernels[k].widen[s](keys, STRIDE, n, D, wide[s]);
    CHECK(!memcmp(wide[0], wide[1], (size_t)n * D * sizeof(float)));
}

TEST(attention_kernels_give_the_bits_of_the_specification) {
    for (int k = 0; k < 3; k++)
        for (int heads = 1; heads <= GW_HEADS; heads++)
            for (int n = 1; n <= GW_KEYS; n++) same_kernels(k, heads, n);
}

TEST(attention_weights_have_the_bits_of_gw_exp) {
    float in[GW_KEYS], a[GW_KEYS], b[GW_KEYS];
    for (int round = 0; round < 4000; round++) {
        int n = 1 + round % GW_KEYS;
        for (int j = 0; j < n; j++) in[j] = draw() * (round % 3 ? 1.0f : 40.0f);
        memcpy(a, in, sizeof a);
        memcpy(b, in, sizeof b);
        float sums[] = { gw_ref_weigh(a, n, 2.5f), gw_simd_weigh(b, n, 2.5f) };
        CHECK(!memcmp(a, b, (size_t)n * sizeof *a) && !memcmp(&sums[0], &sums[1], sizeof(float)));
    }
    float nan[5] = { 0, NAN, -1, -2, NAN };
    CHECK(isnan(gw_simd_weigh(nan, 5, 0)) && isnan(nan[1]) && isnan(nan[4]) && nan[0] == 1);
}

TEST(attention_caps_have_the_bits_of_the_specification) {
    float in[GW_SPAN], a[GW_SPAN], b[GW_SPAN];
    for (int round = 0; round < 4000; round++) {
        int n = 1 + round % GW_SPAN;
        for (int j = 0; j < n; j++) in[j] = draw() * (round % 3 ? 30.0f : 1e-3f);
        if (round % 5 == 0) in[0] = 0, in[n - 1] = -INFINITY, in[n / 2] = 1e38f;
        memcpy(a, in, sizeof a);
        memcpy(b, in, sizeof b);
        gw_ref_soft_cap(a, n, 50);
        gw_simd_soft_cap(b, n, 50);
        CHECK(!memcmp(a, b, (size_t)n * sizeof *a));
    }
    float nan[6] = { 0, NAN, -1, -2, 1, NAN };
    gw_simd_soft_cap(nan, 6, 50);
    CHECK(isnan(nan[1]) && isnan(nan[5]) && nan[0] == 0);
}
#else
#define TESTED(name) gw_ref_##name
#endif

/* Checks GW_CAP_ERROR, the bound on which exact greedy decoding relies, and that the soft cap is an odd function. */
TEST(attention_caps_are_near_tanh) {
    static const float caps[] = { 1, 30, 50 };
    double worst = 0;
    for (int c = 0; c < 3; c++)
        for (float u = 1e-30f; u < 1e30f; u *= u > 1e-4f && u < 12 ? 1.00001f : 1.3f) {
            float x = u * caps[c], got = gw_capped(x, caps[c]);
            worst = fmax(worst, fabs(got - caps[c] * tanh((double)x / caps[c])) / caps[c]);
            CHECK(gw_capped(-x, caps[c]) == -got && got <= caps[c]);
        }
    if (!(worst <= GW_CAP_ERROR))
        gw_test_fail(__FILE__, __LINE__, "error %g of the cap, at most %g", worst, GW_CAP_ERROR);
    CHECK(gw_capped(INFINITY, 30) == 30 && gw_capped(-INFINITY, 30) == -30 && isnan(gw_capped(NAN, 30)));
}

enum { MOST = 512, I16_BYTES = 2 * MOST + 16 };

typedef struct {
    uint8_t k[GW_KEYS * I16_BYTES], v[GW_KEYS * I16_BYTES], q[I16_BYTES];
} i16_rows;

typedef float item_fn(int j, int i);

static int int_at(const uint8_t *row, int i) {
    int16_t v;
    memcpy(&v, row + 2 * i, sizeof v);
    return v;
}

static double scale_at(const uint8_t *row, int d) {
    float f;
    memcpy(&f, row + 2 * d, sizeof f);
    return f;
}

static void fill(i16_rows *r, int d, item_fn *row, item_fn *query) {
    gw_kv_layer layer = { .k = r->k,
                          .v = r->v,
                          .rows = GW_KEYS,
                          .n_head = 1,
                          .head_dim = (uint32_t)d,
                          .head = (uint32_t)GW_I16_BYTES((size_t)d),
                          .type = GW_KV_I16 };
    float in[MOST];
    for (int i = 0; i < d; i++) in[i] = query(0, i);
    gw_kv_query(r->q, in, (uint32_t)d);
    for (int j = 0; j < GW_KEYS; j++) {
        for (int i = 0; i < d; i++) in[i] = row(j, i);
        gw_kv_store(&layer, (uint32_t)j, in, in);
    }
}

/* Checks that the integer sums of scores fit their lanes, and compares scores with double precision. Tolerance: six
 * float operations with a relative error of 2^-24 each, and half a step of rounding in stored rows. */
static void check_scores(const i16_rows *r, int d, int n, item_fn *row, item_fn *query) {
    float scores[2][GW_SPAN];
    const void *q = r->q;
    size_t stride = GW_I16_BYTES((size_t)d);
    gw_ref_scores_i16(&q, 1, r->k, stride, n, d, scores[0]);
    TESTED(scores_i16)(&q, 1, r->k, stride, n, d, scores[1]);
    CHECK(!memcmp(scores[0], scores[1], (size_t)n * sizeof(float)));
    for (int j = 0; j < n; j++) {
        const uint8_t *k = r->k + j * stride;
        int64_t lane[GW_I16_LANES] = { 0 };
        double steps[] = { scale_at(k, d) * 0.501, scale_at(r->q, d) * 0.501 }, exact = 0, apart = 0, size = 0;
        for (int i = 0; i < d; i++) {
            lane[i / 2 % GW_I16_LANES] += (int64_t)int_at(k, i) * int_at(r->q, i);
            exact += (double)row(j, i) * query(0, i);
            apart += steps[0] * fabs(query(0, i)) + steps[1] * fabs(row(j, i)) + steps[0] * steps[1];
        }
        for (int l = 0; l < GW_I16_LANES; l++) {
            CHECK(llabs(lane[l]) <= INT32_MAX);
            size += (double)llabs(lane[l]);
        }
        double scale = scale_at(k, d) * scale_at(r->q, d), total = (double)(lane[0] + lane[1] + lane[2] + lane[3]);
        CHECK_NEAR(scores[1][j], total * scale, 6 * 0x1p-24 * size * scale);
        CHECK_NEAR(scores[1][j], exact, apart + 6 * 0x1p-24 * size * scale);
    }
}

/* Compares weighted sums of rows with double precision. Tolerance: half a step of rounding in each weight, and float
 * operations with a relative error of 2^-24. */
static void check_mix(const i16_rows *r, int d, int n, const float *p) {
    float out[2][MOST], *at[] = { out[0], out[1] };
    double w[GW_KEYS], largest = 0, all = 0;
    size_t stride = GW_I16_BYTES((size_t)d);
    for (int i = 0; i < d; i++) out[0][i] = out[1][i] = 0.25f;
    gw_ref_mix_i16(p, 1, r->v, stride, n, d, &at[0]);
    TESTED(mix_i16)(p, 1, r->v, stride, n, d, &at[1]);
    CHECK(!memcmp(out[0], out[1], (size_t)d * sizeof(float)));
    for (int j = 0; j < n; j++) {
        w[j] = p[j] * scale_at(r->v + j * stride, d);
        largest = fmax(largest, w[j]);
        all += w[j];
    }
    double step = fmax(fmax(largest / 32767, all / 65500) * (1 + 1e-6), (double)GW_TINY * 2 * GW_I16_TOP);
    for (int i = 0; i < d; i++) {
        double exact = 0.25, apart = 0, size = 0.25;
        for (int j = 0; j < n; j++) {
            double v = int_at(r->v + j * stride, i);
            exact += w[j] * v;
            apart += step * 0.5 * fabs(v);
            size += fabs(w[j] * v);
        }
        CHECK_NEAR(out[1][i], exact, apart + 20 * 0x1p-24 * size);
    }
}

static float ones(int j, int i) { return (void)j, (void)i, 1.0f; }
static float signs(int j, int i) { return (i + j) % 2 ? -3.0f : 3.0f; }
static float spike(int j, int i) { return (i * 7 + j) % 64 == 5 ? 100.0f : 0.01f; }
static float waves(int j, int i) { return sinf((float)(i * 3 + j * 11)); }
static float large(int j, int i) { return waves(j, i) * 1e9f; }
static float small(int j, int i) { return j % 2 ? 0 : waves(j, i) * 1e-9f; }

TEST(attention_by_integers_is_near_double_at_every_limit) {
    static item_fn *const items[] = { ones, signs, spike, waves, large, small };
    static const int sizes[] = { 8, 24, 72, 256, MOST }, counts[] = { 1, 2, 31, 32 };
    enum { ITEMS = COUNT(items), SIZES = 5, COUNTS = 4, WEIGHTS = 6 };
    static i16_rows r;
    for (int at = 0; at < ITEMS * ITEMS * SIZES; at++) {
        item_fn *row = items[at % ITEMS], *query = items[at / ITEMS % ITEMS];
        int d = sizes[at / ITEMS / ITEMS];
        fill(&r, d, row, query);
        for (int c = 0; c < COUNTS; c++) check_scores(&r, d, counts[c], row, query);
        for (int c = 0; c < COUNTS * WEIGHTS && query == ones; c++) {
            float p[GW_SPAN];
            for (int j = 0; j < GW_KEYS; j++) {
                float of[WEIGHTS] = { 1, j == 3, j ? 1e-6f : 1, 1.0f / (float)(1 + j), expf((float)-j), 1e-35f };
                p[j] = of[c / COUNTS];
            }
            check_mix(&r, d, counts[c % COUNTS], p);
        }
    }
}

/* Integer sums of i16 rows come close to 2^31: if norms or weights were a thousandth larger, lanes would overflow. */
TEST(attention_by_integers_uses_all_of_a_lane) {
    static i16_rows r;
    float p[GW_SPAN];
    fill(&r, MOST, ones, ones);
    double lane = (double)int_at(r.k, 0) * int_at(r.q, 0) * MOST / GW_I16_LANES;
    CHECK(lane <= INT32_MAX && lane > INT32_MAX * 0.999);
    check_scores(&r, MOST, GW_KEYS, ones, ones);
    for (int above = 0; above < 400; above++) { /* in some rounds nearly all weights are rounded up */
        for (int j = 0; j < GW_KEYS; j++) p[j] = j ? 1 : 1 + (float)above * 1e-5f;
        check_mix(&r, MOST, GW_KEYS, p);
    }
    CHECK((GW_I16_SUM + GW_KEYS / 2 + 1) * (double)GW_I16_TOP <= INT32_MAX);
}

enum { MAX_POS = 1200, LENGTH = 290, TAIL = 40, MAX_WIDTH = GW_MAX_HEAD_DIM, WINDOW = 150, BATCH = 64 };

/* Heads of an attention test. `length` is 0 for causal attention, else the length of a bidirectional text. */
typedef struct {
    int n_head, n_head_kv, head_dim;
    uint32_t window, length;
    float cap;
} shape;

static gw_heads heads_of(const shape *s) {
    uint32_t window = s->window ? s->window : UINT32_MAX;
    gw_heads h = { s->n_head, s->n_head_kv, s->head_dim, window - 1, 0, UINT32_MAX, s->cap };
    if (s->length) h.before = h.after = window / 2, h.last = s->length - 1;
    return h;
}

typedef struct {
    shape shape;
    gw_heads heads;
    gw_ops ops;
    gw_kv kv;
    gw_kv_memory memory;
    void *block;
    size_t ldq, ldk;
    float *q, *k, *v, *out; /* [MAX_POS][ld] */
} rig;

static void take(rig *r, int type, gw_pool *pool, gw_arena *a) {
    /* For a bidirectional text, the KV cache holds all positions, whatever the window. */
    gw_layer_shape layer = { .n_head_kv = (uint32_t)r->shape.n_head_kv,
                             .head_dim = (uint32_t)r->shape.head_dim,
                             .window = r->shape.length ? 0 : r->shape.window };
    gw_kv_memory_init(&r->memory, (gw_kv_shape){ 1, MAX_POS, r->shape.window, BATCH, &layer, type }, 1, 0, a);
    gw_kv_init(&r->kv, &r->memory, a);
    gw_ops_init(&r->ops, pool, 1, 32, gw_attention_partials(r->heads, MAX_POS), a);
    float **planes[] = { &r->q, &r->out, &r->k, &r->v };
    for (int i = 0; i < 4; i++) *planes[i] = gw_arena_take(a, MAX_POS * (i < 2 ? r->ldq : r->ldk) * sizeof(float));
}

static void rig_init(rig *r, shape h, int type, int threads, uint32_t length) {
    gw_arena a = { 0 };
    gw_pool *pool = gw_pool_new(threads);
    size_t ldq = gw_ld((size_t)h.n_head * h.head_dim), ldk = gw_ld((size_t)h.n_head_kv * h.head_dim);
    *r = (rig){ .shape = h, .heads = heads_of(&h), .ldq = ldq, .ldk = ldk };
    take(r, type, pool, &a);
    a = (gw_arena){ .base = gw_alloc(a.used), .size = a.used };
    CHECK(a.base);
    r->block = a.base;
    memset(a.base, 0xff, a.size); /* memory of NaN detects reads of invisible positions */
    take(r, type, pool, &a);
    seed = 7;
    for (size_t i = 0; i < length * r->ldq; i++) r->q[i] = draw();
    for (size_t i = 0; i < length * r->ldk; i++) r->k[i] = draw(), r->v[i] = draw();
}

static void rig_free(rig *r) {
    gw_pool_free(r->ops.pool);
    gw_free(r->block);
}
#define scoped_rig SCOPED(rig_free) rig

static void store(rig *r, uint32_t pos, uint32_t n) {
    CHECK(gw_kv_reserve(&r->kv, n));
    for (uint32_t p = pos; p < pos + n; p++) gw_kv_store(r->kv.layers, p, r->k + p * r->ldk, r->v + p * r->ldk);
}

static gw_attention_part part_of(const rig *r, uint32_t pos, uint32_t n) {
    return (gw_attention_part){ r->heads, r->kv.layers[0], pos, (int)n, r->q + pos * r->ldq, r->out + pos * r->ldq };
}

/* Stores positions [0, from) in full batches without evaluating them, and evaluates positions [from, n) in batches of
 * `batch` rows. A batch of an odd number of rows has two parts. */
static void run(rig *r, uint32_t n, uint32_t from, uint32_t batch) {
    if (r->shape.length) store(r, 0, r->shape.length);
    for (uint32_t pos = 0, rows; pos < n; pos += rows) {
        rows = pos < from ? (uint32_t)gw_min(BATCH, from - pos) : (uint32_t)gw_min(batch, n - pos);
        uint32_t first = rows % 2 ? (rows + 1) / 2 : rows;
        gw_attention_part parts[] = { part_of(r, pos, first), part_of(r, pos + first, rows - first) };
        if (!r->shape.length) store(r, pos, rows);
        if (pos >= from) gw_attention(&r->ops, parts, first < rows ? 2 : 1, r->ldq);
        gw_kv_advance(&r->kv, rows);
    }
}

static bool is_visible(const shape *h, uint32_t from, uint32_t pos) {
    int64_t before = (int64_t)from - pos;
    if (h->length) return pos < h->length && (!h->window || llabs(before) <= h->window / 2);
    return before >= 0 && (!h->window || before < h->window);
}

static void truth(const rig *r, uint32_t pos, int head, double *out) {
    int d = r->heads.head_dim;
    size_t of_kv = (size_t)(head / (r->heads.n_head / r->heads.n_head_kv)) * d;
    double total = 0;
    memset(out, 0, d * sizeof *out);
    for (uint32_t p = 0; p < LENGTH; p++) {
        double score = 0;
        if (!is_visible(&r->shape, pos, p)) continue;
        const float *q = r->q + pos * r->ldq + (size_t)head * d, *k = r->k + p * r->ldk + of_kv;
        for (int i = 0; i < d; i++) score += (double)q[i] * k[i];
        if (r->heads.cap > 0) score = r->heads.cap * tanh(score / r->heads.cap);
        double weight = exp(score - 40);
        total += weight;
        for (int i = 0; i < d; i++) out[i] += weight * r->v[p * r->ldk + of_kv + i];
    }
    for (int i = 0; i < d; i++) out[i] /= total;
}

static double error_of(const rig *r, uint32_t n) {
    double out[MAX_WIDTH], worst = 0;
    for (uint32_t pos = n - 1; pos < n; pos -= 17)
        for (int head = 0; head < r->heads.n_head; head++) {
            truth(r, pos, head, out);
            const float *got = r->out + pos * r->ldq + (size_t)head * r->heads.head_dim;
            for (int i = 0; i < r->heads.head_dim; i++) {
                double e = fabs(got[i] - out[i]);
                if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
            }
        }
    return worst;
}

/* Tolerated error of each KV cache type. Inputs are about 1, their products with a query about 1 to 10. */
static const double tolerance[GW_KV_TYPES] = { 6e-2, 2e-5, 6e-2, 4e-1 };
static const shape shapes[] = {
    { 4, 1, 24, 0, 0, 0 },
    { 4, 1, 24, WINDOW, 0, 0 },
    { 6, 3, 8, WINDOW, 0, 0 },
    { 3, 1, 40, 0, 0, 0 },
    { 20, 1, 8, WINDOW, 0, 0 },
    { 34, 2, 8, 0, 0, 0 },
    { 1, 1, 72, WINDOW, 0, 0 },
    { 2, 2, 16, 1, 0, 0 },
    { 3, 3, 64, 0, 0, 0 },
    { 2, 1, 80, 0, 0, 0 },
    { 4, 2, 96, WINDOW, 0, 0 },
    { 4, 2, 16, 0, 0, 5 },
    { 4, 2, 24, WINDOW, 0, 50 },
    { 3, 1, 8, 1, 0, 2 }, /* a case with a soft cap, as in Gemma 2 */
    { 3, 1, 16, 0, LENGTH, 0 },
    { 3, 1, 16, WINDOW, LENGTH, 0 },
    { 6, 2, 8, 3, LENGTH, 4 }, /* a bidirectional text with a soft cap */
    { 2, 1, 8, 2 * LENGTH, LENGTH, 0 },
    { 4, 4, 8, 1, LENGTH, 0 },
};

static void same_from(const rig *whole, uint32_t length, uint32_t from, uint32_t batch, int threads) {
    scoped_rig r;
    int type = whole->kv.layers[0].type;
    rig_init(&r, whole->shape, type, threads, length);
    run(&r, length, from, batch);
    for (size_t i = from * r.ldq; i < length * r.ldq; i++)
        if (memcmp(&r.out[i], &whole->out[i], sizeof(float)))
            gw_test_fail(__FILE__, __LINE__, "%d heads, type %d, %u at once, %d threads, item %zu: %.9g and %.9g",
                         r.heads.n_head, type, batch, threads, i, r.out[i], whole->out[i]);
}

static const struct {
    uint32_t from, batch;
    int threads;
} ways[] = { { LENGTH - TAIL, 1, 1 },
             { LENGTH - TAIL, 1, 2 },
             { LENGTH - TAIL, 5, 3 },
             { 0, 64, 1 },
             { LENGTH - TAIL, 7, 1 },
             { LENGTH - TAIL, 1, 3 },
             { 0, 64, 3 } };

THREADED_TEST(attention_is_the_softmax_and_the_same_bits_by_any_batch_and_threads) {
    enum { SHAPES = COUNT(shapes), WAYS = COUNT(ways) };
    for (int s = 0; s < SHAPES; s++)
        for (int type = 0; type < GW_KV_TYPES; type++) {
            if (TSAN_LEAVES_OUT(s + type)) continue;
            int way = (s + type) % WAYS;
            scoped_rig r;
            rig_init(&r, shapes[s], type, 2, LENGTH);
            run(&r, LENGTH, 0, BATCH);
            double error = error_of(&r, LENGTH);
            if (!(error <= tolerance[type]))
                gw_test_fail(__FILE__, __LINE__, "shape %d, type %d: error %g, at most %g", s, type, error,
                             tolerance[type]);
            same_from(&r, LENGTH, ways[way].from, ways[way].batch, ways[way].threads);
        }
}

/* In a text of MAX_POS tokens, several threads attend to spans of the text and merge their results. */
THREADED_TEST(attention_far_into_a_text_is_the_same_by_any_batch_and_threads) {
    scoped_rig r;
    rig_init(&r, shapes[0], GW_KV_AUTO, 2, MAX_POS);
    run(&r, MAX_POS, MAX_POS - TAIL, BATCH);
    same_from(&r, MAX_POS, MAX_POS - TAIL, 1, 2);
    same_from(&r, MAX_POS, MAX_POS - TAIL, 5, 3);
}

/* Evaluates the largest queries, as many as one work item can hold. */
THREADED_TEST(attention_of_the_largest_heads) {
    enum { FEW = 20 };
    for (int type = 0; type < GW_KV_TYPES; type++) {
        scoped_rig r;
        rig_init(&r, (shape){ 16, 1, GW_MAX_HEAD_DIM, WINDOW, 0, 0 }, type, 2, FEW);
        /* Smaller queries keep the scores of these large heads as small as those of other heads. */
        for (size_t i = 0; i < FEW * r.ldq; i++) r.q[i] *= 0.2f;
        run(&r, FEW, 0, BATCH);
        double error = error_of(&r, FEW);
        if (!(error <= tolerance[type])) gw_test_fail(__FILE__, __LINE__, "type %d: error %g", type, error);
    }
}

THREADED_TEST(attention_by_integers_keeps_nan) {
    enum { AT = LENGTH - 20 };
    for (int side = 0; side < 3; side++)
        for (uint32_t batch = 1; batch <= 5; batch += 4) {
            scoped_rig r;
            rig_init(&r, shapes[0], GW_KV_I16, 2, LENGTH);
            float *planes[] = { r.q + AT * r.ldq, r.k + AT * r.ldk, r.v + AT * r.ldk };
            planes[side][3] = NAN;
            run(&r, LENGTH, LENGTH - TAIL, batch);
            for (uint32_t pos = LENGTH - TAIL; pos < LENGTH; pos++)
                CHECK_INT(isnan(r.out[pos * r.ldq + 5]) != 0, side ? pos >= AT : pos == AT);
        }
}
