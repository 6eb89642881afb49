/* alphabet: the printable characters in which byte-level BPE writes bytes (GPT-2's bytes_to_unicode; Radford et al.
 * 2019): the visible ones of Latin-1 stand for themselves, the other 68 bytes become U+0100 and following, in their
 * order. */
#ifndef GW_ALPHABET_H
#define GW_ALPHABET_H

#include "base/base.h"

/* Decodes text[0..len) to bytes in out[0..len), which may be the text itself. Returns their number, or -1 if
 * a character is not of the alphabet; then nothing is written. */
int gw_alphabet_read(const uint8_t *text, size_t len, uint8_t *out);

#endif
