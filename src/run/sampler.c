/* sampler: see sampler.h. The chain is llama.cpp's, but the vocabulary is never sorted: top-k is a heap that only takes
 * logits above a threshold, and top-p is a weighted quickselect over the few candidates that pass a histogram of
 * logits. Draws must be equal on every machine, so they use no libm: exp is a polynomial, sums have a fixed order, and
 * the build turns off contraction to fused multiply-add. Random numbers: PCG32 (O'Neill, XSH-RR 64/32), seeded by
 * splitmix64 (Steele, Lea, Flood). */
#include "run/state.h"
#include "run/errors.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- options: X(symbol, name, least, most, default, whole numbers only, meaning) ---
 * The only description of each sampling option: js/generated.js, the command line's help, docs/options.md and
 * docs/cli.md are generated from these rows (node tools/release/readme.js). */
#define OPTIONS(X)                                                                                                     \
    X(TEMPERATURE, "temperature", 0, 100, 1, false,                                                                    \
      "Divides the logits before a token is drawn. Lower is more predictable; 0 takes the most likely token.")         \
    X(TOP_K, "top_k", 0, GW_MAX_VOCAB, 64, true, "Draws among this many of the most likely tokens. 0: off.")           \
    X(TOP_P, "top_p", 0, 1, 0.95, false,                                                                               \
      "Draws among the most likely tokens whose probabilities add up to this value. 1: off.")                          \
    X(MIN_P, "min_p", 0, 1, 0, false,                                                                                  \
      "Drops tokens whose probability is below this fraction of the highest one. 0: off.")                             \
    X(TYPICAL_P, "typical_p", 0, 1, 1, false,                                                                          \
      "Keeps the tokens whose surprisal is closest to the entropy, up to this total probability. 1: off.")             \
    X(REPETITION, "repetition_penalty", 0.01, 100, 1, false,                                                           \
      "Divides positive logits of tokens in the penalty window by this factor, and multiplies negative ones. 1: off.") \
    X(FREQUENCY, "frequency_penalty", -100, 100, 0, false,                                                             \
      "Subtracted from a token's logit for each occurrence in the penalty window. 0: off.")                            \
    X(PRESENCE, "presence_penalty", -100, 100, 0, false,                                                               \
      "Subtracted from a token's logit if it occurs in the penalty window. 0: off.")                                   \
    X(WINDOW, "penalty_window", 0, 1 << 20, 64, true,                                                                  \
      "Number of latest tokens, prompt included, to which the penalties apply. 0: no penalties.")                      \
    X(SEED, "seed", 0, 9007199254740991.0, 0, true, "Seed of the random numbers.")

enum {
#define X(symbol, name, least, most, standard, whole, meaning) symbol,
    OPTIONS(X)
#undef X
        N_OPTIONS
};

static const struct {
    const char *name;
    double least, most, standard;
    bool whole;
} options[] = {
#define X(symbol, name, least, most, standard, whole, meaning) { name, least, most, standard, whole },
    OPTIONS(X)
#undef X
};

enum {
    HISTORY = 32768, /* number of accepted ids kept, and so the maximum number that penalties can count */
    MAX_BIAS = 1024,
    BLOCK = 512,    /* number of logits whose exponentials are computed at a time */
    BUCKETS = 1024, /* buckets of the histogram: BUCKETS_PER_NAT for each unit of logit below the largest */
    BUCKETS_PER_NAT = 32,
    MAX_HEAP = 4096, /* maximum k for top-k by heap; a larger k uses quickselect */
    MAX_TOP = 64,
};

/* A token that may be drawn. Steps that exclude tokens order candidates by `key`, greatest first, and add up their
 * `mass`, the unnormalised probability. */
typedef struct {
    float logit, key, mass;
    int32_t id;
} candidate;

/* The bias of a token's logit, in memory and in saved states. */
typedef struct {
    int32_t id;
    float bias;
} token_bias;

