/* plain: see plain.h. Any number of plain characters may follow in a grammar state if every plain character leads to
 * another such state (a greatest fixpoint). A known number may follow in a loop that counts characters. Results for
 * nodes and states are cached. The analysis may spend half of a call's work; after that, the trie is walked. */
#include "text/plain.h"

#include <string.h>

enum { COVERS = 1, AVOIDS = 2, MIXES = 3 };
enum { YES = 1, NO = 2, ASKED = 3 };
enum { MOST_LABELS = 256, LOOKS_PER_STEP = 16 };

/* Spends n look-ups of the work budget. Returns false, so that the trie is walked, if half of the budget is spent. */
static bool spend(const gw_plain *p, uint32_t n) {
    uint32_t steps = 1 + n / LOOKS_PER_STEP;
    if (p->d->work < GW_MOST_WORK / 2 + steps) return false;
    p->d->work -= steps;
    return true;
}

/* Returns the node that byte b leads to from `node`, or GW_NEVER if none. If *until is greater than the last byte with
 * the same result, lowers it to that byte. */
static uint32_t look(const gw_grammar *g, uint32_t node, uint32_t b, uint32_t *until) {
    uint32_t i = gw_span_from(g, node, b);
    if (i == g->node_ends[node]) return GW_NEVER;
    uint32_t lo = gw_low(&g->spans[i]), hi = gw_high(&g->spans[i]);
    *until = (uint32_t)gw_min(*until, lo > b ? lo - 1 : hi);
    return lo > b ? GW_NEVER : g->spans[i].to;
}

/* Bytes of the plain characters: ranges of the first and the second byte, and the number of continuation bytes. */
typedef struct {
    uint8_t lo, hi, second_lo, second_hi, more;
} range;
static const range plain[] = {
    { 0x23, 0x5B, 0, 0, 0 },       { 0x20, 0x21, 0, 0, 0 },       { 0x5D, 0x7F, 0, 0, 0 },
    { 0xC2, 0xDF, 0x80, 0xBF, 1 }, { 0xE0, 0xE0, 0xA0, 0xBF, 2 }, { 0xE1, 0xEC, 0x80, 0xBF, 2 },
    { 0xED, 0xED, 0x80, 0x9F, 2 }, { 0xEE, 0xEF, 0x80, 0xBF, 2 }, { 0xF0, 0xF0, 0x90, 0xBF, 3 },
    { 0xF1, 0xF3, 0x80, 0xBF, 3 }, { 0xF4, 0xF4, 0x80, 0x8F, 3 },
};
enum { RANGES = sizeof plain / sizeof *plain };

/* Returns whether every character of a range leads from one of n nodes to node 0, the end of a character. */
static bool covers(const gw_plain *p, const uint32_t *nodes, uint32_t n, range r) {
    const range rest = { r.second_lo, r.second_hi, 0x80, 0xBF, (uint8_t)(r.more - 1) };
    uint32_t next[MOST_LABELS];
    for (uint32_t byte = r.lo, until; byte <= r.hi; byte = until + 1) {
        uint32_t m = 0;
        bool ends = false;
        if (!spend(p, n)) return false;
        until = r.hi;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t to = look(p->d->g, nodes[i], byte, &until);
            ends |= to == 0;
            if (to && to != GW_NEVER) next[m++] = to;
        }
        if (r.more ? !m || !covers(p, next, m, rest) : !ends) return false;
    }
    return true;
}

static bool covers_plain(const gw_plain *p, const uint32_t *nodes, uint32_t n) {
    for (int i = 0; i < RANGES; i++)
        if (!covers(p, nodes, n, plain[i])) return false;
    return true;
}

static bool avoids_plain(const gw_grammar *g, uint32_t node) {
    for (uint32_t i = gw_first(g->node_ends, node); i < g->node_ends[node]; i++) {
        uint32_t lo = gw_low(&g->spans[i]), hi = gw_high(&g->spans[i]);
        if (hi < 0x20 || (lo == hi && (lo == '"' || lo == '\\')) || lo > 0xF4 || (lo >= 0x80 && hi < 0xC2)) continue;
        return false;
    }
    return true;
}

static int does_with_plain(gw_plain *p, uint32_t node) {
    const gw_grammar *g = p->d->g;
    uint8_t *known = &p->spelling[node];
    if (!*known) *known = avoids_plain(g, node) ? AVOIDS : covers_plain(p, &node, 1) ? COVERS : MIXES;
    return *known;
}

static bool is_free(const gw_grammar *g, uint32_t state, const gw_edge *e) {
    if (gw_edge_kind(e) != GW_BYTES) return false;
    return gw_edge_act(e) == GW_KEEP || (gw_edge_act(e) == GW_NEXT && g->loops[gw_loop_of(g, state)].max == GW_NEVER);
}

