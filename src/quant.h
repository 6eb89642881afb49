/* quant: the table of GGML types and their scalar (de)quantisers: the oracle that kernels and
 * packed layouts are tested against. Source of the formats: ggml's block structs as documented in
 * the GGUF specification; bit-exact with ggml's dequantize_row_*. */
#ifndef GW_QUANT_H
#define GW_QUANT_H

#include "base.h"

/* GGML type numbers. `blocks` are along a row: a row of k items has k / items blocks. */
enum {
    GW_F32 = 0, GW_F16 = 1, GW_Q4_0 = 2, GW_Q4_1 = 3, GW_Q5_0 = 6, GW_Q5_1 = 7, GW_Q8_0 = 8,
    GW_Q2_K = 10, GW_Q3_K = 11, GW_Q4_K = 12, GW_Q5_K = 13, GW_Q6_K = 14, GW_IQ4_NL = 20, GW_IQ4_XS = 23,
    GW_BF16 = 30,
};

typedef struct {
    int id;                 /* GGML's number */
    const char *name;       /* "Q4_0" */
    uint32_t items, bytes;  /* per block */
    /* One row of k items (a multiple of `items`) to floats; NULL: type known but not supported. */
    void (*dequantise)(const void *blocks, float *out, size_t k);
    /* The inverse, for test models and tools; round-to-nearest as ggml's reference quantiser. NULL for
     * the types of quant_formats.h. */
    void (*quantise)(const float *in, void *blocks, size_t k);
} gw_type;

/* Every type number that GGUF files in the wild use has a row (so that errors can name it and
 * sizes can be checked); NULL for a number that no known type has. */
const gw_type *gw_type_of(uint32_t id);
const char *gw_type_name(uint32_t id);      /* "Q4_0", "unknown" without a row */

extern const char gw_type_list[];           /* "F32, F16, …": the supported ones, for error texts */

static inline bool gw_type_supported(const gw_type *t) { return t && t->dequantise; }
/* Bytes of one row of k items; 0 if k is not a whole number of blocks. */
static inline size_t gw_row_bytes(const gw_type *t, size_t k) { return k % t->items ? 0 : k / t->items * t->bytes; }

float gw_f16_to_f32(uint16_t h);            /* exact, denormals, infinities and NaN too */
uint16_t gw_f32_to_f16(float f);            /* round to nearest even */
float gw_bf16_to_f32(uint16_t h);
uint16_t gw_f32_to_bf16(float f);           /* round to nearest even, NaN stays NaN */

#endif
