/* types: see types.h. Block layouts as in ggml (ggml-common.h): Q4_0 is an f16 scale and 16 bytes, byte j holding item
 * j in its low and item j + 16 in its high half, biased by 8; Q8_0 is an f16 scale and 32 int8. The other types are in
 * formats.c. */
#include "file/types.h"

#include <math.h>
#include <string.h>

/* --- rows ------------------------------------------------------------------------------------
 * Blocks are read and written byte by byte: rows in a file window have no alignment. */

static void store16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void dequantise_f32(const void *blocks, float *out, size_t k) { memcpy(out, blocks, k * 4); }
static void quantise_f32(const float *in, void *blocks, size_t k) { memcpy(blocks, in, k * 4); }

static void dequantise_f16(const void *blocks, float *out, size_t k) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < k; i++) out[i] = gw_f16_to_f32(gw_load16(p + 2 * i));
}

static void quantise_f16(const float *in, void *blocks, size_t k) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < k; i++) store16(p + 2 * i, gw_f32_to_f16(in[i]));
}

static void dequantise_bf16(const void *blocks, float *out, size_t k) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < k; i++) out[i] = gw_bf16_to_f32(gw_load16(p + 2 * i));
}

static void quantise_bf16(const float *in, void *blocks, size_t k) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < k; i++) store16(p + 2 * i, gw_f32_to_bf16(in[i]));
}

static void dequantise_q4_0(const void *blocks, float *out, size_t k) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < k; i += 32, p += 18) {
        float d = gw_f16_to_f32(gw_load16(p));
        for (int j = 0; j < 16; j++) {
            out[i + j] = (float)((p[2 + j] & 15) - 8) * d;
            out[i + j + 16] = (float)((p[2 + j] >> 4) - 8) * d;
        }
    }
}

/* Returns 1/d, or 0 if 1/d is not finite, as for a block of zeros or tiny values. */
static float inverse(float d) {
    float id = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(id) ? id : 0.0f;
}

static uint8_t nibble(float x) { /* rounds x to a nibble; x is in [-8, 8] for a finite block, otherwise arbitrary */
    int q = x > -8.5f ? (x < 7.5f ? (int)(x + 8.5f) : 15) : 0;
    return (uint8_t)q;
}

/* Returns the item of greatest magnitude, the first on ties; +0 if all are zeros. Uses two variables instead of one:
 * clang 19 at -O3 for wasm miscompiles `if (fabsf(x) > fabsf(peak)) peak = x` (of 1 and -1, it returns the later
 * instead of the first). */
static float peak_of(const float *in) {
    float peak = 0, most = 0;
    for (int j = 0; j < 32; j++) {
        float size = fabsf(in[j]);
        if (size > most) {
            most = size;
            peak = in[j];
        }
    }
    return peak;
}

static void quantise_q4_0(const float *in, void *blocks, size_t k) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < k; i += 32, p += 18) {
        float d = peak_of(in + i) / -8, id = inverse(d);
        store16(p, gw_f32_to_f16(d));
        for (int j = 0; j < 16; j++) p[2 + j] = (uint8_t)(nibble(in[i + j] * id) | nibble(in[i + j + 16] * id) << 4);
    }
}

static void dequantise_q8_0(const void *blocks, float *out, size_t k) {
    const uint8_t *p = blocks;
    for (size_t i = 0; i < k; i += 32, p += 34) {
        float d = gw_f16_to_f32(gw_load16(p));
        for (int j = 0; j < 32; j++) out[i + j] = (float)(int8_t)p[2 + j] * d;
    }
}

static void quantise_q8_0(const float *in, void *blocks, size_t k) {
    uint8_t *p = blocks;
    for (size_t i = 0; i < k; i += 32, p += 34) {
        float peak = 0;
        for (int j = 0; j < 32; j++)
            if (fabsf(in[i + j]) > peak) peak = fabsf(in[i + j]);
        float d = peak / 127, id = inverse(d);
        store16(p, gw_f32_to_f16(d));
        for (int j = 0; j < 32; j++) {
            float x = roundf(in[i + j] * id); /* rounds ties away from zero, as ggml does */
            p[2 + j] = (uint8_t)(int8_t)(x > -127 ? (x < 127 ? x : 127) : -127);
        }
    }
}

#define GW_X(NAME, name, ...)                                                 \
    static void dequantise_##name(const void *blocks, float *out, size_t k) { \
        gw_format_dequantise(gw_format_of(GW_##NAME), blocks, out, k);        \
    }
GW_FORMATS(GW_X)
#undef GW_X

/* --- table of types --- */

#define KNOWN(id, name, items, bytes) { id, name, items, bytes, NULL, NULL }
#define WHOLE(id, name, items, bytes, f) { id, name, items, bytes, dequantise_##f, quantise_##f }
#define FORMAT(NAME, name, items, bits, sub, offset, mins, table, first_half, halves, first_word, words) \
    { GW_##NAME, #NAME, items, items * bits / 8 + 2 * halves + 4 * words, dequantise_##name, NULL },

static const gw_type types[] = {
    WHOLE(GW_F32, "F32", 1, 4, f32),
    WHOLE(GW_F16, "F16", 1, 2, f16),
    WHOLE(GW_Q4_0, "Q4_0", 32, 18, q4_0),
    WHOLE(GW_Q8_0, "Q8_0", 32, 34, q8_0),
    WHOLE(GW_BF16, "BF16", 1, 2, bf16),
    GW_FORMATS(FORMAT) /* the expansion of GW_FORMATS ends with a comma */
    KNOWN(9, "Q8_1", 32, 36),
    KNOWN(15, "Q8_K", 256, 292),
    KNOWN(16, "IQ2_XXS", 256, 66),
    KNOWN(17, "IQ2_XS", 256, 74),
    KNOWN(18, "IQ3_XXS", 256, 98),
    KNOWN(19, "IQ1_S", 256, 50),
    KNOWN(21, "IQ3_S", 256, 110),
    KNOWN(22, "IQ2_S", 256, 82),
    KNOWN(24, "I8", 1, 1),
    KNOWN(25, "I16", 1, 2),
    KNOWN(GW_I32, "I32", 1, 4),
    KNOWN(27, "I64", 1, 8),
    KNOWN(28, "F64", 1, 8),
    KNOWN(29, "IQ1_M", 256, 56),
    KNOWN(34, "TQ1_0", 256, 54),
    KNOWN(35, "TQ2_0", 256, 66),
    KNOWN(39, "MXFP4", 32, 17),
    KNOWN(40, "NVFP4", 64, 36),
    KNOWN(41, "Q1_0", 128, 18),
    KNOWN(42, "Q2_0", 64, 18),
};

#define COMMA_NAME(NAME, ...) ", " #NAME
const char gw_type_list[] = "F32, F16, BF16, Q4_0, Q8_0" GW_FORMATS(COMMA_NAME);

const gw_type *gw_type_of(uint32_t id) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].id == id) return &types[i];
    return NULL;
}

const char *gw_type_name(uint32_t id) {
    const gw_type *t = gw_type_of(id);
    return t ? t->name : "unknown";
}
