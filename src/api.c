/* api: see api.h. Ties one file, its loader, one session and one sampler to one handle. */
#include "api.h"
#include "describe.h"
#include "load.h"
#include "session.h"

#include <math.h>
#include <string.h>

struct gw_model {
    gw_pool *pool;
    gw_file file;
    gw_loader loader;
    gw_session session;
    gw_sampler *sampler;
    gw_buffer json;
    bool reserved;
};

const char *gw_build(void) {
#if defined(__wasm_atomics__)
    return GW_BUILD "+threads";
#else
    return GW_BUILD;
#endif
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

size_t gw_load_room(const gw_model *m) {
    int state = m->loader.state;
    return state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS ? m->loader.window_size - m->loader.used : 0;
}

int gw_load_commit(gw_model *m, size_t n) { return gw_loader_commit(&m->loader, n); }

int gw_load_end(gw_model *m) {
    const gw_loader *l = &m->loader;
    if (l->state < 0 || l->state == GW_LOAD_READY) return l->state < 0 ? l->state : 0;
    unsigned long long got = l->position + l->used;
    if (l->state == GW_LOAD_HEADER)
        return gw_fail(&m->file.error, GW_E_TRUNCATED, "file ends inside its header\nmore than %llu bytes\n%llu bytes", got, got);
    return gw_fail(&m->file.error, GW_E_TRUNCATED, "file\n%llu bytes\n%llu bytes", (unsigned long long)l->end, got);
}

static uint32_t context_for(const gw_model *m, uint32_t n_ctx) {
    return n_ctx ? n_ctx : (uint32_t)gw_min(m->file.config.n_ctx_train, 4096);
}

int gw_load_reserve(gw_model *m, uint32_t n_ctx) {
    const gw_config *c = &m->file.config;
    gw_error *e = &m->file.error;
    uint32_t n = context_for(m, n_ctx);
    if (m->loader.state != GW_LOAD_PLAN)
        return gw_fail(e, GW_E_BAD_STATE, "gw_load_reserve\nload state 1\n%d", m->loader.state);
    if (n > c->n_ctx_train)
        return gw_fail(e, GW_E_BAD_OPTION, "contextLength\n1 to %u, which the model was trained for\n%u",
                       c->n_ctx_train, n);
    int bad = gw_session_init(&m->session, c, &m->file.weights, m->pool, n, e);
    if (bad) return bad;
    m->sampler = gw_sampler_new(c->n_vocab);
    if (!m->sampler) bad = gw_fail(e, GW_E_NO_MEMORY, "sampler\n%zu bytes\nno memory", gw_sampler_bytes(c->n_vocab));
    if (!bad) bad = gw_loader_reserve(&m->loader);
    if (bad >= 0) {
        m->reserved = true;
        return 0;
    }
    gw_session_free(&m->session);   /* the host may try again with a smaller context */
    gw_sampler_free(m->sampler);
    m->sampler = NULL;
    return bad;
}

double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part) {
    const gw_config *c = &m->file.config;
    if (m->loader.state < GW_LOAD_PLAN || context_for(m, n_ctx) > c->n_ctx_train) return NAN;
    gw_session_need need = gw_session_measure(c, context_for(m, n_ctx));
    double weights = (double)gw_loader_weight_bytes((gw_loader *)&m->loader);
    double scratch = (double)need.scratch + gw_sampler_bytes(c->n_vocab) + gw_tokenizer_bytes(m->file.tokenizer) +
                     m->file.pool.size + m->file.entries.size + m->file.tensors.size;
    if (!strcmp(part, "weights")) return weights;
    if (!strcmp(part, "kv")) return (double)need.kv;
    if (!strcmp(part, "scratch")) return scratch;
    return !strcmp(part, "total") ? weights + need.kv + scratch : NAN;
}

/* --- what is in the file --- */

double gw_model_number(const gw_model *m, const char *key) {
    if (m->loader.state < GW_LOAD_PLAN) return NAN;
    if (!strcmp(key, "n_ctx")) return m->reserved ? m->session.n_ctx : NAN;
    if (!strcmp(key, "file_bytes")) return (double)m->loader.end;
    return gw_describe_number(&m->file, key);
}

const char *gw_model_text(const gw_model *m, const char *key) {
    return m->loader.state < GW_LOAD_PLAN ? NULL : gw_describe_text(&m->file, key);
}

const char *gw_metadata_json(gw_model *m, uint32_t i) { return gw_describe_entry(&m->file, i, &m->json); }

const char *gw_tensor_json(gw_model *m, uint32_t i) {
    return gw_describe_tensor(&m->file, i, m->loader.parser.data_offset, &m->json);
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
    return n < 0 ? gw_fail(&m->file.error, n, "tokenising\nmemory for %zu bytes of text\n%s", len,
                           gw_error_name(n))
                 : n;
}

int gw_decode(gw_model *m, int32_t id, int special, char *out, size_t cap) {
    int n = gw_tokenizer_decode(m->file.tokenizer, id, special ? GW_TOKENIZE_SPECIAL : 0, out, cap);
    return n < 0 ? gw_fail(&m->file.error, n, "token id\n0 to %u\n%d", m->file.config.n_vocab - 1, id) : n;
}

int gw_is_end(const gw_model *m, int32_t id) {
    const gw_config *c = &m->file.config;
    return id >= 0 && (id == c->eos || id == c->eot);
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
    int bad = not_ready(m);
    return bad ? bad : gw_session_run(&m->session, layers);
}

void gw_want_all(gw_model *m, int on) { gw_session_want_all(&m->session, on); }
void gw_clear(gw_model *m) { gw_session_clear(&m->session); }

const float *gw_logits(gw_model *m) {
    const gw_session *s = &m->session;
    bool rows = s->state.batch.n != 0 || s->logit_rows == 0;   /* in the middle of giving rows: from the first */
    return s->state.logits + (rows ? 0 : (size_t)(s->logit_rows - 1) * m->file.config.n_vocab);
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

int gw_set_bias(gw_model *m, int32_t id, float bias) {
    int bad = no_sampler(m);
    return bad ? bad : gw_sampler_bias(m->sampler, id, bias, &m->file.error);
}
