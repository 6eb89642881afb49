/* states: see states.h. In the block, each thing begins with the place of the next one in its hash chain:
 *   frames: next, hash, n, mark, then n times a frame; sorted by state and register
 *   sets of members: next, hash, loop, how many were taken, the last one + 1, then a bit for each member
 *   states: next, hash, number, n, flags, then n items; sorted
 * Place 0 is none. */
#include "text/states.h"

#include <stddef.h>
#include <string.h>

enum { FRAMES = 0, SETS = 1, STATES = 2 };
enum { CHAINS = 1 << 13, SEEN = 1 << 12, SLOTS = 2 * GW_MOST_ITEMS, FEW = 8, JOINED_DEEP = 12 };
enum { EDGES = 8 };   /* that are one step of work */
enum { FRAME_HEAD = 4, SET_HEAD = 5, STATE_HEAD = 5 };

static uint32_t mix(uint32_t h, uint32_t x) {
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static uint32_t hash_words(const uint32_t *p, size_t n, uint32_t h) {
    for (size_t i = 0; i < n; i++) h = mix(h, p[i]);
    return h;
}

uint32_t gw_states_take(gw_states *s, uint32_t words) {
    if (words > s->size - s->used) return 0;
    uint32_t at = s->used;
    s->used += words;
    return at;
}

/* Puts a thing of so many words into its chain; gives its place, 0: full. */
static uint32_t link(gw_states *s, int chain, uint32_t hash, uint32_t words) {
    uint32_t at = gw_states_take(s, words);
    if (!at) return 0;
    uint32_t *head = &s->heads[chain][hash % CHAINS];
    s->words[at] = *head;
    s->words[at + 1] = hash;
    *head = at;
    return at;
}

static int too_ambiguous(gw_states *s, const char *what, uint32_t most) {
    return gw_fail(s->error, GW_E_BAD_FORMAT, "the grammar is too ambiguous here: %s\nat most %u\nmore", what, most);
}

/* Whether there is time for n more steps. */
static bool tired(gw_states *s, uint32_t n) {
    if (s->work < n) return true;
    s->work -= n;
    return false;
}

/* --- frames --------------------------------------------------------------------------------------- */

const gw_frame *gw_frames(const gw_states *s, uint32_t frames, uint32_t *n) {
    *n = s->words[frames + 2];
    return (const gw_frame *)(s->words + frames + FRAME_HEAD);
}

uint32_t *gw_frames_known(gw_states *s, uint32_t frames) { return &s->words[frames + 3]; }

static bool frame_before(const gw_frame *a, const gw_frame *b) {
    if (a->to != b->to) return a->to < b->to;
    return a->count != b->count ? a->count < b->count : a->frames < b->frames;
}

/* The place of n sorted frames, 0: full. */
static uint32_t keep_frames(gw_states *s, const gw_frame *f, uint32_t n) {
    uint32_t hash = hash_words((const uint32_t *)f, 3 * (size_t)n, n);
    for (uint32_t at = s->heads[FRAMES][hash % CHAINS]; at; at = s->words[at])
        if (s->words[at + 1] == hash && s->words[at + 2] == n
            && !memcmp(s->words + at + FRAME_HEAD, f, n * sizeof *f)) return at;
    uint32_t at = link(s, FRAMES, hash, FRAME_HEAD + 3 * n);
    if (!at) return 0;
    s->words[at + 2] = n;
    s->words[at + 3] = 0;
    memcpy(s->words + at + FRAME_HEAD, f, n * sizeof *f);
    return at;
}

/* Both: what goes on at the same place, with one register, goes on with both below. *out 0: full. */
static int join_frames(gw_states *s, uint32_t a, uint32_t b, int depth, uint32_t *out) {
    *out = a;
    if (a == b) return 0;
    uint32_t n, m, k = 0;
    const gw_frame *x = gw_frames(s, a, &n), *y = gw_frames(s, b, &m);
    if (tired(s, n + m)) return too_ambiguous(s, "steps", GW_MOST_WORK);
    gw_frame *to = s->mixed + (size_t)depth * GW_MOST_FRAMES;
    for (uint32_t i = 0, j = 0; i < n || j < m;) {
        if (k == GW_MOST_FRAMES) return too_ambiguous(s, "places to return to", GW_MOST_FRAMES);
        bool same = i < n && j < m && x[i].to == y[j].to && x[i].count == y[j].count && x[i].to != GW_NEVER;
        if (i < n && j < m && !memcmp(&x[i], &y[j], sizeof *x)) {
            to[k++] = x[i++];
            j++;
        } else if (same && depth + 1 < JOINED_DEEP) {
            to[k] = x[i];
            int bad = join_frames(s, x[i].frames, y[j].frames, depth + 1, &to[k].frames);
            if (bad || !to[k].frames) return *out = 0, bad;
            k++, i++, j++;
        } else to[k++] = j == m || (i < n && frame_before(&x[i], &y[j])) ? x[i++] : y[j++];
    }
    *out = keep_frames(s, to, k);
    return 0;
}

/* --- registers ------------------------------------------------------------------------------------ */

static uint32_t set_words(const gw_states *s, uint32_t loop) { return (s->g->loops[loop].members + 31) / 32; }

/* A set of members: 0 is the empty one. */
typedef struct { uint32_t taken; const uint32_t *bits; } members;

static bool has(members m, uint32_t i) { return m.bits && m.bits[i / 32] >> i % 32 & 1; }

static members members_of(const gw_states *s, uint32_t set) {
    return set ? (members){ s->words[set + 3], s->words + set + SET_HEAD } : (members){ 0 };
}

static uint32_t missing(const gw_states *s, uint32_t loop, members m) {
    const uint32_t *what = s->g->members + s->g->first_member[loop];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->g->loops[loop].members; i++) n += what[i] & 2 && !has(m, i);
    return n;
}

