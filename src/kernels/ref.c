/* ref: the specification of kernels.h in plain C. Written to be read, not to be fast. */
#include "kernels/kernels.h"
#include "file/types.h"

#include <math.h>
#include <string.h>

static uint16_t read16(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return h;
}

static float element_f32(const uint8_t *w, size_t i) {
    float f;
    memcpy(&f, w + 4 * i, 4);
    return f;
}
static float element_f16(const uint8_t *w, size_t i) { return gw_f16_to_f32(read16(w + 2 * i)); }
static float element_bf16(const uint8_t *w, size_t i) { return gw_bf16_to_f32(read16(w + 2 * i)); }

/* y[t][r] = sum over k, first to last, of w[r][k] * x[t][k] */
static void matmul_float(const uint8_t *w, size_t item, float (*element)(const uint8_t *, size_t),
                         int panels, const gw_acts *a, float *y, size_t ldy) {
    for (int p = 0; p < panels; p++) {
        const uint8_t *panel = w + (size_t)p * GW_PANEL * a->k * item;
        for (int t = 0; t < a->n; t++)
            for (int r = 0; r < GW_PANEL; r++) {
                float sum = 0;
                for (size_t k = 0; k < a->k; k++)
                    sum += element(panel, k * GW_PANEL + r) * a->x[t * a->ldx + k];
                y[t * ldy + p * GW_PANEL + r] = sum;
            }
    }
}

void gw_ref_matmul_f32(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_float(w, 4, element_f32, panels, a, y, ldy);
}

void gw_ref_matmul_f16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_float(w, 2, element_f16, panels, a, y, ldy);
}

void gw_ref_matmul_bf16(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_float(w, 2, element_bf16, panels, a, y, ldy);
}

/* --- activations as kernels have them --- */

typedef struct {
    int32_t (*at)(const gw_acts *a, int t, size_t column);
    const float *scale;
} activations;

static size_t block_of(const gw_acts *a, int t, size_t column) { return column / GW_BLOCK * a->stride + t; }
static int32_t narrow_at(const gw_acts *a, int t, size_t column) {
    return gw_narrow_at(a->q8 + block_of(a, t, column) * GW_BLOCK, column % GW_BLOCK);
}
static int32_t wide_at(const gw_acts *a, int t, size_t column) {   /* in this order in all builds */
    return a->q16[block_of(a, t, column) * GW_BLOCK + GW_WIDE_ORDER(column % GW_BLOCK)];
}

#define NARROW(a) (activations){ narrow_at, (a)->s8 }
#define WIDE(a) (activations){ wide_at, (a)->s16 }

/* --- Q4_0 and Q8_0 --- */

typedef int code_at(const uint8_t *block, int r, int c);

static int q4_at(const uint8_t *block, int r, int c) {
    int byte = block[8 + c % 16 / 4 * 16 + 4 * r + c % 4];
    return (c < 16 ? byte & 15 : byte >> 4) - 8;
}

static int q8_at(const uint8_t *block, int r, int c) { return (int8_t)block[8 + c / 4 * 16 + 4 * r + c % 4]; }

static float row_dot(const uint8_t *block, size_t bytes, code_at *at, int r, const gw_acts *a, activations x, int t) {
    float total = 0;
    for (size_t i = 0; i < a->k; i += GW_BLOCK, block += bytes) {
        int32_t sum = 0;
        for (int c = 0; c < GW_BLOCK; c++) sum += at(block, r, c) * x.at(a, t, i + c);
        total += (float)sum * (gw_f16_to_f32(read16(block + 2 * r)) * x.scale[block_of(a, t, i)]);
    }
    return total;
}

static void matmul_blocks(size_t bytes, code_at *at, activations x, const uint8_t *w, int panels, const gw_acts *a,
                          float *y, size_t ldy) {
    for (int p = 0; p < panels; p++, w += a->k / GW_BLOCK * bytes)
        for (int t = 0; t < a->n; t++)
            for (int r = 0; r < GW_PANEL; r++) y[t * ldy + p * GW_PANEL + r] = row_dot(w, bytes, at, r, a, x, t);
}

void gw_ref_matmul_q4(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_blocks(GW_Q4_BYTES, q4_at, NARROW(a), w, panels, a, y, ldy);
}

void gw_ref_matmul_q4_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_blocks(GW_Q4_BYTES, q4_at, WIDE(a), w, panels, a, y, ldy);
}

void gw_ref_matmul_q8_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {
    matmul_blocks(GW_Q8_BYTES, q8_at, WIDE(a), w, panels, a, y, ldy);
}

/* --- the types of formats.h --- */

/* Proofs at load use these: apart, none of them works so long that an engine stops to optimise it. */
#define APART static __attribute__((noinline))

/* A row of a packed group, and what its blocks' halves have where each has a scale. */
typedef struct {
    int value[GW_MAX_ITEMS];
    float scale[GW_MAX_SUBS], min[GW_MAX_SUBS], d, m;
    int8_t small[GW_MAX_SUBS], small_min[GW_MAX_SUBS];
} open_row;

