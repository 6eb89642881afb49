/* Tests the sampler: cases with the expected values of llama.cpp's tests/test-sampling.cpp, then its own guarantees. */
#include "base/hash.h"
#include "run/state.h"
#include "scoped.h"
#include "test.h"

enum { MOST = 16384 };

static gw_error error;
static int32_t ids[MOST];
static double p[MOST];

static void set(gw_sampler *s, const char *name, double value) {
    if (gw_sampler_set(s, name, value, &error))
        gw_test_fail(__FILE__, __LINE__, "%s = %g: %s", name, value, error.what);
}

/* Returns a sampler for n tokens with every cut (top-k, top-p and others) disabled. */
static gw_sampler *plain(uint32_t n) {
    gw_sampler *s = gw_sampler_new(n);
    CHECK(s != NULL);
    set(s, "top_k", 0);
    set(s, "top_p", 1);
    return s;
}

/* Returns logits with a bell-shaped distribution: scaled sums of four uniform numbers. */
static float *bell(uint32_t n, uint64_t seed, double scale) {
    float *x = malloc(n * sizeof *x);
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) sum += (double)(splitmix(&seed) >> 11) * 0x1p-53 - 0.5;
        x[i] = (float)(sum * scale);
    }
    return x;
}

/* Checks the probability of each token. `expected` is 0 for tokens that do not survive the cuts. */
static void check_case(int line, gw_sampler *s, size_t n, const float *probabilities, const float *expected) {
    float logits[8];
    double got[8] = { 0 };
    for (size_t i = 0; i < n; i++) logits[i] = logf(probabilities[i]);
    int m = gw_sampler_distribution(s, logits, ids, p, MOST);
    for (int i = 0; i < m; i++) {
        got[ids[i]] = p[i];
        if (i && p[i] > p[i - 1]) gw_test_fail(__FILE__, line, "not best first");
    }
    for (size_t i = 0; i < n; i++)
        if (fabs(got[i] - expected[i]) > 1e-5)
            gw_test_fail(__FILE__, line, "token %zu: expected %g, got %g", i, expected[i], got[i]);
    gw_sampler_free(s);
}

static const float rising[] = { 0.1f, 0.2f, 0.3f, 0.4f };

static void check_option(int line, const char *name, double value, float a, float b, float c, float d) {
    gw_sampler *s = plain(4);
    set(s, name, value);
    check_case(line, s, 4, rising, (float[]){ a, b, c, d });
}
#define CASE(name, value, a, b, c, d) check_option(__LINE__, name, value, a, b, c, d)

TEST(sampler_llama_temperature) {
    CASE("temperature", 1, 0.1f, 0.2f, 0.3f, 0.4f);
    CASE("temperature", 0, 0, 0, 0, 1);
}

TEST(sampler_llama_top_k) {
    CASE("top_k", 1, 0, 0, 0, 1);
    CASE("top_k", 3, 0, 0.22222f, 0.33333f, 0.44444f);
    CASE("top_k", 4, 0.1f, 0.2f, 0.3f, 0.4f);
    CASE("top_k", 0, 0.1f, 0.2f, 0.3f, 0.4f);
}

TEST(sampler_llama_top_p) {
    CASE("top_p", 0, 0, 0, 0, 1);
    CASE("top_p", 0.7f, 0, 0, 0.428571f, 0.571429f);
    CASE("top_p", 0.8f, 0, 0.22222f, 0.33333f, 0.44444f);
    CASE("top_p", 1, 0.1f, 0.2f, 0.3f, 0.4f);
}

