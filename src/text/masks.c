/* masks: see masks.h. */
#include "text/masks.h"

#include <string.h>

enum { NODES_PER_STEP = 16 };
/* The maximum number of exits (matcher.h) of a walk is 3/2 of the number of the trie's nodes, plus this number. A rule
 * that may end anywhere has an exit at each node with children; below an exit, the next rule may have exits, too. For
 * Gemma's vocabulary with its 588,000 nodes, a walk has at most 800,000 exits. */
enum { FEW_EXITS = 1 << 16 };
#define IN_ODD 0x80000000u

/* The tokens that a DFA state allows, cached in the array of the DFA cache (states.h). */
typedef struct {
    uint32_t n;
    bool bits;
    uint32_t n_exits;
    uint32_t plain;    /* result of gw_plain_length; unless it is 0, tokens[] lacks plain tokens (trie.h) */
    uint32_t tokens[]; /* [n] ids of allowed tokens, or a mask if `bits` is set; then the exits */
} memo;

static memo *memo_of(const gw_mask_builder *b, uint32_t state) { return (memo *)(b->d->words + b->d->memo[state]); }

/* Collects garbage (states.h). Keeps what a walk still needs: the items, the returns, and states [first, last) of the
 * path. */
static int make_room(gw_mask_builder *b, uint32_t first, uint32_t last) {
    return gw_dfa_collect(b->d,
                          &(gw_roots){ b->items, b->n_items, b->returns, b->n_returns, b->path + first, last - first });
}

static uint32_t next_of(gw_dfa *d, uint32_t state, uint32_t byte, int *bad) {
    const uint16_t *table = gw_dfa_table(d, state);
    *bad = table ? 0 : GW_FULL;
    if (!table) return GW_STATE_NONE;
    return table[byte] ? table[byte] : gw_dfa_next(d, state, byte, bad);
}

/* Walks nodes [i, end) of the trie, whose parent node was reached in the given DFA state. Tokens are added to the mask,
 * or to b->ids if the mask is NULL. A node with children where the bottom is reached becomes an exit. */
static int walk(gw_mask_builder *b, const gw_tree *t, uint32_t i, uint32_t end, uint32_t state, uint32_t *mask) {
    gw_dfa *d = b->d;
    uint32_t flag = t == &b->trie->odd ? IN_ODD : 0, first = i < end ? t->depth[i] - 1u : 0;
    b->path[first] = (uint16_t)state;
    while (i < end) {
        uint32_t depth = t->depth[i], byte = t->head[i] & 255, id1 = t->head[i] >> 8;
        int bad;
        uint32_t next = next_of(d, b->path[depth - 1], byte, &bad);
        if (bad == GW_FULL && !(bad = make_room(b, first, depth))) next = next_of(d, b->path[depth - 1], byte, &bad);
        if (bad) return bad;
        if (next == GW_STATE_DEAD) {
            i = t->skip[i];
            continue;
        }
        if (id1 && mask) gw_set_bit(mask, id1 - 1);
        else if (id1) b->ids[b->n_ids++] = id1 - 1;
        bool inner = t->skip[i] > i + 1;
        if (inner && d->flags[next] & GW_STATE_ENDS) {
            if (b->n_exits == b->most_exits) return GW_FULL;
            b->exits[b->n_exits++] = i | flag;
        }
        if (inner && d->flags[next] & GW_STATE_GOES) {
            b->path[depth] = (uint16_t)next;
            i++;
        } else i = t->skip[i];
    }
    return 0;
}

static int store(gw_mask_builder *b, uint32_t plain) {
    gw_dfa *d = b->d;
    b->found++;
    bool bits = b->n_ids > b->trie->words;
    uint32_t n = bits ? b->trie->words : b->n_ids, size = sizeof(memo) / sizeof(uint32_t) + n + b->n_exits;
    uint32_t at = gw_dfa_take(d, size);
    int bad = at ? 0 : make_room(b, 0, 1);
    if (bad) return bad;
    if (!at && !(at = gw_dfa_take(d, size))) return GW_FULL;
    d->memo[b->path[0]] = at;
    memo *m = memo_of(b, b->path[0]);
    *m = (memo){ n, bits, b->n_exits, plain };
    if (bits) memset(m->tokens, 0, n * sizeof *m->tokens);
    for (uint32_t i = 0; i < b->n_ids; i++) {
        if (bits) gw_set_bit(m->tokens, b->ids[i]);
        else m->tokens[i] = b->ids[i];
    }
    memcpy(m->tokens + n, b->exits, b->n_exits * sizeof *b->exits);
    return 0;
}

