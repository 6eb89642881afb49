/* tokens: see tokens.h. Files name only some of the tokens that end an answer; the others are found by the names that
 * model families give them. text/ encodes and decodes; JavaScript renders chat templates. */
#include "model/tokens.h"
#include "model/errors.h"
#include "text/split.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Names of tokens that end a turn, then of tokens that end a text, in all model families. Files give the ids of only
 * one or two of them. */
static const char *const end_names[] = { "<end_of_turn>",   "<|eot_id|>",    "<|im_end|>",
                                         "<turn|>",         "<|end|>",       "<|eom_id|>",
                                         "<|end_of_text|>", "<|endoftext|>", "<|tool_response>" };
static const char *const id_names[] = { "bos", "eos", "eot", "eom", "padding" };
enum {
    TURN_NAMES = 5,
    END_NAMES = sizeof end_names / sizeof *end_names,
    ID_NAMES = sizeof id_names / sizeof *id_names,
};

/* Reads tokenizer.ggml.NAME_token_id into *id, -1 if the file has none; fails for an id that is not below n. Some
 * converters write -1 or 4294967295 for none. Files of fine-tuned models may have a padding token outside the
 * vocabulary, which also counts as none. */
static int read_id(const gw_store *s, const char *name, uint32_t n, int32_t *id, gw_error *e) {
    char key[48];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    const gw_entry *entry = gw_store_find(s, key);
    *id = -1;
    if (!entry) return 0;
    double v = gw_is_number(entry) ? entry->value.number : NAN;
    if (v >= 0 && v < n) *id = (int32_t)v;
    else if (isnan(v)) return gw_fail(e, MSG_TOKEN_KEY_NOT_NUMBER, key, n);
    else if (v != -1 && v != UINT32_MAX && !(*name == 'p' && v >= n)) return gw_fail(e, MSG_TOKEN_KEY, key, n, v);
    return 0;
}

/* Reads the ids of control tokens. Must run before the tokenizer is finished, so that a user's text cannot match these
 * tokens. */
static int read_ids(gw_tokens *t, int32_t *eom, const gw_store *s, uint32_t n, gw_tokenizer *tokenizer, gw_error *e) {
    int32_t *const ids[ID_NAMES] = { &t->bos, &t->eos, &t->eot, eom, &t->pad };
    int bad = 0;
    for (int i = 0; i < ID_NAMES && !bad; i++) {
        bad = read_id(s, id_names[i], n, ids[i], e);
        if (!bad && *ids[i] >= 0) gw_tokenizer_mark_control(tokenizer, *ids[i]);
    }
    return bad;
}

static bool flag(const gw_store *s, const char *key, bool otherwise) {
    const gw_entry *e = gw_store_find(s, key);
    return gw_is_number(e) ? e->value.number != 0 : otherwise;
}

static void add_end(gw_tokens *t, int32_t id) {
    if (id >= 0 && !gw_tokens_end(t, id) && t->n_ends < GW_MAX_ENDS) t->ends[t->n_ends++] = id;
}

/* Returns whether BOS begins a text. If the file does not say, decides as llama.cpp does: among byte-level
 * vocabularies, BOS begins texts only with Llama 3's. */
static bool adds_bos(const gw_store *s, const gw_tokenizer_kind *kind) {
    if (!strcmp(kind->model, "gemma4")) return true; /* llama.cpp ignores add_bos_token for gemma4 */
    bool usual = !strcmp(kind->model, "llama") || gw_split_named(kind->pre) == GW_SPLIT_LLAMA3;
    return flag(s, "tokenizer.ggml.add_bos_token", usual);
}

static void find_ends(gw_tokens *t, const gw_tokenizer *tokenizer) {
    add_end(t, t->eos);
    add_end(t, t->eot);
    for (int i = 0; i < END_NAMES; i++) {
        int32_t id = gw_tokenizer_find(tokenizer, end_names[i], strlen(end_names[i]));
        if (gw_tokenizer_type(tokenizer, id) != GW_TOKEN_CONTROL) continue;
        if (t->eot < 0 && i < TURN_NAMES) t->eot = id;
        add_end(t, id);
    }
}

int gw_tokens_read(gw_tokens *t, const gw_store *s, const gw_arch *a, gw_tokenizer *tokenizer, gw_error *e) {
    int32_t eom = -1;
    gw_tokenizer_kind kind = { .model = gw_store_text(s, "tokenizer.ggml.model"),
                               .pre = gw_store_text(s, "tokenizer.ggml.pre"),
                               .space_prefix = flag(s, "tokenizer.ggml.add_space_prefix", a->space_prefix) };
    if (!kind.pre) kind.pre = a->pre;
    const gw_entry *tokens = gw_store_find(s, "tokenizer.ggml.tokens");
    if (!kind.model || !tokens || !tokens->count)
        return gw_fail(e, MSG_NO_TOKENIZER, kind.model ? "tokenizer.ggml.tokens" : "tokenizer.ggml.model");
    *t = (gw_tokens){ 0 };
    int bad = read_ids(t, &eom, s, (uint32_t)tokens->count, tokenizer, e);
    if (bad || (bad = gw_tokenizer_finish(tokenizer, &kind, e))) return bad;
    t->add_bos = adds_bos(s, &kind);
    t->add_eos = flag(s, "tokenizer.ggml.add_eos_token", false);
    add_end(t, eom);
    find_ends(t, tokenizer);
    return 0;
}

bool gw_tokens_end(const gw_tokens *t, int32_t id) {
    for (uint32_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}
