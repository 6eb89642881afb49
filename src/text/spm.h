/* spm: SentencePiece's BPE (Kudo and Richardson 2018): of all adjacent symbols join the best pair, the leftmost on
 * ties, until none is left. The best pair is the one whose joined text is the piece with the highest score; where a
 * file has merges (Gemma 4), the pair whose merge comes first. */
#ifndef GW_SPM_H
#define GW_SPM_H

#include "text/bpe.h"
typedef struct {
    uint8_t *pairs;       /* filter of the character pairs inside normal pieces, one bit each */
    uint32_t pair_mask;   /* bits - 1; 0: no filter */
    uint32_t max_normal;  /* bytes of the longest normal piece */
    const gw_bpe *merges; /* NULL: by score */
} gw_spm;

int gw_spm_make(gw_spm *s, const gw_vocabulary *v, const gw_bpe *merges); /* 0 or GW_E_NO_MEMORY */
void gw_spm_free(gw_spm *s);
size_t gw_spm_bytes(const gw_spm *s);

/* Ids of a text without verbatim pieces; with `prefix` as if a blank stood before it. What ends behind `limit` is left
 * out. 0 or a code; *taken: bytes whose ids are there. */
int gw_spm_encode(const gw_spm *s, const gw_vocabulary *v, gw_scratch *scratch, gw_span text, bool prefix, gw_ids *to,
                  size_t *taken);

#endif
