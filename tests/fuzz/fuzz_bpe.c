/* Fuzz harness of byte-level BPE: the input holds merges, types, damage to them, and a text. The result must be a coded
 * error, or the ids of a slow tokenizer that is written here from the definitions (the regular expressions in split.c;
 * Sennrich et al. 2016), with no control token that was not requested. Decoding must restore the text. */
#include "fuzz.h"
#include "parts.h"
#include "text/classes.h"
#include "text/tokenizer.h"

enum { MOST_PIECES = 340, MOST_LENGTH = 48, MOST_TEXT = 160, MOST_MERGES = 64, CONTROL = 256, USER = 257 };

typedef struct {
    uint8_t text[MOST_LENGTH];
    size_t len;
} piece;

typedef struct {
    int left, right, made;
} merge;

static piece pieces[MOST_PIECES];
static merge merges[MOST_MERGES];
static int n_pieces, n_merges;
static bool typed; /* whether the file has types; if not, all pieces are normal */
static gw_tokenizer *t;

enum { LACKS_TYPES = 1, SCORES = 2, MARKS = 4, SPECIAL = 8, UNKNOWN_PARTS = 16, ODD_PRE = 32 };

/* Writes bytes in GPT-2's alphabet: visible Latin-1 characters stand for themselves, the others are U+0100 and on. */
static size_t printable(const uint8_t *bytes, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int hidden = 256, c = bytes[i];
        for (int b = 0; b < 256; b++) {
            bool seen = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
            if (b == bytes[i] && !seen) c = hidden;
            hidden += !seen;
        }
        if (c < 128) out[n++] = (char)c;
        else out[n++] = (char)(0xC0 | c >> 6), out[n++] = (char)(0x80 | (c & 63));
    }
    return n;
}

static void add(const uint8_t *text, size_t len, int type, int flags) {
    char form[2 * MOST_LENGTH];
    piece *p = &pieces[n_pieces++];
    memcpy(p->text, text, len);
    p->len = len;
    size_t n = type == GW_TOKEN_NORMAL ? printable(text, len, form) : len;
    REQUIRE(gw_tokenizer_add_piece(t, type == GW_TOKEN_NORMAL ? form : (const char *)text, n) == 0);
    if (!(flags & LACKS_TYPES)) REQUIRE(gw_tokenizer_add_type(t, type) == 0);
    if (flags & SCORES) REQUIRE(gw_tokenizer_add_score(t, 0) == 0);
}

static int find(const uint8_t *text, size_t len) {
    for (int id = 0; id < n_pieces; id++)
        if (!(typed && (id == CONTROL || id == USER)) && pieces[id].len == len && !memcmp(pieces[id].text, text, len))
            return id;
    return -1;
}

static void add_merge(fuzz_input *in, int flags) {
    int left = fuzz_byte(in), right = fuzz_byte(in);
    if (left >= 128) left = n_pieces - 1 - left % 64;
    if (right >= 192) right = n_pieces - 1 - right % 64;
    bool special = left == CONTROL || left == USER || right == CONTROL || right == USER;
    if (special || pieces[left].len + pieces[right].len > MOST_LENGTH) return;
    uint8_t text[MOST_LENGTH];
    char form[4 * MOST_LENGTH + 1];
    memcpy(text, pieces[left].text, pieces[left].len);
    memcpy(text + pieces[left].len, pieces[right].text, pieces[right].len);
    size_t len = pieces[left].len + pieces[right].len, n = printable(text, pieces[left].len, form);
    if (find(text, len) < 0 && !(flags & UNKNOWN_PARTS)) add(text, len, GW_TOKEN_NORMAL, flags);
    form[n] = ' ';
    n += 1 + printable(pieces[right].text, pieces[right].len, form + n + 1);
    REQUIRE(gw_tokenizer_add_merge(t, form, n) == 0);
    merges[n_merges++] = (merge){ left, right, find(text, len) };
}

