/* trie: a trie of the bytes of a vocabulary's pieces, without control and unknown pieces. Nodes are in depth-first
 * order, so if a grammar rejects a prefix, all pieces that begin with this prefix are skipped together. Built once,
 * then immutable.
 *
 * A second tree holds only the pieces that are not plain. Plain pieces consist of whole characters that a JSON string
 * contains unescaped (no quote, no backslash, nothing below U+0020); nearly all pieces are plain. A state inside a JSON
 * string allows or rejects plain pieces by their number of characters alone, without a walk. */
#ifndef GW_TRIE_H
#define GW_TRIE_H

#include "text/vocabulary.h"

enum { GW_PLAIN_MASKS = 16 };

/* A tree of pieces, as arrays over its nodes. head: the node's byte, and 1 + the id of the piece that ends at the node
 * (0: none), shifted left by 8; skip: the next node outside the node's subtree; depth: the number of bytes that lead to
 * the node. */
typedef struct {
    uint32_t n;
    uint32_t *head;  /* [n] */
    uint32_t *skip;  /* [n] */
    uint16_t *depth; /* [n] from 1 */
} gw_tree;

/* Two pieces with equal bytes: only piece `as` is in the trees; piece `id` is allowed wherever piece `as` is. */
typedef struct {
    uint32_t id, as;
} gw_duplicate;

typedef struct {
    void *block;
    size_t size;
    uint32_t n_vocab, words; /* words: 32-bit words of a mask; token id is bit id % 32 of word id / 32 */
    uint32_t longest;        /* length of the longest piece in bytes */
    gw_tree all, odd;        /* odd: pieces that are not plain */
    gw_duplicate *duplicates;
    uint32_t n_duplicates;
    /* Masks of [words] each: plain[k] has the plain pieces of at most k + 1 characters, the last mask all plain
     * pieces. */
    uint32_t *plain[GW_PLAIN_MASKS + 1];
    /* Ids of plain pieces (plain.h) with more than GW_PLAIN_MASKS characters. */
    uint32_t *long_plain;
    uint16_t *long_chars;        /* [n_long] number of characters of each piece in long_plain */
    uint32_t n_long, most_plain; /* most_plain: maximum number of characters of a plain piece */
} gw_trie;

static inline void gw_set_bit(uint32_t *mask, uint32_t id) { mask[id / 32] |= 1u << id % 32; }

/* Makes the trie of a vocabulary's pieces. Returns 0 or GW_E_NO_MEMORY. */
int gw_trie_make(gw_trie *t, const gw_vocabulary *v, gw_error *e);
void gw_trie_free(gw_trie *t);

/* Returns the number of bytes, at most 1024, of a piece that can be part of a text; 0 for other pieces. `one`: a buffer
 * for the byte of a byte piece. */
size_t gw_trie_piece(const gw_vocabulary *v, uint32_t id, const uint8_t **bytes, uint8_t one[1]);

/* Returns a mask of the plain pieces of at most n characters, n > 0. If n is above GW_PLAIN_MASKS, some longer pieces
 * are missing from the mask; gw_trie_long adds them to mask[words]. */
const uint32_t *gw_trie_plain(const gw_trie *t, uint32_t n);
void gw_trie_long(const gw_trie *t, uint32_t n, uint32_t *mask);

#endif
