/* Compares quantisation and dequantisation with ggml's results (tests/vectors/quant-ggml.md). */
#include "file/types.h"
#include "file/formats.h"
#include "../vectors/formats-ggml.inc"
#include "../vectors/quant-ggml.inc"
#include "scoped.h"
#include "test.h"

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : u; /* maps all NaNs to the same bits */
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void check_bytes(const uint8_t *got, const uint8_t *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            gw_test_fail(__FILE__, __LINE__, "byte %zu: expected %d, got %d", i, expected[i], got[i]);
}

static void check_floats(const float *got, const uint32_t *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bits_of(got[i]) != expected[i])
            gw_test_fail(__FILE__, __LINE__, "item %zu: expected %08x, got %08x", i, expected[i], bits_of(got[i]));
}

/* Quantises ggml_input and compares it with `blocks`; dequantises `blocks` and `raw`, and compares them with `back` and
 * `raw_back`. */
static void check_type(int id, const uint8_t *blocks, size_t n_blocks, const uint32_t *back, const uint8_t *raw,
                       size_t n_raw, const uint32_t *raw_back) {
    const gw_type *t = gw_type_of(id);
    size_t k = COUNT(ggml_input), k_raw = n_raw / t->bytes * t->items;
    CHECK_INT(gw_row_bytes(t, k), n_blocks);
    scoped_memory float *in = malloc(k * sizeof *in), *out = malloc(gw_max(k, k_raw) * sizeof *out);
    scoped_memory uint8_t *made = malloc(n_blocks);
    memcpy(in, ggml_input, sizeof ggml_input);
    t->quantise(in, made, k);
    check_bytes(made, blocks, n_blocks);
    t->dequantise(made, out, k);
    check_floats(out, back, k);
    t->dequantise(raw, out, k_raw);
    check_floats(out, raw_back, k_raw);
}

TEST(quant_table_is_ggmls) {
    for (size_t i = 0; i < COUNT(ggml_types); i++) {
        const gw_type *t = gw_type_of(ggml_types[i].id);
        CHECK(t != NULL);
        CHECK_INT(t->items, ggml_types[i].items);
        CHECK_INT(t->bytes, ggml_types[i].bytes);
        CHECK_INT(strlen(t->name), strlen(ggml_types[i].name));
        for (size_t c = 0; t->name[c]; c++) CHECK_INT(t->name[c] | 32, ggml_types[i].name[c] | 32);
    }
    uint32_t rows = 0;
    for (uint32_t id = 0; id < 1000; id++) rows += gw_type_of(id) != NULL;
    CHECK_INT(rows, COUNT(ggml_types));
    CHECK_TEXT(gw_type_name(GW_Q4_0), "Q4_0");
    CHECK_TEXT(gw_type_name(4), "unknown"); /* type 4 was Q4_2, gone from ggml since 2023 */
    CHECK(gw_type_of(UINT32_MAX) == NULL);
    CHECK(!gw_type_supported(gw_type_of(4)));
}

TEST(quant_supported_types) {
    int expected[] = { GW_F32, GW_F16, GW_BF16, GW_Q4_0, GW_Q8_0 };
    for (size_t i = 0; i < COUNT(expected); i++) {
        const gw_type *t = gw_type_of(expected[i]);
        CHECK(gw_type_supported(t) && t->quantise);
    }
#define GW_X(NAME, ...) CHECK(gw_type_supported(gw_type_of(GW_##NAME)));
    GW_FORMATS(GW_X)
#undef GW_X
    int supported = 0;
    for (uint32_t id = 0; id < 100; id++) supported += gw_type_supported(gw_type_of(id));
    CHECK_INT(supported, COUNT(expected) + COUNT(ggml_formats));
    CHECK_INT(gw_row_bytes(gw_type_of(GW_Q4_0), 1152), 36 * 18);
    CHECK_INT(gw_row_bytes(gw_type_of(GW_Q4_0), 1150), 0);
    CHECK_INT(gw_row_bytes(gw_type_of(12), 1152), 0); /* Q4_K blocks have 256 items; 1152 is not a multiple of 256 */
}

TEST(quant_q4_0_is_ggmls) {
    check_type(GW_Q4_0, ggml_q4_0, sizeof ggml_q4_0, ggml_q4_0_back, ggml_q4_0_raw, sizeof ggml_q4_0_raw,
               ggml_q4_0_raw_back);
}

TEST(quant_q8_0_is_ggmls) {
    check_type(GW_Q8_0, ggml_q8_0, sizeof ggml_q8_0, ggml_q8_0_back, ggml_q8_0_raw, sizeof ggml_q8_0_raw,
               ggml_q8_0_raw_back);
}

TEST(quant_halves_at_every_edge) {
    for (size_t i = 0; i < COUNT(ggml_tricky); i++) {
        float f = float_of(ggml_tricky[i]);
        CHECK_INT(gw_f32_to_f16(f), ggml_tricky_f16[i]);
        CHECK_INT(gw_f32_to_bf16(f), ggml_tricky_bf16[i]);
    }
}

static uint64_t hash_bytes(uint64_t h, uint32_t v, int n) { /* FNV-1a */
    for (int i = 0; i < n; i++) h = (h ^ (v >> 8 * i & 255)) * 0x100000001b3u;
    return h;
}

