/* api: see api.h. Combines a file, its loader, a session and the sequences' samplers in one handle. */
#include "api.h"
#include "errors.h"
#include "base/errors.h"
#include "kernels/proof.h"
#include "model/describe.h"
#include "model/errors.h"
#include "model/load.h"
#include "run/state.h"
#include "text/matcher.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 1 << 16 }; /* bytes that a memory plan adds for the allocator's bookkeeping and rounding */

struct gw_model {
    gw_pool *pool;
    gw_file file;
    gw_loader loader;
    gw_session session;
    gw_sampler *samplers[GW_SEQUENCES], *sampler;
    gw_trie trie; /* trie of the vocabulary, made when the first grammar is read */
    gw_buffer json;
    gw_state_io state;
    char state_key[17];
    gw_model *target; /* target of an assistant; NULL for other models */
    int kv_type;      /* type of the KV cache, GW_KV_* */
    int sequences;    /* number of the model's sequences besides the first one */
    int kv_tokens;    /* tokens of all sequences for which the KV cache has room; 0: a whole context for each */
    double limit;     /* maximum size of the heap in bytes; 0: no limit */
};

const char *gw_build(void) {
#if defined(__wasm_atomics__)
    return GW_BUILD "+threads";
#else
    return GW_BUILD;
#endif
}

/* --- proofs --- */

static gw_error unfit; /* reason why this wasm build cannot run in this JavaScript engine */

int gw_prove_build(void) { return gw_prove_instructions(&unfit); }

const char *gw_build_note(void) { return unfit.code ? unfit.what : gw_proof_note(); }

/* Set of the weights that forward.c multiplies by int8 activations: those of the feed-forward. */
#define INT8_WEIGHTS \
    (1ull << GW_WEIGHT_GATE | 1ull << GW_WEIGHT_UP | 1ull << GW_WEIGHT_GATE_UP | 1ull << GW_WEIGHT_DOWN)

static int prove_kernels(gw_model *m) {
    static const uint32_t caches[] = { [GW_KV_AUTO] = GW_PROVE_F32 | GW_PROVE_I16,
                                       [GW_KV_F32] = GW_PROVE_F32,
                                       [GW_KV_I16] = GW_PROVE_I16,
                                       [GW_KV_Q8] = GW_PROVE_Q8 };
    gw_kernel_list list = { .caches = caches[gw_file_kv_type(&m->file, m->kv_type)] };
    for (uint32_t i = 0; i < gw_store_tensors(&m->file.store); i++) {
        const gw_type *from = gw_store_tensor_at(&m->file.store, i)->type;
        const gw_matrix *matrix = gw_file_matrix(&m->file, i);
        if (!matrix) continue;
        if (matrix->type != from) list.rounded |= 1u << from->id;
        if (matrix->cache) continue;
        if (matrix->planes.high) list.planes = true;
        else if (matrix->norms) list.int8 |= 1u << matrix->type->id, list.int15 |= 1u << matrix->type->id;
        else *(INT8_WEIGHTS >> m->file.bound[i].weight & 1 ? &list.int8 : &list.int15) |= 1u << matrix->type->id;
    }
    return gw_prove_kernels(&list, &m->file.error);
}

/* --- loading --- */

static bool is_reserved(const gw_model *m) { return m->session.block != NULL; }

gw_model *gw_model_new(gw_pool *pool) {
    gw_model *m = gw_alloc(sizeof *m);
    if (!m) return NULL;
    memset(m, 0, sizeof *m);
    m->pool = pool;
    m->session.now = m->session.sequences;
    m->file.tokenizer = gw_tokenizer_new();
    if (m->file.tokenizer && gw_loader_init(&m->loader, &m->file, pool) == 0) return m;
    gw_model_free(m);
    return NULL;
}

static void free_samplers(gw_model *m) {
    for (uint32_t i = 0; i < GW_SEQUENCES; i++) {
        gw_sampler_free(m->samplers[i]);
        m->samplers[i] = NULL;
    }
    m->sampler = NULL;
}

