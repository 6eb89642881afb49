/* tokenizer: text to ids, by SentencePiece's BPE on scores (Kudo and Richardson 2018; the file has
 * no list of merges): of all adjacent symbols join the pair whose joined text is the piece with
 * the highest score, the leftmost on ties, until none is left. Knows the tables of
 * tokenizer_impl.h and nothing else.
 *
 * User-defined pieces (and control pieces, when allowed) are cut out of the text first, leftmost
 * and longest. What lies between is cut again where two characters meet that follow each other
 * in no piece: no merge can reach across, so each segment merges alone, and short segments keep
 * the scratch memory small. A segment of n characters costs O(n log n) with a heap. */
#include "text/tokenizer_impl.h"

#include <string.h>

enum { NONE = -1 };

typedef struct {
    gw_tokenizer *t;
    const uint8_t *text;
    size_t len;
    int flags;
    int32_t *ids;
    size_t n, cap;
} job;

static int emit(job *j, int32_t id) {
    if (j->n == j->cap) return GW_E_BAD_OPTION;
    j->ids[j->n++] = id;
    return 0;
}

/* --- pieces that match verbatim --------------------------------------------------------------- */

static int byte_of(const gw_tokenizer *t, uint32_t at, uint32_t depth) {
    return t->text[gw_piece_begin(t, t->verbatim[at]) + depth];
}

/* First of verbatim[lo..hi), all longer than `depth` and alike before it, with byte >= c there. */
static uint32_t lower_bound(const gw_tokenizer *t, uint32_t lo, uint32_t hi, uint32_t depth,
                            int c) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_of(t, mid, depth) < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Length of the longest piece that the text starts with, 0 for none. Narrows the sorted list byte
 * by byte; pieces that end at this depth come first in what is left. */
static size_t match_verbatim(const job *j, size_t at, int32_t *id) {
    const gw_tokenizer *t = j->t;
    uint32_t lo = t->first[j->text[at]], hi = t->first[j->text[at] + 1];
    size_t best = 0, left = j->len - at;
    for (uint32_t depth = 1; lo < hi; depth++) {
        for (; lo < hi && gw_piece_len(t, t->verbatim[lo]) == depth; lo++) {
            bool user = t->types[t->verbatim[lo]] == GW_TOKEN_USER;
            if (!user && !(j->flags & GW_TOKENIZE_SPECIAL)) continue;
            best = depth;
            *id = (int32_t)t->verbatim[lo];
        }
        if (depth == left) break;
        int c = j->text[at + depth];
        if (lo < hi && byte_of(t, lo, depth) == c && byte_of(t, hi - 1, depth) == c) continue;   /* all of them */
        lo = lower_bound(t, lo, hi, depth, c);
        if (lo < hi && byte_of(t, lo, depth) != c) break;
        hi = lower_bound(t, lo, hi, depth, c + 1);
    }
    return best;
}

/* --- segments --------------------------------------------------------------------------------- */

/* End of the segment that starts at `at`, and its number of characters. */
static size_t segment_end(const job *j, size_t at, size_t *chars) {
    const gw_tokenizer *t = j->t;
    int32_t id;
    size_t n = gw_char_len(j->text + at, j->len - at);
    uint32_t before = gw_char_pack(j->text + at, n);
    *chars = 1;
    for (at += n; at < j->len; at += n, ++*chars) {
        n = gw_char_len(j->text + at, j->len - at);
        uint32_t c = gw_char_pack(j->text + at, n), bit = gw_pair_bit(t, before, c);
        if (!(t->pairs[bit >> 3] >> (bit & 7) & 1)) break;
        if (match_verbatim(j, at, &id)) break;
        before = c;
    }
    return at;
}

/* Heap with the smallest key on top. A key is the order of the pair's score and, below it, the
 * left symbol: so ties go to the leftmost. An entry whose pair has changed since stays in the
 * heap; it no longer agrees with the symbol's `join`, and is dropped when it comes up. */
typedef struct {
    uint64_t *keys;
    size_t n;
} heap;

