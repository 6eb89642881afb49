/* Fuzz harness of the grammar reader, the matcher and its masks. A quarter of the inputs are the bytes of a grammar;
 * the others are choices that build a grammar which is often valid. Errors must be coded, the mask must have every
 * token that is allowed when tried alone and be the same with a small DFA cache, and the matcher must not grow. */
#include "fuzz.h"
#include "text/matcher.c" /* the struct of the matcher, whose DFA cache the harness makes smaller */

enum { MOST_WORDS = 1 << 12, MOST_STEPS = 12 };

static gw_tokenizer *tokenizer;
static gw_trie trie;
static const int32_t ends[] = { 1 };

static void add(const char *text, size_t n, int type) {
    REQUIRE(gw_tokenizer_add_piece(tokenizer, text, n) == 0 && gw_tokenizer_add_score(tokenizer, 0) == 0);
    REQUIRE(gw_tokenizer_add_type(tokenizer, type) == 0);
}

static void make_words(void) {
    gw_error e = { 0 };
    tokenizer = gw_tokenizer_new();
    REQUIRE(tokenizer != NULL);
    add("<unk>", 5, GW_TOKEN_UNKNOWN);
    add("<eos>", 5, GW_TOKEN_CONTROL);
    for (int c = 0; c < 256; c++) {
        char name[8];
        add(name, (size_t)snprintf(name, sizeof name, "<0x%02X>", c), GW_TOKEN_BYTE);
    }
    static const char *const pieces[] = { "a",
                                          "b",
                                          "ab",
                                          "aba",
                                          "bb",
                                          "\"",
                                          "\"a",
                                          "a\"",
                                          "\",\"",
                                          "{\"",
                                          "\xC3\xA9",
                                          "e\xC3\xA9",
                                          "aaaaaaaaaaaaaaaaaaaa",
                                          "\\",
                                          "\\u00",
                                          ",",
                                          "\n",
                                          "]]",
                                          "[" };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add(pieces[i], strlen(pieces[i]), GW_TOKEN_NORMAL);
    gw_tokenizer_kind kind = { .model = "llama" };
    REQUIRE(gw_tokenizer_finish(tokenizer, &kind, &e) == 0);
    REQUIRE(gw_trie_make(&trie, gw_tokenizer_vocabulary(tokenizer), &e) == 0);
}

static uint32_t words[MOST_WORDS];
static size_t n_words;

static void put(uint32_t word) { words[n_words++] = word; }

/* Builds a grammar in the layout of src/text/grammar.h: nodes 1 to 6 stand for letters; rule i has states [4 i,
 * 4 i + 4) and starts with the first of them. */
static void build(fuzz_input *in) {
    static const uint8_t letters[][2] = { { 'a', 'a' }, { 'b', 'b' },   { 'a', 'b' },
                                          { '"', '"' }, { 0x20, 0x7F }, { 0xA9, 0xA9 } };
    uint32_t rules = 1 + fuzz_byte(in) % 4, states = 4 * rules, edges = 0, member = fuzz_byte(in) % 3;
    uint32_t from[64], ends_at[16], loops[16];
    static uint32_t edge[64][3];
    memset(from, 0, sizeof from);
    for (uint32_t i = 0; i < states; i++) {
        loops[i] = i % 4 ? fuzz_byte(in) % 3 : 0;
        if (i % 4 && member && loops[i]) loops[i] = 2;
    }
    for (uint32_t i = 0; i < states; i++) {
        for (uint32_t n = fuzz_byte(in) % 4; n; n--, edges++) {
            uint32_t what = fuzz_byte(in), to = i / 4 * 4 + 1 + fuzz_byte(in) % 3, loop = loops[i], into = loops[to];
            uint32_t kind = what % 8 == 7 ? GW_TOKEN : what % 4 == 3 ? GW_CALL : GW_BYTES, act = GW_KEEP;
            if (into == 2 && member) act = loop == 2 && what & 16 ? GW_MORE : loop != 1 ? GW_TAKE : GW_KEEP;
            else if (loop == 1 || (loop == 2 && !member))
                act = into != loop ? GW_EXIT : what >> 4 & 3 ? (what >> 4) % 3 : GW_KEEP;
            uint32_t label = fuzz_byte(in);
            label = kind == GW_BYTES ? 1 + label % 7 : kind == GW_CALL ? label % rules : label % 8;
            edge[edges][0] = kind | act << 2 | (act == GW_TAKE ? label % 2 : 0) << 5;
            edge[edges][1] = label;
            edge[edges][2] = to;
        }
        ends_at[i] = edges;
    }
    n_words = 0;
    for (int i = 0; i < 12; i++) put(0);
    for (uint32_t i = 0; i <= 7; i++) put(i);
    for (uint32_t i = 0; i < 6; i++) put((uint32_t)letters[i][0] | (uint32_t)letters[i][1] << 8), put(0);
    put(0xC3C3), put(6); /* node 7 spells a character of two bytes */
    for (uint32_t i = 0; i < states; i++) put(ends_at[i]);
    for (uint32_t i = 0; i < states; i++) put((i % 4 ? fuzz_byte(in) % 2 : 0) | loops[i] << 1);
    for (uint32_t i = 0; i < edges; i++) put(edge[i][0]), put(edge[i][1]), put(edge[i][2]);
    for (uint32_t i = 0; i < rules; i++) put(4 * i);
    put(0), put(GW_NEVER), put(0);
    put(fuzz_byte(in) % 4), put(fuzz_byte(in) % 2 ? 4u + fuzz_byte(in) : (uint32_t)GW_NEVER), put(0);
    put(fuzz_byte(in) % 3), put(3 + fuzz_byte(in) % 3), put(member ? 2 : 0);
    if (member) put(fuzz_byte(in) % 4), put(fuzz_byte(in) % 4);
    const uint32_t head[] = { 0x31475747,     1, (uint32_t)n_words, 8, 7, states, edges, rules, 3,
                              member ? 2 : 0, 0, fuzz_byte(in) % 2 };
    memcpy(words, head, sizeof head);
}

