/* Attention: the SIMD kernels against the scalar specification, bit for bit; the whole against a softmax in double,
 * for every type of cache; and that neither batch nor threads change a bit. */
#include "ops.h"
#include "test.h"

static uint64_t seed;

static float draw(void) {   /* -1 .. 1, now and then a large one */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float f = (float)(int32_t)(seed >> 32) / 2147483648.0f;
    return seed >> 26 & 63 ? f : f * 8;
}

#ifdef GW_HAVE_SIMD
enum { D = 72, STRIDE = D * 4 + 16 };   /* a last block of 8 in q8 */

static const struct {
    int type;
    gw_scores_kernel *scores[2];
    gw_mix_kernel *mix[2];
    gw_widen_kernel *widen[2];
} kernels[] = {
    { GW_KV_F32, { gw_ref_scores_f32, gw_simd_scores_f32 }, { gw_ref_mix_f32, gw_simd_mix_f32 }, { NULL, NULL } },
    { GW_KV_I16, { gw_ref_scores_i16, gw_simd_scores_i16 }, { gw_ref_mix_i16, gw_simd_mix_i16 }, { NULL, NULL } },
    { GW_KV_Q8, { gw_ref_scores_q8, gw_simd_scores_q8 }, { gw_ref_mix_q8, gw_simd_mix_q8 },
      { gw_ref_widen_q8, gw_simd_widen_q8 } },
};

static void random_rows(uint8_t *plane, int type) {
    gw_kv_layer layer = { plane, plane, GW_KEYS, STRIDE, type };
    gw_kv kv = { .shape = { .n_head_kv = 1, .head_dim = D }, .layers = &layer };
    float row[D];
    for (uint32_t j = 0; j < GW_KEYS; j++) {
        for (int i = 0; i < D; i++) row[i] = draw();
        gw_kv_store(&kv, 0, j, row, row);
    }
}

/* Queries as the type wants them, in `room` or as they are. */
static void queries_of(int type, const float *in, uint8_t *room, const void **q) {
    for (int h = 0; h < GW_HEADS; h++) {
        q[h] = type == GW_KV_I16 ? room + h * gw_i16_bytes(D) : (const void *)(in + (GW_HEADS - 1 - h) * D);
        if (type == GW_KV_I16) gw_kv_query(room + h * gw_i16_bytes(D), in + (GW_HEADS - 1 - h) * D, D);
    }
}

