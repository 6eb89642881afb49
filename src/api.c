/* api: see api.h. Ties one file, its loader, one session and one sampler to one handle. */
#include "api.h"
#include "kernels/proof.h"
#include "model/describe.h"
#include "model/load.h"
#include "run/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 1 << 16 };   /* what the heap's own bookkeeping and rounding may take */

struct gw_model {
    gw_pool *pool;
    gw_file file;
    gw_loader loader;
    gw_session session;
    gw_sampler *sampler;
    gw_buffer json;
    int kv_type;             /* GW_KV_* */
    double limit;            /* of the whole heap, in bytes; 0: none */
    bool reserved;
};

const char *gw_build(void) {
#if defined(__wasm_atomics__)
    return GW_BUILD "+threads";
#else
    return GW_BUILD;
#endif
}

/* --- proofs --- */

static gw_error unfit;   /* why this build cannot run here */

int gw_prove_build(void) { return gw_prove_instructions(&unfit); }

const char *gw_build_note(void) { return unfit.code ? unfit.what : gw_proof_note(); }

/* The kernels that the file's weights and caches need. */
static int prove_kernels(gw_model *m) {
    static const uint32_t caches[] = { [GW_KV_AUTO] = GW_PROVE_F32 | GW_PROVE_I16, [GW_KV_F32] = GW_PROVE_F32,
                                       [GW_KV_I16] = GW_PROVE_I16, [GW_KV_Q8] = GW_PROVE_Q8 };
    gw_kernel_list list = { .caches = caches[gw_file_kv_type(&m->file, m->kv_type)] };
    for (uint32_t i = 0; i < gw_store_tensors(&m->file.store); i++) {
        const gw_type *from = gw_store_tensor_at(&m->file.store, i)->type;
        const gw_matrix *matrix = gw_file_matrix(&m->file, i);
        if (!matrix) continue;
        if (matrix->type != from) list.rounded |= 1u << from->id;
        if (matrix->low) list.planes = true;
        else list.types |= 1u << matrix->type->id;
    }
    return gw_prove_kernels(&list, &m->file.error);
}

/* --- loading --- */

gw_model *gw_model_new(gw_pool *pool) {
    gw_model *m = gw_alloc(sizeof *m);
    if (!m) return NULL;
    memset(m, 0, sizeof *m);
    m->pool = pool;
    m->file.tokenizer = gw_tokenizer_new();
    if (m->file.tokenizer && gw_loader_init(&m->loader, &m->file, pool) == 0) return m;
    gw_model_free(m);
    return NULL;
}

void gw_model_free(gw_model *m) {
    if (!m) return;
    gw_sampler_free(m->sampler);
    gw_session_free(&m->session);
    gw_loader_free(&m->loader);
    gw_file_free(&m->file);
    gw_buffer_free(&m->json);
    gw_free(m);
}

void *gw_load_window(gw_model *m) { return m->loader.window + m->loader.used; }

int gw_load_parts(gw_model *m, int n) { return gw_loader_give(&m->loader, n); }
int gw_load_part(const gw_model *m) { return (int)m->loader.part; }
double gw_load_offset(const gw_model *m) { return (double)(m->loader.position + m->loader.used); }

double gw_part_bytes(const gw_model *m, int i) {
    const gw_part *p = i < 0 ? NULL : gw_loader_part(&m->loader, (uint32_t)i);
    return p ? (double)p->end : NAN;
}

size_t gw_load_room(const gw_model *m) { return gw_loader_room(&m->loader); }
int gw_load_commit(gw_model *m, size_t n) { return gw_loader_commit(&m->loader, n); }
int gw_load_end(gw_model *m) { return gw_loader_end(&m->loader); }

/* Names and values as hosts give them; where the value's index goes. */
static const struct load_option { const char *name; size_t field; const char *values[5]; } load_options[] = {
    { "floatMatrices", offsetof(gw_model, file.floats), { "auto", "keep", "q8_0" } },
    { "output", offsetof(gw_model, file.output), { "auto", "whole", "planes" } },
    { "kvType", offsetof(gw_model, kv_type), { "auto", "f32", "i16", "q8_0" } },
};
enum { LOAD_OPTIONS = sizeof load_options / sizeof *load_options };

