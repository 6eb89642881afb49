/* trie: see trie.h. Pieces are sorted by their bytes; each piece adds one node for each byte that it does not share
 * with the previous piece. */
#include "text/trie.h"

#include <string.h>

size_t gw_trie_piece(const gw_vocabulary *v, uint32_t id, const uint8_t **bytes, uint8_t one[1]) {
    int type = v->types[id];
    if (type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN) return 0;
    if (type == GW_TOKEN_BYTE) {
        one[0] = (uint8_t)gw_byte_value(v, id);
        *bytes = one;
        return 1;
    }
    *bytes = gw_piece_text(v, id);
    return gw_piece_len(v, id);
}

/* Returns the length of the character at p, or 0 if a JSON string cannot contain it unescaped. */
static size_t plain_char(const uint8_t *p, size_t left) {
    return p[0] < 0x20 || p[0] == '"' || p[0] == '\\' ? 0 : gw_utf8_len(p, left);
}

static uint32_t plain_chars(const uint8_t *p, size_t len) {
    uint32_t chars = 0;
    for (size_t at = 0, n; at < len; at += n, chars++)
        if (!(n = plain_char(p + at, len - at))) return 0;
    return chars;
}

typedef struct {
    uint64_t key;
    const uint8_t *text;
    uint32_t len, id;
} piece;

static uint64_t key_of(const uint8_t *p, size_t len) {
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++) key = key << 8 | (i < len ? p[i] : 0);
    return key;
}

static bool before(const piece *a, const piece *b) {
    if (a->key != b->key) return a->key < b->key;
    int order = memcmp(a->text, b->text, gw_min(a->len, b->len));
    if (order) return order < 0;
    return a->len != b->len ? a->len < b->len : a->id < b->id;
}

/* Sorts n pieces by merging runs of growing length, with *b as scratch memory; *a points to the result. */
static void sort(piece **a, piece **b, size_t n) {
    for (size_t run = 1; run < n; run *= 2) {
        piece *from = *a, *to = *b;
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t i = at, middle = gw_min(at + run, n), j = middle, end = gw_min(at + 2 * run, n);
            for (size_t k = at; k < end; k++)
                to[k] = i < middle && (j >= end || !before(&from[j], &from[i])) ? from[i++] : from[j++];
        }
        *a = to;
        *b = from;
    }
}

static size_t shared(const piece *a, const piece *b) {
    size_t n = 0, most = gw_min(a->len, b->len);
    while (n < most && a->text[n] == b->text[n]) n++;
    return n;
}

static size_t count_nodes(const piece *p, size_t n) {
    size_t nodes = 0;
    for (size_t i = 0; i < n; i++) nodes += p[i].len - (i ? shared(&p[i - 1], &p[i]) : 0);
    return nodes;
}

static void take_tree(gw_tree *t, size_t nodes, gw_arena *a) {
    t->head = gw_arena_take(a, nodes * sizeof *t->head);
    t->skip = gw_arena_take(a, nodes * sizeof *t->skip);
    t->depth = gw_arena_take(a, nodes * sizeof *t->depth);
}

/* Builds a tree of n different pieces in sorted order. `open`: scratch for the nodes that lead to the last piece. */
static void fill_tree(gw_tree *t, const piece *p, size_t n, uint32_t *open) {
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        size_t common = i ? shared(&p[i - 1], &p[i]) : 0;
        while (depth > common) t->skip[open[--depth]] = t->n;
        for (; depth < p[i].len; depth++) {
            open[depth] = t->n;
            t->head[t->n] = p[i].text[depth];
            t->depth[t->n++] = (uint16_t)(depth + 1);
        }
        t->head[t->n - 1] |= (p[i].id + 1) << 8;
    }
    while (depth > 0) t->skip[open[--depth]] = t->n;
}

typedef struct {
    piece *p, *spare;
    size_t n, n_odd, n_duplicates, n_long;
    uint8_t *bytes;
} list;

static void note_plain(gw_trie *t, uint32_t id, uint32_t chars) {
    t->most_plain = (uint32_t)gw_max(t->most_plain, chars);
    for (uint32_t k = gw_min(chars, GW_PLAIN_MASKS + 1) - 1; k <= GW_PLAIN_MASKS; k++) gw_set_bit(t->plain[k], id);
    if (chars <= GW_PLAIN_MASKS) return;
    t->long_chars[t->n_long] = (uint16_t)chars;
    t->long_plain[t->n_long++] = id;
}

