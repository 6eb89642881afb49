/* session: one running context of a model: its ids, KV cache, logits, and the batch that is under way.
 * The state that forward.c works on is here; what it computes is there. */
#ifndef GW_SESSION_H
#define GW_SESSION_H

#include <stdatomic.h>

#include "kv.h"
#include "model.h"

enum { GW_BATCH = 64, GW_LOGIT_ROWS = 4 };   /* tokens evaluated together; rows of logits at once */

/* Activations of a batch of n tokens at positions pos .. pos + n - 1. Shapes are [batch][gw_ld(…)]. */
typedef struct {
    int n;
    uint32_t pos;
    float *x;                 /* [n_embd]  the residual stream */
    float *h;                 /* [n_embd]  normalised input of a product, or its output */
    float *q, *a;             /* [n_head * head_dim]  queries; attention's result */
    float *k, *v;             /* [n_head_kv * head_dim] */
    float *gate, *up;         /* [n_ff] */
    float *angles[2];         /* [head_dim]  rotations of local and of global layers */
} gw_batch;

typedef struct {
    const gw_config *config;
    const gw_weights *weights;
    gw_error *error;
    gw_ops ops;
    gw_kv kv;
    gw_batch batch;
    uint32_t n_ctx;
    int32_t *ids;             /* [n_ctx] */
    uint32_t n_ids;           /* the first kv.pos of them are evaluated */
    uint32_t layer;           /* of the batch under way; batch.n == 0: none */
    bool is_prompt;           /* the pending ids came by sync */
    float *logits;            /* [GW_LOGIT_ROWS][n_vocab] */
    uint32_t logit_first, logit_rows, row;   /* row: of the batch, next one to get logits when all are wanted */
    bool want_all;
    _Atomic int32_t abort;
    void *block;
} gw_session;

/* Bytes by part for a context of n_ctx. */
typedef struct { size_t kv, scratch; } gw_session_need;
gw_session_need gw_session_measure(const gw_config *c, uint32_t n_ctx);
int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, uint32_t n_ctx, gw_error *e);
void gw_session_free(gw_session *s);

/* As documented in api.h. */
enum { GW_RUN_DONE = 0, GW_RUN_MORE = 1, GW_RUN_LOGITS = 2 };
int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n);
int gw_session_append(gw_session *s, int32_t id);
int gw_session_run(gw_session *s, int layers);
void gw_session_want_all(gw_session *s, bool on);
void gw_session_clear(gw_session *s);

#endif
