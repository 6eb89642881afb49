/* Fuzz harness of the tokenizer: the input holds a vocabulary (pieces of any bytes, types, scores, and damage to their
 * arrays, in half of the inputs merges) and a text. The result must be a coded error, or the ids of a slow tokenizer
 * that is written here from the definition (Kudo and Richardson 2018, see spm.h). Decoding must restore the text. Texts
 * with a space prefix are tested too. */
#include "fuzz.h"
#include "parts.h"
#include "text/tokenizer.h"

#include <math.h>

enum { MOST_PIECES = 64, MOST_MERGES = 64, MOST_LENGTH = 24, MOST_TEXT = 160 };
enum { MOST_IDS = MOST_PIECES + MOST_MERGES + 260 };

/* A piece of the vocabulary, with spaces for U+2581, as pieces are matched with text. */
typedef struct {
    uint8_t text[MOST_LENGTH];
    size_t len;
    float score;
    int type; /* type of the piece, as the finished tokenizer reports it */
} piece;

static piece pieces[MOST_IDS];
static int n_pieces, byte_ids[256]; /* byte_ids: ids of byte pieces, -1 for a missing piece */
static gw_tokenizer *t;
static bool space_prefix, by_merges; /* settings of the tokenizer */

/* A merge of two pieces, and the piece that it makes: their indices until note_types() replaces each by the id that
 * named() returns for its text, because several pieces can have the same text. */
typedef struct {
    int left, right, made;
} merge;
static merge merges[MOST_MERGES];
static int n_merges;

enum {
    HAS_BYTES = 1,
    HAS_TYPES = 2,
    MARKS = 4,
    LACKS_SCORE = 8,
    LACKS_TYPE = 16,
    SPECIAL = 32,
    PREFIX = 64,
    MERGES = 128
};

