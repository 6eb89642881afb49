/* attention: see attention.h. Computes the softmax span by span, with a running maximum (Milakov & Gimelshein 2018; Dao
 * 2022).
 *
 * Positions are divided at fixed multiples: blocks of GW_KEYS inside spans of GW_SPAN. Each query passes through the
 * blocks of a span in order, first for its scores, then for its weighted values, and through the spans in order; so its
 * result depends neither on the other queries in its batch nor on the number of threads.
 *
 * Queries of one kv head form groups, so that each row of the cache is read once per group. The first half of this file
 * computes one group in one span; the second half divides a batch into groups. */
#include "model/attention.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 16, FEW_SPANS = 8, CACHE_LINE = 64 };

/* The attention kernels of a type of KV cache. widen converts rows to floats for many queries; it is NULL if the
 * kernels are as fast without it. */
static const struct kernels {
    gw_scores_kernel *scores;
    gw_mix_kernel *mix;
    gw_widen_kernel *widen;
} kernels_of[GW_KV_TYPES] = {
    [GW_KV_F32] = { GW_KERNEL(scores_f32), GW_KERNEL(mix_f32), NULL },
    [GW_KV_I16] = { GW_KERNEL(scores_i16), GW_KERNEL(mix_i16), NULL },
    [GW_KV_Q8] = { GW_KERNEL(scores_q8), GW_KERNEL(mix_q8), GW_KERNEL(widen_q8) },
};

/* A partial softmax: total = sum of exp(score - max), acc[head_dim] = sum of exp(score - max) * value. */
typedef struct {
    float max, total, *acc;
} partial;

typedef struct {
    const void *q;        /* the query, in the layout of the layer's kernels */
    uint32_t first, last; /* first and last position that the query attends to */
    partial sum;
} query;

/* A group: some queries of one KV head, in the order of their positions. */
typedef struct {
    const gw_kv_layer *kv;
    size_t stride, head; /* bytes of a KV cache row, and offset of the KV head in the row */
    int d, n;
    float cap;
    query q[QUERIES]; /* [n] */
} group;

/* --- a group in one span: its queries' scores, then softmax weights, are p[n][GW_SPAN] --- */

/* A block: rows of keys or values, as many as the kernels process at once. */
typedef struct {
    const struct kernels *kernels;
    const uint8_t *rows;
    size_t stride;
    uint32_t first;
} block;

/* Consecutive queries of a group that attend to the same rows [from, to) of a block; no rows if from >= to. */
typedef struct {
    int first, count;
    uint32_t from, to;
} alike;

static const uint8_t *row_at(const group *g, const uint8_t *plane, uint32_t pos) {
    return plane + gw_kv_row(g->kv, pos) * g->stride + g->head;
}

/* Touches rows of the cache before they are used: hardware prefetchers stop at page boundaries, so the first access to
 * each page would stall. Only for few queries, because many queries use each row often. */
static void fetch(const group *g, const uint8_t *plane, uint32_t first, uint32_t end) {
    if (g->n > GW_HEADS || first >= end) return;
    const volatile uint8_t *row = row_at(g, plane, first); /* volatile keeps reads whose values are not used */
    for (int j = 0; j < GW_KEYS; j++, row += g->stride)
        for (uint32_t i = 0; i < g->kv->head; i += CACHE_LINE) (void)row[i];
}

static block block_at(const group *g, const uint8_t *plane, uint32_t first, uint32_t end, float *wide) {
    block b = { &kernels_of[g->kv->type], row_at(g, plane, first), g->stride, first };
    if (g->n <= GW_HEADS || !b.kernels->widen) return b;
    b.kernels->widen(b.rows, b.stride, (int)gw_min(GW_KEYS, end - first), g->d, wide);
    return (block){ &kernels_of[GW_KV_F32], (uint8_t *)wide, g->d * sizeof(float), first };
}

static alike alike_from(const group *g, int i, uint32_t begin, uint32_t end) {
    alike a = { i, 0, 0, 0 };
    for (; a.count < GW_HEADS && i < g->n; i++, a.count++) {
        uint32_t from = (uint32_t)gw_max(begin, g->q[i].first), to = (uint32_t)gw_min(end, (size_t)g->q[i].last + 1);
        if (a.count > 0 && (from != a.from || to != a.to)) break;
        a.from = from, a.to = to;
    }
    return a;
}

static void score(const group *g, const block *b, const alike *a, float *p) {
    const void *q[GW_HEADS];
    for (int i = 0; i < a->count; i++) q[i] = g->q[a->first + i].q;
    b->kernels->scores(q, a->count, b->rows + (a->from - b->first) * b->stride, b->stride, (int)(a->to - a->from), g->d,
                       p + (size_t)a->first * GW_SPAN + a->from % GW_SPAN);
}

