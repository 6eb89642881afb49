/* load: see load.h. While a header is read, unparsed bytes move to the front of the window (the buffer of file bytes).
 * While weights are read, complete groups of four rows are packed, in parallel, at their final location. */
#include "model/load.h"
#include "base/hash.h"
#include "file/errors.h"
#include "kernels/pack.h"
#include "model/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* STEP_BYTES: number of bytes of a later part's header that are read at once */
enum { WINDOW_BYTES = 2 << 20, STEP_BYTES = 64 << 10 };
_Static_assert((int)WINDOW_BYTES >= (int)GW_GGUF_ITEM,
               "WINDOW_BYTES must be at least GW_GGUF_ITEM, the largest item of a header");

/* --- events of the GGUF parser --- */

enum { SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS, SPLIT_KEYS };
static const char *const split_keys[SPLIT_KEYS] = { "split.no", "split.count", "split.tensors.count" };

static int on_header(void *ctx, uint32_t version, uint64_t n_tensors, uint64_t n_metadata) {
    gw_loader *l = ctx;
    (void)n_metadata;
    if (l->part == 0) l->file->store.version = version;
    uint64_t all = gw_store_tensors(&l->file->store) + n_tensors;
    if (all <= GW_MAX_TENSORS) return 0;
    return gw_fail(&l->file->error, MSG_TOO_MANY, "tensors", "", (unsigned long long)GW_MAX_TENSORS,
                   (unsigned long long)all);
}

static int on_value(void *ctx, const char *key, const gw_gguf_value *v) {
    gw_loader *l = ctx;
    for (int i = 0; i < SPLIT_KEYS; i++)
        if (!strcmp(key, split_keys[i])) l->split[i] = v->i;
    /* Later parts only provide the keys split.*; all other metadata is in the first part. */
    return l->part ? 0 : gw_store_value(&l->file->store, key, v, &l->file->error);
}

/* The tokenizer's metadata arrays. The key of an array is compared once, not for each of up to a million elements. */
enum { OTHER, TOKENS, SCORES, TOKEN_TYPES, MERGES, ARRAYS, ANY = -1 };
static const struct {
    const char *key, *of_what;
    int of;
} arrays[ARRAYS] = {
    [TOKENS] = { "tokenizer.ggml.tokens", "strings", GW_GGUF_STRING },
    [SCORES] = { "tokenizer.ggml.scores", "f32", GW_GGUF_F32 },
    [TOKEN_TYPES] = { "tokenizer.ggml.token_type", "", ANY },
    [MERGES] = { "tokenizer.ggml.merges", "strings", GW_GGUF_STRING },
};

static int on_array(void *ctx, const char *key, int of, uint64_t count) {
    gw_loader *l = ctx;
    gw_error *e = &l->file->error;
    l->array = OTHER;
    if (l->part) return 0;
    for (int i = OTHER + 1; i < ARRAYS; i++)
        if (!strcmp(key, arrays[i].key)) l->array = i;
    if (l->array && l->arrays_seen >> l->array & 1) return gw_fail(e, MSG_TWICE, "metadata key", key);
    if (l->array && of != arrays[l->array].of && arrays[l->array].of != ANY)
        return gw_fail(e, MSG_ARRAY_TYPE, key, arrays[l->array].of_what, of);
    if (l->array == TOKENS && count > GW_MAX_VOCAB)
        return gw_fail(e, MSG_TOO_MANY, "elements of the metadata key ", key, (unsigned long long)GW_MAX_VOCAB,
                       (unsigned long long)count);
    l->arrays_seen |= 1u << l->array;
    return gw_store_array(&l->file->store, key, of, count, e);
}

