/* scan: compares gw_scan() with a simple 64-bit loop, at the limits of its arguments. */
#include "kernels/scan.h"
#include "test.h"

enum { ROWS = 7 };
static int8_t rows[ROWS * GW_SCAN_MOST];
static int16_t query[GW_SCAN_MOST];

static void check_width(uint32_t d) {
    int32_t sums[ROWS];
    gw_scan(rows, ROWS, d, query, sums);
    for (uint32_t r = 0; r < ROWS; r++) {
        int64_t expected = 0;
        for (uint32_t i = 0; i < d; i++) expected += (int64_t)rows[r * d + i] * query[i];
        CHECK(sums[r] == expected);
    }
}

TEST(scan_gives_exact_products) {
    static const uint32_t widths[] = { 16, 32, 128, 256, 768, GW_SCAN_MOST };
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof rows; i++) {
        state = state * 1664525u + 1013904223u;
        rows[i] = (int8_t)((int)(state >> 24) % 128 * (state & 256 ? 1 : -1));
    }
    for (size_t i = 0; i < GW_SCAN_MOST; i++) {
        state = state * 1664525u + 1013904223u;
        query[i] = (int16_t)((int)(state >> 16) % (GW_SCAN_TOP + 1) * (state & 256 ? 1 : -1));
    }
    for (size_t i = 0; i < COUNT(widths); i++) check_width(widths[i]);
}

TEST(scan_of_the_largest_numbers_stays_in_32_bits) {
    for (size_t i = 0; i < sizeof rows; i++) rows[i] = i / GW_SCAN_MOST % 2 ? -127 : 127;
    for (size_t i = 0; i < GW_SCAN_MOST; i++) query[i] = GW_SCAN_TOP;
    check_width(GW_SCAN_MOST);
}
