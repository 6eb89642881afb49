/* session: the sequences of a model: their ids, how many of these are evaluated, and the next step. Schedules the parts
 * of forward.c for one sequence, or for several in one batch. Independent of files and JavaScript. */
#ifndef GW_SESSION_H
#define GW_SESSION_H

#include <stdatomic.h>

#include "model/vectors.h"

enum { GW_MOST_REQUIRED = 256, GW_SEQUENCES = 16 };

/* A step evaluates up to GW_BATCH rows: one of the three parts of a layer (forward.h), or logits or vectors after the
 * last layer. */
enum { GW_STEP_KEEP, GW_STEP_ATTEND, GW_STEP_FEED, GW_STEP_FINISH };

/* Texts to embed that are evaluated together: text i has ids first[i] .. first[i + 1] - 1. */
typedef struct {
    uint32_t n, first[GW_TEXTS + 1];
} gw_texts;

typedef struct {
    gw_kv kv;
    int32_t *ids;      /* [n_ctx] */
    uint32_t n_ids;    /* number of the sequence's ids, of which the first kv.pos are evaluated */
    uint32_t n_prompt; /* number of ids set by the last sync or sync_texts, until all of them are evaluated; then 0 */
    uint32_t rows;     /* the sequence's rows in the current block; 0: the sequence is not in the block */
    gw_view logits;    /* [n_vocab] logits of the sequence, with room for GW_LOGIT_ROWS rows */
    gw_view hidden;    /* [n_embd] final hidden state of each row of logits; an assistant (a draft model) reads it */
    uint32_t logit_first, logit_rows;
    uint32_t want_last; /* number of last ids whose logits are wanted */
    bool want_all, want_top;
    uint32_t rest;  /* number of next tokens that skip the two-stage output head, because it excluded few rows */
    gw_topk needed; /* logits to compute until the next sync; best 0: those of the tokens in needed.rows */
    int32_t required[GW_MOST_REQUIRED];
} gw_sequence;

typedef struct {
    gw_state state;
    gw_error *error;
    uint32_t n_ctx, n_sequences;
    gw_kv_memory memory;                       /* memory of the KV caches of all sequences */
    gw_sequence sequences[GW_SEQUENCES], *now; /* now: the selected sequence, which most functions refer to */
    /* The current block: the next rows of the sequences that are its members, one member after the other; no block if
     * n_members is 0. All rows of a block complete a step before any of them begins the next step. */
    gw_sequence *members[GW_SEQUENCES];
    uint32_t n_members;
    uint32_t end, row; /* number of rows in the block; index of the next row to process in the current step */
    int32_t ids[GW_BATCH];
    uint32_t turn; /* index of the sequence whose prompt is evaluated first */
    uint32_t layer;
    int step;                       /* current step, GW_STEP_… */
    gw_view x, q, angles[GW_ROPES]; /* rows of the whole current block; the views in state.batch are parts of these */
    gw_view logits;                 /* [n_vocab] logits, a row for each sequence; unused with a single sequence */
    bool want_vectors, want_look;
    gw_texts texts; /* if want_vectors: boundaries of the texts to embed */
    gw_vectors vectors;
    gw_row_cache *missing; /* after GW_RUN_ROWS: the row cache that lacks rows */
    _Atomic int32_t abort;
    void *block;
} gw_session;

/* The bytes that a session needs for KV caches and for scratch. */
typedef struct {
    uint64_t kv, scratch;
} gw_session_need;
/* The sizes of a session: a context of n_ctx tokens for each of 1 to GW_SEQUENCES sequences; kv_type: GW_KV_*;
 * kv_tokens: tokens of all sequences for which the KV cache has room, 0: n_ctx for each. */
typedef struct {
    uint32_t n_ctx, n_sequences;
    int kv_type;
    uint32_t kv_tokens;
} gw_session_shape;
gw_session_need gw_session_measure(const gw_config *c, gw_session_shape shape);
int gw_session_init(gw_session *s, const gw_config *c, const gw_weights *w, gw_pool *pool, gw_session_shape shape,
                    gw_error *e);
void gw_session_free(gw_session *s);
/* Evaluates, like gw_session_run(), all sequences whose bit is set in `mask`, but only one block of at most GW_BATCH
 * rows. Each sequence that has one id to evaluate has a row; prompts share the other rows. */
int gw_session_step(gw_session *s, uint32_t mask, int layers);

/* api.h documents gw_session_x as gw_x, and gw_session_sync_texts as gw_pack. */
enum { GW_RUN_DONE = 0, GW_RUN_MORE = 1, GW_RUN_LOGITS = 2, GW_RUN_LOOK = 3, GW_RUN_ROWS = 4 };
int gw_session_sync(gw_session *s, const int32_t *ids, uint32_t n);
int gw_session_select(gw_session *s, uint32_t i);
int gw_session_kept(gw_session *s, uint32_t i, const int32_t *ids, uint32_t n);
int gw_session_copy(gw_session *s, uint32_t from, uint32_t n);
int gw_session_append(gw_session *s, int32_t id);
int gw_session_run(gw_session *s, int layers);
void gw_session_truncate(gw_session *s, uint32_t n);
int gw_session_want_last(gw_session *s, uint32_t rows);
void gw_session_want_all(gw_session *s, bool on);
void gw_session_want_top(gw_session *s, bool on);
/* The maximum number of texts in gw_session_sync_texts, and of ids in several texts together. */
typedef struct {
    uint32_t texts, ids;
} gw_session_room;
gw_session_room gw_session_together(const gw_session *s);
int gw_session_sync_texts(gw_session *s, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling);
void gw_session_want_look(gw_session *s);
void gw_session_clear(gw_session *s);
/* Returns the number of rows that each layer finishes before the next one begins. */
uint32_t gw_session_block_rows(const gw_config *c, uint32_t n_ctx);
/* Drops the current block: the rows of its members will be evaluated again from the first layer. */
void gw_session_drop_block(gw_session *s);
/* Drops the current block if the selected sequence is a member. */
void gw_session_leave_block(gw_session *s);
/* Returns 0, or an error if an assistant's layers cannot use the keys and values of a target. */
int gw_session_pair(const gw_config *c, const gw_config *target, gw_error *e);
/* Drafts the token after `id`. By default, `id` was drawn from the logits of the target's selected sequence and is not
 * evaluated yet. If `chain` is set, `id` is the result of the last call. Returns an id or an error. */
int gw_session_draft(gw_session *s, const gw_session *target, int32_t id, bool chain);
/* api.h documents gw_session_autotune as gw_autotune. */
void gw_session_autotune(gw_session *s, int sequential, int layer, int rows);

#endif
