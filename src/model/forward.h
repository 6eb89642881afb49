/* forward: the recipe of Gemma 3 (text), readable beside the report (Gemma Team 2025, arXiv 2503.19786).
 * No threads, no SIMD, no memory management in it. */
#ifndef GW_FORWARD_H
#define GW_FORWARD_H

#include "model/kv.h"
#include "model/model.h"

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

/* What the recipe works on. Who owns what: config and weights the model, the rest the session's block. */
typedef struct {
    const gw_config *config;
    const gw_weights *weights;
    gw_ops ops;
    gw_kv kv;
    gw_batch batch;
    float *logits;            /* [GW_LOGIT_ROWS][n_vocab] */
} gw_state;

/* x = embedding of ids[0..n) at positions pos on, and the batch's rotations. */
void gw_forward_embed(gw_state *s, const int32_t *ids, uint32_t pos, int n);
/* x = layer(x) of the batch's tokens from `first` on; keys and values of all go into the cache. */
void gw_forward_layer(gw_state *s, uint32_t layer, int first);
/* logits[rows][n_vocab] of the batch's tokens first .. first + rows - 1. */
void gw_forward_head(gw_state *s, int first, int rows);
/* The same for one token, but only the logits of `exact`, and those that may be the greatest of the others: see
 * gw_matmul_top. */
void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n);

#endif
