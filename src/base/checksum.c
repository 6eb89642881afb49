/* checksum: see checksum.h. Eight independent vectors of four lanes hide the latency of the multiplications. */
#include "base/checksum.h"

#include <string.h>

typedef uint32_t quad __attribute__((vector_size(16)));

enum { QUADS = 8, LANES = 4 * QUADS, STRIPE = 4 * LANES };
/* Multipliers: odd, so that multiplying is invertible, with 1 bits spread over the whole word. */
static const uint32_t K = 0x9e3779b1, FIRST = 0x85ebca77, SECOND = 0xc2b2ae3d;

static inline void take(quad h[QUADS], const uint8_t *stripe) {
    for (int i = 0; i < QUADS; i++) {
        quad word;
        memcpy(&word, stripe + i * sizeof word, sizeof word);
        h[i] = (h[i] ^ word) * K;
        h[i] ^= h[i] >> 15;
    }
}

static uint32_t mixed(uint32_t h, uint32_t word, uint32_t factor) {
    h = (h ^ word) * factor;
    return h ^ h >> 15;
}

void gw_checksum(const uint8_t *bytes, size_t n, uint32_t sum[2]) {
    quad h[QUADS];
    for (uint32_t i = 0; i < QUADS; i++) h[i] = (quad){ 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4 } * K;
    size_t at = 0;
    for (; at + STRIPE <= n; at += STRIPE) take(h, bytes + at);
    if (at < n) {
        uint8_t last[STRIPE] = { 0 };
        memcpy(last, bytes + at, n - at);
        take(h, last);
    }
    sum[0] = sum[1] = (uint32_t)n;
    for (int i = 0; i < LANES; i++) {
        sum[0] = mixed(sum[0], h[i / 4][i % 4], FIRST);
        sum[1] = mixed(sum[1], h[i / 4][i % 4] + sum[0], SECOND);
    }
}
