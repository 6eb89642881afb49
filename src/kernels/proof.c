/* proof: see proof.h. While a model loads, compares small products of the build's kernels with the results of ref.c.
 * This detects kernels that the JavaScript engine has compiled wrongly. */
#include "kernels/proof.h"
#include "file/types.h"
#include "kernels/errors.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

/* Sizes of test products. Up to four rows of activations are multiplied by PANELS panels (eight that are read at the
 * same time, and a single one), more rows by FEW panels (a pair and a single one). The reference is slow, so it
 * computes only COMPUTED_ROWS rows and one panel. The remaining rows and panels are copies of these, times powers of
 * two, so that no two rows and no two panels of a product are equal. MOST_K: the columns of a super-block. */
enum {
    ROWS = 11,
    COMPUTED_ROWS = 2,
    PANELS = 9,
    FEW = 3,
    LD = GW_PANEL,
    MOST_K = 256,
    MOST_BYTES = 256,
    BLOCKS = ROWS * MOST_K / GW_BLOCK
};
enum { KEYS = 7, HEAD_DIM = 40, ROW_BYTES = HEAD_DIM * sizeof(float) };

/* A batch that the reference kernels (ref.c) or the build's kernels have quantised, and the memory of its arrays. */
typedef struct {
    gw_acts acts;
    gw_int8 q8[BLOCKS * GW_BLOCK];
    int16_t q16[BLOCKS * GW_BLOCK];
    float scale[2][BLOCKS];
    int32_t sum[4][BLOCKS];
} side;

typedef struct {
    uint32_t seed;
    size_t k; /* number of columns of the quantised rows; 0: no rows yet */
    float x[ROWS * MOST_K];
    uint8_t w[PANELS * GW_PANEL * MOST_BYTES];
    uint8_t lower[PANELS * 2 * (GW_MIDDLE_BYTES + GW_LOW_BYTES)];
    side plain, own, one; /* activations quantised by ref.c, by the build, and only the first row by the build */
    float want[COMPUTED_ROWS * LD], got[ROWS * PANELS * GW_PANEL];
} trial;

static uint32_t random_bits(trial *t) {
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8;
}

static float random_float(trial *t) { return (float)(random_bits(t) & 0xffff) / 32768.0f - 1.0f; }

static const float times[ROWS] = { 1, 1, -1, -2, 2, 0.5f, -4, 4, 0.25f, -0.5f, 8 };
static const struct {
    int rows, panels;
} batches[] = { { ROWS, FEW }, { 6, FEW }, { 5, FEW }, { 2, PANELS }, { 3, PANELS }, { 4, PANELS } };
enum { BATCHES = sizeof batches / sizeof *batches };
static const float panel_times[PANELS] = { 1, 2, 4, 0.5f, 8, 0.25f, 16, 0.125f, 32 };

/* Fills the first half of each row with random numbers, the second half with the largest magnitudes, 1 and -1. */
static void choose_rows(trial *t, size_t k) {
    for (size_t i = 0; i < COMPUTED_ROWS * k; i++) {
        float x = random_float(t);
        t->x[i] = i % k < k / 2 ? x : x < 0 ? -1.0f : 1.0f;
    }
    for (size_t i = COMPUTED_ROWS * k; i < ROWS * k; i++) t->x[i] = t->x[i % (COMPUTED_ROWS * k)] * times[i / k];
}

static void quantise(side *s, const float *x, int n, size_t k, gw_quantise_kernel *int8, gw_quantise_kernel *int15) {
    s->acts = (gw_acts){ .n = n,
                         .k = k,
                         .stride = gw_acts_stride(n),
                         .x = x,
                         .ldx = k,
                         .q8 = s->q8,
                         .s8 = s->scale[0],
                         .sum8 = s->sum[0],
                         .half8 = s->sum[1],
                         .q16 = s->q16,
                         .s16 = s->scale[1],
                         .sum16 = s->sum[2],
                         .half16 = s->sum[3] };
    for (int i = 0; i < n; i++) {
        int8(&s->acts, i, 0, k);
        int15(&s->acts, i, 0, k);
    }
}

