/* tokenizer: see tokenizer.h. Added tokens are matched first; spm or bpe encodes the text between them. */
#include "text/tokenizer.h"
#include "text/bpe.h"
#include "text/spm.h"
#include "text/added.h"
#include "text/errors.h"

#include <string.h>

struct gw_tokenizer {
    gw_vocabulary v;
    gw_added_tokens added;
    gw_spm spm; /* encoder for "llama", and for "gemma4" with the merges in bpe */
    gw_bpe bpe;
    bool space_prefix;
    gw_scratch scratch;
    size_t taken;
};

gw_tokenizer *gw_tokenizer_new(void) {
    gw_tokenizer *t = gw_alloc(sizeof *t);
    if (t) memset(t, 0, sizeof *t);
    return t;
}

void gw_tokenizer_free(gw_tokenizer *t) {
    if (!t) return;
    gw_vocabulary_free(&t->v);
    gw_added_free(&t->added);
    gw_spm_free(&t->spm);
    gw_bpe_free(&t->bpe);
    gw_scratch_free(&t->scratch);
    gw_free(t);
}

/* --- building --------------------------------------------------------------------------------- */

int gw_tokenizer_add_piece(gw_tokenizer *t, const char *text, size_t len) {
    return gw_vocabulary_add_piece(&t->v, text, len);
}

int gw_tokenizer_add_score(gw_tokenizer *t, float score) { return gw_vocabulary_add_score(&t->v, score); }

int gw_tokenizer_add_type(gw_tokenizer *t, int type) { return gw_vocabulary_add_type(&t->v, type); }

int gw_tokenizer_add_merge(gw_tokenizer *t, const char *text, size_t len) {
    return t->v.block ? GW_E_BAD_STATE : gw_bpe_add_merge(&t->bpe, text, len);
}

void gw_tokenizer_mark_control(gw_tokenizer *t, int32_t id) { gw_vocabulary_mark_control(&t->v, id); }

int gw_tokenizer_finish(gw_tokenizer *t, const gw_tokenizer_kind *kind, gw_error *e) {
    const char *model = kind->model ? kind->model : "no string";
    static const char *const names[] = { [GW_BY_SCORE] = "llama", [GW_BYTE_LEVEL] = "gpt2", [GW_BY_MERGES] = "gemma4" };
    int spelling = GW_BY_SCORE, last = GW_BY_MERGES;
    while (spelling <= last && strcmp(model, names[spelling])) spelling++;
    if (spelling > last) return gw_fail(e, MSG_TOKENIZER_MODEL, model);
    int code = gw_vocabulary_finish(&t->v, (gw_spelling)spelling, e);
    if (code) return code;
    bool merges = spelling != GW_BY_SCORE, bytes = spelling == GW_BYTE_LEVEL;
    t->space_prefix = kind->space_prefix && !merges;
    if (merges) code = gw_bpe_make(&t->bpe, &t->v, kind->pre, e);
    else gw_buffer_free(&t->bpe.in_merges);
    const gw_bpe *by = merges ? &t->bpe : NULL;
    if (!code && ((!bytes && gw_spm_make(&t->spm, &t->v, by)) || gw_added_make(&t->added, &t->v)))
        code = gw_no_memory(e, "the tokenizer", 0);
    if (code) t->v.n = 0; /* after an error, the tokenizer is unusable: every later call fails */
    return code;
}

/* --- encoding --------------------------------------------------------------------------------- */

/* AHEAD: the end of a word depends on at most AHEAD bytes after it, except for a run of white space or of upper
 * case. */
enum { MOST_TEXT = INT32_MAX / 4, AHEAD = 8 };

/* Returns whether the character at p is certainly not white space. U+0085, U+00A0, U+1680, U+2000 to U+205F and
 * U+3000 are white space; for speed some other characters count as white space too. */
static bool no_blank(const uint8_t *p) {
    bool two = p[0] == 0xC2 || (p[0] > 0xE0 && p[0] < 0xE4),
         safe = p[1] > 0x81 && p[1] != 0x85 && p[1] != 0x9A && p[1] != 0xA0;
    return (p[0] > 0x20 && p[0] < 0x7F) || (p[0] > 0xC1 && p[0] < 0xF5 && (!two || safe));
}

/* Returns the offset in a text up to which ids do not depend on the text that follows: added tokens that begin before
 * the offset are complete, and the offset is not inside a run of characters whose end determines where words end. */
static size_t certain(const gw_tokenizer *t, const uint8_t *text, size_t len) {
    size_t behind = t->added.longest + (size_t)AHEAD, at = len > behind ? len - behind : 0;
    if (t->v.spelling == GW_BYTE_LEVEL)
        while (at && (!no_blank(text + at) || gw_split_depends(t->bpe.split, text, len, at))) at--;
    return at;
}

static int encode_plain(gw_tokenizer *t, gw_text_span text, bool prefix, gw_ids *to, size_t *taken) {
    if (t->v.spelling == GW_BYTE_LEVEL) return gw_bpe_encode(&t->bpe, &t->v, &t->scratch, text, to, taken);
    return gw_spm_encode(&t->spm, &t->v, &t->scratch, text, prefix, to, taken);
}

