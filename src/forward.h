/* forward: the recipe of Gemma 3 (text), readable beside the report (Gemma Team 2025, arXiv 2503.19786).
 * No threads, no SIMD, no memory management in it. */
#ifndef GW_FORWARD_H
#define GW_FORWARD_H

#include "session.h"

/* x = embedding of ids[0..n) at positions pos on, and the batch's rotations. */
void gw_forward_embed(gw_session *s, const int32_t *ids, uint32_t pos, int n);
/* x = layer(x); keys and values of the batch go into the cache. */
void gw_forward_layer(gw_session *s, uint32_t layer);
/* logits[rows][n_vocab] of the batch's tokens first .. first + rows - 1. */
void gw_forward_head(gw_session *s, int first, int rows);

#endif
