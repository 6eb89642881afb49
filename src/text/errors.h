/* errors: the messages of the folder text. base/errors.h says how they are written. */
#ifndef GW_TEXT_ERRORS_H
#define GW_TEXT_ERRORS_H

#include "base/base.h"

/* --- the vocabulary: vocabulary.c, bpe.c --- */

#define MSG_LIST_EMPTY(code) code, "The metadata key tokenizer.ggml.%s is missing or empty."
#define MSG_ONE_PER_TOKEN \
    GW_E_BAD_TOKENIZER, "The metadata key tokenizer.ggml.%s must have %zu elements, one per token (got %zu)."
#define MSG_BYTE_TEXT GW_E_BAD_TOKENIZER, "Token %u stands for a byte, so its text must be <0x00> to <0xFF> (got %.*s)."
#define MSG_BYTE_MISSING \
    GW_E_BAD_TOKENIZER, "The vocabulary must have an unknown token or a token for each byte; <0x%02X> is missing."
/* Arguments: "Token" or "Merge", index. */
#define MSG_COLLISIONS GW_E_BAD_TOKENIZER, "%s %u cannot be indexed, because it has 256 or more hash collisions."
#define MSG_ENDED_TWICE GW_E_BAD_STATE, "The tokenizer metadata ended twice: the header is malformed. " GW_CONVERT
#define MSG_TOKENIZER_MODEL \
    GW_E_BAD_TOKENIZER, "The metadata key tokenizer.ggml.model must be llama, gpt2 or gemma4 (got %.64s)."
#define MSG_PRE_TOKENIZER \
    GW_E_BAD_TOKENIZER,   \
        "The metadata key tokenizer.ggml.pre must be a name in docs/family.md of gemma-wasm (got %.64s)."
#define MSG_MERGE \
    GW_E_BAD_TOKENIZER, "Merge %u must be two tokens of the vocabulary that together form a third (got %s)."

/* --- texts: tokenizer.c --- */

#define MSG_NOT_FINISHED GW_E_BAD_STATE, "The tokenizer is not complete: load the header of a model first."
#define MSG_TEXT_TOO_LONG GW_E_BAD_COUNT, "A text must have at most %d bytes (got %zu). Tokenise it in parts."
#define MSG_WORD_TOO_LONG \
    GW_E_BAD_COUNT, "A word must have at most %d characters; a text of %zu bytes has a longer one. Add spaces."
#define MSG_BUFFER_FULL \
    GW_E_BAD_OPTION, "The text has more tokens than the buffer can hold (%zu). Tokenise it in parts."
#define MSG_NOT_TOKENISED(code) code, "A text of %zu bytes could not be tokenised (%s)."

/* --- constraints: grammar.c, matcher.c, states.c --- */

#define MSG_GRAMMAR  \
    GW_E_BAD_FORMAT, \
        "The compiled grammar is malformed: %s must be %s (got %u). Use files of one version of the package."
#define MSG_GRAMMAR_SIZE \
    GW_E_BAD_FORMAT,     \
        "The compiled grammar is malformed: the size must be %d to %d bytes, a multiple of 4 (got %zu). Use files of one version of the package."
#define MSG_NO_SUCH_TOKEN GW_E_BAD_FORMAT, "The vocabulary has no token <[%u]>. Change the format."
#define MSG_FORMAT_MEMORY GW_E_BAD_FORMAT, "The format needs more than %u bytes of memory. Simplify it."
#define MSG_AMBIGUOUS \
    GW_E_BAD_FORMAT, "The format is too ambiguous at this point of the answer: it needs more than %u %s. Simplify it."

#endif
