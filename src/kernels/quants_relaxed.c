/* quants_relaxed: multiplies quantised weights by one row of activations, or by a few rows one by one, with the relaxed
 * dot product of bytes. Activations are int8, or int15 in two planes of int8. tiles_relaxed.c multiplies more rows,
 * q4_relaxed.c Q4_0 by int8. For one row, the IQ4 formats and Q8_0 use products of int16 if the JavaScript engine does
 * not multiply 8-bit values, and Q8_0 also if the dot product is slow. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/quants_relaxed.h"

enum { INTERLEAVED = 4 };

/* A way to multiply a format; all fields except with_sign are compile-time constants. */
typedef struct {
    const format *f;
    int planes;     /* planes of the activations: 1 for int8, 2 for int15 */
    bool whole;     /* the JavaScript engine's dot product takes weights of 8 bits */
    bool with_sign; /* the JavaScript engine's dot product takes 8-bit weights as signed */
    /* number of vectors of quants whose products are added in 16 bits (run_of); 0: all sums have 32 bits */
    uint32_t run;
} product;

/* Returns activations 4 i … 4 i + 3 of the sixteen in x, repeated four times. */
INLINE v128_t four_of(v128_t x, int i) {
    return i == 0 ? LANE(x, 0) : i == 1 ? LANE(x, 1) : i == 2 ? LANE(x, 2) : LANE(x, 3);
}

INLINE v128_t add_column(const product *m, v128_t x, v128_t c, v128_t dot, const table_masks *table) {
    if (m->f->table) return DOT(x, SWIZZLE(table->values, c), dot);
    return DOT(x, c, dot);
}

INLINE v128_t add_columns(const product *m, v128_t x, const v128_t *c, v128_t sum, const constants *k) {
    UNROLL
    for (int i = 0; i < 4; i++) sum = add_column(m, four_of(x, i), c[i], sum, &k->table);
    return sum;
}

/* Computes what dots() computes, but adds the products of m->run vectors in 16 bits. Activations are splatted as they
 * are loaded, because shuffles would compete with the products for execution units. */
INLINE void pair_dots(const product *m, const v128_t *c, const int8_t *q, const int32_t *sum, v128_t *dot) {
    uint32_t subs = m->f->subs, each = COLUMNS / subs;
    for (uint32_t i = 0; i < subs; i++) dot[i] = wasm_i32x4_splat(0);
    UNROLL
    for (int p = 0; p < m->planes; p++, q += GW_BLOCK) {
        v128_t pairs = wasm_i32x4_splat(0);
        UNROLL
        for (uint32_t i = 0; i < subs; i++) {
            if (m->planes == 2) dot[i] = wasm_i32x4_shl(dot[i], 7);
            UNROLL
            for (uint32_t g = i * each; g < (i + 1) * each; g++) {
                v128_t x = SPLAT(q + 4 * g);
                pairs = g % m->run ? add_pairs(pairs, x, c[g]) : PAIRS(x, c[g]);
                if ((g + 1) % m->run == 0) dot[i] = wasm_i32x4_add(dot[i], wasm_i32x4_extadd_pairwise_i16x8(pairs));
            }
        }
    }
    for (uint32_t i = 0; i < subs && m->f->offset; i++)
        dot[i] = wasm_i32x4_sub(dot[i], wasm_i32x4_splat((int)m->f->offset * sum[i]));
}

/* Multiplies a block's quants by activations, with a dot product for each of its one or two scales. sum: for each
 * scale, the sum of the activations that it covers. */
INLINE void dots(const product *m, const v128_t *c, const int8_t *q, const int32_t *sum, v128_t *dot,
                 const constants *k) {
    v128_t part[2][2]; /* [plane][half of the block] sums of products */
    if (m->run) {
        pair_dots(m, c, q, sum, dot);
        return;
    }
    UNROLL
    for (int p = 0; p < m->planes; p++) {
        UNROLL
        for (int h = 0; h < 2; h++) {
            v128_t x = wasm_v128_load(q + p * GW_BLOCK + 16 * h);
            bool begins = p == m->planes - 1 && h < (int)m->f->subs;
            v128_t all = wasm_i32x4_splat(begins ? -offset_of(m->f, m->with_sign) * sum[h] : 0);
            part[p][h] = add_columns(m, x, c + 4 * h, all, k);
        }
    }
    UNROLL
    for (uint32_t i = 0; i < m->f->subs; i++) {
        UNROLL
        for (int p = 0; p < m->planes; p++)
            if (m->f->subs == 1) part[p][0] = wasm_i32x4_add(part[p][0], part[p][1]);
        dot[i] = m->planes == 2 ? joined(part[0][i], part[1][i]) : part[0][i];
    }
}

/* Returns a times the first number of each pair plus b times the second, for a and b that fit 16 bits. */
INLINE v128_t weighed_16(v128_t a, v128_t b, v128_t pair) {
    v128_t both = wasm_i16x8_shuffle(a, wasm_i32x4_shl(b, 16), 0, 9, 2, 11, 4, 13, 6, 15);
    return wasm_i32x4_dot_i16x8(both, pair);
}