void gw_model_free(gw_model *m) {
    if (!m) return;
    free_samplers(m);
    gw_state_end(&m->state);
    gw_session_free(&m->session);
    gw_trie_free(&m->trie);
    gw_loader_free(&m->loader);
    gw_file_free(&m->file);
    gw_buffer_free(&m->json);
    gw_free(m);
}

double gw_part_bytes(const gw_model *m, int i) {
    const gw_part *p = i < 0 ? NULL : gw_loader_part(&m->loader, (uint32_t)i);
    return p ? (double)p->end : NAN;
}

static const struct load_option {
    const char *name;
    size_t field;
    const char *values[5]; /* the field is the index of the value; {NULL}: the option is a number */
    uint32_t least, most;  /* bounds of a number n; the field is n - least */
} load_options[] = {
    { "quantizeFloats", offsetof(gw_model, file.floats), { "auto", "keep", "q8_0" }, 0, 0 },
    { "output", offsetof(gw_model, file.output), { "auto", "whole", "stages" }, 0, 0 },
    { "tables", offsetof(gw_model, file.tables), { "memory", "large", "file" }, 0, 0 },
    { "kvType", offsetof(gw_model, kv_type), { "auto", "f32", "i16", "q8_0" }, 0, 0 },
    { "sequences", offsetof(gw_model, sequences), { NULL }, 1, GW_SEQUENCES },
    { "kvTokens", offsetof(gw_model, kv_tokens), { NULL }, 0, GW_SEQUENCES * GW_MAX_CONTEXT },
};
enum { LOAD_OPTIONS = sizeof load_options / sizeof *load_options };

static int no_such_value(gw_model *m, const struct load_option *o, const char *value) {
    char list[64];
    snprintf(list, sizeof list, "%u to %u", o->least, o->most);
    for (int i = 0, at = 0; o->values[i]; i++)
        at += snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", o->values[i]);
    return gw_fail(&m->file.error, MSG_LOAD_OPTION, o->name, o->values[0] ? "one of " : "", list, value);
}

int gw_load_option(gw_model *m, const char *name, const char *value) {
    const struct load_option *o = load_options;
    while (o < load_options + LOAD_OPTIONS && strcmp(o->name, name)) o++;
    if (o == load_options + LOAD_OPTIONS) return gw_fail(&m->file.error, MSG_NO_LOAD_OPTION, name);
    if (is_reserved(m)) return gw_fail(&m->file.error, MSG_OPTION_TOO_LATE, name);
    char *end;
    unsigned long n = 0;
    while (o->values[n] && strcmp(o->values[n], value)) n++;
    bool known = o->values[n] != NULL;
    if (!o->values[0]) {
        n = strtoul(value, &end, 10);
        known = *value >= '0' && *value <= '9' && !*end && n >= o->least && n <= o->most;
    }
    if (!known) return no_such_value(m, o, value);
    *(int *)((char *)m + o->field) = (int)(n - o->least);
    return 0;
}

/* --- memory --- */

static uint32_t context_for(const gw_model *m, uint32_t n_ctx) {
    return n_ctx ? n_ctx : (uint32_t)gw_min(m->file.config.n_ctx_train, 4096);
}

typedef struct {
    double weights, kv, scratch, sampler, window, held, heap;
} plan;

/* Returns the bytes of heap in use: in wasm the whole memory, which includes other data and gaps; in native builds
 * `held`, the caller's sum of allocations. */
static double heap_now(double held) {
#if defined(__wasm__)
    (void)held;
    return __builtin_wasm_memory_size(0) * 65536.0;
#else
    return held;
#endif
}

/* Returns the number of sequences: the load option for models that generate text, 1 for all others. */
static uint32_t sequences_of(const gw_model *m) {
    return m->file.config.arch->policy->generates ? (uint32_t)m->sequences + 1 : 1;
}

static double sampler_bytes(const gw_model *m) {
    const gw_config *c = &m->file.config;
    return c->arch->policy->generates ? (double)sequences_of(m) * (double)gw_sampler_bytes(c->n_vocab) : 0;
}

