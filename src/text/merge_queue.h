/* merge_queue: merges the symbols of a word pair by pair, best pair first, leftmost on ties, until no pair merges. The
 * tokenizer (spm or bpe) defines the result of each pair and the order of pairs. With a heap, n symbols take O(n log
 * n). */
#ifndef GW_MERGE_QUEUE_H
#define GW_MERGE_QUEUE_H

#include "base/base.h"

enum { GW_NO_PIECE = -1 };

/* Maximum number of symbols in one word. No text that fits a model's context has more, and each costs 36 bytes of
 * scratch memory. */
enum { GW_MAX_WORD = 1 << 22 };

/* A text to encode; words or other separately merged parts that end after byte `limit` are omitted. */
typedef struct {
    const uint8_t *p;
    size_t len, limit;
} gw_text_span;

/* An output buffer of ids; n of its `cap` ids are written. */
typedef struct {
    int32_t *ids;
    size_t n, cap;
} gw_ids;

static inline int gw_ids_add(gw_ids *to, int32_t id) {
    if (to->n == to->cap) return GW_E_BAD_OPTION;
    to->ids[to->n++] = id;
    return 0;
}

/* A symbol of a word: text[start .. start of symbol `next`). */
typedef struct {
    uint32_t start, prev, next;
    int32_t id;    /* piece of the symbol, or GW_NO_PIECE */
    int32_t merge; /* merge of the symbol with the next one, or GW_NO_PIECE */
} gw_symbol;

/* A word that is being encoded. `keys` is a min-heap. A key holds the rank of a pair in its high half and the left
 * symbol in its low half, so the leftmost pair wins ties. A stale entry, whose pair has changed since, stays in the
 * heap; it no longer agrees with the symbol's `merge` and is dropped when it is popped. */
typedef struct {
    const uint8_t *text;
    gw_symbol *symbols; /* [n + 1] symbols, of which the last only marks the end of the word */
    uint64_t *keys;     /* at most 2 n entries: n - 1 pairs at first, and at most one more for each of n - 1 merges */
    uint8_t *copy;      /* [copied] copy of a text that must be modified before encoding */
    uint32_t n;
    size_t n_keys;
} gw_word;

/* Scratch memory for encoding, which grows with the longest word. After a text, gw_scratch_trim frees it if it exceeds
 * 1 MB. */
typedef struct {
    void *block;
    size_t size;
} gw_scratch;

/* Makes room in the scratch memory for a word of n symbols and `copied` bytes of text. Returns 0, GW_E_NO_MEMORY, or
 * GW_E_BAD_COUNT above GW_MAX_WORD. */
int gw_scratch_word(gw_scratch *s, size_t n, size_t copied, gw_word *w);
void gw_scratch_trim(gw_scratch *s);
void gw_scratch_free(gw_scratch *s);

/* Sets symbol i of a word, which begins at `start`. Symbol n marks the end of the word. */
static inline void gw_word_symbol(gw_word *w, uint32_t i, uint32_t start, int32_t id) {
    w->symbols[i] = (gw_symbol){ start, i - 1, i + 1, id, GW_NO_PIECE };
}

void gw_word_push(gw_word *w, uint64_t key);
uint64_t gw_word_pop(gw_word *w);

/* Returns the merge of symbol i with the next one, as a number that the tokenizer chooses, or GW_NO_PIECE. */
typedef int32_t gw_look(const void *tokenizer, const gw_word *w, uint32_t i);
/* Returns the rank of a merge; the pair with the lowest rank merges first. */
typedef uint32_t gw_order(const void *tokenizer, int32_t merge);
typedef int32_t gw_made(const void *tokenizer, int32_t merge); /* returns the id of the merged symbol */

#define GW_INLINE static inline __attribute__((always_inline))

GW_INLINE void gw_look_ahead(gw_word *w, const void *tokenizer, gw_look *look, gw_order *order, uint32_t i) {
    gw_symbol *a = &w->symbols[i];
    a->merge = a->next == w->n ? GW_NO_PIECE : look(tokenizer, w, i);
    if (a->merge != GW_NO_PIECE) gw_word_push(w, (uint64_t)order(tokenizer, a->merge) << 32 | i);
}

/* Merges the pairs of a word until no pair merges. Inlined into each tokenizer, so that the callbacks are inlined,
 * too. */
GW_INLINE void gw_merge_all(gw_word *w, const void *tokenizer, gw_look *look, gw_order *order, gw_made *made) {
    w->n_keys = 0;
    for (uint32_t i = 0; i + 1 < w->n; i++) gw_look_ahead(w, tokenizer, look, order, i);
    while (w->n_keys) {
        uint64_t key = gw_word_pop(w);
        uint32_t i = (uint32_t)key;
        gw_symbol *a = &w->symbols[i], *b = &w->symbols[a->next];
        if (a->merge == GW_NO_PIECE || order(tokenizer, a->merge) != key >> 32) continue;
        a->id = made(tokenizer, a->merge);
        a->next = b->next;
        b->merge = GW_NO_PIECE;
        w->symbols[a->next].prev = i;
        gw_look_ahead(w, tokenizer, look, order, i);
        if (i) gw_look_ahead(w, tokenizer, look, order, a->prev);
    }
}

#endif
