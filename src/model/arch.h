/* arch: the table of architectures, and the structs that a model's file fills according to its row. An architecture is
 * data: which weights it has, and which rules the shared forward pass (forward.c) follows for it. A step whose weight
 * is missing from the file is skipped. docs/family.md has each row's source. */
#ifndef GW_ARCH_H
#define GW_ARCH_H

#include "model/matrix.h"

/* A norm: y = (x - mean) / spread * weight + bias (LayerNorm, Ba et al. 2016), or x / rms * weight (RMSNorm, Zhang and
 * Sennrich 2019; files store the weights of Gemma before version 4 as 1 + w). weight NULL: the model lacks this norm;
 * bias NULL: no bias is added. */
typedef struct {
    const float *weight, *bias;
} gw_norm;
/* A linear layer: y = matrix x + bias; bias NULL: no bias is added. */
typedef struct {
    gw_matrix matrix;
    const float *bias;
} gw_linear;

/* The weights of a layer. GW_LAYER_WEIGHTS lists their shapes. */
typedef struct {
    gw_norm attn_norm, post_attn_norm, ffn_norm, post_ffw_norm;
    gw_norm q_norm, k_norm;
    gw_linear q, k, v;
    /* The weights of q, k and v as one tensor, if the file has it; q, k and v are then views of qkv. */
    gw_linear qkv;
    gw_linear o;
    gw_linear gate, up;
    /* The weights of gate and up as one tensor, if the file has it; gate and up are then views of gate_up. */
    gw_linear gate_up;
    gw_linear down;
    gw_linear ple_gate, ple_out;
    gw_norm ple_norm;
    const float *scale; /* factor of a layer's output; NULL: the output is not scaled */
} gw_layer;

/* All weights of a model. GW_MODEL_WEIGHTS lists the shapes of those outside layers. */
typedef struct {
    gw_matrix embedding;
    gw_matrix positions; /* vectors that are added to the embeddings in models with learned positions */
    gw_linear output;    /* output head; the embedding matrix if the file has no output matrix */
    gw_norm output_norm;
    const float *rope_factors;       /* divisors of the RoPE frequencies of global layers */
    const float *rope_short;         /* RoPE factors for contexts of at most n_ctx_short tokens */
    const float *rope_long;          /* RoPE factors for contexts of more than n_ctx_short tokens */
    gw_matrix ple_table;             /* per-layer embeddings of each token */
    gw_linear ple_proj, ple_part[2]; /* ple_part: the rows of ple_proj in two parts, see gw_ple_columns() */
    gw_norm ple_norm;
    gw_linear dense_2, dense_3; /* dense layers that are applied to the pooled vector of a text */
    /* Weights of an assistant. pre_proj maps an embedding and a hidden state of the target to n_embd columns; post_proj
     * maps n_embd columns to a hidden state of the target. centroids has a row for each group of tokens; ordering has
     * the ids of all tokens, group by group. */
    gw_linear pre_proj, post_proj;
    gw_matrix centroids;
    const float *ordering;
    gw_layer *layers;
} gw_weights;

/* Every weight that a file may have: X(name, tensor, field, columns, rows). Names of a layer's tensors have the prefix
 * "blk.N.". Columns and rows are sizes that model.c defines. Rows NONE: a vector; BY_TOKEN: n_vocab rows, of which the
 * evaluation of a batch reads only those of its tokens. */
#define GW_LAYER_WEIGHTS(X)                                                            \
    X(ATTN_NORM, "attn_norm.weight", attn_norm.weight, EMBD, NONE)                     \
    X(ATTN_NORM_BIAS, "attn_norm.bias", attn_norm.bias, EMBD, NONE)                    \
    X(Q, "attn_q.weight", q.matrix, EMBD, Q)                                           \
    X(Q_BIAS, "attn_q.bias", q.bias, Q, NONE)                                          \
    X(K, "attn_k.weight", k.matrix, EMBD, KV)                                          \
    X(K_BIAS, "attn_k.bias", k.bias, KV, NONE)                                         \
    X(V, "attn_v.weight", v.matrix, EMBD, KV)                                          \
    X(V_BIAS, "attn_v.bias", v.bias, KV, NONE)                                         \
    X(QKV, "attn_qkv.weight", qkv.matrix, EMBD, QKV)                                   \
    X(QKV_BIAS, "attn_qkv.bias", qkv.bias, QKV, NONE)                                  \
    X(Q_NORM, "attn_q_norm.weight", q_norm.weight, HEAD, NONE)                         \
    X(K_NORM, "attn_k_norm.weight", k_norm.weight, HEAD, NONE)                         \
    X(O, "attn_output.weight", o.matrix, Q, EMBD)                                      \
    X(O_BIAS, "attn_output.bias", o.bias, EMBD, NONE)                                  \
    X(POST_ATTN_NORM, "post_attention_norm.weight", post_attn_norm.weight, EMBD, NONE) \
    X(FFN_NORM, "ffn_norm.weight", ffn_norm.weight, EMBD, NONE)                        \
    X(FFN_NORM_BIAS, "ffn_norm.bias", ffn_norm.bias, EMBD, NONE)                       \
    X(GATE, "ffn_gate.weight", gate.matrix, EMBD, FF)                                  \
    X(GATE_BIAS, "ffn_gate.bias", gate.bias, FF, NONE)                                 \
    X(UP, "ffn_up.weight", up.matrix, EMBD, FF)                                        \
    X(UP_BIAS, "ffn_up.bias", up.bias, FF, NONE)                                       \
    X(GATE_UP, "ffn_up.weight", gate_up.matrix, EMBD, GATE_UP)                         \
    X(DOWN, "ffn_down.weight", down.matrix, FF, EMBD)                                  \
    X(DOWN_BIAS, "ffn_down.bias", down.bias, EMBD, NONE)                               \
    X(POST_FFW_NORM, "post_ffw_norm.weight", post_ffw_norm.weight, EMBD, NONE)         \
    X(PLE_GATE, "inp_gate.weight", ple_gate.matrix, EMBD, PLE)                         \
    X(PLE_OUT, "proj.weight", ple_out.matrix, PLE, EMBD)                               \
    X(PLE_POST_NORM, "post_norm.weight", ple_norm.weight, EMBD, NONE)                  \
    X(LAYER_SCALE, "layer_output_scale.weight", scale, ONE, NONE)