static bool may_take(const gw_states *s, uint32_t loop, members m, uint32_t i) {
    const gw_loop *l = &s->g->loops[loop];
    uint32_t what = s->g->members[s->g->first_member[loop] + i];
    if ((what & 1 && has(m, i)) || m.taken >= l->max) return false;
    uint32_t left = missing(s, loop, m) - (what & 2 && !has(m, i));
    return left <= l->max - m.taken - 1;
}

static bool may_take_any(const gw_states *s, uint32_t loop, members m) {
    for (uint32_t i = 0; i < s->g->loops[loop].members; i++)
        if (may_take(s, loop, m, i)) return true;
    return false;
}

/* The set of members that was written last, at the block's end, with n words of bits: it, or the one that is equal. */
static uint32_t link_set(gw_states *s, uint32_t at, uint32_t n) {
    uint32_t *w = s->words + at, hash = hash_words(w + 2, SET_HEAD - 2 + n, n), *head = &s->heads[SETS][hash % CHAINS];
    for (uint32_t other = *head; other; other = s->words[other])
        if (s->words[other + 1] == hash && !memcmp(s->words + other + 2, w + 2, (SET_HEAD - 2 + n) * sizeof *w)) {
            s->used = at;
            return other;
        }
    w[0] = *head;
    w[1] = hash;
    *head = at;
    return at;
}

/* The set with member i; 0: full. */
static uint32_t with_member(gw_states *s, uint32_t loop, uint32_t set, uint32_t i) {
    uint32_t n = set_words(s, loop), at = gw_states_take(s, SET_HEAD + n);
    if (!at) return 0;
    uint32_t *w = s->words + at;
    if (set) memcpy(w, s->words + set, (SET_HEAD + n) * sizeof *w);
    else memset(w, 0, (SET_HEAD + n) * sizeof *w);
    w[2] = loop;
    w[3] += s->g->loops[loop].max != GW_NEVER || w[3] < s->g->loops[loop].min;   /* no further than it matters */
    w[4] = 0;
    w[SET_HEAD + i / 32] |= 1u << i % 32;
    return link_set(s, at, n);
}

