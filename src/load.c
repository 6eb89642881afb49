/* load: see load.h. Header: what the parser left over moves to the window's front. Weights: whole
 * groups of four rows are packed, in parallel, into their final place as they arrive. */
#include "load.h"
#include "pack.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 2 << 20 };
_Static_assert((int)WINDOW_BYTES >= (int)GW_GGUF_ITEM, "the window holds any one item of a header");

/* --- what the parser tells --- */

static int on_header(void *ctx, uint32_t version, uint64_t n_tensors, uint64_t n_metadata) {
    gw_loader *l = ctx;
    (void)n_tensors, (void)n_metadata;
    l->file->version = version;
    return 0;
}

static int on_value(void *ctx, const char *key, const gw_gguf_value *v) {
    return gw_file_keep_value(((gw_loader *)ctx)->file, key, v);
}

static int on_array(void *ctx, const char *key, int of, uint64_t count) {
    gw_loader *l = ctx;
    gw_file *f = l->file;
    bool tokens = !strcmp(key, "tokenizer.ggml.tokens"), scores = !strcmp(key, "tokenizer.ggml.scores");
    if ((tokens && f->has_tokens) || (scores && f->has_scores))
        return gw_fail(&f->error, GW_E_DUPLICATE, "metadata key %s\nonce\ntwice", key);
    if (tokens && of != GW_GGUF_STRING)
        return gw_fail(&f->error, GW_E_BAD_TOKENIZER, "metadata key %s\nan array of strings\ntype %d", key, of);
    if (scores && of != GW_GGUF_F32)
        return gw_fail(&f->error, GW_E_BAD_TOKENIZER, "metadata key %s\nan array of f32\ntype %d", key, of);
    if (tokens && count > GW_MAX_VOCAB)
        return gw_fail(&f->error, GW_E_BAD_COUNT, "metadata key %s\nat most %d tokens\n%llu", key, GW_MAX_VOCAB,
                       (unsigned long long)count);
    f->has_tokens |= tokens;
    f->has_scores |= scores;
    return gw_file_keep_array(f, key, of, count);
}

static int on_element(void *ctx, const char *key, uint64_t i, const gw_gguf_value *v) {
    gw_file *f = ((gw_loader *)ctx)->file;
    int bad = 0;
    if (!strcmp(key, "tokenizer.ggml.tokens")) bad = gw_tokenizer_add_piece(f->tokenizer, v->text, v->len);
    else if (!strcmp(key, "tokenizer.ggml.scores")) bad = gw_tokenizer_add_score(f->tokenizer, (float)v->number);
    else if (!strcmp(key, "tokenizer.ggml.token_type")) bad = gw_tokenizer_add_type(f->tokenizer, (int)v->i);
    else if (!strcmp(key, "gemma3.attention.sliding_window_pattern") && i < GW_MAX_LAYERS)
        f->layer_pattern[i] = v->i != 0;
    return bad ? gw_fail(&f->error, bad, "metadata key %s\na valid element\nelement %llu", key,
                         (unsigned long long)i)
               : 0;
}

static int on_tensor(void *ctx, const gw_gguf_tensor *t) {
    return gw_file_keep_tensor(((gw_loader *)ctx)->file, t);
}

int gw_loader_init(gw_loader *l, gw_file *file, gw_pool *pool) {
    memset(l, 0, sizeof *l);
    l->file = file;
    l->pool = pool;
    l->window = gw_alloc(WINDOW_BYTES);
    l->window_size = WINDOW_BYTES;
    gw_gguf_listener on = { l, on_header, on_value, on_array, on_element, on_tensor };
    gw_gguf_init(&l->parser, on, &file->error);
    return l->window ? 0 : gw_fail(&file->error, GW_E_NO_MEMORY, "loading window\n%d bytes\nno memory", WINDOW_BYTES);
}