static int add(const uint8_t *text, size_t len, float score, int type, int flags) {
    piece *p = &pieces[n_pieces++];
    p->len = 0;
    p->score = score;
    for (size_t i = 0; i < len; p->len++) {
        bool space = len - i >= 3 && !memcmp(text + i, "\xE2\x96\x81", 3);
        p->text[p->len] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    int bad = gw_tokenizer_add_piece(t, (const char *)text, len);
    if (!bad && !(flags & LACKS_SCORE)) bad = gw_tokenizer_add_score(t, score);
    if (!bad && flags & HAS_TYPES && !(flags & LACKS_TYPE)) bad = gw_tokenizer_add_type(t, type);
    REQUIRE(!bad || (bad == GW_E_BAD_TOKENIZER && (score != score || type < 1 || type > 6)));
    return bad;
}

static float score_of(uint8_t b) {
    static const float special[] = { 0.0f, -0.0f, 1e-45f, -1e-45f, 3e38f, -3e38f, (float)INFINITY, -(float)INFINITY };
    return b == 255 ? (float)NAN : b >= 240 ? special[b % 8] : (float)(b / 8) - 20;
}

static int add_from(fuzz_input *in, int flags) {
    uint8_t head = fuzz_byte(in), score = fuzz_byte(in), text[MOST_LENGTH];
    size_t len = head % 32 < MOST_LENGTH ? head % 8 : head % MOST_LENGTH;
    for (size_t i = 0; i < len; i++) text[i] = fuzz_byte(in);
    return add(text, len, score_of(score), head < 128 ? GW_TOKEN_NORMAL : head / 16 % 8, flags);
}

static int add_bytes(int flags) {
    int bad = add((const uint8_t *)"<unk>", 5, 0, GW_TOKEN_UNKNOWN, flags);
    for (int i = 0; i < 256 && !bad && flags & HAS_BYTES; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        bad = add((const uint8_t *)name, 6, 0, GW_TOKEN_BYTE, flags);
    }
    return bad;
}

/* Avoids memcmp() because the fuzzer traces its arguments, which is slow with so many calls. */
static bool is_text(int id, const uint8_t *text, size_t len) {
    size_t same = 0;
    while (pieces[id].len == len && same < len && pieces[id].text[same] == text[same]) same++;
    return len && same == len;
}

static int find_normal(const uint8_t *text, size_t len) {
    for (int i = 0; i < n_pieces; i++) {
        int id = by_merges ? n_pieces - 1 - i : i; /* with merges, the last of equal pieces counts */
        if (is_text(id, text, len) && pieces[id].type == GW_TOKEN_NORMAL) return id;
    }
    return -1;
}

static int find_any(const uint8_t *text, size_t len) {
    int normal = find_normal(text, len);
    for (int id = 0; id < n_pieces; id++)
        if (is_text(id, text, len) && (id == normal || pieces[id].type != GW_TOKEN_NORMAL)) return id;
    return -1;
}

/* Returns the id of a text that is the result of merges, or a part of a merge: preferably a normal piece; -1 if there
 * is no piece with this text. */
static int named(const uint8_t *text, size_t len) {
    int id = find_normal(text, len);
    return id < 0 ? find_any(text, len) : id;
}

static int named_piece(int i) { return named(pieces[i].text, pieces[i].len); }

/* Returns whether merges may result in a piece, by its type. */
static bool may_make(int id) {
    int type = pieces[id].type;
    return type == GW_TOKEN_NORMAL || type == GW_TOKEN_USER || type == GW_TOKEN_UNUSED;
}

static void note_types(void) {
    memset(byte_ids, -1, sizeof byte_ids);
    for (int id = n_pieces - 1; id >= 0; id--) {
        char value;
        pieces[id].type = gw_tokenizer_type(t, id);
        if (pieces[id].type != GW_TOKEN_BYTE) continue;
        REQUIRE(gw_tokenizer_decode(t, id, 0, &value, 1) == 1);
        byte_ids[(uint8_t)value] = id;
    }
    for (merge *m = merges; m < merges + n_merges; m++)
        *m = (merge){ named_piece(m->left), named_piece(m->right), named_piece(m->made) };
}

static size_t spell(const piece *p, char *out) { /* writes a piece as a file does, with U+2581 for spaces */
    size_t n = 0;
    for (size_t i = 0; i < p->len; i++) {
        if (p->text[i] == ' ') memcpy(out + n, "\xE2\x96\x81", 3), n += 3;
        else out[n++] = (char)p->text[i];
    }
    return n;
}

/* Adds a merge of two pieces from `first` on, and the piece that it makes, mostly of type normal. */
static int add_merge(fuzz_input *in, int first, int flags) {
    uint8_t left = fuzz_byte(in), right = fuzz_byte(in), type = fuzz_byte(in), both[MOST_LENGTH];
    char form[6 * MOST_LENGTH + 1];
    const piece *a = &pieces[first + left % (n_pieces - first)], *b = &pieces[first + right % (n_pieces - first)];
    if (!a->len || !b->len || a->len + b->len > MOST_LENGTH) return 0;
    memcpy(both, a->text, a->len);
    memcpy(both + a->len, b->text, b->len);
    size_t len = spell(a, form);
    form[len++] = ' ';
    len += spell(b, form + len);
    bool zero = memchr(form, 0, len);
    REQUIRE(gw_tokenizer_add_merge(t, form, len) == (zero ? GW_E_BAD_TOKENIZER : 0));
    if (zero) return 0;
    merges[n_merges++] = (merge){ (int)(a - pieces), (int)(b - pieces), n_pieces };
    return add(both, a->len + b->len, 0, type < 224 ? GW_TOKEN_NORMAL : type % 6 + 1, flags);
}

static int build(fuzz_input *in, int flags) {
    gw_error e = { 0 };
    int bad = flags & HAS_BYTES || fuzz_byte(in) % 16 ? add_bytes(flags & ~(LACKS_SCORE | LACKS_TYPE)) : 0;
    int first = n_pieces;
    for (int n = fuzz_byte(in) % MOST_PIECES; n > 0 && !bad; n--)
        bad = add_from(in, n == 1 ? flags : flags & ~(LACKS_SCORE | LACKS_TYPE));
    for (int n = by_merges && n_pieces > first ? fuzz_byte(in) % MOST_MERGES : 0; n > 0 && !bad; n--)
        bad = add_merge(in, first, flags & ~(LACKS_SCORE | LACKS_TYPE));
    if (bad) return bad;
    if (flags & MARKS) gw_tokenizer_mark_control(t, fuzz_byte(in));
    gw_tokenizer_kind kind = { .model = by_merges ? "gemma4" : "llama", .space_prefix = flags & PREFIX };
    bad = gw_tokenizer_finish(t, &kind, &e);
    if (bad) fuzz_check_error(&e, bad);
    else note_types();
    return bad;
}

/* Returns the longest added token at the start of a text; on ties a user-defined one, then the lowest id. */
static int match(const uint8_t *text, size_t left, bool special) {
    int best = -1;
    for (int id = 0; id < n_pieces; id++) {
        int type = pieces[id].type;
        bool user = type == GW_TOKEN_USER, other = type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN;
        if (!(user || (special && other)) || pieces[id].len > left || !is_text(id, text, pieces[id].len)) continue;
        size_t so_far = best < 0 ? 0 : pieces[best].len;
        bool same = pieces[id].len == so_far && user && pieces[best].type != GW_TOKEN_USER;
        if (pieces[id].len > so_far || same) best = id;
    }
    return best;
}

/* Writes the ids of a character that is not part of a longer piece. Returns their number, or -1 for the unknown
 * piece. */
static int slow_char(const uint8_t *p, size_t len, int32_t *ids) {
    int32_t bytes[4];
    ids[0] = find_normal(p, len);
    if (ids[0] >= 0) return 1;
    for (size_t i = 0; i < len; i++)
        if ((bytes[i] = byte_ids[p[i]]) < 0) return -1;
    memcpy(ids, bytes, len * sizeof *ids);
    return (int)len;
}

/* Returns the id of a symbol, which is a character or the result of merges; -1 for a character without a piece. */
static int id_of(const uint8_t *text, const uint8_t *ends, int i) {
    size_t begin = i ? ends[i - 1] : 0, len = ends[i] - begin;
    return char_len(text + begin, len) == len ? find_normal(text + begin, len) : named(text + begin, len);
}

/* Returns the index of the first symbol of the pair whose merge is listed first, the leftmost of equal pairs; -1 if no
 * pair merges. */
static int best_by_merges(const uint8_t *text, const uint8_t *ends, int n) {
    int best = -1, rank = n_merges, ids[MOST_TEXT + 1];
    for (int i = 0; i < n; i++) ids[i] = id_of(text, ends, i);
    for (int i = 0; i + 1 < n; i++)
        for (int k = 0; k < rank; k++)
            if (merges[k].left == ids[i] && merges[k].right == ids[i + 1] && may_make(merges[k].made))
                best = i, rank = k;
    return best;
}

static int best_by_score(const uint8_t *text, const uint8_t *ends, int n) {
    int best = -1, best_id = -1;
    for (int i = 0; i + 1 < n; i++) {
        int begin = i ? ends[i - 1] : 0, id = find_normal(text + begin, (size_t)(ends[i + 1] - begin));
        if (id >= 0 && (best < 0 || pieces[id].score > pieces[best_id].score)) best = i, best_id = id;
    }
    return best;
}

/* Tokenizes the text between two added tokens: merges the best pair until none is left. `ends` are the ends of the n
 * characters. Ids of -1 stand for the unknown piece. */
static int slow_merge(const uint8_t *text, uint8_t *ends, int n, int32_t *ids) {
    for (int best;; n--) {
        best = by_merges ? best_by_merges(text, ends, n) : best_by_score(text, ends, n);
        if (best < 0) break;
        memmove(ends + best, ends + best + 1, (size_t)(n - best - 1));
    }
    int count = 0;
    for (int i = 0; i < n; i++) {
        int begin = i ? ends[i - 1] : 0, id = id_of(text, ends, i), got = 1;
        if (id >= 0) ids[count] = id;
        else got = slow_char(text + begin, (size_t)(ends[i] - begin), ids + count);
        if (got < 0) got = 1, ids[count] = -1;
        count += got;
    }
    return count;
}

static int slow_encode(const uint8_t *given, size_t len, bool special, bool prefix, int32_t *ids) {
    int n = 0;
    for (size_t at = 0; at < len;) {
        const uint8_t *text = given;
        int id = match(text + at, len - at, special), chars = 0;
        if (id >= 0) {
            ids[n++] = id;
            at += pieces[id].len;
            prefix = space_prefix;
            continue;
        }
        uint8_t ends[MOST_TEXT + 1], copy[MOST_TEXT + 1];
        size_t end = at;
        do {
            end += char_len(text + end, len - end);
            ends[chars++] = (uint8_t)(end - at);
        } while (end < len && match(text + end, len - end, special) < 0);
        text += at;
        if (prefix) {
            copy[0] = ' ';
            memcpy(copy + 1, text, end - at);
            memmove(ends + 1, ends, (size_t)chars++);
            ends[0] = 1;
            for (int i = 1; i < chars; i++) ends[i]++;
            text = copy;
        }
        n += slow_merge(text, ends, chars, ids + n);
        prefix = false;
        at = end;
    }
    return n;
}

/* Decodes the ids before the first unknown piece, whose index is `known`. */
static size_t decode(const int32_t *ids, int known, int flags, char *out, size_t cap) {
    size_t at = 0;
    for (int i = 0; i < known; i++) {
        int bytes = gw_tokenizer_decode_after(t, i || flags & GW_TOKENIZE_CONTINUES ? ids[i ? i - 1 : 0] : GW_NO_TOKEN,
                                              ids[i], flags, out + at, cap - at);
        REQUIRE(bytes >= 0 && (size_t)bytes <= cap - at);
        at += (size_t)bytes;
    }
    return at;
}

static void check_text(const uint8_t *text, size_t len, int flags) {
    enum { MOST = 2 * MOST_TEXT };
    static int32_t ids[MOST], slow[MOST];
    static char back[MOST + MOST_LENGTH];
    size_t cap = space_prefix ? 2 * len : len;
    int n = gw_tokenizer_encode(t, (const char *)text, len, flags, ids, cap), known = 0;
    REQUIRE(n >= 0 && (size_t)n <= cap);
    REQUIRE(n == slow_encode(text, len, flags & GW_TOKENIZE_SPECIAL, space_prefix && !(flags & GW_TOKENIZE_CONTINUES),
                             slow));
    for (int i = 0; i < n; i++) {
        REQUIRE(gw_tokenizer_type(t, ids[i]) >= 0 && (ids[i] == slow[i] || slow[i] == -1));
        REQUIRE(flags & GW_TOKENIZE_SPECIAL || slow[i] < 0 || gw_tokenizer_type(t, ids[i]) != GW_TOKEN_CONTROL);
        known += known == i && slow[i] >= 0;
    }
    size_t at = decode(ids, known, flags, back, sizeof back);
    bool first = flags & GW_TOKENIZE_CONTINUES &&
                 space_prefix; /* the first token's decoding needs the token before it */
    REQUIRE(first || (at <= len && !memcmp(back, text, at) && (known < n || at == len)));
    if (n) REQUIRE(gw_tokenizer_encode(t, (const char *)text, len, flags, slow, (size_t)n - 1) == GW_E_BAD_OPTION);
    REQUIRE(gw_tokenizer_encode(t, (const char *)text, len, flags, slow, (size_t)n) == n);
    REQUIRE(!memcmp(ids, slow, (size_t)n * sizeof *ids));
    check_parts(t, text, len, flags, (gw_ids){ ids, (size_t)n, cap }, slow);
}

static void check_pieces(void) {
    REQUIRE((int)gw_tokenizer_size(t) == n_pieces);
    for (int id = 0; id < n_pieces; id++) {
        REQUIRE(gw_tokenizer_find(t, (const char *)pieces[id].text, pieces[id].len) ==
                find_any(pieces[id].text, pieces[id].len));
        REQUIRE(by_merges || gw_tokenizer_vocabulary(t)->scores[id] == pieces[id].score);
    }
    REQUIRE(gw_tokenizer_type(t, -1) == GW_E_BAD_TOKEN && gw_tokenizer_type(t, n_pieces) == GW_E_BAD_TOKEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = { data, size };
    int flags = fuzz_byte(&in);
    by_merges = flags & MERGES;
    space_prefix = flags & PREFIX && !by_merges;
    t = gw_tokenizer_new();
    REQUIRE(t != NULL);
    n_pieces = n_merges = 0;
    if (build(&in, flags) == 0) {
        size_t len = gw_min(in.left, MOST_TEXT);
        check_pieces();
        check_text(in.at, len, 0);
        if (flags & SPECIAL) check_text(in.at, len, GW_TOKENIZE_SPECIAL);
        if (flags & PREFIX) check_text(in.at, len, GW_TOKENIZE_CONTINUES);
        check_text(data, gw_min(size, 48), 0); /* these bytes, also read as pieces, often match them */
    }
    gw_tokenizer_free(t);
    return 0;
}
