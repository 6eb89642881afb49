/* The vocabulary's trees, and masks over them: each node once and in order, plain pieces by their number of characters as a
 * count by hand has them; masks of a string of so many characters against each token tried alone. What grammars are, and how
 * formats become them, is tested from JavaScript (tests/js/grammar*.test.js). */
#include "test.h"
#include "text/masks.h"
#include "text/matcher.h"

enum { BYTES = 256 };

/* Of one to thirty letters, some with two bytes, some that a JSON string does not take as they are. */
static const char *const pieces[] = {
    "a", "b", "ab", "aba", "abab", "a\"", "\"", "\"b", "\\", "a\\", "\n", "\xC3\xA9", "a\xC3\xA9", "\xC3\xA9\xC3\xA9", "\xC3",
    "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb", ("\xC3\xA9" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "ab\xC3",
};
enum { PIECES = sizeof pieces / sizeof *pieces, WORDS = (2 + BYTES + PIECES + 31) / 32 };

static gw_tokenizer *tokenizer;
static gw_trie trie;

static void add(const char *text, int type) {
    CHECK_INT(gw_tokenizer_add_piece(tokenizer, text, strlen(text)), 0);
    CHECK_INT(gw_tokenizer_add_score(tokenizer, 0), 0);
    CHECK_INT(gw_tokenizer_add_type(tokenizer, type), 0);
}

static void make_words(void) {
    gw_error e = { 0 };
    tokenizer = gw_tokenizer_new();
    CHECK(tokenizer != NULL);
    add("<unk>", GW_TOKEN_UNKNOWN);
    add("<eos>", GW_TOKEN_CONTROL);
    for (int c = 0; c < BYTES; c++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", c);
        add(name, GW_TOKEN_BYTE);
    }
    for (int i = 0; i < PIECES; i++) add(pieces[i], GW_TOKEN_NORMAL);
    gw_tokenizer_kind kind = { .model = "llama" };
    CHECK_INT(gw_tokenizer_finish(tokenizer, &kind, &e), 0);
    CHECK_INT(gw_trie_make(&trie, gw_tokenizer_vocabulary(tokenizer), &e), 0);
}

static void free_words(void) {
    gw_trie_free(&trie);
    gw_tokenizer_free(tokenizer);
}

/* Characters of a piece that a JSON string takes as they are, 0: it has others. Letters here are a, b and one of two bytes. */
static uint32_t plain_by_hand(const uint8_t *p, size_t n) {
    uint32_t chars = 0;
    for (size_t i = 0; i < n; i++, chars++) {
        if (p[i] == 0xC3 && i + 1 < n && p[i + 1] == 0xA9) i++;
        else if (p[i] < 0x20 || p[i] > 0x7F || p[i] == '"' || p[i] == '\\') return 0;
    }
    return chars;
}

static bool in(const uint32_t *mask, uint32_t id) { return mask[id / 32] >> id % 32 & 1; }

TEST(trie_nodes_are_in_order_and_skip_what_begins_like_them) {
    make_words();
    const gw_tree *t = &trie.all;
    for (uint32_t i = 0; i < t->n; i++) {
        CHECK(t->skip[i] > i && t->skip[i] <= t->n && t->depth[i] >= 1);
        for (uint32_t k = i + 1; k < t->skip[i]; k++) CHECK(t->depth[k] > t->depth[i]);
        if (t->skip[i] < t->n) CHECK(t->depth[t->skip[i]] <= t->depth[i]);
        uint32_t next = t->skip[i];
        if (next < t->n && t->depth[next] == t->depth[i]) CHECK((t->head[next] & 255) > (t->head[i] & 255));
    }
    free_words();
}

TEST(trie_plain_pieces_by_their_characters) {
    make_words();
    const gw_vocabulary *v = gw_tokenizer_vocabulary(tokenizer);
    for (uint32_t n = 1; n < 40; n++) {
        uint32_t mask[WORDS];
        memcpy(mask, gw_trie_plain(&trie, n), sizeof mask);
        gw_trie_long(&trie, n, mask);
        for (uint32_t id = 0; id < v->n; id++) {
            const uint8_t *text;
            uint8_t one[1];
            size_t len = gw_trie_piece(v, id, &text, one);
            uint32_t chars = len ? plain_by_hand(text, len) : 0, kept = id;
            for (uint32_t i = 0; i < trie.n_twins; i++)
                if (trie.twins[i].id == id) kept = trie.twins[i].as;
            CHECK_INT(in(mask, kept), chars > 0 && chars <= n);
        }
    }
    free_words();
}

#define SPAN(lo, hi, to) (lo) | (hi) << 8, to

enum { STRING_WORDS = 12 + 10 + 2 * 19 + 4 + 4 + 3 * 5 + 1 + 3 * 2 };

/* A quote, at most so many characters that a JSON string takes as they are, a quote; laid out as grammar.h says. */
static void string_of(uint32_t *w, uint32_t most) {
    const uint32_t words[STRING_WORDS] = {
        0x31475747, 1, STRING_WORDS, 10, 19, 4, 5, 1, 2, 0, 0, 0,
        0, 1, 2, 3, 4, 5, 6, 7, 8, 19,
        SPAN('"', '"', 0), SPAN(0x80, 0xBF, 0), SPAN(0x80, 0xBF, 2), SPAN(0x80, 0xBF, 3), SPAN(0xA0, 0xBF, 2),
        SPAN(0x80, 0x9F, 2), SPAN(0x90, 0xBF, 3), SPAN(0x80, 0x8F, 3),
        SPAN(0x20, 0x21, 0), SPAN(0x23, 0x5B, 0), SPAN(0x5D, 0x7F, 0), SPAN(0xC2, 0xDF, 2), SPAN(0xE0, 0xE0, 5),
        SPAN(0xE1, 0xEC, 3), SPAN(0xED, 0xED, 6), SPAN(0xEE, 0xEF, 3), SPAN(0xF0, 0xF0, 7), SPAN(0xF1, 0xF3, 4),
        SPAN(0xF4, 0xF4, 8),
        1, 3, 5, 5,
        0, 0, 1 << 1, 1,   /* before, behind the quote, behind a character, behind all */
        GW_BYTES, 1, 1,
        GW_BYTES, 9, 2,
        GW_BYTES, 1, 3,
        GW_BYTES | GW_NEXT << 2, 9, 2,
        GW_BYTES | GW_EXIT << 2, 1, 3,
        0,
        0, GW_NEVER, 0, 0, most, 0,
    };
    memcpy(w, words, sizeof words);
}

/* Every token of the mask is one that is taken when it is tried alone, and the other way about, wherever a text comes to. */
static void check_masks(gw_matcher *m, const char *text) {
    for (size_t at = 0; at <= strlen(text); at++) {
        uint32_t mask[WORDS];
        const uint32_t *bits = gw_matcher_mask(m);
        CHECK(bits != NULL);
        memcpy(mask, bits, sizeof mask);
        for (uint32_t id = 0; id < trie.n_vocab; id++) CHECK_INT(gw_matcher_allows(m, (int32_t)id), in(mask, id));
        CHECK(gw_matcher_mask(m) != NULL && !memcmp(gw_matcher_mask(m), mask, sizeof mask));   /* known by now */
        if (at < strlen(text)) CHECK_INT(gw_matcher_accept_text(m, text + at, 1), 1);
    }
}

TEST(masks_of_strings_are_what_each_token_alone_says) {
    static const uint32_t most[] = { 1, 2, 3, 15, 16, 17, 20, 24, 31, 200, GW_NEVER };
    static const int32_t ends[] = { 1 };
    make_words();
    gw_words of = { tokenizer, &trie, ends, 1 };
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        uint32_t words[STRING_WORDS];
        gw_error e = { 0 };
        string_of(words, most[i]);
        gw_matcher *m = gw_matcher_new(words, sizeof words, of, &e);
        CHECK(m != NULL);
        check_masks(m, most[i] > 3 ? "\"aba\xC3\xA9\"" : "\"a\"");
        CHECK(gw_matcher_complete(m) && gw_matcher_finished(m));
        CHECK(gw_matcher_found(m) > 0);
        gw_matcher_free(m);
    }
    free_words();
}

