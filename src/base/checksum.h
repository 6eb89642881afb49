/* checksum: a 64-bit checksum that detects corruption of stored bytes, not forgery: every change within one 32-bit
 * word, and all but one in 2^32 of other changes. Designed for 128-bit vectors: word i is mixed into lane i mod 32 (of
 * 32 lanes) by invertible steps, h = (h ^ word) * 0x9e3779b1; h ^= h >> 15. The last words are padded with zeros. At
 * the end, the same kind of step mixes all lanes and the number of bytes into two words. js/download/checksum.js
 * computes the same checksum. Little-endian machines only. */
#ifndef GW_CHECKSUM_H
#define GW_CHECKSUM_H

#include "base/base.h"

void gw_checksum(const uint8_t *bytes, size_t n, uint32_t sum[2]);

#endif
