/* tokenizer_impl: what tokenizer_build.c makes and tokenizer.c reads. Private to these two files.
 *
 * Pieces are kept with " " where the file has U+2581: SentencePiece's normaliser turned round.
 * So text needs no normalising, and a U+2581 in the text is a character like any other (it
 * becomes byte pieces), which makes decoding the exact inverse of encoding for every text. */
#ifndef GW_TOKENIZER_IMPL_H
#define GW_TOKENIZER_IMPL_H

#include "text/tokenizer.h"

/* Open addressing, linear probing; id1 is id + 1, 0 an empty slot. At most half full. */
typedef struct {
    uint32_t hash, id1;
} gw_slot;

/* One symbol of the segment that is being merged: text[start .. start of next). */
typedef struct {
    uint32_t start, prev, next;
    int32_t id;     /* of the symbol, -1 while it is a character that nothing was merged into */
    int32_t join;   /* piece that it would make with the next symbol, -1 for none */
} gw_symbol;

struct gw_tokenizer {
    /* While the pieces arrive; freed by finish. */
    gw_buffer in_text, in_ends, in_scores, in_types, in_merges;
    int32_t marked[8];    /* ids that are control tokens whatever their type */
    uint32_t n_marked;

    /* After finish: tables in one block, immutable. */
    void *block;
    size_t block_size;
    uint32_t n;
    uint8_t *text;        /* all pieces, one behind the other */
    uint32_t *ends;       /* [n] piece i is text[ends[i - 1] .. ends[i]) */
    float *scores;        /* [n] */
    uint8_t *types;       /* [n] GW_TOKEN_* */
    gw_slot *slots;       /* [slot_mask + 1] every piece but empty ones; duplicates: see build */
    uint32_t slot_mask;
    uint32_t reach;       /* no piece is further than this from where its hash says */
    uint8_t *pairs;       /* filter of the character pairs inside normal pieces, one bit each */
    uint32_t pair_mask;   /* bits - 1 */
    uint32_t *verbatim;   /* [n_verbatim] user-defined, control, unknown pieces, sorted by text */
    uint32_t n_verbatim;
    uint32_t first[257];  /* verbatim pieces that start with byte c: [first[c], first[c + 1]) */
    uint32_t max_normal;  /* bytes of the longest normal piece */
    int32_t bytes[256];   /* byte pieces, -1 if missing */
    int32_t unknown;      /* -1 if there is none; then no byte piece is missing */

    /* Scratch of encode: grows, is never given back before the tokenizer is freed. */
    void *scratch;
    size_t scratch_size;
};

static inline uint32_t gw_piece_begin(const gw_tokenizer *t, uint32_t id) {
    return id ? t->ends[id - 1] : 0;
}

static inline uint32_t gw_piece_len(const gw_tokenizer *t, uint32_t id) {
    return t->ends[id] - gw_piece_begin(t, id);
}

/* Lowest id of that text among the normal pieces (those that merging may make), or -1. */
int32_t gw_find_normal(const gw_tokenizer *t, const uint8_t *p, size_t len);

/* Bytes of the character at p, 1 for a byte that starts none. Looks at p[0..left) only, so a
 * character that is whole inside a piece is the same character in every text. */
static inline size_t gw_char_len(const uint8_t *p, size_t left) {
    if (p[0] < 0xC2 || p[0] > 0xF4) return 1;
    size_t n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n > left) return 1;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 1;
    return n;
}

static inline uint32_t gw_char_pack(const uint8_t *p, size_t n) {
    uint32_t c = 0;
    for (size_t i = 0; i < n; i++) c = c << 8 | p[i];
    return c;
}

/* Bit of the filter for character a followed by b. */
static inline uint32_t gw_pair_bit(const gw_tokenizer *t, uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 40) & t->pair_mask;
}

#endif
