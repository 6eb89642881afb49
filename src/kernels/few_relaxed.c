/* few_relaxed: multiplies panels of nibbles, in the layout of Q4_0, by a few rows of activations with the relaxed dot
 * product of bytes. Memory bandwidth limits these products almost as much as products with a single row, so several
 * panels are read at the same time. Chunks (tiles.h) would be slower, because no weights are read while a chunk is
 * multiplied. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

/* Maximum number of byte rows multiplied at once, so that their sums for PAIR panels, the quants and an activation fit
 * the registers. A row of int15 activations is two byte rows, one for each plane. */
enum { MOST = 4 };

typedef struct {
    int rows, planes;
    int panels;
    bool high;  /* nibble n stands for 16 n - 120 (high plane), not for n - 8 (Q4_0) */
    bool pairs; /* adds a block's products, at most 16 * 127 * 15 in a lane, in 16 bits, if the dot product is slow */
} few;

/* Sums of products: [row of activation bytes][panel]. */
typedef v128_t sums[MOST][PAIR];

/* Adds the products with half a block of PAIR panels that are `apart` bytes from each other. Each splatted activation
 * is used for all panels. The loop must not be unrolled, because LLVM would then make each product wait for the
 * previous one of the same sum. */
INLINE void add_half(const few *k, sums dot, const uint8_t *w, size_t apart, const int8_t *q, int shift, v128_t low) {
    const uint8_t *second = w + apart;
    KEEP_LOOP
    for (const int8_t *end = q + 16; q != end; q += 4, w += 16, second += 16) {
        v128_t v[PAIR] = { wasm_v128_and(wasm_u16x8_shr(wasm_v128_load(w), shift), low),
                           wasm_v128_and(wasm_u16x8_shr(wasm_v128_load(second), shift), low) };
        UNROLL
        for (int i = 0; i < k->rows * k->planes; i++) {
            v128_t x = SPLAT(q + i * GW_BLOCK);
            for (int p = 0; p < PAIR; p++)
                dot[i][p] = k->pairs ? add_pairs(dot[i][p], x, v[p]) : DOT(x, v[p], dot[i][p]);
        }
    }
}

/* Adds the products of a weight block with block `at` of the activations to the totals. The low nibbles are multiplied
 * before the high ones: both together would need more registers than there are. */
INLINE void add_block(const few *k, sums total, const uint8_t *w, size_t apart, const acts *a, size_t at,
                      const gw_nibble_masks *m) {
    const int8_t *q = a->q + at * k->planes * GW_BLOCK;
    int last = k->planes - 1;
    sums dot;
    UNROLL
    for (int i = 0; i < k->rows; i++)
        for (int p = 0; p < PAIR; p++) {
            v128_t zero = wasm_i32x4_splat(0), minus = wasm_i32x4_neg(wasm_i32x4_shl(SPLAT(a->sum + at + i), 3));
            dot[i * k->planes][p] = zero;
            dot[i * k->planes + last][p] = k->high || k->pairs ? zero : minus;
        }
    add_half(k, dot, w + 8, apart, q, 0, m->low);
    add_half(k, dot, w + 8, apart, q + 16, 4, m->low);
    v128_t scale[PAIR] = { scales_from(w, m), scales_from(w + apart, m) };
    UNROLL
    for (int i = 0; i < k->rows; i++)
        for (int p = 0; p < PAIR; p++) {
            v128_t all = dot[i * k->planes][p];
            if (k->pairs) all = wasm_i32x4_extadd_pairwise_i16x8(all);
            if (last) all = joined(all, dot[i * k->planes + last][p]);
            if (k->high || k->pairs)
                all = wasm_i32x4_sub(wasm_i32x4_shl(all, k->high ? 4 : 0),
                                     wasm_i32x4_mul(SPLAT(a->sum + at + i), wasm_i32x4_splat(k->high ? 120 : 8)));
            total[i][p] = add_scaled(total[i][p], all, scale[p], SPLAT(a->scale + at + i));
        }
}

