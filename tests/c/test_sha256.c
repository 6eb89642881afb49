/* sha256: tests the vectors of FIPS 180-4 (NIST's examples) and of its validation system, any chunking of the bytes,
 * and a state that is saved and resumed. */
#include "base/sha256.h"
#include "scoped.h"
#include "test.h"

static void check_digest(const char *text, size_t times, const char *expected) {
    scoped_block gw_sha256 *s = gw_sha256_new();
    CHECK(s);
    for (size_t i = 0; i < times; i++) gw_sha256_update(s, (const uint8_t *)text, strlen(text));
    CHECK_TEXT(gw_sha256_hex(s), expected);
    CHECK_TEXT(gw_sha256_hex(s), expected);
}

TEST(sha256_vectors_of_the_standard) {
    check_digest("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                 "mnopqrstnopqrstu",
                 1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    check_digest("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    check_digest("\xbd", 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    check_digest("\xc9\x8c\x8e\x55", 1, "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}

static uint8_t text[1000];

static void fill(void) {
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 37 + i / 7);
}

TEST(sha256_any_cutting_gives_the_same) {
    fill();
    for (size_t n = 0; n < 300; n++) {
        scoped_block gw_sha256 *whole = gw_sha256_new(), *cut = gw_sha256_new();
        gw_sha256_update(whole, text, n);
        for (size_t at = 0, step = 0; at < n; at += step) {
            step = gw_min(1 + (at * 7 + n) % 130, n - at);
            gw_sha256_update(cut, text + at, step);
            gw_sha256_update(cut, text, 0);
        }
        CHECK_TEXT(gw_sha256_hex(cut), gw_sha256_hex(whole));
    }
}

TEST(sha256_goes_on_from_a_stored_state) {
    fill();
    for (size_t at = 0; at < sizeof text; at += 61) {
        uint8_t stored[GW_SHA256_STATE];
        scoped_block gw_sha256 *whole = gw_sha256_new(), *first = gw_sha256_new(), *second = gw_sha256_new();
        gw_sha256_update(whole, text, sizeof text);
        gw_sha256_update(first, text, at);
        memcpy(stored, first, sizeof stored);
        memcpy(second, stored, sizeof stored);
        gw_sha256_update(second, text + at, sizeof text - at);
        CHECK_TEXT(gw_sha256_hex(second), gw_sha256_hex(whole));
    }
}

TEST(sha256_takes_any_bytes_as_a_state) {
    scoped_block gw_sha256 *s = gw_sha256_new();
    memset(s, 0xff, GW_SHA256_STATE); /* a damaged state gives a wrong digest, nothing worse */
    gw_sha256_update(s, text, sizeof text);
    CHECK_INT(strlen(gw_sha256_hex(s)), 64);
}