TEST(masks_of_known_states_are_not_looked_for_again) {
    static const int32_t ends[] = { 1 };
    uint32_t words[STRING_WORDS];
    gw_error e = { 0 };
    make_words();
    string_of(words, GW_NEVER);
    gw_words of = { tokenizer, &trie, ends, 1 };
    gw_matcher *m = gw_matcher_new(words, sizeof words, of, &e);
    CHECK(m != NULL);
    check_masks(m, "\"ab\"");
    uint32_t found = gw_matcher_found(m);
    CHECK_INT(gw_matcher_reset(m), 0);
    check_masks(m, "\"abababab\"");
    CHECK_INT(gw_matcher_found(m), found);
    gw_matcher_free(m);
    free_words();
}

/* A grammar's states in a block of so many words, and what masks need. */
typedef struct { gw_grammar g; gw_states s; gw_masks k; gw_arena a; gw_item items[GW_MOST_ITEMS]; } small;

static void open_small(small *z, const uint32_t *words, uint32_t size, gw_error *e) {
    memset(z, 0, sizeof *z);
    CHECK_INT(gw_grammar_read(&z->g, words, STRING_WORDS * sizeof *words, trie.n_vocab, e), 0);
    CHECK_INT(gw_states_init(&z->s, &z->g, e), 0);
    gw_masks_take(&z->k, &z->a, &trie, &z->g);
    z->a = (gw_arena){ .base = gw_alloc(gw_size(z->a.used)), .size = z->a.used };
    gw_masks_take(&z->k, &z->a, &trie, &z->g);
    z->s.size = size;
    z->k.s = &z->s;
    z->k.plain.s = &z->s;
    z->k.items = z->items;
}

