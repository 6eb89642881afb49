/* ref: the reference implementation of the kernels (kernels.h) in plain C, written for readability, not for speed. */
#include "kernels/kernels.h"
#include "file/types.h"

#include <math.h>
#include <string.h>

static float read_f32(const uint8_t *p) {
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* Computes y[t][r] = the sum over k, in ascending order, of w[r][k] * x[t][k]. */
static void matmul_float(const gw_type *type, const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    for (int p = 0; p < panels; p++, w += GW_PANEL * a->k * type->bytes, y += GW_PANEL)
        for (int t = 0; t < a->n; t++)
            for (int r = 0; r < GW_PANEL; r++) {
                float sum = 0, item;
                for (size_t k = 0; k < a->k; k++) {
                    type->dequantise(w + (k * GW_PANEL + r) * type->bytes, &item, 1);
                    sum += item * a->x[t * a->ldx + k];
                }
                y[t * ldy + r] = sum;
            }
}

#define DEFINE_FLOAT(NAME, name)                                                                      \
    void gw_ref_matmul_##name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) { \
        matmul_float(gw_type_of(GW_##NAME), w, panels, a, y, ldy);                                    \
    }
DEFINE_FLOAT(F32, f32)
DEFINE_FLOAT(F16, f16)
DEFINE_FLOAT(BF16, bf16)

/* --- quantised formats --- */

static size_t block_of(const gw_acts *a, int t, size_t column) { return column / GW_BLOCK * a->stride + t; }

/* Returns activation `column` of row t. The reference stores int15 activations as int16 in all builds. */
static int32_t act_at(const gw_acts *a, bool int15, int t, size_t column) {
    size_t at = block_of(a, t, column) * GW_BLOCK, c = column % GW_BLOCK;
    return int15 ? a->q16[at + GW_INT16_ORDER(c)] : gw_int8_at(a->q8 + at, c);
}

static float act_scale(const gw_acts *a, bool int15, int t, size_t column) {
    return (int15 ? a->s16 : a->s8)[block_of(a, t, column)];
}

/* For functions that proof.c calls while a model loads: keeps them out of line, because the JavaScript engine does not
 * pause to optimise short functions. */
#define APART static __attribute__((noinline))

/* An unpacked row of a group. In formats with one scale per block, sub-scales are 1. */
typedef struct {
    int value[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS];
    int8_t sub[GW_MAX_SUBS], sub_min[GW_MAX_SUBS];
} open_row;

APART void open_group(const gw_format *f, const uint8_t *group, int r, open_row *row) {
    uint8_t quant[GW_MAX_ITEMS], header[GW_MAX_HEADER];
    gw_format_unpack(f, group, r, quant, row->scale, row->min);
    for (uint32_t c = 0; c < f->items; c++) row->value[c] = gw_format_value(f, quant[c]);
    memset(row->sub, 1, sizeof row->sub);
    memset(row->sub_min, 1, sizeof row->sub_min);
    if (f->sub == GW_BLOCK) return;
    gw_format_header(f, group, r, header);
    f->sub_scales(header, row->sub, row->sub_min);
    for (uint32_t b = 0; b < f->items / GW_BLOCK; b++) {
        row->scale[b] = gw_f16_to_f32(gw_load16(header));
        row->min[b] = f->mins ? -gw_f16_to_f32(gw_load16(header + 2)) : 0;
    }
}

typedef struct {
    int32_t q[GW_MAX_ITEMS];
    float scale[GW_MAX_ITEMS / GW_BLOCK];
} open_acts;

/* Returns total + the product of a weight row with activations: each block is summed in integers, including the
 * sub-scales. */
APART float group_dot(const gw_format *f, const open_row *row, const open_acts *x, float total) {
    for (uint32_t b = 0; b < f->items / GW_BLOCK; b++) {
        int32_t dot = 0, sum = 0;
        for (uint32_t c = b * GW_BLOCK; c < (b + 1) * GW_BLOCK; c++) {
            dot += row->sub[c / f->sub] * row->value[c] * x->q[c];
            sum += row->sub_min[c / f->sub] * x->q[c];
        }
        total += (float)dot * (row->scale[b] * x->scale[b]);
        if (f->mins) total += row->min[b] * (x->scale[b] * (float)sum);
    }
    return total;
}

static void matmul_format(const gw_format *f, bool int15, const uint8_t *w, int panels, const gw_acts *a, float *y,
                          size_t ldy) {
    open_row row[GW_PANEL];
    open_acts x;
    for (int p = 0; p < panels; p++, y += GW_PANEL) {
        for (int t = 0; t < a->n; t++) memset(y + t * ldy, 0, GW_PANEL * sizeof *y);
        for (size_t column = 0; column < a->k; column += f->items, w += GW_PANEL * f->bytes) {
            for (int r = 0; r < GW_PANEL; r++) open_group(f, w, r, &row[r]);
            for (int t = 0; t < a->n; t++) {
                for (uint32_t c = 0; c < f->items; c++) {
                    x.q[c] = act_at(a, int15, t, column + c);
                    x.scale[c / GW_BLOCK] = act_scale(a, int15, t, column + c);
                }
                for (int r = 0; r < GW_PANEL; r++) y[t * ldy + r] = group_dot(f, &row[r], &x, y[t * ldy + r]);
            }
        }
    }
}

#define DEFINE_FORMAT(NAME, name, ...)                                                                        \
    void gw_ref_matmul_##name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {         \
        matmul_format(gw_format_of(GW_##NAME), false, w, panels, a, y, ldy);                                  \
    }                                                                                                         \
    void gw_ref_matmul_##name##_int15(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) { \
        matmul_format(gw_format_of(GW_##NAME), true, w, panels, a, y, ldy);                                   \
    }
GW_ALL_FORMATS(DEFINE_FORMAT)

/* --- Q8_0 in planes --- */

/* Multiplies row r of a panel by row t of the activations: all 8 bits by int15 activations, the upper 4 or 6 bits by
 * int8. */
static float planes_row(gw_planes w, int bits, const gw_acts *a, int t, int r) {
    int dropped = 1 << (8 - bits), zero = 128 - (bits == 8 ? 0 : dropped / 2);
    float total = 0;
    for (size_t column = 0; column < a->k; column += GW_BLOCK, w = gw_planes_from(w, 1)) {
        int32_t sum = 0;
        for (int c = 0; c < GW_BLOCK; c++)
            sum += ((gw_planes_code(w, r, c) & -dropped) - zero) * act_at(a, bits == 8, t, column + c);
        total += (float)sum * (gw_f16_to_f32(gw_load16(w.high + 2 * r)) * act_scale(a, bits == 8, t, column));
    }
    return total;
}

static void planes(gw_planes w, int bits, int panels, const gw_acts *a, float *y, size_t ldy) {
    for (int p = 0; p < panels; p++, w = gw_planes_from(w, a->k / GW_BLOCK), y += GW_PANEL)
        for (int t = 0; t < a->n; t++)
            for (int r = 0; r < GW_PANEL; r++) y[t * ldy + r] = planes_row(w, bits, a, t, r);
}

void gw_ref_planes_high(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    planes(w, 4, panels, a, y, ldy);
}

void gw_ref_planes_upper(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    planes(w, 6, panels, a, y, ldy);
}

void gw_ref_planes_whole(gw_planes w, int panels, const gw_acts *a, float *y, size_t ldy) {
    planes(w, 8, panels, a, y, ldy);
}

void gw_ref_planes_some(gw_planes w, const uint32_t *panel, int n, const gw_acts *a, float *y) {
    for (int i = 0; i < n; i++) {
        size_t p = panel[i];
        planes(gw_planes_from(w, p * (a->k / GW_BLOCK)), 8, 1, a, y + p * GW_PANEL, 0);
    }
}

/* --- quantising activations --- */

/* Returns the largest magnitude of a block, or NaN if the block contains a NaN. */
static float largest_of(const float *x) {
    float largest = 0;
    for (int c = 0; c < GW_BLOCK; c++)
        if (!(fabsf(x[c]) <= largest)) largest = largest == largest ? fabsf(x[c]) : largest;
    return largest;
}

/* Quantises a block; computes its scale and sums. A NaN makes the scale NaN, and thereby every product of the block. */
static void quantise(const float *x, float top, int16_t *q, float *scale, int32_t *sum, int32_t *half) {
    float largest = largest_of(x), inverse = largest > GW_TINY ? top / largest : 0;
    *sum = 0;
    for (int c = 0; c < GW_BLOCK; c++) {
        *sum += q[c] = (int16_t)rintf(fmaxf(-top, fminf(top, x[c] * inverse)));
        if (c == GW_BLOCK / 2 - 1) *half = *sum;
    }
    *scale = largest / top;
}

#define DEFINE_QUANTISER(name, top, bits, place)                                                             \
    void gw_ref_##name(const gw_acts *a, int t, size_t from, size_t k) {                                     \
        int16_t q[GW_BLOCK];                                                                                 \
        for (size_t i = from; i < from + k; i += GW_BLOCK) {                                                 \
            size_t at = block_of(a, t, i);                                                                   \
            quantise(a->x + t * a->ldx + i, top, q, a->s##bits + at, a->sum##bits + at, a->half##bits + at); \
            for (int c = 0; c < GW_BLOCK; c++) a->q##bits[at * GW_BLOCK + (place)] = q[c];                   \
        }                                                                                                    \
    }
DEFINE_QUANTISER(quantise_int8, GW_INT8_TOP, 8, sizeof(gw_int8) == 1 ? c : GW_INT16_ORDER(c))
DEFINE_QUANTISER(quantise_int15, GW_INT15_TOP, 16, GW_INT16_ORDER(c))

/* --- attention --- */

static float item_f32(const uint8_t *row, int i, int d) { return (void)d, read_f32(row + 4 * i); }
static float item_q8(const uint8_t *row, int i, int d) {
    return gw_bf16_to_f32(gw_load16(row + d + i / GW_BLOCK * 2)) * (float)(int8_t)row[i];
}

#define DEFINE_ATTENTION(type)                                                                                        \
    void gw_ref_scores_##type(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d,      \
                              float *out) {                                                                           \
        for (int h = 0; h < heads; h++)                                                                               \
            for (int j = 0; j < n; j++) {                                                                             \
                float part[4] = { 0 };                                                                                \
                for (int i = 0; i < d; i++)                                                                           \
                    part[i % 4] += ((const float *)q[h])[i] * item_##type(keys + j * stride, i, d);                   \
                out[h * GW_SPAN + j] = (part[0] + part[1]) + (part[2] + part[3]);                                     \
            }                                                                                                         \
    }                                                                                                                 \
    void gw_ref_mix_##type(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,             \
                           float *const *out) {                                                                       \
        for (int h = 0; h < heads; h++)                                                                               \
            for (int i = 0; i < d; i++)                                                                               \
                for (int j = 0; j < n; j++) out[h][i] += p[h * GW_SPAN + j] * item_##type(values + j * stride, i, d); \
    }
DEFINE_ATTENTION(f32)
DEFINE_ATTENTION(q8)

static int32_t int_of(const uint8_t *row, int i) { return (int16_t)gw_load16(row + 2 * i); }
static float scale_of(const uint8_t *row, int d) { return read_f32(row + 2 * d); }

void gw_ref_scores_i16(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d, float *out) {
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n; j++) {
            const uint8_t *key = keys + j * stride;
            int32_t sum[GW_I16_LANES] = { 0 };
            for (int i = 0; i < d; i++) sum[i / 2 % GW_I16_LANES] += int_of(q[h], i) * int_of(key, i);
            float total = ((float)sum[0] + (float)sum[1]) + ((float)sum[2] + (float)sum[3]);
            out[h * GW_SPAN + j] = total * (scale_of(q[h], d) * scale_of(key, d));
        }
}

static float round_weights(const float *w, int n, int32_t *out) {
    float largest = 0, part[4] = { 0 };
    for (int j = 0; j < n; j++) {
        largest = fmaxf(largest, w[j]);
        part[j % 4] += w[j];
    }
    float by_largest = largest / GW_I16_TOP, by_sum = ((part[0] + part[1]) + (part[2] + part[3])) / GW_I16_SUM;
    float step = by_largest > by_sum ? by_largest : by_sum, inverse = step > GW_TINY ? 1.0f / step : 0;
    for (int j = 0; j < n; j++) out[j] = inverse > 0 ? (int32_t)rintf(fminf(GW_I16_TOP, w[j] * inverse)) : 0;
    return step;
}

void gw_ref_mix_i16(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d, float *const *out) {
    for (int h = 0; h < heads; h++) {
        float w[GW_KEYS];
        int32_t rounded[GW_KEYS];
        for (int j = 0; j < n; j++) w[j] = p[h * GW_SPAN + j] * scale_of(values + j * stride, d);
        float step = round_weights(w, n, rounded);
        for (int i = 0; i < d; i++) {
            int32_t sum = 0;
            for (int j = 0; j < n; j++) sum += rounded[j] * int_of(values + j * stride, i);
            out[h][i] += (float)sum * step;
        }
    }
}

void gw_ref_widen_q8(const uint8_t *rows, size_t stride, int n, int d, float *out) {
    for (int i = 0; i < n * d; i++) out[i] = item_q8(rows + i / d * stride, i % d, d);
}

float gw_ref_weigh(float *p, int n, float max) {
    float part[4] = { 0 };
    for (int j = 0; j < n; j++) part[j % 4] += p[j] = gw_exp(p[j] - max);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

void gw_ref_soft_cap(float *x, int n, float cap) {
    for (int j = 0; j < n; j++) x[j] = gw_capped(x[j], cap);
}

#define DEFINE_ROUND(NAME, name)                                              \
    void gw_ref_round_##name(const uint8_t *row, size_t k, uint8_t *blocks) { \
        round_row(gw_type_of(GW_##NAME), row, k, blocks);                     \
    }

static void round_row(const gw_type *from, const uint8_t *row, size_t k, uint8_t *blocks) {
    const gw_type *to = gw_type_of(GW_Q8_0);
    float x[GW_BLOCK];
    for (size_t i = 0; i < k; i += GW_BLOCK, row += GW_BLOCK * from->bytes, blocks += to->bytes) {
        from->dequantise(row, x, GW_BLOCK);
        to->quantise(x, blocks, GW_BLOCK);
    }
}

DEFINE_ROUND(F32, f32)
DEFINE_ROUND(F16, f16)
DEFINE_ROUND(BF16, bf16)
