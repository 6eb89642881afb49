/* The trie of a vocabulary, and masks: nodes are sorted; plain tokens have the number of characters that a simple count
 * gives; masks inside JSON strings have exactly the tokens that the grammar accepts one by one.
 * tests/js/grammar*.test.js test grammars and the compilation of formats. */
#include "encode.h"
#include "test.h"
#include "text/masks.h"
#include "text/matcher.h"

#include <time.h>

enum { BYTES = 256 };

/* Pieces of one to thirty letters. Some letters have two bytes, some must be escaped in a JSON string. */
/* clang-format off */
static const char *const pieces[] = {
    "a", "b", "ab", "aba", "abab", "a\"", "\"", "\"b", "\\", "a\\", "\n",
    "\xC3\xA9", "a\xC3\xA9", "\xC3\xA9\xC3\xA9", "\xC3",
    "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb",
    ("\xC3\xA9" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "ab\xC3",
};
/* clang-format on */
enum { PIECES = COUNT(pieces), WORDS = (2 + BYTES + PIECES + 31) / 32 };

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
    for (int c = 0; c < BYTES; c++) add(byte_name(c), GW_TOKEN_BYTE);
    for (int i = 0; i < PIECES; i++) add(pieces[i], GW_TOKEN_NORMAL);
    gw_tokenizer_kind kind = { .model = "llama" };
    CHECK_INT(gw_tokenizer_finish(tokenizer, &kind, &e), 0);
    CHECK_INT(gw_trie_make(&trie, gw_tokenizer_vocabulary(tokenizer), &e), 0);
}

static void free_words(void) {
    gw_trie_free(&trie);
    gw_tokenizer_free(tokenizer);
}

/* Counts the characters of a piece that a JSON string holds without escapes, 0 for other pieces. Letters in these
 * pieces are a, b, and é of two bytes. */
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
            for (uint32_t i = 0; i < trie.n_duplicates; i++)
                if (trie.duplicates[i].id == id) kept = trie.duplicates[i].as;
            CHECK_INT(in(mask, kept), chars > 0 && chars <= n);
        }
    }
    free_words();
}

#define SPAN(lo, hi, to) (lo) | (hi) << 8, to

enum { STRING_WORDS = 12 + 10 + 2 * 19 + 4 + 4 + 3 * 5 + 1 + 3 * 2 };

/* Writes a compiled grammar: a quote, at most `most` plain characters, and a quote. */
static void string_of(uint32_t *w, uint32_t most) {
    /* clang-format off */
    const uint32_t words[STRING_WORDS] = {
        0x31475747, 1, STRING_WORDS, 10, 19, 4, 5, 1, 2, 0, 0, 0,
        /* nodes: the ends of their spans */
        0, 1, 2, 3, 4, 5, 6, 7, 8, 19,
        /* spans: of nodes 1 to 8, then of node 9, which begins a plain character */
        SPAN('"', '"', 0), SPAN(0x80, 0xBF, 0), SPAN(0x80, 0xBF, 2), SPAN(0x80, 0xBF, 3),
        SPAN(0xA0, 0xBF, 2), SPAN(0x80, 0x9F, 2), SPAN(0x90, 0xBF, 3), SPAN(0x80, 0x8F, 3),
        SPAN(0x20, 0x21, 0), SPAN(0x23, 0x5B, 0), SPAN(0x5D, 0x7F, 0), SPAN(0xC2, 0xDF, 2),
        SPAN(0xE0, 0xE0, 5), SPAN(0xE1, 0xEC, 3), SPAN(0xED, 0xED, 6), SPAN(0xEE, 0xEF, 3),
        SPAN(0xF0, 0xF0, 7), SPAN(0xF1, 0xF3, 4), SPAN(0xF4, 0xF4, 8),
        /* states: start, after the quote, after a character, end */
        1, 3, 5, 5, 0, 0, 1 << 1, 1,
        /* edges */
        GW_BYTES, 1, 1,
        GW_BYTES, 9, 2,
        GW_BYTES, 1, 3,
        GW_BYTES | GW_NEXT << 2, 9, 2,
        GW_BYTES | GW_EXIT << 2, 1, 3,
        /* the rule, then the loops */
        0,
        0, GW_NEVER, 0,
        0, most, 0,
    };
    /* clang-format on */
    memcpy(w, words, sizeof words);
}

static void check_masks(gw_matcher *m, const char *text) {
    for (size_t at = 0; at <= strlen(text); at++) {
        uint32_t mask[WORDS];
        const uint32_t *bits = gw_matcher_mask(m);
        CHECK(bits != NULL);
        memcpy(mask, bits, sizeof mask);
        for (uint32_t id = 0; id < trie.n_vocab; id++) CHECK_INT(gw_matcher_allows(m, (int32_t)id), in(mask, id));
        CHECK(gw_matcher_mask(m) != NULL && !memcmp(gw_matcher_mask(m), mask, sizeof mask));
        if (at < strlen(text)) CHECK_INT(gw_matcher_accept_text(m, text + at, 1), 1);
    }
}