struct gw_sampler {
    uint32_t n; /* size of the vocabulary */
    double option[N_OPTIONS];
    uint64_t state, stream; /* PCG32 */
    uint32_t n_banned;      /* the first n_banned biases are those of gw_sampler_ban(), which a reset restores */
    uint32_t n_bias, n_history, next; /* next: write position in the ring `history` */
    token_bias bias[GW_MAX_BANNED + MAX_BIAS];
    int32_t history[HISTORY];
    /* The arrays follow the struct in one allocation, in this order. */
    candidate *c;   /* [n] */
    double *sums;   /* [n / BLOCK + 1] */
    float *logits;  /* [n]: logits with bias and penalties */
    uint16_t *seen; /* [n]: occurrences of each token in the penalty window; zeros between draws */
};

/* --- exponentials --- */

typedef double pair __attribute__((vector_size(16))); /* two doubles; all compilers compute the same results */
typedef uint64_t pair_bits __attribute__((vector_size(16)));

/* Returns e^x = 2^k e^r for x <= 0, to about 1 ulp; 0 below -700. k is added to the exponent bits; e^r is a Taylor
 * series. */
static inline pair exp_of_pair(pair x) {
    pair_bits normal = (pair_bits)(x >= -700.0);
    pair y = (pair)((pair_bits)x & normal);
    pair t = y * 0x1.71547652b82fep0 + 0x1.8p52, k = t - 0x1.8p52; /* k is y / ln 2, rounded to an integer */
    pair r = (y - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    /* clang-format off */
    pair e = 1 + r * (1 + r * (1. / 2 + r * (1. / 6 + r * (1. / 24 + r * (1. / 120 + r * (1. / 720
        + r * (1. / 5040 + r * (1. / 40320 + r * (1. / 362880 + r * (1. / 3628800
        + r * (1. / 39916800 + r * (1. / 479001600))))))))))));
    /* clang-format on */
    return (pair)(((pair_bits)e + ((pair_bits)t << 52)) & normal);
}

static double exp_of(double x) { return exp_of_pair((pair){ x, x })[0]; }

/* Returns ln p for 0 < p <= 1, by bisection over exp_of: slow, but equal on all platforms. */
static double log_of(double p) {
    double low = -700, high = 0;
    if (p >= 1) return 0;
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        *(exp_of(middle) < p ? &low : &high) = middle;
    }
    return high;
}

/* Computes e[i] = exp((x[i] - top) * scale) for n <= BLOCK logits. Returns their sum. */
static double exps(const float *x, size_t n, double top, double scale, double *e) {
    pair sum[2] = { 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 2; l++) {
            pair v = exp_of_pair(((pair){ x[i + 2 * l], x[i + 2 * l + 1] } - top) * scale);
            memcpy(e + i + 2 * l, &v, sizeof v);
            sum[l] += v;
        }
    for (; i < n; i++) sum[0][0] += e[i] = exp_of((x[i] - top) * scale);
    sum[0] += sum[1];
    return sum[0][0] + sum[0][1];
}

/* --- the largest logit --- */

static int32_t bits_of(float f) {
    int32_t i;
    memcpy(&i, &f, sizeof i);
    return i;
}

/* Finds the greatest of x[0..n). Returns false if one is NaN or +infinity, or all are -infinity. Compares integers that
 * have the same order as the floats, since compilers do not vectorise a maximum of floats. */
static bool find_top(const float *x, size_t n, float *top) {
    const int32_t infinity = 0x7f800000;
    int32_t best = INT32_MIN, worst = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        int32_t b = bits_of(x[i]), key = b ^ (b >> 31 & INT32_MAX);
        best = key > best ? key : best;
        worst = key < worst ? key : worst;
    }
    if (best >= infinity || best <= ~infinity || worst < ~infinity) return false;
    best ^= best >> 31 & INT32_MAX;
    memcpy(top, &best, sizeof best);
    return true;
}

static int32_t first_of(const float *x, size_t n, float value) {
    for (size_t i = 0; i < n; i++)
        if (x[i] == value) return (int32_t)i;
    return GW_E_BAD_STATE;
}

