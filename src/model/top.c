/* top: the output head where only its greatest logit matters, from about half of the head's bytes.
 *
 * The head is Q8_0 in two planes (kernels.h): row w = h + l, by entry scale * (16 n - 120) and scale * (l - 8). The
 * first pass reads the high plane alone, with narrow activations: A = fl(h . x8) approximates the exact logit
 * E = fl(w . x16), the float that gw_matmul gives. In real numbers
 *   w . x16 - h . x8 = l . x16 + h . (x16 - x8)
 * so by Cauchy-Schwarz it is at most |l| |x16| + |h| |x16 - x8|. Both passes add B = k / 32 terms in float32, each
 * made with at most three roundings from an exact integer. The error of such a sum is at most
 * g = (B + 8) u / (1 - (B + 8) u), u = 2^-24, times the sum of its terms' sizes (Higham, Accuracy and Stability of
 * Numerical Algorithms, section 4.2; the 8 leave room for comparing A + bound in floats), and these are at most
 * |h| |x8| and (|h| + |l|) |x16|. What underflows adds less than 2^-149 * 2^28 to a term. Together
 *   |E - A| <= |h| (|x16 - x8| + g (|x16| + |x8|)) + |l| |x16| (1 + g) + B * 2^-120
 * Norms of rows come with the matrix, those of activations are taken in double; all are rounded up.
 *
 * Then T is the exact logit of the row with the greatest A, and a row whose A + bound is below T cannot be the
 * greatest. All others are computed exactly, and those that are wanted anyway: a sampler changes them before it
 * looks for the greatest, so they are not asked for T. Whatever is not finite excludes nothing, nor do activations
 * so large that floats might overflow. Parts of the matrix are the same for every number of threads. */
#include "model/ops.h"

#include <math.h>
#include <string.h>

/* Parts that threads share, as a rule and at most; panels looked at together; where more than 1 / MOST_EXACT are open,
 * all are computed. */
enum { PARTS = 256, MOST_PARTS = 1024, MOST_STEP = GW_PURE_FLOATS / GW_PANEL, AT_ONCE = 64, MOST_EXACT = 4 };
_Static_assert(MOST_PARTS * MOST_STEP * GW_PANEL >= GW_MAX_VOCAB, "the greatest head");

#define HUGE_NORM 1e28f   /* times f16's largest scale, 128 and the root of any k is below FLT_MAX */

typedef struct { float best; uint32_t row, open; } part;   /* greatest A, where; panels that are not excluded */

typedef struct {
    gw_acts acts;
    const gw_matrix *m;
    float *y;
    float by_high, by_low, least;   /* of the bound: what norms are multiplied with, and what is added */
    float threshold;
    uint32_t panels, step;          /* step: panels of a part */
    const int32_t *exact;           /* rows that are wanted anyway, and no candidates for the greatest */
    int n_exact;
    part part[MOST_PARTS];
} top_job;
_Static_assert(sizeof(top_job) <= GW_JOB_BYTES, "a job's place");

static uint32_t begin_of(const top_job *j, int i) { return (uint32_t)gw_min(i * j->step, j->panels); }

/* --- the bound --- */

/* Squares of the norms of both quantised activations and of their difference. */
static void add_block(const gw_acts *a, size_t b, double *wide, double *narrow, double *gap) {
    for (size_t c = 0; c < GW_BLOCK; c++) {
        double x16 = (double)gw_wide_at(a->q16 + b * GW_BLOCK, c) * a->s16[b];
        double x8 = (double)gw_narrow_at(a->q8 + b * GW_BLOCK, c) * a->s8[b];
        *wide += x16 * x16;
        *narrow += x8 * x8;
        *gap += (x16 - x8) * (x16 - x8);
    }
}

