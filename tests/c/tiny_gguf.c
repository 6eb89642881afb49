/* tiny_gguf: makes small model files, described in tiny_gguf.h. */
#include "tiny_gguf.h"
#include "file/gguf.h"
#include "model/load.h"
#include "file/types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const tiny_config *c;
    gw_buffer out, tensors;
    uint64_t n_keys, data_size;
} writer;

static void put(gw_buffer *b, const void *p, size_t n) {
    void *to = gw_buffer_add(b, n);
    if (!to) abort();
    if (n) memcpy(to, p, n);
}

static void put_number(gw_buffer *b, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) put(b, &(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

static void put_text(gw_buffer *b, const char *s) {
    put_number(b, strlen(s), 8);
    put(b, s, strlen(s));
}

static void put_float(gw_buffer *b, float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    put_number(b, u, 4);
}

static bool is_victim(const writer *w, tiny_damage damage, const char *name) {
    return w->c->damage == damage && !strcmp(w->c->victim, name);
}

static bool key(writer *w, const char *name, int type) {
    if (is_victim(w, TINY_DROP_KEY, name)) return false;
    put_text(&w->out, name);
    put_number(&w->out, (uint64_t)type, 4);
    w->n_keys++;
    return true;
}

static void key_text(writer *w, const char *name, const char *text) {
    if (key(w, name, GW_GGUF_STRING)) put_text(&w->out, is_victim(w, TINY_SET_KEY, name) ? w->c->text : text);
}

static void key_u32(writer *w, const char *name, uint32_t v) {
    bool as_text = is_victim(w, TINY_KEY_AS_TEXT, name), is_set = is_victim(w, TINY_SET_KEY, name);
    bool as_float = is_set && !(w->c->number >= 0 && w->c->number == floor(w->c->number));
    if (is_set && !as_float) v = (uint32_t)w->c->number;
    if (!key(w, name, as_text ? GW_GGUF_STRING : as_float ? GW_GGUF_F32 : GW_GGUF_U32)) return;
    if (as_text) put_text(&w->out, "12");
    else if (as_float) put_float(&w->out, (float)w->c->number);
    else put_number(&w->out, v, 4);
}

static void key_f32(writer *w, const char *name, float v) {
    if (key(w, name, GW_GGUF_F32)) put_float(&w->out, is_victim(w, TINY_SET_KEY, name) ? (float)w->c->number : v);
}

/* Writes the head of an array. Returns how many elements to write, or 0 if the key is omitted. */
static uint32_t key_array(writer *w, const char *name, int of, uint32_t count) {
    if (!key(w, name, GW_GGUF_ARRAY)) return 0;
    if (is_victim(w, TINY_EMPTY_ARRAY, name)) count = 0;
    if (is_victim(w, TINY_SHORT_ARRAY, name)) count--;
    put_number(&w->out, (uint64_t)of, 4);
    put_number(&w->out, count, 8);
    return count;
}

static const char *architecture(const writer *w) { return w->c->target ? "gemma4-assistant" : "gemma3"; }

typedef struct {
    char text[96];
} full_key;

static full_key full(const writer *w, const char *name) {
    full_key k;
    snprintf(k.text, sizeof k.text, "%s.%s", architecture(w), name);
    return k;
}

static void config_u32(writer *w, const char *name, uint32_t v) { key_u32(w, full(w, name).text, v); }

static void put_config(writer *w) {
    const tiny_config *c = w->c;
    config_u32(w, "context_length", c->n_ctx);
    config_u32(w, "embedding_length", c->n_embd);
    config_u32(w, "block_count", c->n_layer);
    config_u32(w, "feed_forward_length", c->n_ff);
    config_u32(w, "attention.head_count", c->n_head);
    config_u32(w, "attention.head_count_kv", c->n_head_kv);
    config_u32(w, "attention.key_length", c->head_dim);
    config_u32(w, "attention.value_length", c->head_dim);
    config_u32(w, "attention.sliding_window", c->window);
    key_f32(w, full(w, "attention.layer_norm_rms_epsilon").text, 1e-6f);
    key_f32(w, full(w, "rope.freq_base").text, 1e6f);
    if (c->target) config_u32(w, "embedding_length_out", c->target);
    full_key key_of_pattern = full(w, "attention.sliding_window_pattern");
    const char *pattern = key_of_pattern.text;
    if (c->pattern && !c->pattern_as_bools) key_u32(w, pattern, c->pattern);
    if (!c->pattern || !c->pattern_as_bools) return;
    uint32_t n = key_array(w, pattern, GW_GGUF_BOOL, c->n_layer);
    for (uint32_t l = 0; l < n; l++) put_number(&w->out, l % c->pattern != c->pattern - 1, 1);
}

static void piece(uint32_t id, char *out, size_t size) {
    static const char *const first[TINY_BYTES] = { "<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>" };
    if (id < TINY_BYTES) snprintf(out, size, "%s", first[id]);
    else if (id < TINY_WORDS) snprintf(out, size, "<0x%02X>", id - TINY_BYTES);
    else if (id < TINY_WORDS + 26) snprintf(out, size, "%c", 'a' + (int)(id - TINY_WORDS));
    else snprintf(out, size, "\xE2\x96\x81w%u", id);
}

static int piece_type(uint32_t id) {
    if (id == TINY_UNK) return GW_TOKEN_UNKNOWN;
    return id < TINY_BYTES ? GW_TOKEN_CONTROL : id < TINY_WORDS ? GW_TOKEN_BYTE : GW_TOKEN_NORMAL;
}

static void put_vocabulary(writer *w) {
    char text[32];
    uint32_t n = key_array(w, "tokenizer.ggml.tokens", GW_GGUF_STRING, w->c->n_vocab);
    for (uint32_t id = 0; id < n; id++) {
        piece(id, text, sizeof text);
        put_text(&w->out, text);
    }
    n = key_array(w, "tokenizer.ggml.scores", GW_GGUF_F32, w->c->n_vocab);
    for (uint32_t id = 0; id < n; id++) put_float(&w->out, -(float)id);
    n = key_array(w, "tokenizer.ggml.token_type", GW_GGUF_I32, w->c->n_vocab);
    for (uint32_t id = 0; id < n; id++) put_number(&w->out, (uint64_t)piece_type(id), 4);
}

/* Writes the keys of a split model with the types that gguf-split writes: u16, u16, i32. */
static void put_split(writer *w, uint32_t n_tensors) {
    const struct {
        const char *name;
        int type, bytes;
        uint32_t value;
    } keys[] = {
        { "split.no", GW_GGUF_U16, 2, w->c->part },
        { "split.count", GW_GGUF_U16, 2, w->c->n_parts },
        { "split.tensors.count", GW_GGUF_I32, 4, n_tensors },
    };
    for (int i = 0; i < 3; i++)
        if (key(w, keys[i].name, keys[i].type))
            put_number(&w->out, is_victim(w, TINY_SET_KEY, keys[i].name) ? (uint64_t)w->c->number : keys[i].value,
                       keys[i].bytes);
}

/* Keys that are in a file only if TINY_SET_KEY names them. */
static const char *const more_ids[] = { "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                        "tokenizer.ggml.padding_token_id" };

static void put_metadata(writer *w) {
    key_text(w, "general.architecture", architecture(w));
    key_text(w, "general.name", "tiny");
    if (w->c->alignment) key_u32(w, "general.alignment", w->c->alignment);
    put_config(w);
    key_text(w, "tokenizer.ggml.model", "llama");
    put_vocabulary(w);
    key_u32(w, "tokenizer.ggml.bos_token_id", TINY_BOS);
    key_u32(w, "tokenizer.ggml.eos_token_id", TINY_EOS);
    for (size_t i = 0; i < sizeof more_ids / sizeof *more_ids; i++)
        if (is_victim(w, TINY_SET_KEY, more_ids[i])) key_u32(w, more_ids[i], 0);
}

static uint64_t bytes_of(const tiny_tensor *t) {
    const gw_type *type = gw_type_of(t->type);
    uint64_t rows = t->n_dims == 2 ? t->shape[1] : 1;
    return type ? (t->shape[0] + type->items - 1) / type->items * type->bytes * rows : t->shape[0] * rows;
}

static uint64_t aligned(const writer *w, uint64_t n) {
    uint64_t to = w->c->alignment ? w->c->alignment : 32;
    return (n + to - 1) / to * to;
}

static const char other[] = "other.weight";

static void add_far(writer *w) {
    uint64_t items = (uint64_t)w->c->number / sizeof(float);
    tiny_tensor t = { .type = GW_F32, .n_dims = 1, .shape = { items }, .offset = w->data_size, .bytes = items * 4 };
    snprintf(t.name, sizeof t.name, "%s", other);
    w->data_size = aligned(w, w->data_size + t.bytes);
    put(&w->tensors, &t, sizeof t);
}

/* Adds a matrix, or a vector if `rows` is 0. */
static void add_tensor(writer *w, const char *name, int type, uint64_t k, uint64_t rows) {
    if (is_victim(w, TINY_DROP_TENSOR, name)) return;
    if (is_victim(w, TINY_FAR, name)) add_far(w);
    tiny_tensor t = { .type = (uint32_t)type, .n_dims = rows ? 2 : 1, .shape = { k, rows } };
    snprintf(t.name, sizeof t.name, "%s", name);
    if (is_victim(w, TINY_SHAPE, name)) t.shape[t.n_dims - 1] = (uint64_t)w->c->number;
    if (is_victim(w, TINY_TYPE, name)) t.type = (uint32_t)w->c->number;
    for (int n = is_victim(w, TINY_TWICE, name) ? 2 : 1; n > 0; n--) {
        t.offset = w->data_size;
        t.bytes = bytes_of(&t);
        w->data_size = aligned(w, w->data_size + t.bytes);
        if (is_victim(w, TINY_OFFSET, name)) t.offset = (uint64_t)w->c->number;
        put(&w->tensors, &t, sizeof t);
    }
}

static void add_layer(writer *w, uint32_t layer) {
    const tiny_config *c = w->c;
    uint64_t q = (uint64_t)c->n_head * c->head_dim, kv = (uint64_t)c->n_head_kv * c->head_dim;
    const struct {
        const char *name;
        int type;
        uint64_t k, rows;
    } tensors[] = {
        { "attn_norm", GW_F32, c->n_embd, 0 },
        { "ffn_down", c->ffn, c->n_ff, c->n_embd },
        { "ffn_gate", c->ffn, c->n_embd, c->n_ff },
        { "ffn_up", c->ffn, c->n_embd, c->n_ff },
        { "ffn_norm", GW_F32, c->n_embd, 0 },
        { "post_ffw_norm", GW_F32, c->n_embd, 0 },
        { "post_attention_norm", GW_F32, c->n_embd, 0 },
        { "attn_k_norm", GW_F32, c->head_dim, 0 },
        { "attn_k", c->attn, c->n_embd, kv },
        { "attn_output", c->attn, q, c->n_embd },
        { "attn_q_norm", GW_F32, c->head_dim, 0 },
        { "attn_q", c->attn, c->n_embd, q },
        { "attn_v", c->attn, c->n_embd, kv },
        { "layer_output_scale", GW_F32, 1, 0 },
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[64];
        bool keys = !strncmp(tensors[i].name, "attn_k", 6) || !strcmp(tensors[i].name, "attn_v");
        if (c->target ? keys : !strcmp(tensors[i].name, "layer_output_scale")) continue;
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        add_tensor(w, name, tensors[i].type, tensors[i].k, tensors[i].rows);
    }
}

static void add_tensors(writer *w) {
    const tiny_config *c = w->c;
    if (c->head >= 0) add_tensor(w, "output.weight", c->head, c->n_embd, c->n_vocab);
    add_tensor(w, "token_embd.weight", c->embd, c->n_embd, c->n_vocab);
    for (uint32_t l = 0; l < c->n_layer; l++) add_layer(w, l);
    add_tensor(w, "output_norm.weight", GW_F32, c->n_embd, 0);
    if (!c->target) return;
    add_tensor(w, "rope_freqs.weight", GW_F32, c->head_dim / 2, 0);
    add_tensor(w, "nextn.pre_projection.weight", c->attn, 2 * (uint64_t)c->target, c->n_embd);
    add_tensor(w, "nextn.post_projection.weight", c->attn, c->n_embd, c->target);
    if (!c->centroids) return;
    add_tensor(w, "masked_embd_centroids.weight", c->attn, c->n_embd, c->centroids);
    add_tensor(w, "masked_embd_ordering", GW_I32, c->n_vocab, 0);
}

static void put_infos(writer *w, const tiny_tensor *t, size_t n) {
    for (; n > 0; n--, t++) {
        put_text(&w->out, t->name);
        put_number(&w->out, t->n_dims, 4);
        for (uint32_t d = 0; d < t->n_dims; d++) put_number(&w->out, t->shape[d], 8);
        put_number(&w->out, t->type, 4);
        put_number(&w->out, t->offset, 8);
    }
}

/* Returns a number in [-1, 1): upper bits of a linear congruential generator (Knuth's MMIX constants). */
static float draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}

static void put_row(writer *w, const gw_type *type, float *row, uint64_t k, float middle, float spread,
                    uint64_t *state) {
    uint64_t bytes = (k + type->items - 1) / type->items * type->bytes;
    void *to = gw_buffer_add(&w->out, bytes);
    if (!to) abort();
    memset(to, 0, bytes);
    for (uint64_t i = 0; i < k; i++) row[i] = middle + spread * draw(state);
    if (type->quantise && k % type->items == 0) type->quantise(row, to, k);
}

static void put_weights(writer *w, const tiny_tensor *t, uint64_t *state) {
    const gw_type *type = gw_type_of(t->type);
    float *row = malloc((t->shape[0] + 1) * sizeof *row);
    if (!row) abort();
    bool vector = t->n_dims == 1, embedding = !strcmp(t->name, "token_embd.weight");
    float spread = vector ? 0.25f : embedding ? 1.0f : 1.7f / sqrtf((float)t->shape[0]);
    for (uint64_t r = 0; type && r < (vector ? 1 : t->shape[1]); r++)
        put_row(w, type, row, t->shape[0], vector ? 1.0f : 0.0f, spread, state);
    for (uint64_t i = 0; !type && i < t->bytes; i++) put_number(&w->out, 0, 1);
    free(row);
    while (w->out.used % aligned(w, 1)) put_number(&w->out, 0, 1);
}

/* Returns the number of the part that has tensor i of n. All parts have about the same number of tensors. */
static uint32_t part_of(const tiny_config *c, uint32_t i, uint32_t n) {
    if (c->n_parts < 2) return 0;
    return c->bare_first ? 1 + i * (c->n_parts - 1) / n : i * c->n_parts / n;
}

static uint32_t choose_tensors(writer *w, tiny_tensor *t, uint32_t n, tiny_tensor *chosen) {
    uint32_t count = 0;
    if (w->c->n_parts > 1) w->data_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (part_of(w->c, i, n) != w->c->part) continue;
        chosen[count] = t[i];
        if (w->c->n_parts > 1) {
            chosen[count].offset = w->data_size;
            w->data_size = aligned(w, w->data_size + t[i].bytes);
        }
        count++;
    }
    return count;
}

tiny_file tiny_make(const tiny_config *c) {
    writer w = { .c = c };
    add_tensors(&w);
    uint32_t n = (uint32_t)(w.tensors.used / sizeof(tiny_tensor));
    tiny_tensor *all = (tiny_tensor *)w.tensors.data;
    tiny_file f = { .tensors = malloc(n * sizeof *f.tensors) };
    if (!f.tensors) abort();
    f.n_tensors = choose_tensors(&w, all, n, f.tensors);
    put(&w.out, "GGUF\3\0\0\0", 8);
    put_number(&w.out, f.n_tensors, 8);
    put_number(&w.out, 0, 8);
    if (c->part == 0) put_metadata(&w);
    else if (c->alignment) key_u32(&w, "general.alignment", c->alignment);
    if (c->n_parts) put_split(&w, n);
    put_infos(&w, f.tensors, f.n_tensors);
    while (w.out.used % aligned(&w, 1)) put_number(&w.out, 0, 1);
    f.header = w.out.used;
    uint64_t state = c->seed * 0x9E3779B97F4A7C15u + 1;
    for (uint32_t i = 0; i < n && !c->header_only; i++) {
        size_t before = w.out.used;
        if (!strcmp(all[i].name, other)) continue;
        put_weights(&w, &all[i], &state);
        /* Weights of other parts are also generated, so that the parts together equal the whole file. */
        if (part_of(c, i, n) != c->part) w.out.used = before;
    }
    w.out.data[16] = (uint8_t)w.n_keys;
    gw_buffer_free(&w.tensors);
    f.data = w.out.data;
    f.size = w.out.used;
    return f;
}

void tiny_free(tiny_file *f) {
    free(f->data);
    free(f->tensors);
    *f = (tiny_file){ 0 };
}

const tiny_tensor *tiny_find(const tiny_file *f, const char *name) {
    for (uint32_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name)) return &f->tensors[i];
    return NULL;
}

