/* attention: softmax(q k) v over the cache, with a running maximum (Milakov & Gimelshein 2018;
 * Dao 2022), span by span. Positions are cut at absolute ones: blocks of GW_KEYS inside spans of GW_SPAN. A query
 * goes through the blocks of a span in order, first for its scores, then with their weights through the values, and
 * through the spans in order; so its result does not depend on which queries share its batch, nor on whether the
 * spans ran on one thread or on many. */
#include "model/ops.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 16, FEW_SPANS = 8, CACHE_LINE = 64 };

/* One query in one span: acc[head_dim] = sum of exp(score - max) * value, total = sum of the weights. */
typedef struct {
    const void *q;            /* as the layer's kernels want it */
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
    uint32_t first_span;      /* for one token, as is this: */
    const uint8_t *rows;      /* [n_head][query_bytes] queries as the kernels want them */
} job;

/* The kernels of a type; no `widen`: they take many queries as fast as few. */
static const struct kernels {
    gw_scores_kernel *scores;
    gw_mix_kernel *mix;
    gw_widen_kernel *widen;
} kernels_of[GW_KV_TYPES] = {
    [GW_KV_F32] = { GW_KERNEL(scores_f32), GW_KERNEL(mix_f32), NULL },
    [GW_KV_I16] = { GW_KERNEL(scores_i16), GW_KERNEL(mix_i16), NULL },
    [GW_KV_Q8] = { GW_KERNEL(scores_q8), GW_KERNEL(mix_q8), GW_KERNEL(widen_q8) },
};

/* Some queries in one span of one kv head: what they see lies in from .. to - 1. */
typedef struct {
    const job *j;
    int kv_head, n;
    query *qs;                /* [n] */
    uint32_t from, to;
    float *p;                 /* [n][GW_SPAN] scores, then weights, by position in the span */
} span;

/* A block of rows of one plane. */
typedef struct {
    const struct kernels *kernels;
    const uint8_t *rows;
    size_t stride;
    uint32_t first;           /* position of the first row */
} block;

typedef void verb(const span *s, const block *b, int query, int count, uint32_t from, uint32_t to);

static void score(const span *s, const block *b, int first, int count, uint32_t from, uint32_t to) {
    const void *q[GW_HEADS];
    for (int i = 0; i < count; i++) q[i] = s->qs[first + i].q;
    b->kernels->scores(q, count, b->rows + (from - b->first) * b->stride, b->stride, (int)(to - from),
                       s->j->h.head_dim, s->p + (size_t)first * GW_SPAN + from % GW_SPAN);
}

static void mix(const span *s, const block *b, int first, int count, uint32_t from, uint32_t to) {
    float *acc[GW_HEADS];
    for (int i = 0; i < count; i++) acc[i] = s->qs[first + i].acc;
    b->kernels->mix(s->p + (size_t)first * GW_SPAN + from % GW_SPAN, count, b->rows + (from - b->first) * b->stride,
                    b->stride, (int)(to - from), s->j->h.head_dim, acc);
}

static void visible_in(const query *q, uint32_t begin, uint32_t end, uint32_t *from, uint32_t *to) {
    *from = (uint32_t)gw_max(begin, q->first);
    *to = (uint32_t)gw_min(end, (size_t)q->last + 1);
}

/* Does it to a block, with as many neighbours together as see the same positions of it. */
static void each_query(const span *s, const block *b, verb *f) {
    uint32_t from, to, other_from, other_to;
    for (int i = 0, count; i < s->n; i += count) {
        visible_in(&s->qs[i], b->first, b->first + GW_KEYS, &from, &to);
        for (count = 1; count < GW_HEADS && i + count < s->n; count++) {
            visible_in(&s->qs[i + count], b->first, b->first + GW_KEYS, &other_from, &other_to);
            if (other_from != from || other_to != to) break;
        }
        if (from < to) f(s, b, i, count, from, to);
    }
}

/* Reads a block's rows in one go before they are used bit by bit: else the memory system, which follows no stream
 * over the end of a page, would be waited for at each. Where queries are few; else a row is used often. */
