/* step: evaluates a session in steps (session.h), between which the host can stop. Forms blocks of rows of one prompt,
 * or of several sequences (continuous batching: Yu et al. 2022, Orca), and computes only the wanted logits. forward.c
 * has the layers; sampler.c draws tokens. */
#include "run/session.h"
#include "run/errors.h"

#include <string.h>

void gw_session_drop_block(gw_session *s) {
    for (uint32_t i = 0; i < s->n_members; i++) s->members[i]->rows = 0;
    s->n_members = 0;
    s->state.batch.n = 0;
}

void gw_session_leave_block(gw_session *s) {
    if (s->now->rows) gw_session_drop_block(s);
}

/* --- steps --- */

static uint32_t pending(const gw_sequence *q) { return q->n_ids - q->kv.pos; }

/* Returns whether the block contains all remaining ids of a sequence. */
static bool completes(const gw_sequence *q) { return q->rows == pending(q); }

/* Adds at most `most` rows of a sequence to the block. Does not divide its last rows, whose logits are wanted; adds
 * nothing if these do not fit. */
static void add_member(gw_session *s, gw_sequence *q, uint32_t most) {
    uint32_t n = pending(q);
    q->rows = n <= most ? n : (uint32_t)gw_min(most, n - gw_min(n, q->want_last));
    if (q->rows) s->members[s->n_members++] = q;
}

/* Drops the block again if the KV cache has no room for its rows. */
static int begin_block(gw_session *s) {
    s->layer = s->row = s->end = 0;
    s->step = GW_STEP_KEEP;
    for (uint32_t i = 0; i < s->n_members; i++) {
        uint32_t rows = s->members[i]->rows;
        s->end += rows;
        if (gw_kv_reserve(&s->members[i]->kv, rows)) continue;
        gw_session_drop_block(s);
        return gw_fail(s->error, MSG_KV_FULL, rows);
    }
    return 0;
}

/* Splits up to GW_BATCH rows, from s->row on, into a segment for each text to embed. */
static int find_texts(const gw_session *s, gw_segment *segments) {
    const gw_texts *p = &s->texts;
    uint32_t begin = s->now->kv.pos + s->row, row = begin, text = 0;
    uint32_t end = (uint32_t)gw_min(begin + GW_BATCH, s->now->kv.pos + s->end);
    int n = 0;
    while (p->first[text + 1] <= row) text++;
    for (; row < end; text++) {
        uint32_t first = p->first[text], pos = row - first, to = (uint32_t)gw_min(p->first[text + 1], end);
        segments[n++] = (gw_segment){ .row = (int)(row - begin),
                                      .n = (int)(to - row),
                                      .pos = pos,
                                      .length = p->first[text + 1] - first,
                                      .cache = first,
                                      .text = text,
                                      .ids = s->now->ids + first,
                                      .kv = &s->now->kv };
        row = to;
    }
    return n;
}

/* Splits up to GW_BATCH rows, from s->row on, into a segment for each sequence in the block. */
static int find_sequences(const gw_session *s, gw_segment *segments) {
    uint32_t skip = s->row, row = 0;
    int n = 0;
    for (uint32_t i = 0; i < s->n_members && row < GW_BATCH; i++) {
        const gw_sequence *q = s->members[i];
        uint32_t from = (uint32_t)gw_min(skip, q->rows), rows = (uint32_t)gw_min(q->rows - from, GW_BATCH - row);
        skip -= from;
        if (!rows) continue;
        segments[n++] = (gw_segment){
            .row = (int)row, .n = (int)rows, .pos = q->kv.pos + from, .ids = q->ids, .kv = &q->kv
        };
        row += rows;
    }
    return n;
}

static void find_ids(gw_session *s) {
    const gw_batch *b = &s->state.batch;
    for (int i = 0; i < b->n_segments; i++) {
        const gw_segment *p = &b->segments[i];
        memcpy(s->ids + p->row, p->ids + p->pos, (size_t)p->n * sizeof *s->ids);
    }
}

/* Returns how many of a sequence's last rows in the block need logits. */
static uint32_t wanted(const gw_sequence *q) { return completes(q) ? (uint32_t)gw_min(q->want_last, q->rows) : 0; }

/* Returns the first row of the batch whose result is wanted: row 0 if all logits, vectors or an inspection are wanted,
 * otherwise the first row whose logits are wanted. */
static int first_wanted(const gw_session *s) {
    if (s->members[0]->want_all || s->want_vectors || s->want_look) return 0;
    uint32_t row = 0;
    for (uint32_t i = 0; i < s->n_members; row += s->members[i++]->rows)
        if (wanted(s->members[i])) return (int)(row + s->members[i]->rows - wanted(s->members[i]));
    return s->state.batch.n;
}

