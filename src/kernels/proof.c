/* proof: gw_prove_kernels: products small enough to be made while a model loads, by the kernels themselves, as engines
 * have compiled them by then, and by the plain ones. See proof.h. */
#include "kernels/proof.h"
#include "file/types.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

/* Panels that one row meets: eight side by side, and one alone; that several rows meet: a pair, and one alone. Rows: as
 * many as meet every tile, and every number of rows behind the last whole one. Of both the plain kernels, which are
 * slow, see few: other panels and rows are these times a power of two, so that no two that meet are alike. MOST_K: a
 * super-block. */
enum { ROWS = 11, OTHER_ROWS = 2, PANELS = 9, FEW = 3, LD = GW_PANEL, MOST_K = 256, MOST_BYTES = 256,
       BLOCKS = ROWS * MOST_K / GW_BLOCK };
enum { KEYS = 7, HEAD_DIM = 40, ROW_BYTES = HEAD_DIM * sizeof(float) };

/* A batch's activations as one side quantises them, with room for them. */
typedef struct {
    gw_acts acts;
    gw_narrow q8[BLOCKS * GW_BLOCK];
    int16_t q16[BLOCKS * GW_BLOCK];
    float scale[2][BLOCKS];
    int32_t sum[4][BLOCKS];
} side;

typedef struct {
    uint32_t seed;
    size_t k;          /* of the activations that are quantised; 0: none */
    float x[ROWS * MOST_K];
    uint8_t w[PANELS * GW_PANEL * MOST_BYTES], low[PANELS * GW_LOW_BYTES * 2];
    side plain, own, one;   /* one: the first row alone */
    float want[OTHER_ROWS * LD], got[ROWS * PANELS * GW_PANEL];
} trial;

static uint32_t random_bits(trial *t) {
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8;
}

static float random_float(trial *t) { return (float)(random_bits(t) & 0xffff) / 32768.0f - 1.0f; }

/* What a row of activations is times the one that it comes from, and a panel times the first. */
static const float times[ROWS] = { 1, 1, -1, -2, 2, 0.5f, -4, 4, 0.25f, -0.5f, 8 };
static const int batches[] = { ROWS, 6, 5, 2 };
enum { BATCHES = sizeof batches / sizeof *batches };
static const float panel_times[PANELS] = { 1, 2, 4, 0.5f, 8, 0.25f, 16, 0.125f, 32 };

/* Rows of numbers; in their second halves all are as large as can be, with both signs. */
static void choose_rows(trial *t, size_t k) {
    for (size_t i = 0; i < OTHER_ROWS * k; i++) {
        float x = random_float(t);
        t->x[i] = i % k < k / 2 ? x : x < 0 ? -1.0f : 1.0f;
    }
    for (size_t i = OTHER_ROWS * k; i < ROWS * k; i++) t->x[i] = t->x[i % (OTHER_ROWS * k)] * times[i / k];
}

static void quantise(side *s, const float *x, int n, size_t k, gw_quantise_kernel *narrow, gw_quantise_kernel *wide) {
    s->acts = (gw_acts){ .n = n, .k = k, .stride = gw_acts_stride(n), .x = x, .ldx = k, .q8 = s->q8, .s8 = s->scale[0],
                         .sum8 = s->sum[0], .half8 = s->sum[1], .q16 = s->q16, .s16 = s->scale[1],
                         .sum16 = s->sum[2], .half16 = s->sum[3] };
    for (int i = 0; i < n; i++) {
        narrow(&s->acts, i, 0, k);
        wide(&s->acts, i, 0, k);
    }
}

/* Activations of k columns, once for all products of that length. */
static void take_rows(trial *t, size_t k) {
    if (t->k == k) return;
    t->k = k;
    choose_rows(t, k);
    quantise(&t->plain, t->x, OTHER_ROWS, k, gw_ref_narrow, gw_ref_wide);
    quantise(&t->own, t->x, ROWS, k, GW_KERNEL_INT(narrow), GW_KERNEL_INT(wide));
    quantise(&t->one, t->x, 1, k, GW_KERNEL_INT(narrow), GW_KERNEL_INT(wide));
}