static void set_bound(top_job *j) {
    size_t blocks = j->acts.k / GW_BLOCK;
    double wide = 0, narrow = 0, gap = 0, g = (double)(blocks + 8) * 0x1p-24, up = 1 + 1e-6;
    for (size_t b = 0; b < blocks; b++) add_block(&j->acts, b, &wide, &narrow, &gap);
    wide = sqrt(wide), narrow = sqrt(narrow), gap = sqrt(gap);
    g /= 1 - g;
    j->by_high = (float)((gap + (g + 1e-12) * (wide + narrow)) * up);
    j->by_low = (float)(wide * (1 + g) * up);
    j->least = (float)((double)blocks * 0x1p-120);
    if (!(wide + narrow < HUGE_NORM)) j->by_high = INFINITY;
}

/* A + bound of n rows from `row` on; y holds A. */
static void upper_of(const top_job *j, size_t row, size_t n, float *upper) {
    const float *high = j->m->norms + row, *low = high + gw_ld(j->m->rows), *y = j->y + row;
    for (size_t i = 0; i < n; i++)
        upper[i] = y[i] + (high[i] * j->by_high + low[i] * j->by_low + j->least) * (1 + 1e-6f);
}

/* --- passes --- */

static float greatest_of(const float *x, size_t n) {
    float most[8], greatest = -INFINITY;
    size_t i = 0;
    for (int l = 0; l < 8; l++) most[l] = -INFINITY;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
    for (int l = 0; l < 8; l++) greatest = most[l] > greatest ? most[l] : greatest;
    for (; i < n; i++) greatest = x[i] > greatest ? x[i] : greatest;
    return greatest;
}

/* A of a part. */
static void approximate(const void *ctx, int i, float *out) {
    const top_job *j = ctx;
    uint32_t begin = begin_of(j, i), end = begin_of(j, i + 1);
    GW_KERNEL_INT(planes_high)(j->m->data + begin * (j->m->k / GW_BLOCK) * GW_HIGH_BYTES, (int)(end - begin), &j->acts,
                             out);
}

/* To its rows, and the row where it is greatest. */
static void place_part(void *ctx, int i, const float *a) {
    top_job *j = ctx;
    uint32_t begin = begin_of(j, i), end = begin_of(j, i + 1);
    size_t row = (size_t)begin * GW_PANEL, n = gw_min((size_t)end * GW_PANEL, j->m->rows) - row, at = 0;
    memcpy(j->y + row, a, (size_t)(end - begin) * GW_PANEL * sizeof(float));
    for (int e = 0; e < j->n_exact; e++)
        if ((size_t)j->exact[e] >= row && (size_t)j->exact[e] < row + n) j->y[j->exact[e]] = -INFINITY;
    float best = greatest_of(j->y + row, n);
    while (at + 1 < n && j->y[row + at] != best) at++;
    j->part[i].best = best;
    j->part[i].row = (uint32_t)(row + at);
}

/* Panels of begin … end that have a row which is not excluded, to `list` unless it is NULL; how many. */
static uint32_t open_panels(const top_job *j, uint32_t begin, uint32_t end, uint32_t *list) {
    uint32_t count = 0;
    float upper[AT_ONCE * GW_PANEL], least = j->threshold;
    for (uint32_t p = begin; p < end; p += AT_ONCE) {
        uint32_t n = (uint32_t)gw_min(AT_ONCE, end - p);
        upper_of(j, (size_t)p * GW_PANEL, n * GW_PANEL, upper);
        for (uint32_t i = 0; i < n; i++) {
            const float *u = upper + i * GW_PANEL;
            if (u[0] < least && u[1] < least && u[2] < least && u[3] < least) continue;
            if (list) list[count] = p + i;
            count++;
        }
    }
    return count;
}

static void count_part(void *ctx, int i) {
    top_job *j = ctx;
    j->part[i].open = open_panels(j, begin_of(j, i), begin_of(j, i + 1), NULL);
}