/* What an edge does with the register of its state; false: it may not be taken. *full: no room. */
static bool act(gw_states *s, uint32_t state, const gw_edge *e, uint32_t *count, bool *full) {
    uint32_t loop = gw_loop_of(s->g, state);
    const gw_loop *l = &s->g->loops[loop];
    switch (gw_edge_act(e)) {
    case GW_NEXT:
        if (l->max != GW_NEVER && *count + 1 >= l->max) return false;
        if (l->max != GW_NEVER || *count + 1 < l->min) ++*count;
        return true;
    case GW_EXIT:
        if (*count + 1 < l->min) return false;
        *count = 0;
        return true;
    case GW_TAKE:
        loop = gw_loop_of(s->g, e->to);
        if (!may_take(s, loop, members_of(s, *count), gw_edge_member(e))) return false;
        *count = with_member(s, loop, *count, gw_edge_member(e));
        *full |= !*count;
        return true;
    case GW_MORE:
        return may_take_any(s, loop, members_of(s, *count));
    default:
        return true;
    }
}

static bool may_end(const gw_states *s, uint32_t state, uint32_t count) {
    if (!gw_accepts(s->g, state)) return false;
    uint32_t loop = gw_loop_of(s->g, state);
    const gw_loop *l = &s->g->loops[loop];
    if (!loop) return true;
    if (!l->members) return count + 1 >= l->min;
    members m = members_of(s, count);
    return m.taken >= l->min && !missing(s, loop, m);
}

/* With max rounds, round count + 1 is under way. Within a piece of `longest` bytes as many more may begin; where
 * neither bound is reached by then, and the lower one is far or behind, all counts are alike. */
uint32_t gw_plain_count(const gw_states *s, uint32_t state, uint32_t count, uint32_t longest) {
    const gw_loop *l = &s->g->loops[gw_loop_of(s->g, state)];
    uint64_t reach = (uint64_t)count + longest + 2;
    if (!gw_loop_of(s->g, state) || l->members) return count;
    if (reach < l->min) return 0;
    uint32_t least = l->min > 0 ? l->min - 1 : 0;
    return count >= least && (l->max == GW_NEVER || reach < l->max) ? least : count;
}

/* --- making sets ---------------------------------------------------------------------------------- */

void gw_set_clear(gw_states *s) {
    s->set->n = 0;
    s->set->ends = false;
    if (++s->stamp == 0) {
        memset(s->seen, 0, SEEN * 4 * sizeof *s->seen);
        memset(s->slots, 0, SLOTS * 2 * sizeof *s->slots);
        s->stamp = 1;
    }
}

/* Whether a closure comes to a place for the first time; when there are too many to remember, each time is one. */
static bool first_time(gw_states *s, uint32_t state, uint32_t count, uint32_t frames) {
    uint32_t h = mix(mix(mix(7, state), count), frames);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t *slot = s->seen + 4 * ((h + i) % SEEN);
        if (slot[0] != s->stamp) {
            slot[0] = s->stamp, slot[1] = state, slot[2] = count, slot[3] = frames;
            return true;
        }
        if (slot[1] == state && slot[2] == count && slot[3] == frames) return false;
    }
    return true;
}

/* The place of an item among those of the set: by a look at each, or, of many, by its hash. NULL: a new one's place was
 * noted. */
static gw_item *find_item(gw_states *s, const gw_item *item) {
    gw_set *set = s->set;
    bool few = set->n < FEW;
    for (uint32_t i = 0; few && i < set->n; i++)
        if (!memcmp(&set->items[i], item, offsetof(gw_item, frames))) return &set->items[i];
    uint32_t h = mix(mix(mix(11, item->at), item->to), item->count) % SLOTS;
    for (; s->slots[2 * h] == s->stamp; h = (h + 1) % SLOTS) {
        gw_item *other = &set->items[s->slots[2 * h + 1]];
        if (!few && !memcmp(other, item, offsetof(gw_item, frames))) return other;
    }
    s->slots[2 * h] = s->stamp;
    s->slots[2 * h + 1] = set->n;
    return NULL;
}