static int on_element(void *ctx, const char *key, uint64_t i, const gw_gguf_value *v) {
    gw_loader *l = ctx;
    gw_file *f = l->file;
    int bad = 0;
    switch (l->array) {
    case TOKENS: bad = gw_tokenizer_add_piece(f->tokenizer, v->text, v->len); break;
    case SCORES: bad = gw_tokenizer_add_score(f->tokenizer, (float)v->number); break;
    case TOKEN_TYPES: bad = gw_tokenizer_add_type(f->tokenizer, (int)v->i); break;
    case MERGES: bad = gw_tokenizer_add_merge(f->tokenizer, v->text, v->len); break;
    default: return l->part ? 0 : gw_store_element(&f->store, v, &f->error);
    }
    if (!bad) return 0;
    if (v->type != GW_GGUF_STRING || bad == GW_E_NO_MEMORY)
        return gw_fail(&f->error, MSG_ELEMENT(bad), (unsigned long long)i, key);
    return gw_fail(&f->error, MSG_ELEMENT_TOO_LONG(bad), (unsigned long long)i, key,
                   bad == GW_E_BAD_COUNT ? " " GW_CONVERT : "");
}

static int on_tensor(void *ctx, const gw_gguf_tensor *t) {
    gw_loader *l = ctx;
    return gw_store_tensor(&l->file->store, t, l->part, &l->file->error);
}

/* --- life --- */

static void begin_header(gw_loader *l) {
    gw_gguf_listener on = { l, on_header, on_value, on_array, on_element, on_tensor };
    gw_gguf_init(&l->parser, on, &l->file->error);
    for (int i = 0; i < SPLIT_KEYS; i++) l->split[i] = -1;
}

int gw_loader_init(gw_loader *l, gw_file *file, gw_pool *pool) {
    memset(l, 0, sizeof *l);
    l->file = file;
    l->pool = pool;
    l->window = gw_alloc(WINDOW_BYTES);
    l->window_size = WINDOW_BYTES;
    l->n_given = l->n_parts = 1;
    begin_header(l);
    return l->window ? 0 : gw_no_memory(&file->error, "the file's buffer", WINDOW_BYTES);
}

const gw_part *gw_loader_part(const gw_loader *l, uint32_t i) {
    return i < l->parts.used / sizeof(gw_part) ? (gw_part *)l->parts.data + i : NULL;
}

static gw_part *part_of(gw_loader *l, uint32_t i) { return (gw_part *)l->parts.data + i; }

/* Frees the memory that is only needed during loading, not the weights. */
static void finish(gw_loader *l) {
    for (uint32_t i = 0; gw_loader_part(l, i); i++) {
        gw_free(part_of(l, i)->kept);
        part_of(l, i)->kept = NULL;
    }
    gw_free(l->window);
    gw_free(l->order);
    l->window = NULL;
    l->order = NULL;
}

void gw_loader_free(gw_loader *l) {
    finish(l);
    gw_buffer_free(&l->parts);
    gw_free(l->block);
    l->block = NULL;
}

int gw_loader_give(gw_loader *l, int n_files) {
    if (l->state != GW_LOAD_HEADER || l->part || l->position || l->used)
        return gw_fail(&l->file->error, MSG_PARTS_TOO_LATE, l->state);
    if (n_files < 1 || n_files > GW_MAX_PARTS) return gw_fail(&l->file->error, MSG_FILES, GW_MAX_PARTS, n_files);
    l->n_given = (uint32_t)n_files;
    return 0;
}

static void drop(gw_loader *l, size_t n) {
    memmove(l->window, l->window + n, l->used - n);
    l->used -= n;
    l->position += n;
}

/* --- parts --- */

/* Moves the unparsed bytes of a part from the window to a buffer of the part, because the next bytes come from another
 * part. */
static int keep_rest(gw_loader *l) {
    gw_part *p = part_of(l, l->part);
    p->position = l->position;
    p->n_kept = l->used;
    p->kept = l->used ? gw_alloc(l->used) : NULL;
    if (l->used && !p->kept) return gw_no_memory(&l->file->error, "the file's buffer", l->used);
    if (l->used) memcpy(p->kept, l->window, l->used);
    l->used = 0;
    l->position = 0;
    return 0;
}

