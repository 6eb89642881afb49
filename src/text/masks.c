/* masks: see masks.h. What is kept of a state, in the states' block:
 *   kind, number of ids, number of places, characters of plain tokens (0: none are in it), then the ids (or a bit for
 *   each of the vocabulary), then the places */
#include "text/masks.h"

#include <string.h>

enum { LIST = 1, BITS = 2, HEAD = 4, NODES = 16 };   /* NODES: of a tree, that are one step of work */
/* A rule that may end anywhere has a place at each node that goes on; below one of them, in a rule that may end
 * anywhere too, there are places again, of a smaller tree. Gemma's vocabulary has 588,000 nodes, and 800,000 places at
 * most. */
enum { FEW_PLACES = 1 << 16 };
#define IN_ODD 0x80000000u

/* --- when the block is full ------------------------------------------------------------------------ */

/* What is in use while a mask is looked for: the items of the text, the places to return to, with their states, and the
 * states of the path's depths [first, last). A state's items stand behind one that says how many, and its flags. */
typedef struct { gw_item *all; uint32_t n; } in_use;

static void put(in_use *u, gw_item item) {
    if (u->all) u->all[u->n] = item;
    u->n++;
}

static void put_state(const gw_masks *k, in_use *u, uint32_t state) {
    uint32_t n = 0;
    const gw_item *items = state > GW_STATE_DEAD ? gw_state_items(k->s, state, &n) : NULL;
    put(u, (gw_item){ n, GW_NEVER, k->s->flags[state], k->s->bottom });
    for (uint32_t i = 0; i < n; i++) put(u, items[i]);
}

static void put_all(const gw_masks *k, in_use *u, uint32_t first, uint32_t last) {
    for (uint32_t i = 0; i < k->n_items; i++) put(u, k->items[i]);
    for (uint32_t i = 0; i < k->n_returns; i++) {
        put(u, (gw_item){ 0, GW_NEVER, 0, k->returns[i].frames });
        put_state(k, u, k->returns[i].state);
    }
    for (uint32_t i = first; i < last; i++) put_state(k, u, k->path[i]);
}

/* The new number of a state: GW_STATE_NONE where there was none, or no room for it. */
static uint32_t take_state(gw_masks *k, in_use *u) {
    gw_item head = u->all[u->n++];
    gw_set_clear(k->s);
    k->s->set->ends = head.count & GW_STATE_ENDS;
    for (uint32_t i = 0; i < head.at; i++) gw_set_add(k->s, u->all[u->n++]);
    return head.count ? gw_state_of_set(k->s) : GW_STATE_NONE;
}

static bool take_all(gw_masks *k, in_use *u, uint32_t first, uint32_t last) {
    bool fine = true;
    u->n = k->n_items;
    memcpy(k->items, u->all, k->n_items * sizeof *k->items);
    for (uint32_t i = 0; i < k->n_returns; i++) {
        bool is = k->returns[i].state > GW_STATE_DEAD;
        k->returns[i].frames = u->all[u->n++].frames;
        k->returns[i].state = take_state(k, u);
        fine = fine && (!is || k->returns[i].state);
    }
    for (uint32_t i = first; i < last; i++) fine = (k->path[i] = (uint16_t)take_state(k, u)) && fine;
    return fine;
}

/* Forgets all but what is in use: states and frames are named anew. 0, GW_FULL, or a coded error. */
static int make_room(gw_masks *k, uint32_t first, uint32_t last) {
    in_use u = { 0 };
    put_all(k, &u, first, last);
    u.all = gw_alloc((u.n + 1) * sizeof *u.all);
    if (!u.all) return gw_fail(k->s->error, GW_E_NO_MEMORY, "a grammar's states\n%u items\nno memory", u.n);
    u.n = 0;
    put_all(k, &u, first, last);
    int bad = gw_states_forget(k->s, &(gw_kept){ u.all, u.n });
    if (!bad && !take_all(k, &u, first, last)) bad = GW_FULL;
    gw_free(u.all);
    return bad;
}

/* --- walking the tree ------------------------------------------------------------------------------ */

/* Where a byte leads from a state. *bad: GW_FULL, or a coded error. */
static uint32_t next_of(gw_states *s, uint32_t state, uint32_t byte, int *bad) {
    const uint16_t *table = gw_state_table(s, state);
    *bad = table ? 0 : GW_FULL;
    if (!table) return GW_STATE_NONE;
    return table[byte] ? table[byte] : gw_state_make_next(s, state, byte, bad);
}

/* Nodes [i, end), whose parent was reached in a state: tokens into the mask, or into ids where there is none. Where the
 * bottom is reached and the tree goes on, the node is a place. */