static gw_session_shape shape_of(const gw_model *m, uint32_t n_ctx) {
    return (gw_session_shape){ n_ctx, sequences_of(m), gw_file_kv_type(&m->file, m->kv_type), (uint32_t)m->kv_tokens };
}

static plan plan_for(const gw_model *m, uint32_t n_ctx) {
    const gw_config *c = &m->file.config;
    gw_session_need need = gw_session_measure(c, shape_of(m, n_ctx));
    plan p = { .weights = (double)gw_file_weight_bytes(&m->file), .kv = (double)need.kv };
    p.scratch = (double)need.scratch;
    p.sampler = sampler_bytes(m);
    p.window = (double)gw_loader_window_bytes(&m->loader);
    p.held = (double)gw_tokenizer_bytes(m->file.tokenizer) + (double)gw_store_bytes(&m->file.store) +
             (double)m->trie.size;
    p.heap = is_reserved(m) ? heap_now(p.held + p.weights + p.kv + p.scratch + p.sampler)
                            : heap_now(p.held) + p.weights + p.kv + p.scratch + p.sampler + p.window + BLOCKS;
    return p;
}

double gw_plan_bytes(const gw_model *m, uint32_t n_ctx, const char *part) {
    if (m->loader.state < GW_LOAD_PLAN || context_for(m, n_ctx) > m->file.config.n_ctx_train) return NAN;
    plan p = plan_for(m, context_for(m, n_ctx));
    double scratch = p.scratch + p.sampler + p.held;
    if (!strcmp(part, "weights")) return p.weights;
    if (!strcmp(part, "kv")) return p.kv;
    if (!strcmp(part, "disk")) return (double)gw_file_bytes_on_disk(&m->file);
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
    if (n == 0) return gw_fail(e, MSG_MODEL_TOO_LARGE, p.heap, p.weights, limit);
    return gw_fail(e, MSG_CONTEXT_TOO_LARGE, n_ctx, p.heap, limit, n);
}

/* Bans the tokens that the file's metadata suppresses. */
static int ban_suppressed(gw_model *m, gw_sampler *s) {
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    const gw_entry *entry = gw_store_find(&m->file.store, key);
    const double *ids = gw_store_numbers(&m->file.store, entry);
    int bad = entry && entry->count && !ids;
    for (uint64_t i = 0; entry && !bad && i < entry->count; i++) {
        bool exists = ids[i] >= 0 && ids[i] < m->file.config.n_vocab;
        bad = !exists || gw_sampler_ban(s, (int32_t)ids[i], &m->file.error);
    }
    return bad ? gw_fail(&m->file.error, MSG_SUPPRESSED, key, GW_MAX_LAYERS) : 0;
}

static int allocate(gw_model *m, uint32_t n_ctx) {
    const gw_config *c = &m->file.config;
    gw_error *e = &m->file.error;
    int bad = gw_session_init(&m->session, c, &m->file.weights, m->pool, shape_of(m, n_ctx), e);
    if (bad) return bad;
    for (uint32_t i = 0; c->arch->policy->generates && i < sequences_of(m); i++) {
        if (!(m->samplers[i] = gw_sampler_new(c->n_vocab)))
            return gw_no_memory(e, "the sampler", gw_sampler_bytes(c->n_vocab));
        if ((bad = ban_suppressed(m, m->samplers[i]))) return bad;
    }
    m->sampler = m->samplers[0];
    return gw_loader_reserve(&m->loader);
}

int gw_load_reserve(gw_model *m, uint32_t n_ctx) {
    gw_error *e = &m->file.error;
    uint32_t n = context_for(m, n_ctx), most = m->file.config.n_ctx_train;
    if (m->loader.state != GW_LOAD_PLAN) return gw_fail(e, MSG_RESERVED_TOO_EARLY, m->loader.state);
    if (n > most) return gw_fail(e, MSG_CONTEXT_LENGTH, most, n);
    if (m->file.config.n_target && !m->target) return gw_fail(e, MSG_ONLY_DRAFTS, m->file.config.arch->name);
    if (m->kv_tokens && (uint32_t)m->kv_tokens < n) return gw_fail(e, MSG_KV_TOKENS, n, m->kv_tokens);
    double limit = limit_of(m);
    if (plan_for(m, n).heap > limit) return does_not_fit(m, n, limit);
    int bad = allocate(m, n);
    if (bad >= 0) return prove_kernels(m);
    gw_session_free(&m->session); /* the session is freed so that the host may try again with a smaller context */
    free_samplers(m);
    return bad;
}

