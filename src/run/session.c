/* session: see session.h. */
#include "run/session.h"
#include "model/attention.h"

#include <string.h>

/* Room for `rows` rows of `columns`. */
static gw_view take(gw_arena *a, size_t rows, uint32_t columns) {
    return (gw_view){ gw_arena_take(a, (uint64_t)rows * gw_ld(columns) * sizeof(float)), 0, columns };
}

static void take_kv(gw_kv *kv, const gw_config *c, uint32_t n_ctx, int type, gw_arena *a) {
    uint32_t window = c->window ? c->window : n_ctx;
    gw_kv_shape shape = { c->n_layer, n_ctx, window, GW_BATCH, c->n_head_kv, c->head_dim, c->is_global, type };
    gw_kv_init(kv, shape, a);
}

static void take_scratch(gw_session *s, const gw_config *c, gw_pool *pool, gw_arena *a) {
    uint32_t q = c->n_head * c->head_dim, kv = c->n_head_kv * c->head_dim;
    gw_batch *b = &s->state.batch;
    gw_heads heads = { .n_head = (int)c->n_head, .n_head_kv = (int)c->n_head_kv, .head_dim = (int)c->head_dim };
    b->x = take(a, GW_BATCH, c->n_embd);
    b->h = take(a, GW_BATCH, c->n_embd);
    b->q = take(a, GW_BATCH, q);
    b->a = take(a, GW_BATCH, q);
    b->k = take(a, GW_BATCH, kv);
    b->v = take(a, GW_BATCH, kv);
    b->gate = take(a, GW_BATCH, c->n_ff);
    b->up = take(a, GW_BATCH, c->n_ff);
    if (c->window) b->angles[0] = take(a, GW_BATCH, c->head_dim).at;
    if (c->rope_base > 0) b->angles[1] = take(a, GW_BATCH, c->head_dim).at;
    s->state.logits = take(a, GW_LOGIT_ROWS, c->n_vocab);
    s->ids = gw_arena_take(a, s->n_ctx * sizeof *s->ids);
    gw_ops_init(&s->state.ops, pool, GW_BATCH, gw_max(gw_max(c->n_embd, c->n_ff), q),
                gw_attention_partials(heads, s->n_ctx), a);
}

gw_session_need gw_session_measure(const gw_config *c, uint32_t n_ctx, int kv_type) {
    gw_session s = { .n_ctx = n_ctx };
    gw_arena kv = { 0 }, scratch = { 0 };
    take_kv(&s.state.kv, c, n_ctx, kv_type, &kv);
    take_scratch(&s, c, NULL, &scratch);
    return (gw_session_need){ kv.used, scratch.used };
}

int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, uint32_t n_ctx,
                    int kv_type, gw_error *e) {
    gw_session_need need = gw_session_measure(c, n_ctx, kv_type);
    uint64_t bytes = need.kv + need.scratch;
    memset(s, 0, sizeof *s);
    s->block = gw_alloc(gw_size(bytes));
    if (!s->block)
        return gw_fail(e, GW_E_NO_MEMORY, "KV cache and scratch for a context of %u tokens\n%llu bytes\nno memory", n_ctx,
                       (unsigned long long)bytes);
    gw_arena a = { .base = s->block, .size = bytes };
    s->state.config = c;
    s->state.weights = w;
    s->error = e;
    s->n_ctx = n_ctx;
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
    return gw_fail(s->error, GW_E_BAD_TOKEN, "token id\n0 to %u\n%d", s->state.config->n_vocab - 1, id);
}

static void drop_batch(gw_session *s) {
    s->state.batch.n = 0;
    s->layer = s->row = 0;
}

int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n) {
    if (n == 0) return gw_fail(s->error, GW_E_BAD_OPTION, "ids\nat least one\nnone");
    if (n > s->n_ctx) return gw_fail(s->error, GW_E_CONTEXT, "tokens of the prompt\nat most %u\n%u", s->n_ctx, n);
    int bad;
    for (uint32_t i = 0; i < n; i++)
        if ((bad = check_id(s, ids[i]))) return bad;
    drop_batch(s);
    uint32_t common = 0, most = (uint32_t)gw_min(n - 1, s->state.kv.pos);   /* the last id is evaluated again */
    while (common < most && s->ids[common] == ids[common]) common++;
    uint32_t kept = gw_kv_rewind(&s->state.kv, common);
    memcpy(s->ids, ids, n * sizeof *ids);
    s->n_ids = n;
    s->is_prompt = true;
    s->want_all = s->want_top = false;
    s->logit_rows = 0;
    atomic_store(&s->abort, 0);
    return (int)kept;
}

