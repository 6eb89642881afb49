/* grammar: see grammar.h. Checks everything that matcher.h relies on: indices in range, acyclic spellings, actions that
 * fit their loops, and no left recursion (depth-first search). */
#include "text/grammar.h"
#include "text/errors.h"

#include <string.h>

enum { MAGIC = 0x31475747, VERSION = 1, HEAD = sizeof(gw_grammar_header) / 4 };

static int wrong(gw_error *e, const char *what, const char *expected, uint32_t got) {
    return gw_fail(e, MSG_GRAMMAR, what, expected, got);
}

static int read_head(gw_grammar *g, size_t n, gw_error *e) {
    const gw_grammar_header *h = g->head = (const gw_grammar_header *)g->words;
    if (h->magic != MAGIC) return wrong(e, "the magic number", "GWG1", h->magic);
    if (h->version != VERSION) return wrong(e, "the version", "1", h->version);
    uint64_t words = HEAD + (uint64_t)h->n_nodes + 2 * (uint64_t)h->n_spans + 2 * (uint64_t)h->n_states +
                     3 * (uint64_t)h->n_edges + h->n_rules + 3 * (uint64_t)h->n_loops + h->n_members;
    if (h->size != n || words != n) return wrong(e, "the size in words", "the sum of its counts", (uint32_t)n);
    g->node_ends = g->words + HEAD;
    g->spans = (const gw_byte_span *)(g->node_ends + h->n_nodes);
    g->state_ends = (const uint32_t *)(g->spans + h->n_spans);
    g->states = g->state_ends + h->n_states;
    g->edges = (const gw_edge *)(g->states + h->n_states);
    g->rules = (const uint32_t *)(g->edges + h->n_edges);
    g->loops = (const gw_loop *)(g->rules + h->n_rules);
    g->members = (const uint32_t *)(g->loops + h->n_loops);
    return 0;
}

static bool rising(const uint32_t *ends, uint32_t n, uint32_t last) {
    for (uint32_t i = 0; i < n; i++)
        if (ends[i] < gw_first(ends, i) || ends[i] > last) return false;
    return last == (n ? ends[n - 1] : 0);
}

static int check_nodes(const gw_grammar *g, gw_error *e) {
    uint32_t n = g->head->n_nodes, n_spans = g->head->n_spans;
    if (!n || !rising(g->node_ends, n, n_spans) || g->node_ends[0])
        return wrong(e, "the byte spans", "sorted by node, none of node 0", n_spans);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t least = 0;
        for (uint32_t k = gw_first(g->node_ends, i); k < g->node_ends[i]; k++) {
            const gw_byte_span *s = &g->spans[k];
            uint32_t lo = gw_low(s), hi = gw_high(s);
            if (hi > 255 || lo > hi || lo < least) return wrong(e, "the bytes of a node", "sorted", s->bytes);
            if (s->to >= i) return wrong(e, "the target of a span", "a lower node", s->to);
            least = hi + 1;
        }
    }
    return 0;
}

static int check_loops(gw_grammar *g, gw_error *e) {
    uint32_t members = 0, all = g->head->n_members;
    if (!g->head->n_loops) return wrong(e, "the number of loops", "at least 1", 0);
    for (uint32_t i = 0; i < g->head->n_loops; i++) {
        const gw_loop *l = &g->loops[i];
        if (l->min > l->max || l->members > all - members)
            return wrong(e, "a loop", "consistent in min, max and members", l->members);
        g->first_member[i] = members;
        g->required[i] = 0;
        for (uint32_t k = 0; k < l->members; k++) g->required[i] += g->members[members++] >> 1 & 1;
    }
    return members == all ? 0 : wrong(e, "the number of members", "the sum over all loops", all);
}

static int check_edge(const gw_grammar *g, const gw_edge *edge, uint32_t loop, uint32_t n_vocab, gw_error *e) {
    static const char *const names[] = { "the node of an edge", "the rule of an edge" };
    uint32_t kind = gw_edge_kind(edge), act = gw_edge_act(edge), members = g->loops[loop].members;
    const uint32_t most[] = { g->head->n_nodes, g->head->n_rules, n_vocab };
    if (kind > GW_TOKEN) return wrong(e, "the kind of an edge", "0 to 2", kind);
    if (kind == GW_TOKEN && edge->label >= n_vocab) return gw_fail(e, MSG_NO_SUCH_TOKEN, edge->label);
    if (edge->label >= most[kind] || (kind == GW_BYTES && edge->label == 0))
        return wrong(e, names[kind], "in range", edge->label);
    if (kind == GW_CALL && g->rules[edge->label] == GW_NEVER)
        return wrong(e, "the rule of an edge", "a rule with states", edge->label);
    if (edge->to >= g->head->n_states) return wrong(e, "the target of an edge", "in range", edge->to);
    uint32_t into = gw_loop_of(g, edge->to);
    bool fits = act == GW_KEEP   ? !loop || into == loop
                : act == GW_NEXT ? loop && into == loop && !members
                : act == GW_EXIT ? loop && !members
                                 : act == GW_MORE && members;
    if (act == GW_TAKE) fits = (!loop || loop == into) && gw_edge_member(edge) < g->loops[into].members;
    /* The set of object members in the register belongs to one loop: no edge may carry it to another loop. */
    else if (members || g->loops[into].members) fits = fits && into == loop;
    return fits ? 0 : wrong(e, "the action of an edge", "valid for the loops it connects", act);
}