#define GW_MODEL_WEIGHTS(X)                                                      \
    X(EMBEDDING, "token_embd.weight", embedding, EMBD, BY_TOKEN)                 \
    X(POSITIONS, "position_embd.weight", positions, EMBD, CONTEXT)               \
    X(OUTPUT, "output.weight", output.matrix, EMBD, VOCAB)                       \
    X(OUTPUT_NORM, "output_norm.weight", output_norm.weight, EMBD, NONE)         \
    X(OUTPUT_NORM_BIAS, "output_norm.bias", output_norm.bias, EMBD, NONE)        \
    X(ROPE_FACTORS, "rope_freqs.weight", rope_factors, HALF_HEAD, NONE)          \
    X(ROPE_SHORT, "rope_factors_short.weight", rope_short, HALF_HEAD, NONE)      \
    X(ROPE_LONG, "rope_factors_long.weight", rope_long, HALF_HEAD, NONE)         \
    X(PLE_TABLE, "per_layer_token_embd.weight", ple_table, ALL_PLE, BY_TOKEN)    \
    X(PLE_PROJ, "per_layer_model_proj.weight", ple_proj.matrix, EMBD, ALL_PLE)   \
    X(PLE_NORM, "per_layer_proj_norm.weight", ple_norm.weight, PLE, NONE)        \
    X(DENSE_2, "dense_2.weight", dense_2.matrix, EMBD, DENSE)                    \
    X(DENSE_3, "dense_3.weight", dense_3.matrix, DENSE, EMBD)                    \
    X(PRE_PROJ, "nextn.pre_projection.weight", pre_proj.matrix, PAIR, EMBD)      \
    X(POST_PROJ, "nextn.post_projection.weight", post_proj.matrix, EMBD, TARGET) \
    X(CENTROIDS, "masked_embd_centroids.weight", centroids, EMBD, VOCAB)         \
    X(ORDERING, "masked_embd_ordering", ordering, VOCAB, NONE)

enum {
#define GW_X(name, ...) GW_WEIGHT_##name,
    GW_LAYER_WEIGHTS(GW_X) GW_MODEL_WEIGHTS(GW_X)
#undef GW_X
        GW_WEIGHTS
};
/* The weights of per-layer embeddings: a model has all or none. */
#define GW_PER_LAYER_EMBEDDINGS                                                                 \
    (1ull << GW_WEIGHT_PLE_GATE | 1ull << GW_WEIGHT_PLE_OUT | 1ull << GW_WEIGHT_PLE_POST_NORM | \
     1ull << GW_WEIGHT_PLE_TABLE | 1ull << GW_WEIGHT_PLE_PROJ | 1ull << GW_WEIGHT_PLE_NORM)
_Static_assert(GW_WEIGHTS <= 64, "a set of weights must fit in 64 bits");

enum { GW_NORM_RMS, GW_NORM_LAYER };
enum { GW_ACT_GELU, GW_ACT_SILU };
/* How a model represents positions: RoPE (Su et al. 2021) of columns i and i + rotated / 2 (HALVES) or of columns 2 i
 * and 2 i + 1 (PAIRS), or a learned table with a row for each position (LEARNED). */
enum { GW_POSITIONS_HALVES, GW_POSITIONS_PAIRS, GW_POSITIONS_LEARNED };

enum { GW_TEXTS = 64 }; /* maximum number of texts embedded together */