static int walk(gw_masks *k, const gw_tree *t, uint32_t i, uint32_t end, uint32_t state, uint32_t *mask) {
    gw_states *s = k->s;
    uint32_t flag = t == &k->trie->odd ? IN_ODD : 0, first = i < end ? t->depth[i] - 1u : 0;
    k->path[first] = (uint16_t)state;
    while (i < end) {
        uint32_t depth = t->depth[i], byte = t->head[i] & 255, id1 = t->head[i] >> 8;
        int bad;
        uint32_t next = next_of(s, k->path[depth - 1], byte, &bad);
        if (bad == GW_FULL && !(bad = make_room(k, first, depth))) next = next_of(s, k->path[depth - 1], byte, &bad);
        if (bad) return bad;
        if (next == GW_STATE_DEAD) {
            i = t->skip[i];
            continue;
        }
        if (id1 && mask) mask[(id1 - 1) / 32] |= 1u << (id1 - 1) % 32;
        else if (id1) k->ids[k->n_ids++] = id1 - 1;
        bool on = t->skip[i] > i + 1;
        if (on && s->flags[next] & GW_STATE_ENDS) {
            if (k->n_places == k->most_places) return GW_FULL;
            k->places[k->n_places++] = i | flag;
        }
        if (on && s->flags[next] & GW_STATE_GOES) {
            k->path[depth] = (uint16_t)next;
            i++;
        } else i = t->skip[i];
    }
    return 0;
}

/* --- what is kept of a state ----------------------------------------------------------------------- */

/* Of the state that a walk began with. */
static int keep(gw_masks *k, uint32_t plain) {
    gw_states *s = k->s;
    uint32_t words = k->trie->words;
    k->found++;
    bool bits = k->n_ids > words;
    uint32_t size = bits ? words : k->n_ids, all = HEAD + size + k->n_places, at = gw_states_take(s, all);
    int bad = at ? 0 : make_room(k, 0, 1);
    if (bad) return bad;
    if (!at && !(at = gw_states_take(s, all))) return GW_FULL;
    uint32_t *w = s->words + at;
    w[0] = bits ? BITS : LIST;
    w[1] = size;
    w[2] = k->n_places;
    w[3] = plain;
    if (bits) memset(w + HEAD, 0, words * sizeof *w);
    for (uint32_t i = 0; i < k->n_ids; i++) {
        if (bits) w[HEAD + k->ids[i] / 32] |= 1u << k->ids[i] % 32;
        else w[HEAD + i] = k->ids[i];
    }
    memcpy(w + HEAD + size, k->places, k->n_places * sizeof *w);
    s->answer[k->path[0]] = at;
    return 0;
}

/* *state gets a new number where room had to be made. */
static int answer(gw_masks *k, uint32_t *state) {
    uint32_t plain = gw_plain_length(&k->plain, *state);
    const gw_tree *t = plain ? &k->trie->odd : &k->trie->all;
    k->n_ids = k->n_places = 0;
    int bad = walk(k, t, 0, t->n, *state, NULL);
    if (!bad) bad = keep(k, plain);
    *state = k->path[0];
    return bad;
}

/* Most masks are one set of the vocabulary's, and a few tokens more: the set is copied. */
static void apply_bits(gw_masks *k, const uint32_t *from, uint32_t *mask) {
    if (k->fresh) memcpy(mask, from, k->trie->words * sizeof *mask);
    for (uint32_t i = 0; i < k->trie->words && !k->fresh; i++) mask[i] |= from[i];
    k->fresh = false;
}

static void apply(gw_masks *k, const uint32_t *w, uint32_t *mask) {
    if (w[3]) {
        apply_bits(k, gw_trie_plain(k->trie, w[3]), mask);
        gw_trie_long(k->trie, w[3], mask);
    }
    if (w[0] == BITS) {
        apply_bits(k, w + HEAD, mask);
        return;
    }
    if (k->fresh) memset(mask, 0, k->trie->words * sizeof *mask);
    k->fresh = false;
    for (uint32_t i = 0; i < w[1]; i++) mask[w[HEAD + i] / 32] |= 1u << w[HEAD + i] % 32;
}

/* --- where frames go on ---------------------------------------------------------------------------- */

/* The state that a frame's place begins, on the bottom. A set of one frame remembers it. */
static int enter(gw_masks *k, uint32_t frames, uint32_t i, gw_return *r) {
    uint32_t n;
    const gw_frame *f = gw_frames(k->s, frames, &n);
    uint32_t *known = gw_frames_known(k->s, frames);
    r->frames = f[i].frames;
    r->state = n == 1 ? *known : 0;
    if (r->state) return 0;
    gw_set_clear(k->s);
    int bad = gw_set_enter(k->s, f[i].to, f[i].count, k->s->bottom);
    if (bad) return bad;
    r->state = gw_state_of_set(k->s);
    if (!r->state) return GW_FULL;
    if (n == 1) *known = r->state;
    return 0;
}

static int add_return(gw_masks *k, uint32_t first, gw_return r) {
    for (uint32_t i = first; i < k->n_returns; i++)
        if (k->returns[i].state == r.state && k->returns[i].frames == r.frames) return 0;
    if (k->n_returns == GW_MOST_RETURNS)
        return gw_fail(k->s->error, GW_E_BAD_FORMAT, "the grammar is too ambiguous here: places to return to\n"
                       "at most %d\nmore", GW_MOST_RETURNS);
    k->returns[k->n_returns++] = r;
    return 0;
}

