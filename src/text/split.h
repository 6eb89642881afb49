/* split: splits a text into the words that byte-level BPE merges one by one, with the regular expression of each family
 * of vocabularies (tokenizer.ggml.pre). Bytes that are not UTF-8 count as characters that are neither letters, numbers
 * nor white space. */
#ifndef GW_SPLIT_H
#define GW_SPLIT_H

#include "base/base.h"

typedef enum {
    GW_SPLIT_GPT2,
    GW_SPLIT_SMOLLM,
    GW_SPLIT_LLAMA3,
    GW_SPLIT_QWEN2,
    GW_SPLIT_GPT4O,
    GW_SPLIT_UNKNOWN
} gw_split;

/* Finds a kind by its name in files, one of GW_SPLIT_NAMES. */
gw_split gw_split_named(const char *name);
#define GW_SPLIT_NAMES "gpt-2, gpt-4o, llama-bpe, qwen2, refact or smollm"

/* Returns the length in bytes of the first word of text[0..len), len > 0. Reads beyond the word only through a run of
 * white space, or for gpt-4o of upper case, which is the next word, so the time is linear in the text's length. */
size_t gw_split_word(gw_split kind, const uint8_t *text, size_t len);

/* Returns whether the character at text[at], at > 0, is in a run of upper case whose end may move the ends of words
 * before it. */
bool gw_split_depends(gw_split kind, const uint8_t *text, size_t len, size_t at);

#endif
