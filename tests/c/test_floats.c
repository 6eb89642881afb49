/* Float matrices packed as Q8_0: rounded as in ggml in every build, within the bound in api.h; and the load option: a
 * float file packed as Q8_0 gives the same bits as a Q8_0 file with the same weights. */
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "../vectors/quant-ggml.inc"
#include "api.h"
#include "model/load.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

enum { MOST = 1 << 16, INPUTS = COUNT(ggml_input) };

static const int float_types[] = { GW_F32, GW_F16, GW_BF16 };

static gw_round_kernel *const reference[] = { gw_ref_round_f32, gw_ref_round_f16, gw_ref_round_bf16 };
#ifdef GW_HAVE_SIMD
static gw_round_kernel *const fast[] = { gw_simd_round_f32, gw_simd_round_f16, gw_simd_round_bf16 };
#endif

static uint32_t draw(void) { /* xorshift (Marsaglia 2003) */
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

TEST(floats_f32_to_q8_is_ggmls) {
    uint8_t blocks[sizeof ggml_q8_0];
    GW_KERNEL(round_f32)((const uint8_t *)ggml_input, INPUTS, blocks);
    CHECK(!memcmp(blocks, ggml_q8_0, sizeof blocks));
}

static uint8_t row[4 * MOST + 1], want[4 * MOST + 1], got[4 * MOST + 1];

/* Compares the reference and the SIMD kernel on k floats at the unaligned address row + 1. The SIMD kernel also runs in
 * place. */
static void same_blocks(int i, size_t k) {
    size_t bytes = k / 32 * 34;
    reference[i](row + 1, k, want);
#ifdef GW_HAVE_SIMD
    fast[i](row + 1, k, got);
    for (size_t b = 0; b < bytes; b++)
        if (got[b] != want[b])
            gw_test_fail(__FILE__, __LINE__, "type %d, block %zu, byte %zu: expected %d, got %d", float_types[i],
                         b / 34, b % 34, want[b], got[b]);
    fast[i](row + 1, k, row + 1);
#else
    reference[i](row + 1, k, row + 1);
#endif
    CHECK(!memcmp(row + 1, want, bytes));
}

/* Rounds every f16 and bf16 value, in blocks with values of all magnitudes, infinities and NaNs. */
TEST(floats_every_half_is_rounded_alike) {
    for (int i = 1; i < 3; i++)
        for (uint32_t factor = 1; factor < 8; factor += 2) {
            for (uint32_t v = 0; v < MOST; v++) {
                uint16_t h = (uint16_t)(v * (factor == 1 ? 1 : 9973 * factor));
                memcpy(row + 1 + 2 * v, &h, 2);
            }
            same_blocks(i, MOST);
        }
}

TEST(floats_any_bits_are_rounded_alike) {
    for (int turn = 0; turn < 8; turn++) {
        for (uint32_t v = 0; v < MOST; v++) {
            uint32_t u = draw();
            if (turn % 2) u = (u & 0x807fffff) | (draw() % 12 + 116) << 23;
            memcpy(row + 1 + 4 * v, &u, 4);
        }
        same_blocks(0, MOST);
    }
}

/* Rounds ties: a float times the inverse of its scale is exactly n + 1/2, or one bit off. */
TEST(floats_halves_are_rounded_alike) {
    for (int power = -20; power <= 20; power++) {
        float unit = ldexpf(1.0f, power);
        for (uint32_t v = 0; v < 4096; v++) {
            float x = v % 32 ? ((float)(int)(draw() % 255) - 127 + 0.5f) * unit : 127 * unit;
            uint32_t u;
            memcpy(&u, &x, 4);
            if (v % 32 && u & 0x7fffffff) u += draw() % 3 - 1;
            memcpy(row + 1 + 4 * v, &u, 4);
        }
        same_blocks(0, 4096);
    }
}

/* Checks the error bound that api.h states for "quantizeFloats". */
TEST(floats_lose_no_more_than_the_bound) {
    double closest = 0;
    for (int turn = 0; turn < 200; turn++) {
        float size = ldexpf(1.0f, (int)(draw() % 30) - 22), x[1024], back[1024], most = 0;
        for (int j = 0; j < 1024; j++) x[j] = ((float)draw() / 2147483648.0f - 1.0f) * size;
        gw_ref_round_f32((const uint8_t *)x, 1024, want);
        gw_type_of(GW_Q8_0)->dequantise(want, back, 1024);
        for (int j = 0; j < 1024; j++) {
            if (j % 32 == 0) {
                most = 0;
                for (int c = j; c < j + 32; c++) most = fmaxf(most, fabsf(x[c]));
            }
            double bound = most / 254.0 + (most >= 127 * 0x1p-14 ? most / 2048.0 : 3.8e-6);
            CHECK_NEAR(back[j], x[j], bound * (1 + 1e-6));
            closest = fmax(closest, fabs((double)back[j] - x[j]) / bound);
        }
    }
    CHECK(closest > 0.8);
}

/* Products of f16 weights use one kernel for a single row of small activations, and another kernel for large
 * activations or several rows. */
TEST(floats_f16_products_are_alike_whatever_the_size) {
#ifdef GW_HAVE_SIMD
    enum { PANELS = 13, K = 37 };
    static const float largest[] = { 1e-3f, 32767.0f, 32768.0f, 3e6f };
    static float x[4 * K], a[PANELS * 16], b[PANELS * 16];
    for (int v = 0; v < PANELS * 4 * K; v++) {
        uint16_t h = (uint16_t)(draw() & (v % 8 ? 0xbfff : 0x83ff));
        memcpy(row + 2 * v, &h, 2);
    }
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 4; n += 3) {
            for (int j = 0; j < n * K; j++) x[j] = ((float)draw() / 2147483648.0f - 1.0f) * largest[i];
            x[5] = -largest[i];
            gw_acts acts = { .n = n, .k = K, .x = x, .ldx = K };
            gw_ref_matmul_f16(row, PANELS, &acts, a, PANELS * 4);
            gw_simd_matmul_f16(row, PANELS, &acts, b, PANELS * 4);
            CHECK(!memcmp(a, b, (size_t)n * PANELS * 4 * sizeof *a));
            CHECK(isfinite(a[0]));
        }
#endif
}