TEST(sampler_llama_min_p) {
    CASE("min_p", 0.00f, 0.1f, 0.2f, 0.3f, 0.4f);
    CASE("min_p", 0.24f, 0.1f, 0.2f, 0.3f, 0.4f);
    CASE("min_p", 0.26f, 0, 0.2f / 0.9f, 0.3f / 0.9f, 0.4f / 0.9f);
    CASE("min_p", 0.49f, 0, 0.2f / 0.9f, 0.3f / 0.9f, 0.4f / 0.9f);
    CASE("min_p", 0.51f, 0, 0, 0.3f / 0.7f, 0.4f / 0.7f);
    CASE("min_p", 0.74f, 0, 0, 0.3f / 0.7f, 0.4f / 0.7f);
    CASE("min_p", 0.76f, 0, 0, 0, 1);
    CASE("min_p", 1.00f, 0, 0, 0, 1);
}

TEST(sampler_llama_typical) {
    gw_sampler *s = plain(4);
    set(s, "typical_p", 0.5);
    check_case(__LINE__, s, 4, (float[]){ 0.97f, 0.01f, 0.01f, 0.01f }, (float[]){ 1, 0, 0, 0 });
    s = plain(4);
    set(s, "typical_p", 0.5);
    float third = 1 / 3.f; /* llama.cpp expects 0.2 for each of three tokens, here normalised */
    check_case(__LINE__, s, 4, (float[]){ 0.4f, 0.2f, 0.2f, 0.2f }, (float[]){ 0, third, third, third });
}

/* penalties: repetition, frequency, presence. */
static void check_penalties(int line, const char *accepted, const double penalties[3], const float expected[5]) {
    gw_sampler *s = plain(5);
    set(s, "penalty_window", (double)strlen(accepted));
    set(s, "repetition_penalty", penalties[0]);
    set(s, "frequency_penalty", penalties[1]);
    set(s, "presence_penalty", penalties[2]);
    for (const char *t = accepted; *t; t++) gw_sampler_accept(s, *t - '0');
    check_case(line, s, 5, (float[]){ 0.2f, 0.2f, 0.2f, 0.2f, 0.2f }, expected);
}

TEST(sampler_llama_penalties) {
    check_penalties(__LINE__, "0", (double[]){ 50, 0, 0 }, (float[]){ 0, 0.25f, 0.25f, 0.25f, 0.25f });
    check_penalties(__LINE__, "012", (double[]){ 50, 0, 0 }, (float[]){ 0, 0, 0, 0.5f, 0.5f });
    check_penalties(__LINE__, "01200", (double[]){ 50, 0, 0 }, (float[]){ 0, 0, 0, 0.5f, 0.5f });
    check_penalties(__LINE__, "0", (double[]){ 1, 5, 5 },
                    (float[]){ 0.000011f, 0.249997f, 0.249997f, 0.249997f, 0.249997f });
    check_penalties(__LINE__, "012", (double[]){ 1, 5, 5 },
                    (float[]){ 0.000023f, 0.000023f, 0.000023f, 0.499966f, 0.499966f });
    check_penalties(__LINE__, "01200", (double[]){ 1, 5, 5 },
                    (float[]){ 0, 0.000023f, 0.000023f, 0.499977f, 0.499977f });
}

/* Checks llama.cpp's chains of samplers, in this sampler's order, on 10,000 tokens with probabilities proportional to
 * their ids: the survivors are the ids from `least` on. */
static void check_queue(int line, int k, double top_p, double min_p) {
    enum { N = 10000 };
    static float logits[N];
    for (int i = 0; i < N; i++) logits[i] = logf((float)i);
    scoped_sampler *s = plain(N);
    set(s, "top_k", k);
    set(s, "top_p", top_p);
    set(s, "min_p", min_p);
    int least = k && k < N ? N - k : 1;
    double sum = 0, total = N * (N - 1) / 2.0 - least * (least - 1) / 2.0;
    if (top_p < 1) {
        least = N;
        do sum += --least;
        while (sum < ceil(top_p * total));
    }
    if (min_p > 0) least = (int)fmax(least, ceil(min_p * (N - 1)));
    int m = gw_sampler_distribution(s, logits, ids, p, MOST);
    if (m != N - least) gw_test_fail(__FILE__, line, "expected %d survivors, got %d", N - least, m);
    for (int i = 0; i < m; i++) CHECK_INT(ids[i], N - 1 - i);
}

