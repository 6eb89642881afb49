/* Tests the checksum: it equals that of js/download/checksum.js, which computed these numbers, and detects changes. */
#include "base/checksum.h"
#include "test.h"

static uint8_t text[1000];

static void fill(void) {
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 37 + i / 7);
}

TEST(checksum_gives_what_its_specification_gives) {
    static const struct {
        size_t n;
        uint32_t sum[2];
    } known[] = {
        { 0, { 0x928ce393, 0xef718da9 } },    { 1, { 0xbbfa06bf, 0x0ebf8350 } },   { 4, { 0x654480cb, 0x3cafbbc7 } },
        { 127, { 0x21a9698a, 0x13862f8f } },  { 128, { 0xf88a382b, 0xb7644d7b } }, { 129, { 0xd88b3695, 0xb143a210 } },
        { 1000, { 0xd31474f3, 0xe55ddc8d } },
    };
    fill();
    for (size_t i = 0; i < COUNT(known); i++) {
        uint32_t sum[2];
        gw_checksum(text, known[i].n, sum);
        CHECK_INT(sum[0], known[i].sum[0]);
        CHECK_INT(sum[1], known[i].sum[1]);
    }
}

TEST(checksum_finds_every_single_bit_and_every_length) {
    fill();
    uint32_t right[2], sum[2];
    gw_checksum(text, sizeof text, right);
    for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
        text[bit / 8] ^= 1 << bit % 8;
        gw_checksum(text, sizeof text, sum);
        text[bit / 8] ^= 1 << bit % 8;
        CHECK(sum[0] != right[0] || sum[1] != right[1]);
    }
    for (size_t n = 0; n < sizeof text; n++) {
        gw_checksum(text, n, sum);
        CHECK(sum[0] != right[0] || sum[1] != right[1]);
    }
}
