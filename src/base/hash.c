/* hash: see hash.h. */
#include "base/hash.h"

#include <string.h>

enum { LANES = 4, ROTATION = 31 };
static const uint64_t odd = 0x9e3779b185ebca87u, other = 0xc2b2ae3d27d4eb4fu; /* xxHash's first 64-bit primes */

static inline uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }
static inline uint64_t take(uint64_t lane, uint64_t word) { return rotate(lane ^ word, ROTATION) * odd; }

uint64_t gw_hash(uint64_t seed, const void *bytes, size_t n) {
    const uint8_t *p = bytes, *end = p + n;
    uint64_t lane[LANES], word[LANES], h = seed ^ n * other;
    for (int l = 0; l < LANES; l++) lane[l] = seed + other * (uint64_t)l;
    for (; (size_t)(end - p) >= sizeof word; p += sizeof word) {
        memcpy(word, p, sizeof word);
        for (int l = 0; l < LANES; l++) lane[l] = take(lane[l], word[l]);
    }
    memset(word, 0, sizeof word);
    if (p < end) memcpy(word, p, (size_t)(end - p));
    for (int l = 0; l < LANES; l++) h = gw_hash_mix(h ^ take(lane[l], word[l]));
    return h;
}