static void begin_batch(gw_session *s) {
    gw_batch *b = &s->state.batch;
    int at = (int)s->row;
    b->x.at = gw_row(s->x, at);
    b->q.at = gw_row(s->q, at);
    for (int r = 0; r < GW_ROPES; r++)
        if (s->angles[r].at) b->angles[r].at = gw_row(s->angles[r], at);
    gw_forward_begin(&s->state, s->want_vectors ? find_texts(s, b->segments) : find_sequences(s, b->segments));
    find_ids(s);
    b->wanted = first_wanted(s);
}

/* Moves to the next step of the evaluation (GW_STEP_…) once all rows of the current block have completed the current
 * step. Returns false after the last step. */
static bool find_step(gw_session *s) {
    if (s->row < s->end) return true;
    if (s->step == GW_STEP_FINISH) return false;
    s->row = 0;
    if (s->step != GW_STEP_FEED) s->step++;
    else s->step = ++s->layer < s->state.config->n_layer ? GW_STEP_KEEP : GW_STEP_FINISH;
    return true;
}

/* Evaluates a part of a layer for the batch. From the last layer with its own keys and values on, only keys and values
 * are computed for the rows before the first wanted one. Inspection reads x after each part that changes x, and after
 * GW_STEP_KEEP in the first layer, where x is the embedding. */
static int take_step(gw_session *s) {
    gw_state *st = &s->state;
    int first = s->layer + 1 < st->config->n_owners ? 0 : st->batch.wanted, n = st->batch.n;
    if (s->step == GW_STEP_KEEP) {
        if (s->layer == 0 && (s->missing = gw_forward_missing(st, s->ids))) return GW_RUN_ROWS;
        if (s->layer == 0) gw_forward_embed(st, s->ids);
        gw_forward_keep(st, s->layer, first);
    } else if (first < n) {
        if (s->step == GW_STEP_ATTEND) gw_forward_attend(st, s->layer, first);
        else gw_forward_feed(st, s->layer, first);
    }
    s->row += (uint32_t)n;
    return s->want_look && (s->step != GW_STEP_KEEP || s->layer == 0) ? GW_RUN_LOOK : GW_RUN_MORE;
}

/* --- logits of contexts --- */

/* Computes logits of the next rows of the block's only sequence, which wants the logits of all positions. */
static int give_rows(gw_session *s) {
    gw_sequence *q = s->members[0];
    q->logit_first = q->kv.pos + s->row;
    q->logit_rows = (uint32_t)gw_min(GW_LOGIT_ROWS, s->end - s->row);
    s->state.logits = q->logits;
    gw_forward_logits(&s->state, 0, (int)q->logit_rows);
    s->row += q->logit_rows;
    return GW_RUN_LOGITS;
}

/* Returns whether the sequence's next token should use the two-stage output head (model/topk.c). If a model's logits
 * are close to each other, the head excludes few rows, and is then skipped for q->rest tokens, since its first pass
 * reads half of the matrix. For an argmax, the head is always worthwhile. */
static bool may_exclude(gw_sequence *q) {
    if (q->needed.best == 1 || q->rest == 0) return true;
    q->rest--;
    return false;
}

/* Sequences whose logits are computed with one product: n of s->members from index `first` on, whose wanted rows are
 * adjacent; rows `row` .. row + rows - 1 of the batch. */
typedef struct {
    enum { ALL, TOP, FEW } which; /* logits to compute: all, candidates of the two-stage output head, or needed.rows */
    uint32_t first, n, row, rows;
} group;

/* Returns a group with the single sequence members[i]. row: the first row whose logits are wanted. needed.rows only
 * apply if one row is wanted. */
static group group_of(const gw_session *s, uint32_t i, uint32_t row) {
    gw_sequence *q = s->members[i];
    group g = { ALL, i, 1, row, wanted(q) };
    bool some = q->needed.rows.bits != NULL;
    if (g.rows == 1 && some && gw_few_rows(&s->state.weights->output.matrix, &q->needed.rows)) g.which = FEW;
    else if (q->want_top && q->needed.best && (g.rows == 1 || !some) && may_exclude(q)) g.which = TOP;
    return g;
}