APART void open_group(const gw_format *f, const uint8_t *group, int r, open_row *row) {
    uint8_t code[GW_MAX_ITEMS], front[GW_MAX_FRONT];
    gw_format_unpack(f, group, r, code, row->scale, row->min);
    for (uint32_t c = 0; c < f->items; c++) row->value[c] = f->values ? f->values[code[c]] : code[c] - (int)f->offset;
    if (f->sub == GW_BLOCK) return;
    gw_format_front(f, group, r, front);
    f->smalls(front, row->small, row->small_min);
    row->d = gw_f16_to_f32(read16(front));
    row->m = f->mins ? gw_f16_to_f32(read16(front + 2)) : 0;
}

/* A token's activations of as many columns. */
typedef struct {
    int32_t q[GW_MAX_ITEMS];
    float scale[GW_MAX_ITEMS / GW_BLOCK];
} open_acts;

static void open_columns(const gw_acts *a, activations x, int t, size_t column, uint32_t n, open_acts *out) {
    for (uint32_t c = 0; c < n; c++) out->q[c] = x.at(a, t, column + c);
    for (uint32_t i = 0; i < n / GW_BLOCK; i++) out->scale[i] = x.scale[block_of(a, t, column + i * GW_BLOCK)];
}

/* total + the product of a row with activations. */
APART float group_dot(const gw_format *f, const open_row *row, const open_acts *x, float total) {
    for (uint32_t i = 0; i < f->items; i += GW_BLOCK) {
        float s = x->scale[i / GW_BLOCK];
        int32_t dot = 0, sum = 0;
        for (uint32_t c = i; c < i + GW_BLOCK; c++) {
            dot += row->value[c] * x->q[c];
            sum += x->q[c];
        }
        total += (float)dot * (row->scale[i / GW_BLOCK] * s);
        if (f->mins) total += row->min[i / GW_BLOCK] * (s * (float)sum);
    }
    return total;
}

/* The same where each half of a block has a scale: they are small integers, and the block is summed in integers. */
APART float halves_dot(const gw_format *f, const open_row *row, const open_acts *x, float total) {
    for (uint32_t i = 0; i < f->items; i += GW_BLOCK) {
        float s = x->scale[i / GW_BLOCK];
        int32_t dot = 0, sum = 0;
        for (uint32_t h = i; h < i + GW_BLOCK; h += f->sub) {
            int32_t half = 0, part = 0;
            for (uint32_t c = h; c < h + f->sub; c++) {
                half += row->value[c] * x->q[c];
                part += x->q[c];
            }
            dot += row->small[h / f->sub] * half;
            if (f->mins) sum += row->small_min[h / f->sub] * part;
        }
        total += (float)dot * (row->d * s);
        if (f->mins) total += -row->m * (s * (float)sum);
    }
    return total;
}

/* One panel; y of its rows. */
static void panel_product(const gw_format *f, activations x, const uint8_t *w, const gw_acts *a, float *y, size_t ldy) {
    open_row row[GW_PANEL];
    open_acts taken;
    for (int t = 0; t < a->n; t++)
        for (int r = 0; r < GW_PANEL; r++) y[t * ldy + r] = 0;
    for (size_t column = 0; column < a->k; column += f->items, w += GW_PANEL * f->bytes) {
        for (int r = 0; r < GW_PANEL; r++) open_group(f, w, r, &row[r]);
        for (int t = 0; t < a->n; t++) {
            open_columns(a, x, t, column, f->items, &taken);
            for (int r = 0; r < GW_PANEL; r++) {
                float *at = y + t * ldy + r;
                *at = (f->sub < GW_BLOCK ? halves_dot : group_dot)(f, &row[r], &taken, *at);
            }
        }
    }
}

static void matmul_format(const gw_format *f, activations x, const uint8_t *w, int panels, const gw_acts *a,
                          float *y, size_t ldy) {
    size_t bytes = a->k / f->items * GW_PANEL * f->bytes;
    for (int p = 0; p < panels; p++) panel_product(f, x, w + p * bytes, a, y + p * GW_PANEL, ldy);
}

