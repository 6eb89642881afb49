/* The wasm side of tools/bench/kernels.js: computes one thread's share of a matrix product. All weights have one type,
   and are larger than the processor's caches. Calls the build's kernels on parts of the matrix, as src/model/ops.c
   does. */
#include "kernels/kernels.h"
#include "kernels/pack.h"

#include <stdlib.h>
#include <string.h>

/* SAMPLE: number of panels with random weights, of which the other panels are copies. PIECE: number of columns times
   number of panels that one call of a kernel multiplies. */
enum { SAMPLE = 16, PIECE = 144 * 1152 };

#define FORMAT(NAME, name, ...) { GW_##NAME, GW_KERNEL_INT(matmul_##name), GW_KERNEL_INT(matmul_##name##_int15) },
static const struct { int type; gw_matmul_kernel *int8, *int15; } products[] = {
    { GW_Q4_0, GW_KERNEL_INT(matmul_q4), GW_KERNEL_INT(matmul_q4_int15) },
    { GW_Q8_0, GW_KERNEL_INT(matmul_q8_int15), GW_KERNEL_INT(matmul_q8_int15) },
    GW_FORMATS(FORMAT)
    { GW_F32, GW_KERNEL(matmul_f32), GW_KERNEL(matmul_f32) },
    { GW_F16, GW_KERNEL(matmul_f16), GW_KERNEL(matmul_f16) },
    { GW_BF16, GW_KERNEL(matmul_bf16), GW_KERNEL(matmul_bf16) },
};
enum { PRODUCTS = sizeof products / sizeof *products };

static uint8_t *weights;
static size_t n_panels, panel_bytes;
static float *y;
static gw_acts acts;
static int product;

static uint32_t random_bits(void) {
    static uint32_t x = 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    return x ^= x << 5;
}

static void random_rows(const gw_type *type, uint8_t *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)random_bits();
    for (size_t i = 0; type->items == 1 && i < bytes; i += type->bytes)
        type->quantise(&(float){ (float)(int32_t)random_bits() / 2147483648.0f }, out + i, 1);
    if (type->items == 1) return;
    const gw_format *f = gw_format_of(type->id);
    for (size_t at = 0; at < bytes; at += type->bytes)
        for (uint32_t h = 0; h < (f ? f->halves : 1); h++) {
            out[at + (f ? f->first_half : 0) + 2 * h] = 0;
            out[at + (f ? f->first_half : 0) + 2 * h + 1] = 0x20;   /* 2^-7 */
        }
}

static void set_acts(int n, size_t k) {
    size_t stride = gw_acts_stride(n), blocks = k / GW_BLOCK * stride;
    float *x = malloc(n * k * sizeof *x);
    for (size_t i = 0; i < n * k; i++) x[i] = (float)(int32_t)random_bits() / 2147483648.0f;
    acts = (gw_acts){ .n = n, .k = k, .stride = stride, .x = x, .ldx = k,
        .q8 = malloc(blocks * GW_BLOCK * sizeof(gw_int8)), .s8 = malloc(blocks * 4), .sum8 = malloc(blocks * 4),
        .half8 = malloc(blocks * 4), .q16 = malloc(blocks * GW_BLOCK * 2), .s16 = malloc(blocks * 4),
        .sum16 = malloc(blocks * 4), .half16 = malloc(blocks * 4) };
    for (int t = 0; t < n; t++) {
        GW_KERNEL_INT(quantise_int8)(&acts, t, 0, k);
        GW_KERNEL_INT(quantise_int15)(&acts, t, 0, k);
    }
}

/* Allocates at most `bytes` of packed random weights of type products[i] in rows of k columns, and activations of n
   tokens. Returns the bytes of the weights. */
double bench_set(int i, size_t bytes, size_t k, int n) {
    const gw_type *type = gw_type_of(products[product = i].type);
    panel_bytes = GW_PANEL * gw_row_bytes(type, k);
    n_panels = bytes / panel_bytes / SAMPLE * SAMPLE;
    free(weights), free(y), free((void *)acts.x), free(acts.q8), free(acts.s8), free(acts.sum8), free(acts.half8);
    free(acts.q16), free(acts.s16), free(acts.sum16), free(acts.half16);
    weights = malloc(n_panels * panel_bytes);
    uint8_t *rows = malloc(panel_bytes);
    for (int p = 0; p < SAMPLE; p++) {
        random_rows(type, rows, panel_bytes);
        gw_pack_panel(type, rows, GW_PANEL, k, weights + p * panel_bytes);
    }
    free(rows);
    for (size_t p = SAMPLE; p < n_panels; p += SAMPLE) memcpy(weights + p * panel_bytes, weights, SAMPLE * panel_bytes);
    y = malloc((size_t)n * n_panels * GW_PANEL * sizeof *y);
    set_acts(n, k);
    return (double)n_panels * (double)panel_bytes;
}

/* Sets whether decode reads panels sequentially (see gw_acts). */
void bench_streams(int n) { acts.sequential = n; }

void bench_run(int int15) {
    size_t step = PIECE / acts.k / 4 * 4;
    for (size_t p = 0; p < n_panels; p += step) {
        int panels = (int)gw_min(step, n_panels - p);
        (int15 ? products[product].int15 : products[product].int8)(weights + p * panel_bytes, panels, &acts,
                                                                   y + p * GW_PANEL, n_panels * GW_PANEL);
    }
}

const char *bench_name(int i) { return i < PRODUCTS ? gw_type_name((uint32_t)products[i].type) : NULL; }

/* Returns the number of multiplications per byte of weights. */
double bench_macs(void) { return (double)acts.n * (double)acts.k * GW_PANEL / (double)panel_bytes; }

int bench_read(void) {
    uint32_t sum[8] = { 0 };
    size_t part = n_panels * panel_bytes / 8 / 16 * 16;
    for (size_t i = 0; i < part; i += 16)
        for (int s = 0; s < 8; s++) {
            uint32_t v[4];
            memcpy(v, weights + s * part + i, 16);
            sum[s] += v[0] ^ v[1] ^ v[2] ^ v[3];
        }
    return (int)(sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7]);
}
