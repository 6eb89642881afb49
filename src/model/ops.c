/* ops: see ops.h. A product quantises its input once; then threads multiply items of whole panels with the kernel that
 * the table `products` has for the matrix's type. With one row, the calling thread may repeat a late helper's item
 * (base/pure.h). Attention is in attention.c, the two-stage output head in topk.c. */
#include "model/ops.h"
#include "kernels/pack.h"

#include <math.h>
#include <string.h>

static void take_acts(gw_acts *a, int n, size_t k, gw_arena *arena) {
    size_t blocks = gw_acts_stride(n) * (k / GW_BLOCK + 1), items = blocks * GW_BLOCK;
    a->q8 = gw_arena_take(arena, items * sizeof *a->q8);
    a->s8 = gw_arena_take(arena, blocks * sizeof(float));
    a->sum8 = gw_arena_take(arena, blocks * sizeof(int32_t));
    a->half8 = gw_arena_take(arena, blocks * sizeof(int32_t));
    a->q16 = gw_arena_take(arena, items * sizeof *a->q16);
    a->s16 = gw_arena_take(arena, blocks * sizeof(float));
    a->sum16 = gw_arena_take(arena, blocks * sizeof(int32_t));
    a->half16 = gw_arena_take(arena, blocks * sizeof(int32_t));
}

void gw_ops_init(gw_ops *o, gw_pool *pool, uint32_t batch, size_t k_max, uint64_t partials, gw_arena *arena) {
    gw_arena row = { 0 };
    take_acts(&o->acts, 1, k_max, &row);
    o->pool = pool;
    o->place_bytes = GW_JOB_BYTES + gw_round_up((size_t)row.used, GW_ALIGN);
    take_acts(&o->acts, (int)batch, k_max, arena);
    o->places = gw_arena_take(arena, GW_PLACES * o->place_bytes);
    o->partial = gw_arena_take(arena, gw_times(partials, sizeof(float)));
}

void *gw_ops_row(const gw_ops *o, const float *x, size_t k, bool int8, bool int15, gw_acts *acts) {
    uint8_t *place = gw_pure_place(o->pool, o->places, o->place_bytes);
    gw_arena behind = { .base = place + GW_JOB_BYTES, .size = o->place_bytes - GW_JOB_BYTES };
    *acts = (gw_acts){ .n = 1, .k = k, .stride = 1, .x = x, .ldx = k, .sequential = o->acts.sequential };
    take_acts(acts, 1, k, &behind);
    if (int8) GW_KERNEL_INT(quantise_int8)(acts, 0, 0, k);
    if (int15) GW_KERNEL_INT(quantise_int15)(acts, 0, 0, k);
    return place;
}

gw_acts gw_ops_batch(const gw_ops *o, const gw_view *x, size_t k) {
    gw_acts a = o->acts;
    a.n = x->n, a.k = k, a.stride = gw_acts_stride(x->n), a.x = x->at, a.ldx = gw_ld(x->columns);
    return a;
}

enum { NEEDS_INT8 = 1, NEEDS_INT15 = 2 };

#define FORMAT(NAME, name, ...) \
    { GW_##NAME, GW_KERNEL_INT(matmul_##name), GW_KERNEL_INT(matmul_##name##_int15), NEEDS_INT8, NEEDS_INT15 },

static const struct product {
    int type;
    gw_matmul_kernel *int8, *int15;
    int int8_needs, int15_needs;
} products[] = { { GW_F32, GW_KERNEL(matmul_f32), GW_KERNEL(matmul_f32), 0, 0 },
                 { GW_F16, GW_KERNEL(matmul_f16), GW_KERNEL(matmul_f16), 0, 0 },
                 { GW_BF16, GW_KERNEL(matmul_bf16), GW_KERNEL(matmul_bf16), 0, 0 },
                 { GW_Q8_0, GW_KERNEL_INT(matmul_q8_int15), GW_KERNEL_INT(matmul_q8_int15), NEEDS_INT15, NEEDS_INT15 },
                 FORMAT(Q4_0, q4) GW_FORMATS(FORMAT) };

static const struct product *product_of(const gw_matrix *m) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (products[i].type == m->type->id) return &products[i];
    return NULL; /* this line is not reached, because model.c rejects unsupported weight types */
}

enum { MAX_TOGETHER = 3 };

typedef struct {
    gw_acts acts;
    int needs;
    struct {
        const gw_matrix *m;
        gw_matmul_kernel *kernel;
        float *y;
        int first;
    } part[MAX_TOGETHER];
    int count, step;
} matmul_job;

/* Number of columns of activations that a work item quantises, for all rows, so that no two threads write the same
 * cache line. */
enum { QUANTISED_AT_ONCE = 512 };

static void quantise_columns(void *ctx, int item) {
    const matmul_job *j = ctx;
    const gw_acts *a = &j->acts;
    size_t from = (size_t)item * QUANTISED_AT_ONCE, k = gw_min(QUANTISED_AT_ONCE, a->k - from);
    for (int t = 0; t < a->n; t++) {
        if (j->needs & NEEDS_INT8) GW_KERNEL_INT(quantise_int8)(a, t, from, k);
        if (j->needs & NEEDS_INT15) GW_KERNEL_INT(quantise_int15)(a, t, from, k);
    }
}

static int part_of(const matmul_job *j, int item, int *first, int *panels) {
    int i = j->count - 1;
    while (item < j->part[i].first) i--;
    *first = (item - j->part[i].first) * j->step;
    *panels = (int)gw_min(j->step, gw_matrix_panels(j->part[i].m) - *first);
    return i;
}

