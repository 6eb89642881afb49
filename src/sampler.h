/* sampler: logits in, token id out. Pure: knows no model, no tokenizer; all state is in the struct.
 * Order of the chain, as in llama.cpp: logit bias, penalties, top-k, typical, top-p, min-p,
 * temperature, then a draw. temperature 0 is greedy: the arg max after bias and penalties,
 * lowest id on ties. Nothing is allocated after gw_sampler_new. */
#ifndef GW_SAMPLER_H
#define GW_SAMPLER_H

#include "base.h"

typedef struct gw_sampler gw_sampler;

gw_sampler *gw_sampler_new(uint32_t n_vocab);   /* NULL if no memory */
void gw_sampler_free(gw_sampler *s);
size_t gw_sampler_bytes(uint32_t n_vocab);      /* heap one sampler takes, for the memory plan */

/* Back to defaults: no bias, empty history, greedy off:
 * temperature 1, top_k 64, top_p 0.95 (Gemma 3's own generation config), the rest off, seed 0. */
void gw_sampler_reset(gw_sampler *s);

/* Options by name: temperature top_k top_p min_p typical_p repetition_penalty frequency_penalty
 * presence_penalty penalty_window seed. 0, or GW_E_BAD_OPTION with the range in e. */
int gw_sampler_set(gw_sampler *s, const char *name, double value, gw_error *e);
/* Add bias to a token's logit (-INFINITY bans it). 0, GW_E_BAD_TOKEN, or GW_E_BAD_OPTION (NaN, table full: 1024). */
int gw_sampler_bias(gw_sampler *s, int32_t id, float bias, gw_error *e);

/* Tell the sampler of a token of the context (prompt and drawn ones alike), for the penalties. */
void gw_sampler_accept(gw_sampler *s, int32_t id);

/* One draw. logits[n_vocab] is only read. GW_E_BAD_STATE if no logit is finite (or any is NaN). Does not accept(). */
int32_t gw_sampler_draw(gw_sampler *s, const float *logits);

/* Natural-log probabilities of the raw logits (no option applied), arithmetic in double. */
double gw_logprob(const float *logits, uint32_t n_vocab, int32_t id);
/* The k most likely ids, best first, with their log probabilities. Returns how many. k <= 64. */
int gw_top_logprobs(const float *logits, uint32_t n_vocab, int k, int32_t *ids, float *logprobs);

#endif
