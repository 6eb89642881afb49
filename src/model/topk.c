/* topk: see topk.h. Finds the greatest logits without reading all of the output matrix's bytes.
 *
 * Q8_0 is stored in planes (kernels.h): row w = h + l, an approximation by the upper bits and the remainder. The first
 * pass reads the high plane. If more than the greatest logit is needed, the threshold is lower and excludes fewer
 * rows, so the first pass reads the middle plane too, if there is one: its two bits divide |l| by 4. For other types,
 * the first pass reads all bits (h = w, l = 0), and is faster than the exact product, as its activations are int8.
 * A = fl(h . x8) approximates the exact logit E = fl(w . x16), the float that gw_matmul gives. In real numbers
 *   w . x16 - h . x8 = l . x16 + h . (x16 - x8)
 * so by Cauchy-Schwarz the difference is at most |l| |x16| + |h| |x16 - x8|. Both passes add B terms in float32, k / 32
 * or, with mins, twice as many, each made with at most three roundings from an exact integer. The error of such a sum
 * is at most g = (B + 8) u / (1 - (B + 8) u), u = 2^-24, times the sum of its terms' sizes (Higham, Accuracy and
 * Stability of Numerical Algorithms, section 4.2; the 8 leave room for comparing A + bound in floats). The sums of the
 * sizes are at most |h| |x8| and (|h| + |l|) |x16|. Underflow adds less than 2^-149 * 2^31 to a term. Together
 *   |E - A| <= |h| (|x16 - x8| + g (|x16| + |x8|)) + |l| |x16| (1 + g) + B * 2^-117
 * For types without planes, |h| is the norm of a row's greatest possible |scale * value| + |min|. It can be read from
 * the scales and mins alone, and it also bounds terms that cancel. For an approximation by two planes, |h| is at most
 * the sum of three stored norms: of the high plane's part, and of the errors without and with the middle plane.
 * Norms of rows are stored with the matrix, norms of activations are computed in double; all are rounded up.
 *
 * To find the n greatest logits, the matrix is split into parts, the same for every number of threads. In each part,
 * the row with the greatest A is the best one. T is the least exact logit of the best rows of the n parts whose best
 * rows have the greatest A. A row whose A + bound is below T cannot be among the n greatest. The second pass computes
 * all other rows exactly. It also computes the required rows, which do not count for T, because the sampler changes
 * their logits before comparing. Values that are not finite, and activations so large that floats might overflow,
 * exclude nothing.
 *
 * A soft cap can make logits equal (then the lowest id wins), and can even swap neighbours, because a capped float has
 * an error of at most e = GW_CAP_ERROR * cap. So T is replaced by the T' whose cap * tanh(T' / cap), in real numbers,
 * is more than 2 e below the capped float of T: rows below T' get a lesser capped float and cannot tie. The least T' of
 * the n rows counts, because the cap may change their order. */
#include "model/topk.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* PARTS, MOST_PARTS: usual and maximum number of parts of the output matrix; MOST_STEP: maximum number of panels in a
 * part; AT_ONCE: panels whose bounds are computed together; AT_ONCE_ROWS: rows of activations that a kernel multiplies
 * side by side. */
enum { PARTS = 256, MOST_PARTS = 1024, MOST_STEP = GW_PURE_FLOATS / GW_PANEL, AT_ONCE = 64, AT_ONCE_ROWS = 8 };
_Static_assert(MOST_PARTS * MOST_STEP * GW_PANEL >= GW_MAX_VOCAB,
               "the parts must cover a vocabulary of GW_MAX_VOCAB tokens");

/* If the norms of the int8 and int15 activations add up to less than HUGE_NORM, no sum of products can overflow:
 * HUGE_NORM times f16's largest scale, times 4096, the greatest quotient of a weight and that scale, times the square
 * root of the maximum row length, is below FLT_MAX. */
#define HUGE_NORM 1e28f

typedef struct {
    float best;
    uint32_t row, open;
} part; /* best, row: a part's greatest approximate logit and its row; open: number of panels that are not excluded */

