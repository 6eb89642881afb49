/* plain: computes how many plain characters (trie.h: unescaped characters of a JSON string) a DFA state accepts.
 * If it accepts any number, or a known number, tokens of plain characters need no walk. */
#ifndef GW_PLAIN_H
#define GW_PLAIN_H

#include "text/states.h"

enum { GW_MOST_TOTAL = 2048 }; /* maximum number of grammar states that a call of gw_plain_length() visits */

typedef struct {
    gw_dfa *d;
    uint8_t *spelling; /* [nodes] whether a node (grammar.h) reads all, no or some plain characters; 0: unknown */
    uint8_t *total;    /* [states] whether any number of plain characters can follow; 0: unknown */
    uint32_t *asked;
} gw_plain;

void gw_plain_take(gw_plain *p, gw_arena *a, const gw_grammar *g);

/* Returns the maximum number of characters that a token of plain characters may have in a DFA state; GW_NEVER:
 * unlimited; 0: unknown, so the trie must be walked. */
uint32_t gw_plain_length(gw_plain *p, uint32_t state);

#endif