/* --- metadata --- */

static double file_bytes(const gw_model *m) {
    double sum = 0;
    for (uint32_t i = 0; i < m->loader.n_parts; i++) sum += gw_part_bytes(m, (int)i);
    return sum;
}

double gw_model_number(const gw_model *m, const char *key) {
    if (!strcmp(key, "address")) return (double)(uintptr_t)m;
    if (!strcmp(key, "parts")) return m->loader.parts.used ? m->loader.n_parts : NAN;
    if (m->loader.state < GW_LOAD_PLAN) return NAN;
    if (!strcmp(key, "n_ctx")) return is_reserved(m) ? m->session.n_ctx : NAN;
    if (!strcmp(key, "sequences")) return sequences_of(m);
    if (!strcmp(key, "kv_free")) return is_reserved(m) ? (double)gw_kv_free(&m->session.memory) : NAN;
    if (!strcmp(key, "file_bytes")) return file_bytes(m);
    if (!strcmp(key, "pack_texts")) return is_reserved(m) ? gw_session_together(&m->session).texts : NAN;
    if (!strcmp(key, "pack_ids")) return is_reserved(m) ? gw_session_together(&m->session).ids : NAN;
    return gw_describe_number(&m->file, key);
}

const char *gw_model_text(const gw_model *m, const char *key) {
    return m->loader.state < GW_LOAD_PLAN ? NULL : gw_describe_text(&m->file, key);
}

const char *gw_tensor_json(gw_model *m, uint32_t i) {
    if (i >= gw_store_tensors(&m->file.store)) return NULL;
    const gw_tensor *t = gw_store_tensor_at(&m->file.store, i);
    const gw_part *p = gw_loader_part(&m->loader, t->part);
    bool stays = m->loader.state >= GW_LOAD_PLAN && gw_file_stays(&m->file, i);
    return p ? gw_describe_tensor(t, p->data_offset, stays, &m->json) : NULL;
}

const char *gw_error_text(const gw_model *m, const char *part) {
    const gw_error *e = &m->file.error;
    if (!strcmp(part, "code")) return gw_error_name(e->code);
    return !strcmp(part, "what") ? e->what : "";
}

/* --- tokenizer --- */

int gw_encode(gw_model *m, const char *text, size_t len, int special, int32_t *ids, size_t cap) {
    int n = gw_tokenizer_encode(m->file.tokenizer, text, len, special, ids, cap);
    return n < 0 ? gw_tokenizer_refusal(m->file.tokenizer, n, len, cap, &m->file.error) : n;
}

int gw_decode(gw_model *m, int32_t before, int32_t id, int special, char *out, size_t cap) {
    int n = gw_tokenizer_decode_after(m->file.tokenizer, before, id, special ? GW_TOKENIZE_SPECIAL : 0, out, cap);
    return n < 0 ? gw_fail(&m->file.error, MSG_TOKEN_RANGE, m->file.config.n_vocab - 1, id) : n;
}

/* --- grammars --- */

gw_matcher *gw_match_new(gw_model *m, const void *bytes, size_t n) {
    gw_error *e = &m->file.error;
    if (m->loader.state < GW_LOAD_PLAN) {
        gw_fail(e, MSG_MATCHER_TOO_EARLY, m->loader.state);
        return NULL;
    }
    if (!m->trie.block && gw_trie_make(&m->trie, gw_tokenizer_vocabulary(m->file.tokenizer), e)) return NULL;
    gw_words words = { m->file.tokenizer, &m->trie, m->file.tokens.ends, m->file.tokens.n_ends };
    return gw_matcher_new(bytes, n, words, e);
}

