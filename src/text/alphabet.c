/* alphabet: see alphabet.h. */
#include "text/alphabet.h"

/* Returns the byte that the character at p stands for, or -1; *n receives the character's length. */
static int byte_at(const uint8_t *p, size_t left, size_t *n) {
    *n = 1;
    if (p[0] > 0x20 && p[0] < 0x7F) return p[0];
    if (left < 2 || p[0] < 0xC2 || p[0] > 0xC5 || (p[1] & 0xC0) != 0x80) return -1;
    *n = 2;
    int c = (p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (c < 0x100) return c > 0xA0 && c != 0xAD ? c : -1;
    return c <= 0x120 ? c - 0x100 : c <= 0x142 ? c - 0x121 + 0x7F : c == 0x143 ? 0xAD : -1;
}

int gw_alphabet_read(const uint8_t *text, size_t len, uint8_t *out) {
    size_t n, count = 0;
    for (size_t i = 0; i < len; i += n)
        if (byte_at(text + i, len - i, &n) < 0) return -1;
    for (size_t i = 0; i < len; i += n) out[count++] = (uint8_t)byte_at(text + i, len - i, &n);
    return (int)count;
}
