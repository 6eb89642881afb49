/* quants_relaxed: products of quantised weights with one row of activations, or a few, one by one, int8 or wide ones as
 * two planes of int8, by the relaxed dot product of bytes; tiles of rows go to tiles_relaxed.c. Decode with IQ4
 * takes products of 16 bits where bytes are not taken whole (table_dots). Q4_0 and int8: q4_relaxed.c. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

enum { STREAMS = 4 };

/* --- one row of activations --- */

/* Four activations of sixteen, four times. */
INLINE v128_t four_of(v128_t x, int i) {
    return i == 0 ? LANE(x, 0) : i == 1 ? LANE(x, 1) : i == 2 ? LANE(x, 2) : LANE(x, 3);
}

/* sum + products of four activations of sixteen with four columns: in 16 bits at most `run` columns. */
INLINE v128_t add_columns(const shape *f, v128_t x, const v128_t *c, v128_t sum, const constants *k) {
    v128_t pairs = wasm_i32x4_splat(0);
    UNROLL
    for (int i = 0; i < 4; i++) {
        if (!f->run) sum = dot_column(f, four_of(x, i), c[i], sum, &k->table.values);
        else pairs = i % f->run ? add_pairs(pairs, four_of(x, i), c[i]) : PAIRS(four_of(x, i), c[i]);
        if (f->run && (i + 1) % f->run == 0) sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(pairs));
    }
    return sum;
}

/* Sums of a block's products, one for each of its scales. */
INLINE void dots(const shape *f, bits_taken how, int planes, const v128_t *c, const int8_t *q, const int32_t *sum,
                 v128_t *dot, const constants *k) {
    v128_t part[2][2];   /* of each plane, of each half of the block */
    UNROLL
    for (int p = 0; p < planes; p++)
        UNROLL
        for (int h = 0; h < 2; h++) {
            v128_t x = wasm_v128_load(q + p * GW_BLOCK + 16 * h);
            bool begins = p == planes - 1 && h < (int)f->subs;
            v128_t all = wasm_i32x4_splat(begins ? -offset_of(f, how) * sum[h] : 0);
            part[p][h] = add_columns(f, x, c + 4 * h, all, k);
        }
    UNROLL
    for (uint32_t i = 0; i < f->subs; i++) {
        UNROLL
        for (int p = 0; p < planes; p++)
            if (f->subs == 1) part[p][0] = wasm_i32x4_add(part[p][0], part[p][1]);
        dot[i] = planes == 2 ? joined(part[0][i], part[1][i]) : part[0][i];
    }
}

/* The first times one scale and the second times the other, of sums that fit 16 bits. */
INLINE v128_t weighed_16(v128_t a, v128_t b, v128_t pair) {
    v128_t both = wasm_i16x8_shuffle(a, wasm_i32x4_shl(b, 16), 0, 9, 2, 11, 4, 13, 6, 15);
    return wasm_i32x4_dot_i16x8(both, pair);
}

/* Two numbers of 16 bits in one of 32. */
INLINE int32_t two_of(int32_t low, int32_t high) { return (int32_t)((uint32_t)(low & 0xffff) | (uint32_t)high << 16); }

/* One block into the total. sum: of the activations that each scale covers; by: their scale. */
INLINE v128_t add_block(const shape *f, int planes, v128_t total, const v128_t *dot, const fronts *h, uint32_t j,
                        const int32_t *sum, float by, const constants *k) {
    uint32_t at = f->subs == 2 || f->blocks == 1 ? 0 : j;
    v128_t all = dot[0], part = wasm_i32x4_splat(sum[0]);
    if (f->subs == 2) {
        pairs p = pairs_of(f, h, j, &k->scales);
        bool fits = planes == 1 && f->bits < 4;
        all = fits ? weighed_16(dot[0], dot[1], p.scale) : weighed(dot[0], dot[1], p.scale);
        if (f->mins && fits) part = wasm_i32x4_dot_i16x8(wasm_i32x4_splat(two_of(sum[0], sum[1])), p.min);
        else if (f->mins) part = weighed(part, wasm_i32x4_splat(sum[1]), p.min);
    }
    total = add_scaled(total, all, h->scale[at], wasm_f32x4_splat(by));
    if (f->mins && f->subs == 2) total = add_min(total, h->min[at], part, wasm_f32x4_splat(by));
    else if (f->mins)   /* one product for all rows */
        total = wasm_f32x4_add(total, wasm_f32x4_mul(h->min[at], wasm_f32x4_splat(by * (float)sum[0])));
    return total;
}

