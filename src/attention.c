/* attention: softmax(q k) v over the cache, with a running maximum (Milakov & Gimelshein 2018;
 * Dao 2022). Keys are cut at absolute positions: blocks of GW_KEYS inside spans of SPAN. A query goes
 * through the blocks of a span in order, and through the spans in order; so its result does not
 * depend on which queries share its batch, nor on whether the spans ran on one thread or on many. */
#include "ops.h"

#include <math.h>
#include <string.h>

enum { SPAN = 128, QUERIES = 16, MAX_HEAD_DIM = 512, FEW_SPANS = 8, CACHE_LINE = 64 };

/* One query in one span: acc[head_dim] = sum of exp(score - max) * value, total = sum of the weights. */
typedef struct {
    const float *q;
    float *acc;
    float max, total;
    uint32_t first, last;     /* visible positions, last included */
} query;

typedef struct {
    gw_ops *ops;
    gw_heads h;
    const gw_kv_layer *kv;
    uint32_t pos;
    const float *q;
    size_t ldq;
    int n;
    float *out;
    int group, tokens;        /* heads of one kv head taken at once; tokens taken at once */
    uint32_t first_span;
} job;

/* The kernels of a type; no `widen`: rows are floats. */
static const struct kernels {
    gw_scores_kernel *scores;
    gw_mix_kernel *mix;
    gw_widen_kernel *widen;
} kernels_of[GW_KV_TYPES] = {
    [GW_KV_F32] = { GW_KERNEL(scores_f32), GW_KERNEL(mix_f32), NULL },
    [GW_KV_F16] = { GW_KERNEL(scores_f16), GW_KERNEL(mix_f16), GW_KERNEL(widen_f16) },
    [GW_KV_Q8] = { GW_KERNEL(scores_q8), GW_KERNEL(mix_q8), GW_KERNEL(widen_q8) },
};

/* The rows of a block of keys for one kv head. */
typedef struct {
    const struct kernels *kernels;
    const uint8_t *k, *v;
    size_t stride;
    uint32_t first;           /* position of the first row */
    int d;
} rows;

static void visible_in(const query *q, uint32_t block, uint32_t *from, uint32_t *to) {
    *from = (uint32_t)gw_max(block, q->first);
    *to = (uint32_t)gw_min(block + GW_KEYS, (size_t)q->last + 1);
}

/* Takes the block into the first of the `most` queries and those behind it that see the same positions of it;
 * returns how many they are. */
static int take_block(query *qs, int most, const rows *r) {
    uint32_t from, to, other_from, other_to;
    const float *q[GW_HEADS];
    float p[GW_HEADS * GW_KEYS], keep[GW_HEADS], *acc[GW_HEADS];
    int count = 0;
    visible_in(qs, r->first, &from, &to);
    for (; count < GW_HEADS && count < most; count++) {
        visible_in(&qs[count], r->first, &other_from, &other_to);
        if (other_from != from || other_to != to) break;
        q[count] = qs[count].q;
        acc[count] = qs[count].acc;
    }
    if (from >= to) return count;
    int n = (int)(to - from);
    size_t skip = (from - r->first) * r->stride;
    r->kernels->scores(q, count, r->k + skip, r->stride, n, r->d, p);
    for (int i = 0; i < count; i++) {
        float max = qs[i].max, *s = p + i * GW_KEYS;
        for (int j = 0; j < n; j++) max = s[j] > max ? s[j] : max;
        keep[i] = max == qs[i].max ? 1.0f : qs[i].total > 0 ? gw_exp(qs[i].max - max) : 0.0f;
        qs[i].max = max;
        qs[i].total = qs[i].total * keep[i] + GW_KERNEL(weigh)(s, n, max);
    }
    r->kernels->mix(p, keep, count, r->v + skip, r->stride, n, r->d, acc);
    return count;
}

/* Reads a block's rows in one go before they are used bit by bit: else the memory system, which follows no stream
 * over the end of a page, would be waited for at each. Decode only; in prefill a row is used often. */
static void touch(const gw_kv_layer *kv, const uint8_t *plane, int kv_head, size_t stride, uint32_t block) {
    const volatile uint8_t *at = plane + block % kv->rows * stride + (size_t)kv_head * kv->head;
    for (int row = 0; row < GW_KEYS; row++, at += stride)
        for (uint32_t i = 0; i < kv->head; i += CACHE_LINE) (void)at[i];
}

