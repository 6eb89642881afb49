/* grammar: see grammar.h. */
#include "text/grammar.h"

#include <string.h>

enum { MAGIC = 0x31475747, VERSION = 1, HEAD = 12 };

static int wrong(gw_error *e, const char *what, const char *expected, uint32_t got) {
    return gw_fail(e, GW_E_BAD_FORMAT, "grammar: %s\n%s\n%u", what, expected, got);
}

/* --- where things lie ----------------------------------------------------------------------------- */

static int read_head(gw_grammar *g, size_t n, gw_error *e) {
    const uint32_t *w = g->words;
    if (w[0] != MAGIC) return wrong(e, "magic number", "GWG1", w[0]);
    if (w[1] != VERSION) return wrong(e, "version", "1", w[1]);
    uint64_t words = HEAD + (uint64_t)w[3] + 2 * (uint64_t)w[4] + 2 * (uint64_t)w[5] + 3 * (uint64_t)w[6] + w[7]
                   + 3 * (uint64_t)w[8] + w[9];
    if (w[2] != n || words != n) return wrong(e, "size", "as many words as its counts say", (uint32_t)n);
    g->n_nodes = w[3], g->n_spans = w[4], g->n_states = w[5], g->n_edges = w[6], g->n_rules = w[7];
    g->n_loops = w[8], g->n_members = w[9], g->start = w[10], g->empty = w[11] != 0;
    g->node_ends = w + HEAD;
    g->spans = (const gw_span *)(g->node_ends + g->n_nodes);
    g->state_ends = (const uint32_t *)(g->spans + g->n_spans);
    g->states = g->state_ends + g->n_states;
    g->edges = (const gw_edge *)(g->states + g->n_states);
    g->rules = (const uint32_t *)(g->edges + g->n_edges);
    g->loops = (const gw_loop *)(g->rules + g->n_rules);
    g->members = (const uint32_t *)(g->loops + g->n_loops);
    return 0;
}

/* --- what it says --------------------------------------------------------------------------------- */

static bool rising(const uint32_t *ends, uint32_t n, uint32_t last) {
    for (uint32_t i = 0; i < n; i++)
        if (ends[i] < gw_first(ends, i) || ends[i] > last) return false;
    return last == (n ? ends[n - 1] : 0);
}

static int check_nodes(const gw_grammar *g, gw_error *e) {
    if (!g->n_nodes || !rising(g->node_ends, g->n_nodes, g->n_spans) || g->node_ends[0])
        return wrong(e, "spans of the nodes", "in order, none of node 0", g->n_spans);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint32_t least = 0;
        for (uint32_t s = gw_first(g->node_ends, i); s < g->node_ends[i]; s++) {
            uint32_t lo = g->spans[s].span & 255, hi = g->spans[s].span >> 8;
            if (hi > 255 || lo > hi || lo < least) return wrong(e, "bytes of a span", "rising ones", g->spans[s].span);
            if (g->spans[s].to >= i) return wrong(e, "node behind a span", "one of a lower number", g->spans[s].to);
            least = hi + 1;
        }
    }
    return 0;
}

static int check_loops(gw_grammar *g, gw_error *e) {
    uint32_t members = 0;
    if (!g->n_loops) return wrong(e, "loops", "at least one", 0);
    for (uint32_t i = 0; i < g->n_loops; i++) {
        const gw_loop *l = &g->loops[i];
        if (l->min > l->max || l->members > g->n_members - members)
            return wrong(e, "a loop", "least rounds, most, and members that are there", l->members);
        g->first_member[i] = members;
        members += l->members;
    }
    return members == g->n_members ? 0 : wrong(e, "members", "those of its loops", g->n_members);
}

static int check_edge(const gw_grammar *g, const gw_edge *edge, uint32_t loop, uint32_t n_vocab, gw_error *e) {
    static const char *const names[] = { "spelling", "rule", "token" };
    uint32_t kind = gw_edge_kind(edge), act = gw_edge_act(edge), members = g->loops[loop].members;
    const uint32_t most[] = { g->n_nodes, g->n_rules, n_vocab };
    if (kind > GW_TOKEN) return wrong(e, "kind of an edge", "0 to 2", kind);
    if (edge->label >= most[kind] || (kind == GW_BYTES && edge->label == 0))
        return wrong(e, names[kind], "one that is there", edge->label);
    if (kind == GW_CALL && g->rules[edge->label] == GW_NEVER) return wrong(e, "rule", "one with states", edge->label);
    if (edge->to >= g->n_states) return wrong(e, "state behind an edge", "one that is there", edge->to);
    uint32_t into = gw_loop_of(g, edge->to);
    bool fits = act == GW_KEEP ? !loop || into == loop : act == GW_NEXT ? loop && into == loop && !members
              : act == GW_EXIT ? loop && !members : act == GW_MORE && members;
    if (act == GW_TAKE) fits = (!loop || loop == into) && gw_edge_member(edge) < g->loops[into].members;
    else if (members || g->loops[into].members) fits = fits && into == loop;   /* a set is that of its loop */
    return fits ? 0 : wrong(e, "act of an edge", "one that fits its loop", act);
}

