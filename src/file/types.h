/* types: the table of GGML types with scalar functions that quantise and dequantise rows, the reference for the tests
 * of kernels and packed layouts. Source of the formats: ggml's block structs as documented in the GGUF specification;
 * bit-exact with ggml's dequantize_row_*. */
#ifndef GW_TYPES_H
#define GW_TYPES_H

#include "base/half.h"
#include "file/formats.h"

typedef struct {
    int id;                /* number of the GGML type */
    const char *name;      /* name of the type, such as "Q4_0" */
    uint32_t items, bytes; /* number of weights in a block, and bytes of a block */
    /* Converts one row of k items (a multiple of `items`) to floats; NULL: the type is known but not supported. */
    void (*dequantise)(const void *blocks, float *out, size_t k);
    /* Quantises one row of k floats, for test models and tools; rounds to nearest, as ggml's reference quantiser does.
     * NULL for the types listed in formats.h. */
    void (*quantise)(const float *in, void *blocks, size_t k);
} gw_type;

/* Returns the table's row for a GGML type number, or NULL for an unknown number. The table has a row for every type
 * that occurs in GGUF files, so that errors can name the type and sizes can be checked. */
const gw_type *gw_type_of(uint32_t id);
/* Returns the name of a GGML type, such as "Q4_0", or "unknown" for a number that is not in the table. */
const char *gw_type_name(uint32_t id);

extern const char gw_type_list[]; /* the names of all supported types, "F32, F16, …", for error texts */

static inline bool gw_type_supported(const gw_type *t) { return t && t->dequantise; }
/* Returns the bytes of one row of k items, or 0 if k is not a whole number of blocks. */
static inline size_t gw_row_bytes(const gw_type *t, size_t k) { return k % t->items ? 0 : k / t->items * t->bytes; }

#endif
