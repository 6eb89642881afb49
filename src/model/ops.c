/* ops: see ops.h. Attention has a file of its own. */
#include "model/ops.h"
#include "kernels/pack.h"

#include <math.h>
#include <string.h>

void gw_ops_init(gw_ops *o, gw_pool *pool, uint32_t batch, size_t k_max, uint64_t partials, gw_arena *arena) {
    size_t rows = gw_acts_stride((int)gw_max(batch, GW_SLOTS));
    o->row_blocks = k_max / GW_BLOCK + 1;
    size_t blocks = rows * o->row_blocks, items = blocks * GW_BLOCK;
    o->pool = pool;
    o->acts.q8 = gw_arena_take(arena, items * sizeof *o->acts.q8);
    o->acts.s8 = gw_arena_take(arena, blocks * sizeof(float));
    o->acts.sum8 = gw_arena_take(arena, blocks * sizeof(int32_t));
    o->acts.half8 = gw_arena_take(arena, blocks * sizeof(int32_t));
    o->acts.q16 = gw_arena_take(arena, items * sizeof *o->acts.q16);
    o->acts.s16 = gw_arena_take(arena, blocks * sizeof(float));
    o->acts.sum16 = gw_arena_take(arena, blocks * sizeof(int32_t));
    o->acts.half16 = gw_arena_take(arena, blocks * sizeof(int32_t));
    o->jobs = gw_arena_take(arena, GW_SLOTS * GW_JOB_BYTES);
    o->partial = gw_arena_take(arena, gw_times(partials, sizeof(float)));
}

gw_acts gw_ops_row(const gw_ops *o, int slot, const float *x, size_t k, bool narrow, bool wide) {
    size_t block = slot * o->row_blocks, item = block * GW_BLOCK;
    gw_acts a = o->acts;
    a.n = a.stride = 1;
    a.x = x;
    a.k = a.ldx = k;
    a.q8 += item, a.s8 += block, a.sum8 += block, a.half8 += block;
    a.q16 += item, a.s16 += block, a.sum16 += block, a.half16 += block;
    if (narrow) GW_KERNEL_INT(narrow)(&a, 0, 0, k);
    if (wide) GW_KERNEL_INT(wide)(&a, 0, 0, k);
    return a;
}

/* --- matrix products --- */

enum { NEEDS_NARROW = 1, NEEDS_WIDE = 2 };

#define FORMAT(NAME, name, ...) \
    { GW_##NAME, GW_KERNEL_INT(matmul_##name), GW_KERNEL_INT(matmul_##name##_wide), NEEDS_NARROW, NEEDS_WIDE },

/* The one table of matrix kernels. */
static const struct product {
    int type;
    gw_matmul_kernel *narrow, *wide;   /* equal where there is only one */
    int narrow_needs, wide_needs;
} products[] = {
    { GW_F32, GW_KERNEL(matmul_f32), GW_KERNEL(matmul_f32), 0, 0 },
    { GW_F16, GW_KERNEL(matmul_f16), GW_KERNEL(matmul_f16), 0, 0 },
    { GW_BF16, GW_KERNEL(matmul_bf16), GW_KERNEL(matmul_bf16), 0, 0 },
    { GW_Q4_0, GW_KERNEL_INT(matmul_q4), GW_KERNEL_INT(matmul_q4_wide), NEEDS_NARROW, NEEDS_WIDE },
    { GW_Q8_0, GW_KERNEL_INT(matmul_q8_wide), GW_KERNEL_INT(matmul_q8_wide), NEEDS_WIDE, NEEDS_WIDE },
    GW_FORMATS(FORMAT)
};

static const struct product *product_of(const gw_matrix *m) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (products[i].type == m->type->id) return &products[i];
    return NULL;   /* not reached: the model refuses types that cannot be packed */
}

enum { MAX_TOGETHER = 3 };

typedef struct {
    gw_acts acts;
    int needs;
    struct { const gw_matrix *m; gw_matmul_kernel *kernel; float *y; int first; } part[MAX_TOGETHER];
    int count, step;      /* step: panels per item */
} matmul_job;

enum { QUANTISED_AT_ONCE = 512 };   /* columns, of all rows: threads write lines of their own */

static void quantise_columns(void *ctx, int item) {
    const matmul_job *j = ctx;
    const gw_acts *a = &j->acts;
    size_t from = (size_t)item * QUANTISED_AT_ONCE, k = gw_min(QUANTISED_AT_ONCE, a->k - from);
    for (int t = 0; t < a->n; t++) {
        if (j->needs & NEEDS_NARROW) GW_KERNEL_INT(narrow)(a, t, from, k);
        if (j->needs & NEEDS_WIDE) GW_KERNEL_INT(wide)(a, t, from, k);
    }
}