static int check_states(const gw_grammar *g, uint32_t n_vocab, gw_error *e) {
    if (!rising(g->state_ends, g->n_states, g->n_edges)) return wrong(e, "edges of the states", "in order", g->n_edges);
    for (uint32_t i = 0; i < g->n_states; i++)
        if (gw_loop_of(g, i) >= g->n_loops) return wrong(e, "loop of a state", "one that is there", g->states[i] >> 1);
    for (uint32_t i = 0; i < g->n_states; i++)
        for (uint32_t k = gw_first(g->state_ends, i); k < g->state_ends[i]; k++) {
            int bad = check_edge(g, &g->edges[k], gw_loop_of(g, i), n_vocab, e);
            if (bad) return bad;
        }
    return 0;
}

/* --- left recursion ------------------------------------------------------------------------------- */

/* Depth first over the rules that a rule begins with; stack[2 * depth]: rule, and the edge to look at next. */
static int visit(const gw_grammar *g, uint32_t rule, uint8_t *seen, uint32_t *stack, gw_error *e) {
    uint32_t depth = 0;
    stack[0] = rule;
    stack[1] = gw_first(g->state_ends, g->rules[rule]);
    seen[rule] = 1;
    for (;;) {
        uint32_t *top = stack + 2 * depth;
        if (top[1] == g->state_ends[g->rules[top[0]]]) {
            seen[top[0]] = 2;
            if (depth-- == 0) return 0;
            continue;
        }
        const gw_edge *edge = &g->edges[top[1]++];
        if (gw_edge_kind(edge) != GW_CALL || seen[edge->label] == 2) continue;
        if (seen[edge->label] == 1) return wrong(e, "rules", "no left recursion", edge->label);
        seen[edge->label] = 1;
        depth++;
        top[2] = edge->label;
        top[3] = gw_first(g->state_ends, g->rules[edge->label]);
    }
}

static int check_rules(const gw_grammar *g, gw_error *e) {
    if (g->start != GW_NEVER && (g->start >= g->n_rules || g->rules[g->start] == GW_NEVER))
        return wrong(e, "rule to begin with", "one that is there", g->start);
    for (uint32_t i = 0; i < g->n_rules; i++) {
        uint32_t state = g->rules[i];
        if (state == GW_NEVER) continue;
        if (state >= g->n_states || gw_accepts(g, state) || gw_loop_of(g, state))
            return wrong(e, "state that a rule begins with", "one outside of loops that does not accept", state);
    }
    uint8_t *seen = gw_alloc(g->n_rules + 9 * (size_t)g->n_rules + 16);
    if (!seen) return gw_fail(e, GW_E_NO_MEMORY, "grammar\n%u bytes\nno memory", 10 * g->n_rules);
    uint32_t *stack = (uint32_t *)(seen + gw_round_up(g->n_rules, 4));
    memset(seen, 0, g->n_rules);
    int bad = 0;
    for (uint32_t i = 0; i < g->n_rules && !bad; i++)
        if (!seen[i] && g->rules[i] != GW_NEVER) bad = visit(g, i, seen, stack, e);
    gw_free(seen);
    return bad;
}

/* --- reading -------------------------------------------------------------------------------------- */

int gw_grammar_read(gw_grammar *g, const void *bytes, size_t n, uint32_t n_vocab, gw_error *e) {
    memset(g, 0, sizeof *g);
    if (n % 4 || n < 4 * HEAD || n > 4 * (size_t)GW_GRAMMAR_WORDS)
        return gw_fail(e, GW_E_BAD_FORMAT, "grammar: size\n%d to %d bytes, a multiple of 4\n%zu", 4 * HEAD,
                       4 * GW_GRAMMAR_WORDS, n);
    uint32_t loops;
    memcpy(&loops, (const uint8_t *)bytes + 8 * 4, 4);
    if (loops > n / 4) return wrong(e, "loops", "as many as there is room for", loops);
    g->words = gw_alloc(n + 4 * (size_t)loops);
    if (!g->words) return gw_fail(e, GW_E_NO_MEMORY, "grammar\n%zu bytes\nno memory", n);
    memcpy(g->words, bytes, n);
    g->first_member = g->words + n / 4;
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