/* The mask at each step, and the token that was accepted there. */
static uint32_t masks[MOST_STEPS][16];
static int32_t accepted[MOST_STEPS];
static int n_accepted;

static void walk_tokens(fuzz_input *in, gw_matcher *m, gw_error *e) {
    for (n_accepted = 0; n_accepted < MOST_STEPS; n_accepted++) {
        const uint32_t *bits = gw_matcher_mask(m);
        uint32_t *mask = masks[n_accepted];
        if (!bits) return fuzz_check_error(e, e->code);
        memcpy(mask, bits, trie.words * sizeof *mask);
        uint32_t start = fuzz_byte(in) * 7u % trie.n_vocab, chosen = trie.n_vocab;
        for (uint32_t i = 0; i < trie.n_vocab; i++) {
            uint32_t id = (start + i) % trie.n_vocab, is = mask[id / 32] >> id % 32 & 1;
            int how = gw_matcher_allows(m, (int32_t)id);
            if (how < 0) return fuzz_check_error(e, how);
            REQUIRE(is || !how); /* unlike a grammar of lower.js, a fuzzed one may have dead ends, which masks allow */
            if (how && chosen == trie.n_vocab) chosen = id;
        }
        char out[32];
        int forced = gw_matcher_forced(m, out, sizeof out);
        REQUIRE(forced <= (int)sizeof out &&
                (forced < 0 || gw_matcher_joins(m, out, (size_t)forced, (size_t)forced) <= 1));
        if (chosen == trie.n_vocab) return;
        REQUIRE(gw_matcher_accept(m, (int32_t)chosen) == 1);
        accepted[n_accepted] = (int32_t)chosen;
    }
}

/* Accepts the same tokens again with a small DFA cache, which has `words` words more than the start state needs. */
static void walk_again(gw_matcher *m, uint32_t words, gw_error *e) {
    REQUIRE(gw_matcher_reset(m) == 0 && collect(m) == 0);
    m->d.size = m->d.used + words;
    for (int i = 0; i < n_accepted; i++) {
        const uint32_t *bits = gw_matcher_mask(m);
        REQUIRE(!bits || !memcmp(bits, masks[i], trie.words * sizeof *bits));
        int how = gw_matcher_accept(m, accepted[i]);
        if (how < 0) return fuzz_check_error(e, how);
        REQUIRE(how == 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gw_error e = { 0 };
    if (!tokenizer) make_words();
    fuzz_input in = { data, size };
    uint8_t head = fuzz_byte(&in);
    bool raw = head % 4 == 0;
    if (!raw) build(&in);
    gw_words of = { tokenizer, &trie, ends, 1 };
    gw_matcher *m = raw ? gw_matcher_new(in.at, in.left, of, &e) : gw_matcher_new(words, 4 * n_words, of, &e);
    if (!m) {
        fuzz_check_error(&e, e.code);
        return 0;
    }
    size_t before = gw_matcher_bytes(m);
    walk_tokens(&in, m, &e);
    walk_again(m, head / 4 * 64u, &e);
    REQUIRE(gw_matcher_bytes(m) == before);
    gw_matcher_free(m);
    return 0;
}
