/* plain: what a state does with plain characters, those that a JSON string takes as they are (trie.h). Where all of
 * them lead on, and on again, every token that is made of them is allowed, without a walk. */
#ifndef GW_PLAIN_H
#define GW_PLAIN_H

#include "text/states.h"

enum { GW_MOST_TOTAL = 2048 };   /* states that one question looks at */

typedef struct {
    const gw_states *s;
    uint8_t *spelling;    /* [nodes] what a spelling does with plain characters; 0: not asked yet */
    uint8_t *total;       /* [states] whether plain characters lead on from a state for ever; 0: not asked yet */
    uint32_t *asked;      /* [GW_MOST_TOTAL] scratch: states */
} gw_plain;

void gw_plain_take(gw_plain *p, gw_arena *a, const gw_grammar *g);

/* How many plain characters a token may have in a state, GW_NEVER: any number; 0: they must be walked. Those with more
 * are not allowed. */
uint32_t gw_plain_length(gw_plain *p, uint32_t state);

#endif