static void close_small(small *z) {
    gw_free(z->a.base);
    gw_states_free(&z->s);
    gw_grammar_free(&z->g);
}

/* The mask behind a text. 0, or GW_FULL. */
static int mask_in(small *z, const char *text, uint32_t *mask) {
    int bad = gw_set_begin(&z->s);
    for (size_t i = 0; i <= strlen(text) && !bad; i++) {
        z->k.n_items = z->s.set->n;
        memcpy(z->items, z->s.set->items, z->s.set->n * sizeof *z->items);
        gw_set_clear(&z->s);
        if (i < strlen(text)) bad = gw_set_step(&z->s, z->items, z->k.n_items, (uint8_t)text[i]);
    }
    z->k.fresh = true;
    return bad ? bad : gw_masks_add(&z->k, 0, z->k.n_items, mask);
}

TEST(masks_are_the_same_where_room_had_to_be_made) {
    enum { FULL = 1 << 16, SMALLEST = 300 };
    make_words();
    uint32_t words[STRING_WORDS], full[WORDS], mask[WORDS], known, forgot = 0;
    small *z = malloc(sizeof *z);
    gw_error e = { 0 };
    string_of(words, 24);
    open_small(z, words, FULL, &e);
    CHECK_INT(mask_in(z, "\"a", full), 0);
    known = z->s.n_states;
    close_small(z);
    for (uint32_t size = SMALLEST; size < 6000; size += 50) {
        open_small(z, words, size, &e);
        int bad = mask_in(z, "\"a", mask);
        CHECK(bad == 0 || bad == GW_FULL);
        if (!bad) CHECK(!memcmp(mask, full, sizeof full));
        if (!bad) forgot += z->s.n_states < known;
        close_small(z);
    }
    CHECK(forgot > 3);
    free(z);
    free_words();
}