/* All that a place's frames return to without reading anything: returns[first ..]. */
static int find_returns(gw_masks *k, uint32_t at) {
    uint32_t first = k->n_returns, next = first, frames = k->returns[at].frames;
    for (;;) {
        uint32_t n;
        const gw_frame *f = gw_frames(k->s, frames, &n);
        for (uint32_t i = 0; i < n; i++) {
            gw_return r;
            if (f[i].to == GW_NEVER) continue;
            int bad = enter(k, frames, i, &r);
            if (!bad && r.state != GW_STATE_DEAD) bad = add_return(k, first, r);
            if (bad) return bad;
        }
        while (next < k->n_returns && !(k->s->flags[k->returns[next].state] & GW_STATE_ENDS)) next++;
        if (next == k->n_returns) return 0;
        frames = k->returns[next++].frames;
    }
}

static int returns_of(gw_masks *k, uint32_t at) {
    uint32_t first = k->n_returns;
    int bad = find_returns(k, at);
    if (bad != GW_FULL) return bad;
    k->n_returns = first;
    bad = make_room(k, 0, 0);
    return bad ? bad : find_returns(k, at);
}

static int go_on(gw_masks *k, uint32_t places, uint32_t n, uint32_t at, uint32_t *mask);

/* Tokens below a place, in the state of returns[at]. Nodes are counted as work, for ways multiply with each byte of a
 * piece. */
static int below(gw_masks *k, uint32_t place, uint32_t at, uint32_t *mask) {
    const gw_tree *t = place & IN_ODD ? &k->trie->odd : &k->trie->all;
    uint32_t node = place & ~IN_ODD, first = k->n_places, work = 1 + (t->skip[node] - node) / NODES;
    if (k->s->work < work)
        return gw_fail(k->s->error, GW_E_BAD_FORMAT, "the grammar is too ambiguous here: steps\nat most %d\nmore",
                       GW_MOST_WORK);
    k->s->work -= work;
    int bad = walk(k, t, node + 1, t->skip[node], k->returns[at].state, mask);
    if (!bad && k->n_places > first) bad = go_on(k, first, k->n_places - first, at, mask);
    k->n_places = first;
    return bad;
}

/* From k->places[places ..] on, which were reached on the frames of returns[at]. Each level reads at least one byte of
 * a piece. */
static int go_on(gw_masks *k, uint32_t places, uint32_t n, uint32_t at, uint32_t *mask) {
    uint32_t first = k->n_returns;
    int bad = returns_of(k, at);
    uint32_t last = k->n_returns;
    for (uint32_t j = first; j < last && !bad; j++)
        for (uint32_t i = 0; i < n && !bad; i++) bad = below(k, k->places[places + i], j, mask);
    k->n_returns = first;
    return bad;
}

/* --- a mask ---------------------------------------------------------------------------------------- */

/* The state that items are, on the bottom instead of their frames, and with plain registers. */
static uint32_t state_of(gw_masks *k, const gw_item *items, uint32_t n) {
    gw_states *s = k->s;
    gw_set_clear(s);
    for (uint32_t i = 0; i < n; i++) {
        gw_item item = items[i];
        item.frames = s->bottom;
        item.count = gw_plain_count(s, item.to, item.count, k->trie->longest);
        if (gw_set_add(s, item)) return 0;
    }
    return gw_state_of_set(s);
}

/* Whether anything follows where a rule on these frames ends. */
static bool goes_on(const gw_masks *k, uint32_t frames) {
    uint32_t n;
    const gw_frame *f = gw_frames(k->s, frames, &n);
    for (uint32_t i = 0; i < n; i++)
        if (f[i].to != GW_NEVER) return true;
    return false;
}

int gw_masks_add(gw_masks *k, uint32_t first, uint32_t n, uint32_t *mask) {
    k->n_places = k->n_returns = 0;
    uint32_t state = state_of(k, k->items + first, n);
    if (!state) return GW_FULL;
    int bad = k->s->answer[state] ? 0 : answer(k, &state);
    if (bad) return bad;
    const uint32_t *w = k->s->words + k->s->answer[state];
    apply(k, w, mask);
    if (!w[2] || !goes_on(k, k->items[first].frames)) return 0;
    k->n_places = w[2];
    memcpy(k->places, w + HEAD + w[1], w[2] * sizeof *w);
    k->returns[k->n_returns++] = (gw_return){ GW_STATE_NONE, k->items[first].frames };
    return go_on(k, 0, w[2], 0, mask);
}

void gw_masks_take(gw_masks *k, gw_arena *a, const gw_trie *trie, const gw_grammar *g) {
    k->trie = trie;
    k->ids = gw_arena_take(a, trie->n_vocab * sizeof *k->ids);
    k->most_places = FEW_PLACES + trie->all.n / 2 * 3;
    k->places = gw_arena_take(a, (size_t)k->most_places * sizeof *k->places);
    k->returns = gw_arena_take(a, GW_MOST_RETURNS * sizeof *k->returns);
    k->path = gw_arena_take(a, (trie->longest + 1) * sizeof *k->path);
    gw_plain_take(&k->plain, a, g);
}
