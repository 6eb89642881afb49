/* spm: see spm.h. A text is split into segments between two characters that are not adjacent in any piece. No merge can
 * cross such a position, so each segment is merged separately, and short segments keep the scratch memory small. */
#include "text/spm.h"

#include <string.h>

static uint32_t char_pack(const uint8_t *p, size_t n) {
    uint32_t c = 0;
    for (size_t i = 0; i < n; i++) c = c << 8 | p[i];
    return c;
}

static uint32_t pair_bit(const gw_spm *s, uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 40) & s->pair_mask;
}

/* Records which characters are neighbours inside a piece. Not inlined: browsers optimise only functions that are called
 * often. */
__attribute__((noinline)) static void note_pairs(gw_spm *s, const uint8_t *p, size_t len) {
    uint32_t before = 0;
    for (size_t i = 0, n; i < len; i += n) {
        n = gw_char_len(p + i, len - i);
        uint32_t c = char_pack(p + i, n), bit = pair_bit(s, before, c);
        if (i) s->pairs[bit >> 3] |= (uint8_t)(1 << (bit & 7));
        before = c;
    }
    s->max_normal = (uint32_t)gw_max(s->max_normal, len);
}

int gw_spm_make(gw_spm *s, const gw_vocabulary *v, const gw_bpe *merges) {
    uint32_t bits = gw_power_of_two((size_t)v->n * 4);
    s->merges = merges;
    s->pairs = gw_alloc(bits / 8);
    if (!s->pairs) return GW_E_NO_MEMORY;
    memset(s->pairs, 0, bits / 8);
    s->pair_mask = bits - 1;
    for (uint32_t id = 0; id < v->n; id++)
        if (merges || v->types[id] == GW_TOKEN_NORMAL) note_pairs(s, gw_piece_text(v, id), gw_piece_len(v, id));
    return 0;
}

void gw_spm_free(gw_spm *s) { gw_free(s->pairs); }

size_t gw_spm_bytes(const gw_spm *s) { return s->pairs ? (s->pair_mask + (size_t)1) / 8 : 0; }

typedef struct {
    const gw_spm *s;
    const gw_vocabulary *v;
    gw_scratch *scratch;
    gw_ids *to;
} job;

static int32_t look(const void *tokenizer, const gw_word *w, uint32_t i) {
    const job *j = tokenizer;
    const gw_symbol *a = &w->symbols[i];
    uint32_t len = w->symbols[w->symbols[a->next].next].start - a->start;
    return len > j->s->max_normal ? GW_NO_PIECE : gw_find_normal(j->v, w->text + a->start, len);
}

/* Returns the rank of a piece's score: lower for a higher score, equal only for equal scores. A score is never NaN or
 * -0. */
static uint32_t order(const void *tokenizer, int32_t merge) {
    uint32_t bits;
    memcpy(&bits, &((const job *)tokenizer)->v->scores[merge], sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFF;
}

static int32_t made(const void *tokenizer, int32_t merge) {
    (void)tokenizer;
    return merge;
}

/* Emits a character that was not merged: its piece, or the pieces of its bytes, or the unknown piece. */
static int emit_char(const job *j, const uint8_t *p, size_t len) {
    const gw_vocabulary *v = j->v;
    int32_t id = gw_find_normal(v, p, len);
    if (id != GW_NO_PIECE) return gw_ids_add(j->to, id);
    for (size_t i = 0; i < len; i++)
        if (v->bytes[p[i]] == GW_NO_PIECE) return gw_ids_add(j->to, v->unknown);
    int code = 0;
    for (size_t i = 0; i < len && !code; i++) code = gw_ids_add(j->to, v->bytes[p[i]]);
    return code;
}

/* Encodes a segment text[0..len) of `chars` characters. If `prefix` is set, a space is put before the text and counts
 * as one of the characters. */
static int encode_segment(const job *j, const uint8_t *text, size_t len, size_t chars, bool prefix) {
    gw_word w;
    if (chars == 1) return prefix ? emit_char(j, (const uint8_t *)" ", 1) : emit_char(j, text, len);
    int code = gw_scratch_word(j->scratch, chars, prefix ? len + 1 : 0, &w);
    if (code) return code;
    w.text = text;
    if (prefix) {
        w.copy[0] = ' ';
        memcpy(w.copy + 1, text, len++);
        w.text = w.copy;
    }
    uint32_t start = 0;
    for (uint32_t i = 0; i <= w.n; i++) {
        size_t n = i < w.n ? gw_char_len(w.text + start, len - start) : 0;
        gw_word_symbol(&w, i, start, n && j->s->merges ? gw_find_normal(j->v, w.text + start, n) : GW_NO_PIECE);
        start += (uint32_t)n;
    }
    if (j->s->merges) gw_bpe_merge(j->s->merges, &w);
    else gw_merge_all(&w, j, look, order, made);
    for (uint32_t i = 0; i < w.n && !code; i = w.symbols[i].next) {
        const gw_symbol *a = &w.symbols[i];
        code = a->id != GW_NO_PIECE ? gw_ids_add(j->to, a->id)
                                    : emit_char(j, w.text + a->start, w.symbols[a->next].start - a->start);
    }
    return code;
}

static size_t segment_end(const gw_spm *s, const uint8_t *text, size_t len, bool prefix, size_t *chars) {
    size_t at = prefix ? 0 : gw_char_len(text, len), n;
    uint32_t before = prefix ? ' ' : char_pack(text, at);
    *chars = 1;
    for (; at < len; at += n, ++*chars) {
        n = gw_char_len(text + at, len - at);
        uint32_t c = char_pack(text + at, n), bit = pair_bit(s, before, c);
        if (!(s->pairs[bit >> 3] >> (bit & 7) & 1)) break;
        before = c;
    }
    return at;
}

int gw_spm_encode(const gw_spm *s, const gw_vocabulary *v, gw_scratch *scratch, gw_text_span text, bool prefix,
                  gw_ids *to, size_t *taken) {
    job j = { s, v, scratch, to };
    int code = 0;
    *taken = 0;
    for (size_t at = 0, chars; (at < text.len || prefix) && !code; prefix = false) {
        size_t n = segment_end(s, text.p + at, text.len - at, prefix, &chars);
        if (at + n > text.limit) break;
        code = encode_segment(&j, text.p + at, n, chars, prefix);
        *taken = at += n;
    }
    return code;
}
