/* sampler: draws a token id from logits, independently of models and tokenizers; all state is in the struct. The chain
 * has llama.cpp's order: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw. Temperature 0 is
 * greedy: the argmax after bias and penalties, of equal logits the lowest id. Only gw_sampler_new allocates memory. The
 * same seed, options and logits give the same tokens on all platforms, because a draw uses no libm. */
#ifndef GW_SAMPLER_H
#define GW_SAMPLER_H

#include "base/base.h"

typedef struct gw_sampler gw_sampler;

gw_sampler *gw_sampler_new(uint32_t n_vocab); /* makes a sampler; returns NULL if out of memory or n_vocab is invalid */
void gw_sampler_free(gw_sampler *s);
size_t gw_sampler_bytes(uint32_t n_vocab); /* returns the heap bytes of a sampler, for the memory plan */

/* Restores the default options (those of Gemma 3's generation config) and the biases of gw_sampler_ban, and clears
 * other biases and accepted tokens. */
void gw_sampler_reset(gw_sampler *s);

/* Sets an option by its name: the table at the top of sampler.c has names, ranges and defaults. A penalty_window above
 * 32768 has the effect of 32768. Setting the seed restarts the random numbers. Returns 0, or GW_E_BAD_OPTION with the
 * range in e. */
int gw_sampler_set(gw_sampler *s, const char *name, double value, gw_error *e);
/* Sets the bias of a token's logit; -INFINITY bans the token. Returns 0, GW_E_BAD_TOKEN,
 * or GW_E_BAD_OPTION (NaN, +INFINITY, more than 1024 tokens besides banned ones). */
int gw_sampler_bias(gw_sampler *s, int32_t id, float bias, gw_error *e);
/* Sets the bias of a token's logit to -INFINITY until another bias is set, and after each reset. Call it before all
 * other functions, for at most GW_MAX_BANNED tokens. Returns what gw_sampler_bias returns. */
enum { GW_MAX_BANNED = 512 };
int gw_sampler_ban(gw_sampler *s, int32_t id, gw_error *e);

/* Records the next token of the context, from the prompt or drawn, for the penalties. */
void gw_sampler_accept(gw_sampler *s, int32_t id);

/* Draws a token without accepting it. Does not change logits[n_vocab]. Returns the token's id, or GW_E_BAD_STATE if no
 * logit is finite or one is NaN or +INFINITY. */
int32_t gw_sampler_draw(gw_sampler *s, const float *logits);

bool gw_sampler_greedy(const gw_sampler *s);

/* Returns how many of the greatest logits the next draw needs: 1 for an argmax, k with top-k. The draw also needs all
 * logits that equal the least of these, and the logits of the *n ids written to `changed`, which bias and penalties
 * change (an id may be listed twice). drafts: ids that will be accepted before a later draw from the same evaluation.
 * Returns 0 if the draw needs all logits, or if there are more than cap ids. */
uint32_t gw_sampler_top(const gw_sampler *s, const int32_t *drafts, uint32_t n_drafts, int32_t *changed, int cap,
                        int *n);

/* Computes the distribution of the next draw without drawing: the possible tokens, most likely first, and their
 * probabilities; writes at most cap of each. Returns the number of possible tokens, or the errors of
 * gw_sampler_draw. */
int gw_sampler_distribution(gw_sampler *s, const float *logits, int32_t *ids, double *p, size_t cap);

/* gw_sampler_write saves and gw_sampler_read restores everything that later draws depend on (run/state.h), in
 * gw_sampler_state_bytes() bytes, at most GW_SAMPLER_MOST. gw_sampler_read returns 0, or GW_E_BAD_SAVED; after this
 * error, the sampler must be reset. */
enum { GW_SAMPLER_MOST = 160 << 10 };
size_t gw_sampler_state_bytes(const gw_sampler *s);
void gw_sampler_write(const gw_sampler *s, uint8_t *out);
int gw_sampler_read(gw_sampler *s, const uint8_t *in, size_t n, gw_error *e);

/* Returns the natural log probability of an id from the raw logits (no option applied), computed in double; NAN if the
 * id is out of range or gw_sampler_draw would fail. */
double gw_logprob(const float *logits, uint32_t n_vocab, int32_t id);
/* Finds the k <= 64 most likely ids, most likely first, with their log probabilities. Returns their number; 0 if
 * gw_sampler_draw would fail. */
int gw_top_logprobs(const float *logits, uint32_t n_vocab, int k, int32_t *ids, float *logprobs);

#endif