typedef struct {
    gw_acts acts;
    const gw_matrix *m;
    float *y, *out;
    bool upper;                    /* whether the first pass reads the middle plane too */
    float by_most, by_rest, least; /* error bound of approximate logits: factors of |h| and |l|, and constant term */
    float cap, threshold;
    uint32_t panels, step;
    int parts;
    gw_topk want;
    part part[MOST_PARTS];
} topk_job;
_Static_assert(sizeof(topk_job) <= GW_JOB_BYTES, "topk_job must fit in GW_JOB_BYTES");

static uint32_t begin_of(const topk_job *j, int i) { return (uint32_t)gw_min(i * j->step, j->panels); }

/* --- the soft cap of logits --- */

enum { CAPPED_AT_ONCE = 4096 };

typedef struct {
    float *x;
    size_t n;
    float cap;
} cap_job;

static void cap_item(void *ctx, int i) {
    const cap_job *j = ctx;
    size_t from = (size_t)i * CAPPED_AT_ONCE;
    GW_KERNEL(soft_cap)(j->x + from, (int)gw_min(CAPPED_AT_ONCE, j->n - from), j->cap);
}

void gw_soft_cap(gw_ops *o, float *x, size_t n, float cap) {
    cap_job j = { x, n, cap };
    if (cap > 0) gw_parallel(o->pool, cap_item, &j, (int)((n + CAPPED_AT_ONCE - 1) / CAPPED_AT_ONCE));
}

/* Returns the value below which all logits, once capped, are less than the capped `logit`. The factor 2.1 covers the
 * errors of two soft caps, each GW_CAP_ERROR, and rounding. */
static float threshold_of(float logit, float cap) {
    if (!(cap > 0)) return logit;
    double t = (double)gw_capped(logit, cap) / cap - 2.1 * GW_CAP_ERROR;
    return t > -1 ? (float)(cap * atanh(t)) : -INFINITY;
}

/* --- upper bounds of logits --- */

static void add_block(const gw_acts *a, size_t b, double *int15, double *int8, double *gap) {
    for (size_t c = 0; c < GW_BLOCK; c++) {
        double x16 = (double)gw_int15_at(a->q16 + b * GW_BLOCK, c) * a->s16[b];
        double x8 = (double)gw_int8_at(a->q8 + b * GW_BLOCK, c) * a->s8[b];
        *int15 += x16 * x16;
        *int8 += x8 * x8;
        *gap += (x16 - x8) * (x16 - x8);
    }
}

static void set_bound(topk_job *j) {
    size_t blocks = j->acts.k / GW_BLOCK, terms = 2 * blocks;
    double int15 = 0, int8 = 0, gap = 0, g = (double)(terms + 8) * 0x1p-24, up = 1 + 1e-6;
    for (size_t b = 0; b < blocks; b++) add_block(&j->acts, b, &int15, &int8, &gap);
    int15 = sqrt(int15), int8 = sqrt(int8), gap = sqrt(gap);
    g /= 1 - g;
    j->by_most = (float)((gap + (g + 1e-12) * (int15 + int8)) * up);
    j->by_rest = j->m->planes.high ? (float)(int15 * (1 + g) * up) : 0;
    j->least = (float)((double)terms * 0x1p-117);
    if (!(int15 + int8 < HUGE_NORM)) j->by_most = INFINITY;
}

static void upper_of(const topk_job *j, size_t row, size_t n, float *upper) {
    size_t ld = gw_ld(j->m->rows);
    const float *most = j->m->norms + row, *y = j->y + row;
    const float *rest = j->m->planes.high ? most + ld : most, *low = j->upper ? rest + ld : rest;
    float by_rest = j->by_rest, by_low = 0;
    if (j->upper) by_rest = j->by_most, by_low = j->by_rest + j->by_most;
    for (size_t i = 0; i < n; i++)
        upper[i] = y[i] + (most[i] * j->by_most + rest[i] * by_rest + low[i] * by_low + j->least) * (1 + 1e-6f);
}