INLINE int32_t two_of(int32_t low, int32_t high) { return (int32_t)((uint32_t)(low & 0xffff) | (uint32_t)high << 16); }

/* The scale of a block of activations, and for each scale of the weights the sum of the activations that it covers. */
typedef struct {
    int32_t sum[2];
    float scale;
} block_acts;

INLINE v128_t add_block(const product *m, v128_t total, const v128_t *dot, const header *h, uint32_t j,
                        const block_acts *a, const constants *k) {
    const format *f = m->f;
    uint32_t at = scale_of(f, j);
    v128_t all = dot[0], part = wasm_i32x4_splat(a->sum[0]);
    if (f->subs == 2) {
        pairs p = pairs_of(f, h, j, &k->scales);
        bool fits = m->planes == 1 && f->bits < 4;
        all = fits ? weighed_16(dot[0], dot[1], p.scale) : weighed(dot[0], dot[1], p.scale);
        if (f->mins && fits) part = wasm_i32x4_dot_i16x8(wasm_i32x4_splat(two_of(a->sum[0], a->sum[1])), p.min);
        else if (f->mins) part = weighed(part, wasm_i32x4_splat(a->sum[1]), p.min);
    }
    total = add_scaled(total, all, h->scale[at], wasm_f32x4_splat(a->scale));
    if (f->mins && f->subs == 2) total = add_min(total, h->min[at], part, wasm_f32x4_splat(a->scale));
    else if (f->mins) /* the scalar product is the same for all four weight rows */
        total = add_product(total, h->min[at], wasm_f32x4_splat(a->scale * (float)a->sum[0]));
    return total;
}

/* Returns whether a format is multiplied as int16: its values have 8 bits, and the dot product of bytes is not used. */
INLINE bool as_int16(const product *m) { return (m->f->table || m->f->bits == 8) && !m->whole; }

/* Multiplies one block of Q8_0 of n panels, `stride` bytes apart, by int16 activations (every four in the order
 * 0 2 1 3). */
INLINE void byte_dots(const uint8_t *quants, size_t stride, int n, const int16_t *q, v128_t *dot) {
    for (int s = 0; s < n; s++) dot[s] = wasm_i32x4_splat(0);
    KEEP_LOOP
    for (int g = 0; g < COLUMNS; g++, quants += 16, q += 4) {
        v128_t even = SPLAT(q), odd = SPLAT(q + 2);
        UNROLL
        for (int s = 0; s < n; s++) {
            v128_t v = wasm_v128_load(quants + s * stride);
            dot[s] = add_dot(dot[s], wasm_i16x8_shr(wasm_i16x8_shl(v, 8), 8), even);
            dot[s] = add_dot(dot[s], wasm_i16x8_shr(v, 8), odd);
        }
    }
}

/* Multiplies panels that are read at the same time by the first row of a. each: a->stride; an argument, so that callers
 * can pass the constant 1. */
INLINE void interleaved(const product *m, const walk *to, const acts *a, size_t each) {
    const format *f = m->f;
    const walk own = *to, *s = &own;
    const constants k = constants_of(f, m->with_sign);
    const uint8_t *w = s->w;
    const int8_t *q = a->q;
    const float *scale = a->scale;
    const int32_t *all = a->sum, *half = a->half;
    v128_t total[INTERLEAVED];
    header first[INTERLEAVED];
    for (int i = 0; i < s->n; i++) total[i] = wasm_f32x4_splat(0);
    KEEP_LOOP
    for (size_t b = 0; b < a->blocks; b += f->blocks, w += f->bytes) {
        UNROLL
        for (int i = 0; i < s->n; i++) read_header(f, w + i * s->stride, first + i, &k.scales);
        KEEP_LOOP
        for (uint32_t j = 0; j < f->blocks; j++, q += each * m->planes * GW_BLOCK, scale += each, all += each) {
            block_acts x = { .sum[0] = f->subs == 1 ? *all : *half };
            if (f->subs == 2) x.sum[1] = *all - x.sum[0], half += each;
            if (as_int16(m)) {
                v128_t dot[INTERLEAVED];
                int16_t wide[GW_BLOCK];
                join(m->planes, q, wide);
                if (f->table) table_dots(quants_of(f, w, j), s->stride, s->n, wide, x.sum[0], dot, &k.table);
                else byte_dots(quants_of(f, w, j), s->stride, s->n, wide, dot);
                x.scale = *scale;
                UNROLL
                for (int i = 0; i < s->n; i++) total[i] = add_block(m, total[i], &dot[i], first + i, j, &x, &k);
                continue;
            }
            x.scale = *scale;
            /* Without unrolling, each load is from another panel, which defeats the prefetchers: 3 times slower. */
            UNROLL
            for (int i = 0; i < s->n; i++) {
                v128_t dot[2], c[COLUMNS];
                unpack_quants(f, m->with_sign, quants_of(f, w + i * s->stride, j), c, &k);
                dots(m, c, q, x.sum, dot, &k);
                total[i] = add_block(m, total[i], dot, first + i, j, &x, &k);
            }
        }
    }
    for (int i = 0; i < s->n; i++) wasm_v128_store(s->y + i * s->step, total[i]);
}

