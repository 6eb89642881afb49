/* Compares the SIMD kernels with the scalar reference kernels (ref.c), bit for bit; the reference kernels with double
 * precision; packing with the dequantisers. */
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "test.h"

#include <stdint.h>

static uint64_t seed = 1;

static uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) ^ (uint32_t)(seed >> 11);
}

static float random_float(void) { /* returns roughly normally distributed numbers, with a few outliers and zeros */
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(random_bits() & 0xffff) / 65536.0f - 0.5f;
    uint32_t kind = random_bits() % 64;
    return kind == 0 ? 0.0f : kind == 1 ? sum * 40.0f : sum;
}

enum { MAX_ROWS = 40, MAX_K = 1280, MAX_N = 16 };

static float x[MAX_N * (MAX_K + 8)], got[MAX_N * MAX_ROWS + 1], want[MAX_N * MAX_ROWS];
static float matrix[MAX_ROWS * MAX_K];
static uint8_t file_rows[MAX_ROWS * MAX_K * 4], panels[MAX_ROWS * MAX_K * 4];
static gw_int8 q8[MAX_N * MAX_K];
/* int15 activations in the layout of the scalar reference kernels (q16) and of this build's kernels (own16). */
static int16_t q16[MAX_N * MAX_K], own16[MAX_N * MAX_K];
static float s8[MAX_N * MAX_K / 32], s16[MAX_N * MAX_K / 32];
static int32_t sum8[MAX_N * MAX_K / 32], sum16[MAX_N * MAX_K / 32];
static int32_t half8[MAX_N * MAX_K / 32], half16[MAX_N * MAX_K / 32];

static bool extreme;

static void largest_blocks(const gw_type *type, uint8_t *out, size_t k) {
    const gw_format *f = gw_format_of(type->id);
    memset(out, 0xff, gw_row_bytes(type, k));
    for (size_t i = 0; i < k; i += type->items, out += type->bytes)
        for (uint32_t h = 0; h < (f ? f->halves : 1) && !(h && f->values); h++) {
            uint16_t scale = gw_f32_to_f16(0.01f);
            memcpy(out + (f ? f->first_half : 0) + 2 * h, &scale, 2);
        }
}

static void random_blocks(const gw_format *f, uint8_t *out, size_t k) {
    for (size_t i = 0; i < k; i += f->items, out += f->bytes) {
        for (uint32_t b = 0; b < f->bytes; b++) out[b] = (uint8_t)random_bits();
        for (uint32_t h = 0; h < f->halves && !(h && f->values); h++) { /* IQ4_XS has one f16 scale only */
            uint16_t scale = random_bits() % 32 ? gw_f32_to_f16(random_float() * 0.05f) : 0;
            memcpy(out + f->first_half + 2 * h, &scale, 2);
        }
    }
}

static void random_matrix(const gw_type *type, int rows, size_t k) {
    size_t row_bytes = gw_row_bytes(type, k);
    for (int i = 0; i < rows; i++) {
        for (size_t j = 0; j < k; j++) matrix[i * k + j] = random_float();
        if (extreme) largest_blocks(type, file_rows + i * row_bytes, k);
        else if (type->quantise) type->quantise(matrix + i * k, file_rows + i * row_bytes, k);
        else random_blocks(gw_format_of(type->id), file_rows + i * row_bytes, k);
        type->dequantise(file_rows + i * row_bytes, matrix + i * k, k);
    }
    for (int r = 0; r < rows; r += 4)
        gw_pack_panel(type, file_rows + r * row_bytes, rows - r < 4 ? rows - r : 4, k, panels + r * row_bytes);
}

/* Returns 1 or -1 for column i of row t. In some rows all signs are equal, in others they change every two columns: the
 * largest sums of neighbouring products, which some kernels add in 16 bits. */
static float extreme_at(int t, size_t i) { return (t % 2) != (t / 2 % 2 && i / 2 % 2) ? -1.0f : 1.0f; }