/* All queries of qs through the positions from .. to - 1 of one kv head. Where they are many, rows are widened
 * once for all of them. */
static void attend(const job *j, int kv_head, query *qs, int n_queries, uint32_t from, uint32_t to) {
    const gw_kv_layer *kv = j->kv;
    rows r = { .kernels = &kernels_of[kv->type], .d = j->h.head_dim };
    float keys[GW_KEYS * MAX_HEAD_DIM], values[GW_KEYS * MAX_HEAD_DIM];
    size_t stride = (size_t)j->h.n_head_kv * kv->head;
    gw_widen_kernel *widen = n_queries > GW_HEADS ? r.kernels->widen : NULL;
    for (int i = 0; i < n_queries; i++) {
        qs[i].max = -INFINITY;
        qs[i].total = 0;
        memset(qs[i].acc, 0, r.d * sizeof(float));
    }
    for (uint32_t block = from / GW_KEYS * GW_KEYS; block < to; block += GW_KEYS) {
        size_t at = block % kv->rows * stride + (size_t)kv_head * kv->head;
        r = (rows){ r.kernels, kv->k + at, kv->v + at, stride, block, r.d };
        if (widen) {
            int n = (int)gw_min(GW_KEYS, to - block);
            widen(r.k, stride, n, r.d, keys);
            widen(r.v, stride, n, r.d, values);
            r = (rows){ &kernels_of[GW_KV_F32], (uint8_t *)keys, (uint8_t *)values, r.d * sizeof(float), block, r.d };
        }
        if (n_queries <= GW_HEADS) {
            if (block <= from) touch(kv, kv->v, kv_head, stride, block);
            if (to - block > 2 * GW_KEYS) touch(kv, kv->k, kv_head, stride, block + GW_KEYS);
            if (to - block > 2 * GW_KEYS) touch(kv, kv->v, kv_head, stride, block + GW_KEYS);
        }
        for (int i = 0; i < n_queries;) i += take_block(&qs[i], n_queries - i, &r);
    }
}

static uint32_t first_visible(const job *j, uint32_t pos) {
    return j->h.window && pos >= j->h.window ? pos - j->h.window + 1 : 0;
}

/* (max, total, acc) += (max2, total2, acc2) */
static void merge(float *max, float *total, float *acc, const query *b, int d) {
    if (b->total == 0) return;
    if (*total == 0) {
        *max = b->max;
        *total = b->total;
        memcpy(acc, b->acc, d * sizeof(float));
        return;
    }
    float top = *max > b->max ? *max : b->max;
    float keep = gw_exp(*max - top), add = gw_exp(b->max - top);
    *max = top;
    *total = *total * keep + b->total * add;
    for (int i = 0; i < d; i++) acc[i] = acc[i] * keep + b->acc[i] * add;
}

static void divide(float *acc, float total, int d) {
    float inverse = 1.0f / total;
    for (int i = 0; i < d; i++) acc[i] *= inverse;
}

static int heads_per_kv(const job *j) { return j->h.n_head / j->h.n_head_kv; }
static int groups_per_kv(const job *j) { return (heads_per_kv(j) + j->group - 1) / j->group; }

/* Which queries item (kv head, group) holds: heads first .. first + count - 1. */
static int heads_of(const job *j, int kv_head, int group, int *first) {
    *first = kv_head * heads_per_kv(j) + group * j->group;
    return (int)gw_min(j->group, heads_per_kv(j) - group * j->group);
}

/* --- many tokens: an item is a few tokens x the heads of one kv head, all spans in order --- */

