/* floats: products with F32, F16 and BF16 weights, without relaxed SIMD. For one row of activations (decode), several
 * panels are read at the same time, because several streams, far apart, use the memory bandwidth better than one.
 * Several rows (prefill) are multiplied in tiles of two panels. */
#include "kernels/simd.h"

#ifdef GW_HAVE_SIMD

/* TILE, PAIR: rows of activations and panels of weights in a tile. INTERLEAVED: panels read at the same time. */
enum { TILE = 4, PAIR = 2, INTERLEAVED = 4 };

INLINE v128_t load_f32(const uint8_t *p) { return wasm_v128_load(p); }

/* Compile-time constants of a weight type (F32, F16 or BF16). */
typedef struct {
    size_t item;
    v128_t (*load)(const uint8_t *); /* loads four weights as floats */
    bool small;                      /* the function `load` returns the weights times 2^-112 */
} weights;

INLINE void add_column(const weights *f, v128_t *sum, const uint8_t *w, size_t stride, int n, const float *x) {
    v128_t xi = wasm_v128_load32_splat(x);
    if (f->small) xi = wasm_f32x4_mul(xi, TWO_112);
    UNROLL
    for (int s = 0; s < n; s++) sum[s] = add_product(sum[s], f->load(w + s * stride), xi);
}

/* Multiplies n panels, `stride` bytes apart, by the only row of activations. The results are `step` floats apart. */
INLINE void floats_interleaved(const weights *f, const uint8_t *w, size_t stride, int n, const gw_acts *a, float *y,
                               size_t step) {
    v128_t sum[INTERLEAVED];
    size_t i = 0, column = f->item * GW_PANEL;
    for (int s = 0; s < n; s++) sum[s] = wasm_f32x4_splat(0);
    for (; i + 2 <= a->k; i += 2, w += 2 * column) {
        add_column(f, sum, w, stride, n, a->x + i);
        add_column(f, sum, w + column, stride, n, a->x + i + 1);
    }
    if (i < a->k) add_column(f, sum, w, stride, n, a->x + i);
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, sum[s]);
}

INLINE void float_row(const weights *f, const uint8_t *w, int panels, const gw_acts *a, float *y) {
    size_t panel = GW_PANEL * a->k * f->item;
    int each = panels / INTERLEAVED, p = each * INTERLEAVED;
    for (int i = 0; i < each; i++)
        floats_interleaved(f, w + i * panel, each * panel, INTERLEAVED, a, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    for (; p < panels; p++) floats_interleaved(f, w + p * panel, 0, 1, a, y + p * GW_PANEL, 0);
}

/* Returns whether every |x| can be multiplied by 2^112 without overflow. */
INLINE bool has_room(const float *x, size_t k) {
    v128_t small = wasm_i32x4_splat(-1), bound = wasm_f32x4_splat(32768.0f);
    size_t i = 0;
    for (; i + 4 <= k; i += 4)
        small = wasm_v128_and(small, wasm_f32x4_lt(wasm_f32x4_abs(wasm_v128_load(x + i)), bound));
    bool room = wasm_i32x4_all_true(small);
    for (; i < k; i++) room &= x[i] > -32768.0f && x[i] < 32768.0f;
    return room;
}

/* Two panels, `panel` bytes apart, whose results are `next` floats apart. Alternating between two panels hides the
 * latency of additions, so a single last panel is computed twice, with both distances 0. */
typedef struct {
    const uint8_t *w;
    size_t panel;
    float *y;
    size_t ldy, next;
} pair;

INLINE void float_tile(const weights *f, const pair *at, const gw_acts *a, int t, int rows) {
    const uint8_t *w = at->w;
    const float *x = a->x + t * a->ldx;
    size_t ldx = a->ldx, k = a->k;
    float *y = at->y + t * at->ldy;
    v128_t sum[TILE][PAIR];
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = wasm_f32x4_splat(0);
    for (size_t i = 0; i < k; i++, w += f->item * GW_PANEL) {
        v128_t first = f->load(w), second = f->load(w + at->panel);
        for (int r = 0; r < rows; r++) {
            v128_t xi = SPLAT(x + r * ldx + i);
            sum[r][0] = add_product(sum[r][0], first, xi);
            sum[r][1] = add_product(sum[r][1], second, xi);
        }
    }
    for (int r = 0; r < rows; r++) {
        wasm_v128_store(y + r * at->ldy, sum[r][0]);
        wasm_v128_store(y + r * at->ldy + at->next, sum[r][1]);
    }
}

INLINE void float_rows(const weights *f, const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    size_t panel = GW_PANEL * a->k * f->item;
    for (int p = 0; p < panels; p += PAIR, w += PAIR * panel, y += PAIR * GW_PANEL) {
        bool two = p + 1 < panels;
        const pair at = { w, two ? panel : 0, y, ldy, two ? GW_PANEL : 0 };
        int t = 0;
        for (; t + TILE <= a->n; t += TILE) float_tile(f, &at, a, t, TILE);
        for (; t < a->n; t++) float_tile(f, &at, a, t, 1);
    }
}

static const weights f32 = { 4, load_f32, false }, f16 = { 2, f16x4, false }, bf16 = { 2, bf16x4, false },
                     small_f16 = { 2, small_f16x4, true };

void gw_simd_matmul_f32(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1) float_row(&f32, w, panels, a, y);
    else float_rows(&f32, w, panels, a, y, ldy);
}

/* With one row of activations, small_f16x4 loads weights times 2^-112, which is cheaper, and activations are multiplied
 * by 2^112, once for all panels, with the same results. */
void gw_simd_matmul_f16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1 && has_room(a->x, a->k)) float_row(&small_f16, w, panels, a, y);
    else float_rows(&f16, w, panels, a, y, ldy);
}

void gw_simd_matmul_bf16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    if (a->n == 1) float_row(&bf16, w, panels, a, y);
    else float_rows(&bf16, w, panels, a, y, ldy);
}

#endif