/* --- candidates --- */

static bool before(const candidate *a, const candidate *b) {
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

static void swap(candidate *a, candidate *b) {
    candidate t = *a;
    *a = *b;
    *b = t;
}

/* Sifts h[i] down in a heap of m candidates whose root is the worst. */
static void sink(candidate *h, size_t m, size_t i) {
    for (size_t child; (child = 2 * i + 1) < m; i = child) {
        if (child + 1 < m && before(&h[child], &h[child + 1])) child++;
        if (!before(&h[i], &h[child])) return;
        swap(&h[i], &h[child]);
    }
}

static void make_heap(candidate *h, size_t m) {
    for (size_t i = m / 2; i-- > 0;) sink(h, m, i);
}

static void sort_heap(candidate *h, size_t m) {
    while (m-- > 1) {
        swap(&h[0], &h[m]);
        sink(h, m, 0);
    }
}

static candidate candidate_of(const float *x, size_t i) { return (candidate){ x[i], x[i], 1, (int32_t)i }; }

/* Collects the k best of x[0..n) in h[0..k), best first; 1 <= k <= n. Most blocks of 16 logits are skipped after one
 * test: none is greater than the worst in the heap. */
static void best_k(const float *x, size_t n, candidate *h, size_t k) {
    for (size_t i = 0; i < k; i++) h[i] = candidate_of(x, i);
    make_heap(h, k);
    for (size_t i = k; i < n;) {
        size_t end = gw_min(i + 16, n);
        float worst = h[0].logit;
        int hit = 0;
        if (end == i + 16)
            for (int l = 0; l < 16; l++) hit |= x[i + l] > worst;
        else hit = 1;
        for (; hit && i < end; i++)
            if (x[i] > h[0].logit) { /* equal logits: the lower id came first and stays in the heap */
                h[0] = candidate_of(x, i);
                sink(h, k, 0);
            }
        i = end;
    }
    sort_heap(h, k);
}

/* Writes a candidate for each logit >= `least`, a finite number. Returns the number of candidates. */
static size_t gather(const float *x, size_t n, float least, candidate *c) {
    size_t m = 0;
    for (size_t i = 0; i < n;) {
        size_t end = gw_min(i + 16, n);
        int hit = 0;
        if (end == i + 16)
            for (int l = 0; l < 16; l++) hit |= x[i + l] >= least;
        else hit = 1;
        for (; hit && i < end; i++)
            if (x[i] >= least) c[m++] = candidate_of(x, i);
        i = end;
    }
    return m;
}

static void insertion_sort(candidate *c, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j && before(&c[j], &c[j - 1]); j--) swap(&c[j], &c[j - 1]);
}

/* Partitions c[0..n) around a pivot, the median of three candidates, with better candidates before it. Returns the
 * index of the pivot; *mass receives the mass of the better candidates. */
static size_t partition(candidate *c, size_t n, double *mass) {
    size_t a = 0, b = n / 2, last = n - 1;
    if (before(&c[b], &c[a])) swap(&c[a], &c[b]);
    if (before(&c[last], &c[a])) swap(&c[a], &c[last]);
    if (before(&c[b], &c[last])) swap(&c[b], &c[last]);
    candidate pivot = c[last];
    size_t place = 0;
    *mass = 0;
    for (size_t i = 0; i < last; i++)
        if (before(&c[i], &pivot)) {
            *mass += c[i].mass;
            swap(&c[i], &c[place++]);
        }
    swap(&c[place], &c[last]);
    return place;
}

/* Moves the best candidates to the front: as few as possible with a total mass of at least `target`. Returns their
 * number, at least 1; n if the mass of all n is less. */