/* Resumes reading a part where its header ended. */
static void take_up(gw_loader *l, uint32_t i) {
    gw_part *p = part_of(l, i);
    if (p->n_kept) memcpy(l->window, p->kept, p->n_kept);
    l->part = i;
    l->used = p->n_kept;
    l->position = p->position;
    gw_free(p->kept);
    p->kept = NULL;
    p->n_kept = 0;
}

static int check_first(gw_loader *l, int64_t count) {
    l->n_parts = (uint32_t)count;
    l->n_tensors = l->split[SPLIT_TENSORS];
    if (count == l->n_given) return 0;
    if (count == 1) return gw_fail(&l->file->error, MSG_NOT_SPLIT, l->n_given);
    return gw_fail(&l->file->error, MSG_FILES_MISSING, l->n_parts, l->n_parts, l->n_parts, l->n_parts, l->n_given);
}

static int check_part(gw_loader *l) {
    gw_error *e = &l->file->error;
    /* A file that gguf-split merged from parts has split.count 0. */
    bool split = l->split[SPLIT_COUNT] && (l->split[SPLIT_NO] >= 0 || l->split[SPLIT_COUNT] >= 0);
    int64_t no = split ? l->split[SPLIT_NO] : 0, count = split ? l->split[SPLIT_COUNT] : 1;
    if (count < 1 || count > GW_MAX_PARTS || no < 0 || no >= count)
        return gw_fail(e, MSG_SPLIT_KEYS, l->part + 1, GW_MAX_PARTS, (long long)no, (long long)count);
    if (l->part && (count != l->n_parts || l->split[SPLIT_TENSORS] != l->n_tensors))
        return gw_fail(e, MSG_OTHER_PARTS, l->part + 1, l->n_parts, (long long)l->n_tensors, (long long)count,
                       (long long)l->split[SPLIT_TENSORS]);
    if (no != l->part)
        return gw_fail(e, MSG_PART_ORDER, l->part + 1, l->part + 1, l->part + 1, (unsigned)count, (unsigned)no + 1,
                       (unsigned)no + 1, (unsigned)count);
    return l->part ? 0 : check_first(l, count);
}

static int check_tensor_count(gw_loader *l) {
    uint32_t n = gw_store_tensors(&l->file->store);
    if (l->n_parts == 1 || l->n_tensors < 0 || l->n_tensors == n) return 0;
    return gw_fail(&l->file->error, MSG_SPLIT_TENSORS, (long long)l->n_tensors, n);
}

/* --- between header and weights --- */

typedef struct {
    uint64_t offset;
    uint32_t part, index;
} placed;

static int by_place(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Checks that a tensor begins where the previous tensor ends, after alignment, and that the first tensor begins where
 * the data section begins. A gap would mean unknown bytes, or a wrong type. */
static int check_range(gw_loader *l, const gw_tensor *t, uint64_t after) {
    uint64_t alignment = part_of(l, t->part)->alignment, due = (after + alignment - 1) / alignment * alignment;
    if (t->info.offset == due) return 0;
    return gw_fail(&l->file->error, MSG_OFFSET, t->info.name, (unsigned long long)due,
                   after ? "the tensor before it ends" : "the tensor data begin", (unsigned long long)t->info.offset);
}

static int check_ranges(gw_loader *l, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const gw_tensor *t = gw_store_tensor_at(&l->file->store, l->order[i]);
        gw_part *p = part_of(l, t->part);
        bool first = i == 0 || gw_store_tensor_at(&l->file->store, l->order[i - 1])->part != t->part;
        int bad = check_range(l, t, first ? 0 : p->end - p->data_offset);
        if (bad) return bad;
        p->end = p->data_offset + t->info.offset + t->bytes;
    }
    return 0;
}

