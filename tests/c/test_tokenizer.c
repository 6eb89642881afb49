/* Tests the tokenizer on small vocabularies: a handwritten case for each rule, then all rules against a naive merge on
 * random texts. tests/js/tokenizer.test.js compares ids of the real vocabulary. */
#include "encode.h"
#include "scoped.h"
#include "test.h"
#include "text/tokenizer.h"

#define SPACE "\xE2\x96\x81"

static const gw_tokenizer_kind by_score = { .model = "llama" };

static void add(gw_tokenizer *t, const char *text, float score, int type) {
    CHECK_INT(gw_tokenizer_add_piece(t, text, strlen(text)), 0);
    CHECK_INT(gw_tokenizer_add_score(t, score), 0);
    CHECK_INT(gw_tokenizer_add_type(t, type), 0);
}

/* Ids of the test vocabularies: <unk> 0, <bos> 1, <eot> 2, bytes 3 to 258, then the pieces from 259 on. */
enum { BYTES = 3, PIECES = 259 };

static gw_tokenizer *begin(void) {
    gw_tokenizer *t = gw_tokenizer_new();
    CHECK(t);
    add(t, "<unk>", 0, GW_TOKEN_UNKNOWN);
    add(t, "<bos>", 0, GW_TOKEN_CONTROL);
    add(t, "<eot>", 0, GW_TOKEN_CONTROL);
    for (int i = 0; i < 256; i++) add(t, byte_name(i), 0, GW_TOKEN_BYTE);
    return t;
}

static void finish(gw_tokenizer *t) {
    gw_error e = { 0 };
    int code = gw_tokenizer_finish(t, &by_score, &e);
    if (code) gw_test_fail(__FILE__, __LINE__, "finish: %d %s", code, e.what);
}

/* Returns a tokenizer of normal pieces with scores 0, -1, -2 … in this order. */
static gw_tokenizer *with(const char *const *pieces, size_t n) {
    gw_tokenizer *t = begin();
    for (size_t i = 0; i < n; i++) add(t, pieces[i], -(float)i, GW_TOKEN_NORMAL);
    finish(t);
    return t;
}

