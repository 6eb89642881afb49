/* errors: the messages of api.c. base/errors.h says how they are written. */
#ifndef GW_ERRORS_H
#define GW_ERRORS_H

#include "base/base.h"

/* --- loading --- */

#define MSG_NO_LOAD_OPTION GW_E_BAD_OPTION, "There is no load option `%.32s`."
#define MSG_LOAD_OPTION GW_E_BAD_OPTION, "`%s` must be %s%s (got %.32s)."
#define MSG_OPTION_TOO_LATE GW_E_BAD_STATE, "`%s` must be set before memory is reserved."
#define MSG_RESERVED_TOO_EARLY \
    GW_E_BAD_STATE, "Call gw_load_reserve() after the header is complete (load state 1, got %d)."
#define MSG_CONTEXT_LENGTH \
    GW_E_BAD_OPTION, "`contextLength` must be 1 to %u, the length that the model was trained for (got %u)."
#define MSG_KV_TOKENS GW_E_BAD_OPTION, "`kvTokens` must be at least the context length, %u (got %d)."
#define MSG_ONLY_DRAFTS \
    GW_E_UNSUPPORTED_ARCH, "A %s model cannot be loaded alone, only as the `draftModel` of another model."
#define MSG_MODEL_TOO_LARGE \
    GW_E_NO_MEMORY,         \
        "The model needs %.0f bytes of memory, %.0f of them for weights; at most %.0f are available. Use a smaller model."
#define MSG_CONTEXT_TOO_LARGE \
    GW_E_NO_MEMORY,           \
        "A context of %u tokens needs %.0f bytes of memory; at most %.0f are available. Set contextLength to %u or less."
#define MSG_SUPPRESSED GW_E_BAD_METADATA, "The metadata key %s must be an array of at most %d token ids."

/* --- evaluation and sampling --- */

#define MSG_NOT_LOADED GW_E_BAD_STATE, "Evaluation needs a loaded model (load state %d)."
#define MSG_NO_SAMPLER GW_E_BAD_STATE, "Sampling needs a loaded model that generates text (load state %d)."
#define MSG_MATCHER_TOO_EARLY GW_E_BAD_STATE, "Call gw_match_new() after the header is complete (load state %d)."
#define MSG_NO_ROWS_WANTED GW_E_BAD_STATE, "Call gw_rows_commit() after gw_run() returned GW_RUN_ROWS."
#define MSG_NO_LENS GW_E_BAD_STATE, "The logit lens needs a model that generates text. Load another model."
#define MSG_LOGIT_NOT_FINITE \
    GW_E_NOT_FINITE, "A logit is not finite: the model computed %g for the token id %u after %u tokens."
/* Argument: what is -infinity, with its verb. */
#define MSG_ALL_BANNED GW_E_BAD_STATE, "No token can be drawn: all %s -infinity. Ban fewer tokens with `logitBias`."

#endif