static int order_tensors(gw_loader *l) {
    uint32_t n = gw_store_tensors(&l->file->store);
    placed *sorted = gw_alloc(n * sizeof *sorted);
    l->order = gw_alloc(n * sizeof *l->order);
    if (!l->order || !sorted) {
        gw_free(sorted);
        return gw_no_memory(&l->file->error, "the list of tensors", n * sizeof *sorted);
    }
    for (uint32_t i = 0; i < n; i++) {
        const gw_tensor *t = gw_store_tensor_at(&l->file->store, i);
        sorted[i] = (placed){ t->info.offset, t->part, i };
    }
    qsort(sorted, n, sizeof *sorted, by_place);
    for (uint32_t i = 0; i < n; i++) l->order[i] = sorted[i].index;
    gw_free(sorted);
    return check_ranges(l, n);
}

static int end_header(gw_loader *l) {
    int bad = check_part(l);
    if (bad) return bad;
    gw_part *p = gw_buffer_add(&l->parts, sizeof *p);
    if (!p) return gw_no_memory(&l->file->error, "the list of files", 0);
    *p = (gw_part){ .data_offset = l->parser.data_offset, .end = l->parser.offset, .alignment = l->parser.alignment };
    if (l->part == 0) l->file->store.alignment = l->parser.alignment;
    if (l->part + 1 < l->n_parts) {
        if ((bad = keep_rest(l))) return bad;
        l->part++;
        begin_header(l);
        return GW_LOAD_HEADER;
    }
    if ((bad = check_tensor_count(l)) || (bad = gw_file_bind(l->file)) || (bad = order_tensors(l))) return bad;
    return GW_LOAD_PLAN;
}

static int commit_header(gw_loader *l) {
    size_t used = 0;
    int how = gw_gguf_push(&l->parser, l->window, l->used, &used);
    if (how < 0) return how;
    drop(l, used);
    return how ? end_header(l) : GW_LOAD_HEADER;
}

/* Returns the necessary size of the window: it must hold four rows of any matrix, and any vector. */
static size_t window_needed(const gw_loader *l) {
    size_t most = WINDOW_BYTES;
    for (uint32_t i = 0; i < gw_store_tensors(&l->file->store); i++) {
        const gw_tensor *t = gw_store_tensor_at(&l->file->store, i);
        bool taken = l->file->bound[i].weight < GW_WEIGHTS;
        if (taken) most = gw_max(most, GW_PANEL * gw_row_bytes(t->type, t->info.shape[0]));
    }
    return most;
}

uint64_t gw_loader_window_bytes(const gw_loader *l) {
    size_t needed = window_needed(l);
    return needed > l->window_size ? needed : 0;
}

static int no_memory(gw_loader *l) { return gw_no_memory(&l->file->error, "the weights", l->block_bytes); }

static bool widen(gw_loader *l, size_t size) {
    uint8_t *wider = gw_alloc(size);
    if (!wider) return false;
    memcpy(wider, l->window, l->used);
    gw_free(l->window);
    l->window = wider;
    l->window_size = size;
    return true;
}

int gw_loader_reserve(gw_loader *l) {
    size_t window = window_needed(l);
    l->block_bytes = gw_file_weight_bytes(l->file);
    if (window > l->window_size && !widen(l, window)) return no_memory(l);
    l->block = gw_alloc(gw_size(l->block_bytes));
    if (!l->block) return no_memory(l);
    gw_arena arena = { .base = l->block, .size = l->block_bytes };
    gw_file_place(l->file, &arena);
    if (l->part > 0) {
        int bad = keep_rest(l);
        if (bad) return l->state = bad;
        take_up(l, 0);
    }
    return l->state = GW_LOAD_WEIGHTS;
}

/* --- weights --- */

typedef struct {
    const gw_matrix *m;
    const gw_type *from;
    uint64_t seed;
    _Atomic uint64_t *wild, *sample;
    uint8_t *rows;
    /* first: index of the first row; row_bytes: bytes of a row in the file; sampled_from, sampled_to: the rows that
     * are hashed to identify the model */
    size_t first, n_rows, row_bytes, step, sampled_from, sampled_to;
} pack_job;