static int no_such_value(gw_model *m, const struct load_option *o, const char *value) {
    char list[96] = "";
    for (int i = 0, at = 0; o->values[i]; i++)
        at += snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", o->values[i]);
    return gw_fail(&m->file.error, GW_E_BAD_OPTION, "%s\none of %s\n%.32s", o->name, list, value);
}

int gw_load_option(gw_model *m, const char *name, const char *value) {
    const struct load_option *o = load_options;
    while (o < load_options + LOAD_OPTIONS && strcmp(o->name, name)) o++;
    if (o == load_options + LOAD_OPTIONS)
        return gw_fail(&m->file.error, GW_E_BAD_OPTION, "load option\nthe name of one\n%.32s", name);
    if (m->reserved)
        return gw_fail(&m->file.error, GW_E_BAD_STATE, "%s\nbefore memory is reserved\nlater", name);
    for (int i = 0; o->values[i]; i++) {
        if (strcmp(o->values[i], value)) continue;
        *(int *)((char *)m + o->field) = i;
        return 0;
    }
    return no_such_value(m, o, value);
}

/* --- memory --- */

static uint32_t context_for(const gw_model *m, uint32_t n_ctx) {
    return n_ctx ? n_ctx : (uint32_t)gw_min(m->file.config.n_ctx_train, 4096);
}

typedef struct { double weights, kv, scratch, sampler, window, held, heap; } plan;

/* What is there already: in wasm the memory as it is, which holds much else and some gaps. */
static double heap_now(double held) {
#if defined(__wasm__)
    (void)held;
    return __builtin_wasm_memory_size(0) * 65536.0;
#else
    return held;
#endif
}

static plan plan_for(const gw_model *m, uint32_t n_ctx) {
    const gw_config *c = &m->file.config;
    gw_session_need need = gw_session_measure(c, n_ctx, gw_file_kv_type(&m->file, m->kv_type));
    plan p = { .weights = (double)gw_file_weight_bytes(&m->file), .kv = (double)need.kv };
    p.scratch = (double)need.scratch;
    p.sampler = (double)gw_sampler_bytes(c->n_vocab);
    p.window = (double)gw_loader_window_bytes(&m->loader);
    p.held = (double)gw_tokenizer_bytes(m->file.tokenizer) + (double)gw_store_bytes(&m->file.store);
    p.heap = m->reserved ? heap_now(p.held + p.weights + p.kv + p.scratch + p.sampler)
                         : heap_now(p.held) + p.weights + p.kv + p.scratch + p.sampler + p.window + BLOCKS;
    return p;
}

double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part) {
    if (m->loader.state < GW_LOAD_PLAN || context_for(m, n_ctx) > m->file.config.n_ctx_train) return NAN;
    plan p = plan_for(m, context_for(m, n_ctx));
    double scratch = p.scratch + p.sampler + p.held;
    if (!strcmp(part, "weights")) return p.weights;
    if (!strcmp(part, "kv")) return p.kv;
    if (!strcmp(part, "scratch")) return scratch;
    if (!strcmp(part, "heap")) return p.heap;
    return !strcmp(part, "total") ? p.weights + p.kv + scratch : NAN;
}

uint32_t gw_largest_context(const gw_model *m, double bytes) {
    if (m->loader.state < GW_LOAD_PLAN) return 0;
    uint32_t fits = 0, most = m->file.config.n_ctx_train;
    while (fits < most) {
        uint32_t middle = fits + (most - fits + 1) / 2;
        if (plan_for(m, middle).heap <= bytes) fits = middle;
        else most = middle - 1;
    }
    return fits;
}

void gw_load_limit(gw_model *m, double bytes) { m->limit = bytes; }

static double limit_of(const gw_model *m) {
    double addresses = (double)SIZE_MAX + 1;
    return m->limit > 0 && m->limit < addresses ? m->limit : addresses;
}