static void mix(const group *g, const block *b, const alike *a, const float *p) {
    float *acc[GW_HEADS];
    for (int i = 0; i < a->count; i++) acc[i] = g->q[a->first + i].sum.acc;
    b->kernels->mix(p + (size_t)a->first * GW_SPAN + a->from % GW_SPAN, a->count,
                    b->rows + (a->from - b->first) * b->stride, b->stride, (int)(a->to - a->from), g->d, acc);
}

/* Computes scores from the keys, or weighted sums from the values, at positions [from, to). */
static void through(const group *g, bool keys, uint32_t from, uint32_t to, float *p) {
    const uint8_t *plane = keys ? g->kv->k : g->kv->v;
    float wide[GW_KEYS * GW_MAX_HEAD_DIM];
    uint32_t at = from / GW_KEYS * GW_KEYS;
    for (fetch(g, plane, at, to); at < to; at += GW_KEYS) {
        block b = block_at(g, plane, at, to, wide);
        fetch(g, plane, at + GW_KEYS, to);
        alike a = { 0 };
        for (int i = 0; i < g->n; i += a.count) {
            a = alike_from(g, i, at, at + GW_KEYS);
            if (a.from >= a.to) continue;
            if (keys) score(g, &b, &a, p);
            else mix(g, &b, &a, p);
        }
    }
}

static void weigh(query *q, float cap, uint32_t begin, uint32_t end, float *p) {
    size_t from = gw_max(begin, q->first), to = gw_min(end, (size_t)q->last + 1);
    q->sum.max = -INFINITY;
    q->sum.total = 0;
    if (from >= to) return;
    int n = (int)(to - from);
    p += from % GW_SPAN;
    if (cap > 0) GW_KERNEL(soft_cap)(p, n, cap);
    for (int i = 0; i < n; i++) q->sum.max = p[i] > q->sum.max ? p[i] : q->sum.max;
    q->sum.total = GW_KERNEL(weigh)(p, n, q->sum.max);
}

/* The part of a span to which at least one query of a group attends. */
typedef struct {
    uint32_t from, to;
} stretch;

static stretch stretch_of(const group *g, uint32_t span) {
    return (stretch){ (uint32_t)gw_max(g->q[0].first, (size_t)span * GW_SPAN),
                      (uint32_t)gw_min((size_t)g->q[g->n - 1].last + 1, ((size_t)span + 1) * GW_SPAN) };
}

static void find_weights(group *g, stretch s, float *p) {
    through(g, true, s.from, s.to, p);
    for (int i = 0; i < g->n; i++) weigh(&g->q[i], g->cap, s.from, s.to, p + i * GW_SPAN);
}

static void attend(group *g, uint32_t span) {
    float p[QUERIES * GW_SPAN];
    stretch s = stretch_of(g, span);
    find_weights(g, s, p);
    for (int i = 0; i < g->n; i++) memset(g->q[i].sum.acc, 0, g->d * sizeof(float));
    through(g, false, s.from, s.to, p);
}

/* --- merging the partial softmaxes of spans --- */

/* Adds the partial softmax b to a. */
static void merge(partial *a, const partial *b, int d) {
    if (b->total == 0) return;
    if (a->total == 0) {
        a->max = b->max;
        a->total = b->total;
        memcpy(a->acc, b->acc, d * sizeof(float));
        return;
    }
    float top = a->max > b->max ? a->max : b->max;
    float keep = gw_exp(a->max - top), add = gw_exp(b->max - top);
    a->max = top;
    a->total = a->total * keep + b->total * add;
    for (int i = 0; i < d; i++) a->acc[i] = a->acc[i] * keep + b->acc[i] * add;
}

static void divide(const partial *a, int d) {
    float inverse = 1.0f / a->total;
    for (int i = 0; i < d; i++) a->acc[i] *= inverse;
}

/* --- dividing a batch into groups --- */

typedef struct {
    gw_heads h;
    const gw_kv_layer *kv;
    uint32_t pos;
    const float *q;
    size_t ldq;
    int n;
    float *out;
    int tokens, heads;   /* maximum number of tokens, and of query heads, in a group */
    int parts, items;    /* number of groups for the same tokens: of one KV head, and of all KV heads */
    uint32_t first_span; /* fields first_span, partials and rows are set only for a single token */
    float *partials;     /* partial softmaxes [spans][n_head][2 + head_dim]: max, total, acc */
    const uint8_t *rows; /* [n_head][query_bytes] queries in the kernels' layout */
} job;

