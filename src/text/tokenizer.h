/* tokenizer: text to ids and back, with the tokenizer that a GGUF carries: SentencePiece's BPE with scores ("llama") or
 * merges ("gemma4"), or byte-level BPE with merges ("gpt2"). Independent of GGUF and of the model: pieces (entries of
 * the vocabulary, see vocabulary.h) are added one by one, then the tokenizer is finished and immutable. Nothing is
 * normalised, and decoding is the exact inverse of encoding, even for texts with U+2581, which score-based vocabularies
 * write for a space, and which Hugging Face decodes as a space. */
#ifndef GW_TOKENIZER_H
#define GW_TOKENIZER_H

#include "text/vocabulary.h"

typedef struct gw_tokenizer gw_tokenizer;

/* SPECIAL: control tokens in the text are recognised; never for untrusted text. CONTINUES: the text continues another
 * text, so no space is inserted before it. MORE: more text follows these bytes, so ids that could still change are
 * omitted; the next call must start at the byte offset gw_tokenizer_taken, with CONTINUES if that offset is not 0. */
enum { GW_TOKENIZE_SPECIAL = 1, GW_TOKENIZE_CONTINUES = 2, GW_TOKENIZE_MORE = 4 };

gw_tokenizer *gw_tokenizer_new(void); /* makes an empty tokenizer; returns NULL if out of memory */
void gw_tokenizer_free(gw_tokenizer *t);

/* Add the elements of a GGUF's arrays, which may come in any order.
 * Return 0 or GW_E_NO_MEMORY / GW_E_BAD_TOKENIZER (too long a piece, NaN score, unknown type) /
 * GW_E_BAD_COUNT (too many, too much text). */
int gw_tokenizer_add_piece(gw_tokenizer *t, const char *text, size_t len);
int gw_tokenizer_add_score(gw_tokenizer *t, float score);
int gw_tokenizer_add_type(gw_tokenizer *t, int type);
/* Adds an element of tokenizer.ggml.merges: "left right", best merge first. A score-based tokenizer ignores merges. */
int gw_tokenizer_add_merge(gw_tokenizer *t, const char *text, size_t len);
/* Marks an id as a control token whatever its type: existing files give turn tokens wrong types, so that users' text
 * could contain them. The turn tokens of the supported families are known by name. Must be called before finish;
 * ignores ids out of range, and all but the first 8. */
void gw_tokenizer_mark_control(gw_tokenizer *t, int32_t id);

/* Metadata from which gw_tokenizer_finish builds the tokenizer; not used afterwards. */
typedef struct {
    const char *model; /* tokenizer.ggml.model: "llama" (by score), "gemma4" (by merges) or "gpt2" (byte-level BPE) */
    const char *pre;   /* tokenizer.ggml.pre, NULL if absent: the rule that splits a text into words for BPE */
    /* The value of tokenizer.ggml.add_space_prefix, for score-based tokenizers: the beginning of a text, and text after
     * an added token, are encoded as if preceded by a space. */
    bool space_prefix;
} gw_tokenizer_kind;

/* Checks the numbers of elements added and builds the look-up tables. Returns 0, or a coded error in e; after an error
 * the tokenizer can only be freed. The types may be absent altogether; the scores may be absent only if there are
 * merges. */
int gw_tokenizer_finish(gw_tokenizer *t, const gw_tokenizer_kind *kind, gw_error *e);

uint32_t gw_tokenizer_size(const gw_tokenizer *t); /* returns the number of pieces; 0 before gw_tokenizer_finish */
const gw_vocabulary *gw_tokenizer_vocabulary(const gw_tokenizer *t);
size_t gw_tokenizer_bytes(const gw_tokenizer *t);

/* Writes the ids of text[0..len) to ids[0..cap). Returns the number of ids (at most len; twice that with a space
 * prefix) or a negative code: GW_E_BAD_OPTION if cap is too small, GW_E_BAD_COUNT if the text, or a stretch of it
 * without a word boundary, is too long, GW_E_NO_MEMORY; gw_tokenizer_refusal describes the error. Any bytes are
 * accepted; no BOS is added. Calls must not overlap, since the scratch memory belongs to the tokenizer. */
int gw_tokenizer_encode(gw_tokenizer *t, const char *text, size_t len, int flags, int32_t *ids, size_t cap);
/* Returns the number of bytes that the ids of the last gw_tokenizer_encode stand for. */
size_t gw_tokenizer_taken(const gw_tokenizer *t);
/* Describes an error code of gw_tokenizer_encode in e. Returns the code. */
int gw_tokenizer_refusal(const gw_tokenizer *t, int code, size_t len, size_t cap, gw_error *e);

/* Writes the bytes of one token to out[0..cap): for a byte piece its byte, for a control or unknown piece nothing, or
 * its name with GW_TOKENIZE_SPECIAL. Returns the length (even when it is above cap; then nothing is written) or
 * GW_E_BAD_TOKEN. `before` is the token before it, GW_NO_TOKEN at the beginning of a text: there, and after added
 * tokens, the space that encoding inserted is omitted. */
enum { GW_NO_TOKEN = -1 };
int gw_tokenizer_decode_after(const gw_tokenizer *t, int32_t before, int32_t id, int flags, char *out, size_t cap);
/* Writes the text of a token like gw_tokenizer_decode_after(), but never omits a space. */
int gw_tokenizer_decode(const gw_tokenizer *t, int32_t id, int flags, char *out, size_t cap);

int gw_tokenizer_type(const gw_tokenizer *t, int32_t id); /* returns a token's type, GW_TOKEN_*, or GW_E_BAD_TOKEN */
/* Calls gw_find_any(): finds a piece by its decoded text (" " for U+2581). Returns its id, or -1 if there is none. */
int32_t gw_tokenizer_find(const gw_tokenizer *t, const char *piece, size_t len);

#endif
