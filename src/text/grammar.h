/* grammar: reads the automaton that js/grammar/lower.js compiles from an answer's `format` option, and validates it
 * like an untrusted file. The automaton is then immutable. matcher.h explains how the automaton runs.
 *
 * Layout, in little-endian words of 32 bits:
 *   header   struct below
 *   nodes    for each node, the end of its spans. Nodes form an acyclic graph that spells characters in bytes: a span
 *            leads to a node of a lower number. Node 0 has no spans: it ends every spelling
 *   spans    low byte | high byte << 8, node
 *   states   for each state, the end of its edges; then, for each: 1 if its rule may end there | loop << 1
 *   edges    kind | act << 2 | member << 5, label, state. The label is a node, a rule to call, or a token. A counter
 *            leaves its loop only by GW_EXIT, which clears the register
 *   rules    the first state, ~0 for a rule that is never called. A first state does not accept, and rules do not
 *            recurse before they read something
 *   loops    min, max (~0: unlimited), members. Loop 0 means no loop. A loop without members counts rounds; one with
 *            members tracks which of them an object has
 *   members  of all loops in order: 1 at most once | 2 required */
#ifndef GW_GRAMMAR_H
#define GW_GRAMMAR_H

#include "base/base.h"

enum { GW_BYTES = 0, GW_CALL = 1, GW_TOKEN = 2 }; /* kinds of edges: bytes of a character, rule, control token */
/* Effects of an edge on the register of its rule, in order: none; start the next round of a loop; leave the loop; add
 * an object member; check that another member is allowed. */
enum { GW_KEEP = 0, GW_NEXT = 1, GW_EXIT = 2, GW_TAKE = 3, GW_MORE = 4 };
enum { GW_NEVER = 0xFFFFFFFF };
enum { GW_GRAMMAR_WORDS = 1 << 21 }; /* maximum size of a grammar: 8 MB */
#define GW_FORMAT_MEMORY "the format of the answer"

typedef struct {
    uint32_t magic, version; /* "GWG1", 1 */
    uint32_t size;           /* size of the header and all arrays, in words of 32 bits */
    uint32_t n_nodes, n_spans, n_states, n_edges, n_rules, n_loops, n_members;
    uint32_t start; /* rule that matches a whole text; GW_NEVER: none */
    uint32_t empty; /* nonzero if the grammar matches the empty text */
} gw_grammar_header;

typedef struct {
    uint32_t how, label, to;
} gw_edge;
typedef struct {
    uint32_t bytes, to;
} gw_byte_span;
typedef struct {
    uint32_t min, max, members;
} gw_loop;

typedef struct {
    uint32_t *words; /* owned copy of the grammar; all other pointers point into it */
    const gw_grammar_header *head;
    const uint32_t *node_ends, *state_ends, *states, *rules, *members;
    const gw_byte_span *spans;
    const gw_edge *edges;
    const gw_loop *loops;
    uint32_t *first_member, *required; /* [n_loops] index of a loop's first member; number of its required members */
} gw_grammar;

/* Copies a grammar and validates it; token ids must be below n_vocab. Returns 0, or a coded error; after an error there
 * is nothing to free. */
int gw_grammar_read(gw_grammar *g, const void *bytes, size_t n, uint32_t n_vocab, gw_error *e);
void gw_grammar_free(gw_grammar *g);
static inline size_t gw_grammar_bytes(const gw_grammar *g) { return 4 * (g->head->size + 2 * g->head->n_loops); }

static inline uint32_t gw_first(const uint32_t *ends, uint32_t i) { return i ? ends[i - 1] : 0; }
static inline uint32_t gw_low(const gw_byte_span *s) { return s->bytes & 255; }
static inline uint32_t gw_high(const gw_byte_span *s) { return s->bytes >> 8; }
/* Returns the index of the node's first span whose high byte is at least `byte`, or the end of the node's spans if
 * there is none. */
static inline uint32_t gw_span_from(const gw_grammar *g, uint32_t node, uint32_t byte) {
    uint32_t low = gw_first(g->node_ends, node), high = g->node_ends[node];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (gw_high(&g->spans[middle]) < byte) low = middle + 1;
        else high = middle;
    }
    return low;
}
static inline uint32_t gw_edge_kind(const gw_edge *e) { return e->how & 3; }
static inline uint32_t gw_edge_act(const gw_edge *e) { return e->how >> 2 & 7; }
static inline uint32_t gw_edge_member(const gw_edge *e) { return e->how >> 5; }
static inline bool gw_accepts(const gw_grammar *g, uint32_t state) { return g->states[state] & 1; }
static inline uint32_t gw_loop_of(const gw_grammar *g, uint32_t state) { return g->states[state] >> 1; }

#endif
