/* split: see split.h. The regular expressions, as the families' tokenizer.json have them, are matched by hand:
 *
 * gpt-2:      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * smollm: first splits off each \p{N}, then applies gpt-2's to the text between them
 * llama-bpe:  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *             |\s+(?!\S)|\s+
 * dbrx:       as llama-bpe
 * qwen2:      as llama-bpe, with \p{N} for \p{N}{1,3}
 * gpt-4o:     PU*L+C|PU+L*C|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *             with P for [^\r\n\p{L}\p{N}]?, U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L for [\p{Ll}\p{Lm}\p{Lo}\p{M}],
 *             and C for (?i:'s|'t|'re|'ve|'m|'ll|'d)? */
#include "text/split.h"
#include "text/classes.h"
#include "text/vocabulary.h"

#include <string.h>

/* llama.cpp's names of the vocabularies with each expression (src/llama-vocab.cpp), for the supported architectures.
 * Each name ends with a NUL, and so does each list. */
static const char *const names[GW_SPLIT_UNKNOWN] = {
    [GW_SPLIT_GPT2] = "gpt-2\0granite-docling\0mellum\0trillion\0",
    [GW_SPLIT_SMOLLM] = "smollm\0refact\0starcoder\0minerva-7b\0",
    [GW_SPLIT_LLAMA3] = "llama-bpe\0llama3\0llama-v3\0falcon3\0pixtral\0midm-2.0\0",
    [GW_SPLIT_DBRX] = "dbrx\0smaug-bpe\0",
    [GW_SPLIT_QWEN2] = "qwen2\0deepseek-r1-qwen\0kormo\0megrez\0",
    [GW_SPLIT_GPT4O] = "gpt-4o\0",
};

gw_split gw_split_named(const char *name) {
    for (int kind = 0; name && kind < GW_SPLIT_UNKNOWN; kind++)
        for (const char *known = names[kind]; *known; known += strlen(known) + 1)
            if (!strcmp(name, known)) return (gw_split)kind;
    return GW_SPLIT_UNKNOWN;
}

enum { END = -1 };

typedef struct {
    const uint8_t *text;
    size_t len;
} span;

/* Returns the class of an ASCII character without using the table, because most text is ASCII. */
static int ascii_class(uint8_t c) {
    if ((uint8_t)((c | 0x20) - 'a') < 26) return GW_LETTER;
    if ((uint8_t)(c - '0') < 10) return GW_NUMBER;
    return c == ' ' || (uint8_t)(c - 9) < 5 ? GW_BLANK : GW_OTHER;
}

/* Returns the class of a character of n bytes. Overlong encodings and code points beyond U+10FFFF are not
 * characters. */
static int wide_class(const uint8_t *p, size_t n) {
    static const uint32_t least[] = { 0, 0x80, 0x80, 0x800, 0x10000 };
    uint32_t c = n < 2 ? 0 : p[0] & (0x7F >> n);
    for (size_t i = 1; i < n; i++) c = c << 6 | (p[i] & 0x3F);
    return c < least[n] || c > 0x10FFFF ? GW_OTHER : (int)gw_class_of(c);
}

/* Returns the class, without case, of the character at `at`, or END after the last character; *n receives the
 * character's length. */
static int class_at(span s, size_t at, size_t *n) {
    *n = 1;
    if (at >= s.len) return END;
    if (s.text[at] < 0x80) return ascii_class(s.text[at]);
    *n = gw_char_len(s.text + at, s.len - at);
    return wide_class(s.text + at, *n) & GW_WITHOUT_CASE;
}

/* Returns a character's case: GW_UPPER, GW_LOWER, GW_LETTER for marks and letters without case, or else GW_OTHER. */
static int case_at(span s, size_t at, size_t *n) {
    int class = class_at(s, at, n);
    if (class != GW_LETTER && class != GW_OTHER) return GW_OTHER;
    if (s.text[at] >= 0x80) class = wide_class(s.text + at, *n);
    else if (class == GW_LETTER) class = s.text[at] < 'a' ? GW_UPPER : GW_LOWER;
    return class == GW_MARK ? GW_LETTER : class;
}

static size_t run(span s, size_t at, int class, size_t most) {
    size_t n;
    while (most-- && class_at(s, at, &n) == class) at += n;
    return at;
}

static bool is_break(span s, size_t at) { return at < s.len && (s.text[at] == '\r' || s.text[at] == '\n'); }