/* Adds the next sequence to a group. Returns false if the sequence needs another group. */
static bool join(const gw_session *s, group *g, const group *next) {
    bool single = g->rows == g->n && next->rows == 1; /* give_top() expects one row of each sequence */
    bool adjacent = g->row + g->rows == next->row && g->rows + next->rows <= s->n_sequences;
    if (g->which != next->which || g->which == FEW || (g->which == TOP && !single) || !adjacent) return false;
    g->n++;
    g->rows += next->rows;
    return true;
}

static void give_top(gw_session *s, const group *g) {
    /* If fewer than LEAST_EXCLUDED quarters of all panels are excluded, the next REST tokens skip the two-stage output
     * head. */
    enum { LEAST_EXCLUDED = 3, REST = 100 };
    gw_topk needed[GW_SEQUENCES];
    uint64_t panels = gw_ld(s->state.config->n_vocab) / GW_PANEL;
    for (uint32_t r = 0; r < g->rows; r++) {
        gw_sequence *q = s->members[g->first + (g->n > 1 ? r : 0)];
        needed[r] = q->needed;
        if (g->n > 1) needed[r].to = q->logits.at;
    }
    uint64_t open = gw_forward_topk(&s->state, (int)g->row, (int)g->rows, needed);
    for (uint32_t i = g->first; i < g->first + g->n; i++)
        if (s->members[i]->needed.best > 1 && 4 * open > (4 - LEAST_EXCLUDED) * panels) s->members[i]->rest = REST;
}

static void give_all(gw_session *s, const group *g) {
    const float *at = s->state.logits.at;
    gw_forward_logits(&s->state, (int)g->row, (int)g->rows);
    for (uint32_t i = g->first; i < g->first + g->n && g->n > 1; i++) {
        size_t count = (size_t)wanted(s->members[i]) * s->state.config->n_vocab;
        memcpy(s->members[i]->logits.at, at, count * sizeof *at);
        at += count;
    }
}

static void give_group(gw_session *s, const group *g) {
    gw_sequence *q = s->members[g->first];
    s->state.logits = g->n > 1 ? s->logits : q->logits;
    if (g->which == FEW) gw_forward_few(&s->state, (int)g->row, &q->needed.rows);
    else if (g->which == TOP) give_top(s, g);
    else give_all(s, g);
    for (uint32_t i = g->first, row = 0; i < g->first + g->n; row += wanted(s->members[i++]))
        gw_forward_kept(&s->state, (int)row, (int)wanted(s->members[i]), s->members[i]->hidden.at);
}

/* Computes the wanted logits of all sequences whose remaining ids are all in the block. */
static void give_logits(gw_session *s) {
    group g = { 0 };
    uint32_t row = 0;
    for (uint32_t i = 0; i < s->n_members; i++) {
        gw_sequence *q = s->members[i];
        row += q->rows;
        if (!wanted(q)) continue;
        q->logit_first = q->n_ids - wanted(q);
        q->logit_rows = wanted(q);
        group next = group_of(s, i, row - wanted(q));
        if (g.n && join(s, &g, &next)) continue;
        if (g.n) give_group(s, &g);
        g = next;
    }
    if (g.n) give_group(s, &g);
}

static void end_context(gw_sequence *q) {
    if (!q->n_prompt || q->kv.pos < q->n_prompt) return;
    if (q->n_prompt > 1) gw_kv_save(&q->kv, q->n_prompt - 1);
    q->n_prompt = 0;
}

/* --- vectors of texts --- */

/* Ends a block of texts to embed. last: all texts are evaluated. Empties the cache after several texts, because these
 * cannot be continued. */
static void end_pack(gw_session *s, bool last) {
    if (last) gw_vectors_finish(&s->vectors, &s->state, (int)s->texts.n);
    if (s->texts.n > 1) gw_session_clear(s);
    else end_context(s->now);
}

/* --- running --- */

/* Ends the current block. Returns GW_RUN_DONE if the block's only sequence has no more ids to evaluate, otherwise
 * GW_RUN_MORE. */
static int end_block(gw_session *s) {
    bool last = completes(s->members[0]);
    uint32_t n = s->n_members;
    for (uint32_t i = 0; i < n; i++) gw_kv_advance(&s->members[i]->kv, s->members[i]->rows);
    if (s->want_vectors) end_pack(s, last);
    else
        for (uint32_t i = 0; i < n; i++) end_context(s->members[i]);
    gw_session_drop_block(s);
    return last && n == 1 ? GW_RUN_DONE : GW_RUN_MORE;
}

static int finish_rows(gw_session *s) {
    if (s->want_vectors) gw_vectors_add(&s->vectors, &s->state);
    else if (s->members[0]->want_all) return give_rows(s);
    else if (!s->want_look) give_logits(s);
    s->row += (uint32_t)s->state.batch.n;
    return GW_RUN_MORE;
}

