/* Fuzz harness of the sampler: the input holds options by name with any numbers, biases, a history and logits (also
 * infinite ones and NaN). The result must be a coded error with a message, or a token of the distribution, which sums
 * to 1 and is sorted, best first. After a reset, it must draw the same token. */
#include "fuzz.h"
#include "run/sampler.h"

#include <math.h>

enum { MOST_TOKENS = 40 };

static const char *const names[] = {
    "temperature",      "top_k",          "top_p", "min_p",    "typical_p", "repetition_penalty", "frequency_penalty",
    "presence_penalty", "penalty_window", "seed",  "nonsense",
};

static double number(fuzz_input *in) {
    static const double special[] = {
        0,     -0.0, 1,   -1,       0.5,      1e-300, 1e300, 100, 9007199254740991.0, 9007199254740992.0, 4294967296.0,
        32768, 1e-7, NAN, INFINITY, -INFINITY
    };
    unsigned kind = fuzz_byte(in), b = fuzz_byte(in);
    return kind % 4 == 0 ? special[b % 16] : kind % 4 == 1 ? b / 255.0 : kind % 4 == 2 ? b : b / 16.0 - 8;
}

static float logit(fuzz_input *in) {
    static const float special[] = { (float)NAN, (float)INFINITY, -(float)INFINITY, 3e38f, -3e38f, 1e-40f, 0, -0.0f };
    unsigned b = fuzz_byte(in);
    return b >= 250 ? special[fuzz_byte(in) % 8] : (float)b / 8 - 15;
}

static void set_options(gw_sampler *s, fuzz_input in, uint32_t n) {
    for (unsigned count = fuzz_byte(&in) % 16; count > 0; count--) {
        gw_error e = { 0 };
        unsigned which = fuzz_byte(&in) % 14;
        double value = number(&in);
        int32_t id = (int32_t)(fuzz_byte(&in) % (n + 2)) - 1;
        int bad = which < 11 ? gw_sampler_set(s, names[which], value, &e) : gw_sampler_bias(s, id, (float)value, &e);
        if (bad) fuzz_check_error(&e, bad);
        if (which < 11) REQUIRE(bad == 0 || bad == GW_E_BAD_OPTION);
        if (which == 13) gw_sampler_accept(s, id);
    }
}

static void check_distribution(gw_sampler *s, const float *logits, uint32_t n, int32_t id) {
    int32_t ids[MOST_TOKENS];
    double p[MOST_TOKENS], sum = 0;
    int count = gw_sampler_distribution(s, logits, ids, p, MOST_TOKENS);
    bool found = false;
    if (id < 0) {
        REQUIRE(count == id);
        return;
    }
    REQUIRE(count >= 1 && (uint32_t)count <= n);
    for (int i = 0; i < count; i++) {
        REQUIRE(ids[i] >= 0 && (uint32_t)ids[i] < n && p[i] >= 0 && p[i] <= 1 + 1e-9);
        REQUIRE(i == 0 || p[i] <= p[i - 1] + 1e-12);
        for (int k = 0; k < i; k++) REQUIRE(ids[k] != ids[i]);
        found |= ids[i] == id;
        sum += p[i];
    }
    REQUIRE(found && fabs(sum - 1) < 1e-6);
}

static void check_logprobs(const float *logits, uint32_t n, int32_t id) {
    int32_t ids[MOST_TOKENS];
    float p[MOST_TOKENS];
    int count = gw_top_logprobs(logits, n, MOST_TOKENS, ids, p);
    REQUIRE(count >= 0 && (uint32_t)count <= n);
    for (int i = 0; i < count; i++) {
        REQUIRE(p[i] <= 1e-6f && (i == 0 || p[i] <= p[i - 1]));
        double one = gw_logprob(logits, n, ids[i]);
        REQUIRE((float)one == p[i] || fabs(one - p[i]) <= 1e-4 * fabs(one) + 1e-6);
    }
    REQUIRE(isnan(gw_logprob(logits, n, -1)) && isnan(gw_logprob(logits, n, (int32_t)n)));
    REQUIRE(id == GW_E_BAD_STATE || count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gw_sampler *samplers[MOST_TOKENS + 1];
    fuzz_input in = { data, size };
    uint32_t n = 1 + fuzz_byte(&in) % MOST_TOKENS;
    gw_sampler **s = &samplers[n];
    if (!*s) *s = gw_sampler_new(n);
    REQUIRE(*s != NULL);
    float *logits = malloc(n * sizeof *logits); /* the exact size shows reads past the logits' end to a sanitizer */
    REQUIRE(logits != NULL);
    for (uint32_t i = 0; i < n; i++) logits[i] = logit(&in);
    int32_t ids[2][3];
    for (int round = 0; round < 2; round++) {
        gw_sampler_reset(*s);
        set_options(*s, in, n);
        for (int i = 0; i < 3; i++) {
            int32_t id = ids[round][i] = gw_sampler_draw(*s, logits);
            REQUIRE(id == GW_E_BAD_STATE || (id >= 0 && (uint32_t)id < n));
            if (round) check_distribution(*s, logits, n, id);
            if (round) check_logprobs(logits, n, id);
        }
    }
    REQUIRE(!memcmp(ids[0], ids[1], sizeof ids[0]));
    free(logits);
    return 0;
}
