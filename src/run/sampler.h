/* sampler: draws a token id from logits. It knows no model and no tokenizer; all state is in the struct. The chain has
 * llama.cpp's order: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw. Temperature 0 is greedy:
 * the arg max after bias and penalties, the lowest id on ties. gw_sampler_new makes the only allocation. The same seed,
 * options and logits give the same tokens on all platforms, because a draw uses no libm. */
#ifndef GW_SAMPLER_H
#define GW_SAMPLER_H

#include "base/base.h"

typedef struct gw_sampler gw_sampler;

gw_sampler *gw_sampler_new(uint32_t n_vocab); /* NULL without memory */
void gw_sampler_free(gw_sampler *s);
size_t gw_sampler_bytes(uint32_t n_vocab); /* heap bytes of one sampler, for the memory plan */

/* Restores the default options (those of Gemma 3's generation config), and clears biases and history. */
void gw_sampler_reset(gw_sampler *s);

/* Sets an option by its name: the table at the top of sampler.c has names, ranges and defaults. A longer penalty_window
 * than 32768 counts no more tokens than that. Setting the seed restarts the random numbers. Returns 0, or
 * GW_E_BAD_OPTION with the range in e. */
int gw_sampler_set(gw_sampler *s, const char *name, double value, gw_error *e);
/* Sets the bias of a token's logit; -INFINITY bans the token. Returns 0, GW_E_BAD_TOKEN,
 * or GW_E_BAD_OPTION (NaN, +INFINITY, more than 1024 tokens). */
int gw_sampler_bias(gw_sampler *s, int32_t id, float bias, gw_error *e);

/* Records a token of the context, of the prompt or drawn, for the penalties. */
void gw_sampler_accept(gw_sampler *s, int32_t id);

/* Draws a token without accepting it. Only reads logits[n_vocab]. Returns its id, or GW_E_BAD_STATE if no logit is
 * finite or any is NaN or +INFINITY. */
int32_t gw_sampler_draw(gw_sampler *s, const float *logits);

/* Returns whether the next draw is an argmax (temperature 0). */
bool gw_sampler_greedy(const gw_sampler *s);

/* Returns the number of greatest logits that the next draw needs, besides those of the n ids in `changed`, which bias
 * and penalties change (some may be listed twice): 1 for an argmax, k with top-k. Logits that equal the least of them
 * are needed too. drafts: ids that will be accepted before a later draw from the same evaluation. Returns 0 if the draw
 * needs all logits, or for more than cap ids. */
uint32_t gw_sampler_top(const gw_sampler *s, const int32_t *drafts, uint32_t n_drafts, int32_t *changed, int cap,
                        int *n);

/* Computes the distribution of the next draw without drawing: the possible tokens, best first, and their
 * probabilities; writes at most cap of each. Returns their number, or the errors of gw_sampler_draw. */
int gw_sampler_distribution(gw_sampler *s, const float *logits, int32_t *ids, double *p, size_t cap);

/* Save and restore everything that later draws depend on, as bytes (run/state.h). read returns 0, or GW_E_BAD_SAVED;
 * the sampler is then unchanged or reset. */
enum { GW_SAMPLER_MOST = 160 << 10 };
size_t gw_sampler_state_bytes(const gw_sampler *s);
void gw_sampler_write(const gw_sampler *s, uint8_t *out);
int gw_sampler_read(gw_sampler *s, const uint8_t *in, size_t n, gw_error *e);

/* Returns the natural log probability of an id from the raw logits (no option applied), computed in double. NAN for an
 * id out of range and where gw_sampler_draw fails with GW_E_BAD_STATE (gw_top_logprobs: 0 ids). */
double gw_logprob(const float *logits, uint32_t n_vocab, int32_t id);
/* Finds the k <= 64 most likely ids, best first, with their log probabilities. Returns their number. */
int gw_top_logprobs(const float *logits, uint32_t n_vocab, int k, int32_t *ids, float *logprobs);

#endif
