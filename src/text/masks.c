/* masks: see masks.h. What is kept of a state, in the states' block:
 *   kind, number of ids, number of places, characters of plain tokens (0: none are in it), then the ids (or a bit for
 *   each of the vocabulary), then the places */
#include "text/masks.h"

#include <string.h>

enum { LIST = 1, BITS = 2, HEAD = 4, NODES = 16 };   /* NODES: of a tree, that are one step of work */
#define IN_ODD 0x80000000u

/* --- walking the tree ------------------------------------------------------------------------------ */

/* Nodes [i, end), whose parent was reached in a state: tokens into the mask, or into ids where there is none. Where the
 * bottom is reached and the tree goes on, the node is a place. */
static int walk(gw_masks *k, const gw_tree *t, uint32_t i, uint32_t end, uint32_t state, uint32_t *mask) {
    gw_states *s = k->s;
    uint32_t flag = t == &k->trie->odd ? IN_ODD : 0;
    if (i == end) return 0;
    k->path[t->depth[i] - 1] = (uint16_t)state;
    while (i < end) {
        uint32_t at = k->path[t->depth[i] - 1], byte = t->head[i] & 255, id1 = t->head[i] >> 8;
        const uint16_t *table = gw_state_table(s, at);
        if (!table) return GW_FULL;
        uint32_t next = table[byte];
        int bad = 0;
        if (!next && !(next = gw_state_make_next(s, at, byte, &bad))) return bad;
        if (next == GW_STATE_DEAD) {
            i = t->skip[i];
            continue;
        }
        if (id1 && mask) mask[(id1 - 1) / 32] |= 1u << (id1 - 1) % 32;
        else if (id1) k->ids[k->n_ids++] = id1 - 1;
        bool on = t->skip[i] > i + 1;
        if (on && s->flags[next] & GW_STATE_ENDS) {
            if (k->n_places == GW_MOST_PLACES) return GW_FULL;
            k->places[k->n_places++] = i | flag;
        }
        if (on && s->flags[next] & GW_STATE_GOES) {
            k->path[t->depth[i]] = (uint16_t)next;
            i++;
        } else i = t->skip[i];
    }
    return 0;
}

/* --- what is kept of a state ----------------------------------------------------------------------- */

static int keep(gw_masks *k, uint32_t state, uint32_t plain) {
    gw_states *s = k->s;
    uint32_t words = k->trie->words;
    k->found++;
    bool bits = k->n_ids > words;
    uint32_t size = bits ? words : k->n_ids, at = gw_states_take(s, HEAD + size + k->n_places);
    if (!at) return GW_FULL;
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
    s->answer[state] = at;
    return 0;
}

static int answer(gw_masks *k, uint32_t state) {
    uint32_t plain = gw_plain_length(&k->plain, state);
    const gw_tree *t = plain ? &k->trie->odd : &k->trie->all;
    k->n_ids = k->n_places = 0;
    int bad = walk(k, t, 0, t->n, state, NULL);
    return bad ? bad : keep(k, state, plain);
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

/* All that frames return to without reading anything: returns[*first ..]. */
static int returns_of(gw_masks *k, uint32_t frames) {
    uint32_t first = k->n_returns, next = first;
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

static int go_on(gw_masks *k, const uint32_t *places, uint32_t n, uint32_t frames, uint32_t *mask);

/* Tokens below a place, in a state. Nodes are counted as work, for ways multiply with each byte of a piece. */
static int below(gw_masks *k, uint32_t place, gw_return r, uint32_t *mask) {
    const gw_tree *t = place & IN_ODD ? &k->trie->odd : &k->trie->all;
    uint32_t node = place & ~IN_ODD, first = k->n_places, work = 1 + (t->skip[node] - node) / NODES;
    if (k->s->work < work)
        return gw_fail(k->s->error, GW_E_BAD_FORMAT, "the grammar is too ambiguous here: steps\nat most %d\nmore",
                       GW_MOST_WORK);
    k->s->work -= work;
    int bad = walk(k, t, node + 1, t->skip[node], r.state, mask);
    if (!bad && k->n_places > first) bad = go_on(k, k->places + first, k->n_places - first, r.frames, mask);
    k->n_places = first;
    return bad;
}

/* Each level reads at least one byte of a piece. */
static int go_on(gw_masks *k, const uint32_t *places, uint32_t n, uint32_t frames, uint32_t *mask) {
    uint32_t first = k->n_returns;
    int bad = returns_of(k, frames);
    uint32_t last = k->n_returns;
    for (uint32_t j = first; j < last && !bad; j++)
        for (uint32_t i = 0; i < n && !bad; i++) bad = below(k, places[i], k->returns[j], mask);
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

int gw_masks_add(gw_masks *k, const gw_item *items, uint32_t n, uint32_t *mask) {
    uint32_t state = state_of(k, items, n), frames = items[0].frames;
    if (!state) return GW_FULL;
    int bad = k->s->answer[state] ? 0 : answer(k, state);
    if (bad) return bad;
    const uint32_t *w = k->s->words + k->s->answer[state];
    apply(k, w, mask);
    k->n_places = k->n_returns = 0;
    return w[2] ? go_on(k, w + HEAD + w[1], w[2], frames, mask) : 0;
}

void gw_masks_take(gw_masks *k, gw_arena *a, const gw_trie *trie, const gw_grammar *g) {
    k->trie = trie;
    k->ids = gw_arena_take(a, trie->n_vocab * sizeof *k->ids);
    k->places = gw_arena_take(a, GW_MOST_PLACES * sizeof *k->places);
    k->returns = gw_arena_take(a, GW_MOST_RETURNS * sizeof *k->returns);
    k->path = gw_arena_take(a, (trie->longest + 1) * sizeof *k->path);
    gw_plain_take(&k->plain, a, g);
}
