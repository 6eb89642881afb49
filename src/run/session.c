/* session: see session.h. Plans the memory, and reuses the evaluated ids that a new prompt begins with. Evaluation is
 * in step.c. */
#include "run/session.h"
#include "base/errors.h"
#include "run/errors.h"

#include <string.h>

uint32_t gw_session_block_rows(const gw_config *c, uint32_t n_ctx) {
    return c->arch->policy->by_layer ? (uint32_t)gw_round_up(n_ctx, GW_BATCH) : GW_BATCH;
}

static gw_kv_shape kv_shape(const gw_config *c, uint32_t n_ctx, int type) {
    uint32_t n_layer = c->n_layer + (c->n_target ? GW_ROPES : 0); /* an assistant also reads two layers of its target */
    gw_kv_shape shape = { n_layer, n_ctx, c->window ? c->window : n_ctx, GW_BATCH, c->layer, type };
    /* The cache has GW_KEYS more rows than tokens, because kernels read whole blocks of rows. */
    if (c->arch->policy->by_layer) shape.n_layer = 1, shape.n_ctx = shape.batch = n_ctx + GW_KEYS;
    return shape;
}

static void take_scratch(gw_session *s, const gw_config *c, gw_pool *pool, gw_arena *a) {
    gw_batch *b = &s->state.batch;
    uint32_t rows = gw_session_block_rows(c, s->n_ctx), kv = 0, ff = 0, head = 0;
    for (uint32_t l = 0; l < c->n_layer; l++) {
        const gw_layer_shape *layer = &c->layer[l];
        head = (uint32_t)gw_max(head, layer->head_dim);
        kv = (uint32_t)gw_max(kv, layer->n_head_kv * layer->head_dim);
        ff = (uint32_t)gw_max(gw_max(ff, layer->n_ff), c->n_ple);
    }
    uint32_t q = c->n_head * head;
    b->x = s->x = gw_view_take(a, rows, c->n_embd);
    b->h = gw_view_take(a, GW_BATCH, c->n_embd);
    b->q = s->q = gw_view_take(a, rows, q);
    b->a = gw_view_take(a, GW_BATCH, q);
    b->k = gw_view_take(a, GW_BATCH, kv);
    b->v = gw_view_take(a, GW_BATCH, kv);
    b->gate = gw_view_take(a, GW_BATCH, ff);
    b->up = gw_view_take(a, GW_BATCH, ff);
    for (int i = 0; i < 2 && c->n_ple; i++) b->ple[i] = gw_view_take(a, GW_BATCH, gw_ple_columns(c, i));
    if (c->n_ple) b->ple_table = gw_view_take(a, 1, c->n_ple * c->n_layer);
    for (int r = 0; r < GW_ROPES; r++)
        if (c->rope[r].base > 0) b->angles[r] = s->angles[r] = gw_view_take(a, rows, c->rope[r].rotated);
    for (uint32_t i = 0; i < s->n_sequences; i++) {
        s->sequences[i].ids = gw_arena_take(a, s->n_ctx * sizeof *s->ids);
        if (!c->arch->policy->generates) continue;
        s->sequences[i].logits = gw_view_take(a, GW_LOGIT_ROWS, c->n_vocab);
        s->sequences[i].hidden = gw_view_take(a, GW_LOGIT_ROWS, c->n_embd);
    }
    if (c->n_target) {
        b->pair = gw_view_take(a, 1, 2 * c->n_target);
        s->sequences->logits = gw_view_take(a, 1, c->n_vocab);
        s->state.likely = gw_arena_take(a, ((size_t)c->n_vocab + 31) / 32 * sizeof *s->state.likely);
    }
    if (s->n_sequences > 1) s->logits = gw_view_take(a, s->n_sequences, c->n_vocab);
    gw_vectors_init(&s->vectors, c, c->arch->policy->texts, a);
    gw_heads largest = { .n_head = (int)c->n_head, .head_dim = (int)head };
    gw_ops_init(&s->state.ops, pool, GW_BATCH,
                gw_max(gw_max(c->n_embd, ff), gw_max(gw_max(c->n_dense, q), 2 * c->n_target)),
                gw_attention_partials(largest, s->n_ctx), a);
}

static void set_shape(gw_session *s, gw_session_shape shape) {
    s->n_ctx = shape.n_ctx;
    s->n_sequences = shape.n_sequences;
    s->now = s->sequences;
}

