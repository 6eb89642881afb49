/* forward: the forward pass of all architectures, written so that it can be compared with their papers
 * (docs/family.md). p are the per-layer embeddings:
 *   x = embedding(ids) [+ positions]
 *   each layer:   h = norm(x);  q, k, v = linear(h);  rope(norm(q)), rope(norm(k));  keep k, v
 *                 x += norm(linear(attention(q)))
 *                 h = norm(x);  x += norm(linear(activation(linear(h)) * linear(h)))
 *                 [x += norm(linear(activation(linear(x)) * p[layer]));  x *= scale]
 *   logits = cap(linear(norm(x)))
 * A step without weights is skipped. No threads, no SIMD, no memory management. */
#ifndef GW_FORWARD_H
#define GW_FORWARD_H

#include "model/arch.h"
#include "model/attention.h"
#include "model/kv.h"
#include "model/ops.h"
#include "model/rowcache.h"
#include "model/topk.h"

enum { GW_BATCH = 128, GW_LOGIT_ROWS = 4 }; /* maximum tokens of a batch; maximum rows of logits computed at once */
_Static_assert((int)GW_BATCH <= (int)GW_ROWS_AT_ONCE, "a row cache must have room for the rows of a batch");

/* Consecutive rows of a batch that are consecutive tokens of one text. */
typedef struct {
    int row, n;
    uint32_t pos;
    uint32_t length; /* texts to embed: number of tokens of the text; otherwise 0 */
    uint32_t cache;  /* texts to embed: first row of the text in the KV cache; otherwise 0 */
    uint32_t text;
    const int32_t *ids; /* ids of the segment's text, from its position 0 on */
    const gw_kv *kv;
} gw_segment;

/* Activations of a batch of n tokens; each array has room for GW_BATCH rows. q, k, v, gate and up have as many columns
 * as the current layer needs. */
typedef struct {
    int n, n_segments;
    int wanted;                    /* first token whose result of the whole pass is wanted; n: none */
    gw_segment segments[GW_BATCH]; /* segments of the batch: usually one, many if texts or sequences share it */
    gw_view x;                     /* [n_embd] the residual stream */
    gw_view h;                     /* [n_embd] normalised input of a matrix product, or its output */
    gw_view q, a;                  /* [n_head * head_dim] queries; results of attention */
    gw_view k, v;                  /* [n_head_kv * head_dim] keys and values */
    gw_view gate, up;              /* [n_ff] */
    gw_view ple[2];                /* [layers * n_ple] per-layer embeddings, in the two parts of gw_weights.ple_part */
    gw_view ple_table;             /* [n_layer * n_ple] one row, as scratch */
    gw_view pair;                  /* [2 * n_target] an assistant's input: embedding and hidden state of the target */
    gw_view angles[GW_ROPES];      /* [rotated] cosines, then sines, of RoPE for each row; `at` is NULL without RoPE */
} gw_batch;

/* The state of the forward pass. `config` and `weights` belong to the model, all other pointers to the session's memory
 * block. */
typedef struct {
    const gw_config *config;
    const gw_weights *weights;
    gw_ops ops;
    gw_batch batch;
    gw_view logits;    /* [n_vocab] logits, with room for as many rows as are computed at once */
    uint32_t *likely;  /* [n_vocab / 32] bits of the tokens among which an assistant chooses */
    bool long_context; /* the context has room for more than n_ctx_short tokens */
} gw_state;

/* Forms the batch from the first n_segments elements of batch.segments. */
void gw_forward_begin(gw_state *s, int n_segments);
/* Returns a row cache that lacks rows of the batch's tokens ids[0..n), NULL if no rows are missing. */
gw_row_cache *gw_forward_missing(const gw_state *s, const int32_t *ids);
/* Computes the embeddings x of the batch's tokens ids[0..n), and the RoPE angles of their positions. The results of the
 * last layers are used only for the tokens from batch.wanted on. No row of the n tokens may be missing from a row
 * cache. */
void gw_forward_embed(gw_state *s, const int32_t *ids);
/* Compute a layer in three steps, for the batch's tokens from `first` on. gw_forward_keep stores the keys and values of
 * all tokens, since bidirectional attention needs those of a whole text before any of its tokens attends. */
void gw_forward_keep(gw_state *s, uint32_t layer, int first);
void gw_forward_attend(gw_state *s, uint32_t layer, int first);
void gw_forward_feed(gw_state *s, uint32_t layer, int first);
/* Returns how the queries of a layer attend to keys. length: number of tokens of the text, for bidirectional models. */
gw_heads gw_forward_heads(const gw_config *c, uint32_t layer, uint32_t length);
/* Returns a layer's keys and values of the segment's text, from its position 0 on. */
gw_kv_layer gw_forward_cache(const gw_state *s, uint32_t layer, const gw_segment *p);
/* Computes h = norm(x), the final hidden states, of all tokens of the batch. */
void gw_forward_hidden(gw_state *s);
/* Computes logits[rows][n_vocab], without gaps, of the batch's tokens first .. first + rows - 1. */
void gw_forward_logits(gw_state *s, int first, int rows);
/* Computes logits of the batch's tokens first .. first + rows - 1. t[i] says which logits of token first + i are
 * needed; -INFINITY may replace the others. Returns the largest number of panels that the bound did not exclude
 * (gw_matmul_topk). */
uint32_t gw_forward_topk(gw_state *s, int first, int rows, const gw_topk *t);
/* Copies final hidden states to out[rows][gw_ld(n_embd)]: of the rows whose logits were computed last, rows first ..
 * first + rows - 1. */
void gw_forward_kept(const gw_state *s, int first, int rows, float *out);
/* Drafts a token from the input batch.pair: evaluates an assistant for a row at position `pos` > 0, which attends to
 * the positions before `pos` in the cache `kv`. Returns the token's id. Replaces the hidden state in batch.pair by the
 * assistant's. */
int32_t gw_forward_draft(gw_state *s, const gw_kv *kv, uint32_t pos);
/* Computes one token's logits for the given rows of the output matrix only, as gw_matmul_few does. */
void gw_forward_few(gw_state *s, int token, const gw_rows *rows);

#endif
