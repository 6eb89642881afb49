/* Malformed files (tests/vectors/malformed.md): each is rejected with its own error message, however its bytes are
 * chunked; afterwards a valid file loads. */
#include "api.h"
#include "model/load.h"
#include "file/types.h"
#include "rig.h"
#include "test.h"

static const struct {
    const char *name, *code;
    size_t size;
    const char *bytes;
} malformed[] = {
#include "../vectors/malformed.inc"
};
enum { N_MALFORMED = COUNT(malformed) };

static void check_refused(size_t i, size_t chunk) {
    scoped_model *m = fresh(one_thread());
    int state = tiny_feed(m, (const uint8_t *)malformed[i].bytes, malformed[i].size, chunk, 16);
    int end = gw_load_end(m);
    if (end >= 0 || strcmp(gw_error_text(m, "code"), malformed[i].code))
        gw_test_fail(__FILE__, __LINE__, "%s: expected %s, got %s (state %d): %s", malformed[i].name, malformed[i].code,
                     gw_error_text(m, "code"), state, gw_error_text(m, "what"));
    CHECK_SAYS(gw_error_text(m, "what"), ".");
}

TEST(malformed_files_are_refused_each_with_its_error) {
    for (size_t i = 0; i < N_MALFORMED; i++) {
        check_refused(i, 1 << 20);
        check_refused(i, 1);
        check_refused(i, 13);
    }
}

TEST(malformed_files_leave_nothing_behind) {
    scoped_file f = tiny_make(&small);
    for (size_t i = 0; i < N_MALFORMED; i++) {
        check_refused(i, 100);
        scoped_model *m = fresh(one_thread());
        CHECK_INT(tiny_feed(m, f.data, f.size, 0, 16), GW_LOAD_READY);
        CHECK_TEXT(gw_error_text(m, "code"), "ok");
    }
}
