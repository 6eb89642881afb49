/* errors: the messages of the folder run. base/errors.h says how they are written. */
#ifndef GW_RUN_ERRORS_H
#define GW_RUN_ERRORS_H

#include "base/base.h"

/* --- sequences: session.c --- */

#define MSG_SEQUENCE GW_E_BAD_OPTION, "The index of the sequence must be 0 to %u (got %u)."
#define MSG_COPIED_SEQUENCE GW_E_BAD_OPTION, "The sequence to copy must be 0 to %u and not the selected one (got %u)."
#define MSG_NO_IDS GW_E_BAD_OPTION, "Evaluation needs at least one token id."
#define MSG_PROMPT_TOO_LONG GW_E_CONTEXT, "The prompt must have at most %u tokens, the context length (got %u)."
#define MSG_CONTEXT_FULL GW_E_CONTEXT, "The context must have at most %u tokens (got %u)."
#define MSG_NO_PROMPT GW_E_BAD_STATE, "gw_append() needs a prompt. Call gw_sync() first."
#define MSG_ONLY_EMBEDS GW_E_BAD_STATE, "This model only computes embeddings. Use embed(), or load another model."
#define MSG_TEXTS GW_E_BAD_OPTION, "Embedding takes 1 to %u texts at once (got %u)."
#define MSG_TEXT_TOKENS \
    GW_E_CONTEXT, "Texts must have at least 1 token each and at most %u together (got a text of %u tokens)."
#define MSG_POOLING GW_E_BAD_OPTION, "`pooling` must be 0 or 1 (got %d)."
#define MSG_LOGIT_ROWS GW_E_BAD_OPTION, "Logits can be kept for the last 1 to %d tokens (got %u)."

/* --- evaluation: step.c, draft.c --- */

#define MSG_KV_FULL GW_E_NO_MEMORY, "The KV cache has no room for %u more tokens. Set a larger `kvTokens`."
#define MSG_ABORTED GW_E_ABORTED, "Evaluation was aborted."
#define MSG_EVALUATION_FAILED GW_E_WORKER, "A helper thread failed during evaluation."
#define MSG_NOT_TOGETHER \
    GW_E_BAD_STATE, "Only sequences that generate text can be evaluated together. Call gw_run() for the others."
#define MSG_OTHER_TARGET \
    GW_E_BAD_OPTION,     \
        "This draft model is made for another model: it needs a model with embedding_length %u, a window of %u tokens, and the same KV heads. Pass the draft model of the loaded model."
#define MSG_NO_HIDDEN_STATE \
    GW_E_BAD_STATE,         \
        "There is no hidden state for drafting the token after the id %d. Evaluate the tokens before that id first."
#define MSG_DRAFTING_FAILED GW_E_WORKER, "A helper thread failed while drafting."

/* --- sampling: sampler.c --- */

#define MSG_NO_OPTION GW_E_BAD_OPTION, "There is no sampling option `%.100s`."
#define MSG_OPTION GW_E_BAD_OPTION, "`%s` must be %.16g to %.16g%s (got %.16g)."
#define MSG_BIAS_TOKEN GW_E_BAD_TOKEN, "Token ids of `logitBias` must be 0 to %u (got %d)."
#define MSG_BIAS GW_E_BAD_OPTION, "The logit bias of token %d must be a number or -infinity (got %g)."
#define MSG_TOO_MANY_BIASES GW_E_BAD_OPTION, "At most %d tokens can have a logit bias."

/* --- saved states: state.c, sampler.c --- */

#define MSG_NOT_SAVED GW_E_BAD_SAVED, "These bytes are not a saved state."
#define MSG_OTHER_MODEL \
    GW_E_BAD_SAVED, "The saved state belongs to another model: the hash of its model must be %016llx (got %016llx)."
/* Arguments: field, "" or the words before the expected number, that number, the saved number. */
#define MSG_SAVED_FIELD GW_E_BAD_SAVED, "The saved state cannot be restored: %s must be %s%llu (got %llu)."
#define MSG_SAVED_TOKEN GW_E_BAD_SAVED, "The token ids of the saved state must be 0 to %u (got %d)."
#define MSG_SAVED_LISTS GW_E_BAD_SAVED, "The saved state is corrupt: it has token ids outside 0 to %u."
#define MSG_SAVED_OPTION GW_E_BAD_SAVED, "The saved state is corrupt: its `%s` must be %.16g to %.16g (got %.16g)."
#define MSG_SAVED_SAMPLER \
    GW_E_BAD_SAVED, "The saved state is corrupt: the %zu bytes with its sampling options are malformed."
#define MSG_SAVED_ROW GW_E_BAD_SAVED, "The saved state is corrupt in layer %u at token %u."
#define MSG_SAVED_CHECKSUM GW_E_BAD_SAVED, "The saved state is corrupt: its checksum must be %016llx (got %016llx)."
#define MSG_SAVED_TOO_LONG GW_E_BAD_SAVED, "The saved state has bytes after its end."
#define MSG_SAVED_TOO_SHORT GW_E_BAD_SAVED, "The saved state is incomplete."

#endif