INLINE void multiply(const few *k, const walk *s, const acts *a, int t, size_t ldy) {
    enum { MOST_PAIRS = 4 };
    const gw_nibble_masks m = masks();
    const walk to = *s; /* `to` and `x` are local copies, so that stores cannot alias them */
    const acts x = *a;
    sums total[MOST_PAIRS];
    for (int i = 0; i < k->panels; i++)
        for (int r = 0; r < k->rows; r++) total[i / PAIR][r][i % PAIR] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < x.blocks; b++) {
        /* Without unrolling, each load would be from another panel, which defeats the prefetchers: 2.6 times slower for
         * two rows. */
        UNROLL
        for (int i = 0; i < k->panels; i += PAIR)
            add_block(k, total[i / PAIR], to.w + i * to.stride + b * GW_Q4_BYTES, to.stride, &x, b * x.stride + t, &m);
    }
    for (int i = 0; i < k->panels; i++)
        for (int r = 0; r < k->rows; r++)
            wasm_v128_store(to.y + (t + r) * ldy + i * to.step, total[i / PAIR][r][i % PAIR]);
}

typedef void kernel(const walk *s, const acts *a, int t, size_t ldy);
#define ROWS(name, ...)                                                  \
    OUTLINE void name(const walk *s, const acts *a, int t, size_t ldy) { \
        multiply(&(few){ __VA_ARGS__ }, s, a, t, ldy);                   \
    }
ROWS(two_rows, .rows = 2, .planes = 1, .panels = 8)
ROWS(three_rows, .rows = 3, .planes = 1, .panels = 4)
ROWS(four_rows, .rows = 4, .planes = 1, .panels = 4)
ROWS(two_high, .rows = 2, .planes = 1, .panels = 8, .high = true)
ROWS(three_high, .rows = 3, .planes = 1, .panels = 4, .high = true)
ROWS(four_high, .rows = 4, .planes = 1, .panels = 4, .high = true)
ROWS(two_int15, .rows = 2, .planes = 2, .panels = 4)

/* Multiplies by four byte rows on JavaScript engines with a slow dot product. `high` is a run-time argument, because
 * code for both of its values would be twice as large. */
OUTLINE void four_pairs(const walk *s, const acts *a, int t, size_t ldy, bool high) {
    multiply(&(few){ .rows = MOST, .planes = 1, .panels = PAIR, .high = high, .pairs = true }, s, a, t, ldy);
}

/* Multiplies whole groups of panels, which are read at the same time. Returns the number of panels multiplied, or 0 if
 * these kernels do not support the number of rows or the JavaScript engine. */
INLINE int each_side(const job *j, bool high) {
    static kernel *const kernels[2][MOST - 1] = { { two_rows, three_rows, four_rows },
                                                  { two_high, three_high, four_high } };
    const acts *a = j->a;
    bool pairs = adds_pairs();
    if (a->n < 2 || a->n > FEW || (pairs && (a->n % MOST || a->planes == 2))) return 0;
    int most = MOST / a->planes, passes = (a->n + most - 1) / most, rows = (a->n + passes - 1) / passes;
    kernel *run = a->planes == 2 ? two_int15 : kernels[high][rows - 2];
    int side = pairs ? PAIR : run == two_rows || run == two_high ? 8 : 4, each = j->panels / side;
    for (int i = 0; i < each; i++) {
        const walk to = walk_of(j, i, each, side);
        for (int t = 0; t < a->n; t += rows) {
            int first = (int)gw_min(t, a->n - rows); /* the last pass may compute rows again, with the same results */
            if (pairs) four_pairs(&to, a, first, j->ldy, high);
            else run(&to, a, first, j->ldy);
        }
    }
    return each * side;
}

int gw_relaxed_few(const job *j) { return each_side(j, false); }

int gw_relaxed_few_high(const uint8_t *high, int panels, const gw_acts *all, float *y, size_t ldy) {
    acts a = ACTS(all, 8);
    return each_side(&(job){ high, a.blocks * GW_HIGH_BYTES, panels, &a, y, ldy }, true);
}

#endif
