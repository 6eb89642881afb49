/* encode: see encode.h. */
#include "encode.h"
#include "test.h"

const char *byte_name(int byte) {
    static char name[16];
    snprintf(name, sizeof name, "<0x%02X>", byte);
    return name;
}

const char *ids_within(gw_tokenizer *t, const char *text, int flags, size_t most) {
    static char out[1024];
    int32_t ids[256];
    char back[1024];
    int n = gw_tokenizer_encode(t, text, strlen(text), flags, ids, 256), at = 0, length = 0;
    CHECK(n >= 0 && (size_t)n <= most);
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        at += snprintf(out + at, sizeof out - (size_t)at, "%s%d", i ? " " : "", (int)ids[i]);
        int before = i ? ids[i - 1] : GW_NO_TOKEN, left = (int)sizeof back - 1 - length;
        int bytes = gw_tokenizer_decode_after(t, before, ids[i], flags, back + length, (size_t)left);
        CHECK(bytes >= 0 && bytes <= left);
        length += bytes;
    }
    back[length] = 0;
    CHECK_TEXT(back, text);
    return out;
}