static void multiply_with(gw_matmul_kernel *kernel, const gw_matrix *m, uint32_t first, int panels, const gw_acts *acts,
                          float *y, size_t ld) {
    if (m->planes.high) GW_KERNEL_INT(planes_whole)(gw_matrix_planes(m, first), panels, acts, y, ld);
    else kernel(m->data + (size_t)first * GW_PANEL * gw_row_bytes(m->type, m->k), panels, acts, y, ld);
}

void gw_multiply_panels(const gw_matrix *m, bool int15, uint32_t first, uint32_t panels, const gw_acts *acts, float *y,
                        size_t ld) {
    const struct product *p = product_of(m);
    multiply_with(int15 ? p->int15 : p->int8, m, first, (int)panels, acts, y, ld);
}

static void multiply(const matmul_job *j, int i, int first, int panels, float *y, size_t ld) {
    multiply_with(j->part[i].kernel, j->part[i].m, (uint32_t)first, panels, &j->acts, y, ld);
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

static void row_put(void *ctx, int item, const float *out) {
    const matmul_job *j = ctx;
    int first, panels, i = part_of(j, item, &first, &panels);
    memcpy(j->part[i].y + first * GW_PANEL, out, (size_t)panels * GW_PANEL * sizeof(float));
}

enum { MOST_PANELS = 256 };
_Static_assert(GW_PURE_FLOATS >= MOST_PANELS * GW_PANEL, "a work item must fit in GW_PURE_FLOATS");

/* Returns a number of panels per work item, small enough to balance threads and large enough for long reads of
 * memory. */
static int panels_per_item(int panels, int threads) {
    int step = panels / (threads * 3) / 8 * 8;
    return step < 8 ? 8 : step > MOST_PANELS ? MOST_PANELS : step;
}

static void matmul_row(gw_ops *o, const float *x, size_t k, matmul_job j, int items) {
    static const gw_pure row = { row_work, row_put };
    _Static_assert(sizeof j <= GW_JOB_BYTES, "matmul_job must fit in GW_JOB_BYTES");
    matmul_job *own = gw_ops_row(o, x, k, j.needs & NEEDS_INT8, j.needs & NEEDS_INT15, &j.acts);
    *own = j;
    gw_parallel_pure(o->pool, &row, own, items);
}

static void matmul_batch(gw_ops *o, const gw_view *x, size_t k, matmul_job j, int items) {
    j.acts = gw_ops_batch(o, x, k);
    if (j.needs) gw_parallel(o->pool, quantise_columns, &j, (int)((k + QUANTISED_AT_ONCE - 1) / QUANTISED_AT_ONCE));
    gw_parallel(o->pool, matmul_item, &j, items);
}

typedef struct {
    matmul_job job;
    const gw_rows *rows;
} some_job;
_Static_assert(sizeof(some_job) <= GW_JOB_BYTES, "some_job must fit in GW_JOB_BYTES");

void gw_multiply_listed(const gw_matrix *m, const uint32_t *list, int n, const gw_acts *acts, float *y) {
    if (m->planes.high && n) GW_KERNEL_INT(planes_some)(m->planes, list, n, acts, y);
    for (int i = 0; i < n && m->data; i++) gw_multiply_panels(m, true, list[i], 1, acts, y + list[i] * GW_PANEL, 0);
}

static void some_item(void *ctx, int item) {
    const some_job *s = ctx;
    uint32_t list[MOST_PANELS];
    int first, panels, n = 0;
    part_of(&s->job, item, &first, &panels);
    for (int p = first; p < first + panels; p++) {
        if (gw_rows_of(s->rows, (uint32_t)p)) list[n++] = (uint32_t)p;
        else
            for (int r = 0; r < GW_PANEL; r++) s->job.part[0].y[p * GW_PANEL + r] = -INFINITY;
    }
    gw_multiply_listed(s->job.part[0].m, list, n, &s->job.acts, s->job.part[0].y);
}

void gw_matmul_some(gw_ops *o, const float *x, const gw_matrix *m, const gw_rows *rows, float *y) {
    const struct product *p = product_of(m);
    gw_acts acts;
    some_job *s = gw_ops_row(o, x, m->k, false, p->int15_needs & NEEDS_INT15, &acts);
    matmul_job j = { .acts = acts, .count = 1, .step = panels_per_item(gw_matrix_panels(m), gw_pool_threads(o->pool)) };
    j.part[0].m = m;
    j.part[0].y = y;
    *s = (some_job){ j, rows };
    gw_parallel(o->pool, some_item, s, (gw_matrix_panels(m) + j.step - 1) / j.step);
}

void gw_matmul(gw_ops *o, const gw_view *x, const gw_matrix *const *m, float *const *y, int count, bool int15) {
    matmul_job j = { .count = count };
    int panels = 0, items = 0;
    /* Products that read float activations directly cannot use gw_parallel_pure, because the floats change after the
     * call. */
    bool pure = true;
    for (int i = 0; i < count; i++) panels += gw_matrix_panels(m[i]);
    j.step = panels_per_item(panels, gw_pool_threads(o->pool));
    for (int i = 0; i < count; i++) {
        const struct product *p = product_of(m[i]);
        int needs = int15 ? p->int15_needs : p->int8_needs;
        j.part[i].m = m[i];
        j.part[i].kernel = int15 ? p->int15 : p->int8;
        j.part[i].y = y[i];
        j.part[i].first = items;
        items += (gw_matrix_panels(m[i]) + j.step - 1) / j.step;
        j.needs |= needs;
        pure &= needs != 0;
    }
    if (x->n == 1 && pure) matmul_row(o, x->at, m[0]->k, j, items);
    else matmul_batch(o, x, m[0]->k, j, items);
}
