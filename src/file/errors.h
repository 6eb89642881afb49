/* errors: the messages of the folder file. base/errors.h says how they are written. */
#ifndef GW_FILE_ERRORS_H
#define GW_FILE_ERRORS_H

#include "base/base.h"

/* --- gguf.c --- */

#define MSG_NOT_GGUF GW_E_BAD_MAGIC, "This is not a GGUF file but %s."
#define MSG_NOT_GGUF_BYTES GW_E_BAD_MAGIC, "This is not a GGUF file: it begins with the bytes %02x %02x %02x %02x."
#define MSG_BIG_ENDIAN GW_E_BAD_VERSION, "The GGUF version must be 2 or 3, little-endian (got %u, big-endian)."
#define MSG_GGUF_VERSION GW_E_BAD_VERSION, "The GGUF version must be 2 or 3 (got %u)."
#define MSG_HEADER_TOO_LONG \
    GW_E_BAD_COUNT, "The header (metadata and list of tensors) must have at most %d bytes. " GW_CONVERT
/* Arguments: unit, key or "", limit, number. */
#define MSG_TOO_MANY GW_E_BAD_COUNT, "The number of %s%.150s must be at most %llu (got %llu). " GW_CONVERT
#define MSG_TOO_LONG GW_E_BAD_METADATA, "The length of %.150s must be at most %zu bytes (got %llu)."

/* Arguments: "Metadata key" or "The name of tensor", index, description of the name. */
#define MSG_NOT_PRINTABLE GW_E_BAD_METADATA, "%s %u must be printable text (got %s)."
#define MSG_VALUE_TYPE GW_E_BAD_METADATA, "The value type of the metadata key %.150s must be 0 to %d (got %u)."
#define MSG_NOT_BOOL GW_E_BAD_METADATA, "The metadata key %.150s is a bool and must be 0 or 1 (got %d)."
#define MSG_NESTED_ARRAY GW_E_BAD_METADATA, "The metadata key %.150s is an array of arrays, which is not supported."
#define MSG_ALIGNMENT \
    GW_E_BAD_METADATA, "The metadata key general.alignment must be a power of two of the type u32 (got %.17g%s)."
#define MSG_ALIGNMENT_ARRAY GW_E_BAD_METADATA, "The metadata key general.alignment must be a u32 (got an array)."

#define MSG_DIMENSIONS GW_E_BAD_SHAPE, "Tensor %s must have 1 to %d dimensions (got %u)."
#define MSG_TENSOR_SIZE \
    GW_E_BAD_SHAPE, "Tensor %s must have 1 to 2^53 elements (got the shape [%llu, %llu, %llu, %llu])."
#define MSG_NOT_ALIGNED \
    GW_E_TENSOR_RANGE, "The offset of tensor %s must be a multiple of the alignment, %u, and at most 2^53 (got %llu)."

/* --- store.c --- */

#define MSG_UNKNOWN_TYPE GW_E_UNSUPPORTED_TYPE, "Tensor %s has the unknown GGML type %u."
#define MSG_ROW_LENGTH \
    GW_E_BAD_SHAPE, "The row length of tensor %s must be a multiple of %u, the block size of its type %s (got %llu)."
/* Arguments: "metadata key" or "tensor", name. */
#define MSG_TWICE GW_E_DUPLICATE, "The %s %.150s occurs twice."

#endif