static size_t take_mass(candidate *c, size_t n, double target) {
    size_t low = 0, high = n; /* candidates c[0..low) are included already; the result is at most `high` */
    double have = 0;
    if (!(target > 0)) target = DBL_MIN;
    while (high - low > 16) {
        double better;
        size_t place = low + partition(c + low, high - low, &better);
        if (have + better >= target) {
            high = place;
            continue;
        }
        have += better + c[place].mass;
        low = place + 1;
        if (have >= target) return low;
    }
    insertion_sort(c + low, high - low);
    while (low < high && have < target) have += c[low++].mass;
    return low;
}

/* --- the chain of sampling options --- */

static float top_of(const candidate *c, size_t m) {
    float top = c[0].logit;
    for (size_t i = 1; i < m; i++) top = c[i].logit > top ? c[i].logit : top;
    return top;
}

/* Sets the mass of each candidate to exp((logit - largest logit) * scale). Returns the sum. */
static double weigh(candidate *c, size_t m, double scale) {
    double top = top_of(c, m), total = 0;
    for (size_t i = 0; i < m; i += 2) {
        size_t other = gw_min(i + 1, m - 1);
        pair e = exp_of_pair(((pair){ c[i].logit, c[other].logit } - top) * scale);
        total += c[i].mass = (float)e[0];
        if (other > i) total += c[other].mass = (float)e[1];
    }
    return total;
}

/* Locally typical sampling (Meister et al. 2022): prefers tokens whose information is nearest to the entropy. With d =
 * logit - top, information and entropy both contain the term ln(total), so their distance is |d - mean of d|. */
static size_t cut_typical(candidate *c, size_t m, double p) {
    double total = weigh(c, m, 1), top = top_of(c, m), mean = 0;
    for (size_t i = 0; i < m; i++)
        if (c[i].mass > 0) mean += c[i].mass / total * (c[i].logit - top);
    for (size_t i = 0; i < m; i++) c[i].key = (float)-fabs(c[i].logit - top - mean);
    m = take_mass(c, m, p * total);
    for (size_t i = 0; i < m; i++) c[i].key = c[i].logit;
    return m;
}

static float min_p_floor(float top, double p) { return (float)(top + log_of(p)); }

static size_t cut_below(candidate *c, size_t m, double least) {
    size_t kept = 0;
    for (size_t i = 0; i < m; i++)
        if (c[i].logit >= least) c[kept++] = c[i];
    return kept;
}

/* Returns a logit below which top-p draws no token: adds each token's mass to a bucket by its distance from `top`, then
 * adds up buckets from the top. *total receives the mass of all tokens. */
static float nucleus_floor(const float *x, size_t n, float top, double p, double *total) {
    double buckets[BUCKETS] = { 0 }, e[BLOCK], have = 0;
    *total = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = gw_min(BLOCK, n - i);
        *total += exps(x + i, m, top, 1, e);
        for (size_t j = 0; j < m; j++) {
            double at = ((double)top - x[i + j]) * BUCKETS_PER_NAT;
            buckets[at < BUCKETS - 1 ? (int)at : BUCKETS - 1] += e[j];
        }
    }
    for (int b = 0; b < BUCKETS - 1; b++)
        if ((have += buckets[b]) >= p * *total) return (float)((double)top - (b + 1.0) / BUCKETS_PER_NAT);
    return -FLT_MAX;
}

/* Collects the candidates after top-k, before other options exclude any. *total receives the mass of all tokens if
 * top-p refers to it, or 0 if top-p refers to the mass of the candidates. */
static size_t candidates(gw_sampler *s, const float *x, float top, double *total) {
    const double *o = s->option;
    size_t k = (size_t)o[TOP_K];
    *total = 0;
    if (k && k < s->n && k <= MAX_HEAP) {
        best_k(x, s->n, s->c, k);
        return k;
    }
    if (k && k < s->n) return take_mass(s->c, gather(x, s->n, -FLT_MAX, s->c), (double)k);
    float least = -FLT_MAX;
    if (o[TYPICAL_P] == 1 && o[TOP_P] < 1) least = nucleus_floor(x, s->n, top, o[TOP_P], total);
    else if (o[TYPICAL_P] == 1) least = min_p_floor(top, o[MIN_P]);
    return gather(x, s->n, least, s->c);
}

