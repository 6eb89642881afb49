/* session: one context of a model: its ids, how many of them are evaluated, and the next step. Schedules the parts of
 * forward.c. Knows neither files nor JavaScript. */
#ifndef GW_SESSION_H
#define GW_SESSION_H

#include <stdatomic.h>

#include "model/vectors.h"

enum { GW_MOST_REQUIRED = 256 };

/* A step evaluates up to GW_BATCH rows: one of the three parts of a layer (forward.h) or, after the last layer, logits
 * or vectors. */
enum { GW_STEP_KEEP, GW_STEP_ATTEND, GW_STEP_FEED, GW_STEP_FINISH };

/* Texts that are evaluated together. */
typedef struct {
    uint32_t n, first[GW_TEXTS + 1];
} gw_texts; /* text i: ids first[i] .. first[i + 1] - 1 */

typedef struct {
    gw_state state;
    gw_error *error;
    uint32_t n_ctx;
    int32_t *ids;   /* [n_ctx] */
    uint32_t n_ids; /* the first state.kv.pos of them are evaluated */
    /* The current block, ids kv.pos .. end - 1; none if state.batch.n is 0. All its rows complete a step before any of
     * them begins the next one. */
    uint32_t end, row; /* row: index of the next row to process in the current step */
    uint32_t layer;
    int step;                       /* GW_STEP_… */
    gw_view x, q, angles[GW_ROPES]; /* rows of a block; the batch's views are parts of them */
    uint32_t n_prompt;              /* ids set by sync or sync_texts that are not all evaluated yet; 0: none */
    uint32_t logit_first, logit_rows;
    uint32_t want_last; /* of logits, at the end of the pending ids */
    bool want_all, want_top, want_vectors, want_look;
    uint32_t rest;  /* tokens that compute all logits, because the bound excluded too few */
    gw_topk needed; /* the logits that are used; best = 0: all of needed.rows. Until the next sync */
    int32_t required[GW_MOST_REQUIRED];
    gw_texts texts; /* want_vectors: the ids' texts */
    gw_vectors vectors;
    gw_row_cache *missing; /* after GW_RUN_ROWS: the cache that lacks rows */
    _Atomic int32_t abort;
    void *block;
} gw_session;

/* Bytes by part for a context of n_ctx; kv_type: GW_KV_* of kv.h. */
typedef struct {
    uint64_t kv, scratch;
} gw_session_need;
gw_session_need gw_session_measure(const gw_config *c, uint32_t n_ctx, int kv_type);
int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, uint32_t n_ctx, int kv_type,
                    gw_error *e);
void gw_session_free(gw_session *s);

/* As documented in api.h. */
enum { GW_RUN_DONE = 0, GW_RUN_MORE = 1, GW_RUN_LOGITS = 2, GW_RUN_LOOK = 3, GW_RUN_ROWS = 4 };
int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n);
int gw_session_append(gw_session *s, int32_t id);
int gw_session_run(gw_session *s, int layers);
void gw_session_truncate(gw_session *s, uint32_t n);
int gw_session_want_last(gw_session *s, uint32_t rows);
void gw_session_want_all(gw_session *s, bool on);
void gw_session_want_top(gw_session *s, bool on);
/* The most texts that gw_session_sync_texts takes, and the most ids of all of them if they are more than one. */
typedef struct {
    uint32_t texts, ids;
} gw_session_room;
gw_session_room gw_session_together(const gw_session *s);
int gw_session_sync_texts(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
void gw_session_want_look(gw_session *s);
void gw_session_clear(gw_session *s);
/* As documented in api.h. */
void gw_session_autotune(gw_session *s, int sequential, uint32_t quarter);

#endif
