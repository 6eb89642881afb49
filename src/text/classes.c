/* classes: see classes.h. */
#include "text/classes.h"
#include "text/classes_table.h"

enum { BLOCKS = sizeof starts / sizeof *starts };

/* Finds the last block of the table that begins at or before the code point, then the code point's range in that
 * block. */
gw_class gw_class_of(uint32_t code_point) {
    uint32_t lo = 0, hi = BLOCKS;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (starts[mid] <= code_point) lo = mid;
        else hi = mid;
    }
    uint32_t left = code_point - starts[lo], class, len;
    const uint8_t *p = ranges + offsets[lo];
    for (;; left -= len) {
        class = *p & 15;
        len = *p++ >> 4;
        if (!len) {
            len = p[0] | (uint32_t)p[1] << 8;
            p += 2;
        }
        if (left < len) break;
    }
    if (class == BY_TURNS) return left % 2 ? GW_LOWER : GW_UPPER;
    return (gw_class)class;
}