static void take_caches(gw_session *s, const gw_config *c, const gw_session_shape *shape, gw_arena *a) {
    uint64_t tokens = shape->kv_tokens ? shape->kv_tokens : UINT64_MAX;
    gw_kv_memory_init(&s->memory, kv_shape(c, s->n_ctx, shape->kv_type), s->n_sequences, tokens, a);
    for (uint32_t i = 0; i < s->n_sequences; i++) gw_kv_init(&s->sequences[i].kv, &s->memory, a);
}

gw_session_need gw_session_measure(const gw_config *c, gw_session_shape shape) {
    gw_session s = { 0 };
    gw_arena kv = { 0 }, scratch = { 0 };
    set_shape(&s, shape);
    take_caches(&s, c, &shape, &kv);
    take_scratch(&s, c, NULL, &scratch);
    return (gw_session_need){ kv.used, scratch.used };
}

int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, gw_session_shape shape,
                    gw_error *e) {
    gw_session_need need = gw_session_measure(c, shape);
    uint64_t bytes = need.kv + need.scratch;
    memset(s, 0, sizeof *s);
    set_shape(s, shape);
    s->block = gw_alloc(gw_size(bytes));
    if (!s->block) return gw_no_memory(e, "the KV cache and scratch memory", bytes);
    gw_arena a = { .base = s->block, .size = bytes };
    s->state.config = c;
    s->state.weights = w;
    s->error = e;
    s->state.long_context = s->n_ctx > c->n_ctx_short;
    take_caches(s, c, &shape, &a);
    take_scratch(s, c, pool, &a);
    return 0;
}

void gw_session_free(gw_session *s) {
    if (s->block) gw_pure_settle(s->state.ops.pool);
    gw_free(s->block);
    memset(s, 0, sizeof *s);
    s->now = s->sequences;
}

/* --- sequences --- */

static int check_index(gw_session *s, uint32_t i) {
    if (i < s->n_sequences) return 0;
    return gw_fail(s->error, MSG_SEQUENCE, s->n_sequences - 1, i);
}

int gw_session_select(gw_session *s, uint32_t i) {
    int bad = check_index(s, i);
    if (!bad) s->now = &s->sequences[i];
    return bad;
}

int gw_session_copy(gw_session *s, uint32_t from, uint32_t n) {
    gw_sequence *q = s->now;
    if (from >= s->n_sequences || q == &s->sequences[from])
        return gw_fail(s->error, MSG_COPIED_SEQUENCE, s->n_sequences - 1, from);
    gw_session_leave_block(s);
    q->n_prompt = 0;
    q->n_ids = gw_kv_share(&q->kv, &s->sequences[from].kv, n);
    memcpy(q->ids, s->sequences[from].ids, q->n_ids * sizeof *q->ids);
    return (int)q->n_ids;
}

/* --- ids of the context --- */

static int check_id(gw_session *s, int32_t id) {
    if (id >= 0 && (uint32_t)id < s->state.config->n_vocab) return 0;
    return gw_fail(s->error, MSG_TOKEN_RANGE, s->state.config->n_vocab - 1, id);
}

/* Returns the length of the common prefix of the evaluated ids and ids[n]; less than n, because the last id is always
 * evaluated again. */
static uint32_t common_ids(const gw_sequence *q, const int32_t *ids, uint32_t n) {
    uint32_t common = 0, most = (uint32_t)gw_min(n - 1, q->kv.pos);
    while (common < most && q->ids[common] == ids[common]) common++;
    return common;
}

int gw_session_kept(gw_session *s, uint32_t i, const int32_t *ids, uint32_t n) {
    int bad = check_index(s, i);
    if (bad || !n) return bad;
    return (int)gw_kv_reach(&s->sequences[i].kv, common_ids(&s->sequences[i], ids, n));
}

/* Sets the context to ids, without evaluating them. Returns how many of the first ids are evaluated already, or an
 * error. */
static int take_ids(gw_session *s, const int32_t *ids, uint32_t n) {
    if (n == 0) return gw_fail(s->error, MSG_NO_IDS);
    if (n > s->n_ctx) return gw_fail(s->error, MSG_PROMPT_TOO_LONG, s->n_ctx, n);
    int bad;
    for (uint32_t i = 0; i < n; i++)
        if ((bad = check_id(s, ids[i]))) return bad;
    gw_session_leave_block(s);
    gw_sequence *q = s->now;
    uint32_t kept = gw_kv_rewind(&q->kv, common_ids(q, ids, n));
    memcpy(q->ids, ids, n * sizeof *ids);
    q->n_ids = n;
    q->n_prompt = n;
    q->needed = (gw_topk){ .required = q->required };
    q->want_all = q->want_top = s->want_vectors = s->want_look = false;
    q->logit_rows = 0;
    q->want_last = 1;
    atomic_store(&s->abort, 0);
    return (int)kept;
}

