/* checksum: a 64-bit checksum that detects corruption of stored bytes, not forgery. Every change within one 32-bit word
 * is detected; of other changes, at most one in 2^32 goes undetected. Designed for 128-bit vectors:
 *   32 lanes of 32 bits; word i belongs to lane i mod 32, the last words are padded with zeros
 *   each word:   h = (h ^ word) * 0x9e3779b1;  h ^= h >> 15          (both steps are invertible, so nothing is lost)
 *   at the end, all lanes and the number of bytes are mixed into two words by the same kind of step
 * js/download/checksum.js computes the same checksum in JavaScript. Little-endian machines only. */
#ifndef GW_CHECKSUM_H
#define GW_CHECKSUM_H

#include "base/base.h"

void gw_checksum(const uint8_t *bytes, size_t n, uint32_t sum[2]);

#endif