static gw_acts random_acts(int n, size_t k, size_t ldx) {
    gw_acts a = { n, k, gw_acts_stride(n), x, ldx, q8, s8, sum8, half8, q16, s16, sum16, half16, 0 };
    gw_acts own = a;
    own.q16 = own16;
    for (int t = 0; t < n; t++) {
        for (size_t i = 0; i < k; i++) x[t * ldx + i] = extreme ? extreme_at(t, i) : random_float();
        if (k % 32) continue;
        if (t == n - 1) memset(x + t * ldx, 0, 32 * sizeof(float));
        gw_ref_quantise_int8(&a, t, 0, k);
        GW_KERNEL_INT(quantise_int15)(&own, t, 0, k);
        gw_ref_quantise_int15(&a, t, 0, k);
    }
    return a;
}

static const struct {
    int rows, n;
    size_t k;
} cases[] = {
    { 4, 1, 32 },     { 16, 1, 64 },  { 18, 1, 96 },  { 40, 1, 1280 }, { 4, 2, 32 },    { 10, 4, 64 },  { 16, 5, 1152 },
    { 36, 11, 1280 }, { 12, 7, 320 }, { 18, 1, 256 }, { 16, 6, 512 },  { 12, 9, 1280 }, { 20, 2, 256 }, { 12, 3, 512 },
    { 12, 10, 256 },  { 8, 67, 256 }, /* 67 rows of activations are more than one pass processes */
    { 40, 2, 64 },    { 36, 3, 320 }, { 36, 4, 512 }, { 40, 5, 256 },  { 36, 6, 96 },   { 40, 7, 256 }, { 36, 8, 512 },
};
enum { CASES = COUNT(cases) };

typedef enum { AS_FLOAT, AS_INT8, AS_INT15 } precision;

static double activation(const gw_acts *a, int t, size_t i, precision as) {
    size_t block = i / 32 * a->stride + t, c = i % 32;
    if (as == AS_FLOAT) return a->x[t * a->ldx + i];
    if (as == AS_INT15) return (double)a->q16[block * 32 + GW_INT16_ORDER(c)] * a->s16[block];
    return (double)a->q8[block * 32 + (sizeof(gw_int8) == 1 ? c : GW_INT16_ORDER(c))] * a->s8[block];
}

/* Returns the sum of the magnitudes of scale * quant * activation and of min * activation, for row r of the matrix and
 * row t of the activations. */
static double terms_of(const gw_format *f, const gw_acts *a, int t, int r, precision as) {
    uint8_t quant[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS];
    size_t groups = a->k / f->items;
    double size = 0;
    for (size_t i = 0; i < a->k; i++) {
        uint32_t c = i % f->items;
        if (!c) gw_format_unpack(f, panels + (r / 4 * groups + i / f->items) * 4 * f->bytes, r % 4, quant, scale, min);
        size += (fabs(scale[c / f->sub] * quant[c]) + fabs(min[c / f->sub])) * fabs(activation(a, t, i, as));
    }
    return size;
}

