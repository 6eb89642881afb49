/* attention: softmax(q k) v over a layer's cache, for a batch of tokens, spread over the pool's threads. What the
 * architectures differ in is data: how many heads share a kv head, what a token sees, and whether scores are capped. */
#ifndef GW_ATTENTION_H
#define GW_ATTENTION_H

#include "model/kv.h"
#include "model/ops.h"

/* head_dim: a multiple of 8, at most GW_MAX_HEAD_DIM; n_head: a multiple of n_head_kv. */
typedef struct {
    int n_head, n_head_kv, head_dim;
    uint32_t window;          /* 0: no limit. Causal: the last `window` positions are seen, the token's own included;
                               * both ways: those at most window / 2 away */
    uint32_t both_ways;       /* 0: causal. Else the length of a text whose tokens see later ones too; all its keys and
                               * values are in the cache */
    float cap;                /* 0: none. Else a score x counts as cap * tanh(x / cap) (Gemma Team 2024, Gemma 2) */
} gw_heads;

/* out[n][ldq] for tokens at positions pos .. pos + n - 1, whose keys and values are in the cache; q[n][ldq] is scaled
 * already. A token's result has the same bits in every batch and with every number of threads. */
void gw_attention(gw_ops *o, gw_heads h, const gw_kv_layer *kv, uint32_t pos, const float *q, size_t ldq, int n,
                  float *out);
/* The weights that a head of one token gives to what it sees: out[position], others are left as they are. */
void gw_attention_weights(gw_heads h, const gw_kv_layer *kv, uint32_t pos, const float *q, int head, float *out);
/* Floats that gw_ops_init needs for it. */
uint64_t gw_attention_partials(gw_heads h, uint32_t n_ctx);

#endif
