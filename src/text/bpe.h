/* bpe: byte-level BPE (Sennrich et al. 2016; Radford et al. 2019): a text is cut into words (split), a word into bytes,
 * and the adjacent pair whose merge is listed first in the file is merged, the leftmost on ties. */
#ifndef GW_BPE_H
#define GW_BPE_H

#include "text/merge_queue.h"
#include "text/split.h"
#include "text/vocabulary.h"

typedef struct {
    int32_t left, right, made;
} gw_merge;

typedef struct {
    gw_buffer in_merges; /* "left right", each ended by 0; freed by make */
    gw_split split;
    bool whole_words; /* a word that is a piece becomes that piece, whatever its merges (llama-bpe) */
    void *block;
    size_t block_size;
    gw_merge *merges; /* [n] best first; made = GW_NO_PIECE if it must not be made */
    uint32_t n;
    uint32_t *slots; /* [slot_mask + 1] number of the merge + 1, 0 for none; by its pair */
    uint32_t slot_mask, reach;
} gw_bpe;

int gw_bpe_add_merge(gw_bpe *b, const char *text, size_t len);
/* pre: the rule that splits byte-level text into words; ignored for other spellings. */
int gw_bpe_make(gw_bpe *b, const gw_vocabulary *v, const char *pre, gw_error *e);
void gw_bpe_free(gw_bpe *b);
size_t gw_bpe_bytes(const gw_bpe *b);

/* Returns the merge of a pair; GW_NO_PIECE if there is none or it must not be made. */
int32_t gw_bpe_find(const gw_bpe *b, int32_t left, int32_t right);

/* Encodes a text without added tokens. Omits tokens that end after `limit`. Returns 0 or a code; *taken: the number of
 * bytes encoded. A byte without a piece (the supported families have all of them) becomes the unknown piece, or
 * nothing, as in other implementations. */
int gw_bpe_encode(const gw_bpe *b, const gw_vocabulary *v, gw_scratch *scratch, gw_text_span text, gw_ids *to,
                  size_t *taken);

#endif