void gw_match_free(gw_model *m, gw_matcher *x) {
    for (uint32_t i = 0; i < m->session.n_sequences; i++) {
        gw_topk *needed = &m->session.sequences[i].needed;
        if (needed->rows.bits == gw_matcher_bits(x)) needed->rows = (gw_rows){ 0 };
    }
    gw_matcher_free(x);
}

/* --- evaluation --- */

static int no_sampler(gw_model *m) {
    if (m->sampler) return 0;
    return gw_fail(&m->file.error, MSG_NO_SAMPLER, m->loader.state);
}

static int not_ready(gw_model *m) {
    if (m->loader.state == GW_LOAD_READY) return 0;
    return gw_fail(&m->file.error, MSG_NOT_LOADED, m->loader.state);
}

/* Fails unless a loaded model generates text. */
static int no_context(gw_model *m) {
    int bad = not_ready(m);
    return bad ? bad : no_sampler(m);
}

static void find_top(gw_sequence *q, gw_sampler *sampler) {
    if (!q->want_top) return;
    uint32_t drafts = q->n_ids > q->want_last ? q->want_last - 1 : 0;
    q->needed.best = gw_sampler_top(sampler, q->ids + q->n_ids - drafts, drafts, q->required, GW_MOST_REQUIRED,
                                    &q->needed.n);
}

int gw_run(gw_model *m, int layers) {
    gw_session *s = &m->session;
    int bad = not_ready(m);
    if (bad) return bad;
    find_top(s->now, m->sampler);
    return gw_session_run(s, layers);
}

int gw_step(gw_model *m, uint32_t mask, int layers) {
    int bad = no_context(m);
    if (bad) return bad;
    for (uint32_t i = 0; i < m->session.n_sequences; i++)
        if (mask >> i & 1) find_top(&m->session.sequences[i], m->samplers[i]);
    return gw_session_step(&m->session, mask, layers);
}

int gw_select(gw_model *m, uint32_t i) {
    int bad = not_ready(m);
    if (bad || (bad = gw_session_select(&m->session, i))) return bad;
    m->sampler = m->samplers[i];
    return 0;
}

const int32_t *gw_rows_wanted(gw_model *m) {
    const gw_row_cache *c = m->session.missing;
    return c && c->wanted.n ? &c->wanted.tensor : NULL;
}

void *gw_rows_room(gw_model *m, int i) { return gw_row_cache_room(m->session.missing, i); }

int gw_rows_commit(gw_model *m) {
    gw_row_cache *c = m->session.missing;
    if (!gw_rows_wanted(m)) return gw_fail(&m->file.error, MSG_NO_ROWS_WANTED);
    int32_t wild = gw_row_cache_commit(c);
    if (wild < 0) return 0;
    return gw_fail(&m->file.error, MSG_NOT_FINITE,
                   gw_store_tensor_at(&m->file.store, (uint32_t)c->wanted.tensor)->info.name, (unsigned long long)wild);
}

int gw_autotune(gw_model *m, int sequential, int layer, int rows) {
    int bad = not_ready(m);
    if (bad) return bad;
    gw_session_autotune(&m->session, sequential, layer, rows);
    return layer >= 0 ? 0 : prove_kernels(m); /* again: the JavaScript engine may have recompiled them */
}

/* --- drafts --- */

int gw_pair(gw_model *m, gw_model *target) {
    if (!m->file.config.n_target) return 0;
    int bad = gw_session_pair(&m->file.config, &target->file.config, &m->file.error);
    if (!bad) m->target = target;
    return bad ? bad : 1;
}

int gw_draft(gw_model *m, int32_t id, int chain) {
    int bad = m->target ? not_ready(m) : GW_E_BAD_STATE;
    return bad ? bad : gw_session_draft(&m->session, &m->target->session, id, chain);
}

/* --- inspection --- */

void gw_want_look(gw_model *m) { gw_session_want_look(&m->session); }

