/* session: see session.h. */
#include "run/session.h"

#include <string.h>

/* Allocates `rows` rows of `columns`. */
static gw_view take(gw_arena *a, size_t rows, uint32_t columns) {
    return (gw_view){ gw_arena_take(a, (uint64_t)rows * gw_ld(columns) * sizeof(float)), 0, columns };
}

/* Returns the number of rows that each layer finishes before the next one begins. */
static uint32_t block_rows(const gw_config *c, uint32_t n_ctx) {
    return c->arch->policy->by_layer ? (uint32_t)gw_round_up(n_ctx, GW_BATCH) : GW_BATCH;
}

static void take_kv(gw_kv *kv, const gw_config *c, uint32_t n_ctx, int type, gw_arena *a) {
    gw_kv_shape shape = { c->n_layer, n_ctx, c->window ? c->window : n_ctx, GW_BATCH, c->layer, type };
    /* Kernels read whole blocks of rows, also beyond the last text. */
    if (c->arch->policy->by_layer) shape.n_layer = 1, shape.n_ctx = shape.batch = n_ctx + GW_KEYS;
    gw_kv_init(kv, shape, a);
}

static void take_scratch(gw_session *s, const gw_config *c, gw_pool *pool, gw_arena *a) {
    gw_batch *b = &s->state.batch;
    uint32_t rows = block_rows(c, s->n_ctx), kv = 0, ff = 0, head = 0;
    for (uint32_t l = 0; l < c->n_layer; l++) {
        const gw_layer_shape *layer = &c->layer[l];
        head = (uint32_t)gw_max(head, layer->head_dim);
        kv = (uint32_t)gw_max(kv, layer->n_head_kv * layer->head_dim);
        ff = (uint32_t)gw_max(gw_max(ff, layer->n_ff), c->n_ple);
    }
    uint32_t q = c->n_head * head;
    b->x = s->x = take(a, rows, c->n_embd);
    b->h = take(a, GW_BATCH, c->n_embd);
    b->q = s->q = take(a, rows, q);
    b->a = take(a, GW_BATCH, q);
    b->k = take(a, GW_BATCH, kv);
    b->v = take(a, GW_BATCH, kv);
    b->gate = take(a, GW_BATCH, ff);
    b->up = take(a, GW_BATCH, ff);
    if (c->n_ple) b->ple = take(a, GW_BATCH + 1, c->n_ple * c->n_layer);
    for (int r = 0; r < GW_ROPES; r++)
        if (c->rope[r].base > 0) b->angles[r] = s->angles[r] = take(a, rows, c->rope[r].rotated);
    if (c->arch->policy->generates) s->state.logits = take(a, GW_LOGIT_ROWS, c->n_vocab);
    gw_vectors_init(&s->vectors, c, c->arch->policy->texts, a);
    s->ids = gw_arena_take(a, s->n_ctx * sizeof *s->ids);
    gw_heads largest = { .n_head = (int)c->n_head, .head_dim = (int)head };
    gw_ops_init(&s->state.ops, pool, GW_BATCH, gw_max(gw_max(c->n_embd, ff), gw_max(c->n_dense, q)),
                gw_attention_partials(largest, s->n_ctx), a);
}

gw_session_need gw_session_measure(const gw_config *c, uint32_t n_ctx, int kv_type) {
    gw_session s = { .n_ctx = n_ctx };
    gw_arena kv = { 0 }, scratch = { 0 };
    take_kv(&s.state.kv, c, n_ctx, kv_type, &kv);
    take_scratch(&s, c, NULL, &scratch);
    return (gw_session_need){ kv.used, scratch.used };
}

