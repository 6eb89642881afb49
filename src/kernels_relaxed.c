/* kernels_relaxed: Q4_0 with the relaxed dot product of bytes. Its second operand is only defined
 * for 7 bits: nibbles (0..15) are well inside, so every engine gives the same exact sums. */
#include "kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels_relaxed.h"

enum { STREAMS = 8, TILE = 4, PAIR = 2, CHUNK = 36 };   /* CHUNK: blocks unpacked at once */

INLINE v128_t scales_of(const uint8_t *block) {   /* as in kernels_simd128.c: exact f16 -> f32 */
    v128_t u = wasm_u32x4_load16x4(block);
    v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x7fff)), 13);
    v128_t sign = wasm_i32x4_shl(wasm_v128_and(u, wasm_i32x4_splat(0x8000)), 16);
    return wasm_v128_or(wasm_f32x4_mul(magnitude, wasm_i32x4_splat(0x77800000)), sign);
}

INLINE v128_t add_scaled(v128_t total, v128_t sum, v128_t weight_scales, const float *scale) {
    v128_t scales = wasm_f32x4_mul(weight_scales, wasm_v128_load32_splat(scale));
    return wasm_f32x4_add(total, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), scales));
}

/* -8 * sum of the activations: where the accumulators begin, so that nibbles count from -8. */
INLINE v128_t offset_of(const int32_t *sum) {
    return wasm_i32x4_neg(wasm_i32x4_shl(wasm_v128_load32_splat(sum), 3));
}

/* --- one row of activations --- */

/* total + one block of four rows, with 32 activations */
INLINE v128_t add_block(v128_t total, const uint8_t *block, const int8_t *q, const float *scale, const int32_t *sum,
                        const gw_masks *m) {
    v128_t first = wasm_v128_load(q), second = wasm_v128_load(q + 16), low = offset_of(sum), high = wasm_i32x4_splat(0);
#define GROUP(g)                                                                              \
    v128_t v##g = wasm_v128_load(block + 8 + 16 * g);                                         \
    low = DOT(LANE(first, g), wasm_v128_and(v##g, m->low), low);                              \
    high = DOT(LANE(second, g), wasm_v128_and(wasm_u16x8_shr(v##g, 4), m->low), high);
    GROUP(0) GROUP(1) GROUP(2) GROUP(3)
#undef GROUP
    v128_t scales = wasm_f32x4_mul(scales_from(block, m), wasm_v128_load32_splat(scale));
    return wasm_f32x4_add(total, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_add(low, high)), scales));
}

/* y[s * step] of panels w + s * stride, s < n */
INLINE void streams(const uint8_t *w, size_t stride, int n, const gw_acts *a, float *y, size_t step, gw_masks m) {
    v128_t total[STREAMS];
    size_t blocks = a->k / GW_BLOCK;
    const int8_t *q = a->q8;
    const float *scale = a->s8;
    const int32_t *sum = a->sum8;
#pragma unroll
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
#pragma nounroll
    for (size_t b = 0; b < blocks; b++, w += GW_Q4_BYTES, q += GW_BLOCK)
#pragma unroll
        for (int s = 0; s < n; s++) total[s] = add_block(total[s], w + s * stride, q, scale + b, sum + b, &m);
#pragma unroll
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

static void decode(const uint8_t *w, int panels, const gw_acts *a, float *y) {
    size_t panel = a->k / GW_BLOCK * GW_Q4_BYTES;
    int each = a->streams == 1 ? 0 : panels / STREAMS;
    gw_masks m = masks();
    for (int i = 0; i < each; i++)
        streams(w + i * panel, each * panel, STREAMS, a, y + i * GW_PANEL, (size_t)each * GW_PANEL, m);
    for (int p = each * STREAMS; p < panels; p++) streams(w + p * panel, 0, 1, a, y + p * GW_PANEL, 0, m);
}

/* --- several rows --- */

typedef struct {
    v128_t column[CHUNK][8][PAIR], scales[CHUNK][PAIR];   /* column g: columns 4 g .. 4 g + 3 of four rows */
} unpacked;

INLINE void unpack(const uint8_t *w, size_t panel, int panels, int n_blocks, unpacked *out) {
    v128_t mask = wasm_i8x16_splat(15);
    for (int b = 0; b < n_blocks; b++)
        for (int p = 0; p < panels; p++) {
            const uint8_t *block = w + p * panel + b * GW_Q4_BYTES;
            out->scales[b][p] = scales_of(block);
            for (int g = 0; g < 4; g++) {
                v128_t v = wasm_v128_load(block + 8 + 16 * g);
                out->column[b][g][p] = wasm_v128_and(v, mask);
                out->column[b][g + 4][p] = wasm_v128_and(wasm_u16x8_shr(v, 4), mask);
            }
        }
}

INLINE void tile(const unpacked *w, int panels, int n_blocks, const int8_t *q, size_t ldq, const float *scale,
                 const int32_t *sum, size_t lds, float *y, size_t ldy, int rows, int first) {
    if (first)
        for (int t = 0; t < rows; t++)
            for (int p = 0; p < panels; p++) wasm_v128_store(y + t * ldy + p * GW_PANEL, wasm_f32x4_splat(0));
#pragma nounroll
    for (int b = 0; b < n_blocks; b++) {
        v128_t dot[TILE][PAIR];
        for (int t = 0; t < rows; t++)
            for (int p = 0; p < panels; p++) dot[t][p] = offset_of(sum + t * lds + b);
#pragma nounroll
        for (int g = 0; g < 8; g++)
            for (int t = 0; t < rows; t++) {
                v128_t x = wasm_v128_load32_splat(q + t * ldq + b * GW_BLOCK + 4 * g);
                for (int p = 0; p < panels; p++) dot[t][p] = DOT(x, w->column[b][g][p], dot[t][p]);
            }
        for (int t = 0; t < rows; t++)   /* totals stay in memory: the registers belong to the sums */
            for (int p = 0; p < panels; p++) {
                float *at = y + t * ldy + p * GW_PANEL;
                wasm_v128_store(at, add_scaled(wasm_v128_load(at), dot[t][p], w->scales[b][p], scale + t * lds + b));
            }
    }
}

INLINE void rows_of(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK, panel = blocks * GW_Q4_BYTES;
    unpacked u;
    for (size_t b = 0; b < blocks; b += CHUNK) {
        int n_blocks = (int)gw_min(CHUNK, blocks - b);
        unpack(w + b * GW_Q4_BYTES, panel, panels, n_blocks, &u);
        const int8_t *q = a->q8 + b * GW_BLOCK;
        int t = 0;
        for (; t + TILE <= a->n; t += TILE)
            tile(&u, panels, n_blocks, q + t * a->k, a->k, a->s8 + t * blocks + b, a->sum8 + t * blocks + b, blocks,
                 y + t * ldy, ldy, TILE, b == 0);
        for (; t < a->n; t++)
            tile(&u, panels, n_blocks, q + t * a->k, a->k, a->s8 + t * blocks + b, a->sum8 + t * blocks + b, blocks,
                 y + t * ldy, ldy, 1, b == 0);
    }
}

void gw_relaxed_matmul_q4(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t blocks = a->k / GW_BLOCK, panel = blocks * GW_Q4_BYTES;
    int p = 0;
    if (a->n == 1) {
        decode(w, panels, a, y);
        return;
    }
    for (; p + PAIR <= panels; p += PAIR) rows_of(w + p * panel, PAIR, a, y + p * GW_PANEL, ldy);
    for (; p < panels; p++) rows_of(w + p * panel, 1, a, y + p * GW_PANEL, ldy);
}

#endif
