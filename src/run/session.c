/* session: see session.h. */
#include "run/session.h"

#include <string.h>

/* Room for `rows` rows of `columns`. */
static gw_view take(gw_arena *a, size_t rows, uint32_t columns) {
    return (gw_view){ gw_arena_take(a, (uint64_t)rows * gw_ld(columns) * sizeof(float)), 0, columns };
}

/* What is seen both ways is kept for one layer at a time. Rows of a block are read behind the last text: they are
 * there. */
static void take_pack_kv(gw_kv *kv, const gw_config *c, uint32_t n_ctx, int type, gw_arena *a) {
    static const uint8_t is_global[] = { 1 };
    uint32_t rows = n_ctx + GW_KEYS;
    gw_kv_init(kv, (gw_kv_shape){ 1, rows, rows, GW_BATCH, c->n_head_kv, c->head_dim, is_global, type }, a);
}

static void take_kv(gw_kv *kv, const gw_config *c, uint32_t n_ctx, int type, gw_arena *a) {
    if (c->arch->both_ways) return take_pack_kv(kv, c, n_ctx, type, a);
    uint32_t window = c->window ? c->window : n_ctx;
    gw_kv_shape shape = { c->n_layer, n_ctx, window, GW_BATCH, c->n_head_kv, c->head_dim, c->is_global, type };
    gw_kv_init(kv, shape, a);
}

/* That go through together: where tokens see earlier ones only, those of one batch. */
static uint32_t most_texts(const gw_config *c) { return c->arch->both_ways ? GW_TEXTS : GW_FEW_TEXTS; }

static void take_scratch(gw_session *s, const gw_config *c, gw_pool *pool, gw_arena *a) {
    uint32_t q = c->n_head * c->head_dim, kv = c->n_head_kv * c->head_dim;
    gw_batch *b = &s->state.batch;
    bool both_ways = c->arch->both_ways;
    uint32_t rows = both_ways ? (uint32_t)gw_round_up(s->n_ctx, GW_BATCH) : GW_BATCH;
    uint32_t turns = both_ways ? s->n_ctx : GW_BATCH;
    b->x = s->pack.x = take(a, rows, c->n_embd);
    b->h = take(a, GW_BATCH, c->n_embd);
    b->q = s->pack.q = take(a, rows, q);
    b->a = take(a, GW_BATCH, q);
    b->k = take(a, GW_BATCH, kv);
    b->v = take(a, GW_BATCH, kv);
    b->gate = take(a, GW_BATCH, c->n_ff);
    b->up = take(a, GW_BATCH, c->n_ff);
    if (c->window) b->angles[0] = take(a, turns, c->head_dim).at;
    if (c->rope_base > 0) b->angles[1] = take(a, turns, c->head_dim).at;
    if (!both_ways) s->state.logits = take(a, GW_LOGIT_ROWS, c->n_vocab);
    gw_vectors_init(&s->vectors, c, most_texts(c), a);
    s->ids = gw_arena_take(a, s->n_ctx * sizeof *s->ids);
    gw_ops_init(&s->state.ops, pool, GW_BATCH, gw_max(gw_max(c->n_embd, c->n_ff), gw_max(c->n_dense, q)),
                gw_attention_partials(gw_forward_heads(c, 0, 0), s->n_ctx), a);
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
    s->layer = s->row = s->pack.row = 0;
    s->pack.step = 0;
    s->stage = GW_LOOK_BEFORE;
}

/* The context becomes ids; nothing of it is evaluated yet. */
static int take_ids(gw_session *s, const int32_t *ids, uint32_t n) {
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
    s->n_prompt = n;
    s->wanted = (gw_rows){ 0 };
    s->want_all = s->want_top = s->want_vectors = s->want_look = false;
    s->logit_rows = 0;
    atomic_store(&s->abort, 0);
    return (int)kept;
}

int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n) {
    if (!s->state.config->arch->both_ways) return take_ids(s, ids, n);
    return gw_fail(s->error, GW_E_BAD_STATE, "evaluation\na model that goes on with texts\none that makes vectors of them");
}

/* Rows of a block are read behind the last text, of a cache that is no longer than the context. */
gw_session_room gw_session_together(const gw_session *s) {
    const gw_config *c = s->state.config;
    uint32_t behind = (uint32_t)gw_min(GW_KEYS, s->n_ctx), ids = (uint32_t)gw_min(GW_BATCH, s->n_ctx - behind);
    return (gw_session_room){ most_texts(c), c->arch->both_ways ? s->n_ctx : ids };
}

/* Which ids are which text's. One text may be as long as the context. */
static int take_texts(gw_session *s, const uint32_t *lengths, uint32_t texts) {
    gw_session_room most = gw_session_together(s);
    uint32_t ids = texts > 1 ? most.ids : s->n_ctx;
    if (texts == 0 || texts > most.texts)
        return gw_fail(s->error, GW_E_BAD_OPTION, "texts together\n1 to %u\n%u", most.texts, texts);
    s->pack.n = texts;
    s->pack.first[0] = 0;
    for (uint32_t i = 0; i < texts; i++) {
        if (lengths[i] == 0 || lengths[i] > ids - s->pack.first[i])
            return gw_fail(s->error, GW_E_CONTEXT, "tokens of the texts\n1 of each, at most %u together\n%u", ids,
                           lengths[i]);
        s->pack.first[i + 1] = s->pack.first[i] + lengths[i];
    }
    return 0;
}

