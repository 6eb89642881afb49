/* session: one running context of a model: its ids, which of them are evaluated, and the batch that is
 * under way. Decides what forward computes, and when. */
#ifndef GW_SESSION_H
#define GW_SESSION_H

#include <stdatomic.h>

#include "model/vectors.h"

enum { GW_MOST_EXACT = 256 };

/* Texts that go through together. Those that are seen both ways do so layer by layer, a batch at a time: a layer keeps
 * all of them before any attends. Others are one batch. */
typedef struct {
    uint32_t n, first[GW_TEXTS + 1];   /* text i: ids first[i] .. first[i + 1] - 1 */
    int step;                 /* GW_PACK_…, of the rows from `row` on */
    uint32_t row;
    gw_view x, q;             /* [n_ctx] rows, of which a batch's views are some */
} gw_texts;

typedef struct {
    gw_state state;
    gw_error *error;
    uint32_t n_ctx;
    int32_t *ids;             /* [n_ctx] */
    uint32_t n_ids;           /* the first state.kv.pos of them are evaluated */
    uint32_t layer;           /* of the batch under way; state.batch.n == 0: none */
    uint32_t n_prompt;        /* ids that came by sync and are not all evaluated yet; 0: none */
    uint32_t logit_first, logit_rows, row;   /* row: of the batch, next one to get logits when all are wanted */
    bool want_all, want_top, want_vectors, want_look;
    int stage;                /* of the layer under way, where each step is looked at: GW_LOOK_… */
    int n_exact;              /* want_top: of exact[], logits that are wanted besides the greatest; -1: all are */
    int32_t exact[GW_MOST_EXACT];
    gw_rows wanted;           /* rows of logits that anybody asks for, until the next sync */
    gw_texts pack;
    gw_vectors vectors;
    _Atomic int32_t abort;
    void *block;
} gw_session;

/* Bytes by part for a context of n_ctx; kv_type: GW_KV_* of kv.h. */
typedef struct { uint64_t kv, scratch; } gw_session_need;
gw_session_need gw_session_measure(const gw_config *c, uint32_t n_ctx, int kv_type);
int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, uint32_t n_ctx, int kv_type,
                    gw_error *e);
void gw_session_free(gw_session *s);

/* As documented in api.h. */
enum { GW_RUN_DONE = 0, GW_RUN_MORE = 1, GW_RUN_LOGITS = 2, GW_RUN_LOOK = 3 };
enum { GW_LOOK_BEFORE, GW_LOOK_BETWEEN, GW_LOOK_BEHIND };
int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n);
int gw_session_append(gw_session *s, int32_t id);
int gw_session_run(gw_session *s, int layers);
void gw_session_want_all(gw_session *s, bool on);
void gw_session_want_top(gw_session *s, bool on);
/* Texts that may go through together, and their ids, if they are more than one. */
typedef struct { uint32_t texts, ids; } gw_session_room;
gw_session_room gw_session_together(const gw_session *s);
int gw_session_pack(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
void gw_session_want_look(gw_session *s);
void gw_session_clear(gw_session *s);
/* As documented in api.h. */
void gw_session_rehearse(gw_session *s, int streams, uint32_t quarter);

#endif
