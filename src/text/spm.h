/* spm: SentencePiece's BPE on scores (Kudo and Richardson 2018; a file has no list of merges): of all adjacent symbols
 * join the pair whose joined text is the piece with the highest score, the leftmost on ties, until none is left. */
#ifndef GW_SPM_H
#define GW_SPM_H

#include "text/joins.h"
#include "text/vocabulary.h"

typedef struct {
    uint8_t *pairs;        /* filter of the character pairs inside normal pieces, one bit each */
    uint32_t pair_mask;    /* bits - 1; 0: no filter */
    uint32_t max_normal;   /* bytes of the longest normal piece */
} gw_spm;

int gw_spm_make(gw_spm *s, const gw_vocabulary *v);   /* 0 or GW_E_NO_MEMORY */
void gw_spm_free(gw_spm *s);
size_t gw_spm_bytes(const gw_spm *s);

/* Ids of a text without verbatim pieces; with `prefix` as if a blank stood before it. What ends behind `limit` is left
 * out. 0 or a code; *taken: bytes whose ids are there. */
int gw_spm_encode(const gw_spm *s, const gw_vocabulary *v, gw_scratch *scratch, gw_span text, bool prefix, gw_ids *to,
                  size_t *taken);

#endif