/* --- random numbers and draws --- */

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void seed(gw_sampler *s, uint64_t value) {
    s->stream = splitmix(&value) | 1;
    s->state = splitmix(&value);
}

static uint32_t random32(gw_sampler *s) {
    uint64_t old = s->state;
    s->state = old * 6364136223846793005u + s->stream;
    uint32_t mixed = (uint32_t)((old >> 18 ^ old) >> 27), turn = (uint32_t)(old >> 59);
    return mixed >> turn | mixed << (-turn & 31);
}

/* Returns a uniform random number in [0, 1) of 53 bits. Every draw calls this once. */
static double uniform(gw_sampler *s) {
    uint64_t high = random32(s) >> 5, low = random32(s) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

/* Returns 1 / temperature, limited to a finite number, because 0 times the result must be 0. */
static double scale_of(const gw_sampler *s) { return 1 / fmax(s->option[TEMPERATURE], 1e-300); }

static int32_t draw_of(gw_sampler *s, candidate *c, size_t m) {
    double rest = uniform(s) * weigh(c, m, scale_of(s));
    int32_t id = c[0].id;
    for (size_t i = 0; i < m; i++) {
        if (c[i].mass == 0) continue; /* a rounding error must not draw a token of probability 0 */
        id = c[i].id;
        if ((rest -= c[i].mass) < 0) break;
    }
    return id;
}

/* Draws from the whole vocabulary in the order of ids: finds the block by the sums of blocks, then the id. */
static int32_t draw_of_all(gw_sampler *s, const float *x, float top) {
    double e[BLOCK], total = 0, scale = scale_of(s);
    for (size_t i = 0; i < s->n; i += BLOCK)
        total += s->sums[i / BLOCK] = exps(x + i, gw_min(BLOCK, s->n - i), top, scale, e);
    double rest = uniform(s) * total;
    size_t first = 0;
    for (size_t i = 0; i < s->n; i += BLOCK) {
        double sum = s->sums[i / BLOCK];
        if (sum == 0) continue;
        first = i;
        if (rest < sum) break;
        rest -= sum;
    }
    size_t m = gw_min(BLOCK, s->n - first), at = first;
    exps(x + first, m, top, scale, e);
    for (size_t j = 0; j < m; j++) {
        if (e[j] == 0) continue;
        at = first + j;
        if ((rest -= e[j]) < 0) break;
    }
    return (int32_t)at;
}

static bool penalises(const gw_sampler *s) {
    const double *o = s->option;
    return o[WINDOW] > 0 && s->n_history && (o[REPETITION] != 1 || o[FREQUENCY] != 0 || o[PRESENCE] != 0);
}

/* Returns the i-th last accepted id, i from 1. */
static int32_t accepted(const gw_sampler *s, uint32_t i) { return s->history[(s->next + HISTORY - i) % HISTORY]; }

bool gw_sampler_greedy(const gw_sampler *s) { return s->option[TEMPERATURE] == 0; }

uint32_t gw_sampler_top(const gw_sampler *s, const int32_t *drafts, uint32_t n_drafts, int32_t *changed, int cap,
                        int *n) {
    bool penalty = penalises(s);
    uint32_t window = penalty ? (uint32_t)fmin(s->option[WINDOW], s->n_history) : 0;
    uint32_t k = gw_sampler_greedy(s) ? 1 : (uint32_t)s->option[TOP_K];
    if (!penalty) n_drafts = 0;
    *n = (int)(s->n_bias + window + n_drafts);
    if (k > MAX_HEAP || k >= s->n || *n > cap) return 0;
    for (uint32_t i = 0; i < s->n_bias; i++) *changed++ = s->bias[i].id;
    for (uint32_t i = 1; i <= window; i++) *changed++ = accepted(s, i);
    for (uint32_t i = 0; i < n_drafts; i++) *changed++ = drafts[i];
    return k;
}

/* Applies the penalties, once for each distinct id in the penalty window. */
static void penalise(gw_sampler *s) {
    const double *o = s->option;
    uint32_t window = (uint32_t)fmin(o[WINDOW], s->n_history);
    for (uint32_t i = 1; i <= window; i++) s->seen[accepted(s, i)]++;
    for (uint32_t i = 1; i <= window; i++) {
        int32_t id = accepted(s, i);
        if (!s->seen[id]) continue;
        double x = s->logits[id];
        x = x > 0 ? x / o[REPETITION] : x * o[REPETITION];
        s->logits[id] = (float)(x - s->seen[id] * o[FREQUENCY] - o[PRESENCE]);
        s->seen[id] = 0;
    }
}

/* Returns the logits with bias and penalties: a copy, or `logits` itself if nothing changes. */
static const float *adjusted(gw_sampler *s, const float *logits) {
    bool penalty = penalises(s);
    if (!s->n_bias && !penalty) return logits;
    memcpy(s->logits, logits, s->n * sizeof *logits);
    for (uint32_t i = 0; i < s->n_bias; i++) s->logits[s->bias[i].id] += s->bias[i].bias;
    if (penalty) penalise(s);
    return s->logits;
}

static bool draws_all(const gw_sampler *s) {
    const double *o = s->option;
    return (o[TOP_K] == 0 || o[TOP_K] >= s->n) && o[TYPICAL_P] == 1 && o[TOP_P] == 1 && o[MIN_P] == 0;
}

/* Writes the tokens that no option excludes to s->c. Returns their number, at least one. */
static size_t survivors(gw_sampler *s, const float *x, float top) {
    const double *o = s->option;
    double total;
    size_t m = candidates(s, x, top, &total);
    if (o[TYPICAL_P] < 1) m = cut_typical(s->c, m, o[TYPICAL_P]);
    if (o[TOP_P] < 1) {
        double mass = weigh(s->c, m, 1);
        m = take_mass(s->c, m, o[TOP_P] * (total > 0 ? total : mass));
    }
    if (o[MIN_P] > 0) m = cut_below(s->c, m, min_p_floor(top_of(s->c, m), o[MIN_P]));
    return m;
}

int32_t gw_sampler_draw(gw_sampler *s, const float *logits) {
    const float *x = adjusted(s, logits);
    float top;
    if (!find_top(x, s->n, &top)) return GW_E_BAD_STATE;
    if (gw_sampler_greedy(s)) return first_of(x, s->n, top);
    if (draws_all(s)) return draw_of_all(s, x, top);
    return draw_of(s, s->c, survivors(s, x, top));
}

int gw_sampler_distribution(gw_sampler *s, const float *logits, int32_t *ids, double *p, size_t cap) {
    const float *x = adjusted(s, logits);
    float top;
    if (!find_top(x, s->n, &top)) return GW_E_BAD_STATE;
    bool greedy = gw_sampler_greedy(s);
    if (greedy) s->c[0] = candidate_of(x, (size_t)first_of(x, s->n, top));
    size_t m = greedy ? 1 : draws_all(s) ? gather(x, s->n, -FLT_MAX, s->c) : survivors(s, x, top);
    double total = weigh(s->c, m, greedy ? 1 : scale_of(s));
    make_heap(s->c, m);
    sort_heap(s->c, m);
    while (s->c[m - 1].mass == 0) m--;
    for (size_t i = 0; i < gw_min(m, cap); i++) {
        ids[i] = s->c[i].id;
        p[i] = s->c[i].mass / total;
    }
    return (int)m;
}

/* --- allocation --- */

/* Allocates a sampler and its arrays in the arena. Returns NULL if the arena only adds up sizes. */
static gw_sampler *lay_out(gw_arena *a, uint32_t n) {
    gw_sampler *s = gw_arena_take(a, sizeof *s);
    void *c = gw_arena_take(a, n * sizeof(candidate));
    void *sums = gw_arena_take(a, (n / BLOCK + 1) * sizeof(double));
    void *logits = gw_arena_take(a, n * sizeof(float));
    void *seen = gw_arena_take(a, n * sizeof(uint16_t));
    if (!seen) return NULL;
    memset(seen, 0, n * sizeof(uint16_t));
    s->n = n;
    s->c = c;
    s->sums = sums;
    s->logits = logits;
    s->seen = seen;
    return s;
}

size_t gw_sampler_bytes(uint32_t n_vocab) {
    gw_arena a = { 0 };
    lay_out(&a, n_vocab);
    return a.used;
}

gw_sampler *gw_sampler_new(uint32_t n_vocab) {
    if (n_vocab == 0 || n_vocab > GW_MAX_VOCAB) return NULL;
    size_t size = gw_sampler_bytes(n_vocab);
    gw_arena a = { .base = gw_alloc(size), .size = size };
    gw_sampler *s = a.base ? lay_out(&a, n_vocab) : NULL;
    if (!s) return NULL;
    s->n_banned = 0;
    gw_sampler_reset(s);
    return s;
}

void gw_sampler_free(gw_sampler *s) { gw_free(s); }

void gw_sampler_reset(gw_sampler *s) {
    for (int i = 0; i < N_OPTIONS; i++) s->option[i] = options[i].standard;
    for (uint32_t i = 0; i < s->n_banned; i++) s->bias[i].bias = -INFINITY;
    s->n_bias = s->n_banned;
    s->n_history = s->next = 0;
    seed(s, 0);
}

int gw_sampler_set(gw_sampler *s, const char *name, double value, gw_error *e) {
    int i = 0;
    while (i < N_OPTIONS && strcmp(name, options[i].name)) i++;
    if (i == N_OPTIONS) return gw_fail(e, MSG_NO_OPTION, name);
    double least = options[i].least, most = options[i].most;
    if (!(value >= least && value <= most) || (options[i].whole && value != floor(value)))
        return gw_fail(e, MSG_OPTION, name, least, most, options[i].whole ? ", a whole number" : "", value);
    s->option[i] = value;
    if (i == SEED) seed(s, (uint64_t)value);
    return 0;
}

int gw_sampler_bias(gw_sampler *s, int32_t id, float bias, gw_error *e) {
    if (id < 0 || (uint32_t)id >= s->n) return gw_fail(e, MSG_BIAS_TOKEN, s->n - 1, (int)id);
    if (!(bias <= FLT_MAX)) return gw_fail(e, MSG_BIAS, (int)id, bias);
    uint32_t i = 0, most = gw_min(s->n_banned, GW_MAX_BANNED) + MAX_BIAS;
    while (i < s->n_bias && s->bias[i].id != id) i++;
    if (i == most) return gw_fail(e, MSG_TOO_MANY_BIASES, MAX_BIAS);
    s->bias[i] = (token_bias){ id, bias };
    s->n_bias += i == s->n_bias;
    return 0;
}

int gw_sampler_ban(gw_sampler *s, int32_t id, gw_error *e) {
    int bad = gw_sampler_bias(s, id, -INFINITY, e);
    s->n_banned = s->n_bias;
    return bad;
}

void gw_sampler_accept(gw_sampler *s, int32_t id) {
    if (id < 0 || (uint32_t)id >= s->n) return;
    s->history[s->next] = id;
    s->next = (s->next + 1) % HISTORY;
    s->n_history += s->n_history < HISTORY;
}

/* --- saved states: options, random numbers, then biases and accepted ids, oldest first --- */

typedef struct {
    double option[N_OPTIONS];
    uint64_t state, stream;
    uint32_t n_bias, n_history;
} saved;
_Static_assert(GW_LAYOUT == 1 && N_OPTIONS == 10 && sizeof(saved) == 104 && sizeof(token_bias) == 8,
               "saved samplers changed: increase GW_LAYOUT (state.h), then adjust this line");
_Static_assert(sizeof(saved) + 8 * (GW_MAX_BANNED + MAX_BIAS) + HISTORY * sizeof(int32_t) <= GW_SAMPLER_MOST,
               "a saved sampler must fit in GW_SAMPLER_MOST");

static size_t saved_bytes(uint32_t n_bias, uint32_t n_history) {
    return sizeof(saved) + n_bias * sizeof(token_bias) + n_history * sizeof(int32_t);
}

size_t gw_sampler_state_bytes(const gw_sampler *s) { return saved_bytes(s->n_bias, s->n_history); }

void gw_sampler_write(const gw_sampler *s, uint8_t *out) {
    saved all = { .state = s->state, .stream = s->stream, .n_bias = s->n_bias, .n_history = s->n_history };
    memcpy(all.option, s->option, sizeof all.option);
    memcpy(out, &all, sizeof all);
    memcpy(out + sizeof all, s->bias, s->n_bias * sizeof *s->bias);
    out += sizeof all + s->n_bias * sizeof *s->bias;
    for (uint32_t i = s->n_history; i > 0; i--, out += sizeof(int32_t)) {
        int32_t id = accepted(s, i);
        memcpy(out, &id, sizeof id);
    }
}

static int read_lists(gw_sampler *s, const saved *all, const uint8_t *in, gw_error *e) {
    bool bad = false;
    for (uint32_t i = 0; i < all->n_bias; i++, in += sizeof(token_bias)) {
        token_bias b;
        memcpy(&b, in, sizeof b);
        bad |= gw_sampler_bias(s, b.id, b.bias, e) != 0;
    }
    for (uint32_t i = 0; i < all->n_history; i++, in += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, in, sizeof id);
        gw_sampler_accept(s, id);
    }
    if (!bad && s->n_history == all->n_history) return 0;
    return gw_fail(e, MSG_SAVED_LISTS, s->n - 1);
}

