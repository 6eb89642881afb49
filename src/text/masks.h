/* masks: which tokens may come next, found by walking the vocabulary's tree with a state (states.h). What a state
 * allows before its rule ends is found once and kept with it, and the nodes of the tree where it has ended: there the
 * frames below go on, which differ from place to place. Inside of JSON strings nearly all tokens are answered at once,
 * by their number of characters (trie.h); only the others are walked. */
#ifndef GW_MASKS_H
#define GW_MASKS_H

#include "text/plain.h"
#include "text/trie.h"

enum { GW_MOST_RETURNS = 1 << 10 };

/* Where a text goes on when its rule has ended: a state, and the frames that this one stands on. */
typedef struct { uint32_t state, frames; } gw_return;

typedef struct {
    gw_states *s;
    const gw_trie *trie;
    gw_item *items;       /* [n_items] of the text so far; their frames are named anew where room had to be made */
    uint32_t n_items;
    uint32_t *ids;        /* [n_vocab] scratch: tokens of a walk */
    uint32_t n_ids;
    uint32_t *places;     /* [most_places] scratch: nodes where a walk has ended; GW_IN_ODD: of the smaller tree */
    uint32_t n_places, most_places;
    gw_return *returns;   /* [GW_MOST_RETURNS] scratch */
    uint32_t n_returns;
    uint16_t *path;       /* [longest + 1] the state at each depth of a walk */
    gw_plain plain;
    bool fresh;           /* nothing is in the mask yet, not even zeros */
    uint32_t found;       /* states whose tokens were looked for */
} gw_masks;

void gw_masks_take(gw_masks *k, gw_arena *a, const gw_trie *trie, const gw_grammar *g);

/* Adds the tokens that n of the items, which stand on the same frames, allow; to an empty mask, whatever its words are,
 * where k->fresh is set. What is known of states, but not in use, is forgotten when the block is full. 0, GW_FULL, or a
 * coded error. */
int gw_masks_add(gw_masks *k, uint32_t first, uint32_t n, uint32_t *mask);

#endif
