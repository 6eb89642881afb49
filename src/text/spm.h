/* spm: SentencePiece's BPE (Kudo and Richardson 2018): merges the best pair of adjacent symbols, the leftmost on ties,
 * until no pair merges. The best pair is the one that makes the piece with the highest score or, in a file with merges
 * (Gemma 4), the one whose merge is listed first. */
#ifndef GW_SPM_H
#define GW_SPM_H

#include "text/bpe.h"

typedef struct {
    uint8_t *pairs;       /* hashed filter of the character pairs inside pieces that merges can make, one bit each */
    uint32_t pair_mask;   /* number of bits of the filter - 1 */
    uint32_t max_normal;  /* bytes of the longest normal piece */
    const gw_bpe *merges; /* merges of the file; NULL: pairs merge by score */
} gw_spm;

/* Makes the tables of a vocabulary. merges: the merges of the file, or NULL. Returns 0 or GW_E_NO_MEMORY. */
int gw_spm_make(gw_spm *s, const gw_vocabulary *v, const gw_bpe *merges);
void gw_spm_free(gw_spm *s);
size_t gw_spm_bytes(const gw_spm *s);

/* Encodes a text that contains no added tokens, up to the last position at or before byte `limit` that no merge can
 * cross. prefix: encodes the text as if it began with a space. Returns 0 or an error code; *taken receives the number
 * of bytes encoded. */
int gw_spm_encode(const gw_spm *s, const gw_vocabulary *v, gw_scratch *scratch, gw_text_span text, bool prefix,
                  gw_ids *to, size_t *taken);

#endif
