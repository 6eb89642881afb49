/* tokenizer_build: takes the pieces, checks them, builds the look-up tables (tokenizer_impl.h)
 * and answers questions about one piece. Knows nothing of merging.
 *
 * A file without types gets them by name: "<0x00>".."<0xFF>" are bytes, "<unk>" is unknown, the
 * rest is normal. Scores have no such default: without them nothing says what to merge first. */
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

gw_tokenizer *gw_tokenizer_new(void) {
    gw_tokenizer *t = gw_alloc(sizeof *t);
    if (t) memset(t, 0, sizeof *t);
    return t;
}

static void free_input(gw_tokenizer *t) {
    gw_buffer_free(&t->in_text);
    gw_buffer_free(&t->in_ends);
    gw_buffer_free(&t->in_scores);
    gw_buffer_free(&t->in_types);
    gw_buffer_free(&t->in_merges);
}

void gw_tokenizer_free(gw_tokenizer *t) {
    if (!t) return;
    free_input(t);
    gw_free(t->block);
    gw_free(t->scratch);
    gw_free(t);
}

/* --- feeding -------------------------------------------------------------------------------- */

/* Room for one more element of `size` bytes, or NULL with the reason in *code. */
static void *add(gw_tokenizer *t, gw_buffer *b, size_t size, int *code) {
    *code = t->block ? GW_E_BAD_STATE : b->used / size >= GW_MAX_VOCAB ? GW_E_BAD_COUNT : 0;
    if (*code) return NULL;
    void *at = gw_buffer_add(b, size);
    if (!at) *code = GW_E_NO_MEMORY;
    return at;
}

/* Copies a piece, U+2581 as " ". Returns the length of the copy. */
static size_t copy_piece(uint8_t *to, const uint8_t *from, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; n++) {
        bool space = len - i >= 3 && from[i] == 0xE2 && from[i + 1] == 0x96 && from[i + 2] == 0x81;
        to[n] = space ? ' ' : from[i];
        i += space ? 3 : 1;
    }
    return n;
}

int gw_tokenizer_add_piece(gw_tokenizer *t, const char *text, size_t len) {
    int code;
    size_t before = t->in_text.used;
    if (len > GW_MAX_PIECE) return GW_E_BAD_TOKENIZER;
    if (len > GW_MAX_PIECES_TEXT - before) return GW_E_BAD_COUNT;
    uint8_t *copy = gw_buffer_add(&t->in_text, gw_max(len, 1));
    if (!copy) return GW_E_NO_MEMORY;
    t->in_text.used = before + copy_piece(copy, (const uint8_t *)text, len);
    uint32_t *end = add(t, &t->in_ends, sizeof *end, &code);
    if (end) *end = (uint32_t)t->in_text.used;
    else t->in_text.used = before;
    return code;
}

int gw_tokenizer_add_score(gw_tokenizer *t, float score) {
    int code;
    if (score != score) return GW_E_BAD_TOKENIZER;
    float *at = add(t, &t->in_scores, sizeof *at, &code);
    if (at) *at = score + 0.0f;   /* -0 becomes 0: they must tie */
    return code;
}

int gw_tokenizer_add_type(gw_tokenizer *t, int type) {
    int code;
    if (type < GW_TOKEN_NORMAL || type > GW_TOKEN_BYTE) return GW_E_BAD_TOKENIZER;
    uint8_t *at = add(t, &t->in_types, sizeof *at, &code);
    if (at) *at = (uint8_t)type;
    return code;
}

int gw_tokenizer_add_merge(gw_tokenizer *t, const char *text, size_t len) {
    if (len > 2 * GW_MAX_PIECE + 1) return GW_E_BAD_TOKENIZER;
    if (len >= GW_MAX_PIECES_TEXT - t->in_merges.used) return GW_E_BAD_COUNT;
    char *copy = t->block ? NULL : gw_buffer_add(&t->in_merges, len + 1);
    if (!copy) return t->block ? GW_E_BAD_STATE : GW_E_NO_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    return 0;
}