TEST(sampler_llama_queue) {
    check_queue(__LINE__, 10000, 1, 0);
    check_queue(__LINE__, 1, 1, 0);
    check_queue(__LINE__, 100, 1, 0);
    check_queue(__LINE__, 5000, 1, 0); /* k is too large for the heap of top-k */
    check_queue(__LINE__, 0, 0, 0);
    check_queue(__LINE__, 0, 0.0003f, 0);
    check_queue(__LINE__, 0, 0.8f, 0);
    check_queue(__LINE__, 0, 1, 1);
    check_queue(__LINE__, 0, 1, 1e-12);
    check_queue(__LINE__, 0, 1, 9997.9f / 9999.0f);
    check_queue(__LINE__, 0, 1, 0.1f);
    check_queue(__LINE__, 100, 0.8f, 0);
    check_queue(__LINE__, 100, 1, 0.1f);
    check_queue(__LINE__, 0, 0.8f, 0.1f);
    check_queue(__LINE__, 0, 0.8f, 9997.9f / 9999.0f);
    check_queue(__LINE__, 100, 0.8f, 0.1f);
}

static const float *sorted_logits;

static int by_logit(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    float x = sorted_logits[i], y = sorted_logits[j];
    return x != y ? (x < y) - (x > y) : (i > j) - (i < j);
}

static int32_t *sorted(const float *x, uint32_t n) {
    int32_t *order = malloc(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++) order[i] = (int32_t)i;
    sorted_logits = x;
    qsort(order, n, sizeof *order, by_logit);
    return order;
}

static void check_prefix(const int32_t *order, int got, int expected) {
    CHECK_INT(got, expected);
    for (int i = 0; i < got && i < MOST; i++) CHECK_INT(ids[i], order[i]);
}

TEST(sampler_top_k_is_the_sorted_prefix) {
    enum { N = 14000 };
    uint32_t sizes[] = { N, 1000, 17, 2 };
    for (size_t a = 0; a < COUNT(sizes); a++) {
        uint32_t n = sizes[a];
        scoped_memory float *x = bell(n, a, 6);
        for (uint32_t i = 0; i < n; i++) x[i] = rintf(x[i] * 64) / 64;
        scoped_memory int32_t *order = sorted(x, n);
        scoped_sampler *s = plain(n);
        int ks[] = { 1, 2, 3, 16, 64, 999, 4096, 4097, 12000 };
        for (size_t b = 0; b < COUNT(ks); b++) {
            set(s, "top_k", ks[b]);
            int m = gw_sampler_distribution(s, x, ids, p, MOST);
            if ((uint32_t)ks[b] < n) check_prefix(order, m, ks[b]);
            else CHECK_INT(m, n);
        }
    }
}

TEST(sampler_top_p_is_the_sorted_prefix) {
    enum { N = 14000 };
    double scales[] = { 0, 0.5, 6, 20, 200 };
    for (size_t a = 0; a < COUNT(scales); a++) {
        scoped_memory float *x = bell(N, 5 + a, scales[a]);
        scoped_memory int32_t *order = sorted(x, N);
        double total = 0;
        for (int i = 0; i < N; i++) total += exp((double)x[order[i]] - x[order[0]]);
        scoped_sampler *s = plain(N);
        double ps[] = { 0.001, 0.1, 0.5, 0.9, 0.95, 0.999 };
        for (size_t b = 0; b < COUNT(ps); b++) {
            double have = 0;
            int expected = 0;
            while (expected < N && have < ps[b] * total) have += exp((double)x[order[expected++]] - x[order[0]]);
            set(s, "top_p", ps[b]);
            int m = gw_sampler_distribution(s, x, ids, p, MOST);
            CHECK(abs(m - expected) <= 1); /* the sampler adds floats in another order */
            check_prefix(order, m, m);
        }
    }
}

