/* gguf: push parser for GGUF v2 and v3 (specification: ggml docs/gguf.md). The caller pushes bytes, and the parser
 * calls a listener for each item. It checks every number against a bound before use, allocates nothing, and keeps no
 * pointer into the bytes. The only key that it interprets is general.alignment; checking for duplicate keys, duplicate
 * names and overlapping tensors is left to the listener. Little-endian files only. Rejects arrays of arrays, like
 * llama.cpp. */
#ifndef GW_GGUF_H
#define GW_GGUF_H

#include "base/base.h"

/* Metadata value types, numbered as in the file. */
enum {
    GW_GGUF_U8,
    GW_GGUF_I8,
    GW_GGUF_U16,
    GW_GGUF_I16,
    GW_GGUF_U32,
    GW_GGUF_I32,
    GW_GGUF_F32,
    GW_GGUF_BOOL,
    GW_GGUF_STRING,
    GW_GGUF_ARRAY,
    GW_GGUF_U64,
    GW_GGUF_I64,
    GW_GGUF_F64,
};

enum { GW_GGUF_MAX_COUNT = 1 << 24 };  /* maximum number of elements of a metadata array */
enum { GW_GGUF_MAX_HEADER = 1 << 27 }; /* maximum bytes of a GGUF header; the largest real headers have 20 MB */
/* maximum element count, and maximum offset, of a tensor: integers up to 2^53 are exact as doubles */
#define GW_GGUF_MAX_ITEMS ((uint64_t)1 << 53)

/* One scalar or string. For integers both `i` (two's complement; u64 above 2^63-1 saturates) and `number` are set; for
 * floats `number`; for strings `text` and `len`: any bytes, not NUL-terminated, valid during the call only. */
typedef struct {
    int type;
    int64_t i;
    double number;
    const char *text;
    size_t len;
} gw_gguf_value;

typedef struct {
    char name[GW_MAX_NAME + 1];
    uint32_t n_dims;
    uint64_t shape[GW_MAX_DIMS]; /* tensor shape: shape[0] is the row length; missing dimensions are 1 */
    uint32_t type;               /* GGML type number of the tensor, not checked against the table of types */
    uint64_t offset;             /* offset of the tensor in the data section, a multiple of the alignment */
} gw_gguf_tensor;

/* The callbacks of a listener: `value` receives scalars and strings, `array` announces an array, and `element` receives
 * its elements in order. Each returns 0, or a negative code that stops the parser for good and is returned by
 * gw_gguf_push; the callback may fill the parser's error with gw_fail. A NULL callback is skipped. Keys and tensor
 * names are NUL-terminated, not empty, at most GW_MAX_KEY and GW_MAX_NAME bytes, without control characters. */
typedef struct {
    void *ctx;
    int (*header)(void *ctx, uint32_t version, uint64_t n_tensors, uint64_t n_metadata);
    int (*value)(void *ctx, const char *key, const gw_gguf_value *v);
    int (*array)(void *ctx, const char *key, int of, uint64_t count);
    int (*element)(void *ctx, const char *key, uint64_t i, const gw_gguf_value *v);
    int (*tensor)(void *ctx, const gw_gguf_tensor *t);
} gw_gguf_listener;

typedef struct {
    gw_gguf_listener on;
    gw_error *error;
    int state;
    uint32_t version, alignment; /* alignment of tensor data in bytes: general.alignment, default 32 */
    uint64_t n_tensors, n_metadata;
    uint64_t seen_tensors, seen_metadata;
    uint64_t offset;      /* number of bytes that the parser has consumed */
    uint64_t data_offset; /* offset of the data section in the file, once the header is complete */
    /* The value that is being read: its type (for an array, the type of its elements), the array's length and current
     * index, the key. */
    int of;
    uint64_t count, index;
    char key[GW_MAX_KEY + 1];
} gw_gguf;

void gw_gguf_init(gw_gguf *g, gw_gguf_listener on, gw_error *error);

/* Parses the complete items in bytes[0..n) and sets *used to the number of bytes consumed. The caller passes the
 * remaining bytes again, followed by more bytes. One item never needs more than GW_GGUF_ITEM bytes at once, so a window
 * of that size always makes progress. Returns 1 when the header is complete (then `used` ends at the last tensor info,
 * before the padding), 0 if it needs more bytes, or a negative code. */
enum { GW_GGUF_ITEM = GW_MAX_STRING + GW_MAX_KEY + 64 };
int gw_gguf_push(gw_gguf *g, const uint8_t *bytes, size_t n, size_t *used);

#endif
