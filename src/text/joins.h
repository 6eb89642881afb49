/* joins: a word as symbols that are joined two by two, best pair first, the leftmost of equals, until no pair makes
 * anything. What a pair makes and which is best is for the one who joins: spm or bpe. Also where the ids of a text
 * go, and the scratch memory of that work. n symbols cost O(n log n) with a heap. */
#ifndef GW_JOINS_H
#define GW_JOINS_H

#include "base/base.h"

enum { GW_NO_PIECE = -1 };

/* Symbols of one word: more are refused, for their scratch (36 bytes each) would only be there for hostile texts; a
 * text that a model can take in has fewer. */
enum { GW_MAX_WORD = 1 << 22 };

/* A text of which nothing that ends behind `limit` is wanted. */
typedef struct {
    const uint8_t *p;
    size_t len, limit;
} gw_span;

/* The ids of a text, [0..n) of cap. */
typedef struct {
    int32_t *ids;
    size_t n, cap;
} gw_ids;

static inline int gw_ids_add(gw_ids *to, int32_t id) {
    if (to->n == to->cap) return GW_E_BAD_OPTION;
    to->ids[to->n++] = id;
    return 0;
}

/* One symbol of the word: text[start .. start of next). */
typedef struct {
    uint32_t start, prev, next;
    int32_t id;   /* of the symbol, or GW_NO_PIECE */
    int32_t join; /* what it would make with the next symbol, or GW_NO_PIECE */
} gw_symbol;

/* keys is a heap with the smallest key on top. A key is the order of the pair and, below it, the left symbol: so ties
 * go to the leftmost. An entry whose pair has changed since stays in the heap; it no longer agrees with the symbol's
 * `join`, and is dropped when it comes up. */
typedef struct {
    const uint8_t *text;
    gw_symbol *symbols; /* [n + 1]: the last one only marks the end */
    uint64_t *keys;     /* at most 2 n: n - 1 at first, and one more by each of n - 1 joins */
    uint8_t *copy;      /* [copied] for a text that must be changed first */
    uint32_t n;
    size_t n_keys;
} gw_word;

/* Grows for longer words only; a huge one is given back when its text is done. */
typedef struct {
    void *block;
    size_t size;
} gw_scratch;

/* Room for n symbols and `copied` bytes. 0, GW_E_NO_MEMORY, or GW_E_BAD_COUNT above GW_MAX_WORD. */
int gw_scratch_word(gw_scratch *s, size_t n, size_t copied, gw_word *w);
void gw_scratch_trim(gw_scratch *s);
void gw_scratch_free(gw_scratch *s);

/* Symbol i begins at `start`; the symbol n ends the word. */
static inline void gw_word_symbol(gw_word *w, uint32_t i, uint32_t start, int32_t id) {
    w->symbols[i] = (gw_symbol){ start, i - 1, i + 1, id, GW_NO_PIECE };
}

void gw_word_push(gw_word *w, uint64_t key);
uint64_t gw_word_pop(gw_word *w);

/* What symbol i and the one behind it make: a number of the joiner's, or GW_NO_PIECE. */
typedef int32_t gw_look(const void *joiner, const gw_word *w, uint32_t i);
/* Smaller for what is joined first. */
typedef uint32_t gw_order(const void *joiner, int32_t join);
typedef int32_t gw_made(const void *joiner, int32_t join); /* the id of the joined symbol */

#define GW_INLINE static inline __attribute__((always_inline))

GW_INLINE void gw_look_ahead(gw_word *w, const void *joiner, gw_look *look, gw_order *order, uint32_t i) {
    gw_symbol *a = &w->symbols[i];
    a->join = a->next == w->n ? GW_NO_PIECE : look(joiner, w, i);
    if (a->join != GW_NO_PIECE) gw_word_push(w, (uint64_t)order(joiner, a->join) << 32 | i);
}

/* Inlined into each joiner, so that its look-ups are no calls. */
GW_INLINE void gw_join_all(gw_word *w, const void *joiner, gw_look *look, gw_order *order, gw_made *made) {
    w->n_keys = 0;
    for (uint32_t i = 0; i + 1 < w->n; i++) gw_look_ahead(w, joiner, look, order, i);
    while (w->n_keys) {
        uint64_t key = gw_word_pop(w);
        uint32_t i = (uint32_t)key;
        gw_symbol *a = &w->symbols[i], *b = &w->symbols[a->next];
        if (a->join == GW_NO_PIECE || order(joiner, a->join) != key >> 32) continue;
        a->id = made(joiner, a->join);
        a->next = b->next;
        b->join = GW_NO_PIECE;
        w->symbols[a->next].prev = i;
        gw_look_ahead(w, joiner, look, order, i);
        if (i) gw_look_ahead(w, joiner, look, order, a->prev);
    }
}

#endif
