/* bpe: see bpe.h. Merges become pairs of ids when the tokenizer is made, and are found in a hash table with linear
 * probing. The number of probes is bounded, because in hostile files many pairs can collide. merge_queue.h applies the
 * merges in order. */
#include "text/bpe.h"
#include "text/alphabet.h"
#include "text/errors.h"

#include <string.h>

enum { MOST_MERGE = 2 * GW_MAX_PIECE + 1, MOST_REACH = 256 };

int gw_bpe_add_merge(gw_bpe *b, const char *text, size_t len) {
    if (b->block) return GW_E_BAD_STATE;
    if (len > MOST_MERGE || memchr(text, 0, len)) return GW_E_BAD_TOKENIZER;
    if (b->n == GW_MAX_VOCAB || len >= GW_MAX_PIECES_TEXT - b->in_merges.used) return GW_E_BAD_COUNT;
    char *copy = gw_buffer_add(&b->in_merges, len + 1);
    if (!copy) return GW_E_NO_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    b->n++;
    return 0;
}

static uint32_t hash_pair(int32_t left, int32_t right) {
    return (uint32_t)((((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u) >> 32);
}

static int32_t find(const gw_bpe *b, int32_t left, int32_t right, uint32_t *slot) {
    uint32_t at = hash_pair(left, right) & b->slot_mask;
    for (uint32_t n = 0; b->slots[at] && n <= MOST_REACH; at = (at + 1) & b->slot_mask, n++) {
        const gw_merge *m = &b->merges[b->slots[at] - 1];
        if (m->left == left && m->right == right) {
            *slot = at;
            return (int32_t)(b->slots[at] - 1);
        }
    }
    *slot = at;
    return GW_NO_PIECE;
}

/* Adds a merge to the hash table. Returns false if too many pairs collide, which only happens in hostile files. */
static bool insert(gw_bpe *b, uint32_t i) {
    const gw_merge *m = &b->merges[i];
    uint32_t home = hash_pair(m->left, m->right) & b->slot_mask, at;
    if (find(b, m->left, m->right, &at) != GW_NO_PIECE) return true; /* only the first of equal merges counts */
    if (((at - home) & b->slot_mask) > MOST_REACH) return false;
    b->slots[at] = i + 1;
    return true;
}

/* Returns the piece that a merge in the file names by its text: a normal piece, or else one of any type. */
static int32_t named(const gw_vocabulary *v, const uint8_t *p, size_t len) {
    int32_t id = gw_find_normal(v, p, len);
    return id == GW_NO_PIECE ? gw_find_any(v, p, len) : id;
}

/* Decodes one side of a merge to bytes. `out` may overlap `text`, but must not begin after it. Returns the number of
 * bytes; 0 or less if the text is not valid. */
static int read_part(const gw_vocabulary *v, const uint8_t *text, size_t len, uint8_t *out) {
    return v->spelling == GW_BYTE_LEVEL ? gw_alphabet_read(text, len, out) : (int)gw_read_spaces(text, len, out);
}

/* Parses the text "left right" of a merge in place. Returns false unless both sides are pieces whose concatenation is a
 * piece, too. */
static bool read_merge(const gw_vocabulary *v, uint8_t *text, gw_merge *m) {
    size_t len = strlen((char *)text);
    const uint8_t *gap = len ? memchr(text + 1, ' ', len - 1) : NULL;
    if (!gap) return false;
    size_t first = (size_t)(gap - text);
    int a = read_part(v, text, first, text);
    int b = a > 0 ? read_part(v, text + first + 1, len - first - 1, text + a) : 0;
    if (b <= 0) return false;
    m->left = named(v, text, (size_t)a);
    m->right = named(v, text + a, (size_t)b);
    m->made = named(v, text, (size_t)(a + b));
    return m->left != GW_NO_PIECE && m->right != GW_NO_PIECE && m->made != GW_NO_PIECE;
}

/* Returns whether text may merge into a piece: never into a control token, whatever the file says. */
static bool may_make(const gw_vocabulary *v, int32_t id) {
    int type = v->types[id];
    return type == GW_TOKEN_NORMAL || type == GW_TOKEN_USER || type == GW_TOKEN_UNUSED;
}

static int read_merges(gw_bpe *b, const gw_vocabulary *v, gw_error *e) {
    uint8_t *text = b->in_merges.data;
    for (uint32_t i = 0; i < b->n; i++) {
        size_t len = strlen((char *)text);
        char shown[64];
        memcpy(shown, text, gw_min(len, sizeof shown - 1));
        shown[gw_min(len, sizeof shown - 1)] = 0;
        if (!read_merge(v, text, &b->merges[i])) return gw_fail(e, MSG_MERGE, i, shown);
        if (!may_make(v, b->merges[i].made)) b->merges[i].made = GW_NO_PIECE;
        if (!insert(b, i)) return gw_fail(e, MSG_COLLISIONS, "Merge", i);
        text += len + 1;
    }
    return 0;
}

static int make_tables(gw_bpe *b) {
    uint32_t slots = gw_power_of_two((size_t)b->n * 2);
    b->slot_mask = slots - 1;
    size_t merges = gw_round_up(b->n * sizeof *b->merges, GW_ALIGN);
    b->block_size = merges + slots * sizeof *b->slots;
    b->block = gw_alloc(b->block_size);
    if (!b->block) return GW_E_NO_MEMORY;
    b->merges = b->block;
    b->slots = (uint32_t *)((uint8_t *)b->block + merges);
    memset(b->slots, 0, slots * sizeof *b->slots);
    return 0;
}

int gw_bpe_make(gw_bpe *b, const gw_vocabulary *v, const char *pre, gw_error *e) {
    b->split = gw_split_named(pre);
    if (v->spelling == GW_BYTE_LEVEL && b->split == GW_SPLIT_UNKNOWN)
        return gw_fail(e, MSG_PRE_TOKENIZER, pre ? pre : "no string");
    if (!b->n) return gw_fail(e, MSG_LIST_EMPTY(GW_E_BAD_TOKENIZER), "merges");
    if (make_tables(b)) return gw_no_memory(e, "the tokenizer", 0);
    int code = read_merges(b, v, e);
    gw_buffer_free(&b->in_merges);
    return code;
}

void gw_bpe_free(gw_bpe *b) {
    gw_buffer_free(&b->in_merges);
    gw_free(b->block);
}

size_t gw_bpe_bytes(const gw_bpe *b) { return b->block_size + b->in_merges.size; }

static int32_t look(const void *tokenizer, const gw_word *w, uint32_t i) {
    const gw_bpe *b = tokenizer;
    const gw_symbol *left = &w->symbols[i];
    uint32_t slot;
    int32_t merge = find(b, left->id, w->symbols[left->next].id, &slot);
    return merge == GW_NO_PIECE || b->merges[merge].made == GW_NO_PIECE ? GW_NO_PIECE : merge;
}

static uint32_t order(const void *tokenizer, int32_t merge) {
    (void)tokenizer;
    return (uint32_t)merge;
}

static int32_t made(const void *tokenizer, int32_t merge) { return ((const gw_bpe *)tokenizer)->merges[merge].made; }

void gw_bpe_merge(const gw_bpe *b, gw_word *w) { gw_merge_all(w, b, look, order, made); }

static int emit(const gw_vocabulary *v, int32_t id, gw_ids *to) {
    if (id == GW_NO_PIECE) id = v->unknown;
    return id == GW_NO_PIECE ? 0 : gw_ids_add(to, id);
}

static int encode_word(const gw_bpe *b, const gw_vocabulary *v, gw_scratch *scratch, const uint8_t *text, size_t len,
                       gw_ids *to) {
    gw_word w;
    bool whole_words = b->split == GW_SPLIT_LLAMA3;
    int32_t whole = len == 1 ? v->bytes[text[0]] : whole_words ? gw_find_normal(v, text, len) : GW_NO_PIECE;
    if (len == 1 || whole != GW_NO_PIECE) return emit(v, whole, to);
    int code = gw_scratch_word(scratch, len, 0, &w);
    if (code) return code;
    w.text = text;
    for (uint32_t i = 0; i <= w.n; i++) gw_word_symbol(&w, i, i, i < w.n ? v->bytes[text[i]] : GW_NO_PIECE);
    gw_bpe_merge(b, &w);
    for (uint32_t i = 0; i < w.n && !code; i = w.symbols[i].next) code = emit(v, w.symbols[i].id, to);
    return code;
}

int gw_bpe_encode(const gw_bpe *b, const gw_vocabulary *v, gw_scratch *scratch, gw_text_span text, gw_ids *to,
                  size_t *taken) {
    int code = 0;
    *taken = 0;
    for (size_t at = 0; at < text.len && !code;) {
        size_t n = gw_split_word(b->split, text.p + at, text.len - at);
        if (at + n > text.limit) break;
        code = encode_word(b, v, scratch, text.p + at, n, to);
        *taken = at += n;
    }
    return code;
}