static uint32_t first_visible(const gw_heads *h, uint32_t pos) { return pos > h->before ? pos - h->before : 0; }

static uint32_t last_visible(const gw_heads *h, uint32_t pos) {
    return pos + (uint32_t)gw_min(h->after, h->last - pos);
}

static size_t query_bytes(const job *j) {
    return j->kv->type == GW_KV_I16 ? GW_I16_BYTES((size_t)j->h.head_dim) : j->h.head_dim * sizeof(float);
}

/* Returns query q in the layout of the attention kernels: converted into row i of `room`, or q itself if floats are the
 * layout. */
static const void *query_row(const job *j, const float *q, uint8_t *room, int i) {
    if (j->kv->type != GW_KV_I16) return q;
    uint8_t *row = room + i * query_bytes(j);
    gw_kv_query(row, q, (uint32_t)j->h.head_dim);
    return row;
}

/* Prepares the group of a work item, without queries yet. Returns the number of the group's query heads; *head receives
 * the first of them. */
static int open_group(const job *j, int item, group *g, int *head) {
    int kv_head = item % j->items / j->parts, part = item % j->parts, of_kv = j->h.n_head / j->h.n_head_kv;
    g->kv = j->kv;
    g->stride = (size_t)j->h.n_head_kv * j->kv->head;
    g->head = (size_t)kv_head * j->kv->head;
    g->d = j->h.head_dim;
    g->cap = j->h.cap;
    g->n = 0;
    *head = kv_head * of_kv + part * j->heads;
    return (int)gw_min(j->heads, of_kv - part * j->heads);
}

static void add_query(const job *j, group *g, uint32_t pos, const void *q, float *acc) {
    g->q[g->n++] = (query){ q, first_visible(&j->h, pos), last_visible(&j->h, pos), { .acc = acc } };
}

/* Work item of a batch of several tokens: computes attention for a few of the tokens, over all their spans in order. */
static void attend_tokens(const job *j, int item) {
    group g;
    int d = j->h.head_dim, head, heads = open_group(j, item, &g, &head);
    int token = item / j->items * j->tokens, end = (int)gw_min(token + j->tokens, j->n);
    float acc[QUERIES * GW_MAX_HEAD_DIM];
    uint8_t room[QUERIES * GW_I16_BYTES(GW_MAX_HEAD_DIM)];
    partial all[QUERIES];
    for (int t = token; t < end; t++)
        for (int h = 0; h < heads; h++) {
            size_t at = t * j->ldq + (size_t)(head + h) * d;
            all[g.n] = (partial){ .acc = j->out + at };
            add_query(j, &g, j->pos + t, query_row(j, j->q + at, room, g.n), acc + g.n * d);
        }
    uint32_t first = first_visible(&j->h, j->pos + token), last = last_visible(&j->h, j->pos + end - 1);
    for (uint32_t span = first / GW_SPAN; span <= last / GW_SPAN; span++) {
        attend(&g, span);
        for (int i = 0; i < g.n; i++) merge(&all[i], &g.q[i].sum, d);
    }
    for (int i = 0; i < g.n; i++) divide(&all[i], d);
}

static float *partial_at(const job *j, uint32_t span, int head) {
    return j->partials + ((size_t)(span - j->first_span) * j->h.n_head + head) * (j->h.head_dim + 2);
}

/* Work item of a batch of a single token: attention in one of the token's spans, which merge_head() merges later. */
static void span_item(void *ctx, int item) {
    const job *j = ctx;
    group g;
    int head, heads = open_group(j, item, &g, &head);
    uint32_t span = j->first_span + item / j->items;
    for (int h = head; h < head + heads; h++)
        add_query(j, &g, j->pos, j->rows + h * query_bytes(j), partial_at(j, span, h) + 2);
    attend(&g, span);
    for (int i = 0; i < g.n; i++) {
        partial_at(j, span, head + i)[0] = g.q[i].sum.max;
        partial_at(j, span, head + i)[1] = g.q[i].sum.total;
    }
}

static void merge_head(void *ctx, int head) {
    const job *j = ctx;
    int d = j->h.head_dim;
    partial all = { .acc = j->out + (size_t)head * d };
    for (uint32_t span = j->first_span; span <= last_visible(&j->h, j->pos) / GW_SPAN; span++) {
        float *p = partial_at(j, span, head);
        merge(&all, &(partial){ p[0], p[1], p + 2 }, d);
    }
    divide(&all, d);
}