static int does_not_fit(gw_model *m, uint32_t n_ctx, double limit) {
    gw_error *e = &m->file.error;
    plan p = plan_for(m, n_ctx);
    uint32_t n = gw_largest_context(m, limit);
    if (n == 0)
        return gw_fail(e, GW_E_NO_MEMORY, "memory for the model\n%.0f bytes, %.0f of them weights\n%.0f bytes at most",
                       p.heap, p.weights, limit);
    return gw_fail(e, GW_E_NO_MEMORY, "memory for a context of %u tokens\n%.0f bytes\n%.0f bytes at most; "
                   "a context of %u fits", n_ctx, p.heap, limit, n);
}

static int allocate(gw_model *m, uint32_t n_ctx) {
    const gw_config *c = &m->file.config;
    gw_error *e = &m->file.error;
    int kv_type = gw_file_kv_type(&m->file, m->kv_type);
    int bad = gw_session_init(&m->session, c, &m->file.weights, m->pool, n_ctx, kv_type, e);
    if (bad) return bad;
    m->sampler = gw_sampler_new(c->n_vocab);
    if (!m->sampler) return gw_fail(e, GW_E_NO_MEMORY, "sampler\n%zu bytes\nno memory", gw_sampler_bytes(c->n_vocab));
    return gw_loader_reserve(&m->loader);
}

int gw_load_reserve(gw_model *m, uint32_t n_ctx) {
    gw_error *e = &m->file.error;
    uint32_t n = context_for(m, n_ctx), most = m->file.config.n_ctx_train;
    if (m->loader.state != GW_LOAD_PLAN)
        return gw_fail(e, GW_E_BAD_STATE, "gw_load_reserve\nload state 1\n%d", m->loader.state);
    if (n > most)
        return gw_fail(e, GW_E_BAD_OPTION, "contextLength\n1 to %u, which the model was trained for\n%u", most, n);
    double limit = limit_of(m);
    if (plan_for(m, n).heap > limit) return does_not_fit(m, n, limit);
    int bad = allocate(m, n);
    if (bad >= 0) {
        m->reserved = true;
        return prove_kernels(m);
    }
    gw_session_free(&m->session);   /* the host may try again with a smaller context */
    gw_sampler_free(m->sampler);
    m->sampler = NULL;
    return bad;
}

/* --- what is in the file --- */

static double file_bytes(const gw_model *m) {
    double sum = 0;
    for (uint32_t i = 0; i < m->loader.n_parts; i++) sum += gw_part_bytes(m, (int)i);
    return sum;
}

double gw_model_number(const gw_model *m, const char *key) {
    if (!strcmp(key, "parts")) return m->loader.parts.used ? m->loader.n_parts : NAN;
    if (m->loader.state < GW_LOAD_PLAN) return NAN;
    if (!strcmp(key, "n_ctx")) return m->reserved ? m->session.n_ctx : NAN;
    if (!strcmp(key, "file_bytes")) return file_bytes(m);
    return gw_describe_number(&m->file, key);
}

const char *gw_model_text(const gw_model *m, const char *key) {
    return m->loader.state < GW_LOAD_PLAN ? NULL : gw_describe_text(&m->file, key);
}

const char *gw_metadata_json(gw_model *m, uint32_t i) { return gw_describe_entry(&m->file.store, i, &m->json); }

const char *gw_tensor_json(gw_model *m, uint32_t i) {
    if (i >= gw_store_tensors(&m->file.store)) return NULL;
    const gw_tensor *t = gw_store_tensor_at(&m->file.store, i);
    const gw_part *p = gw_loader_part(&m->loader, t->part);
    return p ? gw_describe_tensor(t, p->data_offset, &m->json) : NULL;
}

const char *gw_error_text(const gw_model *m, const char *part) {
    const gw_error *e = &m->file.error;
    if (!strcmp(part, "code")) return gw_error_name(e->code);
    if (!strcmp(part, "what")) return e->what;
    if (!strcmp(part, "expected")) return e->expected;
    return !strcmp(part, "got") ? e->got : "";
}

/* --- tokenizer --- */

int gw_encode(gw_model *m, const char *text, size_t len, int special, int32_t *ids, size_t cap) {
    int n = gw_tokenizer_encode(m->file.tokenizer, text, len, special ? GW_TOKENIZE_SPECIAL : 0, ids, cap);
    return n < 0 ? gw_tokenizer_refusal(m->file.tokenizer, n, len, cap, &m->file.error) : n;
}