/* Under any combination of cuts, the survivors' probabilities add up to 1 and keep their ratios. */
TEST(sampler_probabilities_add_up) {
    enum { N = 12000 };
    scoped_memory float *x = bell(N, 3, 10);
    scoped_sampler *s = plain(N);
    const char *names[] = { "top_k", "top_p", "min_p", "typical_p", "temperature" };
    double values[] = { 500, 0.9, 0.01, 0.8, 0.7 };
    for (int mask = 0; mask < 32; mask++) {
        gw_sampler_reset(s);
        set(s, "top_k", 0);
        set(s, "top_p", 1);
        for (int i = 0; i < 5; i++)
            if (mask >> i & 1) set(s, names[i], values[i]);
        double sum = 0, temperature = mask >> 4 ? 0.7 : 1;
        int m = gw_sampler_distribution(s, x, ids, p, MOST);
        CHECK(m > 0 && m <= ((mask & 1) ? 500 : N));
        for (int i = 0; i < m; i++) {
            sum += p[i];
            CHECK_NEAR(log(p[0] / p[i]), ((double)x[ids[0]] - x[ids[i]]) / temperature, 1e-5);
        }
        CHECK_NEAR(sum, 1, 1e-9);
    }
}

/* Draws often and compares the counts with gw_sampler_distribution() by a chi-square test. Classes with fewer than 8
 * expected draws are merged. The limit is mean + 4 sigma, the seed is fixed. */
static void check_draws(int line, gw_sampler *s, const float *x, uint32_t n) {
    enum { DRAWS = 20000 };
    scoped_memory int *counts = calloc(n, sizeof *counts);
    double chi = 0, rest_expected = 0;
    int classes = 0, rest = 0, m = gw_sampler_distribution(s, x, ids, p, MOST), all = 0;
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = gw_sampler_draw(s, x);
        if (id < 0 || (uint32_t)id >= n) gw_test_fail(__FILE__, line, "drew %d", (int)id);
        counts[id]++;
    }
    for (int i = 0; i < m; i++) {
        double expected = p[i] * DRAWS;
        all += counts[ids[i]];
        if (expected < 8) {
            rest += counts[ids[i]];
            rest_expected += expected;
            continue;
        }
        chi += (counts[ids[i]] - expected) * (counts[ids[i]] - expected) / expected;
        classes++;
    }
    if (rest_expected >= 8) {
        chi += (rest - rest_expected) * (rest - rest_expected) / rest_expected;
        classes++;
    }
    double limit = classes - 1 + 4 * sqrt(2.0 * (classes > 1 ? classes - 1 : 1));
    if (all != DRAWS) gw_test_fail(__FILE__, line, "%d draws were of cut tokens", DRAWS - all);
    if (chi > limit) gw_test_fail(__FILE__, line, "chi-square %g in %d classes", chi, classes);
}

TEST(sampler_draws_follow_the_probabilities) {
    enum { N = 600 };
    scoped_memory float *x = bell(N, 11, 8);
    for (int i = 0; i < 6; i++) {
        scoped_sampler *s = plain(N);
        set(s, "seed", 1234 + i);
        if (i == 1) set(s, "top_k", 40);
        if (i == 2) set(s, "top_p", 0.8);
        if (i == 3) set(s, "min_p", 0.1);
        if (i == 4) set(s, "typical_p", 0.7);
        if (i == 5) set(s, "temperature", 2.5);
        check_draws(__LINE__, s, x, N);
    }
}

TEST(sampler_draws_of_all_with_gaps) {
    enum { N = 1500 }; /* some blocks of 512 logits have no possible token */
    scoped_memory float *x = bell(N, 12, 6);
    for (int i = 0; i < N; i++)
        if (i / 512 % 2 || i % 7 == 0) x[i] = -INFINITY;
    scoped_sampler *s = plain(N);
    check_draws(__LINE__, s, x, N);
}