/* Computes the tokens of a DFA state. If a garbage collection runs, *state becomes the state's new number. */
static int find(gw_mask_builder *b, uint32_t *state) {
    uint32_t plain = gw_plain_length(&b->plain, *state);
    const gw_tree *t = plain ? &b->trie->odd : &b->trie->all;
    b->n_ids = b->n_exits = 0;
    int bad = walk(b, t, 0, t->n, *state, NULL);
    if (!bad) bad = store(b, plain);
    *state = b->path[0];
    return bad;
}

/* Adds a set of tokens to the mask. Most masks consist of one large set of tokens and a few others, so the first set is
 * copied instead of added. */
static void apply_bits(gw_mask_builder *b, const uint32_t *from, uint32_t *mask) {
    if (b->fresh) memcpy(mask, from, b->trie->words * sizeof *mask);
    for (uint32_t i = 0; i < b->trie->words && !b->fresh; i++) mask[i] |= from[i];
    b->fresh = false;
}

static void apply(gw_mask_builder *b, const memo *m, uint32_t *mask) {
    if (m->plain) {
        apply_bits(b, gw_trie_plain(b->trie, m->plain), mask);
        gw_trie_long(b->trie, m->plain, mask);
    }
    if (m->bits) {
        apply_bits(b, m->tokens, mask);
        return;
    }
    if (b->fresh) memset(mask, 0, b->trie->words * sizeof *mask);
    b->fresh = false;
    for (uint32_t i = 0; i < m->n; i++) gw_set_bit(mask, m->tokens[i]);
}

/* Sets r->state to the DFA state of frame i of a stack, with the bottom (matcher.h) in place of the stack below the
 * frame, and r->stack to that stack below. A stack with a single frame caches the DFA state. */
static int enter(gw_mask_builder *b, uint32_t stack, uint32_t i, gw_return *r) {
    gw_stack *s = gw_stack_at(b->d, stack);
    gw_frame f = s->frames[i];
    *r = (gw_return){ s->n == 1 ? s->memo : 0, f.below };
    if (r->state) return 0;
    gw_set_clear(b->d);
    int bad = gw_set_enter(b->d, (gw_frame){ f.to, f.reg, b->d->bottom });
    if (bad) return bad;
    r->state = gw_dfa_state(b->d);
    if (!r->state) return GW_FULL;
    if (s->n == 1) s->memo = r->state;
    return 0;
}

static int add_return(gw_mask_builder *b, uint32_t first, gw_return r) {
    for (uint32_t i = first; i < b->n_returns; i++)
        if (b->returns[i].state == r.state && b->returns[i].stack == r.stack) return 0;
    if (b->n_returns == GW_MOST_RETURNS) return gw_too_ambiguous(b->d, "unfinished rules", GW_MOST_RETURNS);
    b->returns[b->n_returns++] = r;
    return 0;
}

/* Starting from the stack of b->returns[at], appends to b->returns every frame that a rule can return to without
 * reading a byte. Spends no steps of the work budget itself: enter() and leave() spend enough, one for each frame
 * without a memo and for each return that is added. */
static int find_returns(gw_mask_builder *b, uint32_t at) {
    uint32_t first = b->n_returns, next = first, stack = b->returns[at].stack;
    for (;;) {
        const gw_stack *s = gw_stack_at(b->d, stack);
        for (uint32_t i = 0; i < s->n; i++) {
            gw_return r;
            if (s->frames[i].to == GW_NEVER) continue;
            int bad = enter(b, stack, i, &r);
            if (!bad && r.state != GW_STATE_DEAD) bad = add_return(b, first, r);
            if (bad) return bad;
        }
        while (next < b->n_returns && !(b->d->flags[b->returns[next].state] & GW_STATE_ENDS)) next++;
        if (next == b->n_returns) return 0;
        stack = b->returns[next++].stack;
    }
}

