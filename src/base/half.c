/* half: see half.h. Rounds to nearest, ties to even. */
#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float gw_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* zero or a denormal f16: the product with 2^-24 is exact */
    return sign ? -tiny : tiny;
}

/* Returns v / 2^shift, rounded to nearest, ties to even. */
static uint32_t round_shift(uint32_t v, uint32_t shift) {
    uint32_t half = 1u << (shift - 1), rest = v & ((1u << shift) - 1), q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t gw_f32_to_f16(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* magnitudes of 65536 and above become infinity in f16 */
    if (a >= 0x38800000) /* normal f16: a carry out of the mantissa increments the exponent, possibly to infinity */
        return (uint16_t)(sign | round_shift(a - (112u << 23), 13));
    if (a < 0x33000000) return (uint16_t)sign; /* less than half of the smallest f16 denormal becomes zero */
    return (uint16_t)(sign | round_shift((a & 0x7fffff) | 0x800000, 126 - (a >> 23)));
}

float gw_bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t gw_f32_to_bf16(float f) {
    uint32_t u = bits_of(f);
    /* NaN becomes a quiet NaN that keeps the upper bits of its payload. */
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