#define WITH(...) \
    with((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(highest_score_merges_first) {
    scoped_tokenizer *t = WITH("bc", "ab", "a", "b", "c");
    CHECK_TEXT(ids_of(t, "abc", 0), "261 259");
    scoped_tokenizer *other = WITH("ab", "bc", "a", "b", "c");
    CHECK_TEXT(ids_of(other, "abc", 0), "259 263");
}

TEST(leftmost_of_equal_scores) {
    scoped_tokenizer *t = WITH("aa", "a");
    CHECK_TEXT(ids_of(t, "aaaaa", 0), "259 259 260");
    scoped_tokenizer *zeros = begin();
    add(zeros, "ba", -0.0f, GW_TOKEN_NORMAL); /* scores -0 and 0 tie */
    add(zeros, "ab", 0.0f, GW_TOKEN_NORMAL);
    add(zeros, "a", -9, GW_TOKEN_NORMAL);
    add(zeros, "b", -9, GW_TOKEN_NORMAL);
    finish(zeros);
    CHECK_TEXT(ids_of(zeros, "aba", 0), "260 261");
    CHECK_TEXT(ids_of(zeros, "bab", 0), "259 262");
}

TEST(scores_of_both_signs_are_ordered) {
    scoped_tokenizer *t = begin();
    add(t, "ab", -1.5f, GW_TOKEN_NORMAL);
    add(t, "bc", 0.25f, GW_TOKEN_NORMAL);
    add(t, "cd", 3e30f, GW_TOKEN_NORMAL);
    add(t, "de", -INFINITY, GW_TOKEN_NORMAL);
    for (char c = 'a'; c <= 'e'; c++) add(t, (char[]){ c, 0 }, -100, GW_TOKEN_NORMAL);
    finish(t);
    CHECK_TEXT(ids_of(t, "abcde", 0), "259 261 267");
    CHECK_TEXT(ids_of(t, "abc", 0), "263 260");
    CHECK_TEXT(ids_of(t, "de", 0), "262");
}

TEST(piece_that_no_merge_reaches_is_not_used) {
    scoped_tokenizer *t = WITH("abc", "a", "b", "c");
    CHECK_TEXT(ids_of(t, "abc", 0), "260 261 262");
}

TEST(merge_grows_from_both_sides) {
    scoped_tokenizer *t = WITH("bc", "abcd", "abc", "a", "b", "c", "d");
    CHECK_TEXT(ids_of(t, "abcd", 0), "260");
    CHECK_TEXT(ids_of(t, "abcabcd", 0), "261 260");
}

TEST(space_is_stored_as_u2581) {
    scoped_tokenizer *t = WITH(SPACE "a", SPACE, "a");
    CHECK_TEXT(ids_of(t, "a a  a", 0), "261 259 260 259");
    /* U+2581 in a text is an ordinary character, here encoded as three byte pieces. */
    CHECK_TEXT(ids_of(t, SPACE "a", 0), "229 153 132 261");
    CHECK_INT(gw_tokenizer_find(t, " a", 2), 259);
}

TEST(user_pieces_are_leftmost_and_longest) {
    scoped_tokenizer *t = begin();
    add(t, "\n", -1000, GW_TOKEN_USER); /* id 259 */
    add(t, "\n\n", -1000, GW_TOKEN_USER);
    add(t, "\n\n\n", -1000, GW_TOKEN_USER);
    add(t, "  ", -1000, GW_TOKEN_USER); /* id 262: two ordinary spaces, not U+2581 */
    add(t, SPACE SPACE SPACE, -1000, GW_TOKEN_USER);
    add(t, "<td>", -1000, GW_TOKEN_USER);  /* id 264 */
    add(t, "a<", 5, GW_TOKEN_NORMAL);      /* id 265: must not match the < of <td> */
    add(t, SPACE "a", 4, GW_TOKEN_NORMAL); /* id 266 */
    add(t, "a", -1, GW_TOKEN_NORMAL);
    add(t, "<", -1, GW_TOKEN_NORMAL);
    add(t, SPACE, -1, GW_TOKEN_NORMAL);
    finish(t);
    CHECK_TEXT(ids_of(t, "\n\n\n\n\n", 0), "261 260");
    CHECK_TEXT(ids_of(t, "     a", 0), "263 262 267");
    CHECK_TEXT(ids_of(t, "    a", 0), "263 266");
    CHECK_TEXT(ids_of(t, "a<td>a<a", 0), "267 264 265 267");
    CHECK_TEXT(ids_of(t, "<t", 0), "268 119");
    CHECK_TEXT(ids_of(t, "<", 0), "268");
}

TEST(control_pieces_only_when_allowed) {
    scoped_tokenizer *t = WITH("<", "e", "o", "t", ">", "<e", "<eo", "<eot", "<eot>");
    const char *text = "<eot>e";
    CHECK_TEXT(ids_of(t, text, 0), "267 260"); /* merges make the normal piece <eot>, not the control piece */
    CHECK_TEXT(ids_of(t, text, GW_TOKENIZE_SPECIAL), "2 260");
    CHECK_INT(gw_tokenizer_find(t, "<eot>", 5), 2);
    CHECK_TEXT(ids_of(t, "<unk>", GW_TOKENIZE_SPECIAL), "0");
    scoped_tokenizer *other = WITH("<", "b");
    CHECK_TEXT(ids_of(other, "<bos>", 0), "259 260 114 118 65");
    CHECK_TEXT(ids_of(other, "<0x41>", 0), "259 51 123 55 52 65"); /* text never matches the name of a byte piece */
}

/* Existing files mark turn tokens as user-defined or normal; even then ordinary text must not match them. */
TEST(turn_tokens_are_control_whatever_their_type) {
    static const int types[] = { GW_TOKEN_NORMAL, GW_TOKEN_USER, GW_TOKEN_UNUSED, GW_TOKEN_CONTROL };
    for (int i = 0; i < 4; i++) {
        scoped_tokenizer *t = begin();
        add(t, "<end_of_turn>", 0, types[i]); /* id PIECES: a control token because of its text */
        add(t, "<mine>", -1, types[i]);       /* id PIECES + 1: a control token because it is marked */
        add(t, "<end_of_turn>", 0, types[i]); /* the same text as id PIECES */
        add(t, "<start_function_call>", 0, types[i]);
        gw_tokenizer_mark_control(t, PIECES + 1);
        gw_tokenizer_mark_control(t, 1 << 20);
        finish(t);
        CHECK_INT(gw_tokenizer_type(t, PIECES), GW_TOKEN_CONTROL);
        CHECK_INT(gw_tokenizer_type(t, PIECES + 1), GW_TOKEN_CONTROL);
        CHECK_INT(gw_tokenizer_type(t, PIECES + 3), GW_TOKEN_CONTROL);
        int32_t ids[64];
        const char *text = "<end_of_turn><mine>";
        int n = gw_tokenizer_encode(t, text, strlen(text), 0, ids, 64);
        CHECK_INT(n, (int)strlen(text)); /* no piece matches: one token per byte */
        for (int k = 0; k < n; k++) CHECK(ids[k] < PIECES);
        CHECK_INT(gw_tokenizer_encode(t, text, strlen(text), GW_TOKENIZE_SPECIAL, ids, 64), 2);
        CHECK_INT(ids[0], PIECES);
        CHECK_INT(ids[1], PIECES + 1);
    }
}

TEST(decode_of_each_type) {
    scoped_tokenizer *t = WITH(SPACE "x" SPACE, "", "y");
    char out[8] = "";
    CHECK_INT(gw_tokenizer_decode(t, 1, 0, out, sizeof out), 0);
    CHECK_INT(gw_tokenizer_decode(t, 0, 0, out, sizeof out), 0);
    CHECK_INT(gw_tokenizer_decode(t, 1, GW_TOKENIZE_SPECIAL, out, sizeof out), 5);
    CHECK(!memcmp(out, "<bos>", 5));
    CHECK_INT(gw_tokenizer_decode(t, BYTES + 0xE2, 0, out, sizeof out), 1);
    CHECK_INT((unsigned char)out[0], 0xE2);
    CHECK_INT(gw_tokenizer_decode(t, 259, 0, out, sizeof out), 3);
    CHECK(!memcmp(out, " x ", 3));
    out[0] = '#';
    CHECK_INT(gw_tokenizer_decode(t, 259, 0, out, 2), 3); /* the buffer is too small, so only the length is returned */
    CHECK_INT(out[0], '#');
    CHECK_INT(gw_tokenizer_decode(t, 260, 0, out, sizeof out), 0);
    CHECK_INT(gw_tokenizer_decode(t, 262, 0, out, sizeof out), GW_E_BAD_TOKEN);
    CHECK_INT(gw_tokenizer_decode(t, -1, 0, out, sizeof out), GW_E_BAD_TOKEN);
    CHECK_INT(gw_tokenizer_type(t, 1), GW_TOKEN_CONTROL);
    CHECK_INT(gw_tokenizer_type(t, 9999), GW_E_BAD_TOKEN);
    CHECK_NEAR(gw_tokenizer_vocabulary(t)->scores[261], -2, 0);
    CHECK_INT(gw_tokenizer_size(t), 262);
    CHECK_INT(gw_tokenizer_find(t, "z", 1), -1);
}

TEST(bytes_that_are_not_utf8) {
    scoped_tokenizer *t = WITH("é", "a", "日");
    CHECK_TEXT(ids_of(t, "aéa日", 0), "260 259 260 261");
    CHECK_TEXT(ids_of(t, "\xC3", 0), "198");
    CHECK_TEXT(ids_of(t, "\xC3\xC3\xA9\xFF\xE6\x97", 0), "198 259 258 233 154");
    CHECK_TEXT(ids_of(t, "\xF0\xE6\x97\xA5\x80", 0), "243 261 131");
    CHECK_TEXT(ids_of(t, "\xED\xA0\x80\xC0\x80\xF5", 0), "240 163 131 195 131 248");
    int32_t ids[4];
    CHECK_INT(gw_tokenizer_encode(t, "a\0a", 3, 0, ids, 4), 3);
    CHECK_INT(ids[1], BYTES);
}

TEST(unknown_without_byte_pieces) {
    scoped_tokenizer *t = gw_tokenizer_new();
    add(t, "a", -1, GW_TOKEN_NORMAL);
    add(t, "<unk>", 0, GW_TOKEN_CONTROL); /* <unk> is a control token in converted Gemma files */
    finish(t);
    int32_t ids[8];
    CHECK_INT(gw_tokenizer_encode(t, "aéa\xFF", 5, 0, ids, 8), 4);
    CHECK_INT(ids[0], 0);
    CHECK_INT(ids[1], 1);
    CHECK_INT(ids[3], 1);
}

TEST(lowest_id_of_duplicates) {
    scoped_tokenizer *t = WITH("a", "b", "ab", "a", "ab");
    CHECK_TEXT(ids_of(t, "aba", 0), "261 259");
    scoped_tokenizer *many = begin();
    for (int i = 0; i < 1000; i++) add(many, "<x>", 0, i % 2 ? GW_TOKEN_USER : GW_TOKEN_CONTROL);
    finish(many);
    CHECK_TEXT(ids_of(many, "<x><x>", 0), "260 260");
}

TEST(space_for_ids_too_small) {
    scoped_tokenizer *t = WITH("a", "b", "ab");
    int32_t ids[4] = { 0, 0, 0, -7 };
    CHECK_INT(gw_tokenizer_encode(t, "abé", 4, 0, ids, 3), 3);
    CHECK_INT(gw_tokenizer_encode(t, "abé", 4, 0, ids, 2), GW_E_BAD_OPTION);
    CHECK_INT(gw_tokenizer_encode(t, "ab", 2, 0, ids, 0), GW_E_BAD_OPTION);
    CHECK_INT(gw_tokenizer_encode(t, "", 0, 0, NULL, 0), 0);
    CHECK_INT(ids[3], -7);
}

static int finish_with(int pieces, int scores, int types, gw_error *e) {
    scoped_tokenizer *t = gw_tokenizer_new();
    const char *names[] = { "<unk>", "a", "b", "ab" };
    for (int i = 0; i < pieces; i++) gw_tokenizer_add_piece(t, names[i], strlen(names[i]));
    for (int i = 0; i < scores; i++) gw_tokenizer_add_score(t, (float)-i);
    for (int i = 0; i < types; i++) gw_tokenizer_add_type(t, i ? GW_TOKEN_NORMAL : GW_TOKEN_UNKNOWN);
    int code = gw_tokenizer_finish(t, &by_score, e);
    int32_t ids[4];
    int n = gw_tokenizer_encode(t, "ab", 2, 0, ids, 4);
    CHECK_INT(n, code ? GW_E_BAD_STATE : 1);
    CHECK_INT(gw_tokenizer_find(t, "a", 1), code ? -1 : 1);
    return code;
}

TEST(counts_must_agree) {
    gw_error e = { 0 };
    CHECK_INT(finish_with(4, 4, 4, &e), 0);
    CHECK_INT(finish_with(4, 4, 0, &e), 0); /* without types, the names of pieces decide their types */
    CHECK_INT(finish_with(0, 0, 0, &e), GW_E_MISSING_TOKENIZER);
    CHECK_INT(finish_with(4, 3, 4, &e), GW_E_BAD_TOKENIZER);
    CHECK_SAYS(e.what, "tokenizer.ggml.scores");
    CHECK_SAYS(e.what, "(got 3)");
    CHECK_INT(finish_with(4, 0, 4, &e), GW_E_BAD_TOKENIZER);
    CHECK_INT(finish_with(4, 4, 3, &e), GW_E_BAD_TOKENIZER);
    CHECK_SAYS(e.what, "tokenizer.ggml.token_type");
    CHECK_INT(finish_with(3, 4, 4, &e), GW_E_BAD_TOKENIZER);
}

TEST(types_by_name) {
    scoped_tokenizer *t = gw_tokenizer_new();
    for (int i = 0; i < 258; i++) {
        const char *name = i == 0 ? "<unk>" : i == 1 ? "a" : byte_name(i - 2);
        gw_tokenizer_add_piece(t, name, strlen(name));
        gw_tokenizer_add_score(t, 0);
    }
    finish(t);
    CHECK_INT(gw_tokenizer_type(t, 0), GW_TOKEN_UNKNOWN);
    CHECK_INT(gw_tokenizer_type(t, 1), GW_TOKEN_NORMAL);
    CHECK_INT(gw_tokenizer_type(t, 2), GW_TOKEN_BYTE);
    CHECK_TEXT(ids_of(t, "az", 0), "1 124");
}

TEST(bad_elements) {
    gw_error e = { 0 };
    scoped_tokenizer *t = gw_tokenizer_new();
    CHECK_INT(gw_tokenizer_add_score(t, NAN), GW_E_BAD_TOKENIZER);
    CHECK_INT(gw_tokenizer_add_type(t, 0), GW_E_BAD_TOKENIZER);
    CHECK_INT(gw_tokenizer_add_type(t, 7), GW_E_BAD_TOKENIZER);
    static const char long_piece[GW_MAX_PIECE + 1] = "long";
    CHECK_INT(gw_tokenizer_add_piece(t, long_piece, sizeof long_piece), GW_E_BAD_TOKENIZER);
    add(t, "<0xG1>", 0, GW_TOKEN_BYTE);
    CHECK_INT(gw_tokenizer_finish(t, &by_score, &e), GW_E_BAD_TOKENIZER);
    CHECK_SAYS(e.what, "<0xG1>");
    scoped_tokenizer *bare = gw_tokenizer_new(), *done = WITH("a");
    add(bare, "a", 0, GW_TOKEN_NORMAL);
    CHECK_INT(gw_tokenizer_finish(bare, &by_score, &e), GW_E_BAD_TOKENIZER);
    CHECK_INT(gw_tokenizer_add_piece(done, "b", 1), GW_E_BAD_STATE);
    CHECK_INT(gw_tokenizer_finish(done, &by_score, &e), GW_E_BAD_STATE);
    CHECK_TEXT(ids_of(done, "a", 0), "259");
    gw_tokenizer_free(NULL);
}

/* Returns the ids of a text, at most two for each byte, because an inserted space can be a token. */
static const char *prefixed(gw_tokenizer *t, const char *text, int flags) {
    return ids_within(t, text, flags, 2 * strlen(text));
}

static gw_tokenizer *with_prefix(void) {
    gw_error e = { 0 };
    gw_tokenizer *t = begin();
    add(t, SPACE "a", -1, GW_TOKEN_NORMAL); /* id 259 */
    add(t, "a", -3, GW_TOKEN_NORMAL);
    add(t, SPACE, -2, GW_TOKEN_NORMAL); /* id 261 */
    add(t, SPACE SPACE, -5, GW_TOKEN_NORMAL);
    add(t, "\n", -9, GW_TOKEN_USER); /* id 263 */
    add(t, "  !", -9, GW_TOKEN_USER);
    CHECK_INT(gw_tokenizer_finish(t, &(gw_tokenizer_kind){ .model = "llama", .space_prefix = true }, &e), 0);
    return t;
}

TEST(blank_before_a_text) {
    scoped_tokenizer *t = with_prefix();
    CHECK_TEXT(prefixed(t, "", 0), "");
    CHECK_TEXT(prefixed(t, "a", 0), "259");
    CHECK_TEXT(prefixed(t, "aa", 0), "259 260");
    CHECK_TEXT(prefixed(t, " ", 0), "262");
    CHECK_TEXT(prefixed(t, " a", 0), "261 259"); /* the space merges with the letter, as in llama.cpp */
    CHECK_TEXT(prefixed(t, "é", 0), "261 198 172");
    CHECK_TEXT(prefixed(t, "a\na", 0), "259 263 259"); /* a space is inserted after each added token */
    CHECK_TEXT(prefixed(t, "\n\n a", 0), "263 263 261 259");
    CHECK_TEXT(prefixed(t, "  !a", 0), "264 259"); /* an added token keeps its spaces */
    CHECK_TEXT(prefixed(t, "a<eot>a", GW_TOKENIZE_SPECIAL), "259 2 259");
}

TEST(no_blank_before_what_continues_a_text) {
    scoped_tokenizer *t = with_prefix();
    int32_t ids[8];
    CHECK_INT(gw_tokenizer_encode(t, "a", 1, GW_TOKENIZE_CONTINUES, ids, 8), 1);
    CHECK_INT(ids[0], 260);
    CHECK_INT(gw_tokenizer_encode(t, "a\na", 3, GW_TOKENIZE_CONTINUES, ids, 8), 3);
    CHECK_INT(ids[2], 259);
    char out[4];
    CHECK_INT(gw_tokenizer_decode_after(t, 260, 259, 0, out, 4), 2); /* decodes token 259 with its space */
    CHECK_INT(gw_tokenizer_decode_after(t, 263, 259, 0, out, 4), 1);
    CHECK_INT(gw_tokenizer_decode_after(t, 1, 259, 0, out, 4), 1); /* after BOS (id 1), the space is left out */
    CHECK_INT(gw_tokenizer_decode(t, 259, 0, out, 4), 2);
}

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Applies the merge rule in O(n^2) to a text of single-byte characters; symbols are stored as lengths. */
static int naive(const gw_tokenizer *t, const char *text, size_t len, int32_t *ids) {
    size_t lengths[64], n = len;
    const float *scores = gw_tokenizer_vocabulary(t)->scores;
    for (size_t i = 0; i < n; i++) lengths[i] = 1;
    for (;;) {
        size_t best = n, at = 0;
        float best_score = 0;
        for (size_t i = 0; i + 1 < n; at += lengths[i++]) {
            int32_t id = gw_tokenizer_find(t, text + at, lengths[i] + lengths[i + 1]);
            if (id < 0 || (best < n && scores[id] <= best_score)) continue;
            best = i;
            best_score = scores[id];
        }
        if (best == n) break;
        lengths[best] += lengths[best + 1];
        n--;
        for (size_t i = best + 1; i < n; i++) lengths[i] = lengths[i + 1];
    }
    for (size_t i = 0, at = 0; i < n; at += lengths[i++]) ids[i] = gw_tokenizer_find(t, text + at, lengths[i]);
    return (int)n;
}

/* Returns a tokenizer of random pieces over two to four letters with few different scores: ties are frequent. */
static gw_tokenizer *random_vocabulary(uint32_t *seed, uint32_t letters) {
    gw_tokenizer *t = begin();
    for (uint32_t c = 0; c < letters; c++) add(t, (char[]){ (char)('a' + c), 0 }, -99, GW_TOKEN_NORMAL);
    for (int i = 0; i < 40; i++) {
        char piece[8] = "";
        size_t len = 2 + next_random(seed) % 4;
        for (size_t k = 0; k < len; k++) piece[k] = (char)('a' + next_random(seed) % letters);
        add(t, piece, -(float)(next_random(seed) % 5), GW_TOKEN_NORMAL);
    }
    finish(t);
    return t;
}

TEST(equals_naive_merge_on_random_texts) {
    uint32_t seed = 1;
    for (int v = 0; v < 40; v++) {
        uint32_t letters = 2 + (uint32_t)v % 3;
        scoped_tokenizer *t = random_vocabulary(&seed, letters);
        for (int i = 0; i < 100; i++) {
            char text[64];
            size_t len = next_random(&seed) % sizeof text;
            for (size_t k = 0; k < len; k++) text[k] = (char)('a' + next_random(&seed) % letters);
            int32_t got[64], expected[64];
            int n = gw_tokenizer_encode(t, text, len, 0, got, 64);
            int m = naive(t, text, len, expected);
            CHECK_INT(n, m);
            for (int k = 0; k < n; k++) CHECK_INT(got[k], expected[k]);
        }
    }
}

/* Returns the hash that vocabulary.c computes, as the author of a hostile file would. */
static uint32_t hash_of(const char *text) {
    size_t len = strlen(text);
    uint64_t h = len;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* Finds the first `n` of the words w0, w1 … whose hashes agree in the bits that select one of 2048 slots. */
static void colliding(char (*words)[16], int n) {
    for (uint32_t i = 0, found = 0; (int)found < n; i++) {
        snprintf(words[found], 16, "w%u", i);
        found += (hash_of(words[found]) & 2047) == 99;
    }
}

TEST(hostile_collisions_are_refused) {
    static char words[400][16];
    gw_error e = { 0 };
    colliding(words, 400);
    scoped_tokenizer *t = begin();
    for (int i = 0; i < 400; i++) add(t, words[i], -1, GW_TOKEN_NORMAL);
    CHECK_INT(gw_tokenizer_finish(t, &by_score, &e), GW_E_BAD_TOKENIZER);
    CHECK_SAYS(e.what, "256 or more hash collisions");
    CHECK_INT(gw_tokenizer_find(t, words[0], strlen(words[0])), -1);
}

TEST(some_collisions_are_found_all_the_same) {
    static char words[300][16];
    colliding(words, 300);
    scoped_tokenizer *t = begin();
    for (int i = 0; i < 400; i++) {
        char other[16];
        snprintf(other, sizeof other, "z%d", i);
        add(t, i < 200 ? words[i] : other, -1, GW_TOKEN_NORMAL);
    }
    finish(t);
    for (int i = 0; i < 300; i++)
        CHECK_INT(gw_tokenizer_find(t, words[i], strlen(words[i])), i < 200 ? PIECES + i : -1);
    CHECK_INT(gw_tokenizer_find(t, "z399", 4), PIECES + 399);
}

TEST(hostile_equal_pieces_are_one) {
    scoped_tokenizer *t = begin();
    for (int i = 0; i < 20000; i++) add(t, "same", -1, i % 2 ? GW_TOKEN_NORMAL : GW_TOKEN_USER);
    finish(t);
    CHECK_INT(gw_tokenizer_find(t, "same", 4), PIECES);
}

TEST(hostile_amounts_of_text_are_refused) {
    static char piece[GW_MAX_PIECE];
    memset(piece, 'x', sizeof piece);
    scoped_tokenizer *t = gw_tokenizer_new();
    for (int i = 0; i < GW_MAX_PIECES_TEXT / GW_MAX_PIECE; i++)
        CHECK_INT(gw_tokenizer_add_piece(t, piece, sizeof piece), 0);
    CHECK_INT(gw_tokenizer_add_piece(t, piece, 1), GW_E_BAD_COUNT);
}

/* Every merge of a text of one character looks up a longer piece, as pieces consist of 1, 2, 3 … of that character. */
TEST(hostile_ladder_of_pieces_merges_to_the_longest) {
    enum { TEXT = 100000 };
    static char piece[GW_MAX_PIECE + 1], text[TEXT];
    static int32_t ids[TEXT];
    scoped_tokenizer *t = begin();
    memset(text, 'x', sizeof text);
    for (int len = 1; len <= GW_MAX_PIECE; len++) {
        piece[len - 1] = 'x';
        add(t, piece, (float)len, GW_TOKEN_NORMAL);
    }
    finish(t);
    CHECK_INT(gw_tokenizer_encode(t, text, TEXT, 0, ids, TEXT), (TEXT + GW_MAX_PIECE - 1) / GW_MAX_PIECE);
    CHECK_INT(ids[0], PIECES + GW_MAX_PIECE - 1);
}

/* No control piece occurs in the text, but the tokenizer tries each at every position. */
TEST(hostile_ladder_of_control_pieces) {
    enum { TEXT = 20000 };
    static char piece[GW_MAX_PIECE + 2], text[TEXT];
    static int32_t ids[TEXT];
    scoped_tokenizer *t = begin();
    memset(text, 'x', sizeof text);
    add(t, "x", 0, GW_TOKEN_NORMAL);
    add(t, "xx", 0, GW_TOKEN_NORMAL);
    for (int len = 1; len < GW_MAX_PIECE; len++) {
        piece[len - 1] = 'x', piece[len] = 'y', piece[len + 1] = 0;
        add(t, piece, 0, GW_TOKEN_CONTROL);
    }
    finish(t);
    CHECK_INT(gw_tokenizer_encode(t, text, TEXT, GW_TOKENIZE_SPECIAL, ids, TEXT), TEXT / 2);
}

static void round_trip(gw_tokenizer *t, const char *text, size_t len, int expected) {
    scoped_memory int32_t *ids = malloc(len * sizeof *ids);
    scoped_memory char *back = malloc(len);
    CHECK(ids && back);
    int n = gw_tokenizer_encode(t, text, len, 0, ids, len);
    if (expected >= 0) CHECK_INT(n, expected);
    CHECK(n > 0);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        int bytes = gw_tokenizer_decode(t, ids[i], 0, back + at, len - at);
        CHECK(bytes >= 0 && (size_t)bytes <= len - at);
        at += (size_t)bytes;
    }
    CHECK_INT(at, len);
    CHECK(!memcmp(text, back, len));
}

TEST(a_megabyte_of_one_character_and_of_noise) {
    const size_t len = 1 << 20;
    scoped_memory char *text = malloc(len);
    CHECK(text);
    scoped_tokenizer *t = WITH("aa", "aaaa", "aaaaaaaa", "a", "ab", "b", SPACE);
    memset(text, 'a', len);
    round_trip(t, text, len, 1 << 17);
    CHECK(gw_tokenizer_bytes(t) < len); /* the scratch memory, 36 bytes per character, is freed */
    uint32_t seed = 7;
    for (size_t i = 0; i < len; i++) text[i] = (char)next_random(&seed);
    round_trip(t, text, len, -1);
    CHECK(gw_tokenizer_bytes(t) < len);
}

TEST(memory_per_piece) {
    scoped_tokenizer *t = begin();
    const int n = 1 << 16;
    for (int i = PIECES; i < n; i++) {
        char piece[16];
        snprintf(piece, sizeof piece, "p%x", i);
        add(t, piece, -(float)i, GW_TOKEN_NORMAL);
    }
    finish(t);
    CHECK(gw_tokenizer_bytes(t) <= (size_t)n * 64); /* the tokenizer has at most 16 MB for 262,144 pieces */
}
