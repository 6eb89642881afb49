/* trie: a trie of the bytes of a vocabulary's pieces, without control and unknown pieces. Nodes are in depth-first
 * order, so a prefix that a grammar rejects is skipped with everything that begins with it. Built once, then immutable.
 *
 * A second tree holds only the pieces that are not plain. Plain pieces consist of whole characters that a JSON string
 * contains unescaped (no quote, no backslash, nothing below U+0020): nearly all. A state inside such a string answers
 * for all of them at once, by their number of characters. */
#ifndef GW_TRIE_H
#define GW_TRIE_H

#include "text/vocabulary.h"

enum { GW_PLAIN_MASKS = 16 };

/* Node i. head: its byte, and 1 + the id of the piece that ends there (0: none); skip: the next node outside its
 * subtree; depth: the number of bytes that lead to it. */
typedef struct {
    uint32_t n;
    uint32_t *head;  /* [n] byte | id + 1 << 8 */
    uint32_t *skip;  /* [n] */
    uint16_t *depth; /* [n] from 1 */
} gw_tree;

/* Pieces with equal bytes: only `as` is in the trees; `id` is allowed where `as` is. */
typedef struct {
    uint32_t id, as;
} gw_duplicate;

typedef struct {
    void *block;
    size_t size;
    uint32_t n_vocab, words; /* of a mask: bit id % 32 of word id / 32 */
    uint32_t longest;        /* bytes of a piece */
    gw_tree all, odd;        /* odd: pieces that are not plain */
    gw_duplicate *duplicates;
    uint32_t n_duplicates;
    uint32_t *plain[GW_PLAIN_MASKS + 1]; /* [words] plain pieces of at most k + 1 characters; the last one: all */
    uint32_t *long_plain;                /* ids with more than GW_PLAIN_MASKS characters, by their number */
    uint16_t *long_chars;                /* [n_long] */
    uint32_t n_long, most_plain;         /* characters of a plain piece */
} gw_trie;

int gw_trie_make(gw_trie *t, const gw_vocabulary *v, gw_error *e); /* 0 or GW_E_NO_MEMORY */
void gw_trie_free(gw_trie *t);

/* Returns the bytes of a piece that can be a part of text, at most 1024; 0 for others. `one`: a buffer for a byte
 * piece. */
size_t gw_trie_piece(const gw_vocabulary *v, uint32_t id, const uint8_t **bytes, uint8_t one[1]);

/* Returns the plain pieces of at most n characters, n > 0: [words], without some that are longer than GW_PLAIN_MASKS;
 * gw_trie_long adds these to mask[words]. */
const uint32_t *gw_trie_plain(const gw_trie *t, uint32_t n);
void gw_trie_long(const gw_trie *t, uint32_t n, uint32_t *mask);

#endif