int gw_session_pack(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling) {
    if (pooling != GW_POOL_MEAN && pooling != GW_POOL_LAST)
        return gw_fail(s->error, GW_E_BAD_OPTION, "pooling\n0 or 1\n%d", pooling);
    int bad = take_texts(s, lengths, texts);
    if (bad || (bad = take_ids(s, ids, s->pack.first[texts])) < 0) return bad;
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
    if (s->want_vectors) return gw_fail(s->error, GW_E_BAD_STATE, "gw_append\nids\ntexts");
    if (s->n_ids == s->n_ctx)
        return gw_fail(s->error, GW_E_CONTEXT, "tokens of context\nat most %u\n%u", s->n_ctx, s->n_ctx + 1);
    s->ids[s->n_ids++] = id;
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
    s->n_ids = s->n_prompt = 0;
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

/* What the rows from `row` on are of: those of a batch, which may be of many texts. */
static int text_pieces(const gw_session *s, uint32_t row, gw_piece *pieces) {
    const gw_texts *p = &s->pack;
    bool both_ways = s->state.config->arch->both_ways;
    uint32_t begin = row, end = (uint32_t)gw_min(row + GW_BATCH, s->n_ids), text = 0;
    int n = 0;
    while (p->first[text + 1] <= row) text++;
    for (; row < end; text++) {
        uint32_t first = p->first[text], pos = row - first, to = (uint32_t)gw_min(p->first[text + 1], end);
        pieces[n++] = (gw_piece){ .row = (int)(row - begin), .n = (int)(to - row), .pos = pos,
                                  .turn = both_ways ? pos : row - begin, .length = p->first[text + 1] - first,
                                  .cache = first, .text = text };
        row = to;
    }
    return n;
}

static void begin_batch(gw_session *s) {
    gw_piece pieces[GW_BATCH];
    uint32_t n = (uint32_t)gw_min(GW_BATCH, s->n_ids - s->state.kv.pos), pos = s->state.kv.pos;
    int n_pieces = s->want_vectors ? text_pieces(s, pos, pieces) : 1;
    if (!s->want_vectors) pieces[0] = (gw_piece){ .n = (int)n, .pos = pos, .length = s->n_ids };
    gw_kv_reserve(&s->state.kv, n);
    gw_forward_begin(&s->state, pieces, n_pieces);
    gw_forward_embed(&s->state, s->ids + pos);
    s->layer = s->row = 0;
    s->stage = GW_LOOK_BEFORE;
}

static bool is_last_batch(const gw_session *s) { return s->state.kv.pos + s->state.batch.n == s->n_ids; }

/* The first token of the batch that anybody wants of the next layer: of the top one, unless all logits are wanted, the
 * prompt's last token; the others only leave keys and values there. */
static int first_wanted(const gw_session *s) {
    if (s->want_all || s->want_vectors || s->want_look || s->layer + 1 < s->state.config->n_layer) return 0;
    return is_last_batch(s) ? s->state.batch.n - 1 : s->state.batch.n;
}

/* Logits of the batch's next rows, when all are wanted. */
static int give_rows(gw_session *s) {
    uint32_t rows = (uint32_t)gw_min(GW_LOGIT_ROWS, s->state.batch.n - s->row);
    gw_forward_logits(&s->state, (int)s->row, (int)rows);
    s->logit_first = s->state.kv.pos + s->row;
    s->logit_rows = rows;
    s->row += rows;
    return GW_RUN_LOGITS;
}

/* Logits behind the last token: those that are wanted, at least. */
static void give_last(gw_session *s) {
    int token = s->state.batch.n - 1;
    s->logit_first = s->n_ids - 1;
    s->logit_rows = 1;
    if (s->wanted.bits && gw_forward_few(&s->state, token, &s->wanted)) return;
    if (s->want_top && s->n_exact >= 0) gw_forward_top(&s->state, token, s->exact, s->n_exact, &s->wanted);
    else gw_forward_logits(&s->state, token, 1);
}

/* The batch is through all layers. Returns what gw_session_run returns, MORE to go on. */
static int end_batch(gw_session *s) {
    if (s->want_all && s->row < (uint32_t)s->state.batch.n) return give_rows(s);
    bool last = is_last_batch(s);
    if (s->want_vectors) gw_vectors_add(&s->vectors, &s->state);
    else if (last && !s->want_all && !s->want_look) give_last(s);
    gw_kv_advance(&s->state.kv, s->state.batch.n);
    drop_batch(s);
    if (s->want_vectors && s->pack.n > 1) {
        if (last) gw_session_clear(s);   /* no context */
    } else if (s->n_prompt && s->state.kv.pos >= s->n_prompt) {
        if (s->n_prompt > 1) gw_kv_save(&s->state.kv, s->n_prompt - 1);
        s->n_prompt = 0;
    }
    return last ? GW_RUN_DONE : GW_RUN_MORE;
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

/* A step of the layer under way, after each of which somebody looks. */
static int look_step(gw_session *s) {
    if (s->stage == GW_LOOK_BEFORE) {
        gw_forward_keep(&s->state, s->layer, 0);
        gw_forward_attend(&s->state, s->layer, 0);
    } else if (s->stage == GW_LOOK_BETWEEN) {
        gw_forward_feed(&s->state, s->layer, 0);
    } else {
        s->layer++;
        s->stage = GW_LOOK_BEFORE;
        return GW_RUN_MORE;
    }
    s->stage++;
    return GW_RUN_LOOK;
}

/* A layer of a batch, or its beginning or end. */
static int batch_step(gw_session *s) {
    bool begins = s->state.batch.n == 0;
    if (begins) begin_batch(s);
    if (begins && s->want_look) return GW_RUN_LOOK;
    if (s->layer == s->state.config->n_layer) return end_batch(s);
    if (s->want_look) return look_step(s);
    gw_forward_layer(&s->state, s->layer, first_wanted(s));
    s->layer++;
    return GW_RUN_MORE;
}

/* --- texts that are seen both ways --- */

enum { KEEP, ATTEND, FEED, POOL };

/* The rows from pack.row on as a batch. */
static void begin_rows(gw_session *s) {
    gw_texts *p = &s->pack;
    gw_piece pieces[GW_BATCH];
    int n = text_pieces(s, p->row, pieces);
    s->state.batch.x = gw_from(p->x, (int)p->row);
    s->state.batch.q = gw_from(p->q, (int)p->row);
    gw_forward_begin(&s->state, pieces, n);
}

static int end_pack(gw_session *s) {
    if (s->want_vectors) gw_vectors_finish(&s->vectors, &s->state, (int)s->pack.n);
    s->state.kv.pos = s->n_ids;
    drop_batch(s);
    return GW_RUN_DONE;
}

/* All rows have taken the step. */
static int next_step(gw_session *s) {
    gw_texts *p = &s->pack;
    p->row = 0;
    if (p->step == POOL) return end_pack(s);
    if (p->step == KEEP) p->step = ATTEND;
    else p->step = ++s->layer == s->state.config->n_layer ? POOL : KEEP;
    return GW_RUN_MORE;
}

static void take_step(gw_session *s, int step) {
    gw_state *st = &s->state;
    if (step == KEEP && s->layer == 0) gw_forward_embed(st, s->ids + s->pack.row);
    if (step == KEEP) gw_forward_keep(st, s->layer, 0);
    if (step == ATTEND) gw_forward_attend(st, s->layer, 0);
    if (step == FEED) gw_forward_feed(st, s->layer, 0);
    if (step == POOL && s->want_vectors) gw_vectors_add(&s->vectors, st);
}

/* A step of one batch of rows. Who looks does so between attending and feeding too. */
static int pack_step(gw_session *s) {
    gw_texts *p = &s->pack;
    int step = p->step;
    if (p->row == s->n_ids) return next_step(s);
    begin_rows(s);
    take_step(s, step);
    if (step == ATTEND && !s->want_look) take_step(s, FEED);
    if (step == FEED) p->step = ATTEND;
    if (step == ATTEND && s->want_look) p->step = FEED;
    else p->row += (uint32_t)s->state.batch.n;
    s->stage = step == ATTEND ? GW_LOOK_BETWEEN : step == FEED ? GW_LOOK_BEHIND : GW_LOOK_BEFORE;
    bool looks = s->want_look && (step == KEEP ? s->layer == 0 : step != POOL);
    return looks ? GW_RUN_LOOK : GW_RUN_MORE;
}

/* Of the next step, in quarters of a layer: keeping is less than attending and feeding, and many batches keep before
 * one attends. So who measures how long some layers take knows how long the next ones will. */
static int quarters(const gw_session *s) {
    return s->state.config->arch->both_ways && s->pack.step != ATTEND && s->pack.step != FEED ? 1 : 4;
}

int gw_session_run(gw_session *s, int layers) {
    gw_pool *pool = s->state.ops.pool;
    bool both_ways = s->state.config->arch->both_ways;
    if (s->state.kv.pos == s->n_ids && s->state.batch.n == 0) return GW_RUN_DONE;
    for (int64_t left = 4 * (int64_t)layers; layers == 0 || left > 0;) {
        left -= quarters(s);
        if (gw_pool_failed(pool)) return worker_failed(s);
        if (atomic_load(&s->abort)) return aborted(s);
        int how = both_ways ? pack_step(s) : batch_step(s);
        if (gw_pool_failed(pool)) return worker_failed(s);   /* the logits too */
        if (how != GW_RUN_MORE) return how;
    }
    return GW_RUN_MORE;
}
