/* matcher: follows a growing text through a grammar, and computes which tokens may come next. A token is allowed if and
 * only if some text of the grammar begins with everything accepted so far and the token's bytes. Tokens that end
 * a text are allowed exactly where the text is complete, other control tokens where the grammar names them.
 *
 * DESIGN
 *
 * A grammar is a pushdown automaton over bytes (grammar.h). Each rule is an NFA whose edges read a character (its
 * spelling in bytes), read a control token, or call a rule. A rule has one register: it counts the rounds of a large
 * repetition, or holds the set of members that a JSON object has so far.
 *
 * The matcher represents the text so far by a set of items: the positions in the grammar that the text can have
 * reached. An item is a node inside a spelling, and the frame that the end of the spelling leads to: a state, its
 * register, and the stack that its rule returns to. Stacks are graph-structured (M. Tomita, 1985): a stack is a set of
 * frames, each on a further stack, and items that differ only in their stacks become one item on the joined stack. So
 * ambiguity below the top of the stack does not multiply items.
 *
 *    item (node, frame) -> stack { frame, frame } -> stack { frame } -> bottom
 *
 * A byte advances every item in its spelling. Where the spelling ends, the closure follows edges, calls and returns
 * until each alternative waits for a byte again.
 *
 * Accepting text (matcher.c) steps the NFA. Masks (masks.c) try the whole vocabulary, so they use a DFA that is made
 * lazily (states.c): a DFA state is a set of items, and each entry of its table of 256 next states is filled on first
 * use. The items of a DFA state have the bottom, a placeholder, in place of the text's stack, so that DFA states are
 * shared by all depths of nesting. A DFA state records that the bottom was reached, but has no information about what
 * is below.
 *
 * A mask is computed separately for the items on each stack. Starting in the DFA state of these items, the trie of the
 * vocabulary (trie.h) is walked once: the state's memo stores the tokens that stay inside the rule, and the exits,
 * which are the nodes where the bottom was reached inside a token. From each exit, the frames of the real stack
 * continue with their own DFA states. Inside JSON strings, whether a token of plain characters is allowed depends
 * only on its length (plain.c), and a smaller trie of all others is walked. Counts that no token can distinguish share
 * a DFA state (gw_register_class).
 *
 * A call may spend GW_MOST_WORK steps: items stepped, edges followed, frames joined, trie nodes below exits, and bytes
 * saved by garbage collections. The items of a set, the frames of a stack and the returns of an exit have limits, too.
 * Beyond a limit, the call fails with "too ambiguous". Closures terminate, because left recursion is rejected when a
 * grammar is read, and because rules never match the empty text.
 *
 * All lasting memory is allocated with the matcher. Stacks, member sets, DFA states, tables and memos are in one array,
 * and are never freed individually. When the array is full, a copying garbage collection saves what is reachable from
 * the roots (the text's items; during a walk also its path and returns), empties the array and restores what was saved.
 * Everything else is computed again when it is needed. The operation is then retried once, and fails if the array is
 * full again. */
#ifndef GW_MATCHER_H
#define GW_MATCHER_H

#include "text/states.h"
#include "text/tokenizer.h"
#include "text/trie.h"

typedef struct gw_matcher gw_matcher;

/* The vocabulary, shared by all grammars of a tokenizer. ends: tokens that end a text, such as <end_of_turn>. */
typedef struct {
    const gw_tokenizer *tokenizer;
    const gw_trie *trie;
    const int32_t *ends;
    uint32_t n_ends;
} gw_words;

/* Reads a compiled grammar (grammar.h), allocates all memory of a matcher, and starts an empty text. Returns NULL, with
 * an error in e, if that fails. Later calls report their errors in e, too. */
gw_matcher *gw_matcher_new(const void *bytes, size_t n, gw_words words, gw_error *e);
void gw_matcher_free(gw_matcher *m);
size_t gw_matcher_bytes(const gw_matcher *m);
uint32_t gw_matcher_found(const gw_matcher *m); /* returns the number of DFA states whose tokens were computed */

/* In all gw_matcher_… functions, an int result below 0 is a coded error. A token or text that is not accepted leaves
 * the matcher unchanged. */
int gw_matcher_reset(gw_matcher *m);
/* Accepts one token and advances the matcher. Returns 1, or 0 if the grammar does not allow the token. */
int gw_matcher_accept(gw_matcher *m, int32_t id);
/* Accepts the bytes of a text and advances the matcher. Returns 1, or 0 if the grammar does not allow them. */
int gw_matcher_accept_text(gw_matcher *m, const char *text, size_t n);
int gw_matcher_allows(gw_matcher *m, int32_t id); /* returns 1 if the grammar allows the token next, otherwise 0 */
bool gw_matcher_complete(const gw_matcher *m);    /* returns whether the accepted text is complete */
/* Returns whether the text is complete and nothing can follow. */
bool gw_matcher_finished(const gw_matcher *m);
/* Returns whether a token that ends texts was accepted, after which no token is allowed. */
bool gw_matcher_ended(const gw_matcher *m);

/* Returns a bit mask of the tokens that are allowed, valid until the next call; NULL on an error. */
const uint32_t *gw_matcher_mask(gw_matcher *m);
const uint32_t *gw_matcher_bits(const gw_matcher *m); /* returns the mask's buffer without computing a mask */
/* Writes up to cap bytes that must come next in every text that the grammar allows. Returns their number. */
int gw_matcher_forced(gw_matcher *m, char *out, size_t cap);
/* Returns 1 if a token may begin inside text[0..n) and extend beyond it as the grammar allows, otherwise 0. The text
 * ends with `forced` bytes from gw_matcher_forced, which are not accepted yet. To append them to the context, the
 * caller tokenizes them together with the tokens before. If the result is 1, the caller leaves the last of these tokens
 * to the model, which may choose one that includes later text. If the result is 0, no token of a continuation can cross
 * the end of the forced bytes. */
int gw_matcher_joins(gw_matcher *m, const char *text, size_t n, size_t forced);

#endif
