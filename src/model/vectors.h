/* vectors: embeds texts: pools the outputs of each text's tokens, then applies the two dense layers, if the file has
 * them (Reimers and Gurevych 2019; Vera et al. 2025, EmbeddingGemma). */
#ifndef GW_VECTORS_H
#define GW_VECTORS_H

#include "model/forward.h"

enum { GW_POOL_MEAN, GW_POOL_LAST }; /* a text's vector: the mean of its tokens' outputs; the last token's output */

typedef struct {
    int pooling;
    double *sum;  /* [n_embd] sums over the tokens of the current text */
    gw_view rows; /* [texts][n_embd] pooled outputs, which become the vectors */
    gw_view wide; /* [texts][n_dense] outputs of the first dense layer */
} gw_vectors;

void gw_vectors_init(gw_vectors *v, const gw_config *c, uint32_t texts, gw_arena *arena);
/* Adds the outputs of the batch's tokens to the sums of their texts; overwrites the activations `h`. Tokens of a text
 * must be added in order. */
void gw_vectors_add(gw_vectors *v, gw_state *s);
/* Applies the dense layers, if any. Must be called after all tokens of n texts have been added. */
void gw_vectors_finish(gw_vectors *v, gw_state *s, int n);

#endif