int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, uint32_t n_ctx, int kv_type,
                    gw_error *e) {
    gw_session_need need = gw_session_measure(c, n_ctx, kv_type);
    uint64_t bytes = need.kv + need.scratch;
    memset(s, 0, sizeof *s);
    s->block = gw_alloc(gw_size(bytes));
    if (!s->block)
        return gw_fail(e, GW_E_NO_MEMORY,
                       "The engine has no memory for the KV cache and scratch of %u tokens (%llu bytes).", n_ctx,
                       (unsigned long long)bytes);
    gw_arena a = { .base = s->block, .size = bytes };
    s->state.config = c;
    s->state.weights = w;
    s->error = e;
    s->n_ctx = n_ctx;
    s->state.long_context = n_ctx > c->n_ctx_short;
    take_kv(&s->state.kv, c, n_ctx, kv_type, &a);
    take_scratch(s, c, pool, &a);
    return 0;
}

void gw_session_free(gw_session *s) {
    if (s->block) gw_pure_settle(s->state.ops.pool);
    gw_free(s->block);
    memset(s, 0, sizeof *s);
}

/* --- which ids --- */

static int check_id(gw_session *s, int32_t id) {
    if (id >= 0 && (uint32_t)id < s->state.config->n_vocab) return 0;
    return gw_fail(s->error, GW_E_BAD_TOKEN, "The token id must be 0 to %u (got %d).", s->state.config->n_vocab - 1,
                   id);
}

/* Makes ids the context; evaluates nothing yet. */
static int take_ids(gw_session *s, const int32_t *ids, uint32_t n) {
    if (n == 0) return gw_fail(s->error, GW_E_BAD_OPTION, "Evaluation needs at least one token id.");
    if (n > s->n_ctx)
        return gw_fail(s->error, GW_E_CONTEXT, "The prompt must have at most %u tokens (got %u).", s->n_ctx, n);
    int bad;
    for (uint32_t i = 0; i < n; i++)
        if ((bad = check_id(s, ids[i]))) return bad;
    s->state.batch.n = 0;
    uint32_t common = 0, most = (uint32_t)gw_min(n - 1, s->state.kv.pos); /* the last id is evaluated again */
    while (common < most && s->ids[common] == ids[common]) common++;
    uint32_t kept = gw_kv_rewind(&s->state.kv, common);
    memcpy(s->ids, ids, n * sizeof *ids);
    s->n_ids = n;
    s->n_prompt = n;
    s->needed = (gw_topk){ .required = s->required };
    s->want_all = s->want_top = s->want_vectors = s->want_look = false;
    s->logit_rows = 0;
    s->want_last = 1;
    atomic_store(&s->abort, 0);
    return (int)kept;
}

int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n) {
    if (s->state.config->arch->policy->generates) return take_ids(s, ids, n);
    return gw_fail(s->error, GW_E_BAD_STATE, "This model only computes embeddings and cannot generate text.");
}

/* Texts of a causal model form one batch, whose cache is no longer than the context; kernels read whole blocks of rows,
 * also after the last text. */
gw_session_room gw_session_together(const gw_session *s) {
    const gw_policy *policy = s->state.config->arch->policy;
    uint32_t behind = (uint32_t)gw_min(GW_KEYS, s->n_ctx), ids = (uint32_t)gw_min(GW_BATCH, s->n_ctx - behind);
    return (gw_session_room){ policy->texts, policy->by_layer ? s->n_ctx : ids };
}

/* Sets which ids belong to which text. One text may be as long as the context. */
static int take_texts(gw_session *s, const uint32_t *lengths, uint32_t texts) {
    gw_session_room most = gw_session_together(s);
    uint32_t ids = texts > 1 ? most.ids : s->n_ctx;
    if (texts == 0 || texts > most.texts)
        return gw_fail(s->error, GW_E_BAD_OPTION, "Embedding takes 1 to %u texts at once (got %u).", most.texts, texts);
    s->texts.n = texts;
    s->texts.first[0] = 0;
    for (uint32_t i = 0; i < texts; i++) {
        if (lengths[i] == 0 || lengths[i] > ids - s->texts.first[i])
            return gw_fail(s->error, GW_E_CONTEXT,
                           "Texts must have at least 1 token each and at most %u together (got a text of %u).", ids,
                           lengths[i]);
        s->texts.first[i + 1] = s->texts.first[i] + lengths[i];
    }
    return 0;
}