double gw_look_number(const gw_model *m, const char *key) {
    const gw_session *s = &m->session;
    const gw_batch *b = &s->state.batch;
    const gw_segment *p = &b->segments[0];
    if (!strcmp(key, "stage")) return s->step;
    if (!strcmp(key, "layer")) return s->layer;
    if (!strcmp(key, "global")) return !m->file.config.layer[s->layer].window;
    if (!strcmp(key, "first")) return (double)p->cache + p->pos;
    return !strcmp(key, "rows") ? b->n : NAN;
}

void gw_look_norms(const gw_model *m, float *out) {
    gw_view x = m->session.state.batch.x;
    for (int r = 0; r < x.n; r++) {
        const float *row = gw_row(x, r);
        double sum = 0;
        for (uint32_t i = 0; i < x.columns; i++) sum += (double)row[i] * row[i];
        out[r] = (float)sqrt(sum);
    }
}

void gw_look_attention(const gw_model *m, int row, int head, float *out) {
    const gw_session *s = &m->session;
    const gw_batch *b = &s->state.batch;
    const gw_config *c = &m->file.config;
    const gw_segment *p = b->segments;
    while (row >= p->row + p->n) p++;
    gw_kv_layer rows = gw_forward_cache(&s->state, s->layer, p);
    memset(out, 0, s->now->n_ids * sizeof *out);
    gw_attention_weights(gw_forward_heads(c, s->layer, p->length), &rows, p->pos + (uint32_t)(row - p->row),
                         gw_row(b->q, row) + (size_t)head * c->layer[s->layer].head_dim, head, out + p->cache);
}

int gw_look_lens(gw_model *m, int row) {
    if (!m->file.config.arch->policy->generates) return gw_fail(&m->file.error, MSG_NO_LENS);
    m->session.state.logits = m->session.now->logits;
    gw_forward_logits(&m->session.state, row, 1);
    return 0;
}

void gw_truncate(gw_model *m, uint32_t n) { gw_session_truncate(&m->session, n); }
void gw_want_all(gw_model *m, int on) { gw_session_want_all(&m->session, on); }
void gw_want_top(gw_model *m, int on) { gw_session_want_top(&m->session, on); }

int gw_match_want(gw_model *m, gw_matcher *x) {
    int bad = not_ready(m);
    if (bad) return bad;
    /* If computing the mask fails, the mask is NULL, which means all tokens. Returns no error then, because the caller
     * may never need the mask. */
    m->session.now->needed.rows = (gw_rows){ gw_matcher_mask(x), m->trie.words };
    return 0;
}

void gw_clear(gw_model *m) { gw_session_clear(&m->session); }

const float *gw_logits(gw_model *m) {
    const gw_sequence *s = m->session.now;
    /* Returns the first row of logits after GW_RUN_LOGITS, the last one after GW_RUN_DONE. */
    bool rows = s->rows != 0 || s->logit_rows == 0;
    return s->logits.at + (rows ? 0 : (size_t)(s->logit_rows - 1) * m->file.config.n_vocab);
}

/* --- saved states --- */

static gw_state_of state_of(gw_model *m) {
    /* Cached keys depend on the RoPE factors, and these depend on whether the context is long. */
    uint64_t hash = gw_file_hash(&m->file) ^ (m->file.weights.rope_long && m->session.state.long_context);
    return (gw_state_of){ &m->session, m->sampler, hash, &m->file.error };
}

const char *gw_state_name(gw_model *m) {
    if (m->loader.state != GW_LOAD_READY) return NULL;
    gw_state_of of = state_of(m);
    gw_state_key(&of, m->state_key);
    return m->state_key;
}

/* --- sampler --- */

/* Fails if one of the first `rows` rows has a logit that is NaN or +infinity; the message names its token. */
static int check_rows(gw_model *m, const float *logits, uint32_t rows) {
    const gw_session *s = &m->session;
    uint32_t n = m->file.config.n_vocab;
    for (size_t i = 0; i < (size_t)rows * n; i++)
        if (!(logits[i] <= FLT_MAX))
            return gw_fail(&m->file.error, MSG_LOGIT_NOT_FINITE, logits[i], (unsigned)(i % n),
                           s->now->logit_first + (unsigned)(i / n) + 1);
    return 0;
}