void tiny_row(const tiny_file *f, const tiny_tensor *t, uint64_t row, float *out) {
    const gw_type *type = gw_type_of(t->type);
    type->dequantise(f->data + f->header + t->offset + row * gw_row_bytes(type, t->shape[0]), out, t->shape[0]);
}

int tiny_commit(gw_model *m, size_t n, uint32_t n_ctx) {
    int state = gw_load_commit(m, n);
    if (state != GW_LOAD_PLAN) return state;
    int bad = gw_load_reserve(m, n_ctx);
    return bad ? bad : gw_load_commit(m, 0);
}

int tiny_feed(gw_model *m, const uint8_t *data, size_t size, size_t chunk, uint32_t n_ctx) {
    uint64_t random = size;
    int state = GW_LOAD_HEADER;
    for (size_t at = 0; at < size && (state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS);) {
        size_t n = chunk ? chunk : 1 + (size_t)((draw(&random) + 1) * (float)(at % 3 ? 40 : 3000));
        n = gw_min(gw_min(n, gw_load_room(m)), size - at);
        memcpy(gw_load_window(m), data + at, n);
        at += n;
        state = tiny_commit(m, n, n_ctx);
    }
    return state;
}

int tiny_feed_parts(gw_model *m, const tiny_file *files, uint32_t n_files, size_t chunk, uint32_t n_ctx) {
    size_t read[64] = { 0 };
    uint64_t random = n_files;
    int state = gw_load_parts(m, (int)n_files);
    while (state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS) {
        uint32_t part = (uint32_t)gw_load_part(m);
        if (part >= n_files || part >= 64 || gw_load_offset(m) != (double)read[part]) abort();
        size_t n = chunk ? chunk : 1 + (size_t)((draw(&random) + 1) * 3000);
        n = gw_min(gw_min(n, gw_load_room(m)), files[part].size - read[part]);
        if (n == 0) return state;
        memcpy(gw_load_window(m), files[part].data + read[part], n);
        read[part] += n;
        state = tiny_commit(m, n, n_ctx);
    }
    return state;
}
