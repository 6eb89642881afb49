/* matcher: see matcher.h. Advances the items of the text by bytes and tokens, and finds jump-forward bytes. In a mask,
 * sets the bits of tokens that end texts and of tokens that the grammar names; masks.c sets all other bits. */
#include "text/matcher.h"
#include "base/errors.h"
#include "text/errors.h"

#include "text/masks.h"

#include <string.h>

struct gw_matcher {
    gw_grammar g;
    gw_dfa d;
    gw_mask_builder masks;
    gw_words words;
    gw_error *error;
    gw_item *items; /* [n] items of the text, at most GW_MOST_ITEMS; computing a mask sorts them by stack */
    gw_item *next;
    uint32_t n;
    bool complete, ended;
    uint32_t *mask; /* [words] */
    size_t size;
};

/* --- steps ---------------------------------------------------------------------------------------- */

static void settle(gw_matcher *m) {
    gw_set *set = m->d.set;
    memcpy(m->items, set->items, set->n * sizeof *m->items);
    m->n = set->n;
    m->complete = set->ends;
}

static int try_reset(gw_matcher *m) {
    int bad = gw_set_begin(&m->d);
    if (!bad) settle(m);
    return bad;
}

static int collect(gw_matcher *m) { return gw_dfa_collect(&m->d, &(gw_roots){ .items = m->items, .n_items = m->n }); }

static int no_room(gw_matcher *m) { return gw_fail(m->error, MSG_FORMAT_MEMORY, GW_STATES_WORDS * 4); }

enum { NO = 0, YES = 1 }; /* results of a step besides GW_FULL and negative errors */

/* Advances the items of the text by n bytes, with the result in d.set. Returns NO if the grammar does not allow the
 * bytes. */
static int walk_bytes(gw_matcher *m, const uint8_t *p, size_t n) {
    memcpy(m->next, m->items, m->n * sizeof *m->items);
    uint32_t count = m->n;
    for (size_t i = 0; i < n; i++) {
        gw_set_clear(&m->d);
        int bad = gw_set_step(&m->d, m->next, count, p[i]);
        if (bad) return bad;
        gw_set *set = m->d.set;
        if (!set->n && !(set->ends && i + 1 == n)) return NO;
        memcpy(m->next, set->items, set->n * sizeof *set->items);
        count = set->n;
    }
    return YES;
}

static int walk_token(gw_matcher *m, int32_t id) {
    gw_set_clear(&m->d);
    int bad = gw_set_token(&m->d, m->items, m->n, (uint32_t)id);
    if (bad) return bad;
    return m->d.set->n || m->d.set->ends ? YES : NO;
}

static bool is_end(const gw_matcher *m, int32_t id) {
    for (uint32_t i = 0; i < m->words.n_ends; i++)
        if (m->words.ends[i] == id) return true;
    return false;
}

/* Advances the items of the text by a token: by its id if the grammar names that id at this point, otherwise by its
 * bytes. */
static int walk_once(gw_matcher *m, int32_t id, const uint8_t *text, size_t n) {
    int how = id < 0 ? NO : walk_token(m, id);
    return how == NO && n ? walk_bytes(m, text, n) : how;
}

static int try_walk(gw_matcher *m, int32_t id, const uint8_t *text, size_t n) {
    m->d.work = GW_MOST_WORK + (uint32_t)gw_min(n, 1 << 24) * 64;
    int how = walk_once(m, id, text, n);
    if (how == GW_FULL && !(how = collect(m))) how = walk_once(m, id, text, n);
    return how == GW_FULL ? no_room(m) : how;
}

/* Tries to advance the items of the text by a token, with the result in d.set. Tokens that do not stand for text have
 * no bytes. */
static int walk(gw_matcher *m, int32_t id) {
    const gw_vocabulary *v = gw_tokenizer_vocabulary(m->words.tokenizer);
    const uint8_t *text = NULL;
    uint8_t one[1];
    if (m->ended) return NO;
    size_t n = is_end(m, id) ? 0 : gw_trie_piece(v, (uint32_t)id, &text, one);
    return try_walk(m, id, text, n);
}

static int check_id(gw_matcher *m, int32_t id) {
    uint32_t n = m->words.trie->n_vocab;
    if (id >= 0 && (uint32_t)id < n) return 0;
    return gw_fail(m->error, MSG_TOKEN_RANGE, n - 1, id);
}

int gw_matcher_allows(gw_matcher *m, int32_t id) {
    int how = check_id(m, id);
    if (how) return how;
    return is_end(m, id) && m->complete && !m->ended ? YES : walk(m, id);
}

int gw_matcher_accept(gw_matcher *m, int32_t id) {
    int how = gw_matcher_allows(m, id);
    if (how != YES) return how;
    if (is_end(m, id) && m->complete) m->ended = true, m->n = 0;
    else settle(m);
    return YES;
}

