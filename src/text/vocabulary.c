/* vocabulary: see vocabulary.h.
 *
 * In a file with scores but without types, the names decide: "<0x00>".."<0xFF>" are bytes, "<unk>" is unknown, all
 * others are normal. Scores have no such default, since they order the merges. */
#include "text/alphabet.h"
#include "text/errors.h"
#include "text/vocabulary.h"

#include <string.h>

static void free_input(gw_vocabulary *v) {
    gw_buffer_free(&v->in_text);
    gw_buffer_free(&v->in_ends);
    gw_buffer_free(&v->in_scores);
    gw_buffer_free(&v->in_types);
}

void gw_vocabulary_free(gw_vocabulary *v) {
    free_input(v);
    gw_free(v->block);
}

/* --- feeding -------------------------------------------------------------------------------- */

static void *add(gw_vocabulary *v, gw_buffer *b, size_t size, int *code) {
    *code = v->block ? GW_E_BAD_STATE : b->used / size >= GW_MAX_VOCAB ? GW_E_BAD_COUNT : 0;
    if (*code) return NULL;
    void *at = gw_buffer_add(b, size);
    if (!at) *code = GW_E_NO_MEMORY;
    return at;
}

int gw_vocabulary_add_piece(gw_vocabulary *v, const char *text, size_t len) {
    int code;
    size_t before = v->in_text.used;
    if (len > GW_MAX_PIECE) return GW_E_BAD_TOKENIZER;
    if (len > GW_MAX_PIECES_TEXT - before) return GW_E_BAD_COUNT;
    uint8_t *copy = gw_buffer_add(&v->in_text, gw_max(len, 1));
    if (!copy) return GW_E_NO_MEMORY;
    if (len) memcpy(copy, text, len);
    v->in_text.used = before + len;
    uint32_t *end = add(v, &v->in_ends, sizeof *end, &code);
    if (end) *end = (uint32_t)v->in_text.used;
    else v->in_text.used = before;
    return code;
}

int gw_vocabulary_add_score(gw_vocabulary *v, float score) {
    int code;
    if (score != score) return GW_E_BAD_TOKENIZER;
    float *at = add(v, &v->in_scores, sizeof *at, &code);
    if (at) *at = score + 0.0f; /* the sum turns a score of -0 into 0, since the two must compare as equal */
    return code;
}

int gw_vocabulary_add_type(gw_vocabulary *v, int type) {
    int code;
    if (type < GW_TOKEN_NORMAL || type > GW_TOKEN_BYTE) return GW_E_BAD_TOKENIZER;
    uint8_t *at = add(v, &v->in_types, sizeof *at, &code);
    if (at) *at = (uint8_t)type;
    return code;
}

void gw_vocabulary_mark_control(gw_vocabulary *v, int32_t id) {
    if (v->n_marked < sizeof v->marked / sizeof *v->marked) v->marked[v->n_marked++] = id;
}

/* --- finishing ------------------------------------------------------------------------------ */

/* Checks the numbers of pieces, scores and types. Scores are required only where they order the merges. */
static int check_counts(const gw_vocabulary *v, gw_error *e) {
    size_t n = v->in_ends.used / sizeof(uint32_t), scores = v->in_scores.used / sizeof(float);
    if (n == 0) return gw_fail(e, MSG_LIST_EMPTY(GW_E_MISSING_TOKENIZER), "tokens");
    if (scores != n && (scores || v->spelling == GW_BY_SCORE))
        return gw_fail(e, MSG_ONE_PER_TOKEN, "scores", n, scores);
    if (v->in_types.used && v->in_types.used != n)
        return gw_fail(e, MSG_ONE_PER_TOKEN, "token_type", n, v->in_types.used);
    return 0;
}

/* Not inlined: browsers optimise only functions that are called often. */
__attribute__((noinline)) size_t gw_read_spaces(const uint8_t *from, size_t len, uint8_t *to) {
    size_t n = 0;
    for (size_t i = 0; i < len; n++) {
        bool space = from[i] == 0xE2 && len - i >= 3 && from[i + 1] == 0x96 && from[i + 2] == 0x81;
        to[n] = space ? ' ' : from[i];
        i += space ? 3 : 1;
    }
    return n;
}