int gw_set_add(gw_states *s, gw_item item) {
    gw_set *set = s->set;
    if (set->n == GW_MOST_ITEMS) return too_ambiguous(s, "ways to go on", GW_MOST_ITEMS);
    gw_item *old = find_item(s, &item);
    if (!old) {
        set->items[set->n++] = item;
        return 0;
    }
    int bad = join_frames(s, old->frames, item.frames, 0, &old->frames);
    return bad ? bad : old->frames ? 0 : GW_FULL;
}

/* A rule that returns to where nothing is left but to return as well needs no frame. */
static bool is_tail(const gw_states *s, uint32_t state) {
    return gw_first(s->g->state_ends, state) == s->g->state_ends[state] && gw_accepts(s->g, state)
        && !gw_loop_of(s->g, state);
}

/* A place that the closure has still to look at. */
static int wait(gw_states *s, uint32_t state, uint32_t count, uint32_t frames) {
    if (!first_time(s, state, count, frames)) return 0;
    if (s->n_waiting == GW_MOST_ITEMS) return too_ambiguous(s, "rules that may begin or end", GW_MOST_ITEMS);
    s->waiting[s->n_waiting++] = (gw_frame){ state, count, frames };
    return 0;
}

static int follow(gw_states *s, uint32_t state, const gw_edge *e, uint32_t count, uint32_t frames) {
    bool full = false;
    if (!act(s, state, e, &count, &full)) return 0;
    if (full) return GW_FULL;
    if (gw_edge_kind(e) == GW_BYTES) return gw_set_add(s, (gw_item){ e->label, e->to, count, frames });
    if (gw_edge_kind(e) == GW_TOKEN) return gw_set_add(s, (gw_item){ GW_AT_TOKEN | e->label, e->to, count, frames });
    if (!is_tail(s, e->to)) {
        gw_frame f = { e->to, count, frames };
        frames = keep_frames(s, &f, 1);
        if (!frames) return GW_FULL;
    }
    return wait(s, s->g->rules[e->label], 0, frames);
}

/* Edges of a state, and, where its rule may end, the states that it returns to. */
static int look_at(gw_states *s, gw_frame at) {
    uint32_t first = gw_first(s->g->state_ends, at.to), last = s->g->state_ends[at.to];
    int bad = tired(s, 1 + (last - first) / EDGES) ? too_ambiguous(s, "steps", GW_MOST_WORK) : 0;
    for (uint32_t i = first; i < last && !bad; i++)
        bad = follow(s, at.to, &s->g->edges[i], at.count, at.frames);
    if (bad || !may_end(s, at.to, at.count)) return bad;
    uint32_t n;
    const gw_frame *f = gw_frames(s, at.frames, &n);
    for (uint32_t i = 0; i < n && !bad; i++) {
        if (f[i].to == GW_NEVER) s->set->ends = true;
        else bad = wait(s, f[i].to, f[i].count, f[i].frames);
    }
    return bad;
}

int gw_set_enter(gw_states *s, uint32_t state, uint32_t count, uint32_t frames) {
    s->n_waiting = 0;
    int bad = wait(s, state, count, frames);
    while (!bad && s->n_waiting) bad = look_at(s, s->waiting[--s->n_waiting]);
    return bad;
}

int gw_set_begin(gw_states *s) {
    gw_set_clear(s);
    s->set->ends = s->g->empty;
    return s->g->start == GW_NEVER ? 0 : gw_set_enter(s, s->g->rules[s->g->start], 0, s->bottom);
}

/* Where a byte leads in a spelling, GW_NEVER: nowhere. */
static uint32_t spell(const gw_grammar *g, uint32_t node, uint32_t byte) {
    uint32_t low = gw_first(g->node_ends, node), high = g->node_ends[node];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((g->spans[middle].span >> 8) < byte) low = middle + 1;
        else high = middle;
    }
    return low < g->node_ends[node] && (g->spans[low].span & 255) <= byte ? g->spans[low].to : GW_NEVER;
}

int gw_set_step(gw_states *s, const gw_item *items, uint32_t n, uint32_t byte) {
    int bad = tired(s, n) ? too_ambiguous(s, "steps", GW_MOST_WORK) : 0;
    for (uint32_t i = 0; i < n && !bad; i++) {
        gw_item item = items[i];
        if (item.at & GW_AT_TOKEN) continue;
        item.at = spell(s->g, item.at, byte);
        if (item.at == GW_NEVER) continue;
        bad = item.at ? gw_set_add(s, item) : gw_set_enter(s, item.to, item.count, item.frames);
    }
    return bad;
}