#define DEFINE_FORMAT(NAME, name, ...)                                                                            \
    void gw_ref_matmul_##name(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {             \
        matmul_format(gw_format_of(GW_##NAME), NARROW(a), w, panels, a, y, ldy);          \
    }                                                                                                             \
    void gw_ref_matmul_##name##_wide(const uint8_t *w, int panels, const gw_acts *a, float *y, size_t ldy) {      \
        matmul_format(gw_format_of(GW_##NAME), WIDE(a), w, panels, a, y, ldy);           \
    }
GW_FORMATS(DEFINE_FORMAT)

/* --- activations --- */

/* Largest magnitude of a block; NaN if there is one in it. */
static float largest_of(const float *x) {
    float largest = 0;
    for (int c = 0; c < GW_BLOCK; c++)
        if (!(fabsf(x[c]) <= largest)) largest = largest == largest ? fabsf(x[c]) : largest;
    return largest;
}

/* A block as integers, its scale and sums. Where a number is NaN the scale is, and so is what it is multiplied to. */
static void quantise(const float *x, float top, int16_t *q, float *scale, int32_t *sum, int32_t *half) {
    float largest = largest_of(x), inverse = largest > GW_TINY ? top / largest : 0;
    *sum = 0;
    for (int c = 0; c < GW_BLOCK; c++) {
        *sum += q[c] = (int16_t)rintf(fmaxf(-top, fminf(top, x[c] * inverse)));
        if (c == GW_BLOCK / 2 - 1) *half = *sum;
    }
    *scale = largest / top;
}

void gw_ref_narrow(const gw_acts *a, int t, size_t from, size_t k) {
    int16_t q[GW_BLOCK];
    for (size_t i = from; i < from + k; i += GW_BLOCK) {
        size_t at = block_of(a, t, i);
        quantise(a->x + t * a->ldx + i, GW_NARROW_TOP, q, a->s8 + at, a->sum8 + at, a->half8 + at);
        for (int c = 0; c < GW_BLOCK; c++)
            a->q8[at * GW_BLOCK + (sizeof(gw_narrow) == 1 ? c : GW_WIDE_ORDER(c))] = (gw_narrow)q[c];
    }
}

void gw_ref_wide(const gw_acts *a, int t, size_t from, size_t k) {
    int16_t q[GW_BLOCK];
    for (size_t i = from; i < from + k; i += GW_BLOCK) {
        size_t at = block_of(a, t, i);
        quantise(a->x + t * a->ldx + i, GW_WIDE_TOP, q, a->s16 + at, a->sum16 + at, a->half16 + at);
        for (int c = 0; c < GW_BLOCK; c++) a->q16[at * GW_BLOCK + GW_WIDE_ORDER(c)] = q[c];
    }
}

/* --- attention --- */

typedef float item_of(const uint8_t *row, int i, int d);

static float item_f32(const uint8_t *row, int i, int d) { return (void)d, element_f32(row, (size_t)i); }
static float item_q8(const uint8_t *row, int i, int d) {
    return element_bf16(row + d, (size_t)i / GW_BLOCK) * (float)(int8_t)row[i];
}

static void scores(item_of *item, const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d,
                   float *out) {
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n; j++) {
            float part[4] = { 0 };
            for (int i = 0; i < d; i++) part[i % 4] += ((const float *)q[h])[i] * item(keys + j * stride, i, d);
            out[h * GW_SPAN + j] = (part[0] + part[1]) + (part[2] + part[3]);
        }
}

static void mix(item_of *item, const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,
                float *const *out) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < d; i++) {
            for (int j = 0; j < n; j++) out[h][i] += p[h * GW_SPAN + j] * item(values + j * stride, i, d);
        }
}

#define DEFINE_ATTENTION(type)                                                                                   \
    void gw_ref_scores_##type(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d, \
                              float *out) {                                                                      \
        scores(item_##type, q, heads, keys, stride, n, d, out);                                                  \
    }                                                                                                            \
    void gw_ref_mix_##type(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,        \
                           float *const *out) {                                                                  \
        mix(item_##type, p, heads, values, stride, n, d, out);                                                   \
    }
DEFINE_ATTENTION(f32)
DEFINE_ATTENTION(q8)

static int32_t int_of(const uint8_t *row, int i) { return (int16_t)read16(row + 2 * i); }
static float scale_of(const uint8_t *row, int d) { return element_f32(row + 2 * d, 0); }

void gw_ref_scores_i16(const void *const *q, int heads, const uint8_t *keys, size_t stride, int n, int d,
                       float *out) {
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < n; j++) {
            const uint8_t *key = keys + j * stride;
            int32_t sum[GW_I16_LANES] = { 0 };
            for (int i = 0; i < d; i++) sum[i / 2 % GW_I16_LANES] += int_of(q[h], i) * int_of(key, i);
            float total = ((float)sum[0] + (float)sum[1]) + ((float)sum[2] + (float)sum[3]);
            out[h * GW_SPAN + j] = total * (scale_of(q[h], d) * scale_of(key, d));
        }
}

/* The weights w[n] as integers; returns their step. */
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

void gw_ref_mix_i16(const float *p, int heads, const uint8_t *values, size_t stride, int n, int d,
                    float *const *out) {
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

static void round_row(int type, const uint8_t *row, size_t k, uint8_t *blocks) {
    const gw_type *from = gw_type_of((uint32_t)type), *to = gw_type_of(GW_Q8_0);
    float x[GW_BLOCK];
    for (size_t i = 0; i < k; i += GW_BLOCK, row += GW_BLOCK * from->bytes, blocks += to->bytes) {
        from->dequantise(row, x, GW_BLOCK);
        to->quantise(x, blocks, GW_BLOCK);
    }
}

void gw_ref_round_f32(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(GW_F32, row, k, blocks); }
void gw_ref_round_f16(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(GW_F16, row, k, blocks); }
void gw_ref_round_bf16(const uint8_t *row, size_t k, uint8_t *blocks) { round_row(GW_BF16, row, k, blocks); }