static int build(fuzz_input *in, int flags, const char *pre) {
    static const char *const names[] = { "<|x|>", "<|u" };
    gw_error e = { 0 };
    for (int c = 0; c < 256; c++) add(&(uint8_t){ (uint8_t)c }, 1, GW_TOKEN_NORMAL, flags);
    for (int i = 0; i < 2; i++)
        add((const uint8_t *)names[i], strlen(names[i]), i ? GW_TOKEN_USER : GW_TOKEN_CONTROL, flags);
    bool odd = false;
    for (int n = fuzz_byte(in) % MOST_MERGES; n > 0; n--) add_merge(in, flags);
    for (int i = 0; i < n_merges; i++) odd |= merges[i].made < 0;
    if (flags & MARKS) gw_tokenizer_mark_control(t, USER - 1 + fuzz_byte(in) % 96 * (fuzz_byte(in) % 4 > 0));
    gw_tokenizer_kind kind = { .model = "gpt2", .pre = flags & ODD_PRE ? "no-such" : pre, .space_prefix = true };
    int bad = gw_tokenizer_finish(t, &kind, &e);
    if (bad) fuzz_check_error(&e, bad);
    REQUIRE((bad != 0) == (odd || !n_merges || (flags & ODD_PRE) != 0));
    return bad;
}

/* The characters of a text to split: codes, classes without case, and classes with case (cases). codes and classes end
 * with -1. */
static int codes[MOST_TEXT + 4], classes[MOST_TEXT + 4], cases[MOST_TEXT + 4], n_codes;
static size_t begins[MOST_TEXT + 4];

static void read_codes(const uint8_t *text, size_t len) {
    n_codes = 0;
    for (size_t at = 0, n; at < len; at += n) {
        n = char_len(text + at, len - at);
        int code = n == 1 ? text[at] : text[at] & (n == 2 ? 31 : n == 3 ? 15 : 7);
        for (size_t i = 1; i < n; i++) code = code * 64 + (text[at + i] & 63);
        bool wrong = (n == 1 && code > 127) || (n == 3 && code < 0x800) || (n == 4 && code < 0x10000) ||
                     code > 0x10FFFF;
        begins[n_codes] = at;
        codes[n_codes] = wrong ? 0xFFFD : code;
        cases[n_codes] = (int)gw_class_of(wrong ? 0xFFFD : (uint32_t)code);
        classes[n_codes] = cases[n_codes] & GW_WITHOUT_CASE;
        n_codes++;
    }
    begins[n_codes] = len;
    for (int i = 0; i < 4; i++) codes[n_codes + i] = classes[n_codes + i] = -1;
}

static int class_of(int i, int end) { return i < end ? classes[i] : -1; }

static int more(int i, int end, int class) {
    while (class_of(i, end) == class) i++;
    return i;
}

static bool is_break(int i, int end) { return i < end && (codes[i] == '\r' || codes[i] == '\n'); }