void gw_tokenizer_mark_control(gw_tokenizer *t, int32_t id) {
    if (t->n_marked < sizeof t->marked / sizeof *t->marked) t->marked[t->n_marked++] = id;
}

/* --- finishing ------------------------------------------------------------------------------ */

static int check_counts(const gw_tokenizer *t, gw_error *e) {
    size_t n = t->in_ends.used / sizeof(uint32_t), scores = t->in_scores.used / sizeof(float);
    if (n == 0) return gw_fail(e, GW_E_MISSING_TOKENIZER, "tokenizer.ggml.tokens\npieces\nnone");
    if (scores != n)
        return gw_fail(e, GW_E_BAD_TOKENIZER, "tokenizer.ggml.scores\n%zu, one per piece\n%zu",
                       n, scores);
    if (t->in_types.used && t->in_types.used != n)
        return gw_fail(e, GW_E_BAD_TOKENIZER, "tokenizer.ggml.token_type\n%zu, one per piece\n%zu",
                       n, t->in_types.used);
    return 0;
}

static uint32_t power_of_two(size_t at_least) {
    uint32_t n = 64;
    while (n < at_least) n *= 2;
    return n;
}

static const char *const own_control[] = { "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>" };
enum { OWN_CONTROL = sizeof own_control / sizeof *own_control };

static uint32_t count_verbatim(const gw_tokenizer *t) {
    uint32_t n = 0;
    for (size_t i = 0; i < t->in_types.used; i++) {
        int type = t->in_types.data[i];
        n += type == GW_TOKEN_USER || type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN;
    }
    /* and those whose type comes from elsewhere: "<unk>" by name, marked ids, Gemma's own */
    return n + 1 + t->n_marked + OWN_CONTROL;
}

/* One pass measures, a second one over the block places. */
static void place_tables(gw_tokenizer *t, gw_arena *a) {
    t->text = gw_arena_take(a, t->in_text.used);
    t->ends = gw_arena_take(a, t->n * sizeof *t->ends);
    t->scores = gw_arena_take(a, t->n * sizeof *t->scores);
    t->types = gw_arena_take(a, t->n);
    t->slots = gw_arena_take(a, (t->slot_mask + (size_t)1) * sizeof *t->slots);
    t->pairs = gw_arena_take(a, (t->pair_mask + (size_t)1) / 8);
    t->verbatim = gw_arena_take(a, count_verbatim(t) * sizeof *t->verbatim);
}

static int make_tables(gw_tokenizer *t) {
    t->n = (uint32_t)(t->in_ends.used / sizeof(uint32_t));
    t->slot_mask = power_of_two((size_t)t->n * 2) - 1;
    t->pair_mask = power_of_two((size_t)t->n * 4) - 1;
    gw_arena a = { 0 };
    place_tables(t, &a);
    a = (gw_arena){ gw_alloc(gw_size(a.used)), 0, a.used };
    if (!a.base) return GW_E_NO_MEMORY;
    memset(a.base, 0, a.size);
    place_tables(t, &a);
    t->block = a.base;
    t->block_size = a.size;
    if (t->in_text.used) memcpy(t->text, t->in_text.data, t->in_text.used);
    memcpy(t->ends, t->in_ends.data, t->in_ends.used);
    memcpy(t->scores, t->in_scores.data, t->in_scores.used);
    if (t->in_types.used) memcpy(t->types, t->in_types.data, t->n);
    return 0;
}