static int panels_of(const gw_matrix *m) { return (int)((m->rows + GW_PANEL - 1) / GW_PANEL); }

/* Which part an item is of; its panels. */
static int part_of(const matmul_job *j, int item, int *first, int *panels) {
    int i = j->count - 1;
    while (item < j->part[i].first) i--;
    *first = (item - j->part[i].first) * j->step;
    *panels = (int)gw_min(j->step, panels_of(j->part[i].m) - *first);
    return i;
}

/* y[n][ld]: the columns of an item */
static void multiply(const matmul_job *j, int i, int first, int panels, float *y, size_t ld) {
    const gw_matrix *m = j->part[i].m;
    if (m->low) {
        size_t at = first * (m->k / GW_BLOCK);
        GW_KERNEL_INT(planes_whole)(m->data + at * GW_HIGH_BYTES, m->low + at * GW_LOW_BYTES, panels, &j->acts, y, ld);
        return;
    }
    const uint8_t *w = m->data + (size_t)first * GW_PANEL * gw_row_bytes(m->type, m->k);
    j->part[i].kernel(w, panels, &j->acts, y, ld);
}

static void matmul_item(void *ctx, int item) {
    const matmul_job *j = ctx;
    int first, panels, i = part_of(j, item, &first, &panels);
    multiply(j, i, first, panels, j->part[i].y + first * GW_PANEL, gw_ld(j->part[i].m->rows));
}

static void row_work(const void *ctx, int item, float *out) {
    const matmul_job *j = ctx;
    int first, panels, i = part_of(j, item, &first, &panels);
    multiply(j, i, first, panels, out, 0);
}

static void row_place(void *ctx, int item, const float *out) {
    const matmul_job *j = ctx;
    int first, panels, i = part_of(j, item, &first, &panels);
    memcpy(j->part[i].y + first * GW_PANEL, out, (size_t)panels * GW_PANEL * sizeof(float));
}

enum { MOST_PANELS = 256 };   /* of an item */
_Static_assert(MOST_PANELS * GW_PANEL <= GW_PURE_FLOATS, "an item of one row");

/* Items small enough to balance threads, large enough to stream. */
static int panels_per_item(int panels, int threads) {
    int step = panels / (threads * 6) / 8 * 8;
    return step < 8 ? 8 : step > MOST_PANELS ? MOST_PANELS : step;
}

/* Products that read floats themselves are not pure: others write these next. */
static void matmul_row(gw_ops *o, const float *x, size_t k, matmul_job j, int items, bool pure) {
    static const gw_pure row = { row_work, row_place };
    _Static_assert(sizeof j <= GW_JOB_BYTES, "a job's place");
    int slot = gw_pool_slot(o->pool);
    matmul_job *own = (matmul_job *)(o->jobs + slot * GW_JOB_BYTES);
    j.acts = gw_ops_row(o, slot, x, k, j.needs & NEEDS_NARROW, j.needs & NEEDS_WIDE);
    *own = j;
    if (pure) gw_parallel_pure(o->pool, &row, own, slot, items);
    else gw_parallel(o->pool, matmul_item, own, items);
}

static void matmul_batch(gw_ops *o, const float *x, size_t ldx, int n, size_t k, matmul_job j, int items) {
    gw_pool_settle(o->pool);
    j.acts = o->acts;
    j.acts.n = n;
    j.acts.k = k;
    j.acts.stride = gw_acts_stride(n);
    j.acts.x = x;
    j.acts.ldx = ldx;
    if (j.needs)
        gw_parallel(o->pool, quantise_columns, &j, (int)((k + QUANTISED_AT_ONCE - 1) / QUANTISED_AT_ONCE));
    gw_parallel(o->pool, matmul_item, &j, items);
}

void gw_matmul(gw_ops *o, const float *x, size_t ldx, int n, const gw_matrix *const *m, float *const *y,
               int count, bool wide) {
    matmul_job j = { .count = count };
    int panels = 0, items = 0;
    bool pure = true;
    for (int i = 0; i < count; i++) panels += panels_of(m[i]);
    j.step = panels_per_item(panels, gw_pool_threads(o->pool));
    for (int i = 0; i < count; i++) {
        const struct product *p = product_of(m[i]);
        int needs = wide ? p->wide_needs : p->narrow_needs;
        j.part[i].m = m[i];
        j.part[i].kernel = wide ? p->wide : p->narrow;
        j.part[i].y = y[i];
        j.part[i].first = items;
        items += (panels_of(m[i]) + j.step - 1) / j.step;
        j.needs |= needs;
        pure &= needs != 0;
    }
    if (n == 1) matmul_row(o, x, m[0]->k, j, items, pure);
    else matmul_batch(o, x, ldx, n, m[0]->k, j, items);
}