int gw_tokenizer_encode(gw_tokenizer *t, const char *text, size_t len, int flags, int32_t *ids, size_t cap) {
    if (!t->v.n) return GW_E_BAD_STATE;
    if (len > MOST_TEXT) return GW_E_BAD_COUNT;
    const uint8_t *p = (const uint8_t *)text;
    bool special = flags & GW_TOKENIZE_SPECIAL, prefix = t->space_prefix && !(flags & GW_TOKENIZE_CONTINUES);
    size_t limit = flags & GW_TOKENIZE_MORE ? certain(t, p, len) : len, sure = 0;
    gw_ids to = { ids, 0, cap };
    int code = 0;
    t->taken = 0;
    for (size_t at = 0, n; at < limit && !code; at += n) {
        int32_t id;
        n = gw_added_match(&t->added, p + at, len - at, special, &id);
        if (n) {
            /* Text after an added token is encoded like the beginning of a text, so a continued call starts with this
             * token again. */
            t->taken = at, sure = to.n;
            code = gw_ids_add(&to, id);
            prefix = t->space_prefix;
            continue;
        }
        size_t end = gw_added_next(&t->added, p + at, len - at, special);
        code = encode_plain(t, (gw_text_span){ p + at, end, limit - at }, prefix, &to, &n);
        if (n) t->taken = at + n, sure = to.n, prefix = false;
        if (n < end) break;
    }
    if (limit == len) t->taken = len, sure = to.n;
    gw_scratch_trim(&t->scratch);
    return code ? code : (int)sure;
}

size_t gw_tokenizer_taken(const gw_tokenizer *t) { return t->taken; }

int gw_tokenizer_refusal(const gw_tokenizer *t, int code, size_t len, size_t cap, gw_error *e) {
    if (!t->v.n) return gw_fail(e, MSG_NOT_FINISHED);
    if (len > MOST_TEXT) return gw_fail(e, MSG_TEXT_TOO_LONG, MOST_TEXT, len);
    if (code == GW_E_BAD_COUNT) return gw_fail(e, MSG_WORD_TOO_LONG, GW_MAX_WORD, len);
    if (code == GW_E_BAD_OPTION) return gw_fail(e, MSG_BUFFER_FULL, cap);
    return gw_fail(e, MSG_NOT_TOKENISED(code), len, gw_error_name(code));
}

/* --- decoding --- */

static bool in_range(const gw_tokenizer *t, int32_t id) { return id >= 0 && (uint32_t)id < t->v.n; }

int gw_tokenizer_decode(const gw_tokenizer *t, int32_t id, int flags, char *out, size_t cap) {
    if (!in_range(t, id)) return GW_E_BAD_TOKEN;
    const gw_vocabulary *v = &t->v;
    int type = v->types[id];
    bool named = type == GW_TOKEN_CONTROL || type == GW_TOKEN_UNKNOWN;
    if (named && !(flags & GW_TOKENIZE_SPECIAL)) return 0;
    char byte = type == GW_TOKEN_BYTE ? (char)gw_byte_value(v, (uint32_t)id) : 0;
    const void *from = type == GW_TOKEN_BYTE ? (const void *)&byte : gw_piece_text(v, (uint32_t)id);
    size_t len = type == GW_TOKEN_BYTE ? 1 : gw_piece_len(v, (uint32_t)id);
    if (len && len <= cap) memcpy(out, from, len);
    return (int)len;
}

/* Returns whether encoding inserts a space after this token. The unknown piece also stands for ordinary characters, and
 * it counts as an added token only when its name is shown. */
static bool starts_text(const gw_tokenizer *t, int32_t before, int flags) {
    if (!in_range(t, before)) return true;
    int type = t->v.types[before];
    return type == GW_TOKEN_USER || type == GW_TOKEN_CONTROL ||
           (type == GW_TOKEN_UNKNOWN && flags & GW_TOKENIZE_SPECIAL);
}

/* Returns whether the token's text begins with a space that encoding may have inserted: always false for added
 * tokens. */
static bool starts_blank(const gw_tokenizer *t, int32_t id) {
    int type = t->v.types[id];
    if (type == GW_TOKEN_BYTE) return gw_byte_value(&t->v, (uint32_t)id) == ' ';
    return type == GW_TOKEN_NORMAL && gw_piece_len(&t->v, (uint32_t)id) && *gw_piece_text(&t->v, (uint32_t)id) == ' ';
}

int gw_tokenizer_decode_after(const gw_tokenizer *t, int32_t before, int32_t id, int flags, char *out, size_t cap) {
    int len = gw_tokenizer_decode(t, id, flags, out, cap);
    if (len <= 0 || !t->space_prefix || !starts_text(t, before, flags) || !starts_blank(t, id)) return len;
    if ((size_t)len > cap) return len;
    memmove(out, out + 1, (size_t)len - 1);
    return len - 1;
}

int gw_tokenizer_type(const gw_tokenizer *t, int32_t id) { return in_range(t, id) ? t->v.types[id] : GW_E_BAD_TOKEN; }

int32_t gw_tokenizer_find(const gw_tokenizer *t, const char *piece, size_t len) {
    return gw_find_any(&t->v, (const uint8_t *)piece, len);
}

uint32_t gw_tokenizer_size(const gw_tokenizer *t) { return t->v.n; }

const gw_vocabulary *gw_tokenizer_vocabulary(const gw_tokenizer *t) { return &t->v; }

size_t gw_tokenizer_bytes(const gw_tokenizer *t) {
    return sizeof *t + gw_vocabulary_bytes(&t->v) + t->added.size + gw_spm_bytes(&t->spm) + gw_bpe_bytes(&t->bpe) +
           t->scratch.size;
}