int gw_matcher_accept_text(gw_matcher *m, const char *text, size_t n) {
    if (m->ended) return 0;
    if (n == 0) return 1;
    int how = try_walk(m, -1, (const uint8_t *)text, n);
    if (how == YES) settle(m);
    return how;
}

int gw_matcher_reset(gw_matcher *m) {
    m->d.work = GW_MOST_WORK;
    m->n = 0;
    m->ended = false;
    int bad = try_reset(m);
    if (bad == GW_FULL && !(bad = collect(m))) bad = try_reset(m);
    return bad == GW_FULL ? no_room(m) : bad;
}

bool gw_matcher_complete(const gw_matcher *m) { return m->complete; }
bool gw_matcher_finished(const gw_matcher *m) { return m->complete && !m->n; }
bool gw_matcher_ended(const gw_matcher *m) { return m->ended; }

/* --- masks ----------------------------------------------------------------------------------------- */

static void sort_by_stack(gw_item *p, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        gw_item item = p[i];
        uint32_t j = i;
        for (; j && item.frame.below < p[j - 1].frame.below; j--) p[j] = p[j - 1];
        p[j] = item;
    }
}

/* Sets or clears the mask's bits of tokens that end a text, and sets those of tokens that the grammar names. */
static int mask_tokens(gw_matcher *m) {
    for (uint32_t i = 0; i < m->words.n_ends; i++) {
        uint32_t id = (uint32_t)m->words.ends[i];
        if (m->complete && !m->ended) gw_set_bit(m->mask, id);
        else m->mask[id / 32] &= ~(1u << id % 32);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        if (!(m->items[i].node & GW_AT_TOKEN)) continue;
        uint32_t id = m->items[i].node & ~GW_AT_TOKEN;
        int how = walk_token(m, (int32_t)id); /* a token is allowed only if its rule can continue after it */
        if (how == YES) gw_set_bit(m->mask, id);
        else if (how != NO) return how;
    }
    return 0;
}

static int try_mask(gw_matcher *m) {
    const gw_trie *t = m->words.trie;
    m->masks.fresh = true;
    m->masks.items = m->items, m->masks.n_items = m->n;
    sort_by_stack(m->items, m->n);
    for (uint32_t i = 0, j; i < m->n; i = j) {
        for (j = i + 1; j < m->n && m->items[j].frame.below == m->items[i].frame.below;) j++;
        int bad = gw_mask_add(&m->masks, i, j - i, m->mask);
        if (bad) return bad;
    }
    if (m->masks.fresh) memset(m->mask, 0, t->words * sizeof *m->mask);
    for (uint32_t i = 0; i < t->n_duplicates; i++)
        if (m->mask[t->duplicates[i].as / 32] >> t->duplicates[i].as % 32 & 1) gw_set_bit(m->mask, t->duplicates[i].id);
    int bad = mask_tokens(m); /* must come last: it corrects bits that were set above */
    return bad == GW_FULL && !(bad = collect(m)) ? mask_tokens(m) : bad;
}

const uint32_t *gw_matcher_mask(gw_matcher *m) {
    m->d.work = GW_MOST_WORK;
    int bad = try_mask(m);
    if (bad == GW_FULL && !(bad = collect(m))) bad = try_mask(m);
    if (bad == GW_FULL) bad = no_room(m);
    return bad ? NULL : m->mask;
}

const uint32_t *gw_matcher_bits(const gw_matcher *m) { return m->mask; }

/* --- jump-forward bytes --- */

/* Returns the only byte that can follow n items; -1 if several bytes or none can follow, or if the text may end
 * here. */
static int only_byte(const gw_matcher *m, const gw_item *items, uint32_t n, bool ends) {
    int only = -1;
    for (uint32_t i = 0; i < n && !ends; i++) {
        uint32_t node = items[i].node;
        if (node & GW_AT_TOKEN) return -1;
        uint32_t first = gw_first(m->g.node_ends, node);
        const gw_byte_span *span = &m->g.spans[first];
        if (m->g.node_ends[node] - first != 1 || gw_low(span) != gw_high(span)) return -1;
        if (only >= 0 && only != (int)gw_low(span)) return -1;
        only = (int)gw_low(span);
    }
    return only;
}

static int forward(gw_matcher *m, uint32_t *count, uint32_t byte) {
    gw_set_clear(&m->d);
    int bad = gw_set_step(&m->d, m->next, *count, byte);
    if (bad) return bad;
    memcpy(m->next, m->d.set->items, m->d.set->n * sizeof *m->next);
    *count = m->d.set->n;
    return 0;
}

/* One search for jump-forward bytes may use 1/32 of a call's work budget; the next search continues where it
 * stopped. */
enum { ENOUGH = GW_MOST_WORK / 32 * 31 };

