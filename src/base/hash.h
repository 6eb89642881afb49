/* hash: 64 bits of some bytes, fast: for checksums of what was stored, and for telling models apart; no defence
 * against people. In the manner of xxHash (Collet): four words at a time, each multiplied and turned into a lane of
 * its own. Every step can be undone, so that bytes which differ in one word never have the same hash. The same on all
 * platforms; little-endian machines. */
#ifndef GW_HASH_H
#define GW_HASH_H

#include "base/base.h"

/* seed: what came before, or a number of the caller's. */
uint64_t gw_hash(uint64_t seed, const void *bytes, size_t n);
/* Spreads what is in x over all its bits. */
uint64_t gw_hash_mix(uint64_t x);

#endif