int gw_session_append(gw_session *s, int32_t id) {
    int bad = check_id(s, id);
    if (bad) return bad;
    if (s->n_ids == s->n_ctx)
        return gw_fail(s->error, GW_E_CONTEXT, "tokens of context\nat most %u\n%u", s->n_ctx, s->n_ctx + 1);
    s->ids[s->n_ids++] = id;
    s->is_prompt = false;
    return 0;
}

void gw_session_want_all(gw_session *s, bool on) {
    s->want_all = on;
    if (on) {
        drop_batch(s);
        gw_kv_rewind(&s->state.kv, 0);
    }
}

void gw_session_want_top(gw_session *s, bool on) { s->want_top = on; }

void gw_session_clear(gw_session *s) {
    drop_batch(s);
    gw_kv_rewind(&s->state.kv, 0);
    s->n_ids = 0;
}

/* One row of zeros through the second half of layers: what is read is the same as for any other. */
void gw_session_rehearse(gw_session *s, int streams, uint32_t quarter) {
    gw_state *st = &s->state;
    uint32_t n = quarter < 4 ? st->config->n_layer : 0;
    drop_batch(s);
    st->ops.acts.streams = streams;
    st->batch.x.n = 1;
    for (uint32_t l = n * quarter / 4; l < n * (quarter + 1) / 4; l++) {
        memset(st->batch.x.at, 0, gw_ld(st->config->n_embd) * sizeof(float));
        gw_forward_feed(st, l, 0);
    }
}

/* --- running --- */

static void begin_batch(gw_session *s) {
    uint32_t n = (uint32_t)gw_min(GW_BATCH, s->n_ids - s->state.kv.pos);
    gw_kv_reserve(&s->state.kv, n);
    gw_forward_embed(&s->state, s->ids + s->state.kv.pos, s->state.kv.pos, (int)n);
    s->layer = s->row = 0;
}

static bool is_last_batch(const gw_session *s) { return s->state.kv.pos + s->state.batch.n == s->n_ids; }

/* The first token of the batch that anybody wants of the next layer: of the top one, unless all logits are wanted, the
 * prompt's last token; the others only leave keys and values there. */
static int first_wanted(const gw_session *s) {
    if (s->want_all || s->layer + 1 < s->state.config->n_layer) return 0;
    return is_last_batch(s) ? s->state.batch.n - 1 : s->state.batch.n;
}

/* Logits of the batch's next rows, when all are wanted. */
static int give_rows(gw_session *s) {
    uint32_t rows = (uint32_t)gw_min(GW_LOGIT_ROWS, s->state.batch.n - s->row);
    gw_forward_logits(&s->state, (int)s->row, (int)rows);
    s->logit_first = s->state.batch.pos + s->row;
    s->logit_rows = rows;
    s->row += rows;
    return GW_RUN_LOGITS;
}

/* The batch is through all layers. Returns what gw_session_run returns, MORE to go on. */
static int end_batch(gw_session *s) {
    if (s->want_all && s->row < (uint32_t)s->state.batch.n) return give_rows(s);
    bool last = is_last_batch(s);
    if (last && !s->want_all) {
        if (s->want_top && s->n_exact >= 0)
            gw_forward_top(&s->state, s->state.batch.n - 1, s->exact, s->n_exact);
        else gw_forward_logits(&s->state, s->state.batch.n - 1, 1);
        s->logit_first = s->n_ids - 1;
        s->logit_rows = 1;
    }
    gw_kv_advance(&s->state.kv, s->state.batch.n);
    drop_batch(s);
    if (!last) return GW_RUN_MORE;
    if (s->is_prompt && s->n_ids > 1) gw_kv_save(&s->state.kv, s->n_ids - 1);
    return GW_RUN_DONE;
}

static int aborted(gw_session *s) {
    atomic_store(&s->abort, 0);
    drop_batch(s);
    s->n_ids = s->state.kv.pos;
    return gw_fail(s->error, GW_E_ABORTED, "evaluation\nto end\nabort");
}

static int worker_failed(gw_session *s) {
    return gw_fail(s->error, GW_E_WORKER, "evaluation\nhelper threads that work\none that failed");
}

int gw_session_run(gw_session *s, int layers) {
    gw_pool *pool = s->state.ops.pool;
    if (s->state.kv.pos == s->n_ids && s->state.batch.n == 0) return GW_RUN_DONE;
    for (int n = 0; layers == 0 || n < layers; n++) {
        if (gw_pool_failed(pool)) return worker_failed(s);
        if (atomic_load(&s->abort)) return aborted(s);
        if (s->state.batch.n == 0) begin_batch(s);
        if (s->layer < s->state.config->n_layer) {
            gw_forward_layer(&s->state, s->layer, first_wanted(s));
            s->layer++;
            continue;
        }
        int how = end_batch(s);
        if (gw_pool_failed(pool)) return worker_failed(s);   /* the logits too */
        if (how != GW_RUN_MORE) return how;
    }
    return GW_RUN_MORE;
}