int gw_set_token(gw_states *s, const gw_item *items, uint32_t n, uint32_t id) {
    int bad = 0;
    for (uint32_t i = 0; i < n && !bad; i++)
        if (items[i].at == (GW_AT_TOKEN | id)) bad = gw_set_enter(s, items[i].to, items[i].count, items[i].frames);
    return bad;
}

/* --- states --------------------------------------------------------------------------------------- */

static bool item_before(const gw_item *a, const gw_item *b) {
    if (a->at != b->at) return a->at < b->at;
    if (a->to != b->to) return a->to < b->to;
    return a->count != b->count ? a->count < b->count : a->frames < b->frames;
}

/* Shell sort: sets are small, and nearly sorted. */
static void sort_items(gw_item *p, uint32_t n) {
    for (uint32_t gap = n > 16 ? 301 : 1; gap; gap = gap > 1 ? gap / 3 + (gap < 3) : 0)
        for (uint32_t i = gap; i < n; i++) {
            gw_item item = p[i];
            uint32_t j = i;
            for (; j >= gap && item_before(&item, &p[j - gap]); j -= gap) p[j] = p[j - gap];
            p[j] = item;
        }
}

uint32_t gw_state_of_set(gw_states *s) {
    gw_set *set = s->set;
    if (!set->n && !set->ends) return GW_STATE_DEAD;
    sort_items(set->items, set->n);
    size_t size = set->n * sizeof *set->items;
    uint32_t hash = hash_words((const uint32_t *)set->items, 4 * (size_t)set->n, set->ends);
    uint32_t flags = (set->n ? GW_STATE_GOES : 0) | (set->ends ? GW_STATE_ENDS : 0);
    for (uint32_t at = s->heads[STATES][hash % CHAINS]; at; at = s->words[at])
        if (s->words[at + 1] == hash && s->words[at + 3] == set->n && s->words[at + 4] == flags
            && !memcmp(s->words + at + STATE_HEAD, set->items, size)) return s->words[at + 2];
    if (s->n_states == GW_MOST_STATES) return 0;
    uint32_t at = link(s, STATES, hash, STATE_HEAD + 4 * set->n);
    if (!at) return 0;
    uint32_t number = s->n_states++;
    s->words[at + 2] = number;
    s->words[at + 3] = set->n;
    s->words[at + 4] = flags;
    if (size) memcpy(s->words + at + STATE_HEAD, set->items, size);
    s->place[number] = at;
    s->table[number] = s->answer[number] = 0;
    s->flags[number] = (uint8_t)flags;
    return number;
}

const gw_item *gw_state_items(const gw_states *s, uint32_t state, uint32_t *n) {
    *n = s->words[s->place[state] + 3];
    return (const gw_item *)(s->words + s->place[state] + STATE_HEAD);
}

uint16_t *gw_state_table(gw_states *s, uint32_t state) {
    if (!s->table[state]) {
        uint32_t at = gw_states_take(s, 128);
        if (!at) return NULL;
        memset(s->words + at, 0, 512);
        s->table[state] = at;
    }
    return (uint16_t *)(s->words + s->table[state]);
}

uint32_t gw_state_make_next(gw_states *s, uint32_t state, uint32_t byte, int *bad) {
    uint32_t n;
    const gw_item *items = gw_state_items(s, state, &n);
    gw_set_clear(s);
    *bad = gw_set_step(s, items, n, byte);
    uint32_t next = *bad ? 0 : gw_state_of_set(s);
    if (!next && !*bad) *bad = GW_FULL;
    if (next) ((uint16_t *)(s->words + s->table[state]))[byte] = (uint16_t)next;
    return next;
}

/* --- the block ------------------------------------------------------------------------------------ */