/* y[s * step] of panels w + s * stride, s < n. each: a->stride, a constant where it is 1. */
INLINE void streams(const shape *f, bits_taken how, int planes, const uint8_t *w, size_t stride, int n, const acts *a,
                    size_t each, float *y, size_t step) {
    const constants k = constants_of(f, how);
    const int8_t *q = a->q;
    const float *scale = a->scale;
    const int32_t *all = a->sum, *half = a->half;
    v128_t total[STREAMS];
    fronts first[STREAMS];
    for (int s = 0; s < n; s++) total[s] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        UNROLL
        for (int s = 0; s < n; s++) read_front(f, w + s * stride, first + s, &k.scales);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++, q += each * planes * GW_BLOCK, scale += each, all += each) {
            int32_t sum[2] = { f->subs == 1 ? *all : *half };
            if (f->subs == 2) sum[1] = *all - sum[0], half += each;
            if (f->table && !f->whole) {
                v128_t dot[STREAMS];
                int16_t wide[GW_BLOCK];
                join(planes, q, wide);
                table_dots(codes_of(f, w, j), stride, n, wide, sum[0], dot, &k.table);
                UNROLL
                for (int s = 0; s < n; s++)
                    total[s] = add_block(f, planes, total[s], &dot[s], first + s, j, sum, *scale, &k);
                continue;
            }
            UNROLL   /* in a loop each load would jump between streams: prefetchers give up, and two thirds are lost */
            for (int s = 0; s < n; s++) {
                v128_t dot[2], c[COLUMNS];
                unpack_codes(f, how, codes_of(f, w + s * stride, j), c, &k);
                dots(f, how, planes, c, q, sum, dot, &k);
                total[s] = add_block(f, planes, total[s], dot, first + s, j, sum, *scale, &k);
            }
        }
    }
    for (int s = 0; s < n; s++) wasm_v128_store(y + s * step, total[s]);
}

/* --- products --- */

/* Rows t … of activations by each panel, which stays in a cache for them. */
INLINE void each_panel(const shape *f, bits_taken how, int planes, const uint8_t *w, int panels, const acts *a, int t,
                       float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    KEEP_LOOP
    for (int p = 0; p < panels; p++)
        KEEP_LOOP
        for (int i = t; i < a->n; i++) {
            acts row = *a;
            row.q += i * planes * GW_BLOCK, row.scale += i, row.sum += i, row.half += i;
            streams(f, how, planes, w + p * panel, 0, 1, &row, a->stride, y + i * ldy + p * GW_PANEL, 0);
        }
}

/* Are products of 16 bits faster for several rows? They take four instructions for sixteen; DOT by two planes, or two
 * tables, takes ten where it is five. */
INLINE bool by_16(const shape *f, int planes) { return (planes == 2 || f->table) && adds_pairs(); }

/* One row by several panels at once, several by tiles as far as they go, the others by each panel. */
INLINE void rows(const shape *f, bits_taken how, int planes, gw_rows_kernel *several, const uint8_t *w, int panels,
                 const acts *a, float *y, size_t ldy) {
    size_t panel = a->blocks / f->blocks * f->bytes;
    bool shared = f->table && !f->whole;   /* activations that are widened once for all panels */
    bool few = a->streams == 1 || f->run || (planes == 2 && f->bits != 8);   /* weights are */
    int each = a->n == 1 && (shared || !few) ? panels / STREAMS : 0, t = gw_in_tiles(a->n, planes == 2), done = 0;
    if (by_16(f, planes)) {
        done = t = a->n - a->n % TILE;
        gw_relaxed_rows_16(several, planes, w, panel, panels, a, t, y, ldy);
    }
    for (int i = 0; i < each; i++)
        streams(f, how, planes, w + i * panel, each * panel, STREAMS, a, 1, y + i * GW_PANEL, (size_t)each * GW_PANEL);
    for (int p = each * STREAMS; p < panels; p += PAIR) {
        int n = (int)gw_min(PAIR, panels - p);
        several(f->table ? SEVEN : how, planes == 2, w + p * panel, n, a, t - done, y + p * GW_PANEL, ldy);
        each_panel(f, how, planes, w + p * panel, n, a, t, y + p * GW_PANEL, ldy);
    }
}

INLINE void matmul(const shape *f, int planes, gw_rows_kernel *several, const uint8_t *w, int panels, const acts *a,
                   float *y, size_t ldy) {
    bool by_pairs = !f->table && (planes == 1 || (f->bits == 4 && f->subs == 1 && !f->mins));
    bits_taken how = f->table ? takes(127) : SEVEN;
    if (f->table && how != SEVEN) {   /* for both precisions: such an engine has an instruction for it */
        shape whole = *f;
        whole.whole = true;
        rows(&whole, how, planes, several, w, panels, a, y, ldy);
        return;
    }
    if (by_pairs && adds_pairs()) {
        shape pairs = *f;
        pairs.run = gw_min(run_of(f, planes == 2), HALF);
        rows(&pairs, SEVEN, planes, several, w, panels, a, y, ldy);
        return;
    }
    rows(f, SEVEN, planes, several, w, panels, a, y, ldy);
}

#define DEFINE_WIDE(NAME, name, ...)                                                                          \
    void gw_relaxed_matmul_##name##_wide(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) { \
        acts a = wide_of(all);                                                                                   \
        matmul(&shape_##name, 2, gw_relaxed_rows_##name, w, panels, &a, y, ldy);                                       \
    }
#define DEFINE(NAME, name, ...)                                                                               \
    void gw_relaxed_matmul_##name(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {      \
        acts a = narrow_of(all);                                                                                 \
        matmul(&shape_##name, 1, gw_relaxed_rows_##name, w, panels, &a, y, ldy);                                   \
    }
GW_FORMATS(DEFINE)
GW_FORMATS(DEFINE_WIDE)
DEFINE_WIDE(Q4_0, q4, )

void gw_relaxed_matmul_q8_wide(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {
    acts a = wide_of(all);
    bits_taken how = takes(64);
    shape whole = shape_q8;
    whole.whole = true;
    if (how == SEVEN) each_panel(&shape_q8, SEVEN, 2, w, panels, &a, 0, y, ldy);   /* three products for one */
    else rows(&whole, how, 2, gw_relaxed_rows_q8, w, panels, &a, y, ldy);
}

#endif
