/* encode: encodes texts for the tests of tokenizers, and names byte pieces. */
#ifndef ENCODE_H
#define ENCODE_H

#include "text/tokenizer.h"

#include <string.h>

/* Returns the name of a byte piece, "<0x00>" to "<0xFF>", valid until the next call. */
const char *byte_name(int byte);

/* Returns the ids of a text as a string, such as "260 261", valid until the next call. Checks that there are at most
 * `most` ids, and that decoding them restores the text. */
const char *ids_within(gw_tokenizer *t, const char *text, int flags, size_t most);
static inline const char *ids_of(gw_tokenizer *t, const char *text, int flags) {
    return ids_within(t, text, flags, strlen(text));
}

#endif
