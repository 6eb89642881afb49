/* added: see added.h. The tokens are an array sorted by text, which is searched byte by byte. */
#include "text/added.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint8_t *text;
    uint32_t len, id;
    bool user;
} entry;

static int compare_text(const entry *a, const entry *b) {
    int order = memcmp(a->text, b->text, gw_min(a->len, b->len));
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare(const void *x, const void *y) {
    const entry *a = x, *b = y;
    int order = compare_text(a, b);
    if (!order) order = a->user - b->user;
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

static bool is_added(const gw_vocabulary *v, uint32_t id) {
    int type = v->types[id];
    return (type == GW_TOKEN_USER || type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN) && gw_piece_len(v, id);
}

static uint32_t list_pieces(const gw_vocabulary *v, entry *list) {
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        if (!is_added(v, id)) continue;
        bool user = v->types[id] == GW_TOKEN_USER;
        if (list) list[n] = (entry){ gw_piece_text(v, id), gw_piece_len(v, id), id, user };
        n++;
    }
    return n;
}

/* Keeps one piece per text and kind (user-defined or not), so at most two pieces have the same text. */
int gw_added_make(gw_added_tokens *m, const gw_vocabulary *v) {
    uint32_t n = list_pieces(v, NULL);
    entry *list = gw_alloc(n * sizeof *list);
    m->v = v;
    m->size = n * sizeof *m->ids;
    m->ids = gw_alloc(m->size);
    if (!list || !m->ids) {
        gw_free(list);
        return GW_E_NO_MEMORY;
    }
    list_pieces(v, list);
    qsort(list, n, sizeof *list, compare);
    for (uint32_t i = 0; i < n; i++) {
        bool again = i && list[i].user == list[i - 1].user && !compare_text(&list[i], &list[i - 1]);
        if (again) continue;
        m->ids[m->n++] = list[i].id;
        m->longest = (uint32_t)gw_max(m->longest, list[i].len);
        m->first[list[i].text[0] + 1] = m->n;
    }
    for (int c = 1; c <= 256; c++) m->first[c] = (uint32_t)gw_max(m->first[c], m->first[c - 1]);
    gw_free(list);
    return 0;
}

void gw_added_free(gw_added_tokens *m) { gw_free(m->ids); }

static int byte_of(const gw_added_tokens *m, uint32_t at, uint32_t depth) {
    return gw_piece_text(m->v, m->ids[at])[depth];
}

/* Returns the index of the first of the pieces ids[lo..hi) whose byte at `depth` is >= c. All of these pieces are
 * longer than `depth` and share the bytes before it. */
static uint32_t lower_bound(const gw_added_tokens *m, uint32_t lo, uint32_t hi, uint32_t depth, int c) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_of(m, mid, depth) < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Narrows the range of matching pieces in the sorted list byte by byte; pieces that end at the current depth are at the
 * start of the range. */
size_t gw_added_match(const gw_added_tokens *m, const uint8_t *text, size_t len, bool special, int32_t *id) {
    uint32_t lo = m->first[text[0]], hi = m->first[text[0] + 1];
    size_t best = 0;
    for (uint32_t depth = 1; lo < hi; depth++) {
        for (; lo < hi && gw_piece_len(m->v, m->ids[lo]) == depth; lo++) {
            if (!special && m->v->types[m->ids[lo]] != GW_TOKEN_USER) continue;
            best = depth;
            *id = (int32_t)m->ids[lo];
        }
        if (depth == len) break;
        int c = text[depth];
        /* The range need not be narrowed if all its pieces have this byte. */
        if (lo < hi && byte_of(m, lo, depth) == c && byte_of(m, hi - 1, depth) == c) continue;
        lo = lower_bound(m, lo, hi, depth, c);
        if (lo < hi && byte_of(m, lo, depth) != c) break;
        hi = lower_bound(m, lo, hi, depth, c + 1);
    }
    return best;
}

size_t gw_added_next(const gw_added_tokens *m, const uint8_t *text, size_t len, bool special) {
    int32_t id;
    for (size_t at = 0; at < len; at += gw_char_len(text + at, len - at)) {
        bool none = m->first[text[at]] == m->first[text[at] + 1];
        if (!none && gw_added_match(m, text + at, len - at, special, &id)) return at;
    }
    return len;
}