void gw_matrix_row(const gw_matrix *m, size_t row, float *out) {
    if (m->low) gw_unpack_planes(m->data, m->low, row, m->k, out);
    else gw_unpack_row(m->type, m->data, row, m->k, out);
}

/* --- element-wise, token by token --- */

typedef struct {
    const float *x, *w;
    float *out;
    size_t ldx, ldo;
    int heads, d;
    float eps;
    bool add;
} norm_job;

static void norm_token(void *ctx, int t) {
    const norm_job *j = ctx;
    for (int h = 0; h < j->heads; h++) {
        const float *x = j->x + t * j->ldx + (size_t)h * j->d;
        float *out = j->out + t * j->ldo + (size_t)h * j->d;
        float part[8] = { 0 };   /* eight sums: fast, and the order is the same everywhere */
        int i = 0;
        for (; i + 8 <= j->d; i += 8)
            for (int l = 0; l < 8; l++) part[l] += x[i + l] * x[i + l];
        for (; i < j->d; i++) part[0] += x[i] * x[i];
        float sum = ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
        float scale = 1.0f / sqrtf(sum / (float)j->d + j->eps);
        if (j->add)
            for (i = 0; i < j->d; i++) out[i] += x[i] * scale * j->w[i];
        else
            for (i = 0; i < j->d; i++) out[i] = x[i] * scale * j->w[i];
    }
}

void gw_rmsnorm(gw_ops *o, const float *x, size_t ldx, const float *w, int n, int heads, int d, float eps,
                bool add, float *out, size_t ldo) {
    norm_job j = { x, w, out, ldx, ldo, heads, d, eps, add };
    gw_parallel(o->pool, norm_token, &j, n);
}

void gw_rope_angles(float *angles, int n, uint32_t pos, int d, double base, double position_scale) {
    int half = d / 2;
    double ratio = pow(base, -2.0 / d), frequency = 1.0;
    for (int i = 0; i < half; i++, frequency *= ratio)
        for (int t = 0; t < n; t++) {
            double angle = (pos + t) * position_scale * frequency;
            angles[(size_t)t * d + i] = (float)cos(angle);
            angles[(size_t)t * d + half + i] = (float)sin(angle);
        }
}

typedef struct {
    float *x;
    const float *angles;
    size_t ldx;
    int heads, d;
    float scale;
} rope_job;

static void rope_token(void *ctx, int t) {
    const rope_job *j = ctx;
    int half = j->d / 2;
    const float *c = j->angles + (size_t)t * j->d, *s = c + half;
    for (int h = 0; h < j->heads; h++) {
        float *a = j->x + t * j->ldx + (size_t)h * j->d, *b = a + half;
        for (int i = 0; i < half; i++) {
            float u = a[i], v = b[i];
            a[i] = (u * c[i] - v * s[i]) * j->scale;
            b[i] = (v * c[i] + u * s[i]) * j->scale;
        }
    }
}

void gw_rope(gw_ops *o, float *x, size_t ldx, int n, int heads, int d, const float *angles, float scale) {
    rope_job j = { x, angles, ldx, heads, d, scale };
    gw_parallel(o->pool, rope_token, &j, n);
}

typedef struct {
    float *gate;
    const float *up;
    size_t items, step;
} geglu_job;

/* gelu_tanh(x) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks & Gimpel 2016) */
static void geglu_part(void *ctx, int part) {
    const geglu_job *j = ctx;
    size_t first = part * j->step, last = gw_min(first + j->step, j->items);
    for (size_t i = first; i < last; i++) {
        float x = j->gate[i];
        float u = 0.7978845608f * (x + 0.044715f * (x * x * x));
        j->gate[i] = x / (1.0f + gw_exp(-2.0f * u)) * j->up[i];
    }
}

void gw_geglu(gw_ops *o, float *gate, const float *up, int n, size_t width) {
    size_t items = (size_t)n * width;
    geglu_job j = { gate, up, items, gw_max(1024, gw_round_up(items / 16, 16)) };
    gw_parallel(o->pool, geglu_part, &j, (int)((items + j.step - 1) / j.step));
}
