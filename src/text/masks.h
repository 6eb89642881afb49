/* masks: computes which tokens may come next (matcher.h explains the design). */
#ifndef GW_MASKS_H
#define GW_MASKS_H

#include "text/plain.h"
#include "text/trie.h"

enum { GW_MOST_RETURNS = 1 << 10 };

typedef struct {
    gw_dfa *d;
    const gw_trie *trie;
    gw_item *items; /* [n_items] items of the text so far; a garbage collection renumbers their stacks */
    uint32_t n_items;
    uint32_t *ids; /* [n_vocab] scratch: ids of the tokens that a walk of the trie finds */
    uint32_t n_ids;
    uint32_t *exits; /* [most_exits] nodes where a walk reached the bottom (matcher.h); IN_ODD: nodes of trie->odd */
    uint32_t n_exits, most_exits;
    gw_return *returns; /* [GW_MOST_RETURNS] places where the text continues after the end of a rule */
    uint32_t n_returns;
    uint16_t *path; /* [longest + 1] the DFA state at each depth of a walk of the trie */
    gw_plain plain;
    bool fresh;
    uint32_t found; /* number of DFA states whose tokens were computed */
} gw_mask_builder;

void gw_mask_builder_take(gw_mask_builder *b, gw_arena *a, const gw_trie *trie, const gw_grammar *g);

/* Adds the tokens that items [first, first + n) allow to the mask. All these items must have the same stack.
 * Initialises the mask if b->fresh is set. May collect garbage (states.h) when the DFA cache is full. Returns 0,
 * GW_FULL, or a coded error. */
int gw_mask_add(gw_mask_builder *b, uint32_t first, uint32_t n, uint32_t *mask);

#endif
