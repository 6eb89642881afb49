/* tokenizer: SentencePiece BPE by score, as a GGUF carries it (tokens, scores, types; no merges).
 * Knows no GGUF and no model: it is fed pieces one by one, finished once, then immutable.
 * Normaliser: " " -> U+2581, nothing else. Turned round here: the pieces are kept with " ", so a
 * U+2581 in the text is one more unknown character, and decode is the exact inverse of encode. */
#ifndef GW_TOKENIZER_H
#define GW_TOKENIZER_H

#include "base/base.h"

typedef struct gw_tokenizer gw_tokenizer;

/* Token types as GGUF's tokenizer.ggml.token_type numbers them. */
enum {
    GW_TOKEN_NORMAL = 1, GW_TOKEN_UNKNOWN = 2, GW_TOKEN_CONTROL = 3,
    GW_TOKEN_USER = 4, GW_TOKEN_UNUSED = 5, GW_TOKEN_BYTE = 6,
};

enum { GW_TOKENIZE_SPECIAL = 1 };   /* control pieces in the text match; never for untrusted text */

gw_tokenizer *gw_tokenizer_new(void);                 /* NULL if no memory */
void gw_tokenizer_free(gw_tokenizer *t);

/* Bounds that keep hostile vocabularies from costing more than their size: Gemma's longest piece has
 * 93 bytes, all together 3 million. */
enum { GW_MAX_PIECE = 1024, GW_MAX_PIECES_TEXT = 1 << 26 };

/* Building: the three arrays of a GGUF may come in any order, each element by element.
 * Return 0 or GW_E_NO_MEMORY / GW_E_BAD_TOKENIZER (too long a piece, NaN score, unknown type) /
 * GW_E_BAD_COUNT (too many, too much text). */
int gw_tokenizer_add_piece(gw_tokenizer *t, const char *text, size_t len);
int gw_tokenizer_add_score(gw_tokenizer *t, float score);
int gw_tokenizer_add_type(gw_tokenizer *t, int type);
/* This id is a control token whatever its type says: files in use give turn tokens wrong types, and
 * then text of users could name them. The turn and image tokens of Gemma are known by name. Before
 * finish; at most 8 ids, others and those out of range are ignored. */
void gw_tokenizer_mark_control(gw_tokenizer *t, int32_t id);
/* One element of tokenizer.ggml.merges: "left right", best first. Only BPE reads them. */
int gw_tokenizer_add_merge(gw_tokenizer *t, const char *text, size_t len);

/* What a file says of its tokenizer; read during finish only. */
typedef struct {
    const char *model;   /* tokenizer.ggml.model: "llama" (by score) or "gpt2" (byte-level BPE) */
    const char *pre;     /* tokenizer.ggml.pre, NULL if absent: how BPE cuts words out of a text */
    bool space_prefix;   /* by score only: a text is read with a blank before it */
} gw_tokenizer_kind;

/* Checks the counts against each other, builds the look-up tables. 0 or a coded error in e, and
 * then the tokenizer can only be freed. Types may be missing as a whole; scores may not, by score. */
int gw_tokenizer_finish(gw_tokenizer *t, const gw_tokenizer_kind *kind, gw_error *e);

uint32_t gw_tokenizer_size(const gw_tokenizer *t);    /* pieces */
size_t gw_tokenizer_bytes(const gw_tokenizer *t);     /* heap it holds, for model.info.memory */

/* Ids of text[0..len) into ids[0..cap). Returns the number of ids (at most len: cap = len always
 * suffices) or a negative code (GW_E_BAD_OPTION if cap is too small, GW_E_NO_MEMORY).
 * Any bytes are accepted; bytes that are not UTF-8 become byte pieces. No BOS is added.
 * One call at a time: scratch memory belongs to the tokenizer, and grows only for longer segments. */
int gw_tokenizer_encode(gw_tokenizer *t, const char *text, size_t len, int flags, int32_t *ids, size_t cap);

/* Bytes of one token into out[0..cap): U+2581 becomes " ", a byte piece its byte, a control or
 * unknown piece nothing (with GW_TOKENIZE_SPECIAL its name). Returns the length (even when it is
 * above cap; then nothing is written) or GW_E_BAD_TOKEN. */
int gw_tokenizer_decode(const gw_tokenizer *t, int32_t id, int flags, char *out, size_t cap);

int gw_tokenizer_type(const gw_tokenizer *t, int32_t id);          /* GW_TOKEN_* or GW_E_BAD_TOKEN */
float gw_tokenizer_score(const gw_tokenizer *t, int32_t id);
/* Lowest id of that text, with " " for U+2581; -1 if there is none. */
int32_t gw_tokenizer_find(const gw_tokenizer *t, const char *piece, size_t len);

#endif
