/* classes: see classes.h. */
#include "text/classes.h"
#include "text/classes_table.h"

enum { RANGES = sizeof ranges / sizeof *ranges };

/* Finds the last range that begins at or before the code point. */
gw_class gw_class_of(uint32_t code_point) {
    uint32_t lo = 0, hi = RANGES, key = code_point << 2 | 3;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (ranges[mid] <= key) lo = mid;
        else hi = mid;
    }
    return (gw_class)(ranges[lo] & 3);
}