int gw_check_logits(gw_model *m) { return check_rows(m, m->session.now->logits.at, m->session.now->logit_rows); }

/* Draws a token. banned: argument of MSG_ALL_BANNED, the error if no token can be drawn. */
static int32_t draw(gw_model *m, const float *logits, const char *banned) {
    int32_t id = gw_sampler_draw(m->sampler, logits);
    if (id >= 0) return id;
    int bad = check_rows(m, logits, 1);
    if (bad) return bad;
    return gw_fail(&m->file.error, MSG_ALL_BANNED, banned);
}

int32_t gw_draw(gw_model *m, const float *logits) {
    int bad = no_sampler(m);
    return bad ? bad : draw(m, logits, "logits are");
}

static void mask_logits(float *logits, uint32_t n, const uint32_t *mask, uint32_t words) {
    for (uint32_t w = 0; w * 32 < n; w++) {
        uint32_t bits = w < words ? mask[w] : 0, end = (uint32_t)gw_min(w * 32 + 32, n);
        if (bits == UINT32_MAX) continue;
        for (uint32_t i = w * 32; i < end; i++)
            if (!(bits >> (i & 31) & 1)) logits[i] = -INFINITY;
    }
}

int32_t gw_match_draw(gw_model *m, gw_matcher *x, float *logits, int masked) {
    int bad = no_sampler(m);
    if (bad) return bad;
    if (!masked && gw_sampler_greedy(m->sampler)) {
        int32_t id = gw_sampler_draw(m->sampler, logits);
        int how = id < 0 ? 0 : gw_matcher_allows(x, id);
        if (how) return how < 0 ? how : id;
    }
    const uint32_t *mask = gw_matcher_mask(x);
    if (!mask) return m->file.error.code;
    mask_logits(logits, m->file.config.n_vocab, mask, m->trie.words);
    return draw(m, logits, "tokens that the format allows have the logit");
}

/* --- forwarding --- */

#define FORWARD(result, name, parameters, value) \
    result name parameters {                     \
        (void)m;                                 \
        return value;                            \
    }
#define FORWARD_IF(check, name, parameters, value) \
    int name parameters {                          \
        int bad = check(m);                        \
        return bad ? bad : (value);                \
    }

FORWARD(void *, gw_load_window, (gw_model *m), m->loader.window + m->loader.used)
FORWARD(size_t, gw_load_room, (const gw_model *m), gw_loader_room(&m->loader))
FORWARD(int, gw_load_parts, (gw_model *m, int n), gw_loader_give(&m->loader, n))
FORWARD(int, gw_load_part, (const gw_model *m), (int)m->loader.part)
FORWARD(double, gw_load_offset, (const gw_model *m), (double)(m->loader.position + m->loader.used))
FORWARD(int, gw_load_commit, (gw_model *m, size_t n), gw_loader_commit(&m->loader, n))
FORWARD(int, gw_load_end, (gw_model *m), gw_loader_end(&m->loader))

FORWARD(const char *, gw_metadata_json, (gw_model *m, uint32_t i), gw_describe_entry(&m->file.store, i, &m->json))
FORWARD(double, gw_encode_taken, (const gw_model *m), (double)gw_tokenizer_taken(m->file.tokenizer))
FORWARD(int, gw_is_end, (const gw_model *m, int32_t id), gw_tokens_end(&m->file.tokens, id))
FORWARD(int, gw_is_control, (const gw_model *m, int32_t id),
        gw_tokenizer_type(m->file.tokenizer, id) == GW_TOKEN_CONTROL)

FORWARD(double, gw_match_bytes, (const gw_model *m, const gw_matcher *x), (double)gw_matcher_bytes(x))
FORWARD(int, gw_match_found, (const gw_model *m, const gw_matcher *x), (int)(gw_matcher_found(x) & INT32_MAX))
FORWARD(int, gw_match_reset, (gw_model *m, gw_matcher *x), gw_matcher_reset(x))
FORWARD(int, gw_match_accept, (gw_model *m, gw_matcher *x, int32_t id), gw_matcher_accept(x, id))
FORWARD(int, gw_match_text, (gw_model *m, gw_matcher *x, const char *text, size_t n),
        gw_matcher_accept_text(x, text, n))
