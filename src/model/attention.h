/* attention: softmax(q k) v over a layer's cache, for a batch of tokens, spread over the pool's threads. */
#ifndef GW_ATTENTION_H
#define GW_ATTENTION_H

#include "model/kv.h"
#include "model/ops.h"

/* How the query heads of a layer attend to its KV heads. head_dim: a multiple of 8, at most GW_MAX_HEAD_DIM; n_head: a
 * multiple of n_head_kv. */
typedef struct {
    int n_head, n_head_kv, head_dim;
    uint32_t before, after; /* a token at position p attends to p - before .. p + after; causal: after = 0 */
    uint32_t last;          /* last position that a token may attend to; causal: UINT32_MAX */
    float cap;              /* soft cap: a score x becomes cap * tanh(x / cap) (Gemma Team 2024, Gemma 2); 0: none */
} gw_heads;

/* n consecutive tokens of a sequence, at positions pos .. pos + n - 1: their queries q[n][ldq], already scaled, and the
 * destination of their results, out[n][ldq]. `kv` contains the keys and values of all positions that they attend to. */
typedef struct {
    gw_heads heads;
    gw_kv_layer kv;
    uint32_t pos;
    int n;
    const float *q;
    float *out;
} gw_attention_part;

/* Computes attention for a batch of one or more parts with equally many heads. A token's result has the same bits in
 * every batch and with every number of threads. */
void gw_attention(gw_ops *o, const gw_attention_part *parts, int n_parts, size_t ldq);
/* Sets out[position] to the softmax weight that one head of a token gives to each position to which the token attends;
 * leaves all other elements unchanged. */
void gw_attention_weights(gw_heads h, const gw_kv_layer *kv, uint32_t pos, const float *q, int head, float *out);
/* Returns the number of floats of scratch memory that attention needs: the argument `partials` of gw_ops_init. */
uint64_t gw_attention_partials(gw_heads h, uint32_t n_ctx);

#endif