static int evaluate(gw_session *s) {
    int bad = s->state.batch.n == 0 ? begin_block(s) : 0;
    if (bad) return bad;
    if (find_step(s)) {
        begin_batch(s);
        int how = s->step == GW_STEP_FINISH ? finish_rows(s) : take_step(s);
        if (how != GW_RUN_MORE) return how;
    }
    return s->step == GW_STEP_FINISH && s->row == s->end ? end_block(s) : GW_RUN_MORE;
}

static int aborted(gw_session *s) {
    atomic_store(&s->abort, 0);
    gw_session_leave_block(s);
    s->now->n_ids = s->now->kv.pos;
    return gw_fail(s->error, MSG_ABORTED);
}

static int worker_failed(gw_session *s) { return gw_fail(s->error, MSG_EVALUATION_FAILED); }

/* Chooses the sequences of the next block: rows of prompts, which are evaluated one after the other, then one row of
 * each sequence that has one id to evaluate. In this order, the rows whose logits are wanted are at the end. */
static void choose_members(gw_session *s, uint32_t mask) {
    enum { PROMPT_ROWS = 32 }; /* maximum prompt rows in a block that also decodes: they delay decoding */
    uint32_t n = s->n_sequences, decoding = 0;
    for (uint32_t i = 0; i < n; i++) decoding += mask >> i & 1 && pending(&s->sequences[i]) == 1;
    uint32_t room = decoding ? PROMPT_ROWS : GW_BATCH;
    for (uint32_t i = 0; i < n && room; i++) {
        gw_sequence *q = &s->sequences[(s->turn + i) % n];
        if (!(mask >> (s->turn + i) % n & 1) || pending(q) < 2) continue;
        add_member(s, q, room);
        if (!q->rows) continue;
        room -= q->rows;
        if (completes(q)) continue;
        room = 0;
        /* This prompt continues in the next block and comes first there. It also comes first in this block, because
         * rows whose logits are wanted must be at the end, and it has none. */
        s->turn = (uint32_t)(q - s->sequences);
        s->members[s->n_members - 1] = s->members[0];
        s->members[0] = q;
    }
    for (uint32_t i = 0; i < n; i++)
        if (mask >> i & 1 && pending(&s->sequences[i]) == 1) add_member(s, &s->sequences[i], 1);
}

/* Evaluates one step of up to GW_BATCH rows of the current block, and subtracts its cost from *left. */
static int advance(gw_session *s, int64_t *left) {
    static const uint8_t quarters[] = { 1, 1, 2, 4 }; /* cost by kind of step, in quarters of a layer */
    gw_pool *pool = s->state.ops.pool;
    if (gw_pool_failed(pool)) return worker_failed(s);
    if (atomic_load(&s->abort)) return aborted(s);
    int how = evaluate(s);
    *left -= quarters[s->step];
    return gw_pool_failed(pool) ? worker_failed(s) : how; /* a helper may also have failed while logits were computed */
}

int gw_session_run(gw_session *s, int layers) {
    gw_sequence *q = s->now;
    int64_t left = layers ? 4 * (int64_t)layers : INT64_MAX;
    if (s->n_members && (!q->rows || s->n_members > 1)) gw_session_drop_block(s);
    for (int how = GW_RUN_MORE; left > 0;) {
        if (!pending(q) && !s->n_members) return GW_RUN_DONE;
        if (!s->n_members) add_member(s, q, gw_session_block_rows(s->state.config, s->n_ctx));
        if ((how = advance(s, &left)) != GW_RUN_MORE) return how;
    }
    return GW_RUN_MORE;
}

int gw_session_step(gw_session *s, uint32_t mask, int layers) {
    int64_t left = layers ? 4 * (int64_t)layers : INT64_MAX;
    bool fits = !s->want_vectors && !s->want_look && s->state.config->arch->policy->generates;
    for (uint32_t i = 0; i < s->n_sequences; i++) fits &= !(mask >> i & 1 && s->sequences[i].want_all);
    if (!fits) return gw_fail(s->error, MSG_NOT_TOGETHER);
    for (uint32_t i = 0; i < s->n_members; i++)
        if (!(mask >> (s->members[i] - s->sequences) & 1)) {
            gw_session_drop_block(s);
            break;
        }
    if (!s->n_members) choose_members(s, mask);
    while (s->n_members && left > 0) {
        int how = advance(s, &left);
        if (how != GW_RUN_MORE) return how;
    }
    return s->n_members ? GW_RUN_MORE : GW_RUN_DONE;
}