static void *lay_out(gw_states *s, gw_arena *a) {
    for (int i = 0; i < 3; i++) s->heads[i] = gw_arena_take(a, CHAINS * sizeof(uint32_t));
    s->place = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    s->table = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    s->answer = gw_arena_take(a, GW_MOST_STATES * sizeof(uint32_t));
    s->flags = gw_arena_take(a, GW_MOST_STATES);
    s->set = gw_arena_take(a, sizeof(gw_set));
    s->seen = gw_arena_take(a, SEEN * 4 * sizeof(uint32_t));
    s->slots = gw_arena_take(a, SLOTS * 2 * sizeof(uint32_t));
    s->waiting = gw_arena_take(a, GW_MOST_ITEMS * sizeof(gw_frame));
    s->mixed = gw_arena_take(a, (size_t)JOINED_DEEP * GW_MOST_FRAMES * sizeof(gw_frame));
    return s->words = gw_arena_take(a, GW_STATES_WORDS * sizeof(uint32_t));
}

static void empty(gw_states *s) {
    static const gw_frame bottom = { GW_NEVER, 0, 0 };
    for (int i = 0; i < 3; i++) memset(s->heads[i], 0, CHAINS * sizeof(uint32_t));
    s->used = 1;
    s->n_states = GW_STATE_DEAD + 1;
    s->flags[GW_STATE_NONE] = s->flags[GW_STATE_DEAD] = 0;
    s->bottom = keep_frames(s, &bottom, 1);
}

int gw_states_init(gw_states *s, const gw_grammar *g, gw_error *e) {
    gw_arena a = { 0 };
    memset(s, 0, sizeof *s);
    lay_out(s, &a);
    size_t size = gw_size(a.used);
    a = (gw_arena){ .base = gw_alloc(size), .size = size };
    if (!a.base) return gw_fail(e, GW_E_NO_MEMORY, "grammar\n%zu bytes\nno memory", size);
    lay_out(s, &a);
    s->g = g;
    s->error = e;
    s->work = GW_MOST_WORK;
    s->size = GW_STATES_WORDS;
    s->stamp = GW_NEVER;   /* the first set clears what it marks */
    empty(s);
    return 0;
}

void gw_states_free(gw_states *s) {
    gw_free(s->heads[0]);
    memset(s, 0, sizeof *s);
}

size_t gw_states_bytes(const gw_states *s) {
    gw_arena a = { 0 };
    gw_states copy = *s;
    lay_out(&copy, &a);
    return (size_t)a.used;
}

/* --- forgetting ----------------------------------------------------------------------------------- */

/* What is kept, written out: each set of frames behind those that it stands on. A mark on frames is VISITED and its
 * number there. */
#define VISITED 0x80000000u

typedef struct {
    gw_buffer out;        /* frames: their number n, then n times to, count, the number of the frames below, words of
                             the set that count is (0: none), and these */
    gw_buffer open;       /* frames, and how many of theirs were looked at */
    uint32_t n;           /* sets of frames that are written */
} keeper;

static bool put(gw_buffer *b, const void *words, uint32_t n) {
    uint32_t *to = gw_buffer_add(b, n * sizeof *to);
    if (to && n) memcpy(to, words, n * sizeof *to);
    return to != NULL;
}

/* Words of the set of members that a register is, 0: it is none. */
static uint32_t words_of_set(const gw_states *s, uint32_t state, uint32_t count) {
    uint32_t loop = state == GW_NEVER ? 0 : gw_loop_of(s->g, state);
    return s->g->loops[loop].members && count ? SET_HEAD + set_words(s, loop) : 0;
}

static bool write_frames(gw_states *s, keeper *k, uint32_t frames) {
    uint32_t n;
    const gw_frame *f = gw_frames(s, frames, &n);
    bool fine = put(&k->out, &n, 1);
    for (uint32_t i = 0; i < n && fine; i++) {
        uint32_t size = words_of_set(s, f[i].to, f[i].count);
        uint32_t below = f[i].frames ? *gw_frames_known(s, f[i].frames) : 0;
        uint32_t head[] = { f[i].to, f[i].count, below & ~VISITED, size };
        fine = put(&k->out, head, 4) && put(&k->out, s->words + f[i].count, size);
    }
    *gw_frames_known(s, frames) = VISITED | ++k->n;
    return fine;
}