/* Matches 's|'t|'re|'ve|'m|'ll|'d. Returns its length, or 0. If any_case is set, U+017F (long s) matches s, too. */
static size_t contraction(span s, bool any_case) {
    if (s.len < 2 || s.text[0] != '\'') return 0;
    int fold = any_case ? 0x20 : 0, a = s.text[1] | fold, b = s.len > 2 ? s.text[2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    bool long_s = any_case && s.len > 2 && s.text[1] == 0xC5 && s.text[2] == 0xBF;
    return long_s || (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Matches \s+(?!\S)|\s+ on the blanks [0, end), the last of which begins at `last`. If text follows several blanks, the
 * last blank belongs to the next word. */
static size_t blanks(size_t last, size_t end, bool follows) { return follows && last ? last : end; }

/* Scans the blanks [0, *end); *last receives the position of the last blank. Returns the end of the last line break
 * among them, or 0. */
static size_t scan_blanks(span s, size_t *last, size_t *end) {
    size_t n, broken = 0;
    *last = 0;
    for (*end = 0; class_at(s, *end, &n) == GW_BLANK; *end += n) {
        *last = *end;
        if (is_break(s, *end)) broken = *end + 1;
    }
    return broken;
}

/* Matches gpt-2's regular expression or, with numbers_are_out, smollm's: each number is a word by itself, so it ends
 * the word before it. */
static size_t gpt2_word(span s, bool numbers_are_out) {
    size_t n, last, end, body = s.text[0] == ' ';
    int class = class_at(s, body, &n);
    if (numbers_are_out && class_at(s, 0, &n) == GW_NUMBER) return n;
    if (contraction(s, false)) return contraction(s, false);
    bool word = class != END && class != GW_BLANK && !(numbers_are_out && class == GW_NUMBER);
    if (word) return run(s, body, class, SIZE_MAX);
    scan_blanks(s, &last, &end);
    class = class_at(s, end, &n);
    return blanks(last, end, class != END && !(numbers_are_out && class == GW_NUMBER));
}

/* Matches \p{N}{1,numbers}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+, with [\r\n/]* for [\r\n]* if `slash` is
 * set. */
static size_t without_letters(span s, size_t numbers, bool slash) {
    size_t n, last, end, body = s.text[0] == ' ';
    if (class_at(s, 0, &n) == GW_NUMBER) return run(s, 0, GW_NUMBER, numbers);
    if (class_at(s, body, &n) == GW_OTHER) {
        end = run(s, body, GW_OTHER, SIZE_MAX);
        while (is_break(s, end) || (slash && end < s.len && s.text[end] == '/')) end++;
        return end;
    }
    size_t broken = scan_blanks(s, &last, &end);
    return broken ? broken : blanks(last, end, end < s.len);
}

static size_t llama3_word(span s, size_t numbers) {
    size_t n, next;
    if (contraction(s, true)) return contraction(s, true);
    int class = class_at(s, 0, &n);
    bool letters = class == GW_LETTER || (class != GW_NUMBER && !is_break(s, 0) && class_at(s, n, &next) == GW_LETTER);
    return letters ? run(s, n, GW_LETTER, SIZE_MAX) : without_letters(s, numbers, false);
}

/* Matches U*L+ of the gpt-4o expression at `at`, or with `upper` U+L* where U*L+ does not match. Returns the end, or
 * 0. */
static size_t cased(span s, size_t at, bool upper) {
    size_t n, end = at, both = 0; /* `both`: end of the last character that is in U and in L */
    int class;
    for (; (class = case_at(s, end, &n)) == GW_UPPER || class == GW_LETTER; end += n)
        if (class == GW_LETTER) both = end + n;
    if (class != GW_LOWER) return upper && end > at ? end : both;
    for (; class == GW_LOWER || class == GW_LETTER; class = case_at(s, end, &n)) end += n;
    return end;
}

static size_t gpt4o_word(span s) {
    size_t n, end = 0;
    int class = class_at(s, 0, &n);
    bool prefix = class != GW_LETTER && class != GW_NUMBER && !is_break(s, 0);
    for (int upper = 0; upper < 2 && !end; upper++) {
        if (prefix) end = cased(s, n, upper);
        if (!end) end = cased(s, 0, upper);
    }
    if (!end) return without_letters(s, 3, true);
    return end + contraction((span){ s.text + end, s.len - end }, true);
}

size_t gw_split_word(gw_split kind, const uint8_t *text, size_t len) {
    span s = { text, len };
    switch (kind) {
    case GW_SPLIT_SMOLLM: return gpt2_word(s, true);
    case GW_SPLIT_LLAMA3:
    case GW_SPLIT_DBRX: return llama3_word(s, 3);
    case GW_SPLIT_QWEN2: return llama3_word(s, 1);
    case GW_SPLIT_GPT4O: return gpt4o_word(s);
    default: return gpt2_word(s, false);
    }
}

bool gw_split_depends(gw_split kind, const uint8_t *text, size_t len, size_t at) {
    size_t n;
    span s = { text, len };
    if (kind != GW_SPLIT_GPT4O || case_at(s, at, &n) != GW_UPPER) return false;
    return text[at - 1] >= 0x80 || case_at(s, at - 1, &n) == GW_UPPER;
}
