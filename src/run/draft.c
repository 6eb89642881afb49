/* draft: evaluates an assistant, a model whose layers compute only queries, and use the keys and values of another
 * model, its target (Gemma 4's heads for multi-token prediction, 2026). All tokens of a draft have one position: that
 * of the target's first id that is not evaluated. session.h documents the functions. */
#include "run/session.h"
#include "run/errors.h"

#include <string.h>

/* Returns the layer whose keys and values the last layer of a kind uses, NULL if the target has no such layers. */
static const gw_layer_shape *owner_of(const gw_config *target, int rope) {
    for (uint32_t l = target->n_layer; l-- > 0;)
        if (target->layer[l].rope == rope) return &target->layer[target->layer[l].kv_owner];
    return NULL;
}

int gw_session_pair(const gw_config *c, const gw_config *target, gw_error *e) {
    bool fits = c->n_target == target->n_embd && target->arch->policy->generates && c->window == target->window;
    for (uint32_t l = 0; l < c->n_layer; l++) {
        const gw_layer_shape *own = &c->layer[l], *theirs = owner_of(target, own->rope);
        fits = fits && theirs && theirs->head_dim == own->head_dim && theirs->n_head_kv == own->n_head_kv;
    }
    if (fits) return 0;
    return gw_fail(e, MSG_OTHER_TARGET, c->n_target, c->window);
}

int gw_session_draft(gw_session *s, const gw_session *target, int32_t id, bool chain) {
    gw_state *st = &s->state;
    const gw_config *c = target->state.config;
    const gw_matrix *embedding = &target->state.weights->embedding;
    const gw_sequence *q = target->now;
    gw_kv *kv = &s->now->kv;
    st->logits = s->now->logits;
    float *pair = st->batch.pair.at;
    uint32_t row = q->kv.pos - 1 - q->logit_first;
    if (id < 0 || (uint32_t)id >= c->n_vocab || row >= q->logit_rows || q->kv.pos >= s->n_ctx || embedding->cache)
        return gw_fail(s->error, MSG_NO_HIDDEN_STATE, id);
    if (!chain) memcpy(pair + c->n_embd, gw_row(q->hidden, (int)row), c->n_embd * sizeof *pair);
    gw_matrix_row(embedding, (size_t)id, pair);
    for (uint32_t i = 0; i < c->n_embd; i++) pair[i] *= c->embedding_scale;
    for (int r = 0; r < GW_ROPES; r++) {
        const gw_layer_shape *owner = owner_of(c, r);
        if (owner) kv->layers[st->config->n_layer + (uint32_t)r] = q->kv.layers[owner->kv_owner];
    }
    int32_t next = gw_forward_draft(st, kv, q->kv.pos);
    return gw_pool_failed(st->ops.pool) ? gw_fail(s->error, MSG_DRAFTING_FAILED) : next;
}
