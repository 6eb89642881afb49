/* alphabet: the printable characters in which byte-level BPE writes bytes (GPT-2's bytes_to_unicode; Radford et al.
 * 2019): the bytes of visible Latin-1 characters stand for themselves; the other 68 bytes become U+0100 and following,
 * in ascending order. */
#ifndef GW_ALPHABET_H
#define GW_ALPHABET_H

#include "base/base.h"

/* Decodes text[0..len) to bytes in `out`, which has room for len bytes and may be the text itself. Returns the number
 * of bytes, or -1, with nothing written, if a character is not in the alphabet. */
int gw_alphabet_read(const uint8_t *text, size_t len, uint8_t *out);

#endif
