/* plain: what a DFA state does with plain characters, the ones that a JSON string contains as they are (trie.h). If all
 * of them lead on for ever, or for a known number, tokens of plain characters need no walk. */
#ifndef GW_PLAIN_H
#define GW_PLAIN_H

#include "text/states.h"

enum { GW_MOST_TOTAL = 2048 }; /* grammar states that one question looks at */

typedef struct {
    const gw_dfa *d;
    uint8_t *spelling; /* [nodes] what a spelling does with plain characters; 0: unknown */
    uint8_t *total;    /* [states] whether plain characters lead on from a state for ever; 0: unknown */
    uint32_t *asked;   /* [GW_MOST_TOTAL] scratch: states */
} gw_plain;

void gw_plain_take(gw_plain *p, gw_arena *a, const gw_grammar *g);

/* Returns the most plain characters that a token may have in a DFA state; GW_NEVER: unlimited; 0: walk the tree. */
uint32_t gw_plain_length(gw_plain *p, uint32_t state);

#endif
