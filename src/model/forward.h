/* forward: the one recipe that all architectures follow, readable beside their papers (docs/family.md):
 *   x = embedding(ids) [+ positions]
 *   each layer:   h = norm(x);  q, k, v = linear(h);  rotate(norm(q)), rotate(norm(k));  keep k, v
 *                 x += norm(linear(attention(q)))
 *                 h = norm(x);  x += norm(linear(activation(linear(h)) * linear(h)))
 *   logits = cap(linear(norm(x)))
 * What a model has no weights for is left out. No threads, no SIMD, no memory management in it. */
#ifndef GW_FORWARD_H
#define GW_FORWARD_H

#include "model/arch.h"
#include "model/kv.h"
#include "model/ops.h"

enum { GW_BATCH = 64, GW_LOGIT_ROWS = 4 };   /* tokens evaluated together; rows of logits at once */

/* Activations of a batch of n tokens at positions pos .. pos + n - 1: room for GW_BATCH rows each. */
typedef struct {
    int n;
    uint32_t pos;
    gw_view x;                /* [n_embd]  the residual stream */
    gw_view h;                /* [n_embd]  normalised input of a product, or its output */
    gw_view q, a;             /* [n_head * head_dim]  queries; attention's result */
    gw_view k, v;             /* [n_head_kv * head_dim] */
    gw_view gate, up;         /* [n_ff] */
    float *angles[2];         /* [head_dim]  rotations of local and of global layers; NULL: there are none */
} gw_batch;

/* What the recipe works on. Who owns what: config and weights the model, the rest the session's block. */
typedef struct {
    const gw_config *config;
    const gw_weights *weights;
    gw_ops ops;
    gw_kv kv;
    gw_batch batch;
    gw_view logits;           /* [n_vocab]  room for GW_LOGIT_ROWS */
} gw_state;

/* x = embedding of ids[0..n) at positions pos on, and the batch's rotations. */
void gw_forward_embed(gw_state *s, const int32_t *ids, uint32_t pos, int n);
/* x = layer(x) of the batch's tokens from `first` on; keys and values of all go into the cache. */
void gw_forward_layer(gw_state *s, uint32_t layer, int first);
/* The second half of a layer alone. */
void gw_forward_feed(gw_state *s, uint32_t layer, int first);
/* logits[rows][n_vocab], close together, of the batch's tokens first .. first + rows - 1. */
void gw_forward_logits(gw_state *s, int first, int rows);
/* The same for one token, but only the logits of `exact`, and those that may be the greatest of the others: see
 * gw_matmul_top. */
void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n);

#endif