/* Multiplies several panels, which are read at the same time, by each row of activations from t on. */
INLINE void each_row(const product *m, const job *j, const walk *to, int t) {
    KEEP_LOOP
    for (int i = t; i < j->a->n; i++) {
        acts row = *j->a;
        walk own = *to;
        own.y += i * j->ldy;
        row.q += i * m->planes * GW_BLOCK, row.scale += i, row.sum += i, row.half += i;
        interleaved(m, &own, &row, j->a->stride);
    }
}

/* Multiplies the rows of activations from t on panel by panel, so that a panel stays in the CPU cache. */
INLINE void each_panel(const product *m, const job *j, int t) {
    KEEP_LOOP
    for (int p = 0; p < j->panels; p++) {
        const walk to = { j->w + p * j->panel, 0, 1, j->y + p * GW_PANEL, 0 };
        each_row(m, j, &to, t);
    }
}

/* Multiplies rows that are too few for a tile by several panels at once. Otherwise, full groups of rows are multiplied
 * in tiles, and the remaining rows panel by panel. */
INLINE void rows(const product *m, const job *j, gw_rows_kernel *several) {
    const format *f = m->f;
    const acts *a = j->a;
    bool int15 = m->planes == 2;
    bool shared = as_int16(m); /* the planes of the activations are joined once for all panels */
    bool few = a->sequential || m->run || (int15 && f->bits != 8);
    int t = gw_in_tiles(a->n, int15), done = 0;
    int each = !t && (shared || !few) ? j->panels / INTERLEAVED : 0;
    /* For several rows, products of int16 are faster if the dot product of bytes is slow: sixteen products take four
     * instructions as int16, five with the dot product, and ten with two planes or two tables. */
    if ((int15 || f->table) && adds_pairs()) {
        const job all = *j;
        done = t = a->n - a->n % TILE;
        gw_relaxed_rows_16(several, &all, t);
    }
    for (int i = 0; i < each; i++) {
        const walk to = walk_of(j, i, each, INTERLEAVED);
        each_row(m, j, &to, 0);
    }
    int begin = f == &format_q4 && a->n > 1 && !m->run ? gw_relaxed_few(j) : each * INTERLEAVED;
    for (int p = begin; p < j->panels; p += PAIR) {
        const job two = panels_from(j, p, (int)gw_min(PAIR, j->panels - p)), tiled = two;
        several(&tiled, t - done, !f->table && m->with_sign);
        each_panel(m, &two, t);
    }
}

INLINE void matmul(const format *f, int planes, gw_rows_kernel *several, const job *j) {
    bool by_pairs = !f->table && (planes == 1 || f->bits >= 4);
    bits_taken how = f->table ? takes(127) : SEVEN;
    if (f->table && how != SEVEN) /* int8 and int15: a dot product that takes 8-bit values is one instruction */
        rows(&(product){ .f = f, .planes = planes, .whole = true, .with_sign = how == SIGNED }, j, several);
    else if (by_pairs && adds_pairs())
        rows(&(product){ .f = f, .planes = planes, .run = run_of(f, planes == 2) }, j, several);
    else rows(&(product){ .f = f, .planes = planes }, j, several);
}

#define DEFINE(name, suffix, bits)                                                                                  \
    void gw_relaxed_matmul_##name##suffix(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) { \
        acts a = ACTS(all, bits);                                                                                   \
        job j = job_of(&format_##name, w, panels, &a, y, ldy);                                                      \
        matmul(&format_##name, bits / 8, gw_relaxed_rows_##name, &j);                                               \
    }
#define DEFINE_BOTH(NAME, name, ...) DEFINE(name, , 8) DEFINE(name, _int15, 16)
GW_FORMATS(DEFINE_BOTH)
DEFINE(q4, _int15, 16)

/* Multiplies Q8_0 as int16, for JavaScript engines whose dot product is slow or does not take 8-bit values; in tiles
 * only if it is slow. Not inlined, so that the caller's loops keep their registers. */
OUTLINE void q8_as_int16(const job *j) {
    const product m = { .f = &format_q8, .planes = 2 };
    if (adds_pairs()) rows(&m, j, gw_relaxed_rows_q8);
    else each_panel(&m, j, 0);
}

void gw_relaxed_matmul_q8_int15(const uint8_t *w, int panels, const gw_acts *all, float *y, size_t ldy) {
    acts a = ACTS(all, 16);
    job j = job_of(&format_q8, w, panels, &a, y, ldy);
    bits_taken how = takes(64);
    const product m = { .f = &format_q8, .planes = 2, .whole = true, .with_sign = how == SIGNED };
    if (how == SEVEN || adds_pairs()) q8_as_int16(&j);
    else rows(&m, &j, gw_relaxed_rows_q8);
}

#endif