enum { SAMPLED_ROWS = 64 };

/* Sets the range of rows of tensor i that are sampled for the model's hash: all rows, but only a few in the middle
 * of a tensor that is read by token (gw_file_by_token), because it may stay in the file. */
static void find_sampled(const gw_loader *l, uint32_t i, size_t *from, size_t *to) {
    size_t rows = (size_t)gw_store_tensor_at(&l->file->store, i)->info.shape[1];
    size_t n = gw_file_by_token(l->file, i) ? gw_min(rows, SAMPLED_ROWS) : rows;
    *from = (rows - n) / 2;
    *to = *from + n;
}

/* Returns the first eight bytes at `at`, or all bytes of a shorter row. A copy of constant length compiles to one load,
 * any other copy to a call. */
static inline uint64_t word_at(const uint8_t *at, size_t row_bytes) {
    uint64_t word = 0;
    if (row_bytes >= sizeof word) memcpy(&word, at, sizeof word);
    else memcpy(&word, at, row_bytes);
    return word;
}

/* Sums hashes of a few bytes of each row: the first, the last, and some at varying offsets. The sum does not depend on
 * how the bytes are divided into chunks. Runs just before packing, so that rows are loaded into the CPU caches once. */
static uint64_t sample_rows(const pack_job *j, const uint8_t *rows, size_t first, size_t n) {
    size_t bytes = j->row_bytes, range = bytes - gw_min(sizeof(uint64_t), bytes) + 1;
    size_t from = gw_max(first, j->sampled_from), to = gw_min(first + n, j->sampled_to);
    uint64_t sum = 0;
    if (from < to) rows += (from - first) * bytes;
    for (size_t r = from; r < to; r++, rows += bytes) {
        size_t elsewhere = (uint32_t)(r * 40503) % (uint32_t)range;
        uint64_t h = (word_at(rows, bytes) + j->seed + r) * 0x9e3779b185ebca87u;
        h = (h ^ word_at(rows + range - 1, bytes)) * 0xc2b2ae3d27d4eb4fu;
        sum += gw_hash_mix(h ^ word_at(rows + elsewhere, bytes));
    }
    return sum;
}

static void pack_item(void *ctx, int item) {
    const pack_job *j = ctx;
    uint64_t sum = 0;
    for (size_t r = item * j->step; r < gw_min((item + 1) * j->step, j->n_rows); r += GW_PANEL) {
        int n = (int)gw_min(GW_PANEL, j->n_rows - r);
        uint8_t *rows = j->rows + r * j->row_bytes;
        sum += sample_rows(j, rows, j->first + r, (size_t)n);
        if (!gw_matrix_put(j->m, j->from, rows, n, j->first + r)) atomic_store(j->wild, j->first + r + 1);
    }
    atomic_fetch_add(j->sample, sum);
}

static pack_job job_of(gw_loader *l, const gw_tensor *t, const gw_matrix *m) {
    size_t row_bytes = gw_row_bytes(t->type, m->k);
    pack_job j = { .m = m,
                   .from = t->type,
                   .seed = gw_hash(0, t->info.name, strlen(t->info.name)),
                   .wild = &l->wild,
                   .sample = &l->file->sample,
                   .first = (size_t)(l->done / row_bytes),
                   .row_bytes = row_bytes,
                   .step = gw_max(GW_PANEL, gw_round_up(65536 / row_bytes, GW_PANEL)) };
    find_sampled(l, l->order[l->current], &j.sampled_from, &j.sampled_to);
    return j;
}

static size_t take_rows(gw_loader *l, const gw_tensor *t, const gw_matrix *m, uint8_t *bytes, size_t n) {
    pack_job j = job_of(l, t, m);
    j.rows = bytes;
    j.n_rows = n / j.row_bytes;
    if (l->done + j.n_rows * j.row_bytes < t->bytes) j.n_rows = j.n_rows / GW_PANEL * GW_PANEL;
    gw_parallel(l->pool, pack_item, &j, (int)((j.n_rows + j.step - 1) / j.step));
    return j.n_rows * j.row_bytes;
}

