/* Fuzz harness: the first bytes choose a vocabulary, the rest is text. Whatever the text, with all
 * byte pieces present decoding gives it back, and there are never more ids than bytes. */
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
    if (!condition) abort();
}

static void add(gw_tokenizer *t, const void *text, size_t len, float score, int type) {
    require(!gw_tokenizer_add_piece(t, text, len));
    require(!gw_tokenizer_add_score(t, score));
    require(!gw_tokenizer_add_type(t, type));
}

/* Pieces of any bytes: a length below 8, a type and a score, then the text. */
static size_t add_pieces(gw_tokenizer *t, const uint8_t *data, size_t size) {
    size_t at = 1;
    for (int n = data[0] % 64; n > 0 && at + 2 < size; n--) {
        size_t len = data[at] % 8;
        int type = (data[at] >> 3) % 4 == 0 ? GW_TOKEN_USER : GW_TOKEN_NORMAL;
        float score = (float)(int8_t)data[at + 1];
        at += 2;
        if (len > size - at) len = size - at;
        add(t, data + at, len, score, type);
        at += len;
    }
    return at < size ? at : size;
}

static void check_round_trip(gw_tokenizer *t, const uint8_t *text, size_t len, int flags) {
    int32_t *ids = malloc((len + 1) * sizeof *ids);
    char *back = malloc(len + 1);
    require(ids && back);
    int n = gw_tokenizer_encode(t, (const char *)text, len, flags, ids, len);
    require(n >= 0);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int bytes = gw_tokenizer_decode(t, ids[i], flags, back + at, len - at);
        require(bytes >= 0 && (size_t)bytes <= len - at);
        at += (size_t)bytes;
    }
    require(at == len && !memcmp(back, text, len));
    free(ids);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    gw_tokenizer *t = gw_tokenizer_new();
    require(t != NULL);
    add(t, "<bos>", 5, 0, GW_TOKEN_CONTROL);
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        add(t, name, 6, 0, GW_TOKEN_BYTE);
    }
    size_t at = add_pieces(t, data, size);
    gw_error e;
    require(!gw_tokenizer_finish(t, &e));
    check_round_trip(t, data + at, size - at, 0);
    check_round_trip(t, data + at, size - at, GW_TOKENIZE_SPECIAL);
    check_round_trip(t, data, size, 0);   /* the vocabulary's own bytes: more matches */
    gw_tokenizer_free(t);
    return 0;
}