TEST(sampler_seeds) {
    enum { N = 1000, DRAWS = 64 };
    scoped_memory float *x = bell(N, 4, 3);
    int32_t first[DRAWS], again[DRAWS], other[DRAWS];
    scoped_sampler *s = plain(N);
    for (int i = 0; i < 3; i++) {
        int32_t *to = i == 0 ? first : i == 1 ? again : other;
        set(s, "seed", i == 2 ? 8 : 7);
        for (int j = 0; j < DRAWS; j++) to[j] = gw_sampler_draw(s, x);
    }
    CHECK(!memcmp(first, again, sizeof first));
    CHECK(memcmp(first, other, sizeof first) != 0);
    gw_sampler_reset(s);
    scoped_sampler *fresh = gw_sampler_new(N);
    for (int j = 0; j < DRAWS; j++) CHECK_INT(gw_sampler_draw(s, x), gw_sampler_draw(fresh, x));
}

/* Draws are the same on every machine and in every build: native, simd128, relaxed. */
TEST(sampler_draws_are_the_same_everywhere) {
    enum { N = 5000 };
    scoped_memory float *x = bell(N, 99, 7);
    const char *names[] = { "top_k", "top_p", "min_p", "typical_p", "temperature" };
    double values[] = { 100, 0.9, 0.02, 0.9, 1.5 };
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < 5; i++) {
        scoped_sampler *s = plain(N);
        set(s, names[i], values[i]);
        set(s, "seed", i);
        for (int j = 0; j < 200; j++) hash = (hash ^ (uint64_t)gw_sampler_draw(s, x)) * 0x100000001b3u;
    }
    if (hash != 0x36070950fdfd366cu)
        gw_test_fail(__FILE__, __LINE__, "hash of 1000 draws: %llx", (unsigned long long)hash);
}

TEST(sampler_draws_nothing_anew_from_a_singleton) {
    float one[] = { 0 }, two[] = { 0, 0 }, many[256] = { 0 };
    scoped_sampler *a = plain(256), *b = plain(256);
    float x[256], y[256];
    for (int i = 0; i < 256; i++) x[i] = y[i] = -INFINITY;
    x[0] = one[0];
    memcpy(y, two, sizeof two);
    gw_sampler_draw(a, x); /* even a draw with a single candidate consumes a random number */
    gw_sampler_draw(b, y);
    for (int i = 0; i < 8; i++) CHECK_INT(gw_sampler_draw(a, many), gw_sampler_draw(b, many));
}

TEST(sampler_greedy) {
    enum { N = 262144 };
    scoped_memory float *x = bell(N, 21, 5);
    scoped_sampler *s = gw_sampler_new(N);
    set(s, "temperature", 0);
    int32_t places[] = { 0, 1, 15, 16, 131071, N - 1 };
    for (size_t i = 0; i < COUNT(places); i++) {
        float kept = x[places[i]];
        x[places[i]] = 100;
        CHECK_INT(gw_sampler_draw(s, x), places[i]);
        x[places[i]] = kept;
    }
    x[70000] = x[80000] = x[60000] = 50;
    CHECK_INT(gw_sampler_draw(s, x), 60000);
    for (int i = 0; i < N; i++) x[i] = i == 5 ? 0.0f : i == 3 ? -0.0f : -1e30f;
    CHECK_INT(gw_sampler_draw(s, x), 3); /* -0 equals 0 */
    for (int i = 0; i < N; i++) x[i] = i == 9 ? -3e38f : -INFINITY;
    CHECK_INT(gw_sampler_draw(s, x), 9);
}