int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n) {
    if (s->state.config->arch->policy->generates) return take_ids(s, ids, n);
    return gw_fail(s->error, MSG_ONLY_EMBEDS);
}

/* The texts of a causal model must fit one batch and the cache, with some rows left, because kernels read whole blocks
 * of rows. With several sequences, the pages of a cache may not be consecutive, as several texts need (gw_kv_from). */
gw_session_room gw_session_together(const gw_session *s) {
    const gw_policy *policy = s->state.config->arch->policy;
    uint32_t behind = (uint32_t)gw_min(GW_KEYS, s->n_ctx), ids = (uint32_t)gw_min(GW_BATCH, s->n_ctx - behind);
    return (gw_session_room){ s->n_sequences > 1 ? 1 : policy->texts, policy->by_layer ? s->n_ctx : ids };
}

/* Sets the boundaries of the texts to embed in the array of their ids. A single text may be as long as the context. */
static int take_texts(gw_session *s, const uint32_t *lengths, uint32_t texts) {
    gw_session_room most = gw_session_together(s);
    uint32_t ids = texts > 1 ? most.ids : s->n_ctx;
    if (texts == 0 || texts > most.texts) return gw_fail(s->error, MSG_TEXTS, most.texts, texts);
    s->texts.n = texts;
    s->texts.first[0] = 0;
    for (uint32_t i = 0; i < texts; i++) {
        if (lengths[i] == 0 || lengths[i] > ids - s->texts.first[i])
            return gw_fail(s->error, MSG_TEXT_TOKENS, ids, lengths[i]);
        s->texts.first[i + 1] = s->texts.first[i] + lengths[i];
    }
    return 0;
}

int gw_session_sync_texts(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling) {
    if (pooling != GW_POOL_MEAN && pooling != GW_POOL_LAST) return gw_fail(s->error, MSG_POOLING, pooling);
    int bad = take_texts(s, lengths, texts);
    if (bad || (bad = take_ids(s, ids, s->texts.first[texts])) < 0) return bad;
    s->vectors.pooling = pooling;
    s->want_vectors = true;
    gw_kv_rewind(&s->now->kv, 0);
    return 0;
}

void gw_session_want_look(gw_session *s) {
    s->want_look = true;
    gw_session_leave_block(s);
    gw_kv_rewind(&s->now->kv, 0);
}

int gw_session_append(gw_session *s, int32_t id) {
    int bad = check_id(s, id);
    if (bad) return bad;
    if (s->want_vectors) return gw_fail(s->error, MSG_NO_PROMPT);
    if (s->now->n_ids == s->n_ctx) return gw_fail(s->error, MSG_CONTEXT_FULL, s->n_ctx, s->n_ctx + 1);
    s->now->ids[s->now->n_ids++] = id;
    return 0;
}

void gw_session_truncate(gw_session *s, uint32_t n) {
    if (n == 0 || n >= s->now->n_ids) return;
    gw_session_leave_block(s);
    s->now->n_ids = n;
    gw_kv_rewind(&s->now->kv, n);
}

int gw_session_want_last(gw_session *s, uint32_t rows) {
    if (rows == 0 || rows > GW_LOGIT_ROWS) return gw_fail(s->error, MSG_LOGIT_ROWS, GW_LOGIT_ROWS, rows);
    if (rows != s->now->want_last) gw_session_leave_block(s);
    s->now->want_last = rows;
    return 0;
}

void gw_session_want_all(gw_session *s, bool on) {
    s->now->want_all = on;
    if (on) {
        gw_session_leave_block(s);
        gw_kv_rewind(&s->now->kv, 0);
    }
}

void gw_session_want_top(gw_session *s, bool on) { s->now->want_top = on; }

void gw_session_clear(gw_session *s) {
    gw_session_leave_block(s);
    gw_kv_rewind(&s->now->kv, 0);
    s->now->n_ids = s->now->n_prompt = 0;
}

/* Evaluates rows of zeros, which take as long as any other rows, because they read the same weights. */
void gw_session_autotune(gw_session *s, int sequential, int layer, int rows) {
    gw_state *st = &s->state;
    gw_session_drop_block(s);
    st->ops.acts.sequential = sequential;
    if (layer < 0) return;
    st->batch.x.at = s->x.at;
    st->batch.x.n = rows;
    memset(st->batch.x.at, 0, (size_t)rows * gw_ld(st->config->n_embd) * sizeof(float));
    gw_forward_feed(st, (uint32_t)layer, 0);
}