TEST(masks_of_strings_are_what_each_token_alone_says) {
    static const uint32_t most[] = { 1, 2, 3, 15, 16, 17, 20, 24, 31, 200, GW_NEVER };
    static const int32_t ends[] = { 1 };
    make_words();
    gw_words of = { tokenizer, &trie, ends, 1 };
    for (size_t i = 0; i < COUNT(most); i++) {
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

TEST(tokens_beyond_the_vocabulary_are_named) {
    static const int32_t ends[] = { 1 };
    uint32_t words[STRING_WORDS], *edge = words + 12 + 10 + 2 * 19 + 4 + 4;
    gw_error e = { 0 };
    make_words();
    string_of(words, GW_NEVER);
    edge[0] = GW_TOKEN, edge[1] = 300000;
    CHECK(!gw_matcher_new(words, sizeof words, (gw_words){ tokenizer, &trie, ends, 1 }, &e));
    CHECK_SAYS(e.what, "The vocabulary has no token <[300000]>. Change the format.");
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

/* A DFA cache of a limited size, so that it becomes full, and the other data that masks need. */
typedef struct {
    gw_grammar g;
    gw_dfa d;
    gw_mask_builder b;
    gw_arena a;
    gw_item items[GW_MOST_ITEMS];
} small;

static void open_small(small *z, const uint32_t *words, uint32_t size, gw_error *e) {
    memset(z, 0, sizeof *z);
    CHECK_INT(gw_grammar_read(&z->g, words, STRING_WORDS * sizeof *words, trie.n_vocab, e), 0);
    CHECK_INT(gw_dfa_init(&z->d, &z->g, e), 0);
    gw_mask_builder_take(&z->b, &z->a, &trie, &z->g);
    z->a = (gw_arena){ .base = gw_alloc(gw_size(z->a.used)), .size = z->a.used };
    gw_mask_builder_take(&z->b, &z->a, &trie, &z->g);
    z->d.size = size;
    z->b.plain.d = z->b.d = &z->d;
    z->b.items = z->items;
}

static void close_small(small *z) {
    gw_free(z->a.base);
    gw_dfa_free(&z->d);
    gw_grammar_free(&z->g);
}

/* Computes the mask of allowed tokens after a text. Returns 0, or GW_FULL if the DFA cache has no room. */
static int mask_in(small *z, const char *text, uint32_t *mask) {
    int bad = gw_set_begin(&z->d);
    for (size_t i = 0; i <= strlen(text) && !bad; i++) {
        z->b.n_items = z->d.set->n;
        memcpy(z->items, z->d.set->items, z->d.set->n * sizeof *z->items);
        gw_set_clear(&z->d);
        if (i < strlen(text)) bad = gw_set_step(&z->d, z->items, z->b.n_items, (uint8_t)text[i]);
    }
    z->b.fresh = true;
    return bad ? bad : gw_mask_add(&z->b, 0, z->b.n_items, mask);
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
    known = z->d.n_states;
    close_small(z);
    for (uint32_t size = SMALLEST; size < 6000; size += 50) {
        open_small(z, words, size, &e);
        int bad = mask_in(z, "\"a", mask);
        CHECK(bad == 0 || bad == GW_FULL);
        if (!bad) CHECK(!memcmp(mask, full, sizeof full));
        if (!bad) forgot += z->d.n_states < known;
        close_small(z);
    }
    CHECK(forgot > 3);
    free(z);
    free_words();
}

/* Two items of an NFA set share a set of object members. Garbage collection keeps it, even if the cache is then
 * full. */
TEST(a_full_cache_keeps_what_is_needed) {
    /* clang-format off */
    const uint32_t words[] = {
        0x31475747, 1, 43, 4, 3, 2, 3, 1, 2, 1, 0, 0,
        0, 1, 2, 3, /* nodes */
        SPAN('a', 'a', 0), SPAN('b', 'b', 0), SPAN('c', 'c', 0),
        1, 3, 0, 1 | 1 << 1, /* states */
        GW_BYTES | GW_TAKE << 2, 1, 1, GW_BYTES, 2, 1, GW_BYTES, 3, 1, /* edges */
        0, 0, GW_NEVER, 0, 0, GW_NEVER, 1, 1, /* rule, loops, member */
    };
    /* clang-format on */
    gw_grammar g;
    gw_dfa d;
    gw_error e = { 0 };
    gw_item items[2];
    CHECK_INT(gw_grammar_read(&g, words, sizeof words, 1, &e), 0);
    CHECK_INT(gw_dfa_init(&d, &g, &e), 0);
    CHECK_INT(gw_set_begin(&d), 0);
    items[0] = d.set->items[0];
    gw_set_clear(&d);
    CHECK_INT(gw_set_step(&d, items, 1, 'a'), 0);
    CHECK_INT(d.set->n, 2);
    memcpy(items, d.set->items, sizeof items);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(gw_dfa_collect(&d, &(gw_roots){ .items = items, .n_items = 2 }), 0);
        d.size = d.used;
    }
    CHECK(items[0].frame.reg != 0 && items[0].frame.reg == items[1].frame.reg);
    gw_dfa_free(&d);
    gw_grammar_free(&g);
}

/* Writes a grammar that would need 70 million look-ups per state without a limit: a chain of states, each with 250
 * edges that read any character, and a span for each continuation byte. Returns the number of words. */
static size_t labels_of_many_spans(uint32_t *w) {
    enum { LABELS = 250, STATES = 64, SPANS = 3 * 64 + 6 * LABELS, EDGES = LABELS * STATES };
    /* clang-format off */
    const uint32_t head[] = { 0x31475747, 1, 16 + 4 + LABELS + 2 * SPANS + 2 * STATES + 3 * EDGES, 4 + LABELS, SPANS,
                              STATES, EDGES, 1, 1, 0, 0, 0, 0, 64, 128, 192 };
    const uint32_t label[] = { SPAN(0x20, 0x21, 0), SPAN(0x23, 0x5B, 0), SPAN(0x5D, 0x7F, 0), SPAN(0xC2, 0xDF, 1),
                               SPAN(0xE0, 0xEF, 2), SPAN(0xF0, 0xF4, 3) };
    /* clang-format on */
    size_t n = COUNT(head);
    memcpy(w, head, sizeof head);
    for (uint32_t i = 1; i <= LABELS; i++) w[n++] = 192 + 6 * i;
    for (uint32_t i = 0; i < 3 * 64; i++) w[n++] = 0x8080 + i % 64 * 0x101, w[n++] = i / 64;
    for (int i = 0; i < LABELS; i++, n += COUNT(label)) memcpy(w + n, label, sizeof label);
    for (uint32_t i = 1; i <= STATES; i++) w[n++] = i * LABELS;
    for (uint32_t i = 1; i <= STATES; i++) w[n++] = i == STATES;
    for (uint32_t i = 0; i < EDGES; i++)
        w[n++] = GW_BYTES, w[n++] = 4 + i % LABELS, w[n++] = (uint32_t)gw_min(i / LABELS + 1, STATES - 1);
    const uint32_t rule_and_loop[] = { 0, 0, GW_NEVER, 0 };
    memcpy(w + n, rule_and_loop, sizeof rule_and_loop);
    return n + COUNT(rule_and_loop);
}

/* Writes a grammar of objects with at most 4000 of 8000 members, 4000 of which are required. From the first state, an
 * edge adds a member; from the second, 4000 edges check whether another member is allowed. Trying each member would
 * take 32 million steps for each edge. Returns the number of words. */
static size_t edges_of_many_members(uint32_t *w) {
    enum { MEMBERS = 8000, MORE = 4000, EDGES = 1 + MORE };
    /* clang-format off */
    const uint32_t head[] = {
        0x31475747, 1, 12 + 3 + 4 + 6 + 3 * EDGES + 1 + 6 + MEMBERS, 3, 2, 3, EDGES, 1, 2, MEMBERS, 0, 0,
        0, 1, 2, SPAN('a', 'a', 0), SPAN('b', 'b', 0), 1, EDGES, EDGES, 0, 1 << 1, 1 | 1 << 1,
        GW_BYTES | GW_TAKE << 2 | (MEMBERS - 1) << 5, 1, 1,
    };
    /* clang-format on */
    const uint32_t rule_and_loops[] = { 0, 0, GW_NEVER, 0, 0, MEMBERS / 2, MEMBERS };
    size_t n = COUNT(head);
    memcpy(w, head, sizeof head);
    for (int i = 0; i < MORE; i++) w[n++] = GW_BYTES | GW_MORE << 2, w[n++] = 2, w[n++] = 2;
    memcpy(w + n, rule_and_loops, sizeof rule_and_loops);
    n += COUNT(rule_and_loops);
    for (int i = 0; i < MEMBERS; i++) w[n++] = i < MEMBERS / 2 ? 1 : 3;
    return n;
}

TEST(hostile_grammars_take_bounded_time) {
    static const int32_t ends[] = { 1 };
    static uint32_t words[1 << 16];
    make_words();
    gw_words of = { tokenizer, &trie, ends, 1 };
    for (int i = 0; i < 2; i++) {
        gw_error e = { 0 };
        size_t n = i ? edges_of_many_members(words) : labels_of_many_spans(words);
        gw_matcher *m = gw_matcher_new(words, n * sizeof *words, of, &e);
        CHECK(m != NULL);
        clock_t start = clock();
        CHECK(gw_matcher_mask(m) != NULL && gw_matcher_accept_text(m, "a", 1) == 1);
        /* The calls above usually take a tenth of a second; without a limit, they would take minutes. */
        CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20);
        CHECK_INT(gw_matcher_reset(m), 0);
        check_masks(m, "a");
        gw_matcher_free(m);
    }
    free_words();
}
