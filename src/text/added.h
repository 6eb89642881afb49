/* added: the added tokens of a vocabulary: pieces that match a text literally, before any merge. User-defined tokens
 * always match, control and unknown tokens only if `special` is set. The leftmost and longest match wins. If two
 * pieces have the same text, the user-defined one wins. */
#ifndef GW_ADDED_H
#define GW_ADDED_H

#include "text/vocabulary.h"

typedef struct {
    const gw_vocabulary *v;
    uint32_t *ids; /* [n] ids of the added tokens, sorted by their texts */
    uint32_t n;
    size_t size;
    uint32_t longest;    /* bytes of the longest added token */
    uint32_t first[257]; /* ids[first[c]] … ids[first[c + 1] - 1] are the pieces that start with byte c */
} gw_added_tokens;

/* Collects the added tokens of a vocabulary, which must not move. Returns 0 or GW_E_NO_MEMORY. */
int gw_added_make(gw_added_tokens *m, const gw_vocabulary *v);
void gw_added_free(gw_added_tokens *m);

/* Returns the length of the longest added token at the start of text[0..len), and stores the token's id in *id; returns
 * 0 if none matches. */
size_t gw_added_match(const gw_added_tokens *m, const uint8_t *text, size_t len, bool special, int32_t *id);
/* Returns the offset of the first character of a text where an added token matches, or len if there is none. */
size_t gw_added_next(const gw_added_tokens *m, const uint8_t *text, size_t len, bool special);

#endif
