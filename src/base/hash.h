/* hash: 64 bits of some bytes, fast: for checksums of what was stored, and for telling models apart; no defence
 * against people. In the manner of xxHash (Collet): four words at a time, each multiplied and turned into a lane of
 * its own. Every step can be undone, so that bytes which differ in one word never have the same hash. The same on all
 * platforms; little-endian machines. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include "base/base.h"

/* seed: what came before, or a number of the caller's. */
uint64_t gw_hash(uint64_t seed, const void *bytes, size_t n);
/* Spreads what is in x over all its bits: the finish of MurmurHash3 (Appleby). */
static inline uint64_t gw_hash_mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

#endif