void gw_loader_finish(gw_loader *l) {
    gw_free(l->window);
    gw_free(l->order);
    l->window = NULL;
    l->order = NULL;
}

void gw_loader_free(gw_loader *l) {
    gw_loader_finish(l);
    gw_free(l->block);
    l->block = NULL;
}

static void drop(gw_loader *l, size_t n) {
    memmove(l->window, l->window + n, l->used - n);
    l->used -= n;
    l->position += n;
}

/* --- between header and weights --- */

typedef struct { uint64_t offset; uint32_t index; } placed;

static int by_offset(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int check_ranges(gw_loader *l, uint32_t n) {
    uint64_t end = 0, limit = UINT64_MAX / 2;
    for (uint32_t i = 0; i < n; i++) {
        const gw_tensor *t = gw_file_tensor(l->file, l->order[i]);
        if (t->info.offset < end)
            return gw_fail(&l->file->error, GW_E_TENSOR_RANGE, "tensor %s: offset\nat least %llu, where another one ends\n%llu", t->info.name,
                           (unsigned long long)end, (unsigned long long)t->info.offset);
        if (t->info.offset > limit - t->bytes - l->parser.data_offset)
            return gw_fail(&l->file->error, GW_E_TENSOR_RANGE, "tensor %s: end\nbelow 2^63\nbeyond", t->info.name);
        end = t->info.offset + t->bytes;
    }
    l->end = l->parser.data_offset + end;
    return 0;
}

static int order_tensors(gw_loader *l) {
    uint32_t n = gw_file_tensors(l->file);
    placed *sorted = gw_alloc(n * sizeof *sorted);
    l->order = gw_alloc(n * sizeof *l->order);
    if (!l->order || !sorted) {
        gw_free(sorted);
        return gw_fail(&l->file->error, GW_E_NO_MEMORY, "tensor directory\n%u entries\nno memory", n);
    }
    for (uint32_t i = 0; i < n; i++) sorted[i] = (placed){ gw_file_tensor(l->file, i)->info.offset, i };
    qsort(sorted, n, sizeof *sorted, by_offset);
    for (uint32_t i = 0; i < n; i++) l->order[i] = sorted[i].index;
    gw_free(sorted);
    return check_ranges(l, n);
}

static int commit_header(gw_loader *l) {
    size_t used = 0;
    int how = gw_gguf_push(&l->parser, l->window, l->used, &used);
    if (how < 0) return how;
    drop(l, used);
    if (how == 0) return GW_LOAD_HEADER;
    l->file->alignment = l->parser.alignment;
    int bad;
    if ((bad = gw_file_bind(l->file)) || (bad = order_tensors(l))) return bad;
    return GW_LOAD_PLAN;
}

size_t gw_loader_weight_bytes(gw_loader *l) {
    gw_arena measure = { 0 };
    gw_file_place(l->file, &measure);
    return measure.used;
}

/* The window must hold four rows of any matrix, and any vector. */
static size_t window_needed(gw_loader *l) {
    size_t most = WINDOW_BYTES;
    for (uint32_t i = 0; i < gw_file_tensors(l->file); i++) {
        const gw_tensor *t = gw_file_tensor(l->file, i);
        if (t->matrix || t->vector) most = gw_max(most, 4 * gw_row_bytes(t->type, t->info.shape[0]));
    }
    return most;
}

int gw_loader_reserve(gw_loader *l) {
    if (l->state != GW_LOAD_PLAN)
        return gw_fail(&l->file->error, GW_E_BAD_STATE, "gw_load_reserve\nstate 1\n%d", l->state);
    size_t window = window_needed(l);
    l->block_bytes = gw_loader_weight_bytes(l);
    uint8_t *wider = window > l->window_size ? gw_alloc(window) : NULL;
    if (window <= l->window_size || wider) l->block = gw_alloc(l->block_bytes);
    if (!l->block) {
        gw_free(wider);
        return gw_fail(&l->file->error, GW_E_NO_MEMORY, "weights\n%llu bytes\nno memory",
                       (unsigned long long)l->block_bytes);
    }
    if (wider) {
        memcpy(wider, l->window, l->used);
        gw_free(l->window);
        l->window = wider;
        l->window_size = window;
    }
    gw_arena arena = { .base = l->block, .size = l->block_bytes };
    gw_file_place(l->file, &arena);
    return l->state = GW_LOAD_WEIGHTS;
}

/* --- weights --- */

typedef struct {
    const gw_tensor *t;
    const uint8_t *rows;
    uint8_t *panels;
    size_t n_rows, row_bytes, step;
} pack_job;

static void pack_item(void *ctx, int item) {
    const pack_job *j = ctx;
    for (size_t r = item * j->step; r < gw_min((item + 1) * j->step, j->n_rows); r += 4)
        gw_pack_panel(j->t->type, j->rows + r * j->row_bytes, (int)gw_min(4, j->n_rows - r), j->t->info.shape[0],
                      j->panels + r * j->row_bytes);
}

/* Returns how many of the n bytes at `bytes` were packed: whole panels only. */
static size_t take_rows(gw_loader *l, const gw_tensor *t, const uint8_t *bytes, size_t n) {
    size_t row_bytes = gw_row_bytes(t->type, t->info.shape[0]), rows = n / row_bytes;
    if (l->done + rows * row_bytes < t->bytes) rows = rows / 4 * 4;
    pack_job j = { t, bytes, t->matrix->data + l->done, rows, row_bytes, gw_max(4, gw_round_up(65536 / row_bytes, 4)) };
    gw_parallel(l->pool, pack_item, &j, (int)((rows + j.step - 1) / j.step));
    return rows * row_bytes;
}

static size_t take_vector(const gw_tensor *t, const uint8_t *bytes, size_t n) {
    if (n < t->bytes) return 0;
    t->type->dequantise(bytes, (float *)*t->vector, t->info.shape[0]);
    return t->bytes;
}

/* One step on the bytes from `at` on; returns how many were used, 0 if more are needed. */
static size_t take_some(gw_loader *l, size_t at) {
    const gw_tensor *t = gw_file_tensor(l->file, l->order[l->current]);
    uint64_t begin = l->parser.data_offset + t->info.offset, here = l->position + at;
    size_t n = l->used - at;
    if (here < begin) return (size_t)gw_min(n, begin - here > SIZE_MAX ? SIZE_MAX : (size_t)(begin - here));
    uint64_t left = t->bytes - l->done;
    if (n > left) n = (size_t)left;
    if (t->matrix) n = take_rows(l, t, l->window + at, n);
    else if (t->vector) n = take_vector(t, l->window + at, n);
    l->done += n;
    return n;
}

static int commit_weights(gw_loader *l) {
    uint32_t n = gw_file_tensors(l->file);
    size_t at = 0;
    while (l->current < n) {
        size_t used = take_some(l, at);
        at += used;
        if (l->done == gw_file_tensor(l->file, l->order[l->current])->bytes) {
            l->current++;
            l->done = 0;
        } else if (!used) {
            break;
        }
    }
    drop(l, at);
    return l->current == n ? GW_LOAD_READY : GW_LOAD_WEIGHTS;
}

int gw_loader_commit(gw_loader *l, size_t n) {
    if (l->state < 0 || l->state == GW_LOAD_READY) return l->state;
    if (n > l->window_size - l->used)
        return gw_fail(&l->file->error, GW_E_BAD_STATE, "bytes committed\nat most %zu\n%zu",
                       l->window_size - l->used, n);
    l->used += n;
    if (l->state == GW_LOAD_HEADER) l->state = commit_header(l);
    else if (l->state == GW_LOAD_WEIGHTS) l->state = commit_weights(l);
    if (l->state == GW_LOAD_READY) gw_loader_finish(l);
    return l->state;
}
