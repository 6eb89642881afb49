/* states: see states.h. In this order: joining stacks, registers, the closure of an NFA set, DFA states by lazy subset
 * construction, and a copying garbage collection. Knows tokens only as labels: masks.c knows the vocabulary. */
#include "text/states.h"
#include "text/errors.h"

#include <stddef.h>
#include <string.h>

enum { STACKS = 0, MEMBER_SETS = 1, STATES = 2 };
/* Numbers of hash chains of stacks, member sets and DFA states; the DFA cache's array has room for 700,000 stacks. */
static const uint32_t n_chains[] = { 1 << 16, 1 << 10, 1 << 13 };
enum { SEEN = 1 << 12, SLOTS = 2 * GW_MOST_ITEMS, FEW = 8, JOINED_DEEP = 12 };
enum { EDGES_PER_STEP = 3, SET_WORDS_PER_STEP = 16, SAVED_BYTES_PER_STEP = 16 };

/* Entries of the DFA cache's array, like gw_stack. A member set has the members that a JSON object has so far. */
typedef struct {
    gw_link link;
    uint32_t loop, taken;
    uint32_t missing; /* number of required members that the object lacks */
    uint32_t open;    /* number of members that the object lacks or may have again */
    uint32_t bits[];
} member_set;
typedef struct {
    gw_link link;
    uint32_t number, n, flags;
    gw_item items[];
} dfa_state; /* the items of a DFA state are sorted */
#define WORDS(type) (sizeof(type) / sizeof(uint32_t))

