/* elements: see elements.h. RMSNorm, LayerNorm (arch.h has the sources), RoPE, GELU and SiLU as plain loops, without
 * intrinsics: compilers vectorise them. Sums have eight partial sums, which are added in a fixed order. */
#include "model/elements.h"

#include <math.h>

typedef struct {
    gw_norm_rule rule;
    const gw_norm *w;
    gw_view x, out;
    uint32_t width;
    bool add;
} norm_job;

enum { SUMS = 8 }; /* number of partial sums, which vectorise and are added in the same order in every build */

static float total_of(const float *part) {
    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

static float squares_of(const float *x, uint32_t n, float from) {
    float part[SUMS] = { 0 };
    uint32_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int l = 0; l < SUMS; l++) part[l] += (x[i + l] - from) * (x[i + l] - from);
    for (; i < n; i++) part[0] += (x[i] - from) * (x[i] - from);
    return total_of(part);
}

static float mean_of(const float *x, uint32_t n) {
    float part[SUMS] = { 0 };
    uint32_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int l = 0; l < SUMS; l++) part[l] += x[i + l];
    for (; i < n; i++) part[0] += x[i];
    return total_of(part) / (float)n;
}

static void norm_group(const norm_job *j, const float *x, float *out) {
    const float *w = j->w ? j->w->weight : NULL, *bias = w ? j->w->bias : NULL;
    uint32_t n = j->width;
    float mean = j->rule.kind == GW_NORM_LAYER ? mean_of(x, n) : 0;
    float scale = 1.0f / sqrtf(squares_of(x, n, mean) / (float)n + j->rule.eps);
    if (!w) {
        for (uint32_t i = 0; i < n; i++) out[i] = (x[i] - mean) * scale;
        return;
    }
    if (j->add) {
        for (uint32_t i = 0; i < n; i++) out[i] += (x[i] - mean) * scale * w[i];
    } else {
        for (uint32_t i = 0; i < n; i++) out[i] = (x[i] - mean) * scale * w[i];
    }
    if (!bias) return;
    for (uint32_t i = 0; i < n; i++) out[i] += bias[i];
}

static void norm_token(void *ctx, int t) {
    const norm_job *j = ctx;
    const float *x = gw_row(j->x, t);
    float *out = gw_row(j->out, t);
    for (uint32_t c = 0; c < j->x.columns; c += j->width) norm_group(j, x + c, out + c);
}

static void plain_token(void *ctx, int t) {
    const norm_job *j = ctx;
    const float *x = gw_row(j->x, t);
    float *out = gw_row(j->out, t);
    for (uint32_t c = 0; c < j->x.columns; c++) out[c] = j->add ? out[c] + x[c] : x[c];
}

void gw_normalise(gw_pool *p, gw_norm_rule rule, const gw_norm *w, uint32_t width, gw_view x, gw_view out, bool add) {
    norm_job j = { rule, w, x, out, width, add };
    bool norms = !w || w->weight;
    if (!norms && x.at == out.at && !add) return;
    gw_parallel(p, norms ? norm_token : plain_token, &j, x.n);
}

void gw_rope_angles(float *angles, int n, uint32_t pos, const gw_rope *rope, const float *factors) {
    uint32_t d = rope->rotated, half = d / 2;
    double ratio = pow(rope->base, -2.0 / d), frequency = 1.0;
    for (uint32_t i = 0; i < half; i++, frequency *= ratio)
        for (int t = 0; t < n; t++) {
            double angle = (pos + t) * rope->scale * (factors ? frequency / factors[i] : frequency);
            angles[(size_t)t * gw_ld(d) + i] = (float)(cos(angle) * rope->gain);
            angles[(size_t)t * gw_ld(d) + half + i] = (float)(sin(angle) * rope->gain);
        }
}

typedef struct {
    gw_view x;
    const float *angles;
    uint32_t d, rotated;
    bool pairs;
    float scale;
} rope_job;

