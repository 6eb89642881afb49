/* bpe: byte-level BPE (Sennrich et al. 2016; Radford et al. 2019): a text is cut into words (split), a word into bytes,
 * and pairs of adjacent symbols are merged: always the pair whose merge is listed first in the file, the leftmost on
 * ties. */
#ifndef GW_BPE_H
#define GW_BPE_H

#include "text/merge_queue.h"
#include "text/split.h"
#include "text/vocabulary.h"

typedef struct {
    int32_t left, right, made;
} gw_merge;

typedef struct {
    gw_buffer in_merges; /* texts "left right" of merges, each NUL-terminated; freed by gw_bpe_make */
    gw_split split;
    void *block;
    size_t block_size;
    gw_merge *merges; /* [n] merges, best first; `made` is GW_NO_PIECE if text must never merge into that piece */
    uint32_t n;
    uint32_t *slots; /* [slot_mask + 1] hash table by pair: 1 + index of the merge, 0 for an empty slot */
    uint32_t slot_mask;
} gw_bpe;

int gw_bpe_add_merge(gw_bpe *b, const char *text, size_t len);
/* Builds the tables of merges. pre: name of the rule that splits a text into words; ignored unless v is byte-level. */
int gw_bpe_make(gw_bpe *b, const gw_vocabulary *v, const char *pre, gw_error *e);
void gw_bpe_free(gw_bpe *b);
size_t gw_bpe_bytes(const gw_bpe *b);

/* Merges pairs of symbols of a word until no pair merges, always the pair whose merge is listed first in the file. */
void gw_bpe_merge(const gw_bpe *b, gw_word *w);

/* Encodes a text that contains no added tokens, up to the last word that ends at or before byte `limit`. Returns 0 or
 * an error code; *taken receives the number of bytes encoded. A byte without a piece becomes the unknown piece, or
 * nothing if there is none, as in other implementations; in the supported families, every byte has a piece. */
int gw_bpe_encode(const gw_bpe *b, const gw_vocabulary *v, gw_scratch *scratch, gw_text_span text, gw_ids *to,
                  size_t *taken);

#endif