static void tokens_item(void *ctx, int item) {
    const job *j = ctx;
    int d = j->h.head_dim, groups = groups_per_kv(j), head;
    int token = item / (j->h.n_head_kv * groups) * j->tokens, kv_head = item / groups % j->h.n_head_kv;
    int n_heads = heads_of(j, kv_head, item % groups, &head), n_tokens = (int)gw_min(j->tokens, j->n - token);
    float acc[QUERIES * MAX_HEAD_DIM], max[QUERIES], total[QUERIES] = { 0 };
    query qs[QUERIES];
    uint32_t first = first_visible(j, j->pos + token), last = j->pos + token + n_tokens - 1;
    for (uint32_t span = first / SPAN; span <= last / SPAN; span++) {
        int n = 0;
        for (int t = 0; t < n_tokens; t++)
            for (int h = 0; h < n_heads; h++, n++) {
                uint32_t pos = j->pos + token + t;
                qs[n] = (query){ .q = j->q + (token + t) * j->ldq + (size_t)(head + h) * d, .acc = acc + n * d,
                                 .first = first_visible(j, pos), .last = pos };
            }
        attend(j, kv_head, qs, n, (uint32_t)gw_max(first, (size_t)span * SPAN),
               (uint32_t)gw_min((size_t)last + 1, (size_t)(span + 1) * SPAN));
        for (int i = 0; i < n; i++)
            merge(&max[i], &total[i],
                  j->out + (token + i / n_heads) * j->ldq + (size_t)(head + i % n_heads) * d, &qs[i], d);
    }
    for (int i = 0; i < n_tokens * n_heads; i++)
        divide(j->out + (token + i / n_heads) * j->ldq + (size_t)(head + i % n_heads) * d, total[i], d);
}

/* --- one token: an item is one span x the heads of one kv head; then the spans are merged --- */

static float *partial_of(const job *j, uint32_t span, int head) {
    return j->ops->partial + ((size_t)(span - j->first_span) * j->h.n_head + head) * (j->h.head_dim + 2);
}

static void span_item(void *ctx, int item) {
    const job *j = ctx;
    int groups = groups_per_kv(j), head, d = j->h.head_dim;
    int per_span = j->h.n_head_kv * groups, kv_head = item % per_span / groups;
    uint32_t span = j->first_span + item / per_span, first = first_visible(j, j->pos);
    int n = heads_of(j, kv_head, item % groups, &head);
    query qs[QUERIES];
    for (int i = 0; i < n; i++)
        qs[i] = (query){ .q = j->q + (size_t)(head + i) * d,
                         .acc = partial_of(j, span, head + i) + 2,
                         .first = first,
                         .last = j->pos };
    attend(j, kv_head, qs, n, (uint32_t)gw_max(first, (size_t)span * SPAN),
           (uint32_t)gw_min((size_t)j->pos + 1, (size_t)(span + 1) * SPAN));
    for (int i = 0; i < n; i++) {
        partial_of(j, span, head + i)[0] = qs[i].max;
        partial_of(j, span, head + i)[1] = qs[i].total;
    }
}

static void merge_head(void *ctx, int head) {
    const job *j = ctx;
    int d = j->h.head_dim;
    float max = 0, total = 0, *out = j->out + (size_t)head * d;
    for (uint32_t s = j->first_span; s <= j->pos / SPAN; s++) {
        float *p = partial_of(j, s, head);
        merge(&max, &total, out, &(query){ .max = p[0], .total = p[1], .acc = p + 2 }, d);
    }
    divide(out, total, d);
}

void gw_attention(gw_ops *o, gw_heads h, const gw_kv_layer *kv, uint32_t pos, const float *q, size_t ldq, int n,
                  float *out) {
    job j = { .ops = o, .h = h, .kv = kv, .pos = pos, .q = q, .ldq = ldq, .n = n, .out = out };
    j.group = (int)gw_min(heads_per_kv(&j), QUERIES);
    j.tokens = QUERIES / j.group;
    int per_token = h.n_head_kv * groups_per_kv(&j);
    if (n > 1) {
        gw_parallel(o->pool, tokens_item, &j, (n + j.tokens - 1) / j.tokens * per_token);
        return;
    }
    j.first_span = first_visible(&j, pos) / SPAN;
    uint32_t spans = pos / SPAN - j.first_span + 1;
    gw_parallel(o->pool, span_item, &j, (int)spans * per_token);
    if (spans > FEW_SPANS) gw_parallel(o->pool, merge_head, &j, h.n_head);
    else for (int head = 0; head < h.n_head; head++) merge_head(&j, head);
}

uint64_t gw_attention_partials(gw_heads h, uint32_t n_ctx) {
    return ((uint64_t)n_ctx / SPAN + 2) * (uint64_t)h.n_head * (uint64_t)(h.head_dim + 2);
}