/* --- the first pass: approximate logits --- */

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

static bool needs_upper(const gw_matrix *m, const gw_topk *t) {
    return GW_MIDDLE_PLANE && m->planes.high && t->best > 1;
}

static void approximate_panels(const gw_matrix *m, bool upper, uint32_t begin, uint32_t n, const gw_acts *a, float *y) {
    gw_planes_kernel *kernel = GW_KERNEL_INT(planes_high);
    if (!m->planes.high) {
        gw_multiply_panels(m, false, begin, n, a, y, gw_ld(m->rows));
        return;
    }
#if GW_MIDDLE_PLANE
    if (upper) kernel = GW_KERNEL_INT(planes_upper);
#else
    (void)upper;
#endif
    kernel(gw_matrix_planes(m, begin), (int)n, a, y, gw_ld(m->rows));
}

static void approximate(const void *place, int i, float *out) {
    const topk_job *j = place;
    uint32_t begin = begin_of(j, i), end = begin_of(j, i + 1);
    approximate_panels(j->m, j->upper, begin, end - begin, &j->acts, out);
}

static void leave_out(const topk_job *j, uint32_t begin, uint32_t end) {
    for (uint32_t p = begin; p < end && j->want.rows.bits; p++) {
        uint32_t rows = gw_rows_of(&j->want.rows, p);
        for (int r = 0; r < GW_PANEL && rows != 15; r++)
            if (!(rows >> r & 1)) j->y[(size_t)p * GW_PANEL + r] = -INFINITY;
    }
}

static void find_best(void *ctx, int i) {
    topk_job *j = ctx;
    uint32_t begin = begin_of(j, i), end = begin_of(j, i + 1);
    size_t row = (size_t)begin * GW_PANEL, n = gw_min((size_t)end * GW_PANEL, j->m->rows) - row, at = 0;
    leave_out(j, begin, end);
    for (int e = 0; e < j->want.n; e++) {
        size_t id = (size_t)j->want.required[e];
        if (id >= row && id < row + n) j->y[id] = -INFINITY;
    }
    float best = greatest_of(j->y + row, n);
    while (at + 1 < n && j->y[row + at] != best) at++;
    j->part[i].best = best;
    j->part[i].row = (uint32_t)(row + at);
}

static void put_part(void *place, int i, const float *a) {
    const topk_job *j = place;
    uint32_t begin = begin_of(j, i), end = begin_of(j, i + 1);
    memcpy(j->y + (size_t)begin * GW_PANEL, a, (size_t)(end - begin) * GW_PANEL * sizeof(float));
    find_best(place, i);
}

static void exact_panel(const topk_job *j, uint32_t panel, float *y) {
    gw_multiply_panels(j->m, true, panel, 1, &j->acts, y, GW_PANEL);
}

/* Removes the part with the greatest approximate logit from the candidates. Computes the exact logit of the best
 * row of this part and returns its threshold_of(), or -FLT_MAX if no candidate is left. */
static float take_best(topk_job *j) {
    part *best = &j->part[0];
    float y[GW_PANEL];
    for (int i = 1; i < j->parts; i++)
        if (j->part[i].best > best->best) best = &j->part[i];
    if (best->best == -INFINITY) return -FLT_MAX;
    best->best = -INFINITY;
    exact_panel(j, best->row / GW_PANEL, y);
    return threshold_of(y[best->row % GW_PANEL], j->cap);
}

static float least_threshold(topk_job *j) {
    float least = INFINITY;
    for (uint32_t i = 0; i < j->want.best; i++) {
        float t = take_best(j);
        if (!(t > -FLT_MAX)) return -FLT_MAX;
        least = t < least ? t : least;
    }
    return least;
}

/* --- the second pass: exact logits --- */

static void cap_panel(float *y, uint32_t panel, float cap) {
    if (cap > 0) GW_KERNEL(soft_cap)(y + (size_t)panel * GW_PANEL, GW_PANEL, cap);
}