static int tick(int i, int end, bool any_case) {
    static const char *const tails[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    if (codes[i] != '\'') return i;
    for (int k = 0; k < 7; k++) {
        int n = 0;
        for (; tails[k][n]; n++) {
            int c = i + 1 + n < end ? codes[i + 1 + n] : -1;
            if (any_case) c = c >= 'A' && c <= 'Z' ? c + 32 : c == 0x17F ? 's' : c;
            if (c != tails[k][n]) break;
        }
        if (!tails[k][n]) return i + 1 + n;
    }
    return i;
}

/* Matches the regular expression \s+(?!\S)|\s+. */
static int blank_end(int i, int end) {
    int after = more(i, end, GW_BLANK);
    return after < end && after > i + 1 ? after - 1 : after;
}

static int gpt2_end(int i, int end) {
    if (tick(i, end, false) > i) return tick(i, end, false);
    int body = i + (codes[i] == ' ');
    if (more(body, end, GW_LETTER) > body) return more(body, end, GW_LETTER);
    if (more(body, end, GW_NUMBER) > body) return more(body, end, GW_NUMBER);
    if (more(body, end, GW_OTHER) > body) return more(body, end, GW_OTHER);
    return blank_end(i, end);
}

static int wordless_end(int i, int end, int most, int slash) {
    if (classes[i] == GW_NUMBER) return more(i, end, GW_NUMBER) > i + most ? i + most : more(i, end, GW_NUMBER);
    int body = i + (codes[i] == ' ');
    int other = more(body, end, GW_OTHER);
    if (other > body) {
        while (is_break(other, end) || (other < end && codes[other] == slash)) other++;
        return other;
    }
    int last = more(i, end, GW_BLANK);
    while (last > i && !is_break(last - 1, end)) last--;
    return last > i ? last : blank_end(i, end);
}

static int llama3_end(int i, int end, int most) {
    if (tick(i, end, true) > i) return tick(i, end, true);
    int body = i + (!is_break(i, end) && classes[i] != GW_LETTER && classes[i] != GW_NUMBER);
    if (more(body, end, GW_LETTER) > body) return more(body, end, GW_LETTER);
    return wordless_end(i, end, most, -1);
}

static bool in_u(int i, int end) {
    return i < end && (cases[i] == GW_UPPER || cases[i] == GW_LETTER || cases[i] == GW_MARK);
}
static bool in_l(int i, int end) {
    return i < end && (cases[i] == GW_LOWER || cases[i] == GW_LETTER || cases[i] == GW_MARK);
}

/* Matches the expression P U{u,} L{l,} C of split.c, with backtracking. */
static int cased_end(int i, int end, int u, int l) {
    for (int p = !is_break(i, end) && classes[i] != GW_LETTER && classes[i] != GW_NUMBER; p >= 0; p--) {
        int upper = i + p;
        while (in_u(upper, end)) upper++;
        for (; upper >= i + p + u; upper--) {
            int lower = upper;
            while (in_l(lower, end)) lower++;
            if (lower >= upper + l) return lower < end ? tick(lower, end, true) : lower;
        }
    }
    return i;
}

static int gpt4o_end(int i, int end) {
    int word = cased_end(i, end, 0, 1);
    if (word == i) word = cased_end(i, end, 1, 0);
    return word > i ? word : wordless_end(i, end, 3, '/');
}

static int word_end(const char *pre, int i) {
    if (!strcmp(pre, "gpt-2")) return gpt2_end(i, n_codes);
    if (!strcmp(pre, "llama-bpe") || !strcmp(pre, "smaug-bpe")) return llama3_end(i, n_codes, 3);
    if (!strcmp(pre, "qwen2")) return llama3_end(i, n_codes, 1);
    if (!strcmp(pre, "gpt-4o")) return gpt4o_end(i, n_codes);
    if (classes[i] == GW_NUMBER) return i + 1;
    int end = i;
    while (end < n_codes && classes[end] != GW_NUMBER) end++;
    return gpt2_end(i, end);
}

/* Returns false for a declared control token, which no text produces. */
static bool may_make(int id) { return gw_tokenizer_type(t, id) != GW_TOKEN_CONTROL; }

/* Merges the tokens of a word: always the pair whose merge is listed first, the leftmost on ties. */
static int slow_word(const char *pre, const uint8_t *text, size_t len, int32_t *ids) {
    int n = 0, whole = strcmp(pre, "llama-bpe") ? -1 : find(text, len);
    if (whole >= 0 && gw_tokenizer_type(t, whole) == GW_TOKEN_NORMAL) {
        ids[0] = whole;
        return 1;
    }
    for (size_t i = 0; i < len; i++) ids[n++] = text[i];
    for (;;) {
        int best = n_merges, at = -1;
        for (int i = 0; i + 1 < n; i++)
            for (int k = 0; k < best; k++)
                if (merges[k].left == ids[i] && merges[k].right == ids[i + 1] && may_make(merges[k].made))
                    best = k, at = i;
        if (at < 0) return n;
        ids[at] = merges[best].made;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
}

/* Returns the longest added token at the start of a text, with the lowest id on ties. */
static int match(const uint8_t *text, size_t left, bool special) {
    int best = -1;
    for (int id = CONTROL; id < n_pieces; id++) {
        int type = gw_tokenizer_type(t, id);
        if (type != GW_TOKEN_USER && !(type == GW_TOKEN_CONTROL && special)) continue;
        if (pieces[id].len > left || memcmp(pieces[id].text, text, pieces[id].len)) continue;
        if (best < 0 || pieces[id].len > pieces[best].len) best = id;
    }
    return best;
}

static int slow_encode(const char *pre, const uint8_t *text, size_t len, bool special, int32_t *ids) {
    int n = 0;
    for (size_t at = 0, end; at < len; at = end) {
        int id = match(text + at, len - at, special);
        if (id >= 0) {
            ids[n++] = id;
            end = at + pieces[id].len;
            continue;
        }
        end = at;
        do end += char_len(text + end, len - end);
        while (end < len && match(text + end, len - end, special) < 0);
        read_codes(text + at, end - at);
        for (int i = 0, next; i < n_codes; i = next) {
            next = word_end(pre, i);
            n += slow_word(pre, text + at + begins[i], begins[next] - begins[i], ids + n);
        }
    }
    return n;
}

static void check_text(const char *pre, const uint8_t *text, size_t len, int flags) {
    static int32_t ids[MOST_TEXT], slow[MOST_TEXT];
    static char back[MOST_TEXT + MOST_LENGTH];
    int n = gw_tokenizer_encode(t, (const char *)text, len, flags, ids, len);
    REQUIRE(n >= 0 && (size_t)n <= len);
    REQUIRE(n == slow_encode(pre, text, len, flags != 0, slow));
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        REQUIRE(ids[i] == slow[i] && (flags || gw_tokenizer_type(t, ids[i]) != GW_TOKEN_CONTROL));
        int bytes = gw_tokenizer_decode_after(t, i ? ids[i - 1] : GW_NO_TOKEN, ids[i], flags, back + at,
                                              sizeof back - at);
        REQUIRE(bytes >= 0 && (size_t)bytes <= len - at);
        at += (size_t)bytes;
    }
    REQUIRE(at == len && !memcmp(back, text, len));
    if (n) REQUIRE(gw_tokenizer_encode(t, (const char *)text, len, flags, slow, (size_t)n - 1) == GW_E_BAD_OPTION);
    check_parts(t, text, len, flags, (gw_ids){ ids, (size_t)n, len }, slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const pres[][2] = {
        { "gpt-2", "gpt-2" }, { "smollm", "smollm" }, { "llama-bpe", "smaug-bpe" }, { "qwen2", "gpt-4o" }
    };
    fuzz_input in = { data, size };
    int flags = fuzz_byte(&in);
    const char *pre = pres[flags >> 6][size % 2];
    flags &= 63;
    if (flags & UNKNOWN_PARTS && fuzz_byte(&in) % 8) flags &= ~UNKNOWN_PARTS;
    if (flags & ODD_PRE && fuzz_byte(&in) % 8) flags &= ~ODD_PRE;
    if (flags & LACKS_TYPES && fuzz_byte(&in) % 8) flags &= ~LACKS_TYPES;
    typed = !(flags & LACKS_TYPES);
    t = gw_tokenizer_new();
    REQUIRE(t != NULL);
    n_pieces = n_merges = 0;
    if (build(&in, flags, pre) == 0) {
        size_t len = gw_min(in.left, MOST_TEXT);
        check_text(pre, in.at, len, 0);
        if (flags & SPECIAL) check_text(pre, in.at, len, GW_TOKENIZE_SPECIAL);
        check_text(pre, data, gw_min(size, 48), 0); /* these bytes, also read as merges, often match them */
    }
    gw_tokenizer_free(t);
    return 0;
}
