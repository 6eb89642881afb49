/* hash: a fast 64-bit hash, for checksums of stored bytes and for identifying models; not cryptographic. Like xxHash
 * (Collet), it processes four words at a time, each multiplied and rotated into a separate lane. Every step is
 * invertible, so inputs that differ in only one word never have the same hash. Little-endian machines only. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include "base/base.h"

/* Returns the hash of n bytes. seed: the hash of the preceding bytes, or any number. */
uint64_t gw_hash(uint64_t seed, const void *bytes, size_t n);
/* Spreads the bits of x over all 64 bits: the finaliser of MurmurHash3 (Appleby). */
static inline uint64_t gw_hash_mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

#endif