static bool same(const float *a, const float *b, size_t n) { return !memcmp(a, b, n * sizeof *a); }

/* --- products --- */

#define FORMAT(NAME, name, ...)                                                     \
    { GW_##NAME, { gw_ref_matmul_##name, gw_ref_matmul_##name##_wide },              \
      { GW_KERNEL_INT(matmul_##name), GW_KERNEL_INT(matmul_##name##_wide) } },

/* As ops.c's table, the plain kernels first. */
static const struct product {
    int type;
    gw_matmul_kernel *plain[2], *own[2];   /* with narrow and wide activations; NULL: as the first */
} products[] = {
    { GW_F32, { gw_ref_matmul_f32 }, { GW_KERNEL(matmul_f32) } },
    { GW_F16, { gw_ref_matmul_f16 }, { GW_KERNEL(matmul_f16) } },
    { GW_BF16, { gw_ref_matmul_bf16 }, { GW_KERNEL(matmul_bf16) } },
    { GW_Q4_0, { gw_ref_matmul_q4, gw_ref_matmul_q4_wide },
      { GW_KERNEL_INT(matmul_q4), GW_KERNEL_INT(matmul_q4_wide) } },
    { GW_Q8_0, { gw_ref_matmul_q8_wide }, { GW_KERNEL_INT(matmul_q8_wide) } },
    GW_FORMATS(FORMAT)
};
enum { PRODUCTS = sizeof products / sizeof *products };

static void put16(uint8_t *p, uint16_t v) { memcpy(p, &v, sizeof v); }

static void put_float(uint8_t *p, int type, float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (type == GW_F32) memcpy(p, &x, sizeof x);
    else put16(p, type == GW_F16 ? gw_f32_to_f16(x) : (uint16_t)(u >> 16));
}

static void choose_floats(trial *t, int type, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) put_float(out + (type == GW_F32 ? 4 : 2) * i, type, random_float(t));
}

/* A group of blocks of four rows: any bytes, but f16 numbers in front that make sense. */
static void choose_group(trial *t, uint8_t *out, size_t bytes, size_t f16s) {
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)random_bits(t);
    for (size_t i = 0; i < f16s; i++) put16(out + 2 * i, gw_f32_to_f16(random_float(t)));
}

/* n numbers, times a power of two. */
static void scale_floats(const gw_type *type, uint8_t *at, size_t n, float by) {
    for (float x; n > 0; n--, at += type->bytes) {
        type->dequantise(at, &x, 1);
        put_float(at, (int)type->id, x * by);
    }
}

/* Panel p from the first, whose groups begin with f16 numbers. */
static void copy_panel(uint8_t *first, int p, size_t bytes, size_t group, size_t f16s) {
    uint8_t *copy = first + p * bytes;
    memcpy(copy, first, bytes);
    for (size_t at = 0; at < bytes; at += group) scale_floats(gw_type_of(GW_F16), copy + at, f16s, panel_times[p]);
}

/* Panels of rows of k items. */
static void choose_panels(trial *t, const gw_type *type, size_t k) {
    const gw_format *f = gw_format_of(type->id);
    size_t group = GW_PANEL * type->bytes, panel = k / type->items * group;
    size_t f16s = GW_PANEL * (f && !f->values ? f->halves : 1);
    if (type->items == 1) {
        choose_floats(t, (int)type->id, t->w, GW_PANEL * k);
        for (int p = 1; p < PANELS; p++) {
            memcpy(t->w + p * panel, t->w, panel);
            scale_floats(type, t->w + p * panel, GW_PANEL * k, panel_times[p]);
        }
        return;
    }
    for (size_t at = 0; at < panel; at += group) choose_group(t, t->w + at, group, f16s);
    for (int p = 1; p < PANELS; p++) copy_panel(t->w, p, panel, group, f16s);
}

/* Are results of rows and panels those of the rows and panels that they come from? */
static bool same_products(const trial *t, size_t rows, size_t panels) {
    const float *got = t->got;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < panels * GW_PANEL; i++, got++) {
            float want = t->want[r % OTHER_ROWS * LD + i % LD] * times[r] * panel_times[i / GW_PANEL];
            if (!same(got, &want, 1)) return false;
        }
    return true;
}