static void touch(const span *s, const uint8_t *plane, size_t stride, uint32_t first) {
    const gw_kv_layer *kv = s->j->kv;
    const volatile uint8_t *at = plane + first % kv->rows * stride + (size_t)s->kv_head * kv->head;
    for (int row = 0; row < GW_KEYS; row++, at += stride)
        for (uint32_t i = 0; i < kv->head; i += CACHE_LINE) (void)at[i];
}

/* Where queries are many, rows are widened once for all of them. */
static void each_block(const span *s, const uint8_t *plane, verb *f) {
    const gw_kv_layer *kv = s->j->kv;
    const struct kernels *kernels = &kernels_of[kv->type];
    size_t stride = (size_t)s->j->h.n_head_kv * kv->head;
    int d = s->j->h.head_dim;
    bool few = s->n <= GW_HEADS, widen = !few && kernels->widen;
    float wide[GW_KEYS * GW_MAX_HEAD_DIM];
    uint32_t begin = s->from / GW_KEYS * GW_KEYS;
    if (few) touch(s, plane, stride, begin);
    for (uint32_t first = begin; first < s->to; first += GW_KEYS) {
        block b = { kernels, plane + first % kv->rows * stride + (size_t)s->kv_head * kv->head, stride, first };
        if (widen) {
            kernels->widen(b.rows, stride, (int)gw_min(GW_KEYS, s->to - first), d, wide);
            b = (block){ &kernels_of[GW_KV_F32], (uint8_t *)wide, d * sizeof(float), first };
        }
        if (few && first + GW_KEYS < s->to) touch(s, plane, stride, first + GW_KEYS);
        each_query(s, &b, f);
    }
}

/* Scores to weights, relative to the largest one. */
static void weigh(query *q, uint32_t begin, uint32_t end, float *p) {
    uint32_t from, to;
    visible_in(q, begin, end, &from, &to);
    q->max = -INFINITY;
    q->total = 0;
    if (from >= to) return;
    p += from % GW_SPAN;
    for (uint32_t i = 0; i < to - from; i++) q->max = p[i] > q->max ? p[i] : q->max;
    q->total = GW_KERNEL(weigh)(p, (int)(to - from), q->max);
}