int gw_decode(gw_model *m, int32_t before, int32_t id, int special, char *out, size_t cap) {
    int n = gw_tokenizer_decode_after(m->file.tokenizer, before, id, special ? GW_TOKENIZE_SPECIAL : 0, out, cap);
    return n < 0 ? gw_fail(&m->file.error, n, "token id\n0 to %u\n%d", m->file.config.n_vocab - 1, id) : n;
}

int gw_is_end(const gw_model *m, int32_t id) {
    return gw_tokens_end(&m->file.tokens, id);
}

int gw_is_control(const gw_model *m, int32_t id) {
    return gw_tokenizer_type(m->file.tokenizer, id) == GW_TOKEN_CONTROL;
}

/* --- evaluation --- */

static int not_ready(gw_model *m) {
    if (m->loader.state == GW_LOAD_READY) return 0;
    return gw_fail(&m->file.error, GW_E_BAD_STATE, "evaluation\na model that is loaded\nload state %d",
                   m->loader.state);
}

int gw_sync(gw_model *m, const int32_t *ids, uint32_t n) {
    int bad = not_ready(m);
    return bad ? bad : gw_session_sync(&m->session, ids, n);
}

int gw_append(gw_model *m, int32_t id) {
    int bad = not_ready(m);
    return bad ? bad : gw_session_append(&m->session, id);
}

int gw_run(gw_model *m, int layers) {
    gw_session *s = &m->session;
    int bad = not_ready(m);
    if (bad) return bad;
    s->n_exact = s->want_top ? gw_sampler_arg_max(m->sampler, s->exact, GW_MOST_EXACT) : -1;
    return gw_session_run(s, layers);
}

int gw_rehearse(gw_model *m, int streams, uint32_t quarter) {
    int bad = not_ready(m);
    if (bad) return bad;
    gw_session_rehearse(&m->session, streams, quarter);
    return quarter < 4 ? 0 : prove_kernels(m);   /* by code that the engine has optimised by now */
}

void gw_want_all(gw_model *m, int on) { gw_session_want_all(&m->session, on); }
void gw_want_top(gw_model *m, int on) { gw_session_want_top(&m->session, on); }
void gw_clear(gw_model *m) { gw_session_clear(&m->session); }

const float *gw_logits(gw_model *m) {
    const gw_session *s = &m->session;
    bool rows = s->state.batch.n != 0 || s->logit_rows == 0;   /* in the middle of giving rows: from the first */
    return s->state.logits.at + (rows ? 0 : (size_t)(s->logit_rows - 1) * m->file.config.n_vocab);
}

uint32_t gw_logit_rows(const gw_model *m) { return m->session.logit_rows; }
uint32_t gw_logit_first(const gw_model *m) { return m->session.logit_first; }
uint32_t gw_position(const gw_model *m) { return m->session.state.kv.pos; }
uint32_t gw_pending(const gw_model *m) { return m->session.n_ids - m->session.state.kv.pos; }
int32_t *gw_abort_flag(gw_model *m) { return (int32_t *)&m->session.abort; }

/* --- sampler --- */

gw_sampler *gw_sampler_of(gw_model *m) { return m->sampler; }

static int no_sampler(gw_model *m) {
    if (m->sampler) return 0;
    return gw_fail(&m->file.error, GW_E_BAD_STATE, "sampler\na model whose memory is reserved\nload state %d",
                   m->loader.state);
}

int gw_set_option(gw_model *m, const char *name, double value) {
    int bad = no_sampler(m);
    return bad ? bad : gw_sampler_set(m->sampler, name, value, &m->file.error);
}

int32_t gw_draw(gw_model *m, const float *logits) {
    int bad = no_sampler(m);
    int32_t id = bad ? bad : gw_sampler_draw(m->sampler, logits);
    if (bad || id >= 0) return id;
    return gw_fail(&m->file.error, id, "logits\nfinite ones, or -infinity, not all of them\nothers");
}

int gw_set_bias(gw_model *m, int32_t id, float bias) {
    int bad = no_sampler(m);
    return bad ? bad : gw_sampler_bias(m->sampler, id, bias, &m->file.error);
}