/* One row and several, by one kernel. */
static bool kernel_holds(trial *t, gw_matmul_kernel *own) {
    gw_acts several = t->own.acts;
    for (int i = 0; i < BATCHES; i++) {
        several.n = batches[i];
        own(t->w, FEW, &several, t->got, FEW * GW_PANEL);
        if (!same_products(t, (size_t)batches[i], FEW)) return false;
    }
    for (t->one.acts.streams = 0; t->one.acts.streams < 2; t->one.acts.streams++) {
        own(t->w, PANELS, &t->one.acts, t->got, 0);
        if (!same_products(t, 1, PANELS)) return false;
    }
    return true;
}

/* needed: with narrow activations, and with wide ones. */
static bool product_holds(trial *t, const struct product *p, const bool *needed) {
    const gw_type *type = gw_type_of((uint32_t)p->type);
    size_t k = gw_max(2 * GW_BLOCK, type->items);
    take_rows(t, k);
    choose_panels(t, type, k);
    for (int wide = 0; wide < 2; wide++) {
        if (!needed[wide]) continue;
        p->plain[wide](t->w, 1, &t->plain.acts, t->want, LD);
        if (!kernel_holds(t, p->own[wide])) return false;
    }
    return true;
}

static bool planes_hold(trial *t) {
    static const uint32_t list[] = { 4, 0, 2, 8, 7 };
    enum { K = 2 * GW_BLOCK, HIGH = 2 * GW_HIGH_BYTES, LOW = 2 * GW_LOW_BYTES, LISTED = sizeof list / sizeof *list };
    take_rows(t, K);
    for (int b = 0; b < 2; b++) choose_group(t, t->w + b * GW_HIGH_BYTES, GW_HIGH_BYTES, GW_PANEL);
    choose_group(t, t->low, LOW, 0);
    for (int p = 1; p < PANELS; p++) {
        copy_panel(t->w, p, HIGH, GW_HIGH_BYTES, GW_PANEL);
        memcpy(t->low + p * LOW, t->low, LOW);
    }
    gw_ref_planes_whole(t->w, t->low, 1, &t->plain.acts, t->want, LD);
    GW_KERNEL_INT(planes_whole)(t->w, t->low, FEW, &t->own.acts, t->got, FEW * GW_PANEL);
    if (!same_products(t, ROWS, FEW)) return false;
    GW_KERNEL_INT(planes_some)(t->w, t->low, list, LISTED, &t->one.acts, t->got);
    for (int i = 0; i < LISTED * GW_PANEL; i++) {
        uint32_t p = list[i / GW_PANEL];
        float want = t->want[i % GW_PANEL] * panel_times[p];
        if (!same(t->got + p * GW_PANEL + i % GW_PANEL, &want, 1)) return false;
    }
    gw_ref_planes_high(t->w, 1, &t->plain.acts, t->want);
    GW_KERNEL_INT(planes_high)(t->w, PANELS, &t->one.acts, t->got);
    return same_products(t, 1, PANELS);
}

/* --- attention --- */