FORWARD(int, gw_match_allows, (gw_model *m, gw_matcher *x, int32_t id), gw_matcher_allows(x, id))
FORWARD(const uint32_t *, gw_match_mask, (gw_model *m, gw_matcher *x), gw_matcher_mask(x))
FORWARD(int, gw_match_complete, (const gw_model *m, const gw_matcher *x),
        gw_matcher_complete(x) + gw_matcher_finished(x))
FORWARD(int, gw_match_ended, (const gw_model *m, const gw_matcher *x), gw_matcher_ended(x))
FORWARD(int, gw_match_forced, (gw_model *m, gw_matcher *x, char *out, size_t cap), gw_matcher_forced(x, out, cap))
FORWARD(int, gw_match_joins, (gw_model *m, gw_matcher *x, size_t forced, const char *text, size_t n),
        gw_matcher_joins(x, text, n, forced))

FORWARD_IF(not_ready, gw_sync, (gw_model *m, const int32_t *ids, uint32_t n), gw_session_sync(&m->session, ids, n))
FORWARD_IF(no_context, gw_kept, (gw_model *m, uint32_t i, const int32_t *ids, uint32_t n),
           gw_session_kept(&m->session, i, ids, n))
FORWARD_IF(no_context, gw_copy, (gw_model *m, uint32_t from, uint32_t n), gw_session_copy(&m->session, from, n))
FORWARD_IF(not_ready, gw_append, (gw_model *m, int32_t id), gw_session_append(&m->session, id))
FORWARD_IF(not_ready, gw_want_last, (gw_model *m, uint32_t rows), gw_session_want_last(&m->session, rows))
FORWARD_IF(not_ready, gw_pack, (gw_model *m, const int32_t *ids, const uint32_t *lengths, uint32_t texts, int pooling),
           gw_session_sync_texts(&m->session, ids, lengths, texts, pooling))
FORWARD(const float *, gw_vector, (const gw_model *m, uint32_t text), gw_row(m->session.vectors.rows, (int)text))
FORWARD(uint32_t, gw_logit_rows, (const gw_model *m), m->session.now->logit_rows)
FORWARD(uint32_t, gw_logit_first, (const gw_model *m), m->session.now->logit_first)
FORWARD(uint32_t, gw_position, (const gw_model *m), m->session.now->kv.pos)
FORWARD(uint32_t, gw_pending, (const gw_model *m), m->session.now->n_ids - m->session.now->kv.pos)
FORWARD(int32_t *, gw_abort_flag, (gw_model *m), (int32_t *)&m->session.abort)

FORWARD_IF(no_context, gw_save, (gw_model *m, const int32_t *ids, uint32_t n),
           gw_state_save(&m->state, state_of(m), ids, n))
FORWARD(double, gw_save_bytes, (const gw_model *m), m->state.window ? (double)m->state.head.bytes : 0)
FORWARD(size_t, gw_save_next, (gw_model *m), gw_state_next(&m->state))
FORWARD_IF(no_context, gw_restore, (gw_model *m, double bytes), gw_state_restore(&m->state, state_of(m), bytes))
FORWARD(void *, gw_state_window, (gw_model *m), m->state.window ? m->state.window + m->state.used : NULL)
FORWARD(size_t, gw_state_left, (const gw_model *m), gw_state_room(&m->state))
FORWARD(int, gw_restore_commit, (gw_model *m, size_t n), gw_state_commit(&m->state, n))

FORWARD(gw_sampler *, gw_sampler_of, (gw_model *m), m->sampler)
FORWARD_IF(no_sampler, gw_set_option, (gw_model *m, const char *name, double value),
           gw_sampler_set(m->sampler, name, value, &m->file.error))
FORWARD_IF(no_sampler, gw_set_bias, (gw_model *m, int32_t id, float bias),
           gw_sampler_bias(m->sampler, id, bias, &m->file.error))
