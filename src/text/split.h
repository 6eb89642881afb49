/* split: splits a text into the words that byte-level BPE merges one by one, with the regular expression of each family
 * of vocabularies (tokenizer.ggml.pre). Bytes that are not UTF-8 count as characters that are neither letters, numbers
 * nor white space. */
#ifndef GW_SPLIT_H
#define GW_SPLIT_H

#include "base/base.h"

typedef enum {
    GW_SPLIT_GPT2,
    GW_SPLIT_SMOLLM,
    GW_SPLIT_LLAMA3, /* whole-word rule: a word that is a piece becomes that piece, whatever the merges; adds BOS */
    GW_SPLIT_DBRX,   /* Llama 3's expression; no whole-word rule, no BOS */
    GW_SPLIT_QWEN2,
    GW_SPLIT_GPT4O,
    GW_SPLIT_UNKNOWN
} gw_split;

/* Returns the kind of splitting for a value of tokenizer.ggml.pre, or GW_SPLIT_UNKNOWN. docs/family.md lists the
 * values. */
gw_split gw_split_named(const char *name);

/* Returns the length in bytes of the first word of text[0..len), len > 0. Of the text after the word, only a run of
 * white space, or of upper case for gpt-4o, is read. That run is the next word, so splitting a whole text takes linear
 * time. */
size_t gw_split_word(gw_split kind, const uint8_t *text, size_t len);

/* Returns whether the character at text[at], at > 0, continues a run of upper case for gpt-4o: the text after the run
 * may then change where words before `at` end. */
bool gw_split_depends(gw_split kind, const uint8_t *text, size_t len, size_t at);

#endif