static const struct cache {
    uint32_t bit;
    const char *name;
    gw_scores_kernel *plain_scores, *scores;
    gw_mix_kernel *plain_mix, *mix;
} caches[] = {
    { GW_PROVE_F32, "f32", gw_ref_scores_f32, GW_KERNEL(scores_f32), gw_ref_mix_f32, GW_KERNEL(mix_f32) },
    { GW_PROVE_I16, "i16", gw_ref_scores_i16, GW_KERNEL(scores_i16), gw_ref_mix_i16, GW_KERNEL(mix_i16) },
    { GW_PROVE_Q8, "q8_0", gw_ref_scores_q8, GW_KERNEL(scores_q8), gw_ref_mix_q8, GW_KERNEL(mix_q8) },
};
enum { CACHES = sizeof caches / sizeof *caches };

/* Rows of keys, values or queries as kernels.h has them. */
static void choose_cache(trial *t, uint32_t bit, uint8_t *rows, int n) {
    for (int j = 0; j < n; j++, rows += ROW_BYTES) {
        float scale = 0.01f + random_float(t) * 0.005f;
        choose_floats(t, GW_F32, rows, HEAD_DIM);
        for (size_t i = 0; i < HEAD_DIM && bit == GW_PROVE_I16; i++)
            put16(rows + 2 * i, (uint16_t)(int16_t)(random_float(t) * 8000.0f));
        if (bit == GW_PROVE_I16) memcpy(rows + 2 * HEAD_DIM, &scale, sizeof scale);
        if (bit == GW_PROVE_Q8) choose_floats(t, GW_BF16, rows + HEAD_DIM, 2);
    }
}

static void choose_weights(trial *t, float *p) {
    memset(p, 0, GW_HEADS * GW_SPAN * sizeof *p);
    for (int i = 0; i < GW_HEADS * KEYS; i++) p[i / KEYS * GW_SPAN + i % KEYS] = 1.0f + random_float(t);
}

static bool mix_holds(trial *t, const struct cache *c, int heads) {
    float p[GW_HEADS * GW_SPAN], out[2][GW_HEADS * HEAD_DIM] = { { 0 } };
    float *plain[GW_HEADS], *own[GW_HEADS];
    for (int h = 0; h < heads; h++) plain[h] = out[0] + h * HEAD_DIM, own[h] = out[1] + h * HEAD_DIM;
    choose_weights(t, p);
    choose_cache(t, c->bit, t->w, KEYS);
    c->plain_mix(p, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, plain);
    c->mix(p, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, own);
    return same(out[0], out[1], GW_HEADS * HEAD_DIM);
}

static bool scores_hold(trial *t, const struct cache *c, int heads) {
    float scores[2][GW_HEADS * GW_SPAN] = { { 0 } };
    uint8_t *queries = t->w + KEYS * ROW_BYTES;
    const void *q[GW_HEADS];
    for (int h = 0; h < heads; h++) q[h] = queries + h * ROW_BYTES;
    choose_cache(t, c->bit, t->w, KEYS);
    choose_cache(t, c->bit == GW_PROVE_I16 ? GW_PROVE_I16 : GW_PROVE_F32, queries, GW_HEADS);
    c->plain_scores(q, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, scores[0]);
    c->scores(q, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, scores[1]);
    return same(scores[0], scores[1], GW_HEADS * GW_SPAN);
}

static bool cache_holds(trial *t, const struct cache *c) {
    if (!scores_hold(t, c, 1) || !scores_hold(t, c, GW_HEADS) || !mix_holds(t, c, 1) || !mix_holds(t, c, GW_HEADS))
        return false;
    if (c->bit != GW_PROVE_Q8) return true;
    enum { WIDENED = 3 };
    choose_cache(t, c->bit, t->w, WIDENED);
    gw_ref_widen_q8(t->w, ROW_BYTES, WIDENED, HEAD_DIM, t->x);
    GW_KERNEL(widen_q8)(t->w, ROW_BYTES, WIDENED, HEAD_DIM, t->got);
    return same(t->got, t->x, WIDENED * HEAD_DIM);
}