/* Chooses and quantises activations of k columns, unless the trial has rows of this length. */
static void take_rows(trial *t, size_t k) {
    if (t->k == k) return;
    t->k = k;
    choose_rows(t, k);
    quantise(&t->plain, t->x, COMPUTED_ROWS, k, gw_ref_quantise_int8, gw_ref_quantise_int15);
    quantise(&t->own, t->x, ROWS, k, GW_KERNEL_INT(quantise_int8), GW_KERNEL_INT(quantise_int15));
    quantise(&t->one, t->x, 1, k, GW_KERNEL_INT(quantise_int8), GW_KERNEL_INT(quantise_int15));
}

static bool same(const float *a, const float *b, size_t n) { return !memcmp(a, b, n * sizeof *a); }

#define FLOAT(NAME, name) { GW_##NAME, { gw_ref_matmul_##name }, { GW_KERNEL(matmul_##name) } },
#define FORMAT(NAME, name, ...)                               \
    { GW_##NAME,                                              \
      { gw_ref_matmul_##name, gw_ref_matmul_##name##_int15 }, \
      { GW_KERNEL_INT(matmul_##name), GW_KERNEL_INT(matmul_##name##_int15) } },

static const struct product {
    int type;
    gw_matmul_kernel *plain[2], *own[2]; /* kernels [0] for int8 activations, [1] for int15; NULL: [0] is for both */
} products[] = {
    /* clang-format off */
    FLOAT(F32, f32) FLOAT(F16, f16) FLOAT(BF16, bf16)
    FORMAT(Q4_0, q4)
    { GW_Q8_0, { gw_ref_matmul_q8_int15 }, { GW_KERNEL_INT(matmul_q8_int15) } },
    GW_FORMATS(FORMAT)
    /* clang-format on */
};
enum { PRODUCTS = sizeof products / sizeof *products };

static void choose_floats(trial *t, const gw_type *type, uint8_t *out, size_t n) {
    for (float x; n > 0; n--, out += type->bytes) {
        x = random_float(t);
        type->quantise(&x, out, 1);
    }
}

/* Fills a group of weights with `f16s` realistic f16 numbers, then random bytes. */
static void choose_group(trial *t, uint8_t *out, size_t bytes, size_t f16s) {
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)random_bits(t);
    choose_floats(t, gw_type_of(GW_F16), out, f16s);
}

static void scale_floats(const gw_type *type, uint8_t *at, size_t n, float by) {
    for (float x; n > 0; n--, at += type->bytes) {
        type->dequantise(at, &x, 1);
        x *= by;
        type->quantise(&x, at, 1);
    }
}

/* Copies the first panel to the others, with the n numbers at the start of each group times the panel's factor. */
static void copy_panels(uint8_t *w, size_t bytes, size_t group, const gw_type *type, size_t n) {
    for (int p = 1; p < PANELS; p++) {
        uint8_t *copy = w + p * bytes;
        memcpy(copy, w, bytes);
        for (size_t at = 0; at < bytes; at += group) scale_floats(type, copy + at, n, panel_times[p]);
    }
}

static void choose_panels(trial *t, const gw_type *type, size_t k) {
    const gw_format *f = gw_format_of(type->id);
    size_t group = GW_PANEL * type->bytes, panel = k / type->items * group;
    size_t f16s = GW_PANEL * (f && !f->values ? f->halves : 1);
    if (type->items == 1) {
        choose_floats(t, type, t->w, GW_PANEL * k);
        copy_panels(t->w, panel, panel, type, GW_PANEL * k);
    } else {
        for (size_t at = 0; at < panel; at += group) choose_group(t, t->w + at, group, f16s);
        copy_panels(t->w, panel, group, gw_type_of(GW_F16), f16s);
    }
}

static bool same_products(const trial *t, size_t rows, size_t panels) {
    const float *got = t->got;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < panels * GW_PANEL; i++, got++) {
            float want = t->want[r % COMPUTED_ROWS * LD + i % LD] * times[r] * panel_times[i / GW_PANEL];
            if (!same(got, &want, 1)) return false;
        }
    return true;
}

static bool kernel_holds(trial *t, gw_matmul_kernel *own) {
    gw_acts several = t->own.acts;
    for (int i = 0; i < BATCHES; i++) {
        size_t panels = (size_t)batches[i].panels;
        several.n = batches[i].rows;
        own(t->w, batches[i].panels, &several, t->got, panels * GW_PANEL);
        if (!same_products(t, (size_t)several.n, panels)) return false;
    }
    for (t->one.acts.sequential = 0; t->one.acts.sequential < 2; t->one.acts.sequential++) {
        own(t->w, PANELS, &t->one.acts, t->got, 0);
        if (!same_products(t, 1, PANELS)) return false;
    }
    return true;
}

/* Checks the needed kernels of a weight type: [0] for int8 activations, [1] for int15 activations. */
static bool product_holds(trial *t, const struct product *p, const bool *needed) {
    const gw_type *type = gw_type_of((uint32_t)p->type);
    size_t k = gw_max(2 * GW_BLOCK, type->items);
    take_rows(t, k);
    choose_panels(t, type, k);
    for (int int15 = 0; int15 < 2; int15++) {
        if (!needed[int15]) continue;
        p->plain[int15](t->w, 1, &t->plain.acts, t->want, LD);
        if (!kernel_holds(t, p->own[int15])) return false;
    }
    return true;
}

static bool planes_hold(trial *t) {
    static const uint32_t list[] = { 4, 0, 2, 8, 7 };
    static const struct {
        gw_planes_kernel *plain, *own;
    } approximations[] = {
        { gw_ref_planes_high, GW_KERNEL_INT(planes_high) },
#if GW_MIDDLE_PLANE
        { gw_ref_planes_upper, GW_KERNEL_INT(planes_upper) },
#endif
    };
    enum { K = 2 * GW_BLOCK, HIGH = 2 * GW_HIGH_BYTES, MIDDLE = 2 * GW_MIDDLE_BYTES, LOW = 2 * GW_LOW_BYTES };
    enum { LISTED = sizeof list / sizeof *list, MOST_AT_ONCE = 4 };
    const gw_planes w = { t->w, t->lower + PANELS * LOW, t->lower };
    take_rows(t, K);
    for (int b = 0; b < 2; b++) choose_group(t, t->w + b * GW_HIGH_BYTES, GW_HIGH_BYTES, GW_PANEL);
    choose_group(t, w.middle, MIDDLE, 0);
    choose_group(t, w.low, LOW, 0);
    copy_panels(t->w, HIGH, GW_HIGH_BYTES, gw_type_of(GW_F16), GW_PANEL);
    copy_panels(w.middle, MIDDLE, MIDDLE, gw_type_of(GW_F16), 0);
    copy_panels(w.low, LOW, LOW, gw_type_of(GW_F16), 0);
    gw_ref_planes_whole(w, 1, &t->plain.acts, t->want, LD);
    GW_KERNEL_INT(planes_whole)(w, FEW, &t->own.acts, t->got, FEW * GW_PANEL);
    if (!same_products(t, ROWS, FEW)) return false;
    GW_KERNEL_INT(planes_some)(w, list, LISTED, &t->one.acts, t->got);
    for (int i = 0; i < LISTED * GW_PANEL; i++) {
        uint32_t p = list[i / GW_PANEL];
        float want = t->want[i % GW_PANEL] * panel_times[p];
        if (!same(t->got + p * GW_PANEL + i % GW_PANEL, &want, 1)) return false;
    }
    for (size_t i = 0; i < sizeof approximations / sizeof *approximations; i++) {
        gw_acts rows = t->own.acts;
        approximations[i].plain(w, 1, &t->plain.acts, t->want, LD);
        for (rows.n = 1; rows.n <= MOST_AT_ONCE; rows.n++) {
            approximations[i].own(w, PANELS, &rows, t->got, PANELS * GW_PANEL);
            if (!same_products(t, (size_t)rows.n, PANELS)) return false;
        }
    }
    return true;
}

#define CACHE(bit, name, type)                                                                                      \
    {                                                                                                               \
        bit, name, { gw_ref_scores_##type, GW_KERNEL(scores_##type) }, { gw_ref_mix_##type, GW_KERNEL(mix_##type) } \
    }

static const struct cache {
    uint32_t bit;
    const char *name;
    gw_scores_kernel *scores[2]; /* [0]: kernel of ref.c, [1]: kernel of the build */
    gw_mix_kernel *mix[2];
} caches[] = { CACHE(GW_PROVE_F32, "f32", f32), CACHE(GW_PROVE_I16, "i16", i16), CACHE(GW_PROVE_Q8, "q8_0", q8) };
enum { CACHES = sizeof caches / sizeof *caches };

static void choose_cache(trial *t, uint32_t bit, uint8_t *rows, int n) {
    for (int j = 0; j < n; j++, rows += ROW_BYTES) {
        float scale = 0.01f + random_float(t) * 0.005f;
        choose_floats(t, gw_type_of(GW_F32), rows, HEAD_DIM);
        for (size_t i = 0; i < HEAD_DIM && bit == GW_PROVE_I16; i++) {
            int16_t item = (int16_t)(random_float(t) * 8000.0f);
            memcpy(rows + 2 * i, &item, sizeof item);
        }
        if (bit == GW_PROVE_I16) memcpy(rows + 2 * HEAD_DIM, &scale, sizeof scale);
        if (bit == GW_PROVE_Q8) choose_floats(t, gw_type_of(GW_BF16), rows + HEAD_DIM, 2);
    }
}

static void choose_weights(trial *t, float *p) {
    memset(p, 0, GW_HEADS * GW_SPAN * sizeof *p);
    for (int i = 0; i < GW_HEADS * KEYS; i++) p[i / KEYS * GW_SPAN + i % KEYS] = 1.0f + random_float(t);
}

static bool cache_holds(trial *t, const struct cache *c) {
    enum { WIDENED = 3 };
    uint8_t *queries = t->w + KEYS * ROW_BYTES;
    for (int heads = 1; heads <= GW_HEADS; heads += GW_HEADS - 1) {
        float p[GW_HEADS * GW_SPAN], scores[2][GW_HEADS * GW_SPAN] = { { 0 } }, out[2][GW_HEADS * HEAD_DIM] = { { 0 } };
        choose_cache(t, c->bit, t->w, KEYS);
        choose_cache(t, c->bit == GW_PROVE_I16 ? GW_PROVE_I16 : GW_PROVE_F32, queries, GW_HEADS);
        choose_weights(t, p);
        for (int own = 0; own < 2; own++) {
            const void *q[GW_HEADS];
            float *to[GW_HEADS];
            for (int h = 0; h < heads; h++) q[h] = queries + h * ROW_BYTES, to[h] = out[own] + h * HEAD_DIM;
            c->scores[own](q, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, scores[own]);
            c->mix[own](p, heads, t->w, ROW_BYTES, KEYS, HEAD_DIM, to);
        }
        if (!same(scores[0], scores[1], GW_HEADS * GW_SPAN) || !same(out[0], out[1], GW_HEADS * HEAD_DIM)) return false;
    }
    if (c->bit != GW_PROVE_Q8) return true;
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

#define ROUNDING(NAME, name) { GW_##NAME, gw_ref_round_##name, GW_KERNEL(round_##name) }

static const struct rounding {
    int type;
    gw_round_kernel *plain, *own;
} roundings[] = {
    ROUNDING(F32, f32),
    ROUNDING(F16, f16),
    ROUNDING(BF16, bf16),
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

static bool rounding_holds(trial *t, const struct rounding *r) {
    enum { K = 2 * GW_BLOCK, BYTES = 2 * GW_Q8_BYTES / GW_PANEL };
    uint8_t blocks[2][BYTES];
    choose_floats(t, gw_type_of((uint32_t)r->type), t->w, K);
    r->plain(t->w, K, blocks[0]);
    r->own(t->w, K, blocks[1]);
    return !memcmp(blocks[0], blocks[1], BYTES);
}

typedef struct {
    const char *kind, *name;
} culprit;

static culprit find_wrong(const gw_kernel_list *list) {
    trial t = { .seed = 1 };
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        bool int8 = list->int8 >> p->type & 1, int15 = list->int15 >> p->type & 1;
        const bool needed[] = { p->plain[1] ? int8 : int8 || int15, p->plain[1] && int15 };
        if ((int8 || int15) && !product_holds(&t, p, needed))
            return (culprit){ "products with ", gw_type_name((uint32_t)p->type) };
    }
    if (list->planes && !planes_hold(&t)) return (culprit){ "products with ", "Q8_0 in planes" };
    for (int i = 0; i < CACHES; i++)
        if (list->caches & caches[i].bit && !cache_holds(&t, &caches[i]))
            return (culprit){ "attention to a cache of ", caches[i].name };
    if (list->caches && !weigh_holds(&t)) return (culprit){ "attention weights", "" };
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

/* Switches off the next instruction that kernels can avoid. Returns its name, or NULL if all are switched off. */
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
        if (!without) return gw_fail(e, MSG_WRONG_KERNEL, GW_BUILD, wrong.kind, wrong.name);
        snprintf(text, sizeof text, "%s%s gave wrong results; retried without %s", wrong.kind, wrong.name, without);
        gw_proof_note_add(text);
    }
    return 0;
}