/* Properties that depend on what a model computes: arch.c has a policy for text, for drafts, and for embeddings. */
typedef struct {
    bool bidirectional;
    /* Whether the model has logits and a sampler. */
    bool generates;
    /* Whether the model only drafts tokens for another model, its target, whose keys and values its layers use. */
    bool drafts;
    /* Whether each layer finishes all rows of all texts before the next layer begins, so that one cache serves all
     * layers. Otherwise each batch passes through all layers. */
    bool by_layer;
    uint32_t texts;
} gw_policy;

typedef struct {
    const char *name; /* value of general.architecture, and prefix of metadata keys */
    const gw_policy *policy;
    uint64_t required, optional; /* bit sets of GW_WEIGHT_…; a file with any other known weight is rejected */
    int norm, act, positions;
    double rope_base, rope_base_local; /* default RoPE bases; local: of layers with a sliding window */
    /* Sliding windows: layer l is global if l % pattern == pattern - 1, otherwise it attends to the last `window`
     * positions. Both numbers are defaults for files that lack them. window 0: no layer has a window unless the file
     * gives one. pattern 0: no layer has a window unless same_window is set. */
    uint32_t pattern, window;
    float attn_cap, logit_cap; /* soft caps c of scores and logits: x becomes c tanh(x / c); 0: none */
    bool scales_embedding;     /* embeddings are multiplied by the square root of n_embd */
    bool unit_scale;           /* attention scores are the products of queries and keys, without a scale factor */
    bool norms_values;         /* an RMS norm without a weight is applied to each head's values */
    bool multiplies;           /* the file has factors for embeddings, residuals, attention scores and logits */
    uint32_t unrotated;        /* layer l has no RoPE if l % unrotated == unrotated - 1; 0: all layers have RoPE */
    bool rotates_part; /* RoPE may rotate only the first columns of a head, and may have factors for long contexts */
    bool same_window;  /* every layer has the sliding window of the file; the field pattern is 0 */
    bool space_prefix; /* default of the metadata key add_space_prefix for score-based tokenizers */
    /* Number of layers that identifies the 27B model, which scales queries by n_embd / n_head instead of head_dim. */
    uint32_t layers_27b;
    const char *pre; /* default pre-tokenizer of byte-level BPE; NULL: the file must name it */
} gw_arch;

/* Returns the architecture with this name, or NULL if there is none. */
const gw_arch *gw_arch_of(const char *name);
extern const char gw_arch_list[];

/* RoPE of one kind of layers. GW_ROPE_LOCAL: layers with a window (in models without windows: layers without RoPE);
 * GW_ROPE_GLOBAL: all others. base 0: no RoPE. */
typedef struct {
    uint32_t head_dim, rotated; /* rotated: number of the head's first columns that RoPE rotates */
    double base, scale, gain;   /* scale: factor of positions; gain: factor of cosines and sines */
} gw_rope;
enum { GW_ROPE_LOCAL, GW_ROPE_GLOBAL, GW_ROPES };

/* How an embedding model combines the vectors of tokens, as in GGUF. NONE: no embedding model. */
enum { GW_POOLING_NONE = 0, GW_POOLING_MEAN = 1, GW_POOLING_LAST = 3 };

typedef struct {
    uint32_t n_head_kv, head_dim, n_ff;
    uint32_t window;   /* number of last positions that attention reaches, including the token's; 0: all */
    uint32_t kv_owner; /* index of the layer whose key/value cache attention reads: this layer or an earlier one; in an
                        * assistant n_layer + rope, which stands for the target's last layer of that kind */
    int rope;
} gw_layer_shape;

typedef struct {
    const gw_arch *arch;
    uint32_t n_vocab, n_layer, n_embd, n_head, n_ctx_train;
    uint32_t n_ctx_short; /* longest context with the short RoPE factors */
    int pooling;
    uint32_t n_target;        /* n_embd of an assistant's target; 0: the model is no assistant */
    uint32_t n_dense;         /* rows of the matrix dense_2; 0: the file has no dense layers */
    uint32_t n_ple;           /* width of the per-layer embeddings; 0: there are none */
    uint32_t n_owners;        /* number of layers that compute keys and values; later layers share them */
    uint32_t window, pattern; /* window: the largest window of any layer; 0: no layer has one */
    float eps, embedding_scale, query_scale, attn_cap, logit_cap;
    /* residual_scale: factor of the outputs of attention and feed-forward; output_scale: factor of the output matrix's
     * input. */
    float residual_scale, output_scale;
    gw_rope rope[GW_ROPES];
    gw_layer_shape layer[GW_MAX_LAYERS + GW_ROPES]; /* elements from n_layer on are zeros */
} gw_config;

/* Returns the number of columns of part 0 or 1 of the per-layer embeddings. Part 0 is for the layers before the last
 * one that computes keys and values: all tokens need it. Part 1 is for the other layers: only tokens whose results are
 * wanted need it. Part 0 is empty if it would not consist of whole panels. */
static inline uint32_t gw_ple_columns(const gw_config *c, int part) {
    uint32_t first = c->n_ple % GW_PANEL ? 0 : (c->n_owners - 1) * c->n_ple;
    return part ? c->n_layer * c->n_ple - first : first;
}

#endif
