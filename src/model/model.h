/* model: what a file holds: config (sizes), metadata, tensor directory, weights. Binds tensor names to
 * weights and checks every shape against the config. Knows nothing of bytes arriving (load), nor of
 * evaluation (forward, session). */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "file/gguf.h"
#include "model/ops.h"
#include "text/tokenizer.h"

typedef struct {
    uint32_t n_vocab, n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, window, n_ctx_train;
    uint32_t pattern;                         /* layer l is global iff l % pattern == pattern - 1 */
    uint8_t is_global[GW_MAX_LAYERS];
    float eps, embedding_scale, query_scale;
    double rope_base, rope_base_local, position_scale;   /* position_scale: of global layers */
    int32_t bos, eos, eot, pad;               /* -1: none */
    bool add_bos;
} gw_config;

typedef struct {
    const float *attn_norm, *post_attn_norm, *ffn_norm, *post_ffw_norm;   /* [n_embd] */
    const float *q_norm, *k_norm;                                         /* [head_dim] */
    gw_matrix q, k, v;        /* [n_head * head_dim | n_head_kv * head_dim | same][n_embd] */
    gw_matrix o;              /* [n_embd][n_head * head_dim] */
    gw_matrix gate, up;       /* [n_ff][n_embd] */
    gw_matrix down;           /* [n_embd][n_ff] */
} gw_layer;

typedef struct {
    gw_matrix embedding;      /* [n_vocab][n_embd] */
    gw_matrix head;           /* the same one unless the file has output.weight */
    const float *output_norm; /* [n_embd] */
    gw_layer *layers;
} gw_weights;

/* What becomes of matrices that the file has as F32, F16 or BF16: AUTO: Q8_0 in files whose layers are
 * quantised, where they are a foreign body (QAT files keep their embedding in F16), else they stay. */
enum { GW_FLOATS_AUTO, GW_FLOATS_KEEP, GW_FLOATS_Q8_0 };

/* How an output head of Q8_0 is packed. AUTO: in two planes, of which greedy decoding reads one (top.c), if it is
 * large; a small one stays in a cache, and its bound would cost more than its bytes. */
enum { GW_HEAD_AUTO, GW_HEAD_WHOLE, GW_HEAD_PLANES };

/* One tensor of the file and where its weights go. */
typedef struct {
    gw_gguf_tensor info;
    const gw_type *type;      /* in the file; matrix->type is the one that it is packed in */
    uint64_t bytes;           /* in the file */
    uint32_t part;            /* index of that file, where the model is split */
    gw_matrix *matrix;        /* bound to this … */
    const float **vector;     /* … or to this, or to neither (ignored) */
} gw_tensor;

/* One metadata entry: text at `text` in the pool for strings, count and of for arrays. */
typedef struct {
    size_t key, text;
    gw_gguf_value value;      /* its text pointer is not used */
    int of;
    uint64_t count;
} gw_entry;

typedef struct {
    gw_config config;
    gw_weights weights;
    gw_tokenizer *tokenizer;
    bool has_tokens, has_scores;
    gw_buffer pool;           /* keys and strings, NUL-terminated */
    gw_buffer entries;        /* gw_entry[] */
    gw_buffer tensors;        /* gw_tensor[] */
    uint8_t layer_pattern[GW_MAX_LAYERS];   /* sliding_window_pattern given as an array: 1 = local */
    uint32_t version, alignment;
    int floats, head;         /* GW_FLOATS_*, GW_HEAD_*; may be changed until weights have their places */
    gw_error error;
} gw_file;

/* Keep one thing that the parser saw. */
int gw_file_keep_value(gw_file *f, const char *key, const gw_gguf_value *v);
int gw_file_keep_array(gw_file *f, const char *key, int of, uint64_t count);
int gw_file_keep_tensor(gw_file *f, const gw_gguf_tensor *t, uint32_t part);

uint32_t gw_file_entries(const gw_file *f);
uint32_t gw_file_tensors(const gw_file *f);
const gw_entry *gw_file_entry(const gw_file *f, uint32_t i);
gw_tensor *gw_file_tensor(const gw_file *f, uint32_t i);
const char *gw_file_pooled(const gw_file *f, size_t at);
const gw_entry *gw_file_find(const gw_file *f, const char *key);   /* NULL if absent */
const char *gw_file_text(const gw_file *f, const char *key);       /* NULL if absent or no string */

/* The header is complete: read the config, check it, bind all tensors. 0 or an error. */
int gw_file_bind(gw_file *f);
/* The type that holds most weights of the layers' matrices. */
const gw_type *gw_file_layer_type(const gw_file *f);
/* Matrices get the type that they are packed in, and weights their place in the arena (which may only measure). */
void gw_file_place(gw_file *f, gw_arena *arena);
void gw_file_free(gw_file *f);

#endif