TEST(quant_every_f16) {
    uint64_t h = 0xcbf29ce484222325u;
    for (uint32_t v = 0; v < 65536; v++) {
        float f = gw_f16_to_f32((uint16_t)v);
        if ((v & 0x7fff) > 0x7c00) {
            CHECK(isnan(f) && isnan(gw_f16_to_f32(gw_f32_to_f16(f))));
            continue;
        }
        CHECK_INT(gw_f32_to_f16(f), v);
        h = hash_bytes(h, bits_of(f), 4);
    }
    CHECK(h == ggml_hashes[0]);
}

TEST(quant_a_hundred_thousand_floats_to_halves) {
    uint64_t state = 42, f16 = 0xcbf29ce484222325u, bf16 = f16;
    for (int n = 0; n < 100000;) {
        uint32_t u = (uint32_t)(splitmix(&state) >> 32);
        if ((u & 0x7fffffff) > 0x7f800000) continue;
        f16 = hash_bytes(f16, gw_f32_to_f16(float_of(u)), 2);
        bf16 = hash_bytes(bf16, gw_f32_to_bf16(float_of(u)), 2);
        n++;
    }
    CHECK(f16 == ggml_hashes[1]);
    CHECK(bf16 == ggml_hashes[2]);
}

/* Makes the same blocks as random_blocks() in tools/vectors/formats.py. */
static void random_blocks(const gw_type *t, const int f16_at[2], uint8_t *out) {
    uint64_t state = (uint64_t)t->id;
    for (uint32_t i = 0; i < GGML_FORMAT_RANDOM / t->items; i++, out += t->bytes) {
        for (uint32_t at = 0; at < t->bytes; at += 8) {
            uint64_t v = splitmix(&state);
            for (uint32_t b = at; b < gw_min(at + 8, t->bytes); b++) out[b] = (uint8_t)(v >> 8 * (b - at));
        }
        for (int j = 0; j < 2 && f16_at[j] >= 0; j++) {
            uint16_t scale = ggml_format_scales[(i + 5 * j) % COUNT(ggml_format_scales)];
            out[f16_at[j]] = (uint8_t)scale;
            out[f16_at[j] + 1] = (uint8_t)(scale >> 8);
        }
    }
}

TEST(formats_are_ggmls) {
    static uint8_t blocks[GGML_FORMAT_RANDOM * 2];
    static float out[GGML_FORMAT_RANDOM];
    for (size_t i = 0; i < COUNT(ggml_formats); i++) {
        const gw_type *t = gw_type_of(ggml_formats[i].id);
        t->dequantise(ggml_formats[i].blocks, out, 256);
        check_floats(out, ggml_formats[i].back, 256);
        random_blocks(t, ggml_formats[i].f16_at, blocks);
        t->dequantise(blocks, out, GGML_FORMAT_RANDOM);
        uint64_t h = 0xcbf29ce484222325u;
        for (size_t j = 0; j < GGML_FORMAT_RANDOM; j++) h = hash_bytes(h, bits_of(out[j]), 4);
        if (h != ggml_formats[i].random_hash) gw_test_fail(__FILE__, __LINE__, "%s: random blocks differ", t->name);
    }
}

TEST(quant_bf16_values) {
    CHECK(isnan(gw_bf16_to_f32(gw_f32_to_bf16(NAN))));
    CHECK(isnan(gw_bf16_to_f32(gw_f32_to_bf16(float_of(0x7f800001))))); /* a NaN with its payload in the low half */
    for (uint32_t v = 0; v < 65536; v++)
        if ((v & 0x7fff) <= 0x7f80) CHECK_INT(gw_f32_to_bf16(gw_bf16_to_f32((uint16_t)v)), v);
}

/* Rows in a file window can have odd addresses. */
TEST(quant_rows_need_no_alignment) {
    float in[64], out[64];
    for (int i = 0; i < 64; i++) in[i] = (float)(i - 20) * 0.25f;
    int ids[] = { GW_F32, GW_F16, GW_BF16, GW_Q4_0, GW_Q8_0 };
    for (size_t i = 0; i < COUNT(ids); i++) {
        const gw_type *t = gw_type_of(ids[i]);
        scoped_memory uint8_t *row = malloc(gw_row_bytes(t, 64) + 1);
        t->quantise(in, row + 1, 64);
        t->dequantise(row + 1, out, 64);
        double step = ids[i] == GW_Q4_0 ? 1.3 : ids[i] == GW_Q8_0 ? 0.05 : 0;
        for (int j = 0; j < 64; j++) CHECK_NEAR(out[j], in[j], step);
    }
}

/* NaN and infinity quantise to any value, but without undefined behaviour, which the sanitizers detect. */
TEST(quant_rubbish_is_no_trap) {
    float in[32];
    uint8_t row[34];
    float odd[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f };
    for (size_t i = 0; i < COUNT(odd); i++) {
        for (int j = 0; j < 32; j++) in[j] = j % 3 ? odd[i] : (float)j;
        gw_type_of(GW_Q4_0)->quantise(in, row, 32);
        gw_type_of(GW_Q8_0)->quantise(in, row, 32);
        for (int j = 0; j < 32; j++) CHECK((int8_t)row[2 + j] >= -127); /* -128 would break int8 dot products */
    }
}