/* Byte-level BPE writes the text of normal pieces in GPT-2's alphabet, which has a character for each byte. A normal
 * piece with any other character becomes unused, since no merge makes it. The texts of other types are literal. */
static size_t read_bytes(const uint8_t *from, size_t len, uint8_t *to, uint8_t *type) {
    memmove(to, from, len);
    int n = *type == GW_TOKEN_NORMAL ? gw_alphabet_read(to, len, to) : (int)len;
    if (n < 0) *type = GW_TOKEN_UNUSED;
    return n < 0 ? len : (size_t)n;
}

/* Decodes the pieces' texts in place, to the bytes that they represent; no text grows. */
static int read_texts(gw_vocabulary *v) {
    size_t n = v->in_ends.used / sizeof(uint32_t), begin = 0, used = 0;
    uint32_t *ends = (uint32_t *)v->in_ends.data;
    if (v->spelling == GW_BYTE_LEVEL && !v->in_types.used) {
        if (!gw_buffer_add(&v->in_types, n)) return GW_E_NO_MEMORY;
        memset(v->in_types.data, GW_TOKEN_NORMAL, n);
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = v->in_text.data + begin;
        uint8_t *to = v->in_text.data + used;
        size_t len = ends[i] - begin;
        begin = ends[i];
        used += v->spelling == GW_BYTE_LEVEL ? read_bytes(from, len, to, v->in_types.data + i)
                                             : gw_read_spaces(from, len, to);
        ends[i] = (uint32_t)used;
    }
    v->in_text.used = used;
    return 0;
}

static void place_tables(gw_vocabulary *v, gw_arena *a) {
    v->text = gw_arena_take(a, v->in_text.used);
    v->ends = gw_arena_take(a, v->n * sizeof *v->ends);
    v->scores = v->spelling == GW_BY_SCORE ? gw_arena_take(a, v->n * sizeof *v->scores) : NULL;
    v->types = gw_arena_take(a, v->n);
    v->slots = gw_arena_take(a, (v->slot_mask + (size_t)1) * sizeof *v->slots);
}

static int make_tables(gw_vocabulary *v) {
    v->n = (uint32_t)(v->in_ends.used / sizeof(uint32_t));
    v->slot_mask = gw_power_of_two((size_t)v->n * 2) - 1;
    gw_arena a = { 0 };
    place_tables(v, &a);
    a = (gw_arena){ gw_alloc(gw_size(a.used)), 0, a.used };
    if (!a.base) return GW_E_NO_MEMORY;
    memset(a.base, 0, a.size);
    place_tables(v, &a);
    v->block = a.base;
    v->block_size = a.size;
    if (v->in_text.used) memcpy(v->text, v->in_text.data, v->in_text.used);
    memcpy(v->ends, v->in_ends.data, v->in_ends.used);
    if (v->scores) memcpy(v->scores, v->in_scores.data, v->in_scores.used);
    if (v->in_types.used) memcpy(v->types, v->in_types.data, v->n);
    return 0;
}