static bool weigh_holds(trial *t) {
    float p[2][GW_HEADS * GW_SPAN], sum[2];
    choose_weights(t, p[0]);
    memcpy(p[1], p[0], sizeof p[0]);
    sum[0] = gw_ref_weigh(p[0], KEYS, 2.0f);
    sum[1] = GW_KERNEL(weigh)(p[1], KEYS, 2.0f);
    return same(sum, sum + 1, 1) && same(p[0], p[1], KEYS);
}

/* --- floats made Q8_0 --- */

static const struct rounding { int type; gw_round_kernel *plain, *own; } roundings[] = {
    { GW_F32, gw_ref_round_f32, GW_KERNEL(round_f32) },
    { GW_F16, gw_ref_round_f16, GW_KERNEL(round_f16) },
    { GW_BF16, gw_ref_round_bf16, GW_KERNEL(round_bf16) },
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

static bool rounding_holds(trial *t, const struct rounding *r) {
    enum { K = 2 * GW_BLOCK, BYTES = 2 * GW_Q8_BYTES / GW_PANEL };
    uint8_t blocks[2][BYTES];
    choose_floats(t, r->type, t->w, K);
    r->plain(t->w, K, blocks[0]);
    r->own(t->w, K, blocks[1]);
    return !memcmp(blocks[0], blocks[1], BYTES);
}

/* --- all of a list --- */

typedef struct { const char *kind, *name; } culprit;

static culprit find_wrong(const gw_kernel_list *list) {
    trial t = { .seed = 1 };
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        bool narrow = list->narrow >> p->type & 1, wide = list->wide >> p->type & 1;
        const bool needed[] = { p->plain[1] ? narrow : narrow || wide, p->plain[1] && wide };
        if ((narrow || wide) && !product_holds(&t, p, needed))
            return (culprit){ "products with ", gw_type_name((uint32_t)p->type) };
    }
    if (list->planes && !planes_hold(&t)) return (culprit){ "products with ", "Q8_0 in two planes" };
    for (int i = 0; i < CACHES; i++)
        if (list->caches & caches[i].bit && !cache_holds(&t, &caches[i]))
            return (culprit){ "attention to a cache of ", caches[i].name };
    if (list->caches && !weigh_holds(&t)) return (culprit){ "weights of attention", "" };
    for (int i = 0; i < ROUNDINGS; i++)
        if (list->rounded >> roundings[i].type & 1 && !rounding_holds(&t, &roundings[i]))
            return (culprit){ "rounding to Q8_0 from ", gw_type_name((uint32_t)roundings[i].type) };
    return (culprit){ NULL, NULL };
}

static char note[256];

const char *gw_proof_note(void) { return note; }
void gw_proof_note_clear(void) { note[0] = 0; }

void gw_proof_note_add(const char *text) {
    size_t used = strlen(note);
    snprintf(note + used, sizeof note - used, "%s%s", used ? "; " : "", text);
}

/* One thing fewer that kernels rely on: its name, or NULL: there is nothing left. */
static const char *do_without(void) {
#if defined(GW_HAVE_RELAXED)
    if (gw_relaxed_pairs != 0) return gw_relaxed_pairs = 0, "adding in pairs";
    if (!gw_relaxed_only_7_bits) return gw_relaxed_only_7_bits = true, "products of 8 bits";
#elif defined(GW_HAVE_SIMD)
    if (!gw_simd_no_swizzle) return gw_simd_no_swizzle = true, "i8x16.swizzle";
#endif
    return NULL;
}

int gw_prove_kernels(const gw_kernel_list *list, gw_error *e) {
    char text[128];
    for (culprit wrong; (wrong = find_wrong(list)).kind;) {
        const char *without = do_without();
        if (!without)
            return gw_fail(e, GW_E_ENGINE, "%s%s, %s build\nthe bits of the plain ones\nothers", wrong.kind, wrong.name,
                           GW_BUILD);
        snprintf(text, sizeof text, "%s%s are wrong here, tried without %s", wrong.kind, wrong.name, without);
        gw_proof_note_add(text);
    }
    return 0;
}