int gw_matcher_forced(gw_matcher *m, char *out, size_t cap) {
    m->d.work = GW_MOST_WORK;
    memcpy(m->next, m->items, m->n * sizeof *m->items);
    uint32_t count = m->n;
    bool ends = m->complete || m->ended;
    size_t n = 0;
    for (int byte; n < cap && m->d.work > ENOUGH && (byte = only_byte(m, m->next, count, ends)) >= 0; n++) {
        int bad = forward(m, &count, (uint32_t)byte);
        if (bad == GW_FULL) break; /* the forced bytes found so far are valid */
        if (bad) return bad;
        out[n] = (char)byte;
        ends = m->d.set->ends;
    }
    return (int)n;
}

static bool can_follow(const gw_matcher *m, uint32_t count, uint32_t byte) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = m->next[i].node;
        if (node & GW_AT_TOKEN) continue;
        for (uint32_t k = gw_first(m->g.node_ends, node); k < m->g.node_ends[node]; k++)
            if (gw_low(&m->g.spans[k]) <= byte && gw_high(&m->g.spans[k]) >= byte) return true;
    }
    return false;
}

static uint32_t find_node(const gw_tree *t, const uint8_t *p, size_t n) {
    uint32_t i = 0, end = t->n;
    for (size_t at = 0; at < n; at++) {
        while (i < end && (t->head[i] & 255) != p[at]) i = t->skip[i];
        if (i == end) return t->n;
        if (at + 1 == n) return i;
        end = t->skip[i++];
    }
    return t->n;
}

/* Returns whether some token begins with p[0..n) and continues with a byte that can follow the items in m->next. */
static bool piece_spans(const gw_matcher *m, const uint8_t *p, size_t n, uint32_t count) {
    const gw_tree *t = &m->words.trie->all;
    uint32_t node = find_node(t, p, n);
    if (node == t->n) return false;
    for (uint32_t i = node + 1; i < t->skip[node]; i = t->skip[i])
        if (can_follow(m, count, t->head[i] & 255)) return true;
    return false;
}

int gw_matcher_joins(gw_matcher *m, const char *text, size_t n, size_t forced) {
    m->d.work = GW_MOST_WORK;
    const uint8_t *p = (const uint8_t *)text;
    memcpy(m->next, m->items, m->n * sizeof *m->items);
    uint32_t count = m->n;
    for (size_t i = n - gw_min(n, forced); i < n; i++) {
        int bad = forward(m, &count, p[i]);
        if (bad) return bad == GW_FULL ? 1 : bad;
    }
    for (size_t len = 1; len <= n && len < m->words.trie->longest; len++)
        if (piece_spans(m, p + n - len, len, count)) return 1;
    return 0;
}

/* --- construction --- */

static gw_matcher *lay_out(gw_arena *a, const gw_grammar *g, const gw_words *words) {
    gw_matcher *m = gw_arena_take(a, sizeof *m);
    void *items = gw_arena_take(a, GW_MOST_ITEMS * sizeof(gw_item));
    void *next = gw_arena_take(a, GW_MOST_ITEMS * sizeof(gw_item));
    void *mask = gw_arena_take(a, words->trie->words * sizeof(uint32_t));
    gw_mask_builder masks = { 0 };
    gw_mask_builder_take(&masks, a, words->trie, g);
    if (!masks.plain.total) return NULL;
    memset(m, 0, sizeof *m);
    m->g = *g, m->words = *words, m->masks = masks;
    m->items = items, m->next = next, m->mask = mask;
    m->masks.plain.d = m->masks.d = &m->d;
    return m;
}

gw_matcher *gw_matcher_new(const void *bytes, size_t n, gw_words words, gw_error *e) {
    gw_grammar g;
    if (gw_grammar_read(&g, bytes, n, words.trie->n_vocab, e)) return NULL;
    gw_arena a = { 0 };
    lay_out(&a, &g, &words);
    a = (gw_arena){ .base = gw_alloc(gw_size(a.used)), .size = a.used };
    gw_matcher *m = a.base ? lay_out(&a, &g, &words) : NULL;
    if (!m) {
        gw_no_memory(e, GW_FORMAT_MEMORY, a.size);
        gw_grammar_free(&g);
        return NULL;
    }
    m->error = e;
    m->size = (size_t)a.size;
    int bad = gw_dfa_init(&m->d, &m->g, e);
    if (!bad) bad = gw_matcher_reset(m);
    if (!bad) return m;
    gw_matcher_free(m);
    return NULL;
}

void gw_matcher_free(gw_matcher *m) {
    if (!m) return;
    gw_dfa_free(&m->d);
    gw_grammar_free(&m->g);
    gw_free(m);
}

uint32_t gw_matcher_found(const gw_matcher *m) { return m->masks.found; }
size_t gw_matcher_bytes(const gw_matcher *m) { return m->size + gw_grammar_bytes(&m->g) + gw_dfa_bytes(&m->d); }