enum { VOCAB = 43 };

static tiny_config with_floats(void) {
    tiny_config c = small;
    c.n_embd = 64, c.n_ff = 96, c.head_dim = 16, c.n_vocab = VOCAB, c.embd = GW_F16;
    return c;
}

typedef struct {
    double weights;
    float logits[VOCAB];
} outcome;

static outcome run_parts(const tiny_file *files, uint32_t n, const char *floats, gw_pool *pool, size_t chunk) {
    outcome o;
    scoped_model *m = fresh(pool);
    if (floats) CHECK_INT(gw_load_option(m, "quantizeFloats", floats), 0);
    CHECK_INT(n > 1 ? tiny_feed_parts(m, files, n, chunk, 0) : tiny_feed(m, files->data, files->size, chunk, 0),
              GW_LOAD_READY);
    o.weights = gw_plan_bytes(m, 0, "weights");
    logits_of(m, o.logits, VOCAB);
    return o;
}

static outcome run(const tiny_config *c, const char *floats, gw_pool *pool) {
    scoped_file f = tiny_make(c);
    outcome o = run_parts(&f, 1, floats, pool, 0);
    return o;
}

static bool same(const outcome *a, const outcome *b) {
    return a->weights == b->weights && !memcmp(a->logits, b->logits, sizeof a->logits);
}

static int q8_instead(int type) { return type == GW_F32 || type == GW_F16 || type == GW_BF16 ? GW_Q8_0 : type; }

static tiny_file rounded_file(tiny_config c, const tiny_file *f) {
    c.embd = q8_instead(c.embd), c.attn = q8_instead(c.attn), c.ffn = q8_instead(c.ffn);
    tiny_file made = tiny_make(&c);
    float values[128];
    for (uint32_t i = 0; i < made.n_tensors; i++) {
        const tiny_tensor *to = &made.tensors[i], *from = tiny_find(f, to->name);
        const gw_type *type = gw_type_of(to->type);
        for (uint64_t r = 0; from->type != to->type && r < to->shape[1]; r++) {
            tiny_row(f, from, r, values);
            uint8_t *at = made.data + made.header + to->offset + r * gw_row_bytes(type, to->shape[0]);
            type->quantise(values, at, to->shape[0]);
        }
    }
    return made;
}

THREADED_TEST(floats_packed_are_the_bits_of_the_q8_file) {
    static const size_t chunks[] = { 1 << 30, 1, 7, 4096, 0 };
    for (int threads = 1; threads <= 3; threads += 2) {
        scoped_pool *pool = gw_pool_new(threads);
        for (int i = 0; i < 3; i++) {
            tiny_config c = with_floats();
            c.embd = float_types[i], c.attn = float_types[(i + 1) % 3], c.ffn = float_types[(i + 2) % 3];
            scoped_file f = tiny_make(&c), packed = rounded_file(c, &f);
            outcome expected = run_parts(&packed, 1, "keep", pool, 0);
            for (int j = 0; j < 5; j++) {
                if (TSAN_LEAVES_OUT(i + j)) continue;
                outcome o = run_parts(&f, 1, "q8_0", pool, chunks[j]);
                CHECK(same(&o, &expected));
            }
        }
    }
}

