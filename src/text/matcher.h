/* matcher: one text as it grows under a grammar, and which tokens may come next. Exact: a token is allowed if and only
 * if some text of the grammar begins with all that was accepted and the token's bytes. A token that ends texts is
 * allowed where the whole is complete, and only there; other control tokens where the grammar names them. */
#ifndef GW_MATCHER_H
#define GW_MATCHER_H

#include "text/states.h"
#include "text/tokenizer.h"
#include "text/trie.h"

typedef struct gw_matcher gw_matcher;

/* The vocabulary's side: of one tokenizer, for all its grammars. ends: tokens that end a text. */
typedef struct {
    const gw_tokenizer *tokenizer;
    const gw_trie *trie;
    const int32_t *ends;
    uint32_t n_ends;
} gw_words;

/* Reads a grammar (grammar.h), and takes all memory that it will ever need. NULL with an error in e, which later calls
 * use too. It stands at the beginning. */
gw_matcher *gw_matcher_new(const void *bytes, size_t n, gw_words words, gw_error *e);
void gw_matcher_free(gw_matcher *m);
size_t gw_matcher_bytes(const gw_matcher *m);      /* heap it holds */
uint32_t gw_matcher_found(const gw_matcher *m);    /* states that masks had to look for, since it was made */

/* All give a coded error below 0; then, and where they give 0 for no, the matcher is where it was. */
int gw_matcher_reset(gw_matcher *m);
int gw_matcher_accept(gw_matcher *m, int32_t id);                             /* 1: allowed, and taken; 0: not */
int gw_matcher_accept_text(gw_matcher *m, const char *text, size_t n);        /* the same for bytes */
int gw_matcher_allows(gw_matcher *m, int32_t id);                             /* 1 or 0 */
bool gw_matcher_complete(const gw_matcher *m);     /* the text so far is a whole one */
bool gw_matcher_finished(const gw_matcher *m);    /* it is, and nothing can follow */
bool gw_matcher_ended(const gw_matcher *m);        /* a token that ends texts was accepted: nothing is allowed */

/* Bits of the tokens that are allowed, valid until the next call; NULL with an error. */
const uint32_t *gw_matcher_mask(gw_matcher *m);
const uint32_t *gw_matcher_bits(const gw_matcher *m);   /* where they lie, whatever they are now */
/* Bytes that must come next, whatever text it becomes: at most cap. */
int gw_matcher_forced(gw_matcher *m, char *out, size_t cap);
/* How forced bytes become tokens is the tokenizer's business: it is given the text's last tokens and these bytes, and
 * where it would cut the text behind those tokens, too, its tokens for the rest are the ones that it would give for the
 * whole. What comes next is not known, and may belong to the last one of them: this says whether any piece can begin
 * inside text[0..n), whose last `forced` bytes are those that must come next, and go on behind it in a way that the
 * grammar allows. If so, 1, the last token is left to the model, which draws it under the mask; if not, 0, no
 * tokenisation of any text to come has a piece across that boundary. */
int gw_matcher_joins(gw_matcher *m, const char *text, size_t n, size_t forced);

#endif