/* All queries of qs through the positions from .. to - 1 of one kv head, which are of one span. */
static void attend(const job *j, int kv_head, query *qs, int n_queries, uint32_t from, uint32_t to) {
    float p[QUERIES * GW_SPAN];
    span s = { j, kv_head, n_queries, qs, from, to, p };
    each_block(&s, j->kv->k, score);
    for (int i = 0; i < n_queries; i++) {
        weigh(&qs[i], from, to, p + i * GW_SPAN);
        memset(qs[i].acc, 0, j->h.head_dim * sizeof(float));
    }
    each_block(&s, j->kv->v, mix);
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

/* A query as the kernels want it is `query_bytes` long: row i of `room`, or q itself. */
static size_t query_bytes(const job *j) {
    return j->kv->type == GW_KV_I16 ? GW_I16_BYTES((size_t)j->h.head_dim) : j->h.head_dim * sizeof(float);
}

static const void *query_row(const job *j, const float *q, uint8_t *room, int i) {
    if (j->kv->type != GW_KV_I16) return q;
    uint8_t *row = room + i * query_bytes(j);
    gw_kv_query(row, q, (uint32_t)j->h.head_dim);
    return row;
}

/* --- many tokens: an item is a few tokens x the heads of one kv head, all spans in order --- */

static void tokens_item(void *ctx, int item) {
    const job *j = ctx;
    int d = j->h.head_dim, groups = groups_per_kv(j), head;
    int token = item / (j->h.n_head_kv * groups) * j->tokens, kv_head = item / groups % j->h.n_head_kv;
    int n_heads = heads_of(j, kv_head, item % groups, &head), n_tokens = (int)gw_min(j->tokens, j->n - token);
    float acc[QUERIES * GW_MAX_HEAD_DIM], max[QUERIES], total[QUERIES] = { 0 };
    uint8_t room[QUERIES * GW_I16_BYTES(GW_MAX_HEAD_DIM)];
    query qs[QUERIES];
    int n = 0;
    uint32_t first = first_visible(j, j->pos + token), last = j->pos + token + n_tokens - 1;
    for (int t = 0; t < n_tokens; t++)
        for (int h = 0; h < n_heads; h++, n++) {
            uint32_t pos = j->pos + token + t;
            const float *q = j->q + (token + t) * j->ldq + (size_t)(head + h) * d;
            qs[n] = (query){ .q = query_row(j, q, room, n), .acc = acc + n * d,
                             .first = first_visible(j, pos), .last = pos };
        }
    for (uint32_t span = first / GW_SPAN; span <= last / GW_SPAN; span++) {
        attend(j, kv_head, qs, n, (uint32_t)gw_max(first, (size_t)span * GW_SPAN),
               (uint32_t)gw_min((size_t)last + 1, (size_t)(span + 1) * GW_SPAN));
        for (int i = 0; i < n; i++)
            merge(&max[i], &total[i],
                  j->out + (token + i / n_heads) * j->ldq + (size_t)(head + i % n_heads) * d, &qs[i], d);
    }
    for (int i = 0; i < n; i++)
        divide(j->out + (token + i / n_heads) * j->ldq + (size_t)(head + i % n_heads) * d, total[i], d);
}

/* --- one token: an item is one span x the heads of one kv head; then the spans are merged --- */

static float *partial_of(const job *j, uint32_t span, int head) {
    return j->ops->partial + ((size_t)(span - j->first_span) * j->h.n_head + head) * (j->h.head_dim + 2);
}

static void span_item(void *ctx, int item) {
    const job *j = ctx;
    int groups = groups_per_kv(j), head;
    int per_span = j->h.n_head_kv * groups, kv_head = item % per_span / groups;
    uint32_t span = j->first_span + item / per_span, first = first_visible(j, j->pos);
    int n = heads_of(j, kv_head, item % groups, &head);
    query qs[QUERIES];
    for (int i = 0; i < n; i++)
        qs[i] = (query){ .q = j->rows + (head + i) * query_bytes(j),
                         .acc = partial_of(j, span, head + i) + 2,
                         .first = first,
                         .last = j->pos };
    attend(j, kv_head, qs, n, (uint32_t)gw_max(first, (size_t)span * GW_SPAN),
           (uint32_t)gw_min((size_t)j->pos + 1, (size_t)(span + 1) * GW_SPAN));
    for (int i = 0; i < n; i++) {
        partial_of(j, span, head + i)[0] = qs[i].max;
        partial_of(j, span, head + i)[1] = qs[i].total;
    }
}

static void merge_head(void *ctx, int head) {
    const job *j = ctx;
    int d = j->h.head_dim;
    float max = 0, total = 0, *out = j->out + (size_t)head * d;
    for (uint32_t s = j->first_span; s <= j->pos / GW_SPAN; s++) {
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
    j.first_span = first_visible(&j, pos) / GW_SPAN;
    uint32_t spans = pos / GW_SPAN - j.first_span + 1;
    uint8_t *room = (uint8_t *)(o->partial + (size_t)spans * h.n_head * (h.head_dim + 2));
    for (int head = 0; head < h.n_head; head++)
        query_row(&j, q + (size_t)head * h.head_dim, room, head);
    j.rows = kv->type == GW_KV_I16 ? room : (const uint8_t *)q;
    gw_parallel(o->pool, span_item, &j, (int)spans * per_token);
    if (spans > FEW_SPANS) gw_parallel(o->pool, merge_head, &j, h.n_head);
    else for (int head = 0; head < h.n_head; head++) merge_head(&j, head);
}

uint64_t gw_attention_partials(gw_heads h, uint32_t n_ctx) {
    uint64_t spans = (uint64_t)n_ctx / GW_SPAN + 2, queries = 1;   /* a query is no longer than an acc, max and total */
    return (spans + queries) * (uint64_t)h.n_head * (uint64_t)(h.head_dim + 2);
}