int gw_session_sync_texts(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling) {
    if (pooling != GW_POOL_MEAN && pooling != GW_POOL_LAST)
        return gw_fail(s->error, GW_E_BAD_OPTION, "`pooling` must be 0 or 1 (got %d).", pooling);
    int bad = take_texts(s, lengths, texts);
    if (bad || (bad = take_ids(s, ids, s->texts.first[texts])) < 0) return bad;
    s->vectors.pooling = pooling;
    s->want_vectors = true;
    gw_kv_rewind(&s->state.kv, 0);
    return 0;
}

void gw_session_want_look(gw_session *s) {
    s->want_look = true;
    gw_kv_rewind(&s->state.kv, 0);
}

int gw_session_append(gw_session *s, int32_t id) {
    int bad = check_id(s, id);
    if (bad) return bad;
    if (s->want_vectors)
        return gw_fail(s->error, GW_E_BAD_STATE, "gw_append() continues a context; texts to embed have none.");
    if (s->n_ids == s->n_ctx)
        return gw_fail(s->error, GW_E_CONTEXT, "The context must have at most %u tokens (got %u).", s->n_ctx,
                       s->n_ctx + 1);
    s->ids[s->n_ids++] = id;
    return 0;
}

void gw_session_truncate(gw_session *s, uint32_t n) {
    if (n == 0 || n >= s->n_ids) return;
    s->state.batch.n = 0;
    s->n_ids = n;
    gw_kv_rewind(&s->state.kv, n);
}

int gw_session_want_last(gw_session *s, uint32_t rows) {
    if (rows == 0 || rows > GW_LOGIT_ROWS)
        return gw_fail(s->error, GW_E_BAD_OPTION, "The rows of logits must be 1 to %d (got %u).", GW_LOGIT_ROWS, rows);
    s->want_last = rows;
    return 0;
}

void gw_session_want_all(gw_session *s, bool on) {
    s->want_all = on;
    if (on) {
        s->state.batch.n = 0;
        gw_kv_rewind(&s->state.kv, 0);
    }
}

void gw_session_want_top(gw_session *s, bool on) { s->want_top = on; }

void gw_session_clear(gw_session *s) {
    s->state.batch.n = 0;
    gw_kv_rewind(&s->state.kv, 0);
    s->n_ids = s->n_prompt = 0;
}

/* Feeds one row of zeros: reads the same weights as any other row. */
void gw_session_autotune(gw_session *s, int sequential, uint32_t quarter) {
    gw_state *st = &s->state;
    uint32_t n = quarter < 4 ? st->config->n_layer : 0;
    s->state.batch.n = 0;
    st->ops.acts.sequential = sequential;
    st->batch.x.at = s->x.at;
    st->batch.x.n = 1;
    for (uint32_t l = n * quarter / 4; l < n * (quarter + 1) / 4; l++) {
        memset(st->batch.x.at, 0, gw_ld(st->config->n_embd) * sizeof(float));
        gw_forward_feed(st, l, 0);
    }
}

/* --- steps --- */

static void begin_block(gw_session *s) {
    uint32_t pos = s->state.kv.pos;
    s->layer = 0;
    s->step = GW_STEP_KEEP;
    s->row = pos;
    s->end = (uint32_t)gw_min(pos + block_rows(s->state.config, s->n_ctx), s->n_ids);
    gw_kv_reserve(&s->state.kv, s->end - pos);
}

/* Finds the texts of up to GW_BATCH rows from s->row on. */
static int find_segments(const gw_session *s, gw_segment *segments) {
    const gw_texts *p = &s->texts;
    uint32_t begin = s->row, row = begin, end = (uint32_t)gw_min(begin + GW_BATCH, s->end), text = 0;
    int n = 0;
    if (!s->want_vectors) {
        segments[0] = (gw_segment){ .n = (int)(end - begin), .pos = begin };
        return 1;
    }
    while (p->first[text + 1] <= row) text++;
    for (; row < end; text++) {
        uint32_t first = p->first[text], pos = row - first, to = (uint32_t)gw_min(p->first[text + 1], end);
        segments[n++] = (gw_segment){ .row = (int)(row - begin),
                                      .n = (int)(to - row),
                                      .pos = pos,
                                      .length = p->first[text + 1] - first,
                                      .cache = first,
                                      .text = text };
        row = to;
    }
    return n;
}

