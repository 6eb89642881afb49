/* base: error codes, limits, and the arena. Includes no other file of the project. */
#ifndef GW_BASE_H
#define GW_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_CONVERT "Download or convert the file again."

/* The table of errors: X(symbol, value, name, remedy). The name is stable: JavaScript shows it as `code`. The remedy
 * ends every message with that code; it is "" if the message itself says what to do. */
#define GW_ERRORS(X)                                                                    \
    X(GW_E_BAD_MAGIC, -1, "bad-magic", "Choose a GGUF file.")                           \
    X(GW_E_BAD_VERSION, -2, "bad-version", GW_CONVERT)                                  \
    X(GW_E_TRUNCATED, -3, "truncated", "Load it again to resume.")                      \
    X(GW_E_BAD_COUNT, -4, "bad-count", "")                                              \
    X(GW_E_BAD_METADATA, -5, "bad-metadata", GW_CONVERT)                                \
    X(GW_E_MISSING_KEY, -6, "missing-key", GW_CONVERT)                                  \
    X(GW_E_UNSUPPORTED_ARCH, -7, "unsupported-architecture", "Use another model.")      \
    X(GW_E_UNSUPPORTED_TYPE, -8, "unsupported-type", "Use another quantisation.")       \
    X(GW_E_BAD_SHAPE, -9, "bad-shape", GW_CONVERT)                                      \
    X(GW_E_TENSOR_RANGE, -10, "tensor-range", GW_CONVERT)                               \
    X(GW_E_MISSING_TENSOR, -11, "missing-tensor", GW_CONVERT)                           \
    X(GW_E_DUPLICATE, -12, "duplicate", GW_CONVERT)                                     \
    X(GW_E_MISSING_TOKENIZER, -13, "missing-tokenizer", GW_CONVERT)                     \
    X(GW_E_BAD_TOKENIZER, -14, "bad-tokenizer", GW_CONVERT)                             \
    X(GW_E_NO_MEMORY, -15, "no-memory", "")                                             \
    X(GW_E_CONTEXT, -16, "context-exceeded", "Shorten the input, or start a new chat.") \
    X(GW_E_BAD_TOKEN, -17, "bad-token", "")                                             \
    X(GW_E_BAD_OPTION, -18, "bad-option", "")                                           \
    X(GW_E_BAD_STATE, -19, "bad-state", "")                                             \
    X(GW_E_ABORTED, -20, "aborted", "")                                                 \
    X(GW_E_BAD_SPLIT, -21, "bad-split", "")                                             \
    X(GW_E_WORKER, -22, "worker-failed", "Load the model again.")                       \
    X(GW_E_ENGINE, -23, "engine-fault", "")                                             \
    X(GW_E_BAD_FORMAT, -24, "bad-format", "")                                           \
    X(GW_E_BAD_SAVED, -25, "bad-saved", "Evaluate the messages of the chat again.")     \
    X(GW_E_NOT_FINITE, -26, "not-finite", "The file may be damaged: download it again.")

enum {
#define GW_X(symbol, value, name, remedy) symbol = value,
    GW_ERRORS(GW_X)
#undef GW_X
};

/* Returns the name of an error code, such as "bad-magic"; "ok" for codes of 0 and above, "unknown" for others. */
const char *gw_error_name(int code);

/* Upper limits. Those of values in model files are far above the values of Gemma 3. */
enum {
    GW_MAX_NAME = 64,        /* maximum bytes of a tensor name, as in ggml */
    GW_MAX_KEY = 65535,      /* maximum bytes of a metadata key (GGUF specification) */
    GW_MAX_STRING = 1 << 20, /* maximum bytes of a metadata string */
    GW_MAX_METADATA = 65536,
    GW_MAX_TENSORS = 65536, /* maximum number of tensors in all parts of a split model */
    GW_MAX_PARTS = 1024,
    GW_MAX_DIMS = 4,
    GW_MAX_LAYERS = 512,
    GW_MAX_VOCAB = 1 << 22,
    GW_MAX_THREADS = 64,
    GW_MAX_CONTEXT = 1 << 20,
};

/* The error of a failed call. A model has one of these for all its calls. */
typedef struct {
    int code;
    char what[448];
} gw_error;

/* Sets e (if not NULL) to a code and a message, appending the code's remedy. Returns the code. */
int gw_fail(gw_error *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sets e to GW_E_NO_MEMORY, as gw_fail() does. what: the object that could not be allocated; bytes: the object's size,
 * 0 if unknown. */
int gw_no_memory(gw_error *e, const char *what, uint64_t bytes);

/* Arena: bump allocation from one block of gw_alloc; all allocations are freed together. If `base` is NULL, it only
 * adds up sizes, for memory plans. The sum has 64 bits, so a plan may be larger than the address space. */
typedef struct {
    uint8_t *base;
    uint64_t used, size;
} gw_arena;

enum { GW_ALIGN = 64 }; /* allocations are aligned to this number of bytes, a cache line */

/* Takes bytes from an arena. Returns NULL if the arena is full or only adds up sizes. */
void *gw_arena_take(gw_arena *a, uint64_t bytes);

/* Allocates a heap block, 64-byte aligned; returns NULL if out of memory. */
void *gw_alloc(size_t bytes);
void gw_free(void *p);

/* Growable byte buffer. Its capacity doubles and never shrinks. */
typedef struct {
    uint8_t *data;
    size_t used, size;
} gw_buffer;

/* Appends `bytes` uninitialised bytes. Returns their address, or NULL if out of memory. */
void *gw_buffer_add(gw_buffer *b, size_t bytes);
void gw_buffer_free(gw_buffer *b);

static inline size_t gw_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
/* Converts a size of the memory plan to an argument of gw_alloc(): SIZE_MAX, which gw_alloc() rejects, if the size is
 * beyond the address space. */
static inline size_t gw_size(uint64_t bytes) { return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX; }
/* Returns a * b, or UINT64_MAX on overflow: no allocation of that size succeeds. */
static inline uint64_t gw_times(uint64_t a, uint64_t b) { return b && a > UINT64_MAX / b ? UINT64_MAX : a * b; }
static inline size_t gw_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t gw_max(size_t a, size_t b) { return a > b ? a : b; }

#endif