static void push(heap *h, uint64_t key) {
    size_t at = h->n++;
    while (at && h->keys[(at - 1) / 2] > key) {
        h->keys[at] = h->keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->keys[at] = key;
}

static uint64_t pop(heap *h) {
    uint64_t top = h->keys[0], key = h->keys[--h->n];
    size_t at = 0, child = 1;
    while (child < h->n) {
        child += child + 1 < h->n && h->keys[child + 1] < h->keys[child];
        if (h->keys[child] >= key) break;
        h->keys[at] = h->keys[child];
        at = child;
        child = 2 * at + 1;
    }
    h->keys[at] = key;
    return top;
}

/* Smaller for higher scores; equal only for equal ones (a score is never NaN or -0). */
static uint32_t score_order(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFF;
}

typedef struct {
    const gw_tokenizer *t;
    const uint8_t *text;   /* of the segment */
    gw_symbol *symbols;    /* [n + 1]: the last one only marks the end */
    uint32_t n;
    heap pairs;            /* at most 2 n: n - 1 at first, and one more by each of n - 1 merges */
} segment;

/* Looks up what symbol i makes with the next one. */
static void look_ahead(segment *s, uint32_t i) {
    gw_symbol *a = &s->symbols[i];
    a->join = NONE;
    if (a->next == s->n) return;
    uint32_t len = s->symbols[s->symbols[a->next].next].start - a->start;
    if (len > s->t->max_normal) return;
    a->join = gw_find_normal(s->t, s->text + a->start, len);
    if (a->join != NONE) push(&s->pairs, (uint64_t)score_order(s->t->scores[a->join]) << 32 | i);
}

static void join_next(segment *s, uint32_t i) {
    gw_symbol *a = &s->symbols[i], *b = &s->symbols[a->next];
    a->id = a->join;
    a->next = b->next;
    b->join = NONE;
    s->symbols[a->next].prev = i;
    look_ahead(s, i);
    if (i) look_ahead(s, a->prev);
}

static void merge(segment *s) {
    for (uint32_t i = 0; i + 1 < s->n; i++) look_ahead(s, i);
    while (s->pairs.n) {
        uint64_t key = pop(&s->pairs);
        uint32_t i = (uint32_t)key;
        int32_t join = s->symbols[i].join;
        if (join != NONE && score_order(s->t->scores[join]) == key >> 32) join_next(s, i);
    }
}

/* One character that no merge took: its piece, or its bytes' pieces, or the unknown piece. */
static int emit_char(job *j, const uint8_t *p, size_t len) {
    const gw_tokenizer *t = j->t;
    int32_t id = gw_find_normal(t, p, len);
    if (id != NONE) return emit(j, id);
    for (size_t i = 0; i < len; i++)
        if (t->bytes[p[i]] == NONE) return emit(j, t->unknown);
    int code = 0;
    for (size_t i = 0; i < len && !code; i++) code = emit(j, t->bytes[p[i]]);
    return code;
}

/* Scratch for n symbols and their heap. */
static int reserve(gw_tokenizer *t, size_t n, segment *s) {
    size_t keys = 2 * n * sizeof(uint64_t), size = keys + (n + 1) * sizeof(gw_symbol);
    if (size > t->scratch_size) {
        size_t grown = gw_max(size, gw_min(2 * t->scratch_size, size + (1 << 20)));
        gw_free(t->scratch);
        t->scratch = gw_alloc(grown);
        t->scratch_size = t->scratch ? grown : 0;
        if (!t->scratch) return GW_E_NO_MEMORY;
    }
    s->pairs = (heap){ t->scratch, 0 };
    s->symbols = (gw_symbol *)((uint8_t *)t->scratch + keys);
    return 0;
}

static int encode_segment(job *j, size_t at, size_t end, size_t chars) {
    const uint8_t *text = j->text + at;
    if (chars == 1) return emit_char(j, text, end - at);
    segment s = { .t = j->t, .text = text, .n = (uint32_t)chars };
    int code = reserve(j->t, chars, &s);
    if (code) return code;
    uint32_t start = 0;
    for (uint32_t i = 0; i <= s.n; i++) {
        s.symbols[i] = (gw_symbol){ start, i - 1, i + 1, NONE, NONE };
        if (i < s.n) start += (uint32_t)gw_char_len(text + start, j->len - at - start);
    }
    merge(&s);
    for (uint32_t i = 0; i < s.n && !code; i = s.symbols[i].next) {
        const gw_symbol *a = &s.symbols[i];
        code = a->id != NONE ? emit(j, a->id)
                             : emit_char(j, text + a->start, s.symbols[a->next].start - a->start);
    }
    return code;
}

int gw_tokenizer_encode(gw_tokenizer *t, const char *text, size_t len, int flags, int32_t *ids,
                        size_t cap) {
    if (!t->n) return GW_E_BAD_STATE;
    if (len > INT32_MAX / 2) return GW_E_BAD_OPTION;
    job j = { t, (const uint8_t *)text, len, flags, ids, 0, cap };
    int code = 0;
    for (size_t at = 0, end; at < len && !code; at = end) {
        int32_t id = NONE;
        size_t chars, matched = match_verbatim(&j, at, &id);
        end = matched ? at + matched : segment_end(&j, at, &chars);
        code = matched ? emit(&j, id) : encode_segment(&j, at, end, chars);
    }
    return code ? code : (int)j.n;
}