/* Rotates columns a[i * step] and b[i * step] by the angle with cosine c[i] and sine s[i]. Called with constant steps,
 * so that step 1 is vectorised. */
static inline void rotate(float *a, float *b, const float *c, const float *s, uint32_t half, uint32_t step,
                          float scale) {
    for (uint32_t i = 0; i < half; i++) {
        float u = a[i * step], v = b[i * step];
        a[i * step] = (u * c[i] - v * s[i]) * scale;
        b[i * step] = (v * c[i] + u * s[i]) * scale;
    }
}

static void rotate_token(void *ctx, int t) {
    const rope_job *j = ctx;
    uint32_t half = j->rotated / 2;
    const float *c = j->angles + (size_t)t * gw_ld(j->rotated), *s = c + half;
    for (uint32_t head = 0; head < j->x.columns; head += j->d) {
        float *a = gw_row(j->x, t) + head;
        if (j->pairs) rotate(a, a + 1, c, s, half, 2, j->scale);
        else rotate(a, a + half, c, s, half, 1, j->scale);
    }
}

static void scale_token(void *ctx, int t) {
    const rope_job *j = ctx;
    float *x = gw_row(j->x, t);
    for (uint32_t c = 0; c < j->x.columns; c++) x[c] *= j->scale;
}

void gw_rotate(gw_pool *p, gw_view x, const gw_rope *rope, const float *angles, bool pairs, float scale) {
    rope_job j = { x, angles, rope->head_dim, rope->rotated, pairs, scale };
    bool scales = scale != 1 && (!angles || j.rotated < j.d);
    if (scales) gw_parallel(p, scale_token, &j, x.n);
    if (scales) j.scale = 1; /* scale_token() has scaled all columns, including those without rotation */
    if (angles) gw_parallel(p, rotate_token, &j, x.n);
}

typedef struct {
    float *gate;
    float *up;
    int act;
    size_t items, step;
} activation_job;

/* gelu_tanh(x) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016) */
static inline float gelu(float x) {
    float u = 0.7978845608f * (x + 0.044715f * (x * x * x));
    return x / (1.0f + gw_exp(-2.0f * u));
}

static inline float silu(float x) { return x / (1.0f + gw_exp(-x)); }

/* Has one loop for each activation function, so that compilers vectorise them. */
static void activate_part(void *ctx, int part) {
    const activation_job *j = ctx;
    size_t first = part * j->step, last = gw_min(first + j->step, j->items);
    float *gate = j->gate, *up = j->up;
    if (!gate && j->act == GW_ACT_GELU)
        for (size_t i = first; i < last; i++) up[i] = gelu(up[i]);
    else if (!gate)
        for (size_t i = first; i < last; i++) up[i] = silu(up[i]);
    else if (j->act == GW_ACT_GELU)
        for (size_t i = first; i < last; i++) gate[i] = gelu(gate[i]) * up[i];
    else
        for (size_t i = first; i < last; i++) gate[i] = silu(gate[i]) * up[i];
}

void gw_activate(gw_pool *p, int act, gw_view gate, gw_view up) {
    size_t items = (size_t)up.n * gw_ld(up.columns); /* the rows of `up` are contiguous, so they form one array */
    activation_job j = { gate.at, up.at, act, items, gw_max(1024, gw_round_up(items / 16, 16)) };
    gw_parallel(p, activate_part, &j, (int)((items + j.step - 1) / j.step));
}

typedef struct {
    gw_view x;
    const float *bias;
} bias_job;

static void bias_token(void *ctx, int t) {
    const bias_job *j = ctx;
    float *x = gw_row(j->x, t);
    for (uint32_t c = 0; c < j->x.columns; c++) x[c] += j->bias[c];
}

void gw_add_bias(gw_pool *p, gw_view x, const float *bias) {
    bias_job j = { x, bias };
    if (bias) gw_parallel(p, bias_token, &j, x.n);
}