static int check_states(const gw_grammar *g, uint32_t n_vocab, gw_error *e) {
    uint32_t n = g->head->n_states, n_edges = g->head->n_edges;
    if (!rising(g->state_ends, n, n_edges)) return wrong(e, "the edges", "sorted by state", n_edges);
    for (uint32_t i = 0; i < n; i++)
        if (gw_loop_of(g, i) >= g->head->n_loops) return wrong(e, "the loop of a state", "in range", gw_loop_of(g, i));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = gw_first(g->state_ends, i); k < g->state_ends[i]; k++) {
            int bad = check_edge(g, &g->edges[k], gw_loop_of(g, i), n_vocab, e);
            if (bad) return bad;
        }
    return 0;
}

typedef struct {
    uint32_t rule, edge;
} visited;
enum { OPEN = 1, DONE = 2 };

/* Searches the rules that a rule can start with, depth first; fails on left recursion. */
static int visit(const gw_grammar *g, uint32_t rule, uint8_t *seen, visited *stack, gw_error *e) {
    visited *top = stack;
    *top = (visited){ rule, gw_first(g->state_ends, g->rules[rule]) };
    seen[rule] = OPEN;
    for (;;) {
        if (top->edge == g->state_ends[g->rules[top->rule]]) {
            seen[top->rule] = DONE;
            if (top-- == stack) return 0;
            continue;
        }
        const gw_edge *edge = &g->edges[top->edge++];
        uint32_t next = edge->label;
        if (gw_edge_kind(edge) != GW_CALL || seen[next] == DONE) continue;
        if (seen[next] == OPEN) return wrong(e, "a rule", "free of left recursion", next);
        seen[next] = OPEN;
        *++top = (visited){ next, gw_first(g->state_ends, g->rules[next]) };
    }
}

static int check_rules(const gw_grammar *g, gw_error *e) {
    uint32_t n = g->head->n_rules, start = g->head->start;
    if (start != GW_NEVER && (start >= n || g->rules[start] == GW_NEVER))
        return wrong(e, "the start rule", "a rule with states", start);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t state = g->rules[i];
        if (state == GW_NEVER) continue;
        if (state >= g->head->n_states || gw_accepts(g, state) || gw_loop_of(g, state))
            return wrong(e, "the first state of a rule", "outside loops and not accepting", state);
    }
    visited *stack = gw_alloc((n + 1) * sizeof *stack + n);
    if (!stack) return gw_no_memory(e, GW_FORMAT_MEMORY, 9ull * n);
    uint8_t *seen = (uint8_t *)(stack + n + 1);
    memset(seen, 0, n);
    int bad = 0;
    for (uint32_t i = 0; i < n && !bad; i++)
        if (!seen[i] && g->rules[i] != GW_NEVER) bad = visit(g, i, seen, stack, e);
    gw_free(stack);
    return bad;
}

int gw_grammar_read(gw_grammar *g, const void *bytes, size_t n, uint32_t n_vocab, gw_error *e) {
    gw_grammar_header head;
    memset(g, 0, sizeof *g);
    if (n % 4 || n < sizeof head || n > 4 * (size_t)GW_GRAMMAR_WORDS)
        return gw_fail(e, MSG_GRAMMAR_SIZE, 4 * HEAD, 4 * GW_GRAMMAR_WORDS, n);
    memcpy(&head, bytes, sizeof head);
    if (head.n_loops > n / 4) return wrong(e, "the number of loops", "at most the number of words", head.n_loops);
    g->words = gw_alloc(n + 8 * (size_t)head.n_loops);
    if (!g->words) return gw_no_memory(e, GW_FORMAT_MEMORY, n);
    memcpy(g->words, bytes, n);
    g->first_member = g->words + n / 4;
    g->required = g->first_member + head.n_loops;
    int bad = read_head(g, n / 4, e);
    if (!bad) bad = check_nodes(g, e);
    if (!bad) bad = check_loops(g, e);
    if (!bad) bad = check_states(g, n_vocab, e);
    if (!bad) bad = check_rules(g, e);
    if (bad) gw_grammar_free(g);
    return bad;
}

void gw_grammar_free(gw_grammar *g) {
    gw_free(g->words);
    memset(g, 0, sizeof *g);
}