/* Compares the reference kernel with double precision, then `fast` (if the build has it) with the reference kernel. */
static void same_bits(int type_id, precision as, gw_matmul_kernel *reference, gw_matmul_kernel *fast) {
    const gw_type *type = gw_type_of(type_id);
    const gw_format *format = gw_format_of(type_id);
    for (int c = 0; c < CASES; c++) {
        if (cases[c].k % type->items) continue;
        int rows = cases[c].rows, n = cases[c].n, padded = (rows + 3) / 4 * 4;
        random_matrix(type, rows, cases[c].k);
        gw_acts a = random_acts(n, cases[c].k, cases[c].k + 8);
        reference(panels, padded / 4, &a, want, padded);
        for (int t = 0; t < n; t++)
            for (int r = 0; r < rows; r++) {
                double sum = 0, size = 0;
                for (size_t i = 0; i < a.k; i++) {
                    double product = (double)matrix[r * a.k + i] * activation(&a, t, i, as);
                    sum += product;
                    size += fabs(product);
                }
                /* Where scale * quant and min nearly cancel, the error of a product is relative to their magnitudes. */
                if (format && format->mins) size += terms_of(format, &a, t, r, as);
                CHECK_NEAR(want[t * padded + r], sum, (as == AS_FLOAT ? 4e-6 : 1e-6) * size);
            }
        if (!fast) continue;
        if (as == AS_INT15) a.q16 = own16;
        for (a.sequential = 0; a.sequential < 2; a.sequential++) {
            float *end = got + n * padded;
            *end = 1;
            fast(panels, padded / 4, &a, got, padded);
            CHECK(*end == 1);
            for (int i = 0; i < n * padded; i++)
                if (memcmp(&got[i], &want[i], 4))
                    gw_test_fail(__FILE__, __LINE__, "%s, case %d, output %d, streams %d: expected %.9g, got %.9g",
                                 type->name, c, i, a.sequential, want[i], got[i]);
        }
    }
}

#if defined(GW_HAVE_RELAXED)
#define SIMD(name) gw_simd_##name
#define INT(name) gw_relaxed_##name
#elif defined(GW_HAVE_SIMD)
#define SIMD(name) gw_simd_##name
#define INT(name) gw_simd_##name
#else
#define SIMD(name) NULL
#define INT(name) NULL
#endif

TEST(kernels_f32) { same_bits(GW_F32, AS_FLOAT, gw_ref_matmul_f32, SIMD(matmul_f32)); }
TEST(kernels_f16) { same_bits(GW_F16, AS_FLOAT, gw_ref_matmul_f16, SIMD(matmul_f16)); }
TEST(kernels_bf16) { same_bits(GW_BF16, AS_FLOAT, gw_ref_matmul_bf16, SIMD(matmul_bf16)); }
TEST(kernels_q8_wide) { same_bits(GW_Q8_0, AS_INT15, gw_ref_matmul_q8_int15, INT(matmul_q8_int15)); }

