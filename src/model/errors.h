/* errors: the messages of the folder model. base/errors.h says how they are written. */
#ifndef GW_MODEL_ERRORS_H
#define GW_MODEL_ERRORS_H

#include "base/base.h"

/* --- metadata: config.c, tokens.c. %s.%s is a key after the name of the architecture. --- */

#define MSG_NO_ARCHITECTURE GW_E_MISSING_KEY, "The metadata key general.architecture is missing. It must be %s."
#define MSG_ARCHITECTURE GW_E_UNSUPPORTED_ARCH, "The metadata key general.architecture must be %s (got %.64s)."
#define MSG_EXPERTS GW_E_UNSUPPORTED_ARCH, "A %s model with a mixture of %u experts is not supported."
#define MSG_KEY_MISSING GW_E_MISSING_KEY, "The metadata key %s.%s is missing."
#define MSG_KEY_VALUE GW_E_BAD_METADATA, "The metadata key %s.%s must be %s (got %g)."
#define MSG_KEY_NOT_NUMBER GW_E_BAD_METADATA, "The metadata key %s.%s must be %s, but is not a number."
#define MSG_KEY_PER_LAYER \
    GW_E_BAD_METADATA,    \
        "The metadata key %s.%s must be a number, or one for each of the %u layers (got an array of %llu)."
#define MSG_WINDOW_PATTERN \
    GW_E_BAD_METADATA,     \
        "The metadata key %s.%s must have a bool or whole number for each of the %u layers (got an array of %llu, of GGUF type %d)."
#define MSG_ROPE_SCALING GW_E_BAD_METADATA, "The metadata key %s.rope.scaling.type must be linear or none (got %.32s)."
#define MSG_KV_HEADS \
    GW_E_BAD_METADATA, "The KV heads of layer %u of a %s model must have the number and size of those of layer 0."
#define MSG_NO_TOKENIZER GW_E_MISSING_TOKENIZER, "The file has no tokenizer: the metadata key %s is missing."
#define MSG_TOKEN_KEY GW_E_BAD_METADATA, "The metadata key %s must be a number below %u (got %.15g)."
#define MSG_TOKEN_KEY_NOT_NUMBER \
    GW_E_BAD_METADATA, "The metadata key %s must be a number below %u, but is not a number."

/* --- tensors: model.c --- */

#define MSG_TENSOR_MISSING GW_E_MISSING_TENSOR, "The tensor %s%s is missing."
#define MSG_TENSOR_UNEXPECTED GW_E_UNSUPPORTED_ARCH, "Unexpected tensor %s: a %s model does not have it."
#define MSG_TENSOR_TYPE GW_E_UNSUPPORTED_TYPE, "Tensor %s has the unsupported type %s; it can be %s."
#define MSG_TENSOR_SHAPE GW_E_BAD_SHAPE, "Tensor %s must have the shape %s (got [%llu, %llu, %llu, %llu])."
#define MSG_TWO_MATRICES GW_E_BAD_SHAPE, "Tensor %s has two matrices; each must have a multiple of %d rows (got %u)."

/* --- headers and parts: load.c --- */

#define MSG_ARRAY_TYPE GW_E_BAD_TOKENIZER, "The metadata key %s must be an array of %s (got elements of GGUF type %d)."
#define MSG_ELEMENT(code) code, "Element %llu of the metadata key %s cannot be stored."
/* Arguments: index, key, and " " with a remedy if the code has none. */
#define MSG_ELEMENT_TOO_LONG(code) \
    code,                          \
        "Element %llu of the metadata key %s cannot be stored: tokens must have at most 1024 bytes, and 64 MiB in all.%s"

#define MSG_PARTS_TOO_LATE \
    GW_E_BAD_STATE, "gw_load_parts() must be called before the first bytes are passed (load state %d)."
#define MSG_FILES GW_E_BAD_SPLIT, "A model must have 1 to %d files (got %d)."
#define MSG_NOT_SPLIT GW_E_BAD_SPLIT, "The model is not split, so it has one file (got %u). Pass only that file."
#define MSG_FILES_MISSING \
    GW_E_BAD_SPLIT, "Pass all %u files of the split model, …-00001-of-%05u.gguf to …-%05u-of-%05u.gguf (got %u)."
#define MSG_SPLIT_KEYS \
    GW_E_BAD_SPLIT,    \
        "File %u must have a split.count of 1 to %d and a split.no below it (got split.no %lld, split.count %lld). " GW_CONVERT
#define MSG_OTHER_PARTS \
    GW_E_BAD_SPLIT,     \
        "File %u must have split.count %u and split.tensors.count %lld, like the first file (got %lld and %lld). Pass the parts of one model."
#define MSG_PART_ORDER \
    GW_E_BAD_SPLIT,    \
        "File %u must be part %u, named like …-%05u-of-%05u.gguf (got part %u, …-%05u-of-%05u.gguf). Pass the parts in order."
#define MSG_SPLIT_TENSORS \
    GW_E_BAD_SPLIT, "All parts together must have %lld tensors, as split.tensors.count says (got %u). " GW_CONVERT

/* --- weights: load.c --- */

#define MSG_OFFSET GW_E_TENSOR_RANGE, "The offset of tensor %s must be %llu, where %s (got %llu)."
#define MSG_NOT_FINITE GW_E_NOT_FINITE, "Tensor %s has NaN or an infinity at row %llu."
#define MSG_NOT_TOKEN GW_E_BAD_TOKEN, "Item %llu of tensor %s must be a token id below %u. " GW_CONVERT
#define MSG_PACKING_FAILED GW_E_WORKER, "A helper thread failed while packing weights."
/* function, limit, number */
#define MSG_COMMIT GW_E_BAD_STATE, "%s() accepts at most %zu bytes now (got %zu)."
#define MSG_HEADER_ENDS_EARLY GW_E_TRUNCATED, "%s is truncated: it ends inside its header, after %llu bytes."
#define MSG_ENDS_EARLY GW_E_TRUNCATED, "%s is truncated: %llu bytes expected, %llu bytes received."

#endif