/* Depth first, without recursion: stacks are as deep as texts are nested. */
static bool visit_frames(gw_states *s, keeper *k, uint32_t frames) {
    uint32_t first[] = { frames, 0 };
    if (*gw_frames_known(s, frames) & VISITED) return true;
    if (!put(&k->open, first, 2)) return false;
    while (k->open.used) {
        uint32_t *top = (uint32_t *)(k->open.data + k->open.used) - 2, n;
        const gw_frame *f = gw_frames(s, top[0], &n);
        while (top[1] < n && (!f[top[1]].frames || *gw_frames_known(s, f[top[1]].frames) & VISITED)) top[1]++;
        if (top[1] < n) {
            uint32_t next[] = { f[top[1]].frames, 0 };
            if (!put(&k->open, next, 2)) return false;
            continue;
        }
        if (!write_frames(s, k, top[0])) return false;
        k->open.used -= 2 * sizeof *top;
    }
    return true;
}

/* A register's new name: *set are its words before, none where it is no set. */
static uint32_t keep_count(gw_states *s, uint32_t count, const uint32_t *set, uint32_t size) {
    if (!size) return count;
    uint32_t at = gw_states_take(s, size);
    if (!at) return 0;
    memcpy(s->words + at, set, size * sizeof *set);
    return link_set(s, at, size - SET_HEAD);
}

static bool read_frames(gw_states *s, const keeper *k, uint32_t *places) {
    const uint32_t *w = (const uint32_t *)k->out.data;
    gw_frame *f = s->mixed;
    places[0] = 0;
    for (uint32_t i = 1; i <= k->n; i++) {
        uint32_t n = *w++;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t size = w[3], at = j;
            gw_frame one = { w[0], keep_count(s, w[1], w + 4, size), places[w[2]] };
            for (; at && frame_before(&one, &f[at - 1]); at--) f[at] = f[at - 1];
            f[at] = one;
            w += 4 + size;
        }
        if (!(places[i] = keep_frames(s, f, n))) return false;
    }
    return true;
}

/* Items with their frames' numbers, and the sets that their registers are, behind the frames. */
static bool write_items(gw_states *s, keeper *k, const gw_kept *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        const gw_item *item = &l->items[i];
        uint32_t size = words_of_set(s, item->to, item->count);
        uint32_t head[] = { *gw_frames_known(s, item->frames) & ~VISITED, size };
        if (!put(&k->open, head, 2) || !put(&k->open, s->words + item->count, size)) return false;
    }
    return true;
}

static void read_items(gw_states *s, const keeper *k, const gw_kept *l, const uint32_t *places) {
    const uint32_t *w = (const uint32_t *)k->open.data;
    for (uint32_t i = 0; i < l->n; i++) {
        l->items[i].frames = places[w[0]];
        l->items[i].count = keep_count(s, l->items[i].count, w + 2, w[1]);
        w += 2 + w[1];
    }
}

/* What was begun came to nothing: marks are no numbers of states. */
static void unmark_frames(gw_states *s) {
    for (uint32_t i = 0; i < CHAINS; i++)
        for (uint32_t at = s->heads[FRAMES][i]; at; at = s->words[at]) *gw_frames_known(s, at) = 0;
}

int gw_states_forget(gw_states *s, const gw_kept *l) {
    keeper k = { 0 };
    bool fine = true;
    for (uint32_t i = 0; i < l->n && fine; i++) fine = visit_frames(s, &k, l->items[i].frames);
    fine = fine && write_items(s, &k, l);
    uint32_t *places = fine ? gw_alloc((k.n + 1) * sizeof *places) : NULL;
    if (places) {
        empty(s);
        fine = read_frames(s, &k, places);
        if (fine) read_items(s, &k, l, places);
    } else unmark_frames(s);
    gw_free(places);
    gw_buffer_free(&k.out);
    gw_buffer_free(&k.open);
    if (places && fine) return 0;
    return gw_fail(s->error, GW_E_NO_MEMORY, "memory for a grammar's stack\n%u sets of frames\nno memory", k.n);
}
