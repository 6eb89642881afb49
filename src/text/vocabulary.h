/* vocabulary: the pieces of a tokenizer, that is, its tokens with their texts, types and scores, and look-ups by text.
 * Built piece by piece, then finished and immutable. spm.h and bpe.h split texts into pieces.
 *
 * Pieces are stored as the bytes of text that they represent: " " where a score-based vocabulary has U+2581, and bytes
 * instead of characters of GPT-2's alphabet. So decoding is the exact inverse of encoding. */
#ifndef GW_VOCABULARY_H
#define GW_VOCABULARY_H

#include "base/base.h"

/* Token types as GGUF's tokenizer.ggml.token_type numbers them. */
enum {
    GW_TOKEN_NORMAL = 1,
    GW_TOKEN_UNKNOWN = 2,
    GW_TOKEN_CONTROL = 3,
    GW_TOKEN_USER = 4,
    GW_TOKEN_UNUSED = 5,
    GW_TOKEN_BYTE = 6,
};

/* Maximum bytes of one piece and of all pieces, for hostile files: Gemma's longest piece has 93 bytes, all together
 * 3 million. */
enum { GW_MAX_PIECE = 1024, GW_MAX_PIECES_TEXT = 1 << 26 };

/* A slot of the hash table of pieces, which has open addressing and linear probing and is at most half full. id1 is id
 * + 1, or 0 for an empty slot. */
typedef struct {
    uint32_t hash, id1;
} gw_slot;

/* The spelling of pieces, and the arrays that a file must have. BY_SCORE: U+2581 for a space, a score for each piece.
 * BYTE_LEVEL: GPT-2's alphabet, and merges. BY_MERGES: as BY_SCORE, but merges instead of scores (Gemma 4). */
typedef enum { GW_BY_SCORE, GW_BYTE_LEVEL, GW_BY_MERGES } gw_spelling;

typedef struct {
    /* Input buffers while pieces are added; freed when the vocabulary is finished. */
    gw_buffer in_text, in_ends, in_scores, in_types;
    int32_t marked[8]; /* ids that are control tokens whatever their type */
    uint32_t n_marked;
    gw_spelling spelling;

    /* Immutable tables in one block, set when the vocabulary is finished. */
    void *block;
    size_t block_size;
    uint32_t n; /* number of pieces, 0 until the vocabulary is finished without an error */
    uint8_t *text;
    uint32_t *ends; /* [n] piece i is text[ends[i - 1] .. ends[i]), piece 0 begins at 0 */
    float *scores;  /* [n] scores of the pieces; NULL if a list of merges determines the merge order */
    uint8_t *types;
    gw_slot *slots; /* [slot_mask + 1] hash table of every non-empty piece; for duplicates see insert() */
    uint32_t slot_mask;
    uint32_t reach;     /* greatest distance of a piece from the slot of its hash */
    int32_t bytes[256]; /* the piece of each byte, -1 if there is none */
    int32_t unknown;    /* the unknown piece, -1 if there is none; a score-based vocabulary then has all byte pieces */
} gw_vocabulary;

/* Each gw_vocabulary_… function does what tokenizer.h says of gw_tokenizer_… with the same name. */
int gw_vocabulary_add_piece(gw_vocabulary *v, const char *text, size_t len);
int gw_vocabulary_add_score(gw_vocabulary *v, float score);
int gw_vocabulary_add_type(gw_vocabulary *v, int type);
void gw_vocabulary_mark_control(gw_vocabulary *v, int32_t id);
int gw_vocabulary_finish(gw_vocabulary *v, gw_spelling spelling, gw_error *e);
void gw_vocabulary_free(gw_vocabulary *v);
size_t gw_vocabulary_bytes(const gw_vocabulary *v);

static inline uint32_t gw_piece_begin(const gw_vocabulary *v, uint32_t id) { return id ? v->ends[id - 1] : 0; }
static inline uint32_t gw_piece_len(const gw_vocabulary *v, uint32_t id) { return v->ends[id] - gw_piece_begin(v, id); }
static inline const uint8_t *gw_piece_text(const gw_vocabulary *v, uint32_t id) {
    return v->text + gw_piece_begin(v, id);
}

/* gw_find_any searches all pieces for a text, gw_find_normal only the normal ones, which are the results of merges.
 * Both return the lowest id with this text, or -1. With BY_MERGES, gw_find_normal returns the highest. */
int32_t gw_find_normal(const gw_vocabulary *v, const uint8_t *p, size_t len);
int32_t gw_find_any(const gw_vocabulary *v, const uint8_t *p, size_t len);

/* Copies a text with " " for U+2581, in place or to an earlier address. Returns the new length. */
size_t gw_read_spaces(const uint8_t *from, size_t len, uint8_t *to);

/* Returns the value of the byte piece "<0xNN>", or -1 for any other text. */
int gw_byte_value(const gw_vocabulary *v, uint32_t id);

/* Returns the least power of two that is at least 64 and `at_least`, for the sizes of hash tables. */
static inline uint32_t gw_power_of_two(size_t at_least) {
    uint32_t n = 64;
    while (n < at_least) n *= 2;
    return n;
}

/* --- characters ------------------------------------------------------------------------------- */

/* Returns the length of the character at p, 1 for a byte that does not begin one. Reads only p[0..left), so a character
 * that is complete inside a piece is the same character in every text. */
static inline size_t gw_char_len(const uint8_t *p, size_t left) {
    if (p[0] < 0xC2 || p[0] > 0xF4) return 1;
    size_t n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n > left) return 1;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 1;
    return n;
}

/* Returns the length of the UTF-8 character at p, or 0 if it is malformed (Unicode 15, table 3-7). */
static inline size_t gw_utf8_len(const uint8_t *p, size_t left) {
    size_t n = gw_char_len(p, left);
    if (n == 1) return p[0] < 0x80;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return 0;
    if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
    return n;
}

#endif