static void attend_one(gw_ops *o, job *j) {
    j->first_span = first_visible(&j->h, j->pos) / GW_SPAN;
    uint32_t spans = last_visible(&j->h, j->pos) / GW_SPAN - j->first_span + 1;
    j->partials = o->partial;
    j->rows = (const uint8_t *)j->q;
    if (j->kv->type == GW_KV_I16) {
        uint8_t *room = (uint8_t *)(o->partial + (size_t)spans * j->h.n_head * (j->h.head_dim + 2));
        for (int h = 0; h < j->h.n_head; h++) query_row(j, j->q + (size_t)h * j->h.head_dim, room, h);
        j->rows = room;
    }
    gw_parallel(o->pool, span_item, j, (int)spans * j->items);
    if (spans > FEW_SPANS) gw_parallel(o->pool, merge_head, j, j->h.n_head);
    else
        for (int h = 0; h < j->h.n_head; h++) merge_head(j, h);
}

static job job_of(const gw_attention_part *p, size_t ldq, int tokens) {
    job j = { .h = p->heads, .kv = &p->kv, .pos = p->pos, .q = p->q, .ldq = ldq, .n = p->n, .out = p->out };
    int of_kv = j.h.n_head / j.h.n_head_kv;
    j.heads = (int)gw_min(of_kv, QUERIES);
    j.tokens = (int)gw_max(1, gw_min(QUERIES / j.heads, tokens));
    j.parts = (of_kv + j.heads - 1) / j.heads;
    j.items = j.h.n_head_kv * j.parts;
    return j;
}

/* Returns the number of work items for n tokens, in groups of the same size as those of job j. */
static int items_of(const job *j, int n) { return (n + j->tokens - 1) / j->tokens * j->items; }

typedef struct {
    const gw_attention_part *parts;
    job first; /* the job of the first part: all parts have groups of the same size */
} batch_job;

static void batch_item(void *ctx, int item) {
    const batch_job *b = ctx;
    const gw_attention_part *p = b->parts;
    for (int items; item >= (items = items_of(&b->first, p->n)); p++) item -= items;
    job j = job_of(p, b->first.ldq, b->first.tokens);
    attend_tokens(&j, item);
}

void gw_attention(gw_ops *o, const gw_attention_part *parts, int n_parts, size_t ldq) {
    job first = job_of(parts, ldq, 1);
    int rows = 0, items = 0;
    if (n_parts == 1 && first.n == 1) {
        attend_one(o, &first);
        return;
    }
    for (int i = 0; i < n_parts; i++) rows += parts[i].n;
    /* In a batch of few tokens, groups are small, so that there are at least two groups for each thread. */
    batch_job b = { parts, job_of(parts, ldq, rows * first.items / (2 * gw_pool_threads(o->pool))) };
    for (int i = 0; i < n_parts; i++) items += items_of(&b.first, parts[i].n);
    gw_parallel(o->pool, batch_item, &b, items);
}

/* --- attention weights of one query, for inspection --- */

void gw_attention_weights(gw_heads h, const gw_kv_layer *kv, uint32_t pos, const float *q, int head, float *out) {
    job j = { .h = h, .kv = kv, .heads = 1, .parts = h.n_head / h.n_head_kv, .items = h.n_head };
    float p[GW_SPAN], total = 0, max = -INFINITY;
    uint8_t room[GW_I16_BYTES(GW_MAX_HEAD_DIM)];
    group g;
    int which;
    open_group(&j, head, &g, &which); /* with groups of one head, the index of a work item is that of a head */
    add_query(&j, &g, pos, query_row(&j, q, room, 0), NULL);
    uint32_t first = g.q[0].first, last = g.q[0].last, done = first;
    for (uint32_t span = first / GW_SPAN; span <= last / GW_SPAN; span++) {
        stretch s = stretch_of(&g, span);
        find_weights(&g, s, p);
        float top = max > g.q[0].sum.max ? max : g.q[0].sum.max;
        float keep = gw_exp(max - top), add = gw_exp(g.q[0].sum.max - top);
        if (keep != 1)
            for (uint32_t i = first; i < done; i++) out[i] *= keep;
        for (done = s.from; done < s.to; done++) out[done] = p[done % GW_SPAN] * add;
        total = total * keep + g.q[0].sum.total * add;
        max = top;
    }
    for (uint32_t i = first; i <= last; i++) out[i] /= total;
}

uint64_t gw_attention_partials(gw_heads h, uint32_t n_ctx) {
    uint64_t spans = (uint64_t)n_ctx / GW_SPAN + 2, queries = 1; /* a query needs no more room than a partial softmax */
    return (spans + queries) * (uint64_t)h.n_head * (uint64_t)(h.head_dim + 2);
}