/* Samples rows of a tensor that stays in the file, for the model's hash. The tensor is complete after the last sampled
 * row. */
static size_t sample_some(gw_loader *l, const gw_tensor *t, const gw_matrix *m, const uint8_t *bytes, size_t n) {
    pack_job j = job_of(l, t, m);
    size_t rows = gw_min(n / j.row_bytes, j.sampled_to - j.first);
    l->file->sample += sample_rows(&j, bytes, j.first, rows);
    if (j.first + rows == j.sampled_to) l->done = t->bytes - rows * j.row_bytes;
    return rows * j.row_bytes;
}

static bool holds_ids(const gw_loader *l) { return l->file->bound[l->order[l->current]].weight == GW_WEIGHT_ORDERING; }

/* Converts token ids, which may be floats already, to floats. Floats represent all ids up to GW_MAX_VOCAB exactly. */
static void take_ids(gw_loader *l, const gw_tensor *t, float *to, const uint8_t *bytes) {
    for (size_t i = 0; i < t->info.shape[0]; i++) {
        int32_t id;
        memcpy(&id, bytes + i * sizeof id, sizeof id);
        if (t->type->id == GW_I32) to[i] = (float)id;
        else memcpy(&to[i], &id, sizeof id);
        if (!(to[i] >= 0 && to[i] < l->file->config.n_vocab) && !l->wild) l->wild = 1 + i;
    }
}

static size_t take_vector(gw_loader *l, const gw_tensor *t, float *to, const uint8_t *bytes, size_t n) {
    if (n < t->bytes) return 0;
    l->file->sample += gw_hash(gw_hash(1, t->info.name, strlen(t->info.name)), bytes, (size_t)t->bytes);
    if (holds_ids(l)) {
        take_ids(l, t, to, bytes);
        return t->bytes;
    }
    t->type->dequantise(bytes, to, t->info.shape[0]);
    if (!gw_rows_finite(gw_type_of(GW_F32), (const uint8_t *)to, 1, t->info.shape[0])) l->wild = 1;
    return t->bytes;
}

static uint64_t due(const gw_loader *l, const gw_tensor *t) {
    return gw_loader_part(l, t->part)->data_offset + t->info.offset + l->done;
}

/* Processes some bytes of the current tensor from window[at] on. Returns their number; 0 if the tensor needs more
 * bytes, or is complete. Skips bytes only with GW_TABLES_LARGE or GW_TABLES_FILE, because hosts that do not set these
 * options do not expect skipped bytes. */
static size_t take_some(gw_loader *l, size_t at) {
    uint32_t i = l->order[l->current];
    const gw_tensor *t = gw_store_tensor_at(&l->file->store, i);
    size_t n = l->used - at, first, last;
    bool stays = gw_file_stays(l->file, i);
    if (stays && l->done == 0) {
        find_sampled(l, i, &first, &last);
        l->done = first * gw_row_bytes(t->type, t->info.shape[0]);
    }
    bool taken = l->file->bound[i].weight < GW_WEIGHTS, may_skip = l->file->tables != GW_TABLES_MEMORY;
    if (!taken && may_skip) l->done = t->bytes;
    if (l->done == t->bytes) return 0;
    uint64_t begin = due(l, t), here = l->position + at;
    if (here < begin) return (size_t)gw_min(n, begin - here > SIZE_MAX ? SIZE_MAX : (size_t)(begin - here));
    uint64_t left = t->bytes - l->done;
    if (n > left) n = (size_t)left;
    const gw_matrix *m = gw_file_matrix(l->file, i);
    float *vector = gw_file_vector(l->file, i);
    if (stays) n = sample_some(l, t, m, l->window + at, n);
    else if (m) n = take_rows(l, t, m, l->window + at, n);
    else if (vector) n = take_vector(l, t, vector, l->window + at, n);
    l->done += n;
    return n;
}