static void collect(list *l, const gw_vocabulary *v) {
    for (uint32_t id = 0; id < v->n; id++) {
        const uint8_t *text;
        uint8_t one[1];
        size_t len = gw_trie_piece(v, id, &text, one);
        if (!len) continue;
        if (text == one) {
            l->bytes[one[0]] = one[0];
            text = &l->bytes[one[0]];
        }
        l->p[l->n++] = (piece){ key_of(text, len), text, (uint32_t)len, id };
        if (plain_chars(text, len) > GW_PLAIN_MASKS) l->n_long++;
    }
    sort(&l->p, &l->spare, l->n);
}

/* Keeps one piece of each set of equal pieces, records the others as duplicates, and lists the pieces that are not
 * plain. */
static void sort_out(list *l, gw_duplicate *duplicates) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        const piece *p = &l->p[i], *last = kept ? &l->p[kept - 1] : NULL;
        if (last && last->len == p->len && !memcmp(last->text, p->text, p->len)) {
            duplicates[l->n_duplicates++] = (gw_duplicate){ p->id, last->id };
            continue;
        }
        l->p[kept++] = *p;
    }
    l->n = kept;
    for (size_t i = 0; i < kept; i++)
        if (!plain_chars(l->p[i].text, l->p[i].len)) l->spare[l->n_odd++] = l->p[i];
}

static void lay_out(gw_trie *t, const list *l, gw_arena *a) {
    t->duplicates = gw_arena_take(a, l->n_duplicates * sizeof *t->duplicates);
    for (int k = 0; k <= GW_PLAIN_MASKS; k++) t->plain[k] = gw_arena_take(a, t->words * sizeof **t->plain);
    t->long_plain = gw_arena_take(a, l->n_long * sizeof *t->long_plain);
    t->long_chars = gw_arena_take(a, l->n_long * sizeof *t->long_chars);
    take_tree(&t->all, count_nodes(l->p, l->n), a);
    take_tree(&t->odd, count_nodes(l->spare, l->n_odd), a);
}

static int fill(gw_trie *t, const list *l, const gw_duplicate *duplicates, uint32_t *open) {
    gw_arena a = { 0 };
    lay_out(t, l, &a);
    t->size = a.used;
    t->block = gw_alloc(gw_size(a.used));
    if (!t->block) return GW_E_NO_MEMORY;
    memset(t->block, 0, t->size);
    a = (gw_arena){ .base = t->block, .size = t->size };
    lay_out(t, l, &a);
    t->n_duplicates = (uint32_t)l->n_duplicates;
    if (t->n_duplicates) memcpy(t->duplicates, duplicates, t->n_duplicates * sizeof *duplicates);
    for (size_t i = 0; i < l->n; i++) {
        uint32_t chars = plain_chars(l->p[i].text, l->p[i].len);
        t->longest = (uint32_t)gw_max(t->longest, l->p[i].len);
        if (chars) note_plain(t, l->p[i].id, chars);
    }
    fill_tree(&t->all, l->p, l->n, open);
    fill_tree(&t->odd, l->spare, l->n_odd, open);
    return 0;
}

int gw_trie_make(gw_trie *t, const gw_vocabulary *v, gw_error *e) {
    memset(t, 0, sizeof *t);
    t->n_vocab = v->n;
    t->words = (v->n + 31) / 32;
    size_t n = v->n, bytes = 2 * n * sizeof(piece) + n * sizeof(gw_duplicate) + (GW_MAX_PIECE + 1) * 4 + 256;
    uint8_t *scratch = gw_alloc(bytes);
    if (!scratch) return gw_no_memory(e, "the vocabulary's trie", bytes);
    list l = { .p = (piece *)scratch, .spare = (piece *)scratch + n };
    gw_duplicate *duplicates = (gw_duplicate *)((piece *)scratch + 2 * n);
    uint32_t *open = (uint32_t *)(duplicates + n);
    l.bytes = (uint8_t *)(open + GW_MAX_PIECE + 1);
    collect(&l, v);
    sort_out(&l, duplicates);
    int bad = fill(t, &l, duplicates, open);
    gw_free(scratch);
    return bad ? gw_no_memory(e, "the vocabulary's trie", t->size) : 0;
}

void gw_trie_free(gw_trie *t) {
    gw_free(t->block);
    memset(t, 0, sizeof *t);
}

const uint32_t *gw_trie_plain(const gw_trie *t, uint32_t n) {
    return t->plain[n >= t->most_plain ? GW_PLAIN_MASKS : gw_min(n, GW_PLAIN_MASKS) - 1];
}

void gw_trie_long(const gw_trie *t, uint32_t n, uint32_t *mask) {
    bool some = n > GW_PLAIN_MASKS && n < t->most_plain;
    for (uint32_t i = 0; i < t->n_long && some; i++)
        if (t->long_chars[i] <= n) gw_set_bit(mask, t->long_plain[i]);
}