TEST(sampler_bias) {
    float x[] = { 1, 2, 3, 4 };
    scoped_sampler *s = plain(4);
    set(s, "temperature", 0);
    CHECK_INT(gw_sampler_bias(s, 3, -INFINITY, &error), 0);
    CHECK_INT(gw_sampler_draw(s, x), 2);
    CHECK_INT(gw_sampler_bias(s, 0, 2.5f, &error), 0);
    CHECK_INT(gw_sampler_draw(s, x), 0);
    CHECK_INT(gw_sampler_bias(s, 0, 0.5f, &error), 0);
    CHECK_INT(gw_sampler_draw(s, x), 2);
    CHECK_NEAR(x[3], 4, 0);
    CHECK_INT(gw_sampler_bias(s, 4, 1, &error), GW_E_BAD_TOKEN);
    CHECK_SAYS(error.what, "0 to 3 ");
    CHECK_INT(gw_sampler_bias(s, -1, 1, &error), GW_E_BAD_TOKEN);
    CHECK_INT(gw_sampler_bias(s, 1, NAN, &error), GW_E_BAD_OPTION);
    CHECK_INT(gw_sampler_bias(s, 1, INFINITY, &error), GW_E_BAD_OPTION);
    gw_sampler_reset(s);
    set(s, "temperature", 0);
    CHECK_INT(gw_sampler_draw(s, x), 3);
}

TEST(sampler_bias_table_is_bounded) {
    scoped_sampler *s = plain(2000);
    for (int i = 0; i < 1024; i++) CHECK_INT(gw_sampler_bias(s, i, 1, &error), 0);
    CHECK_INT(gw_sampler_bias(s, 1024, 1, &error), GW_E_BAD_OPTION);
    CHECK_INT(gw_sampler_bias(s, 77, 2, &error), 0); /* in a full table, a bias can still be replaced */
}

TEST(sampler_bans_survive_resets_and_saved_states) {
    enum { BANNED = GW_MAX_BANNED, N = 2000 };
    static float x[N];
    static uint8_t bytes[GW_SAMPLER_MOST];
    scoped_sampler *s = plain(N), *other = plain(N);
    x[1] = 2;
    x[2] = 1;
    for (int i = 1; i <= BANNED; i++) CHECK_INT(gw_sampler_ban(s, i, &error), 0);
    for (int id = 0; id < 2; id++) gw_sampler_ban(other, 1 + id, &error);
    gw_sampler_reset(s);
    set(s, "temperature", 0);
    CHECK_INT(gw_sampler_draw(s, x), 0);
    for (int i = 0; i < 1024; i++) CHECK_INT(gw_sampler_bias(s, BANNED + 1 + i, -1, &error), 0);
    CHECK_INT(gw_sampler_bias(s, 0, 1, &error), GW_E_BAD_OPTION);
    CHECK_INT(gw_sampler_bias(s, 2, 0, &error), 0); /* a bias replaces a ban */
    CHECK_INT(gw_sampler_draw(s, x), 2);
    size_t n = gw_sampler_state_bytes(s);
    gw_sampler_write(s, bytes);
    gw_sampler_reset(s);
    CHECK_INT(gw_sampler_read(s, bytes, n, &error), 0);
    CHECK_INT(gw_sampler_draw(s, x), 2);
    CHECK_INT(gw_sampler_state_bytes(s), n);
    gw_sampler_reset(s);
    CHECK_INT(gw_sampler_read(other, bytes, n, &error), GW_E_BAD_SAVED); /* more biases than a sampler can have */
}

TEST(sampler_penalty_window) {
    float x[] = { 5, 4, 3, 2 };
    scoped_sampler *s = plain(4);
    set(s, "temperature", 0);
    set(s, "presence_penalty", 10);
    gw_sampler_accept(s, 0);
    CHECK_INT(gw_sampler_draw(s, x), 1);
    set(s, "penalty_window", 2);
    gw_sampler_accept(s, 1);
    CHECK_INT(gw_sampler_draw(s, x), 2);
    gw_sampler_accept(s, 2);
    CHECK_INT(gw_sampler_draw(s, x), 0); /* token 0 has left the penalty window */
    set(s, "penalty_window", 0);
    CHECK_INT(gw_sampler_draw(s, x), 0);
    set(s, "penalty_window", 1 << 20);
    for (int i = 0; i < 40000; i++) gw_sampler_accept(s, 3); /* more ids than the sampler keeps */
    CHECK_INT(gw_sampler_draw(s, x), 0);
    gw_sampler_accept(s, -1);
    gw_sampler_accept(s, 4); /* ids outside the vocabulary are ignored */
    CHECK_INT(gw_sampler_draw(s, x), 0);
}

