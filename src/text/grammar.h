/* grammar: the automaton that answers are held to, as js/grammar/lower.js writes it: read, and checked as
 * distrustfully as a file, for it comes from outside. Immutable.
 *
 * All of it is numbers of 32 bits, little-endian:
 *   magic "GWG1", version 1, count of all words, counts of nodes, spans, states, edges, rules, loops, members,
 *   the rule to begin with (~0: none), 1 if the empty text is a whole one
 *   nodes    where the spans of each end. Node 0 has none: it is the end of every spelling
 *   spans    low byte | high byte << 8, node: nodes are graphs that spell characters, without a cycle: a span leads to
 *            a node of a lower number
 *   states   where the edges of each end; then for each: 1 if its rule may end there | loop << 1
 *   edges    kind | act << 2 | member << 5, label, state. Labels: a node, a rule to call, a token. A register leaves
 *            its loop by an exit only, which empties it
 *   rules    the state to begin with, ~0 for a rule that nobody calls. It does not accept, and no chain of calls
 *            leads from it back to it before something is read
 *   loops    least, most (~0: no end), members. Loop 0 is none. Without members: rounds of a counter. With members: how
 *            many of them
 *   members  of all loops, one behind the other: 1 once only | 2 required */
#ifndef GW_GRAMMAR_H
#define GW_GRAMMAR_H

#include "base/base.h"

enum { GW_BYTES = 0, GW_CALL = 1, GW_TOKEN = 2 };                          /* kinds of edges */
enum { GW_KEEP = 0, GW_NEXT = 1, GW_EXIT = 2, GW_TAKE = 3, GW_MORE = 4 };  /* what they do with the register */
enum { GW_NEVER = 0xFFFFFFFF };
enum { GW_GRAMMAR_WORDS = 1 << 21 };   /* at most: 8 MB */

typedef struct { uint32_t how, label, to; } gw_edge;
typedef struct { uint32_t span, to; } gw_span;
typedef struct { uint32_t min, max, members; } gw_loop;

typedef struct {
    uint32_t *words;          /* the block that all others point into */
    uint32_t n_nodes, n_spans, n_states, n_edges, n_rules, n_loops, n_members, start;
    bool empty;
    const uint32_t *node_ends, *state_ends, *states, *rules, *members;
    const gw_span *spans;
    const gw_edge *edges;
    const gw_loop *loops;
    uint32_t *first_member;   /* [n_loops] */
} gw_grammar;

/* Copies the bytes. 0 or a coded error; then there is nothing to free. n_vocab: tokens that edges may name. */
int gw_grammar_read(gw_grammar *g, const void *bytes, size_t n, uint32_t n_vocab, gw_error *e);
void gw_grammar_free(gw_grammar *g);
static inline size_t gw_grammar_bytes(const gw_grammar *g) { return 4 * (g->words[2] + (size_t)g->n_loops); }

static inline uint32_t gw_first(const uint32_t *ends, uint32_t i) { return i ? ends[i - 1] : 0; }
static inline uint32_t gw_edge_kind(const gw_edge *e) { return e->how & 3; }
static inline uint32_t gw_edge_act(const gw_edge *e) { return e->how >> 2 & 7; }
static inline uint32_t gw_edge_member(const gw_edge *e) { return e->how >> 5; }
static inline bool gw_accepts(const gw_grammar *g, uint32_t state) { return g->states[state] & 1; }
static inline uint32_t gw_loop_of(const gw_grammar *g, uint32_t state) { return g->states[state] >> 1; }

#endif