static int hex(uint8_t c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int gw_byte_value(const gw_vocabulary *v, uint32_t id) {
    const uint8_t *p = gw_piece_text(v, id);
    if (gw_piece_len(v, id) != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    return hex(p[3]) < 0 || hex(p[4]) < 0 ? -1 : hex(p[3]) * 16 + hex(p[4]);
}

static bool same_text(const gw_vocabulary *v, uint32_t id, const void *p, size_t len) {
    return gw_piece_len(v, id) == len && !memcmp(gw_piece_text(v, id), p, len);
}

static void types_by_name(gw_vocabulary *v) {
    bool unknown = false;
    for (uint32_t id = 0; id < v->n; id++) {
        bool first = !unknown && same_text(v, id, "<unk>", 5);
        unknown |= first;
        v->types[id] = first ? GW_TOKEN_UNKNOWN : gw_byte_value(v, id) >= 0 ? GW_TOKEN_BYTE : GW_TOKEN_NORMAL;
    }
}

static uint32_t hash_text(const uint8_t *p, size_t len) {
    uint64_t h = len;
    for (size_t i = 0; i < len; i++) h = (h ^ p[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* Returns whether a piece of byte-level BPE stands for a single byte. */
static bool spells_byte(const gw_vocabulary *v, uint32_t id) {
    return v->spelling == GW_BYTE_LEVEL && v->types[id] == GW_TOKEN_NORMAL && gw_piece_len(v, id) == 1;
}

static void make_control(gw_vocabulary *v, uint32_t id) {
    bool plain = v->types[id] == GW_TOKEN_NORMAL || v->types[id] == GW_TOKEN_USER || v->types[id] == GW_TOKEN_UNUSED;
    if (plain) v->types[id] = GW_TOKEN_CONTROL;
}

/* Control tokens of the supported models by name, because published files give them other types. */
static const char *const own_control[] = {
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|turn>",
    "<turn|>",
    "<|channel>",
    "<channel|>",
    "<|think|>",
    "<|tool>",
    "<tool|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<|end|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<escape>",
    "<start_function_declaration>",
    "<end_function_declaration>",
    "<start_function_call>",
    "<end_function_call>",
    "<start_function_response>",
    "<end_function_response>",
};
enum { OWN_CONTROL = sizeof own_control / sizeof *own_control };

/* Marks control tokens. A piece of a single byte keeps its type, since otherwise texts could not contain that byte:
 * some files use the piece "!" for padding. */
static void correct_types(gw_vocabulary *v) {
    for (uint32_t i = 0; i < v->n_marked; i++) {
        uint32_t id = (uint32_t)v->marked[i];
        if (v->marked[i] >= 0 && id < v->n && !spells_byte(v, id)) make_control(v, id);
    }
    for (uint32_t id = 0; id < v->n; id++) {
        if (!gw_piece_len(v, id) || *gw_piece_text(v, id) != '<') continue;
        for (uint32_t i = 0; i < OWN_CONTROL; i++)
            if (same_text(v, id, own_control[i], strlen(own_control[i]))) make_control(v, id);
    }
}

/* Inserts a piece into the hash table. If several pieces have the same text, keeps one normal piece (the lowest id;
 * BY_MERGES: the highest) and one of any other type (the lowest id), because a control piece must not hide a piece that
 * merges can make, nor the reverse. Returns false if too many pieces collide. Gemma's pieces need at most 42 probes,
 * four million words 55; only hostile files need more. */
static bool insert(gw_vocabulary *v, uint32_t id, uint32_t h) {
    enum { MOST_REACH = 256 };
    const uint8_t *p = gw_piece_text(v, id);
    size_t len = gw_piece_len(v, id);
    if (!len) return true;
    bool normal = v->types[id] == GW_TOKEN_NORMAL;
    uint32_t at = h & v->slot_mask, reach = 0;
    for (; v->slots[at].id1 && reach <= MOST_REACH; at = (at + 1) & v->slot_mask, reach++) {
        uint32_t other = v->slots[at].id1 - 1;
        if (v->slots[at].hash != h || (v->types[other] == GW_TOKEN_NORMAL) != normal || !same_text(v, other, p, len))
            continue;
        /* If two pieces have the text of a merge, Hugging Face and llama.cpp use the later one. */
        if (normal && v->spelling == GW_BY_MERGES) v->slots[at].id1 = id + 1;
        return true;
    }
    if (reach > MOST_REACH) return false;
    v->slots[at] = (gw_slot){ h, id + 1 };
    v->reach = (uint32_t)gw_max(v->reach, reach);
    return true;
}

static void note_byte(gw_vocabulary *v, int byte, uint32_t id) {
    if (v->bytes[byte] < 0) v->bytes[byte] = (int32_t)id;
}

static int note_piece(gw_vocabulary *v, uint32_t id, gw_error *e) {
    int type = v->types[id];
    if (spells_byte(v, id)) note_byte(v, *gw_piece_text(v, id), id);
    if (type == GW_TOKEN_UNKNOWN && v->unknown < 0) v->unknown = (int32_t)id;
    if (type != GW_TOKEN_BYTE) return 0;
    int value = gw_byte_value(v, id);
    if (value < 0) return gw_fail(e, MSG_BYTE_TEXT, id, (int)gw_min(gw_piece_len(v, id), 32), gw_piece_text(v, id));
    if (v->spelling != GW_BYTE_LEVEL) note_byte(v, value, id);
    return 0;
}

/* Indexes pieces [id, end), at most GROUP. Their slots are mostly not in a cache; touching them in direct succession
 * fetches them in parallel. Not inlined: browsers optimise only functions that are called often. */
enum { GROUP = 64 };
__attribute__((noinline)) static int index_group(gw_vocabulary *v, uint32_t id, uint32_t end, gw_error *e) {
    uint32_t hash[GROUP], *h = hash;
    for (uint32_t i = id; i < end; i++) *h++ = hash_text(gw_piece_text(v, i), gw_piece_len(v, i));
    while (h > hash) (void)*(const volatile uint32_t *)&v->slots[*--h & v->slot_mask].id1;
    for (; id < end; id++) {
        if (!insert(v, id, *h++)) return gw_fail(e, MSG_COLLISIONS, "Token", id);
        int bad = note_piece(v, id, e);
        if (bad) return bad;
    }
    return 0;
}

static int index_pieces(gw_vocabulary *v, gw_error *e) {
    v->unknown = -1;
    memset(v->bytes, -1, sizeof v->bytes);
    for (uint32_t id = 0; id < v->n; id += GROUP) {
        int bad = index_group(v, id, (uint32_t)gw_min(id + GROUP, v->n), e);
        if (bad) return bad;
    }
    if (v->spelling == GW_BYTE_LEVEL) return 0; /* byte-level BPE can encode a byte without a piece (bpe.h) */
    /* Gemma's converted files call <unk> a control piece. */
    if (v->unknown < 0) v->unknown = gw_find_any(v, (const uint8_t *)"<unk>", 5);
    for (int i = 0; i < 256 && v->unknown < 0; i++)
        if (v->bytes[i] < 0) return gw_fail(e, MSG_BYTE_MISSING, i);
    return 0;
}

int gw_vocabulary_finish(gw_vocabulary *v, gw_spelling spelling, gw_error *e) {
    if (v->block) return gw_fail(e, MSG_ENDED_TWICE);
    v->spelling = spelling;
    int code = check_counts(v, e);
    if (code) return code;
    if (read_texts(v) || make_tables(v)) {
        v->n = 0;
        return gw_no_memory(e, "the tokenizer", 0);
    }
    if (!v->in_types.used) types_by_name(v);
    correct_types(v);
    code = index_pieces(v, e);
    free_input(v);
    if (code) v->n = 0; /* after an error, the vocabulary is unusable: every later call fails */
    return code;
}

/* --- questions -------------------------------------------------------------------------------- */

int32_t gw_find_normal(const gw_vocabulary *v, const uint8_t *p, size_t len) {
    uint32_t h = hash_text(p, len), at = h & v->slot_mask;
    for (uint32_t n = 0; v->slots[at].id1 && n <= v->reach; at = (at + 1) & v->slot_mask, n++) {
        if (v->slots[at].hash != h) continue;
        uint32_t id = v->slots[at].id1 - 1;
        if (v->types[id] == GW_TOKEN_NORMAL && same_text(v, id, p, len)) return (int32_t)id;
    }
    return -1;
}

int32_t gw_find_any(const gw_vocabulary *v, const uint8_t *p, size_t len) {
    if (!v->n || !len) return -1;
    uint32_t h = hash_text(p, len), best = UINT32_MAX, at = h & v->slot_mask;
    for (uint32_t n = 0; v->slots[at].id1 && n <= v->reach; at = (at + 1) & v->slot_mask, n++) {
        uint32_t id = v->slots[at].id1 - 1;
        if (v->slots[at].hash == h && id < best && same_text(v, id, p, len)) best = id;
    }
    return best == UINT32_MAX ? -1 : (int32_t)best;
}

size_t gw_vocabulary_bytes(const gw_vocabulary *v) {
    return v->block_size + v->in_text.size + v->in_ends.size + v->in_scores.size + v->in_types.size;
}