static int returns_of(gw_mask_builder *b, uint32_t at) {
    uint32_t first = b->n_returns;
    int bad = find_returns(b, at);
    if (bad != GW_FULL) return bad;
    b->n_returns = first;
    bad = make_room(b, 0, 0);
    return bad ? bad : find_returns(b, at);
}

static int leave(gw_mask_builder *b, uint32_t exits, uint32_t n, uint32_t at, uint32_t *mask);

/* Walks the trie nodes below an exit, starting in the DFA state of returns[at]. The nodes count as work, because each
 * byte of a token can multiply the returns. */
static int below(gw_mask_builder *b, uint32_t exit, uint32_t at, uint32_t *mask) {
    const gw_tree *t = exit & IN_ODD ? &b->trie->odd : &b->trie->all;
    uint32_t node = exit & ~IN_ODD, first = b->n_exits;
    int bad = gw_dfa_spend(b->d, 1 + (t->skip[node] - node) / NODES_PER_STEP);
    if (!bad) bad = walk(b, t, node + 1, t->skip[node], b->returns[at].state, mask);
    if (!bad && b->n_exits > first) bad = leave(b, first, b->n_exits - first, at, mask);
    b->n_exits = first;
    return bad;
}

/* Continues a walk of the trie at b->exits[exits..exits + n), which were reached on the stack of returns[at]. The
 * recursion is at most as deep as the longest token has bytes. */
static int leave(gw_mask_builder *b, uint32_t exits, uint32_t n, uint32_t at, uint32_t *mask) {
    uint32_t first = b->n_returns;
    int bad = returns_of(b, at);
    uint32_t last = b->n_returns;
    for (uint32_t j = first; j < last && !bad; j++)
        for (uint32_t i = 0; i < n && !bad; i++) bad = below(b, b->exits[exits + i], j, mask);
    b->n_returns = first;
    return bad;
}

/* Returns the DFA state of n items, with the bottom (matcher.h) in place of their stack; 0 if the DFA cache is full. */
static uint32_t state_of(gw_mask_builder *b, const gw_item *items, uint32_t n) {
    gw_dfa *d = b->d;
    gw_set_clear(d);
    for (uint32_t i = 0; i < n; i++) {
        gw_frame f = items[i].frame;
        uint32_t reg = gw_register_class(d, f.to, f.reg, b->trie->longest);
        if (gw_set_add(d, (gw_item){ items[i].node, { f.to, reg, d->bottom } })) return 0;
    }
    return gw_dfa_state(d);
}

/* Returns whether a rule on this stack returns to anything but the end of the text. */
static bool returns(const gw_mask_builder *b, uint32_t stack) {
    const gw_stack *s = gw_stack_at(b->d, stack);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->frames[i].to != GW_NEVER) return true;
    return false;
}

int gw_mask_add(gw_mask_builder *b, uint32_t first, uint32_t n, uint32_t *mask) {
    b->n_exits = b->n_returns = 0;
    uint32_t state = state_of(b, b->items + first, n);
    if (!state) return GW_FULL;
    int bad = b->d->memo[state] ? 0 : find(b, &state);
    if (bad) return bad;
    const memo *m = memo_of(b, state);
    apply(b, m, mask);
    uint32_t stack = b->items[first].frame.below;
    if (!m->n_exits || !returns(b, stack)) return 0;
    b->n_exits = m->n_exits;
    memcpy(b->exits, m->tokens + m->n, m->n_exits * sizeof *b->exits);
    b->returns[b->n_returns++] = (gw_return){ GW_STATE_NONE, stack };
    return leave(b, 0, b->n_exits, 0, mask);
}

void gw_mask_builder_take(gw_mask_builder *b, gw_arena *a, const gw_trie *trie, const gw_grammar *g) {
    b->trie = trie;
    b->ids = gw_arena_take(a, trie->n_vocab * sizeof *b->ids);
    b->most_exits = FEW_EXITS + trie->all.n / 2 * 3;
    b->exits = gw_arena_take(a, (size_t)b->most_exits * sizeof *b->exits);
    b->returns = gw_arena_take(a, GW_MOST_RETURNS * sizeof *b->returns);
    b->path = gw_arena_take(a, (trie->longest + 1) * sizeof *b->path);
    gw_plain_take(&b->plain, a, g);
}