static uint32_t mix(uint32_t h, uint32_t x) {
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static uint32_t hash_words(const void *words, size_t n, uint32_t h) {
    const uint32_t *p = words;
    for (size_t i = 0; i < n; i++) h = mix(h, p[i]);
    return h;
}

uint32_t gw_dfa_take(gw_dfa *d, uint32_t words) {
    if (words > d->size - d->used) return 0;
    uint32_t at = d->used;
    d->used += words;
    return at;
}

static uint32_t *chain_of(gw_dfa *d, int chain, uint32_t hash) {
    return &d->chains[chain][hash & (n_chains[chain] - 1)];
}

static uint32_t add_to_chain(gw_dfa *d, int chain, uint32_t hash, uint32_t at) {
    uint32_t *head = chain_of(d, chain, hash);
    *(gw_link *)(d->words + at) = (gw_link){ *head, hash };
    return *head = at;
}

int gw_too_ambiguous(const gw_dfa *d, const char *what, uint32_t most) {
    return gw_fail(d->error, MSG_AMBIGUOUS, most, what);
}

int gw_dfa_spend(gw_dfa *d, uint32_t n) {
    if (d->work < n) return gw_too_ambiguous(d, "steps", GW_MOST_WORK);
    d->work -= n;
    return 0;
}

/* --- stacks --------------------------------------------------------------------------------------- */

static bool frame_before(const gw_frame *a, const gw_frame *b) {
    if (a->to != b->to) return a->to < b->to;
    return a->reg != b->reg ? a->reg < b->reg : a->below < b->below;
}

static uint32_t stack_of(gw_dfa *d, const gw_frame *f, uint32_t n) {
    uint32_t hash = hash_words(f, n * WORDS(gw_frame), n);
    for (uint32_t at = *chain_of(d, STACKS, hash); at; at = gw_stack_at(d, at)->link.next) {
        const gw_stack *other = gw_stack_at(d, at);
        if (other->link.hash == hash && other->n == n && !memcmp(other->frames, f, n * sizeof *f)) return at;
    }
    uint32_t at = gw_dfa_take(d, WORDS(gw_stack) + n * WORDS(gw_frame));
    if (!at) return 0;
    gw_stack *made = gw_stack_at(d, at);
    made->n = n;
    made->memo = 0;
    memcpy(made->frames, f, n * sizeof *f);
    return add_to_chain(d, STACKS, hash, at);
}

/* Merges two stacks. Two frames with the same state and register become one frame, on the merge of the stacks below
 * them. *out is 0 if the array is full. */
static int join_stacks(gw_dfa *d, uint32_t a, uint32_t b, int depth, uint32_t *out) {
    *out = a;
    if (a == b) return 0;
    const gw_frame *x = gw_stack_at(d, a)->frames, *y = gw_stack_at(d, b)->frames;
    uint32_t n = gw_stack_at(d, a)->n, m = gw_stack_at(d, b)->n, k = 0;
    int bad = gw_dfa_spend(d, n + m);
    if (bad) return bad;
    gw_frame *to = d->joined + (size_t)depth * GW_MOST_FRAMES;
    for (uint32_t i = 0, j = 0; i < n || j < m;) {
        if (k == GW_MOST_FRAMES) return gw_too_ambiguous(d, "unfinished rules", GW_MOST_FRAMES);
        bool same = i < n && j < m && x[i].to == y[j].to && x[i].reg == y[j].reg && x[i].to != GW_NEVER;
        if (i < n && j < m && !memcmp(&x[i], &y[j], sizeof *x)) {
            to[k++] = x[i++];
            j++;
        } else if (same && depth + 1 < JOINED_DEEP) {
            to[k] = x[i];
            bad = join_stacks(d, x[i].below, y[j].below, depth + 1, &to[k].below);
            if (bad || !to[k].below) return *out = 0, bad;
            k++, i++, j++;
        } else to[k++] = j == m || (i < n && frame_before(&x[i], &y[j])) ? x[i++] : y[j++];
    }
    *out = stack_of(d, to, k);
    return 0;
}

/* --- registers ------------------------------------------------------------------------------------ */

static member_set *set_at(const gw_dfa *d, uint32_t at) { return (member_set *)(d->words + at); }

static uint32_t set_size(const gw_dfa *d, uint32_t loop) {
    return WORDS(member_set) + (d->g->loops[loop].members + 31) / 32;
}

/* The register of an object's rule holds the offset of a member set, 0 for the empty set. */
static bool has(const gw_dfa *d, uint32_t set, uint32_t i) { return set && set_at(d, set)->bits[i / 32] >> i % 32 & 1; }
static uint32_t taken(const gw_dfa *d, uint32_t set) { return set_at(d, set)->taken; }

static uint32_t member(const gw_dfa *d, uint32_t loop, uint32_t i) {
    return d->g->members[d->g->first_member[loop] + i];
}

static bool may_take(const gw_dfa *d, uint32_t loop, uint32_t set, uint32_t i) {
    uint32_t what = member(d, loop, i), max = d->g->loops[loop].max;
    if ((what & 1 && has(d, set, i)) || taken(d, set) >= max) return false;
    uint32_t missing = set ? set_at(d, set)->missing : d->g->required[loop];
    return missing - (what & 2 && !has(d, set, i)) <= max - taken(d, set) - 1;
}

/* Returns whether may_take() is true for any member. `set` must not be the empty set. */
static bool may_take_any(const gw_dfa *d, uint32_t loop, uint32_t set) {
    const member_set *s = set_at(d, set);
    uint32_t max = d->g->loops[loop].max;
    return s->open && s->taken < max && s->missing <= max - s->taken;
}

/* Returns the member set of the DFA cache that equals *s. If there is none, stores *s; the array must have room. */
static uint32_t intern_set(gw_dfa *d, const member_set *s, uint32_t size) {
    size_t n = size - WORDS(gw_link);
    uint32_t hash = hash_words(&s->loop, n, size);
    for (uint32_t at = *chain_of(d, MEMBER_SETS, hash); at; at = set_at(d, at)->link.next)
        if (set_at(d, at)->link.hash == hash && !memcmp(&set_at(d, at)->loop, &s->loop, n * sizeof(uint32_t)))
            return at;
    uint32_t at = gw_dfa_take(d, size);
    memmove(set_at(d, at), s, size * sizeof(uint32_t));
    return add_to_chain(d, MEMBER_SETS, hash, at);
}

static uint32_t with_member(gw_dfa *d, uint32_t loop, uint32_t set, uint32_t i) {
    uint32_t size = set_size(d, loop);
    if (size > d->size - d->used) return 0;
    member_set *s = set_at(d, d->used); /* makes the set in unused words, where it stays if it is new */
    memset(s, 0, size * sizeof(uint32_t));
    s->missing = d->g->required[loop], s->open = d->g->loops[loop].members;
    if (set) memcpy(s, set_at(d, set), size * sizeof(uint32_t));
    s->loop = loop;
    /* A loop without a maximum stops counting members at its minimum. */
    s->taken += d->g->loops[loop].max != GW_NEVER || s->taken < d->g->loops[loop].min;
    if (!has(d, set, i)) s->missing -= member(d, loop, i) >> 1 & 1, s->open -= member(d, loop, i) & 1;
    s->bits[i / 32] |= 1u << i % 32;
    return intern_set(d, s, size);
}

/* Applies an edge's effect to the register *reg. Returns whether the edge may be followed. *reg is 0 after GW_TAKE
 * (add a member) if the array is full. */
static bool apply_register(gw_dfa *d, uint32_t state, const gw_edge *e, uint32_t *reg) {
    uint32_t loop = gw_loop_of(d->g, state);
    const gw_loop *l = &d->g->loops[loop];
    switch (gw_edge_act(e)) {
    case GW_NEXT:
        if (l->max != GW_NEVER && *reg + 1 >= l->max) return false;
        if (l->max != GW_NEVER || *reg + 1 < l->min) ++*reg;
        return true;
    case GW_EXIT:
        if (*reg + 1 < l->min) return false;
        *reg = 0;
        return true;
    case GW_TAKE:
        loop = gw_loop_of(d->g, e->to);
        if (!may_take(d, loop, *reg, gw_edge_member(e))) return false;
        *reg = with_member(d, loop, *reg, gw_edge_member(e));
        return true;
    case GW_MORE: return may_take_any(d, loop, *reg);
    default: return true;
    }
}

static bool may_end(const gw_dfa *d, uint32_t state, uint32_t reg) {
    if (!gw_accepts(d->g, state)) return false;
    uint32_t loop = gw_loop_of(d->g, state);
    const gw_loop *l = &d->g->loops[loop];
    if (!loop) return true;
    if (!l->members) return reg + 1 >= l->min;
    return taken(d, reg) >= l->min && !set_at(d, reg)->missing;
}

/* Returns a representative of equivalent counts of rounds. Round reg + 1 of a repetition is in progress, and a token
 * starts at most `longest` rounds. So counts on the same side of the minimum are equivalent if no token can raise them
 * to the next bound. */
uint32_t gw_register_class(const gw_dfa *d, uint32_t state, uint32_t reg, uint32_t longest) {
    const gw_loop *l = &d->g->loops[gw_loop_of(d->g, state)];
    uint64_t reach = (uint64_t)reg + longest + 2;
    if (!gw_loop_of(d->g, state) || l->members) return reg;
    if (reach < l->min) return 0;
    uint32_t least = l->min > 0 ? l->min - 1 : 0;
    return reg >= least && (l->max == GW_NEVER || reach < l->max) ? least : reg;
}

/* --- NFA sets ------------------------------------------------------------------------------------- */

void gw_set_clear(gw_dfa *d) {
    d->set->n = 0;
    d->set->ends = false;
    if (++d->stamp == 0) {
        memset(d->seen, 0, SEEN * sizeof *d->seen);
        memset(d->slots, 0, SLOTS * sizeof *d->slots);
        d->stamp = 1;
    }
}

/* Returns whether the closure of an NFA set reaches a frame for the first time. If the hash table is crowded, it may
 * return true again. */
static bool first_time(gw_dfa *d, const gw_frame *frame) {
    uint32_t h = hash_words(frame, WORDS(gw_frame), 7);
    for (uint32_t i = 0; i < 64; i++) {
        gw_seen *seen = &d->seen[(h + i) % SEEN];
        if (seen->stamp != d->stamp) {
            *seen = (gw_seen){ d->stamp, *frame };
            return true;
        }
        if (!memcmp(&seen->frame, frame, sizeof *frame)) return false;
    }
    return true;
}

/* Finds an item of d->set with the same node, state and register. If there is none, reserves a hash slot for the new
 * item and returns NULL. Scanning a few items is faster than probing. */
static gw_item *find_item(gw_dfa *d, const gw_item *item) {
    gw_set *set = d->set;
    size_t key = offsetof(gw_item, frame.below);
    bool few = set->n < FEW;
    for (uint32_t i = 0; few && i < set->n; i++)
        if (!memcmp(&set->items[i], item, key)) return &set->items[i];
    uint32_t h = hash_words(item, key / sizeof(uint32_t), 11) % SLOTS;
    for (; d->slots[h].stamp == d->stamp; h = (h + 1) % SLOTS) {
        gw_item *other = &set->items[d->slots[h].index];
        if (!few && !memcmp(other, item, key)) return other;
    }
    d->slots[h] = (gw_item_slot){ d->stamp, set->n };
    return NULL;
}

int gw_set_add(gw_dfa *d, gw_item item) {
    gw_set *set = d->set;
    if (set->n == GW_MOST_ITEMS) return gw_too_ambiguous(d, "possible continuations", GW_MOST_ITEMS);
    gw_item *old = find_item(d, &item);
    if (!old) {
        set->items[set->n++] = item;
        return 0;
    }
    int bad = join_stacks(d, old->frame.below, item.frame.below, 0, &old->frame.below);
    return bad ? bad : old->frame.below ? 0 : GW_FULL;
}

/* Returns whether a rule always ends in this state. A call before such a state needs no frame, so right recursion does
 * not grow the stack. */
static bool is_tail(const gw_dfa *d, uint32_t state) {
    return gw_first(d->g->state_ends, state) == d->g->state_ends[state] && gw_accepts(d->g, state) &&
           !gw_loop_of(d->g, state);
}

static int push(gw_dfa *d, gw_frame frame) {
    if (!first_time(d, &frame)) return 0;
    if (d->n_pending == GW_MOST_ITEMS) return gw_too_ambiguous(d, "rules that may begin or end", GW_MOST_ITEMS);
    d->pending[d->n_pending++] = frame;
    return 0;
}

static int follow(gw_dfa *d, const gw_edge *e, gw_frame from) {
    gw_frame to = { e->to, from.reg, from.below };
    bool takes = gw_edge_act(e) == GW_TAKE;
    int bad = takes ? gw_dfa_spend(d, set_size(d, gw_loop_of(d->g, e->to)) / SET_WORDS_PER_STEP) : 0;
    if (bad || !apply_register(d, from.to, e, &to.reg)) return bad;
    if (takes && !to.reg) return GW_FULL;
    if (gw_edge_kind(e) == GW_BYTES) return gw_set_add(d, (gw_item){ e->label, to });
    if (gw_edge_kind(e) == GW_TOKEN) return gw_set_add(d, (gw_item){ GW_AT_TOKEN | e->label, to });
    uint32_t below = is_tail(d, e->to) ? to.below : stack_of(d, &to, 1);
    return below ? push(d, (gw_frame){ d->g->rules[e->label], 0, below }) : GW_FULL;
}

/* Follows the edges of a frame's grammar state and, if the rule may end in this state, returns to the frames below. */
static int expand(gw_dfa *d, gw_frame at) {
    uint32_t first = gw_first(d->g->state_ends, at.to), last = d->g->state_ends[at.to];
    int bad = gw_dfa_spend(d, 1 + (last - first) / EDGES_PER_STEP);
    for (uint32_t i = first; i < last && !bad; i++) bad = follow(d, &d->g->edges[i], at);
    if (bad || !may_end(d, at.to, at.reg)) return bad;
    const gw_stack *stack = gw_stack_at(d, at.below);
    for (uint32_t i = 0; i < stack->n && !bad; i++) {
        if (stack->frames[i].to == GW_NEVER) d->set->ends = true;
        else bad = push(d, stack->frames[i]);
    }
    return bad;
}

int gw_set_enter(gw_dfa *d, gw_frame frame) {
    d->n_pending = 0;
    int bad = push(d, frame);
    while (!bad && d->n_pending) bad = expand(d, d->pending[--d->n_pending]);
    return bad;
}

int gw_set_begin(gw_dfa *d) {
    uint32_t start = d->g->head->start;
    gw_set_clear(d);
    d->set->ends = d->g->head->empty != 0;
    return start == GW_NEVER ? 0 : gw_set_enter(d, (gw_frame){ d->g->rules[start], 0, d->bottom });
}

/* Returns the node that a byte leads to from a node, or GW_NEVER if there is none. Narrows the range d->alike to bytes
 * that lead to the same node. */
static uint32_t spell(gw_dfa *d, uint32_t node, uint32_t byte) {
    const gw_grammar *g = d->g;
    uint32_t first = gw_first(g->node_ends, node), end = g->node_ends[node], i = gw_span_from(g, node, byte);
    const gw_byte_span *span = &g->spans[i];
    bool found = i < end && gw_low(span) <= byte;
    uint32_t from = found ? gw_low(span) : i > first ? gw_high(span - 1) + 1 : 0;
    uint32_t to = found ? gw_high(span) : i < end ? gw_low(span) - 1 : 255;
    if (from > d->alike[0]) d->alike[0] = from;
    if (to < d->alike[1]) d->alike[1] = to;
    return found ? span->to : GW_NEVER;
}

int gw_set_step(gw_dfa *d, const gw_item *items, uint32_t n, uint32_t byte) {
    int bad = gw_dfa_spend(d, n);
    d->alike[0] = 0, d->alike[1] = 255;
    for (uint32_t i = 0; i < n && !bad; i++) {
        gw_item item = items[i];
        if (item.node & GW_AT_TOKEN) continue;
        item.node = spell(d, item.node, byte);
        if (item.node == GW_NEVER) continue;
        bad = item.node ? gw_set_add(d, item) : gw_set_enter(d, item.frame);
    }
    return bad;
}

int gw_set_token(gw_dfa *d, const gw_item *items, uint32_t n, uint32_t id) {
    int bad = 0;
    for (uint32_t i = 0; i < n && !bad; i++)
        if (items[i].node == (GW_AT_TOKEN | id)) bad = gw_set_enter(d, items[i].frame);
    return bad;
}

/* --- DFA states ----------------------------------------------------------------------------------- */

static dfa_state *state_at(const gw_dfa *d, uint32_t at) { return (dfa_state *)(d->words + at); }

static bool item_before(const gw_item *a, const gw_item *b) {
    return a->node != b->node ? a->node < b->node : frame_before(&a->frame, &b->frame);
}

/* Sorts items by Shell sort, because NFA sets are small and nearly sorted. */
static void sort_items(gw_item *p, uint32_t n) {
    for (uint32_t gap = n > 16 ? 301 : 1; gap; gap = gap > 1 ? gap / 3 + (gap < 3) : 0)
        for (uint32_t i = gap; i < n; i++) {
            gw_item item = p[i];
            uint32_t j = i;
            for (; j >= gap && item_before(&item, &p[j - gap]); j -= gap) p[j] = p[j - gap];
            p[j] = item;
        }
}

uint32_t gw_dfa_state(gw_dfa *d) {
    gw_set *set = d->set;
    if (!set->n && !set->ends) return GW_STATE_DEAD;
    sort_items(set->items, set->n);
    size_t size = set->n * sizeof *set->items;
    uint32_t hash = hash_words(set->items, set->n * WORDS(gw_item), set->ends);
    uint32_t flags = (set->n ? GW_STATE_GOES : 0) | (set->ends ? GW_STATE_ENDS : 0);
    for (uint32_t at = *chain_of(d, STATES, hash); at; at = state_at(d, at)->link.next) {
        const dfa_state *other = state_at(d, at);
        if (other->link.hash == hash && other->n == set->n && other->flags == flags &&
            !memcmp(other->items, set->items, size))
            return other->number;
    }
    if (d->n_states == GW_MOST_STATES) return 0;
    uint32_t at = gw_dfa_take(d, WORDS(dfa_state) + set->n * WORDS(gw_item));
    if (!at) return 0;
    uint32_t number = d->n_states++;
    dfa_state *made = state_at(d, at);
    made->number = number;
    made->n = set->n;
    made->flags = flags;
    if (size) memcpy(made->items, set->items, size);
    d->entry[number] = add_to_chain(d, STATES, hash, at);
    d->table[number] = d->memo[number] = 0;
    d->flags[number] = (uint8_t)flags;
    return number;
}

const gw_item *gw_dfa_items(const gw_dfa *d, uint32_t state, uint32_t *n) {
    *n = state_at(d, d->entry[state])->n;
    return state_at(d, d->entry[state])->items;
}

uint16_t *gw_dfa_table(gw_dfa *d, uint32_t state) {
    enum { BYTES = 256 * sizeof(uint16_t) };
    if (!d->table[state]) {
        uint32_t at = gw_dfa_take(d, BYTES / sizeof(uint32_t));
        if (!at) return NULL;
        memset(d->words + at, 0, BYTES);
        d->table[state] = at;
    }
    return (uint16_t *)(d->words + d->table[state]);
}

uint32_t gw_dfa_next(gw_dfa *d, uint32_t state, uint32_t byte, int *bad) {
    uint32_t n;
    const gw_item *items = gw_dfa_items(d, state, &n);
    gw_set_clear(d);
    *bad = gw_set_step(d, items, n, byte);
    uint32_t next = *bad ? 0 : gw_dfa_state(d);
    if (!next && !*bad) *bad = GW_FULL;
    uint16_t *table = gw_dfa_table(d, state);
    for (uint32_t i = d->alike[0]; next && i <= d->alike[1]; i++) table[i] = (uint16_t)next;
    return next;
}

/* --- memory --- */

static void *lay_out(gw_dfa *d, gw_arena *a) {
    for (int i = 0; i < 3; i++) d->chains[i] = gw_arena_take(a, n_chains[i] * sizeof(uint32_t));
    d->entry = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    d->table = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    d->memo = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    d->flags = gw_arena_take(a, GW_MOST_STATES);
    d->set = gw_arena_take(a, sizeof(gw_set));
    d->seen = gw_arena_take(a, SEEN * sizeof(gw_seen));
    d->slots = gw_arena_take(a, SLOTS * sizeof(gw_item_slot));
    d->pending = gw_arena_take(a, GW_MOST_ITEMS * sizeof(gw_frame));
    d->joined = gw_arena_take(a, (size_t)JOINED_DEEP * GW_MOST_FRAMES * sizeof(gw_frame));
    return d->words = gw_arena_take(a, GW_STATES_WORDS * sizeof(uint32_t));
}

static void empty(gw_dfa *d) {
    static const gw_frame bottom = { GW_NEVER, 0, 0 };
    for (int i = 0; i < 3; i++) memset(d->chains[i], 0, n_chains[i] * sizeof(uint32_t));
    d->used = WORDS(dfa_state);
    memset(d->words, 0, sizeof(dfa_state));
    d->n_states = GW_STATE_DEAD + 1;
    d->entry[GW_STATE_NONE] = d->entry[GW_STATE_DEAD] = 0;
    d->flags[GW_STATE_NONE] = d->flags[GW_STATE_DEAD] = 0;
    d->bottom = stack_of(d, &bottom, 1);
}

int gw_dfa_init(gw_dfa *d, const gw_grammar *g, gw_error *e) {
    gw_arena a = { 0 };
    memset(d, 0, sizeof *d);
    lay_out(d, &a);
    size_t size = gw_size(a.used);
    a = (gw_arena){ .base = gw_alloc(size), .size = size };
    if (!a.base) return gw_no_memory(e, GW_FORMAT_MEMORY, size);
    lay_out(d, &a);
    d->g = g;
    d->error = e;
    d->work = GW_MOST_WORK;
    d->size = GW_STATES_WORDS;
    d->stamp = GW_NEVER; /* makes the first gw_set_clear clear the hash tables */
    empty(d);
    return 0;
}

void gw_dfa_free(gw_dfa *d) {
    gw_free(d->chains[0]);
    memset(d, 0, sizeof *d);
}

size_t gw_dfa_bytes(const gw_dfa *d) {
    gw_arena a = { 0 };
    gw_dfa copy = *d;
    lay_out(&copy, &a);
    return (size_t)a.used;
}

/* --- garbage collection --- */

/* Garbage collection writes everything reachable from the roots to a buffer, empties the array, and reads the buffer
 * back. Meanwhile, `memo` of a written stack holds the flag VISITED and the stack's number in the buffer. */
#define VISITED 0x80000000u

typedef struct {
    uint32_t to, reg, below, set_size;
} saved_frame; /* below: number of a stack in the buffer; set_size words of a member set follow the struct */
typedef struct {
    uint32_t n, flags;
} saved_state; /* a saved_state is followed by n items: a node and a saved_frame each */
typedef struct {
    uint32_t stack, next;
} unfinished;

typedef struct {
    gw_dfa *d;
    gw_buffer out; /* buffer of garbage collection: stacks, each after the stacks below it; then the roots */
    gw_buffer open;
    uint32_t n_stacks;
    bool failed;
} writer;

static void put(writer *w, const void *words, size_t n) {
    void *to = w->failed ? NULL : gw_buffer_add(&w->out, n * sizeof(uint32_t));
    if (to && n) memcpy(to, words, n * sizeof(uint32_t));
    w->failed |= !to;
}

static uint32_t saved_stack(const writer *w, uint32_t stack) { return gw_stack_at(w->d, stack)->memo & ~VISITED; }

static void put_frame(writer *w, const gw_frame *f) {
    const gw_dfa *d = w->d;
    uint32_t loop = f->to == GW_NEVER ? 0 : gw_loop_of(d->g, f->to);
    uint32_t size = d->g->loops[loop].members && f->reg ? set_size(d, loop) : 0;
    put(w, &(saved_frame){ f->to, f->reg, saved_stack(w, f->below), size }, WORDS(saved_frame));
    put(w, d->words + f->reg, size);
}

static void put_state(writer *w, uint32_t state) {
    uint32_t n;
    const gw_item *items = gw_dfa_items(w->d, state, &n);
    put(w, &(saved_state){ n, w->d->flags[state] }, WORDS(saved_state));
    for (uint32_t i = 0; i < n; i++) {
        put(w, &items[i].node, 1);
        put_frame(w, &items[i].frame);
    }
}

static void open_stack(writer *w, uint32_t stack) {
    unfinished *to = w->failed ? NULL : gw_buffer_add(&w->open, sizeof *to);
    if (to) *to = (unfinished){ stack, 0 };
    w->failed |= !to;
}

/* Writes a stack and all stacks below it to the buffer. Not recursive, because stacks are as deep as texts are
 * nested. */
static void put_stack(writer *w, uint32_t stack) {
    if (!stack || gw_stack_at(w->d, stack)->memo & VISITED) return;
    open_stack(w, stack);
    while (w->open.used && !w->failed) {
        unfinished *top = (unfinished *)(w->open.data + w->open.used) - 1;
        gw_stack *s = gw_stack_at(w->d, top->stack);
        while (top->next < s->n) {
            uint32_t below = s->frames[top->next].below;
            if (below && !(gw_stack_at(w->d, below)->memo & VISITED)) break;
            top->next++;
        }
        if (top->next < s->n) {
            open_stack(w, s->frames[top->next].below);
            continue;
        }
        put(w, &s->n, 1);
        for (uint32_t i = 0; i < s->n; i++) put_frame(w, &s->frames[i]);
        s->memo = VISITED | ++w->n_stacks;
        w->open.used -= sizeof *top;
    }
}

static void put_stacks_of(writer *w, uint32_t state) {
    uint32_t n;
    const gw_item *items = gw_dfa_items(w->d, state, &n);
    for (uint32_t i = 0; i < n; i++) put_stack(w, items[i].frame.below);
}

static void put_roots(writer *w, const gw_roots *r) {
    for (uint32_t i = 0; i < r->n_items; i++) put_stack(w, r->items[i].frame.below);
    for (uint32_t i = 0; i < r->n_returns; i++) {
        put_stack(w, r->returns[i].stack);
        put_stacks_of(w, r->returns[i].state);
    }
    for (uint32_t i = 0; i < r->n_states; i++) put_stacks_of(w, r->states[i]);
    for (uint32_t i = 0; i < r->n_items; i++) put_frame(w, &r->items[i].frame);
    for (uint32_t i = 0; i < r->n_returns; i++) {
        put(w, &(uint32_t){ saved_stack(w, r->returns[i].stack) }, 1);
        put_state(w, r->returns[i].state);
    }
    for (uint32_t i = 0; i < r->n_states; i++) put_state(w, r->states[i]);
}

typedef struct {
    gw_dfa *d;
    const uint32_t *at;
    uint32_t *stacks;
} reader;

static gw_frame get_frame(reader *r) {
    saved_frame saved;
    memcpy(&saved, r->at, sizeof saved);
    r->at += WORDS(saved_frame);
    if (saved.set_size) saved.reg = intern_set(r->d, (const member_set *)r->at, saved.set_size);
    r->at += saved.set_size;
    return (gw_frame){ saved.to, saved.reg, r->stacks[saved.below] };
}

static uint32_t get_stack(reader *r) {
    gw_frame *f = r->d->joined;
    uint32_t n = *r->at++;
    for (uint32_t i = 0; i < n; i++) {
        gw_frame frame = get_frame(r);
        uint32_t at = i;
        for (; at && frame_before(&frame, &f[at - 1]); at--) f[at] = f[at - 1];
        f[at] = frame;
    }
    return stack_of(r->d, f, n);
}

static uint32_t get_state(reader *r) {
    saved_state saved;
    memcpy(&saved, r->at, sizeof saved);
    r->at += WORDS(saved_state);
    gw_set_clear(r->d);
    r->d->set->ends = saved.flags & GW_STATE_ENDS;
    for (uint32_t i = 0; i < saved.n; i++) {
        uint32_t node = *r->at++;
        gw_set_add(r->d, (gw_item){ node, get_frame(r) });
    }
    return saved.flags ? gw_dfa_state(r->d) : GW_STATE_NONE;
}

/* Reads the buffer back to the empty array, which has room for everything: all of it was in the array before. */
static void get_roots(reader *r, const gw_roots *roots, uint32_t n_stacks) {
    r->stacks[0] = 0;
    for (uint32_t i = 1; i <= n_stacks; i++) r->stacks[i] = get_stack(r);
    for (uint32_t i = 0; i < roots->n_items; i++) roots->items[i].frame = get_frame(r);
    for (uint32_t i = 0; i < roots->n_returns; i++) {
        roots->returns[i].stack = r->stacks[*r->at++];
        roots->returns[i].state = get_state(r);
    }
    for (uint32_t i = 0; i < roots->n_states; i++) roots->states[i] = (uint16_t)get_state(r);
}

/* Removes the memos of all stacks, because a failed garbage collection has overwritten some of them. */
static void clear_memos(gw_dfa *d) {
    for (uint32_t i = 0; i < n_chains[STACKS]; i++)
        for (uint32_t at = d->chains[STACKS][i]; at; at = gw_stack_at(d, at)->link.next) gw_stack_at(d, at)->memo = 0;
}

int gw_dfa_collect(gw_dfa *d, const gw_roots *roots) {
    writer w = { .d = d };
    put_roots(&w, roots);
    uint32_t *stacks = w.failed ? NULL : gw_alloc((w.n_stacks + 1) * sizeof *stacks);
    /* If nearly all of the array is reachable, it is soon full again: computing a mask could collect for minutes. */
    int bad = stacks ? gw_dfa_spend(d, (uint32_t)(w.out.used / SAVED_BYTES_PER_STEP)) : 0;
    if (bad) clear_memos(d);
    else if (stacks) {
        empty(d);
        get_roots(&(reader){ d, (const uint32_t *)w.out.data, stacks }, roots, w.n_stacks);
    } else {
        clear_memos(d);
        bad = gw_no_memory(d->error, GW_FORMAT_MEMORY, (w.n_stacks + 1ull) * sizeof *stacks);
    }
    gw_free(stacks);
    gw_buffer_free(&w.out);
    gw_buffer_free(&w.open);
    return bad;
}
