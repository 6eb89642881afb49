/* sha256: see sha256.h. The message schedule is a ring of 16 words, since a word depends only on the 2nd, 7th, 15th and
 * 16th words before it (FIPS 180-4, 6.2.2). */
#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64 };

struct gw_sha256 {
    uint32_t h[8];
    uint64_t length; /* number of bytes hashed so far; `block` has the last length % BLOCK of them */
    uint8_t block[BLOCK];
    char hex[65]; /* buffer for the result of gw_sha256_hex; not part of the state */
};
_Static_assert(offsetof(gw_sha256, hex) == GW_SHA256_STATE,
               "GW_SHA256_STATE must be the size of the members before hex");

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* FIPS 180-4, 5.3.3: the first 32 bits of the fractional parts of the square roots of the first 8 primes. */
static const uint32_t initial[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline uint32_t load_big(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return __builtin_bswap32(x);
}

static inline uint32_t next_word(uint32_t *w, int t) {
    uint32_t a = w[(t + 1) & 15], b = w[(t + 14) & 15];
    uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3, s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    return w[t & 15] += s0 + s1 + w[(t + 9) & 15];
}

/* Computes one round of SHA-256. The caller permutes the eight variables from round to round, so that no values move
 * between them. */
#define ROUND(a, b, c, d, e, f, g, h, word, k)                                                             \
    do {                                                                                                   \
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + k + word; \
        d += t1;                                                                                           \
        h = t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));               \
    } while (0)
#define ROUNDS(word, t)                                   \
    ROUND(a, b, c, d, e, f, g, h, word(t), K[t]);         \
    ROUND(h, a, b, c, d, e, f, g, word(t + 1), K[t + 1]); \
    ROUND(g, h, a, b, c, d, e, f, word(t + 2), K[t + 2]); \
    ROUND(f, g, h, a, b, c, d, e, word(t + 3), K[t + 3]); \
    ROUND(e, f, g, h, a, b, c, d, word(t + 4), K[t + 4]); \
    ROUND(d, e, f, g, h, a, b, c, word(t + 5), K[t + 5]); \
    ROUND(c, d, e, f, g, h, a, b, word(t + 6), K[t + 6]); \
    ROUND(b, c, d, e, f, g, h, a, word(t + 7), K[t + 7])
#define FIRST(t) (w[t])
#define LATER(t) next_word(w, t)

static void compress(uint32_t *s, const uint8_t *block) {
    uint32_t w[16];
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 16; i++) w[i] = load_big(block + 4 * i);
    ROUNDS(FIRST, 0);
    ROUNDS(FIRST, 8);
    for (int t = 16; t < 64; t += 16) {
        ROUNDS(LATER, t);
        ROUNDS(LATER, t + 8);
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d;
    s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

gw_sha256 *gw_sha256_new(void) {
    gw_sha256 *s = gw_alloc(sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    memcpy(s->h, initial, sizeof initial);
    return s;
}

void gw_sha256_update(gw_sha256 *s, const uint8_t *bytes, size_t n) {
    if (!s) return;
    size_t held = s->length % BLOCK;
    s->length += n;
    if (held) {
        size_t taken = gw_min(n, BLOCK - held);
        memcpy(s->block + held, bytes, taken);
        if (held + taken < BLOCK) return;
        compress(s->h, s->block);
        bytes += taken;
        n -= taken;
    }
    for (; n >= BLOCK; bytes += BLOCK, n -= BLOCK) compress(s->h, bytes);
    if (n) memcpy(s->block, bytes, n);
}

/* Pads the message (FIPS 180-4, 5.1.1): a one bit, zeros up to 8 bytes before a block's end, the length in bits. */
static void finish(gw_sha256 *s) {
    uint64_t bits = s->length * 8;
    uint8_t tail[BLOCK + 8] = { 0x80 };
    size_t n = 1 + (BLOCK + 55 - s->length % BLOCK) % BLOCK;
    for (int i = 0; i < 8; i++) tail[n + i] = (uint8_t)(bits >> (56 - 8 * i));
    gw_sha256_update(s, tail, n + 8);
}

const char *gw_sha256_hex(gw_sha256 *s) {
    if (!s) return NULL;
    gw_sha256 copy = *s;
    finish(&copy);
    for (int i = 0; i < 64; i++) s->hex[i] = "0123456789abcdef"[copy.h[i / 8] >> (28 - i % 8 * 4) & 15];
    s->hex[64] = 0;
    return s->hex;
}
