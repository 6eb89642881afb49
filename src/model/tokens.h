/* tokens: reads the metadata of the tokenizer, and finds the token that begins a text and the tokens that end an
 * answer. */
#ifndef GW_TOKENS_H
#define GW_TOKENS_H

#include "file/store.h"
#include "model/arch.h"
#include "text/tokenizer.h"

enum { GW_MAX_ENDS = 16 };

typedef struct {
    int32_t bos, eos, eot, pad; /* ids of special tokens; -1: the file names none */
    int32_t ends[GW_MAX_ENDS];  /* tokens on which generation stops */
    uint32_t n_ends;
    bool add_bos, add_eos; /* whether BOS begins and EOS ends a text */
} gw_tokens;

/* Reads the metadata of the tokenizer, which already has its pieces, and finishes it. Returns 0 or an error code. */
int gw_tokens_read(gw_tokens *t, const gw_store *s, const gw_arch *a, gw_tokenizer *tokenizer, gw_error *e);
bool gw_tokens_end(const gw_tokens *t, int32_t id);

#endif
