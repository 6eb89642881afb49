/* parts: checks of the harnesses of tokenizers: a text that arrives in chunks (GW_TOKENIZE_MORE) of any size has the
 * same ids as the whole text. */
#ifndef GW_FUZZ_PARTS_H
#define GW_FUZZ_PARTS_H

#include "fuzz.h"
#include "text/merge_queue.h"
#include "text/tokenizer.h"

#include <string.h>

/* Returns the bytes of the UTF-8 character at the start of a text; 1 for a byte that is not a part of one. */
static size_t char_len(const uint8_t *p, size_t left) {
    size_t n = p[0] < 0xC2 || p[0] > 0xF4 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n > left) return 1;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 1;
    return n;
}

/* Checks chunks of several sizes. `whole` has the ids of the whole text, part[0..whole.cap) is scratch space. */
static void check_parts(gw_tokenizer *t, const uint8_t *text, size_t len, int flags, gw_ids whole, int32_t *part) {
    for (size_t step = 3; step < 64; step = step * 2 + 1) {
        size_t at = 0, end = 0, got = 0;
        int how = flags;
        for (bool more = true; more;) {
            end = gw_min(len, end + step);
            more = end < len;
            int some = gw_tokenizer_encode(t, (const char *)text + at, end - at, how | (more ? GW_TOKENIZE_MORE : 0),
                                           part, whole.cap);
            size_t taken = gw_tokenizer_taken(t);
            REQUIRE(some >= 0 && got + (size_t)some <= whole.n && taken <= end - at && (more || taken == end - at));
            REQUIRE(!memcmp(part, whole.ids + got, (size_t)some * sizeof *part));
            got += (size_t)some;
            at += taken;
            if (taken) how |= GW_TOKENIZE_CONTINUES;
        }
        REQUIRE(got == whole.n);
    }
}

#endif