THREADED_TEST(floats_packed_from_parts_are_the_bits_of_the_whole) {
    scoped_pool *pool = gw_pool_new(2);
    tiny_config whole = with_floats();
    outcome expected = run(&whole, "q8_0", pool);
    scoped_parts files = { 0 };
    make_parts(whole, 5, files);
    for (size_t chunk = 0; chunk < 200; chunk += 67) {
        outcome o = run_parts(files, 5, "q8_0", pool, chunk);
        CHECK(same(&o, &expected));
    }
}

/* The value "auto" of "quantizeFloats" means "keep" for all types of layers, and is the default. */
TEST(floats_auto_keeps_them) {
    static const struct {
        int embd, attn, ffn;
    } cases[] = {
        { GW_F16, GW_Q4_0, GW_Q4_0 }, { GW_F32, GW_F16, GW_Q8_0 }, { GW_BF16, GW_Q8_0, GW_Q4_0 },
        { GW_F32, GW_F32, GW_F32 },   { GW_F16, GW_F16, GW_BF16 }, { GW_Q8_0, GW_Q4_0, GW_F16 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tiny_config c = with_floats();
        c.embd = cases[i].embd, c.attn = cases[i].attn, c.ffn = cases[i].ffn;
        outcome by_default = run(&c, NULL, one_thread()), automatic = run(&c, "auto", one_thread());
        outcome kept = run(&c, "keep", one_thread()), packed = run(&c, "q8_0", one_thread());
        CHECK(same(&by_default, &kept) && same(&automatic, &kept));
        CHECK(memcmp(packed.logits, kept.logits, sizeof kept.logits));
    }
}

TEST(floats_untied_head_is_packed_too) {
    tiny_config c = with_floats();
    c.head = GW_BF16;
    outcome kept = run(&c, "keep", one_thread()), packed = run(&c, "q8_0", one_thread());
    CHECK_NEAR(kept.weights - packed.weights, 2 * 44 * (64 * 2 - 2 * 34), 256);
}

/* Matrices whose rows are not whole blocks stay floats: in this model all except attn_output and ffn_down. */
TEST(floats_rows_of_broken_blocks_stay) {
    tiny_config c = with_floats();
    c.n_embd = 72, c.embd = c.attn = c.ffn = GW_F32;
    outcome kept = run(&c, "keep", one_thread()), packed = run(&c, "q8_0", one_thread());
    CHECK_NEAR(kept.weights - packed.weights, 2 * 72 * ((64 * 4 - 2 * 34) + (96 * 4 - 3 * 34)), 512);
    double error = 0, size = 0;
    for (int i = 0; i < VOCAB; i++) {
        error += pow(kept.logits[i] - packed.logits[i], 2);
        size += pow(kept.logits[i], 2);
    }
    CHECK(error > 0 && error < 1e-3 * size);
}

TEST(floats_option_counts_until_memory_is_reserved) {
    tiny_config c = with_floats();
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    feed_header(m, &f);
    double kept = gw_plan_bytes(m, 0, "weights"), heap = gw_plan_bytes(m, 0, "heap");
    CHECK_INT(gw_load_option(m, "quantizeFloats", "q8_0"), 0);
    double less = kept - gw_plan_bytes(m, 0, "weights");
    CHECK_NEAR(less, 44 * (64 * 2 - 2 * 34), 128);
    CHECK_NEAR(heap - gw_plan_bytes(m, 0, "heap"), less, 0);
    CHECK_INT(gw_load_reserve(m, 0), 0);
    CHECK_INT(gw_load_option(m, "quantizeFloats", "auto"), GW_E_BAD_STATE);
    CHECK_NEAR(gw_plan_bytes(m, 0, "weights"), kept - less, 0);
}

TEST(floats_option_says_what_it_takes) {
    scoped_model *m = fresh(one_thread());
    CHECK_INT(gw_load_option(m, "quantizeFloats", "f16"), GW_E_BAD_OPTION);
    CHECK_SAYS(gw_error_text(m, "what"), "`quantizeFloats` must be one of auto, keep, q8_0 (got f16).");
    CHECK_INT(gw_load_option(m, "floatMatrice", "keep"), GW_E_BAD_OPTION);
    CHECK_SAYS(gw_error_text(m, "what"), "floatMatrice");
}