int gw_sampler_read(gw_sampler *s, const uint8_t *in, size_t n, gw_error *e) {
    saved all = { 0 };
    memcpy(&all, in, gw_min(n, sizeof all));
    if (n < sizeof all || all.n_bias > GW_MAX_BANNED + MAX_BIAS || all.n_history > HISTORY ||
        n != saved_bytes(all.n_bias, all.n_history) || !(all.stream & 1))
        return gw_fail(e, MSG_SAVED_SAMPLER, n);
    gw_sampler_reset(s);
    for (int i = 0; i < N_OPTIONS; i++)
        if (gw_sampler_set(s, options[i].name, all.option[i], e))
            return gw_fail(e, MSG_SAVED_OPTION, options[i].name, options[i].least, options[i].most, all.option[i]);
    s->state = all.state;
    s->stream = all.stream;
    return read_lists(s, &all, in + sizeof all, e);
}

/* --- log probabilities --- */

/* Returns ln(sum of exp(x)), or NAN if a number is NaN or +infinity, or none is finite. */
static double log_total(const float *x, size_t n) {
    double e[BLOCK], total = 0;
    float top;
    if (!find_top(x, n, &top)) return NAN;
    for (size_t i = 0; i < n; i += BLOCK) total += exps(x + i, gw_min(BLOCK, n - i), top, 1, e);
    return top + log(total);
}

double gw_logprob(const float *logits, uint32_t n_vocab, int32_t id) {
    if (id < 0 || (uint32_t)id >= n_vocab) return NAN;
    return logits[id] - log_total(logits, n_vocab);
}

int gw_top_logprobs(const float *logits, uint32_t n_vocab, int k, int32_t *ids, float *logprobs) {
    candidate best[MAX_TOP];
    double total = log_total(logits, n_vocab);
    if (k < 1 || isnan(total)) return 0;
    size_t m = gw_min(gw_min((size_t)k, MAX_TOP), n_vocab);
    best_k(logits, n_vocab, best, m);
    for (size_t i = 0; i < m; i++) {
        ids[i] = best[i].id;
        logprobs[i] = (float)(best[i].logit - total);
    }
    return (int)m;
}