static void same_kernels(int k, int heads, int n) {
    static uint8_t rows[GW_KEYS * STRIDE], room[GW_HEADS * STRIDE];
    float query[GW_HEADS * D], p[GW_HEADS * GW_SPAN], out[2][GW_HEADS * D], *at[2][GW_HEADS];
    float scores[2][GW_HEADS * GW_SPAN] = { { 0 } };
    const void *q[GW_HEADS];
    random_rows(rows, kernels[k].type);
    for (int i = 0; i < GW_HEADS * D; i++) query[i] = draw(), out[0][i] = out[1][i] = draw();
    for (int i = 0; i < GW_HEADS * GW_SPAN; i++) p[i] = fabsf(draw());
    queries_of(kernels[k].type, query, room, q);
    for (int s = 0; s < 2; s++) {
        for (int h = 0; h < GW_HEADS; h++) at[s][h] = out[s] + (h ^ 1) * D;
        kernels[k].scores[s](q, heads, rows, STRIDE, n, D, scores[s]);
        kernels[k].mix[s](p, heads, rows, STRIDE, n, D, at[s]);
    }
    CHECK(!memcmp(scores[0], scores[1], sizeof scores[0]));
    CHECK(!memcmp(out[0], out[1], sizeof out[0]));
    if (!kernels[k].widen[0]) return;
    float wide[2][GW_KEYS * D];
    for (int s = 0; s < 2; s++) kernels[k].widen[s](rows, STRIDE, n, D, wide[s]);
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
#endif

/* --- the whole --- */

enum { MAX_POS = 1200, LENGTH = 290, TAIL = 40, MAX_WIDTH = 160, WINDOW = 150, BATCH = 64 };

typedef struct {
    gw_heads heads;
    gw_ops ops;
    gw_kv kv;
    void *block;
    size_t ldq, ldk;
    float *q, *k, *v, *out;   /* [MAX_POS][ld] */
} rig;

static void take(rig *r, int type, uint32_t window, gw_pool *pool, gw_arena *a) {
    static const uint8_t all[1] = { 1 }, none[1] = { 0 };
    uint32_t heads = (uint32_t)r->heads.n_head_kv, d = (uint32_t)r->heads.head_dim;
    gw_kv_init(&r->kv, (gw_kv_shape){ 1, MAX_POS, window, BATCH, heads, d, window ? none : all, type }, a);
    gw_ops_init(&r->ops, pool, 1, 32, gw_attention_partials(r->heads, MAX_POS), a);
    float **planes[] = { &r->q, &r->out, &r->k, &r->v };
    for (int i = 0; i < 4; i++) *planes[i] = gw_arena_take(a, MAX_POS * (i < 2 ? r->ldq : r->ldk) * sizeof(float));
}

static void rig_init(rig *r, gw_heads h, int type, int threads, uint32_t length) {
    gw_arena a = { 0 };
    gw_pool *pool = gw_pool_new(threads);
    size_t ldq = gw_ld((size_t)h.n_head * h.head_dim), ldk = gw_ld((size_t)h.n_head_kv * h.head_dim);
    *r = (rig){ .heads = h, .ldq = ldq, .ldk = ldk };
    take(r, type, h.window, pool, &a);
    a = (gw_arena){ .base = gw_alloc(a.used), .size = a.used };
    CHECK(a.base);
    r->block = a.base;
    memset(a.base, 0xff, a.size);   /* NaN: what is not visible must not be touched */
    take(r, type, h.window, pool, &a);
    seed = 7;
    for (size_t i = 0; i < length * r->ldq; i++) r->q[i] = draw();
    for (size_t i = 0; i < length * r->ldk; i++) r->k[i] = draw(), r->v[i] = draw();
}

static void rig_free(rig *r) {
    gw_pool_free(r->ops.pool);
    gw_free(r->block);
}

/* The positions before `at` in whole batches, those from there on `batch` at once. */
static void run(rig *r, uint32_t n, uint32_t at, uint32_t batch) {
    for (uint32_t pos = 0, rows; pos < n; pos += rows) {
        rows = pos < at ? (uint32_t)gw_min(BATCH, at - pos) : (uint32_t)gw_min(batch, n - pos);
        gw_kv_reserve(&r->kv, rows);
        for (uint32_t p = pos; p < pos + rows; p++) gw_kv_store(&r->kv, 0, p, r->k + p * r->ldk, r->v + p * r->ldk);
        gw_attention(&r->ops, r->heads, &r->kv.layers[0], pos, r->q + pos * r->ldq, r->ldq, (int)rows,
                     r->out + pos * r->ldq);
        gw_kv_advance(&r->kv, rows);
    }
}

/* What attention gives for one head at one position, from keys and values as they were, in double. */
static void truth(const rig *r, uint32_t pos, int head, double *out) {
    int d = r->heads.head_dim;
    size_t of_kv = (size_t)(head / (r->heads.n_head / r->heads.n_head_kv)) * d;
    uint32_t first = r->heads.window && pos >= r->heads.window ? pos - r->heads.window + 1 : 0;
    double total = 0;
    memset(out, 0, d * sizeof *out);
    for (uint32_t p = first; p <= pos; p++) {
        double score = 0;
        const float *q = r->q + pos * r->ldq + (size_t)head * d, *k = r->k + p * r->ldk + of_kv;
        for (int i = 0; i < d; i++) score += (double)q[i] * k[i];
        double weight = exp(score - 40);
        total += weight;
        for (int i = 0; i < d; i++) out[i] += weight * r->v[p * r->ldk + of_kv + i];
    }
    for (int i = 0; i < d; i++) out[i] /= total;
}

/* Largest error of any item, at some positions. */
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

/* By type; inputs are about 1, their products with a query about 1 to 10. */
static const double tolerance[GW_KV_TYPES] = { 6e-2, 2e-5, 6e-2, 4e-1 };
static const gw_heads shapes[] = {
    { 4, 1, 24, 0 }, { 4, 1, 24, WINDOW }, { 6, 3, 8, WINDOW }, { 3, 1, 40, 0 }, { 20, 1, 8, WINDOW }, { 34, 2, 8, 0 },
    { 1, 1, 72, WINDOW }, { 2, 2, 16, 1 },
};

TEST(attention_is_the_softmax_whatever_the_type) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int type = 0; type < GW_KV_TYPES; type++) {
            rig r;
            rig_init(&r, shapes[s], type, 2, LENGTH);
            run(&r, LENGTH, 0, BATCH);
            double error = error_of(&r, LENGTH);
            if (!(error <= tolerance[type]))
                gw_test_fail(__FILE__, __LINE__, "shape %zu, type %d: error %g, at most %g", s, type, error,
                             tolerance[type]);
            rig_free(&r);
        }
}

static void same_by(gw_heads heads, int type, uint32_t length, uint32_t batch, int threads) {
    rig whole, r;
    rig_init(&whole, heads, type, 2, length);
    rig_init(&r, heads, type, threads, length);
    run(&whole, length, 0, BATCH);
    run(&r, length, length - TAIL, batch);
    for (size_t i = 0; i < length * r.ldq; i++)
        if (memcmp(&r.out[i], &whole.out[i], sizeof(float)))
            gw_test_fail(__FILE__, __LINE__, "%d heads, type %d, %u at once, %d threads, item %zu: %.9g and %.9g",
                         heads.n_head, type, batch, threads, i, r.out[i], whole.out[i]);
    rig_free(&whole);
    rig_free(&r);
}

TEST(attention_by_any_batch_and_threads_gives_the_same_bits) {
    enum { WAYS = 6 };
    static const struct { uint32_t batch; int threads; } ways[WAYS] = {
        { 1, 1 }, { 1, 2 }, { 5, 3 }, { 64, 1 }, { 7, 1 }, { 1, 3 } };
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        for (int type = 0; type < GW_KV_TYPES; type++)
            same_by(shapes[s], type, LENGTH, ways[(s + type) % WAYS].batch, ways[(s + type) % WAYS].threads);
    same_by(shapes[0], GW_KV_AUTO, MAX_POS, 1, 2);   /* so many spans that threads share their merging */
}