/* Makes the next rows of the block the batch. */
static void begin_batch(gw_session *s) {
    gw_batch *b = &s->state.batch;
    int at = (int)(s->row - s->state.kv.pos);
    b->x.at = gw_row(s->x, at);
    b->q.at = gw_row(s->q, at);
    for (int r = 0; r < GW_ROPES; r++)
        if (s->angles[r].at) b->angles[r].at = gw_row(s->angles[r], at);
    gw_forward_begin(&s->state, find_segments(s, b->segments));
}

/* Moves on to the next step if all rows have completed this one. Returns false after the last step. */
static bool find_step(gw_session *s) {
    if (s->row < s->end) return true;
    if (s->step == GW_STEP_FINISH) return false;
    s->row = s->state.kv.pos;
    if (s->step != GW_STEP_FEED) s->step++;
    else s->step = ++s->layer < s->state.config->n_layer ? GW_STEP_KEEP : GW_STEP_FINISH;
    return true;
}

static bool is_last_block(const gw_session *s) { return s->end == s->n_ids; }

/* Returns the number of rows at the end of the batch whose logits are wanted. */
static int last_wanted(const gw_session *s) { return (int)gw_min(s->want_last, s->state.batch.n); }

/* Returns the first row of the batch whose result in this layer is used. From the last layer that owns keys and
 * values on, these are the last want_last ids, unless all logits, vectors or an inspection are wanted; of other tokens
 * only keys and values are needed there. */
static int first_wanted(const gw_session *s) {
    if (s->want_all || s->want_vectors || s->want_look || s->layer + 1 < s->state.config->n_owners) return 0;
    return is_last_block(s) ? s->state.batch.n - last_wanted(s) : s->state.batch.n;
}

/* Evaluates a part of a layer for the batch. Inspection reads x after each part: after the first layer's GW_STEP_KEEP,
 * x is the embedding; in other layers it is still the result of GW_STEP_FEED. */
static int take_step(gw_session *s) {
    gw_state *st = &s->state;
    int first = first_wanted(s), n = st->batch.n;
    if (s->step == GW_STEP_KEEP) {
        if (s->layer == 0 && (s->missing = gw_forward_missing(st, s->ids + s->row))) return GW_RUN_ROWS;
        if (s->layer == 0) gw_forward_embed(st, s->ids + s->row);
        gw_forward_keep(st, s->layer, first);
    } else if (first < n) {
        if (s->step == GW_STEP_ATTEND) gw_forward_attend(st, s->layer, first);
        else gw_forward_feed(st, s->layer, first);
    }
    s->row += (uint32_t)n;
    return s->want_look && (s->step != GW_STEP_KEEP || s->layer == 0) ? GW_RUN_LOOK : GW_RUN_MORE;
}

/* --- a context: logits --- */

/* Computes the logits of the next rows, when all are wanted. */
static int give_rows(gw_session *s) {
    s->logit_first = s->row;
    s->logit_rows = (uint32_t)gw_min(GW_LOGIT_ROWS, s->end - s->row);
    gw_forward_logits(&s->state, 0, (int)s->logit_rows);
    s->row += s->logit_rows;
    return GW_RUN_LOGITS;
}

/* Few rows are excluded where the logits of the model are close to each other. Then the bound is tried only now and
 * then, since its first pass costs half of the matrix. An argmax always gains. */
static bool may_exclude(gw_session *s) {
    if (s->needed.best == 1 || s->rest == 0) return true;
    s->rest--;
    return false;
}

