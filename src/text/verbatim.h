/* verbatim: pieces that are found in a text as they are, before anything is merged: user-defined ones always, control
 * and unknown ones only when asked for. Leftmost and longest; of one text a user-defined piece goes before others. */
#ifndef GW_VERBATIM_H
#define GW_VERBATIM_H

#include "text/vocabulary.h"

typedef struct {
    uint32_t *ids; /* [n] sorted by text */
    uint32_t n;
    size_t size;         /* bytes of the list */
    uint32_t longest;    /* bytes of a piece */
    uint32_t first[257]; /* pieces that start with byte c: [first[c], first[c + 1]) */
} gw_verbatim;

int gw_verbatim_make(gw_verbatim *m, const gw_vocabulary *v); /* 0 or GW_E_NO_MEMORY */
void gw_verbatim_free(gw_verbatim *m);

/* Length of the longest piece that text[0..len) starts with, and its id; 0 for none. */
size_t gw_verbatim_match(const gw_verbatim *m, const gw_vocabulary *v, const uint8_t *text, size_t len, bool special,
                         int32_t *id);
/* Where the first such piece begins, looked for at each character; len for nowhere. */
size_t gw_verbatim_next(const gw_verbatim *m, const gw_vocabulary *v, const uint8_t *text, size_t len, bool special);

#endif