static const gw_tensor *next_tensor(gw_loader *l) {
    if (l->current == gw_store_tensors(&l->file->store)) return NULL;
    const gw_tensor *t = gw_store_tensor_at(&l->file->store, l->order[l->current]);
    return t->part == l->part ? t : NULL;
}

/* Reports token ids outside the vocabulary, and NaN or infinite weights, which would silently produce wrong logits.
 * llama.cpp's --check-tensors rejects the latter too. */
static int not_finite(gw_loader *l) {
    const gw_tensor *t = gw_store_tensor_at(&l->file->store, l->order[l->current]);
    if (holds_ids(l))
        return gw_fail(&l->file->error, MSG_NOT_TOKEN, (unsigned long long)l->wild - 1, t->info.name,
                       l->file->config.n_vocab);
    return gw_fail(&l->file->error, MSG_NOT_FINITE, t->info.name, (unsigned long long)l->wild - 1);
}

/* Processes all complete rows in the window. Returns false if the next tensor of the part needs more bytes. */
static bool take_window(gw_loader *l) {
    size_t at = 0;
    const gw_tensor *t = NULL;
    while (!l->wild && (t = next_tensor(l))) {
        size_t used = take_some(l, at);
        at += used;
        if (l->wild) return false;
        if (l->done == t->bytes) {
            l->current++;
            l->done = 0;
        } else if (!used) {
            break;
        }
    }
    drop(l, at);
    bool may_jump = l->file->tables != GW_TABLES_MEMORY && t && !l->used;
    if (may_jump && due(l, t) > l->position) l->position = due(l, t);
    return !t;
}

static int commit_weights(gw_loader *l) {
    uint32_t n = gw_store_tensors(&l->file->store);
    while (take_window(l)) {
        if (gw_pool_failed(l->pool)) break;
        if (l->current == n) return GW_LOAD_READY;
        take_up(l, gw_store_tensor_at(&l->file->store, l->order[l->current])->part);
    }
    if (l->wild) return not_finite(l);
    if (gw_pool_failed(l->pool)) return gw_fail(&l->file->error, MSG_PACKING_FAILED);
    return GW_LOAD_WEIGHTS;
}

/* --- the window --- */

size_t gw_loader_room(const gw_loader *l) {
    if (l->state != GW_LOAD_HEADER && l->state != GW_LOAD_WEIGHTS) return 0;
    size_t room = l->window_size - l->used;
    /* Reads little beyond the header of a later part, because these bytes are kept until all headers are read. */
    bool later = l->state == GW_LOAD_HEADER && l->part;
    return later ? gw_min(room, l->used < STEP_BYTES ? STEP_BYTES - l->used : STEP_BYTES) : room;
}

int gw_loader_commit(gw_loader *l, size_t n) {
    if (l->state < 0 || l->state == GW_LOAD_READY) return l->state;
    if (n > l->window_size - l->used)
        return gw_fail(&l->file->error, MSG_COMMIT, "gw_load_commit", l->window_size - l->used, n);
    l->used += n;
    if (l->state == GW_LOAD_HEADER) l->state = commit_header(l);
    else if (l->state == GW_LOAD_WEIGHTS) l->state = commit_weights(l);
    if (l->state == GW_LOAD_READY) finish(l);
    return l->state;
}

int gw_loader_end(gw_loader *l) {
    if (l->state < 0 || l->state == GW_LOAD_READY) return l->state < 0 ? l->state : 0;
    unsigned long long got = l->position + l->used;
    char name[32] = "The file";
    if (l->n_given > 1) snprintf(name, sizeof name, "File %u of %u", l->part + 1, l->n_given);
    if (l->state == GW_LOAD_HEADER) return gw_fail(&l->file->error, MSG_HEADER_ENDS_EARLY, name, got);
    return gw_fail(&l->file->error, MSG_ENDS_EARLY, name, (unsigned long long)part_of(l, l->part)->end, got);
}