/* Appends the panels begin .. end - 1 that have a row which is not excluded to list[n]. Returns the new n. */
static uint32_t open_panels(const topk_job *j, uint32_t begin, uint32_t end, uint32_t *list, uint32_t n) {
    float upper[AT_ONCE * GW_PANEL], least = j->threshold;
    upper_of(j, (size_t)begin * GW_PANEL, (end - begin) * GW_PANEL, upper);
    for (uint32_t p = begin; p < end; p++) {
        const float *u = upper + (p - begin) * GW_PANEL;
        if (u[0] < least && u[1] < least && u[2] < least && u[3] < least) continue;
        list[n++] = p;
    }
    return n;
}

static void refine_part(void *ctx, int i) {
    topk_job *j = ctx;
    uint32_t list[MOST_STEP], n = 0, begin = begin_of(j, i), end = begin_of(j, i + 1);
    for (uint32_t last; begin < end; begin = last) {
        last = (uint32_t)gw_min(begin + AT_ONCE, end);
        n = open_panels(j, begin, last, list, n);
        for (size_t r = (size_t)begin * GW_PANEL; r < (size_t)last * GW_PANEL; r++) j->out[r] = -INFINITY;
    }
    j->part[i].open = n;
    if (!n) return;
    gw_multiply_listed(j->m, list, (int)n, &j->acts, j->out);
    for (uint32_t p = 0; p < n; p++) cap_panel(j->out, list[p], j->cap);
}

/* Computes the required rows one after the other, since there are usually one or two of them. */
static void compute_required(const topk_job *j) {
    for (int e = 0; e < j->want.n; e++) {
        uint32_t id = (uint32_t)j->want.required[e], panel = id / GW_PANEL;
        if (j->out[id] != -INFINITY) continue;
        exact_panel(j, panel, j->out + (size_t)panel * GW_PANEL);
        cap_panel(j->out, panel, j->cap);
    }
}

/* --- the two-stage output head --- */

static uint32_t step_of(uint32_t panels) {
    return (uint32_t)gw_min(gw_round_up((panels + PARTS - 1) / PARTS, 4), MOST_STEP);
}

static topk_job *job_of(gw_ops *o, const float *x, const gw_matrix *m, bool upper, float *y) {
    gw_acts acts;
    topk_job *j = gw_ops_row(o, x, m->k, true, true, &acts);
    *j = (topk_job){ .acts = acts, .m = m, .upper = upper, .y = y, .panels = gw_matrix_panels(m) };
    j->step = step_of(j->panels);
    j->parts = (int)((j->panels + j->step - 1) / j->step);
    set_bound(j);
    return j;
}

static uint32_t all_rows(gw_ops *o, const gw_view *x, const gw_matrix *m, float cap, const gw_topk *t, float *y) {
    size_t ld = gw_ld(m->rows);
    gw_matmul(o, x, &m, &y, 1, true);
    gw_soft_cap(o, y, (size_t)x->n * ld, cap);
    for (int r = 0; r < x->n; r++)
        if (t[r].to) memcpy(t[r].to, y + r * ld, ld * sizeof *y);
    return gw_matrix_panels(m);
}

/* The first pass for several rows of activations, which reads the weights from memory once. */
typedef struct {
    gw_acts acts;
    const gw_matrix *m;
    const gw_topk *want; /* [acts.n] */
    float *y;
    uint32_t step;
} rows_job;

static void approximate_rows(void *ctx, int i) {
    const rows_job *j = ctx;
    size_t ld = gw_ld(j->m->rows);
    uint32_t begin = (uint32_t)i * j->step, panels = (uint32_t)gw_min(j->step, gw_matrix_panels(j->m) - begin);
    gw_acts rows = j->acts;
    for (int t = 0; t < j->acts.n; t += rows.n) {
        bool upper = needs_upper(j->m, &j->want[t]);
        for (rows.n = 1; t + rows.n < j->acts.n && needs_upper(j->m, &j->want[t + rows.n]) == upper;) rows.n++;
        rows.q8 = j->acts.q8 + t * GW_BLOCK, rows.s8 = j->acts.s8 + t, rows.sum8 = j->acts.sum8 + t;
        rows.half8 = j->acts.half8 + t;
        approximate_panels(j->m, upper, begin, panels, &rows, j->y + t * ld + (size_t)begin * GW_PANEL);
    }
}

