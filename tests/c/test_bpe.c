/* Tests byte-level BPE: expected words and ids from other implementations (tests/vectors/bpe.md), a handwritten case
 * for each rule, malformed files, and hostile texts, which are long or could be slow to encode. tests/js/bpe.test.js
 * compares the ids of 20,000 texts. */
#include "encode.h"
#include "scoped.h"
#include "test.h"
#include "text/classes.h"
#include "text/split.h"
#include "text/tokenizer.h"

#include <time.h>

struct bpe_case {
    const char *text;
    size_t len;
    const char *words[5];
};
struct bpe_merge {
    const char *pair;
    int32_t made;
};
#include "../vectors/bpe.inc"

enum { CASES = COUNT(bpe_cases) };
static const char *const kinds[] = { "gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "smaug-bpe" };

static const char *words_of(int kind, const char *text, size_t len) {
    static char out[4096];
    size_t n = 0, at = 0;
    out[0] = 0;
    while (at < len) {
        size_t word = gw_split_word(gw_split_named(kinds[kind]), (const uint8_t *)text + at, len - at);
        CHECK(word > 0 && word <= len - at);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%zu", at ? " " : "", word);
        at += word;
    }
    return out;
}

TEST(bpe_words_are_those_of_the_oracle) {
    for (int i = 0; i < CASES; i++)
        for (int kind = 0; kind < 6; kind++) {
            const struct bpe_case *c = &bpe_cases[i];
            const char *got = words_of(kind, c->text, c->len), *expected = c->words[kind < 5 ? kind : 2];
            if (strcmp(got, expected))
                gw_test_fail(__FILE__, __LINE__, "%s of %s: expected %s, got %s", kinds[kind], c->text, expected, got);
        }
}

TEST(bpe_names_that_share_an_expression) {
    static const struct {
        const char *name;
        gw_split split;
    } some[] = { { "refact", GW_SPLIT_SMOLLM },  { "granite-docling", GW_SPLIT_GPT2 },
                 { "dbrx", GW_SPLIT_DBRX },      { "deepseek-r1-qwen", GW_SPLIT_QWEN2 },
                 { "gpt-4o", GW_SPLIT_GPT4O },   { "llama3", GW_SPLIT_LLAMA3 },
                 { "smaug-bpe", GW_SPLIT_DBRX }, { "", GW_SPLIT_UNKNOWN },
                 { "dbr", GW_SPLIT_UNKNOWN } };
    for (size_t i = 0; i < COUNT(some); i++) CHECK_INT(gw_split_named(some[i].name), some[i].split);
}

TEST(bpe_words_of_bytes_that_are_not_utf8) {
    CHECK_TEXT(words_of(0, "a\xFF\xC3 b", 5), "1 2 2");
    CHECK_TEXT(words_of(3, "a\xFF\xC3 b", 5), "1 2 2");
    CHECK_TEXT(words_of(2,
                        "\xE0\x80\xA0"
                        "a",
                        4),
               "4"); /* an overlong encoding of a space is not a space */
    CHECK_TEXT(words_of(0,
                        "\xE0\x80\xA0"
                        "a",
                        4),
               "3 1");
    CHECK_TEXT(words_of(0,
                        "\xF4\x90\x80\x80"
                        "a",
                        5),
               "4 1");                                       /* the bytes of a code above U+10FFFF form one word */
    CHECK_TEXT(words_of(0, "\xED\xA0\x80\xE6\x97", 5), "5"); /* a lone surrogate and a truncated character: one word */
}

TEST(classes_of_characters) {
    static const struct {
        uint32_t code;
        gw_class class;
    } some[] = {
        { 0, GW_OTHER },        { 'a', GW_LOWER },      { 'Z', GW_UPPER },    { '0', GW_NUMBER },
        { ' ', GW_BLANK },      { 0x85, GW_BLANK },     { 0xA0, GW_BLANK },   { 0xAA, GW_LETTER },
        { 0xB2, GW_NUMBER },    { 0xDF, GW_LOWER },     { 0x100, GW_UPPER },  { 0x101, GW_LOWER },
        { 0x1C5, GW_UPPER },    { 0x2B0, GW_LETTER },   { 0x301, GW_MARK },   { 0x663, GW_NUMBER },
        { 0x903, GW_MARK },     { 0x1680, GW_BLANK },   { 0x180E, GW_OTHER }, { 0x200B, GW_OTHER },
        { 0x2028, GW_BLANK },   { 0x2167, GW_NUMBER },  { 0x3000, GW_BLANK }, { 0x4E00, GW_LETTER },
        { 0x9FFF, GW_LETTER },  { 0xA640, GW_UPPER },   { 0xD800, GW_OTHER }, { 0xFEFF, GW_OTHER },
        { 0x1D7FF, GW_NUMBER }, { 0x20000, GW_LETTER }, { 0xE0100, GW_MARK }, { 0x10FFFF, GW_OTHER },
    };
    for (size_t i = 0; i < COUNT(some); i++) CHECK_INT(gw_class_of(some[i].code), some[i].class);
}

static void add(gw_tokenizer *t, const char *text, int type) {
    CHECK_INT(gw_tokenizer_add_piece(t, text, strlen(text)), 0);
    CHECK_INT(gw_tokenizer_add_type(t, type), 0);
}

static void add_merge(gw_tokenizer *t, const char *pair) {
    CHECK_INT(gw_tokenizer_add_merge(t, pair, strlen(pair)), 0);
}

/* Adds a merge such as "a b", and the piece that it makes. */
static void add_made(gw_tokenizer *t, const char *pair) {
    char text[256];
    const char *gap = strchr(pair, ' ');
    snprintf(text, sizeof text, "%.*s%s", (int)(gap - pair), pair, gap + 1);
    add(t, text, GW_TOKEN_NORMAL);
    add_merge(t, pair);
}

/* Returns the printable character that stands for a byte in GPT-2's vocabulary. */
static const char *letter(int byte) {
    static char out[3];
    int hidden = 256, c = byte;
    for (int b = 0; b < 256; b++) {
        bool seen = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
        if (b == byte && !seen) c = hidden;
        hidden += !seen;
    }
    out[0] = (char)(c < 128 ? c : 0xC0 | c >> 6);
    out[1] = (char)(c < 128 ? 0 : 0x80 | (c & 63));
    return out;
}

static void add_letters(gw_tokenizer *t) {
    for (int b = 0; b < 256; b++) add(t, letter(b), GW_TOKEN_NORMAL);
}

static int finish(gw_tokenizer *t, const char *pre, gw_error *e) {
    return gw_tokenizer_finish(t, &(gw_tokenizer_kind){ .model = "gpt2", .pre = pre }, e);
}

static gw_tokenizer *ready(gw_tokenizer *t, const char *pre) {
    gw_error e = { 0 };
    if (finish(t, pre, &e)) gw_test_fail(__FILE__, __LINE__, "%s", e.what);
    return t;
}

/* Returns a byte-level tokenizer with the given merges, whose results have the ids from 256 on. */
static gw_tokenizer *kept(const struct bpe_merge *merges, size_t n, const char *pre) {
    gw_tokenizer *t = gw_tokenizer_new();
    add_letters(t);
    for (size_t i = 0; i < n; i++) add_made(t, merges[i].pair);
    return ready(t, pre);
}

static void check_ids(const struct bpe_merge *merges, size_t n, const int32_t *bytes, const char *const *expected,
                      const char *pre) {
    scoped_tokenizer *t = kept(merges, n, pre);
    for (int i = 0; i < BPE_WITH_IDS; i++) {
        int32_t ids[1024];
        char out[8192] = "";
        size_t at = 0;
        int count = gw_tokenizer_encode(t, bpe_cases[i].text, bpe_cases[i].len, 0, ids, 1024);
        CHECK(count >= 0);
        for (int k = 0; k < count; k++)
            at += (size_t)snprintf(out + at, sizeof out - at, "%s%d", k ? " " : "",
                                   (int)(ids[k] < 256 ? bytes[ids[k]] : merges[ids[k] - 256].made));
        CHECK_TEXT(out, expected[i]);
    }
}

TEST(bpe_ids_of_gpt2) { check_ids(gpt2_merges, COUNT(gpt2_merges), gpt2_bytes, gpt2_ids, "gpt-2"); }
TEST(bpe_ids_of_qwen2) { check_ids(qwen2_merges, COUNT(qwen2_merges), qwen2_bytes, qwen2_ids, "qwen2"); }

/* Ids of the test vocabularies: bytes 0 to 255, control token <|c|> 256, user-defined token <|u|> 257, results of
 * merges from 258 on. */
enum { CONTROL = 256, USER = 257, MADE = 258 };

static gw_tokenizer *begin(const char *const *merges, size_t n) {
    gw_tokenizer *t = gw_tokenizer_new();
    add_letters(t);
    add(t, "<|c|>", GW_TOKEN_CONTROL);
    add(t, "<|u|>", GW_TOKEN_USER);
    for (size_t i = 0; i < n; i++) add_made(t, merges[i]);
    return t;
}

#define BEGIN(...) \
    begin((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(bpe_first_merge_of_the_list_and_leftmost) {
    scoped_tokenizer *t = ready(BEGIN("b c", "a b", "a a"), "gpt-2");
    CHECK_TEXT(ids_of(t, "abc", 0), "97 258");
    CHECK_TEXT(ids_of(t, "abab", 0), "259 259");
    CHECK_TEXT(ids_of(t, "aaaaa", 0), "260 260 97");
}

TEST(bpe_pair_of_pieces_counts_not_their_text) {
    scoped_tokenizer *t = ready(BEGIN("a b", "ab c", "b c", "a bc"), "gpt-2");
    CHECK_TEXT(ids_of(t, "abc", 0), "259");
    CHECK_TEXT(ids_of(t, "bc", 0), "260");
    /* The merge "b c" comes first, and no merge joins "a" and "bc". */
    scoped_tokenizer *two = ready(BEGIN("b c", "a b", "ab c"), "gpt-2");
    CHECK_TEXT(ids_of(two, "abc", 0), "97 258");
    /* With llama-bpe, a whole word that is a piece becomes that piece, whatever the merges. */
    scoped_tokenizer *one = ready(BEGIN("b c", "a b", "ab c"), "llama-bpe");
    CHECK_TEXT(ids_of(one, "abc", 0), "260");
    CHECK_TEXT(ids_of(one, "abcc", 0), "97 258 99");
    scoped_tokenizer *other = ready(BEGIN("b c", "a b", "ab c"), "smaug-bpe");
    CHECK_TEXT(ids_of(other, "abc", 0), "97 258");
}

/* With gpt-4o, a letter without case ends a word only if no lower case follows the run of upper case after it. */
TEST(bpe_parts_of_a_text_in_upper_case) {
    static const char *const texts[] = { "\346\227\245ABCDEFGHIJKLMNOPQRSTUVWXYZabc def",
                                         "\346\227\245ABCDEFGHIJKLMNOPQRSTUVWXYZ123 def",
                                         "\346\227\245A\xC3\x84\xC3\x96\xC3\x9C\xC3\x84\xC3\x96\xC3\x9C\xC3\x9F" };
    scoped_tokenizer *t = ready(BEGIN("¥ A"), "gpt-4o"); /* the merge joins A5, the last byte of 日, and A */
    for (size_t i = 0; i < COUNT(texts); i++) {
        int32_t whole[64], parts[64];
        size_t len = strlen(texts[i]);
        int n = gw_tokenizer_encode(t, texts[i], len, 0, whole, 64);
        CHECK_INT(whole[2] == MADE, i != 1);
        for (size_t end = 1; end < len; end++) {
            int first = gw_tokenizer_encode(t, texts[i], end, GW_TOKENIZE_MORE, parts, 64);
            size_t at = gw_tokenizer_taken(t);
            int rest = gw_tokenizer_encode(t, texts[i] + at, len - at, 0, parts + first, 64);
            CHECK_INT(first + rest, n);
            CHECK(!memcmp(whole, parts, (size_t)n * sizeof *whole));
        }
    }
}

TEST(bpe_bytes_of_every_kind_come_back) {
    scoped_tokenizer *t = ready(BEGIN("Ġ a", "Ã ©", "Ċ Ċ"), "qwen2");
    CHECK_TEXT(ids_of(t, " a\xC3\xA9\n\n", 0), "258 259 260");
    CHECK_TEXT(ids_of(t, "\xC3\xFF\xE2\x96\x81", 0), "195 255 226 150 129"); /* in BPE, U+2581 is three plain bytes */
    for (int c = 0; c < 256; c++) {
        int32_t id;
        char byte = (char)c, back;
        CHECK_INT(gw_tokenizer_encode(t, &byte, 1, 0, &id, 1), 1);
        CHECK_INT(id, c);
        CHECK_INT(gw_tokenizer_decode(t, id, 0, &back, 1), 1);
        CHECK_INT(back, byte);
    }
}

TEST(bpe_control_tokens_only_when_allowed) {
    scoped_tokenizer *t = ready(BEGIN("< |", "<| c", "<|c |", "<|c| >", "<| im", "i m"), "llama-bpe");
    /* Merging makes the normal piece with the text <|c|>, never the control piece with that text. */
    int32_t ids[16];
    int n = gw_tokenizer_encode(t, "<|c|>", 5, 0, ids, 16);
    for (int i = 0; i < n; i++) CHECK(ids[i] != CONTROL);
    CHECK_TEXT(ids_of(t, "<|c|>", GW_TOKENIZE_SPECIAL), "256");
    CHECK_TEXT(ids_of(t, "a<|u|>a", 0), "97 257 97");
    CHECK_INT(gw_tokenizer_find(t, "<|c|>", 5), CONTROL);
}

TEST(bpe_no_merge_makes_a_control_token) {
    for (int marked = 0; marked < 2; marked++) {
        scoped_tokenizer *t = BEGIN("a b", "c d");
        if (marked) gw_tokenizer_mark_control(t, MADE + 2);
        add(t, "abcd", marked ? GW_TOKEN_NORMAL : GW_TOKEN_CONTROL);
        add_merge(t, "ab cd");
        ready(t, "llama-bpe");
        CHECK_TEXT(ids_of(t, "abcd", 0), "258 259");
        CHECK_TEXT(ids_of(t, "abcd", GW_TOKENIZE_SPECIAL), "260");
    }
    scoped_tokenizer *t = BEGIN("a b"); /* a file that uses the piece "!" for padding can still encode "!" */
    gw_tokenizer_mark_control(t, '!');
    ready(t, "gpt-2");
    CHECK_TEXT(ids_of(t, "!", 0), "33");
}

TEST(bpe_turn_tokens_are_control_whatever_their_type) {
    scoped_tokenizer *t = BEGIN("a b");
    add(t, "<|im_end|>", GW_TOKEN_USER);
    add(t, "<|eot_id|>", GW_TOKEN_NORMAL);
    add(t, "<｜end▁of▁sentence｜>", GW_TOKEN_NORMAL);
    ready(t, "qwen2");
    CHECK_INT(gw_tokenizer_type(t, MADE + 1), GW_TOKEN_CONTROL);
    CHECK_INT(gw_tokenizer_type(t, MADE + 2), GW_TOKEN_CONTROL);
    CHECK_INT(gw_tokenizer_type(t, MADE + 3), GW_TOKEN_UNUSED);
    char out[64];
    CHECK_INT(gw_tokenizer_decode(t, MADE + 3, 0, out, sizeof out), (int)strlen("<｜end▁of▁sentence｜>"));
}

static void refused(gw_tokenizer *t, const char *pre, const char *what, const char *got) {
    gw_error e = { 0 };
    CHECK_INT(finish(t, pre, &e), GW_E_BAD_TOKENIZER);
    CHECK_SAYS(e.what, what);
    CHECK_SAYS(e.what, got);
    CHECK_INT(gw_tokenizer_encode(t, "a", 1, 0, &(int32_t){ 0 }, 1), GW_E_BAD_STATE);
    gw_tokenizer_free(t);
}

TEST(bpe_refuses_wrong_files) {
    refused(BEGIN("a b"), "phi-9", "tokenizer.ggml.pre", "(got phi-9)");
    refused(BEGIN("a b"), NULL, "tokenizer.ggml.pre", "(got no string)");
    gw_tokenizer *t = gw_tokenizer_new();
    add_letters(t);
    refused(t, "gpt-2", "tokenizer.ggml.merges", "missing or empty");
    static const char *const wrong[] = { "ab", "a", " ab", "a ", "", "a zz", "zz a", "a c", "a  b", "a b c", "日 a" };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        t = BEGIN("a b");
        add_merge(t, wrong[i]);
        refused(t, "gpt-2", "Merge 1 must be two tokens of the vocabulary", wrong[i]);
    }
    t = BEGIN("a b");
    CHECK_INT(gw_tokenizer_add_merge(t, "a\0b", 3), GW_E_BAD_TOKENIZER);
    static char long_merge[2 * GW_MAX_PIECE + 2];
    memset(long_merge, 'a', sizeof long_merge);
    CHECK_INT(gw_tokenizer_add_merge(t, long_merge, sizeof long_merge), GW_E_BAD_TOKENIZER);
    gw_tokenizer_add_score(t, 0);
    refused(t, "gpt-2", "tokenizer.ggml.scores", "(got 1)");
}

TEST(unknown_tokenizers_are_refused) {
    static const char *const models[] = { "bert", "t5", "", NULL };
    for (int i = 0; i < 4; i++) {
        gw_error e = { 0 };
        scoped_tokenizer *t = BEGIN("a b");
        CHECK_INT(gw_tokenizer_finish(t, &(gw_tokenizer_kind){ .model = models[i], .pre = "gpt-2" }, &e),
                  GW_E_BAD_TOKENIZER);
        CHECK_SAYS(e.what, "tokenizer.ggml.model");
        CHECK_SAYS(e.what, "llama, gpt2 or gemma4");
    }
}

/* Gemma 4's vocabulary: U+2581 is a space; merges join characters, even into a piece that is marked as unused; if two
 * pieces have the same text, the later one is used; a character without a piece becomes its bytes. */
TEST(merges_over_characters) {
    static const char *const pieces[] = { "\xE2\x96\x81",
                                          "a",
                                          "b",
                                          "ab",
                                          ("\xE2\x96\x81"
                                           "a"),
                                          "ab" };
    gw_error e = { 0 };
    scoped_tokenizer *t = gw_tokenizer_new();
    for (int b = 0; b < 256; b++) add(t, byte_name(b), GW_TOKEN_BYTE);
    for (int i = 0; i < 6; i++) add(t, pieces[i], GW_TOKEN_NORMAL);
    add(t, "ba", GW_TOKEN_UNUSED);
    add_merge(t, "a b");
    add_merge(t, "\xE2\x96\x81 a");
    add_merge(t, "b a");
    gw_tokenizer_kind kind = { .model = "gemma4", .space_prefix = true }; /* ignored: not a score-based tokenizer */
    CHECK_INT(gw_tokenizer_finish(t, &kind, &e), 0);
    CHECK_TEXT(ids_of(t, " ab", 0), "256 261");
    CHECK_TEXT(ids_of(t, " aa", 0), "260 257");
    CHECK_TEXT(ids_of(t, "ba", 0), "262");
    CHECK_TEXT(ids_of(t, "b\xC3\xA9\n", 0), "258 195 169 10");
}

TEST(bpe_merges_said_twice_and_state) {
    scoped_tokenizer *t = BEGIN("a b", "b c");
    add_merge(t, "a b");
    ready(t, "gpt-2");
    CHECK_TEXT(ids_of(t, "abc", 0), "258 99");
    CHECK_INT(gw_tokenizer_add_merge(t, "a b", 3), GW_E_BAD_STATE);
}

/* A byte without a piece is omitted, as in both reference implementations (tests/vectors/bpe.md). */
TEST(bpe_byte_without_a_piece) {
    scoped_tokenizer *t = gw_tokenizer_new();
    add(t, "a", GW_TOKEN_NORMAL);
    add(t, "b", GW_TOKEN_NORMAL);
    add(t, "ab", GW_TOKEN_NORMAL);
    add_merge(t, "a b");
    ready(t, "gpt-2");
    int32_t ids[8];
    CHECK_INT(gw_tokenizer_encode(t, "ab\x01z", 4, 0, ids, 8), 1);
    CHECK_INT(ids[0], 2);
}

static double seconds_of(gw_tokenizer *t, const char *unit, size_t len, int32_t *ids, char *text) {
    size_t n = strlen(unit);
    for (size_t i = 0; i < len; i++) text[i] = unit[i % n];
    clock_t start = clock();
    int count = gw_tokenizer_encode(t, text, len, 0, ids, len);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    size_t at = 0;
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        char back[64];
        int bytes = gw_tokenizer_decode(t, ids[i], 0, back, sizeof back);
        CHECK(bytes > 0 && at + (size_t)bytes <= len && !memcmp(back, text + at, (size_t)bytes));
        at += (size_t)bytes;
    }
    CHECK_INT(at, len);
    return seconds;
}

/* Encoding each text takes milliseconds, and less than a second on a busy machine. With a linear search for the next
 * merge, which makes encoding quadratic, the first text takes 20 s. */
TEST(bpe_hostile_texts_take_linear_time) {
    static const char *const units[] = {
        "a",  " ",   "\n", " \n", "1",         "\xCC\x81", "\xFF", "\xE6", "'", "'s", "\xE6\x97\xA5",
        " a", "\t ", "!",  "\r",  "a\xCC\x81", "<|",
    };
    enum { LENGTH = 1 << 18, MOST_SECONDS = 10 };
    scoped_memory int32_t *ids = malloc(LENGTH * sizeof *ids);
    scoped_memory char *text = malloc(LENGTH);
    CHECK(ids && text);
    for (int kind = 0; kind < 5; kind++) {
        scoped_tokenizer *t = ready(BEGIN("a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "1 1", "Ì ģ", "æ Ĺ", "æĹ ¥", "Ġ a"),
                                    kinds[kind]);
        for (size_t i = 0; i < COUNT(units); i++) {
            double seconds = seconds_of(t, units[i], LENGTH, ids, text);
            if (seconds > MOST_SECONDS)
                gw_test_fail(__FILE__, __LINE__, "%s, unit %zu: %.3f s", kinds[kind], i, seconds);
        }
        CHECK(gw_tokenizer_bytes(t) < 2 << 20);
    }
}

/* A word has a maximum length in byte-level BPE and in SentencePiece tokenizers. The error names the limit, and the
 * tokenizer stays usable. */
TEST(stretches_beyond_the_bound_are_refused) {
    const size_t most = 1 << 22;
    scoped_memory char *text = malloc(most + 2);
    scoped_memory int32_t *ids = malloc((most + 2) * sizeof *ids);
    CHECK(text && ids);
    memset(text, 'a', most + 2);
    gw_tokenizer *two[2] = { ready(BEGIN("a a"), "gpt-2"), gw_tokenizer_new() };
    gw_error e = { 0 };
    add(two[1], "<unk>", GW_TOKEN_UNKNOWN);
    add(two[1], "aa", GW_TOKEN_NORMAL);
    for (int i = 0; i < 2; i++) gw_tokenizer_add_score(two[1], 0);
    CHECK_INT(gw_tokenizer_finish(two[1], &(gw_tokenizer_kind){ .model = "llama" }, &e), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(gw_tokenizer_encode(two[i], text, most, 0, ids, most), 1 << 21);
        int code = gw_tokenizer_encode(two[i], text, most + 1, 0, ids, most + 1);
        CHECK_INT(code, GW_E_BAD_COUNT);
        CHECK_INT(gw_tokenizer_refusal(two[i], code, most + 1, most + 1, &e), GW_E_BAD_COUNT);
        CHECK_SAYS(e.what, "A word must have at most 4194304 characters");
        CHECK_SAYS(e.what, "a text of 4194305 bytes has a longer one");
        CHECK(gw_tokenizer_bytes(two[i]) < 1 << 20);
        CHECK(gw_tokenizer_encode(two[i], "aa", 2, 0, ids, 2) == 1);
        gw_tokenizer_free(two[i]);
    }
}