TEST(sampler_repetition_spares_nobody) {
    float x[] = { -1, -1.5f, 3, 2 };
    scoped_sampler *s = plain(4);
    set(s, "repetition_penalty", 2);
    gw_sampler_accept(s, 0);
    gw_sampler_accept(s, 2);
    gw_sampler_accept(s, 2);
    int m = gw_sampler_distribution(s, x, ids, p, MOST);
    CHECK_INT(m, 4);
    int32_t order[] = { 3, 2, 1, 0 }; /* expected logits 2, 3 / 2, -1.5, -1 * 2: a repeated token is penalised once */
    for (int i = 0; i < 4; i++) CHECK_INT(ids[i], order[i]);
    CHECK_NEAR(log(p[1] / p[3]), 3.5, 1e-6);
}

TEST(sampler_option_ranges) {
    scoped_sampler *s = plain(4);
    struct {
        const char *name;
        double bad;
    } cases[] = {
        { "temperature", -1 },
        { "temperature", 101 },
        { "temperature", NAN },
        { "temperature", INFINITY },
        { "top_k", -1 },
        { "top_k", 1.5 },
        { "top_p", -0.1 },
        { "top_p", 1.1 },
        { "min_p", 1.01 },
        { "min_p", NAN },
        { "typical_p", 2 },
        { "repetition_penalty", 0 },
        { "repetition_penalty", -2 },
        { "frequency_penalty", 1000 },
        { "presence_penalty", -INFINITY },
        { "penalty_window", -1 },
        { "penalty_window", 2.5 },
        { "seed", -1 },
        { "seed", 0.5 },
        { "seed", 1e300 },
        { "topk", 5 },
        { "", 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (gw_sampler_set(s, cases[i].name, cases[i].bad, &error) != GW_E_BAD_OPTION)
            gw_test_fail(__FILE__, __LINE__, "%s = %g was taken", cases[i].name, cases[i].bad);
    CHECK_INT(gw_sampler_set(s, "temperature", -1, &error), GW_E_BAD_OPTION);
    CHECK_SAYS(error.what, "`temperature` must be 0 to 100 (got -1).");
    CHECK_INT(gw_sampler_draw(s, (float[]){ 0, -INFINITY, -INFINITY, -INFINITY }), 0);
    CHECK(gw_sampler_new(0) == NULL);
}

/* Checks the hash of a saved sampler's bytes. If the hash changes, increase GW_LAYOUT, then adjust this test. */
TEST(sampler_layout_has_a_version) {
    static const struct {
        const char *name;
        double value;
    } set[] = { { "temperature", 0.5 },
                { "top_k", 7 },
                { "top_p", 0.9 },
                { "min_p", 0.1 },
                { "typical_p", 0.8 },
                { "repetition_penalty", 1.5 },
                { "frequency_penalty", 0.25 },
                { "presence_penalty", 0.75 },
                { "penalty_window", 9 },
                { "seed", 11 } };
    scoped_sampler *s = gw_sampler_new(100);
    uint8_t bytes[1024];
    for (size_t i = 0; i < COUNT(set); i++) CHECK_INT(gw_sampler_set(s, set[i].name, set[i].value, NULL), 0);
    CHECK_INT(gw_sampler_bias(s, 3, -1.5f, NULL), 0);
    for (int id = 0; id < 9; id++) gw_sampler_accept(s, id);
    size_t n = gw_sampler_state_bytes(s);
    gw_sampler_write(s, bytes);
    uint64_t hash = gw_hash(0, bytes, n);
    if (hash != 0x91399ece31f769ef) printf("0x%016llx\n", (unsigned long long)hash);
    CHECK_INT(GW_LAYOUT, 1);
    CHECK(hash == 0x91399ece31f769ef);
}

TEST(sampler_bad_logits) {
    scoped_sampler *s = plain(3);
    float bad[][3] = {
        { 1, NAN, 2 }, { 1, -NAN, 2 }, { 1, INFINITY, 2 }, { -INFINITY, -INFINITY, -INFINITY }, { -INFINITY, NAN, 1 }
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        for (int greedy = 0; greedy < 2; greedy++) {
            set(s, "temperature", !greedy);
            CHECK_INT(gw_sampler_draw(s, bad[i]), GW_E_BAD_STATE);
            CHECK_INT(gw_sampler_distribution(s, bad[i], ids, p, MOST), GW_E_BAD_STATE);
            CHECK_INT(gw_top_logprobs(bad[i], 3, 3, ids, (float[3]){ 0 }), 0);
            CHECK(isnan(gw_logprob(bad[i], 3, 0)));
        }
    for (int i = 0; i < 3; i++) gw_sampler_bias(s, i, -INFINITY, &error);
    CHECK_INT(gw_sampler_draw(s, (float[]){ 1, 2, 3 }), GW_E_BAD_STATE);
}

TEST(sampler_extremes) {
    float wide[] = { 3e38f, -3e38f, 0, -INFINITY, 2.9e38f };
    double temperatures[] = { 0, 5e-324, 1e-30, 1, 100 };
    for (size_t i = 0; i < COUNT(temperatures); i++)
        for (int cut = 0; cut < 4; cut++) {
            scoped_sampler *s = plain(5);
            set(s, "temperature", temperatures[i]);
            if (cut == 1) set(s, "top_k", 3);
            if (cut == 2) set(s, "typical_p", 0.5);
            if (cut == 3) set(s, "top_p", 0.5);
            int32_t id = gw_sampler_draw(s, wide);
            CHECK_INT(id, 0);
        }
}

TEST(sampler_logprobs) {
    enum { N = 262144 };
    scoped_memory float *x = bell(N, 31, 9);
    float top[64];
    scoped_memory int32_t *order = sorted(x, N);
    double total = 0;
    for (int i = N; i-- > 0;) total += exp((double)x[order[i]]); /* the sum adds small terms first, for precision */
    for (int i = 0; i < N; i += 9973) CHECK_NEAR(gw_logprob(x, N, i), x[i] - log(total), 1e-12);
    CHECK_INT(gw_top_logprobs(x, N, 64, ids, top), 64);
    for (int i = 0; i < 64; i++) {
        CHECK_INT(ids[i], order[i]);
        CHECK_NEAR(top[i], x[order[i]] - log(total), 1e-6);
    }
    CHECK_INT(gw_top_logprobs(x, N, 1000, ids, top), 64);
    CHECK_INT(gw_top_logprobs(x, 3, 64, ids, top), 3);
    CHECK_INT(gw_top_logprobs(x, N, 0, ids, top), 0);
    CHECK(isnan(gw_logprob(x, N, -1)) && isnan(gw_logprob(x, N, N)));
    x[7] = -INFINITY;
    CHECK(gw_logprob(x, N, 7) == -INFINITY);
}

TEST(sampler_top_counts_the_ids_that_penalties_will_change) {
    static const int32_t drafts[] = { 70, 71 };
    int32_t changed[4];
    int n;
    scoped_sampler *s = gw_sampler_new(500);
    CHECK(s != NULL);
    set(s, "top_k", 40);
    gw_sampler_accept(s, 9);
    CHECK_INT(gw_sampler_top(s, drafts, 2, changed, 4, &n), 40);
    CHECK_INT(n, 0);
    set(s, "repetition_penalty", 1.5);
    CHECK_INT(gw_sampler_top(s, drafts, 2, changed, 4, &n), 40);
    CHECK_INT(n, 3);
    CHECK(changed[0] == 9 && changed[1] == 70 && changed[2] == 71);
    CHECK_INT(gw_sampler_top(s, drafts, 2, changed, 2, &n), 0); /* three ids do not fit an array of two */
}