static void approximate_all(gw_ops *o, const gw_view *x, const gw_matrix *m, const gw_topk *t, float *y) {
    uint32_t panels = gw_matrix_panels(m);
    rows_job j = { .acts = gw_ops_batch(o, x, m->k), .m = m, .want = t, .y = y, .step = step_of(panels) };
    for (int r = 0; r < x->n; r++) GW_KERNEL_INT(quantise_int8)(&j.acts, r, 0, m->k);
    gw_parallel(o->pool, approximate_rows, &j, (int)((panels + j.step - 1) / j.step));
}

/* Computes the logits of one row of activations. approximated: whether j->y already has the first pass's results. */
static uint32_t topk_row(gw_ops *o, topk_job *j, bool approximated) {
    static const gw_pure first_pass = { approximate, put_part };
    uint32_t open = 0;
    if (approximated) gw_parallel(o->pool, find_best, j, j->parts);
    else gw_parallel_pure(o->pool, &first_pass, j, j->parts);
    j->threshold = least_threshold(j);
    gw_parallel(o->pool, refine_part, j, j->parts);
    compute_required(j);
    for (int i = 0; i < j->parts; i++) open += j->part[i].open;
    return open;
}

uint32_t gw_matmul_topk(gw_ops *o, const gw_view *x, const gw_matrix *m, float cap, const gw_topk *t, float *y) {
    uint32_t panels = gw_matrix_panels(m), most = 0, best = 0;
    for (int r = 0; r < x->n; r++) best = (uint32_t)gw_max(best, t[r].best);
    /* A threshold that comes from rows in most of the parts would exclude few rows. */
    if (!m->norms || (best > 1 && best > panels / step_of(panels) / 2)) return all_rows(o, x, m, cap, t, y);
    for (int r = 0; r < x->n && x->n > 1; r += AT_ONCE_ROWS) {
        gw_view rows = gw_from(*x, r);
        rows.n = (int)gw_min(AT_ONCE_ROWS, rows.n);
        approximate_all(o, &rows, m, t + r, y + r * gw_ld(m->rows));
    }
    for (int r = 0; r < x->n; r++) {
        topk_job *j = job_of(o, gw_row(*x, r), m, needs_upper(m, &t[r]), y + r * gw_ld(m->rows));
        j->cap = cap;
        j->want = t[r];
        j->out = t[r].to ? t[r].to : j->y;
        uint32_t open = topk_row(o, j, x->n > 1);
        most = open > most ? open : most;
    }
    return most;
}

/* Computing only selected rows is faster up to 1/FEW of all panels: scattered panels take longer to read than
 * consecutive ones, and greedy decoding reads only half of each panel. */
enum { FEW = 4 };

bool gw_few_rows(const gw_matrix *m, const gw_rows *rows) {
    uint32_t panels = gw_matrix_panels(m), n = 0;
    for (uint32_t p = 0; p < panels && n <= panels / FEW; p++) n += gw_rows_of(rows, p) != 0;
    return n <= panels / FEW;
}

void gw_matmul_few(gw_ops *o, const float *x, const gw_matrix *m, float cap, const gw_rows *rows, float *y) {
    gw_matmul_some(o, x, m, rows, y);
    for (uint32_t p = 0; p < gw_matrix_panels(m) && cap > 0; p++)
        if (gw_rows_of(rows, p)) cap_panel(y, p, cap);
}

void gw_matmul_bounds(gw_ops *o, const float *x, const gw_matrix *m, bool middle, float *y, float *upper) {
    topk_job *j = job_of(o, x, m, middle, y);
    approximate_panels(m, middle, 0, j->panels, &j->acts, y);
    upper_of(j, 0, m->rows, upper);
}