/* Adds a label to a list of labels unless the list has it: thousands of edges may have only a few distinct labels. */
static uint32_t add_label(uint32_t *labels, uint32_t n, uint32_t label) {
    for (uint32_t i = 0; i < n; i++)
        if (labels[i] == label) return n;
    if (n < MOST_LABELS) labels[n++] = label;
    return n;
}

/* Returns whether each plain character leads from a grammar state to one that p->total does not mark NO. */
static bool leads_on(const gw_plain *p, uint32_t state) {
    const gw_grammar *g = p->d->g;
    uint32_t labels[MOST_LABELS], n = 0, looks = 0;
    for (uint32_t i = gw_first(g->state_ends, state); i < g->state_ends[state]; i++) {
        const gw_edge *e = &g->edges[i];
        looks += 1 + n;
        if (is_free(g, state, e) && p->total[e->to] != NO) n = add_label(labels, n, e->label);
    }
    return n && spend(p, looks) && covers_plain(p, labels, n);
}

/* Returns whether any number of plain characters can follow in a grammar state: the greatest fixpoint over the
 * reachable states. Failing states are removed until no failing state is left. */
static bool is_total(gw_plain *p, uint32_t state) {
    const gw_grammar *g = p->d->g;
    if (p->total[state]) return p->total[state] == YES;
    uint32_t n = 0;
    p->asked[n++] = state;
    p->total[state] = ASKED;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = p->asked[i];
        if (!leads_on(p, from)) { /* the answer NO for a state is final: it never changes back */
            p->total[from] = NO;
            continue;
        }
        for (uint32_t k = gw_first(g->state_ends, from); k < g->state_ends[from]; k++) {
            const gw_edge *e = &g->edges[k];
            if (!is_free(g, from, e) || p->total[e->to] || does_with_plain(p, e->label) == AVOIDS) continue;
            p->total[e->to] = n == GW_MOST_TOTAL ? NO : ASKED;
            if (p->total[e->to] == ASKED) p->asked[n++] = e->to;
        }
    }
    /* Visits the states backwards, so that a failure at the end of a chain of states removes the whole chain in one
     * pass. */
    for (bool struck = true; struck;) {
        struck = false;
        for (uint32_t i = n; i-- > 0;)
            if (p->total[p->asked[i]] == ASKED && !leads_on(p, p->asked[i])) p->total[p->asked[i]] = NO, struck = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (p->total[p->asked[i]] == ASKED) p->total[p->asked[i]] = YES;
    return p->total[state] == YES;
}

/* Returns whether a grammar state reads plain characters only in a loop to itself. *act is the loop's effect on the
 * register. */
static bool loops_on_plain(gw_plain *p, uint32_t state, uint32_t *act) {
    const gw_grammar *g = p->d->g;
    bool loops = false;
    if (gw_accepts(g, state)) return false;
    for (uint32_t i = gw_first(g->state_ends, state); i < g->state_ends[state]; i++) {
        const gw_edge *e = &g->edges[i];
        if (gw_edge_kind(e) == GW_TOKEN) continue;
        int how = gw_edge_kind(e) == GW_BYTES ? does_with_plain(p, e->label) : MIXES;
        if (how == AVOIDS) continue;
        if (how != COVERS || loops || e->to != state || gw_edge_act(e) > GW_NEXT) return false;
        loops = true;
        *act = gw_edge_act(e);
    }
    return loops;
}

uint32_t gw_plain_length(gw_plain *p, uint32_t state) {
    uint32_t labels[MOST_LABELS], n, m = 0, length = 0, act = GW_KEEP;
    const gw_item *items = gw_dfa_items(p->d, state, &n);
    const gw_grammar *g = p->d->g;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = items[i].node;
        if (!(node & GW_AT_TOKEN) && does_with_plain(p, node) != AVOIDS && is_total(p, items[i].frame.to))
            m = add_label(labels, m, node);
    }
    if (m && covers_plain(p, labels, m)) return GW_NEVER;
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].node & GW_AT_TOKEN) continue;
        gw_frame f = items[i].frame;
        int how = does_with_plain(p, items[i].node);
        if (how == AVOIDS) continue;
        if (how != COVERS || length || !loops_on_plain(p, f.to, &act)) return 0;
        const gw_loop *l = &g->loops[gw_loop_of(g, f.to)];
        length = act == GW_KEEP || l->max == GW_NEVER ? GW_NEVER : l->max - f.reg;
    }
    return length;
}

void gw_plain_take(gw_plain *p, gw_arena *a, const gw_grammar *g) {
    p->spelling = gw_arena_take(a, g->head->n_nodes);
    p->asked = gw_arena_take(a, GW_MOST_TOTAL * sizeof *p->asked);
    p->total = gw_arena_take(a, g->head->n_states);
    if (!p->total) return;
    memset(p->spelling, 0, g->head->n_nodes);
    memset(p->total, 0, g->head->n_states);
}
