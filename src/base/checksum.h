/* checksum: a 64-bit checksum that detects corruption of stored bytes, not forgery. Every change within one 32-bit word
 * is detected, others except for one in 2^32 or fewer. Designed for 128-bit vectors:
 *   32 lanes of 32 bits; word i belongs to lane i mod 32, the last words are padded with zeros
 *   each word:   h = (h ^ word) * 0x9e3779b1;  h ^= h >> 15          (both steps are invertible, so nothing is lost)
 *   at the end all lanes and the count of bytes are mixed into two words in the same way
 * js/download/checksum.js is the same in JavaScript. Little-endian machines. */
#ifndef GW_CHECKSUM_H
#define GW_CHECKSUM_H

#include "base/base.h"

void gw_checksum(const uint8_t *bytes, size_t n, uint32_t sum[2]);

#endif