static void give_top(gw_session *s, int first, int rows) {
    enum { LEAST_EXCLUDED = 3, REST = 100 }; /* of four panels */
    uint64_t panels = gw_ld(s->state.config->n_vocab) / GW_PANEL;
    uint64_t open = gw_forward_topk(&s->state, first, rows, &s->needed);
    if (s->needed.best > 1 && 4 * open > (4 - LEAST_EXCLUDED) * panels) s->rest = REST;
}

/* Computes the last tokens' logits: all, or at least the wanted ones. needed.rows are those of a single token. */
static void give_last(gw_session *s) {
    int rows = last_wanted(s), first = s->state.batch.n - rows;
    bool some = s->needed.rows.bits != NULL;
    s->logit_first = s->n_ids - (uint32_t)rows;
    s->logit_rows = (uint32_t)rows;
    if (rows == 1 && some && gw_forward_few(&s->state, first, &s->needed.rows)) return;
    bool top = s->want_top && s->needed.best && (rows == 1 || !some);
    if (top && may_exclude(s)) give_top(s, first, rows);
    else gw_forward_logits(&s->state, first, rows);
}

static void end_context(gw_session *s) {
    if (!s->n_prompt || s->state.kv.pos < s->n_prompt) return;
    if (s->n_prompt > 1) gw_kv_save(&s->state.kv, s->n_prompt - 1);
    s->n_prompt = 0;
}

/* --- packed texts: vectors --- */

/* Ends the texts: several texts in one cache are not a context. */
static void end_pack(gw_session *s) {
    if (is_last_block(s)) gw_vectors_finish(&s->vectors, &s->state, (int)s->texts.n);
    if (s->texts.n > 1) gw_session_clear(s);
    else end_context(s);
}

/* --- running --- */

static int end_block(gw_session *s) {
    bool last = is_last_block(s);
    gw_kv_advance(&s->state.kv, s->end - s->state.kv.pos);
    if (s->want_vectors) end_pack(s);
    else end_context(s);
    s->state.batch.n = 0;
    return last ? GW_RUN_DONE : GW_RUN_MORE;
}

/* Finishes the batch's rows after the last layer. */
static int finish_rows(gw_session *s) {
    if (s->want_vectors) gw_vectors_add(&s->vectors, &s->state);
    else if (s->want_all) return give_rows(s);
    else if (is_last_block(s) && !s->want_look) give_last(s);
    s->row += (uint32_t)s->state.batch.n;
    return GW_RUN_MORE;
}

/* Evaluates a step of up to GW_BATCH rows. Returns what gw_session_run returns. */
static int evaluate(gw_session *s) {
    if (s->state.batch.n == 0) begin_block(s);
    if (find_step(s)) {
        begin_batch(s);
        int how = s->step == GW_STEP_FINISH ? finish_rows(s) : take_step(s);
        if (how != GW_RUN_MORE) return how;
    }
    return s->step == GW_STEP_FINISH && s->row == s->end ? end_block(s) : GW_RUN_MORE;
}

static int aborted(gw_session *s) {
    atomic_store(&s->abort, 0);
    s->state.batch.n = 0;
    s->n_ids = s->state.kv.pos;
    return gw_fail(s->error, GW_E_ABORTED, "Evaluation was aborted.");
}

static int worker_failed(gw_session *s) {
    return gw_fail(s->error, GW_E_WORKER, "A helper thread failed during evaluation.");
}

int gw_session_run(gw_session *s, int layers) {
    static const uint8_t quarters[] = { 1, 1, 2, 4 }; /* cost of each step, in quarters of a layer */
    gw_pool *pool = s->state.ops.pool;
    if (s->state.kv.pos == s->n_ids && s->state.batch.n == 0) return GW_RUN_DONE;
    for (int64_t left = 4 * (int64_t)layers; layers == 0 || left > 0; left -= quarters[s->step]) {
        if (gw_pool_failed(pool)) return worker_failed(s);
        if (atomic_load(&s->abort)) return aborted(s);
        int how = evaluate(s);
        if (gw_pool_failed(pool)) return worker_failed(s); /* the logits too */
        if (how != GW_RUN_MORE) return how;
    }
    return GW_RUN_MORE;
}