#define GW_X(NAME, name, ...)                                                                         \
    TEST(kernels_##name) { same_bits(GW_##NAME, AS_INT8, gw_ref_matmul_##name, INT(matmul_##name)); } \
    TEST(kernels_##name##_int15) {                                                                    \
        same_bits(GW_##NAME, AS_INT15, gw_ref_matmul_##name##_int15, INT(matmul_##name##_int15));     \
    }
GW_X(Q4_0, q4)
GW_FORMATS(GW_X)
#undef GW_X

#if defined(GW_HAVE_SIMD) && !defined(GW_HAVE_RELAXED)
TEST(kernels_without_swizzle) {
    gw_simd_no_swizzle = true;
    same_bits(GW_IQ4_NL, AS_INT8, gw_ref_matmul_iq4_nl, gw_simd_matmul_iq4_nl);
    same_bits(GW_IQ4_XS, AS_INT15, gw_ref_matmul_iq4_xs_int15, gw_simd_matmul_iq4_xs_int15);
    gw_simd_no_swizzle = false;
}
#endif

#ifdef GW_HAVE_RELAXED
/* Tests products of 8-bit values by a relaxed SIMD instruction that is only defined for 7-bit values. */
TEST(kernels_of_8_bits_in_7) {
    gw_relaxed_only_7_bits = true;
    same_bits(GW_Q8_0, AS_INT15, gw_ref_matmul_q8_int15, gw_relaxed_matmul_q8_int15);
    same_bits(GW_IQ4_NL, AS_INT8, gw_ref_matmul_iq4_nl, gw_relaxed_matmul_iq4_nl);
    same_bits(GW_IQ4_XS, AS_INT15, gw_ref_matmul_iq4_xs_int15, gw_relaxed_matmul_iq4_xs_int15);
    gw_relaxed_only_7_bits = false;
}

#define GW_X(NAME, name, ...)                                                      \
    same_bits(GW_##NAME, AS_INT8, gw_ref_matmul_##name, gw_relaxed_matmul_##name); \
    same_bits(GW_##NAME, AS_INT15, gw_ref_matmul_##name##_int15, gw_relaxed_matmul_##name##_int15);

/* Tests relaxed SIMD kernels with and without sums of pairs in 16 bits, on random and on the largest values. */
TEST(kernels_by_pairs_and_not) {
    for (int round = 0; round < 4; round++) {
        gw_relaxed_pairs = round % 2;
        extreme = round / 2;
        GW_X(Q4_0, q4)
        GW_FORMATS(GW_X)
    }
    extreme = false;
    gw_relaxed_pairs = GW_PAIRS_ASK;
}

#ifdef GW_RELAXED_SIMDE
/* Kernels probe how the JavaScript engine multiplies bytes above 127. This test emulates every kind of engine. */
TEST(kernels_on_every_kind_of_engine) {
    for (gw_relaxed_engine = GW_ENGINE_PAIRS; gw_relaxed_engine <= GW_ENGINE_SIGNED; gw_relaxed_engine++) {
        GW_X(Q4_0, q4)
        GW_FORMATS(GW_X)
        same_bits(GW_Q8_0, AS_INT15, gw_ref_matmul_q8_int15, gw_relaxed_matmul_q8_int15);
    }
    gw_relaxed_engine = GW_ENGINE_PAIRS;
}
#endif
#undef GW_X
#endif

TEST(kernels_chosen_by_the_build) {
#if defined(GW_HAVE_RELAXED)
    CHECK_TEXT(GW_BUILD, "relaxed");
#elif defined(__wasm_simd128__)
    CHECK_TEXT(GW_BUILD, "simd128");
#else
    CHECK_TEXT(GW_BUILD, "reference");
#endif
}

#ifdef GW_HAVE_SIMD
/* Returns item c of a block of int15 activations, whose layout depends on the build. */
static int wide_at(const gw_acts *a, size_t block, int c) {
#ifdef GW_HAVE_RELAXED
    const int8_t *planes = (const int8_t *)(a->q16 + block * 32);
    return 128 * planes[c] + planes[32 + c];
#else
    return a->q16[block * 32 + GW_INT16_ORDER(c)];
#endif
}

static void same_quantised(gw_quantise_kernel *int8, gw_quantise_kernel *int15) {
    enum { K = 256, N = 2, BLOCKS = K / 32 * (N | 1) };
    static gw_int8 n8[2][BLOCKS * 32];
    static int16_t w16[2][BLOCKS * 32];
    static float s[4][BLOCKS];
    static int32_t sums[8][BLOCKS];
    static float rows[N * K];
    gw_acts a = { N, K, gw_acts_stride(N), rows, K, n8[0], s[0], sums[0], sums[1], w16[0], s[1], sums[2], sums[3], 0 };
    gw_acts b = { N, K, gw_acts_stride(N), rows, K, n8[1], s[2], sums[4], sums[5], w16[1], s[3], sums[6], sums[7], 0 };
    for (int round = 0; round < 200; round++) {
        float size = ldexpf(1.0f, (int)(random_bits() % 80) - 60);
        for (int i = 0; i < N * K; i++) rows[i] = random_float() * size;
        if (round == 0) memset(rows, 0, sizeof rows);
        for (int t = 0; t < N; t++) {
            gw_ref_quantise_int8(&a, t, 0, K);
            gw_ref_quantise_int15(&a, t, 0, K);
            for (size_t from = 0, k = 32; from < K; from += k, k = K - from < 96 ? K - from : 96) {
                int8(&b, t, from, k);
                int15(&b, t, from, k);
            }
        }
        CHECK(!memcmp(n8[0], n8[1], sizeof n8[0]));
        CHECK(!memcmp(s[0], s[2], sizeof s[0]) && !memcmp(s[1], s[3], sizeof s[1]));
        CHECK(!memcmp(sums[0], sums[4], 4 * sizeof sums[0]));
        for (size_t i = 0; i < BLOCKS * 32; i++)
            if (i / 32 % a.stride < N)
                CHECK_INT(wide_at(&b, i / 32, i % 32), a.q16[i / 32 * 32 + GW_INT16_ORDER(i % 32)]);
    }
}

TEST(quantised_activations) { same_quantised(INT(quantise_int8), INT(quantise_int15)); }
#endif

TEST(quantised_activations_are_close) {
    gw_acts a = random_acts(3, 320, 328);
    for (int t = 0; t < a.n; t++)
        for (size_t i = 0; i < a.k; i++) {
            size_t block = i / 32 * a.stride + t;
            CHECK_NEAR(activation(&a, t, i, AS_INT8), a.x[t * a.ldx + i], 0.50001 * a.s8[block]);
            CHECK_NEAR(activation(&a, t, i, AS_INT15), a.x[t * a.ldx + i], 0.51 * a.s16[block]);
        }
}

/* Checks that a NaN activation reaches every product of its row, and no other. */
static void nan_goes_through(gw_quantise_kernel *int8, gw_quantise_kernel *int15, gw_matmul_kernel *product,
                             gw_matmul_kernel *wide_product) {
    enum { ROWS = 8, K = 128, N = 6, BAD = 2 };
    random_matrix(gw_type_of(GW_Q4_0), ROWS, K);
    for (int at = 0; at < 32; at++) {
        gw_acts a = random_acts(N, K, K);
        x[BAD * K + 64 + at] = at % 2 ? NAN : -NAN;
        for (int t = 0; t < N; t++) int8(&a, t, 0, K), int15(&a, t, 0, K);
        for (int round = 0; round < 2; round++) {
            (round ? wide_product : product)(panels, ROWS / 4, &a, got, ROWS);
            for (int i = 0; i < N * ROWS; i++) CHECK(isnan(got[i]) == (i / ROWS == BAD));
        }
    }
}

TEST(nan_goes_through_products) {
    nan_goes_through(gw_ref_quantise_int8, gw_ref_quantise_int15, gw_ref_matmul_q4, gw_ref_matmul_q4_int15);
#ifdef GW_HAVE_SIMD
    nan_goes_through(INT(quantise_int8), INT(quantise_int15), INT(matmul_q4), INT(matmul_q4_int15));
#endif
}

TEST(kernels_exp) {
    for (float v = -87.0f; v < 88.0f; v += 0.0137f) CHECK_NEAR(gw_exp(v) / exp((double)v), 1.0, 3e-7);
    CHECK(gw_exp(-1000.0f) < 1e-37f);
    CHECK(gw_exp(0.0f) == 1.0f);
}

TEST(pack_gives_every_row_back) {
#define GW_X(NAME, ...) GW_##NAME,
    static const int types[] = { GW_F32, GW_F16, GW_BF16, GW_ALL_FORMATS(GW_X) };
#undef GW_X
    for (size_t i = 0; i < COUNT(types); i++) {
        const gw_type *type = gw_type_of(types[i]);
        enum { ROWS = 7, K = 512 };
        float row[K];
        random_matrix(type, ROWS, K);
        CHECK_INT(gw_packed_bytes(type, ROWS, K), 8 * gw_row_bytes(type, K));
        for (int r = 0; r < ROWS; r++) {
            gw_unpack_row(type, panels, r, K, row);
            CHECK(!memcmp(row, matrix + r * K, sizeof row));
        }
        gw_unpack_row(type, panels, ROWS, K, row); /* row ROWS is padding of the last panel */
        for (int j = 0; j < K; j++) CHECK(row[j] == 0.0f);
    }
}