static void exact_panels(const top_job *j, const uint32_t *list, uint32_t n) {
    if (n) GW_KERNEL_INT(planes_some)(j->m->data, j->m->low, list, (int)n, &j->acts, j->y);
}

static void refine_part(void *ctx, int i) {
    const top_job *j = ctx;
    uint32_t list[AT_ONCE], end = begin_of(j, i + 1);
    for (uint32_t p = begin_of(j, i); p < end; p += AT_ONCE) {
        uint32_t last = (uint32_t)gw_min(p + AT_ONCE, end), n = j->part[i].open ? open_panels(j, p, last, list) : 0;
        for (size_t r = (size_t)p * GW_PANEL; r < (size_t)last * GW_PANEL; r++) j->y[r] = -INFINITY;
        exact_panels(j, list, n);
    }
}

/* The exact logit of the row with the greatest A; y holds A as before. */
static float exact_best(const top_job *j, int parts) {
    uint32_t row = j->part[0].row;
    float best = j->part[0].best, kept[GW_PANEL];
    for (int i = 1; i < parts; i++)
        if (j->part[i].best > best) best = j->part[i].best, row = j->part[i].row;
    uint32_t panel = row / GW_PANEL;
    float *y = j->y + (size_t)panel * GW_PANEL;
    memcpy(kept, y, sizeof kept);
    exact_panels(j, &panel, 1);
    float exact = y[row % GW_PANEL];
    memcpy(y, kept, sizeof kept);
    return exact;
}

/* Those that are wanted anyway, one after another: mostly one or two. */
static void exact_rows(const top_job *j) {
    for (int e = 0; e < j->n_exact; e++) {
        uint32_t panel = (uint32_t)j->exact[e] / GW_PANEL;
        if (j->y[j->exact[e]] == -INFINITY) exact_panels(j, &panel, 1);
    }
}

static uint32_t all_rows(gw_ops *o, const float *x, const gw_matrix *m, float *y) {
    gw_matmul(o, x, m->k, 1, &m, &y, 1, true);
    return (uint32_t)(gw_ld(m->rows) / GW_PANEL);
}

static top_job *job_of(gw_ops *o, int slot, const float *x, const gw_matrix *m, float *y) {
    top_job *j = (top_job *)(o->jobs + slot * GW_JOB_BYTES);
    *j = (top_job){ .m = m, .y = y, .panels = (uint32_t)(gw_ld(m->rows) / GW_PANEL) };
    j->step = (uint32_t)gw_min(gw_round_up((j->panels + PARTS - 1) / PARTS, 4), MOST_STEP);
    j->acts = gw_ops_row(o, slot, x, m->k, true, true);
    set_bound(j);
    return j;
}

uint32_t gw_matmul_top(gw_ops *o, const float *x, const gw_matrix *m, const int32_t *exact, int n, float *y) {
    static const gw_pure high = { approximate, place_part };
    if (!m->low) return all_rows(o, x, m, y);
    int slot = gw_pool_slot(o->pool);
    top_job *j = job_of(o, slot, x, m, y);
    j->exact = exact;
    j->n_exact = n;
    int parts = (int)((j->panels + j->step - 1) / j->step);
    uint32_t open = 0;
    gw_parallel_pure(o->pool, &high, j, slot, parts);
    j->threshold = exact_best(j, parts);
    gw_parallel(o->pool, count_part, j, parts);
    for (int i = 0; i < parts; i++) open += j->part[i].open;
    if (open > j->panels / MOST_EXACT) return all_rows(o, x, m, y);
    gw_parallel(o->pool, refine_part, j, parts);
    exact_rows(j);
    return open;
}

void gw_matmul_bounds(gw_ops *o, const float *x, const gw_matrix *m, float *y, float *upper) {
    top_job *j = job_of(o, gw_pool_slot(o->pool), x, m, y);
    GW_KERNEL_INT(planes_high)(m->data, (int)j->panels, &j->acts, y);
    upper_of(j, 0, m->rows, upper);
}