static int hex(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Value of "<0xNN>", -1 for any other text. */
static int byte_value(const gw_tokenizer *t, uint32_t id) {
    const uint8_t *p = t->text + gw_piece_begin(t, id);
    if (gw_piece_len(t, id) != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    return hex(p[3]) < 0 || hex(p[4]) < 0 ? -1 : hex(p[3]) * 16 + hex(p[4]);
}

static bool is_named_unknown(const gw_tokenizer *t, uint32_t id) {
    return gw_piece_len(t, id) == 5 && !memcmp(t->text + gw_piece_begin(t, id), "<unk>", 5);
}

static void types_by_name(gw_tokenizer *t) {
    bool unknown = false;
    for (uint32_t id = 0; id < t->n; id++) {
        bool first = !unknown && is_named_unknown(t, id);
        unknown |= first;
        t->types[id] = first ? GW_TOKEN_UNKNOWN
                     : byte_value(t, id) >= 0 ? GW_TOKEN_BYTE : GW_TOKEN_NORMAL;
    }
}

static uint32_t hash_text(const uint8_t *p, size_t len) {
    uint64_t h = len;
    for (size_t i = 0; i < len; i++) h = (h ^ p[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static bool same_text(const gw_tokenizer *t, uint32_t id, const uint8_t *p, size_t len) {
    return gw_piece_len(t, id) == len && !memcmp(t->text + gw_piece_begin(t, id), p, len);
}

static void make_control(gw_tokenizer *t, uint32_t id) {
    bool plain = t->types[id] == GW_TOKEN_NORMAL || t->types[id] == GW_TOKEN_USER || t->types[id] == GW_TOKEN_UNUSED;
    if (plain) t->types[id] = GW_TOKEN_CONTROL;
}

static void correct_types(gw_tokenizer *t) {
    for (uint32_t i = 0; i < t->n_marked; i++)
        if (t->marked[i] >= 0 && (uint32_t)t->marked[i] < t->n) make_control(t, (uint32_t)t->marked[i]);
    for (uint32_t i = 0; i < OWN_CONTROL; i++)   /* the first of each name: later ones are never matched */
        for (uint32_t id = 0; id < t->n; id++) {
            if (!same_text(t, id, (const uint8_t *)own_control[i], strlen(own_control[i]))) continue;
            make_control(t, id);
            break;
        }
}

/* Of pieces with the same text the lowest id is kept, once among the normal ones and once among
 * the others: a control piece must not hide what merging may make, nor the other way round.
 * False: too many pieces share a place. Gemma's are at most 42 away from theirs, four million words
 * 55; only texts made for it crowd more, and then every look-up would crawl. */
static bool insert(gw_tokenizer *t, uint32_t id, uint32_t h) {
    enum { MOST_REACH = 256 };
    const uint8_t *p = t->text + gw_piece_begin(t, id);
    size_t len = gw_piece_len(t, id);
    if (!len) return true;
    bool normal = t->types[id] == GW_TOKEN_NORMAL;
    uint32_t at = h & t->slot_mask, reach = 0;
    for (; t->slots[at].id1 && reach <= MOST_REACH; at = (at + 1) & t->slot_mask, reach++) {
        uint32_t other = t->slots[at].id1 - 1;
        if (t->slots[at].hash == h && (t->types[other] == GW_TOKEN_NORMAL) == normal
            && same_text(t, other, p, len)) return true;
    }
    if (reach > MOST_REACH) return false;
    t->slots[at] = (gw_slot){ h, id + 1 };
    t->reach = (uint32_t)gw_max(t->reach, reach);
    return true;
}

/* Notes which characters follow each other inside a normal piece. */
static void note_pairs(gw_tokenizer *t, uint32_t id) {
    const uint8_t *p = t->text + gw_piece_begin(t, id);
    size_t len = gw_piece_len(t, id);
    uint32_t before = 0;
    for (size_t i = 0, n; i < len; i += n) {
        n = gw_char_len(p + i, len - i);
        uint32_t c = gw_char_pack(p + i, n);
        uint32_t bit = gw_pair_bit(t, before, c);
        if (i) t->pairs[bit >> 3] |= (uint8_t)(1 << (bit & 7));
        before = c;
    }
    t->max_normal = (uint32_t)gw_max(t->max_normal, len);
}

/* What index_pieces notes of the piece, but its place. */
static int note_piece(gw_tokenizer *t, uint32_t id, gw_error *e) {
    int type = t->types[id];
    if (type == GW_TOKEN_NORMAL) note_pairs(t, id);
    if (type == GW_TOKEN_UNKNOWN && t->unknown < 0) t->unknown = (int32_t)id;
    if (type != GW_TOKEN_BYTE) return 0;
    int value = byte_value(t, id);
    if (value < 0)
        return gw_fail(e, GW_E_BAD_TOKENIZER, "byte piece %u\n<0x00> to <0xFF>\n%.*s", id,
                       (int)gw_min(gw_piece_len(t, id), 32), t->text + gw_piece_begin(t, id));
    if (t->bytes[value] < 0) t->bytes[value] = (int32_t)id;
    return 0;
}

/* Pieces [id, end), GROUP at most. Their slots lie far apart, mostly outside of caches: looked at one right after the
 * other, they are fetched side by side. A function of its own, for browsers optimise only what is called often. */
enum { GROUP = 64 };
__attribute__((noinline)) static int index_group(gw_tokenizer *t, uint32_t id, uint32_t end, gw_error *e) {
    uint32_t hash[GROUP], *h = hash;
    for (uint32_t i = id; i < end; i++) *h++ = hash_text(t->text + gw_piece_begin(t, i), gw_piece_len(t, i));
    while (h > hash) (void)*(const volatile uint32_t *)&t->slots[*--h & t->slot_mask].id1;
    for (; id < end; id++) {
        if (!insert(t, id, *h++))
            return gw_fail(e, GW_E_BAD_TOKENIZER, "piece %u\nbelow 256 collisions of hashes\nmore", id);
        int bad = note_piece(t, id, e);
        if (bad) return bad;
    }
    return 0;
}

static int index_pieces(gw_tokenizer *t, gw_error *e) {
    t->unknown = -1;
    memset(t->bytes, -1, sizeof t->bytes);
    for (uint32_t id = 0; id < t->n; id += GROUP) {
        int bad = index_group(t, id, (uint32_t)gw_min(id + GROUP, t->n), e);
        if (bad) return bad;
    }
    /* Gemma's converted files call <unk> a control piece. */
    if (t->unknown < 0) t->unknown = gw_tokenizer_find(t, "<unk>", 5);
    for (int i = 0; i < 256 && t->unknown < 0; i++)
        if (t->bytes[i] < 0)
            return gw_fail(e, GW_E_BAD_TOKENIZER, "vocabulary\nall 256 byte pieces, or an unknown "
                           "piece\nneither: <0x%02X> is missing", i);
    return 0;
}

/* --- verbatim pieces -------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *text;
    uint32_t len, id;
    bool user;
} verbatim;

static int compare_text(const verbatim *a, const verbatim *b) {
    int order = memcmp(a->text, b->text, gw_min(a->len, b->len));
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare_verbatim(const void *x, const void *y) {
    const verbatim *a = x, *b = y;
    int order = compare_text(a, b);
    if (!order) order = a->user - b->user;
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

static uint32_t list_verbatim(const gw_tokenizer *t, verbatim *list) {
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n; id++) {
        int type = t->types[id];
        bool user = type == GW_TOKEN_USER;
        if (!user && type != GW_TOKEN_CONTROL && type != GW_TOKEN_UNKNOWN) continue;
        uint32_t len = gw_piece_len(t, id);
        if (len) list[n++] = (verbatim){ t->text + gw_piece_begin(t, id), len, id, user };
    }
    qsort(list, n, sizeof *list, compare_verbatim);
    return n;
}

/* Keeps one piece of each text and kind, so that a text has at most two. */
static int sort_verbatim(gw_tokenizer *t) {
    verbatim *list = gw_alloc(count_verbatim(t) * sizeof *list);
    if (!list) return GW_E_NO_MEMORY;
    uint32_t n = list_verbatim(t, list);
    for (uint32_t i = 0; i < n; i++) {
        bool again = i && list[i].user == list[i - 1].user && !compare_text(&list[i], &list[i - 1]);
        if (again) continue;
        t->verbatim[t->n_verbatim++] = list[i].id;
        t->first[list[i].text[0] + 1] = t->n_verbatim;
    }
    for (int c = 1; c <= 256; c++) t->first[c] = (uint32_t)gw_max(t->first[c], t->first[c - 1]);
    gw_free(list);
    return 0;
}

int gw_tokenizer_finish(gw_tokenizer *t, const gw_tokenizer_kind *kind, gw_error *e) {
    if (t->block) return gw_fail(e, GW_E_BAD_STATE, "tokenizer\none finish\na second one");
    if (!kind->model || strcmp(kind->model, "llama"))
        return gw_fail(e, GW_E_BAD_TOKENIZER, "tokenizer.ggml.model\nllama\n%.64s", kind->model ? kind->model : "none");
    if (kind->space_prefix)
        return gw_fail(e, GW_E_BAD_TOKENIZER, "tokenizer.ggml.add_space_prefix\nfalse\ntrue");
    int code = check_counts(t, e);
    if (code) return code;
    if (make_tables(t)) return gw_fail(e, GW_E_NO_MEMORY, "memory for the tokenizer");
    if (!t->in_types.used) types_by_name(t);
    correct_types(t);
    code = index_pieces(t, e);
    if (!code && sort_verbatim(t))
        code = gw_fail(e, GW_E_NO_MEMORY, "memory to sort the tokenizer's pieces");
    free_input(t);
    if (code) t->n = 0;   /* unusable: every later call fails */
    return code;
}

/* --- questions -------------------------------------------------------------------------------- */

int32_t gw_find_normal(const gw_tokenizer *t, const uint8_t *p, size_t len) {
    uint32_t h = hash_text(p, len), at = h & t->slot_mask;
    for (uint32_t n = 0; t->slots[at].id1 && n <= t->reach; at = (at + 1) & t->slot_mask, n++) {
        if (t->slots[at].hash != h) continue;
        uint32_t id = t->slots[at].id1 - 1;
        if (t->types[id] == GW_TOKEN_NORMAL && same_text(t, id, p, len)) return (int32_t)id;
    }
    return -1;
}

int32_t gw_tokenizer_find(const gw_tokenizer *t, const char *piece, size_t len) {
    if (!t->n || !len) return -1;
    const uint8_t *p = (const uint8_t *)piece;
    uint32_t h = hash_text(p, len), best = UINT32_MAX, at = h & t->slot_mask;
    for (uint32_t n = 0; t->slots[at].id1 && n <= t->reach; at = (at + 1) & t->slot_mask, n++) {
        uint32_t id = t->slots[at].id1 - 1;
        if (t->slots[at].hash == h && id < best && same_text(t, id, p, len)) best = id;
    }
    return best == UINT32_MAX ? -1 : (int32_t)best;
}

uint32_t gw_tokenizer_size(const gw_tokenizer *t) { return t->n; }

size_t gw_tokenizer_bytes(const gw_tokenizer *t) {
    return sizeof *t + t->block_size + t->scratch_size + t->in_text.size + t->in_ends.size
         + t->in_scores.size + t->in_types.size;
}

static bool in_range(const gw_tokenizer *t, int32_t id) { return id >= 0 && (uint32_t)id < t->n; }

int gw_tokenizer_type(const gw_tokenizer *t, int32_t id) {
    return in_range(t, id) ? t->types[id] : GW_E_BAD_TOKEN;
}

float gw_tokenizer_score(const gw_tokenizer *t, int32_t id) {
    return in_range(t, id) ? t->scores[id] : 0.0f;
}

int gw_tokenizer_decode(const gw_tokenizer *t, int32_t id, int flags, char *out, size_t cap) {
    if (!in_range(t, id)) return GW_E_BAD_TOKEN;
    int type = t->types[id];
    bool named = type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN;
    if (named && !(flags & GW_TOKENIZE_SPECIAL)) return 0;
    char byte = type == GW_TOKEN_BYTE ? (char)byte_value(t, (uint32_t)id) : 0;
    const void *from = type == GW_TOKEN_BYTE ? (const void *)&byte
                                             : t->text + gw_piece_begin(t, (uint32_t)id);
    size_t len = type == GW_TOKEN_BYTE ? 1 : gw_piece_len(t, (uint32_t)id);
    if (len && len <= cap) memcpy(out, from, len);
    return (int)len;
}
