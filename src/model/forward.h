/* forward: the one recipe that all architectures follow, readable beside their papers (docs/family.md):
 *   x = embedding(ids) [+ positions]
 *   each layer:   h = norm(x);  q, k, v = linear(h);  rotate(norm(q)), rotate(norm(k));  keep k, v
 *                 x += norm(linear(attention(q)))
 *                 h = norm(x);  x += norm(linear(activation(linear(h)) * linear(h)))
 *   logits = cap(linear(norm(x)))
 * What a model has no weights for is left out. No threads, no SIMD, no memory management in it. */
#ifndef GW_FORWARD_H
#define GW_FORWARD_H

#include "model/arch.h"
#include "model/attention.h"
#include "model/kv.h"
#include "model/ops.h"

enum { GW_BATCH = 64, GW_LOGIT_ROWS = 4 };   /* tokens evaluated together; rows of logits at once */

/* Rows of a batch that are tokens of one text, one behind the other. */
typedef struct {
    int row, n;               /* rows row .. row + n - 1 of the batch */
    uint32_t pos;             /* position in the text of the first of them */
    uint32_t length;          /* of the text, where tokens see both ways; else not looked at */
    uint32_t cache;           /* the text's first row in the cache; 0 where a context lasts */
    uint32_t turn;            /* row of `angles` that is the first one's */
    uint32_t text;            /* which of the texts under way */
} gw_piece;

/* Activations of a batch of n tokens: room for GW_BATCH rows each. */
typedef struct {
    int n, n_pieces;
    gw_piece pieces[GW_BATCH];   /* of one text, mostly; of many where short ones go together */
    gw_view x;                /* [n_embd]  the residual stream */
    gw_view h;                /* [n_embd]  normalised input of a product, or its output */
    gw_view q, a;             /* [n_head * head_dim]  queries; attention's result */
    gw_view k, v;             /* [n_head_kv * head_dim] */
    gw_view gate, up;         /* [n_ff] */
    float *angles[2];         /* [head_dim]  rotations of local and of global layers; NULL: there are none. Of the
                               * batch's tokens, or, where texts are seen both ways, of all positions below `turns` */
    uint32_t turns;
} gw_batch;

/* What the recipe works on. Who owns what: config and weights the model, the rest the session's block. */
typedef struct {
    const gw_config *config;
    const gw_weights *weights;
    gw_ops ops;
    gw_kv kv;
    gw_batch batch;
    gw_view logits;           /* [n_vocab]  room for GW_LOGIT_ROWS */
} gw_state;

/* The batch becomes these pieces, whose rows are all its rows. */
void gw_forward_begin(gw_state *s, const gw_piece *pieces, int n_pieces);
/* x = embedding of the batch's ids[0..n), and their rotations. */
void gw_forward_embed(gw_state *s, const int32_t *ids);
/* x = layer(x) of the batch's tokens from `first` on; keys and values of all go into the cache. */
void gw_forward_layer(gw_state *s, uint32_t layer, int first);
/* Its three steps. keep: keys and values go into the cache, and queries of the tokens from `first` on into q, which
 * attend takes; where texts are seen both ways all of a text must be kept before any of it attends. */
void gw_forward_keep(gw_state *s, uint32_t layer, int first);
void gw_forward_attend(gw_state *s, uint32_t layer, int first);
void gw_forward_feed(gw_state *s, uint32_t layer, int first);
/* How a layer's queries see keys. length: of the text, for those that see both ways. */
gw_heads gw_forward_heads(const gw_config *c, uint32_t layer, uint32_t length);
/* A layer's keys and values of the piece's text, from its position 0 on. */
gw_kv_layer gw_forward_cache(const gw_state *s, uint32_t layer, const gw_piece *p);
/* h = norm(x) of all of the batch's tokens: what the output's matrix would be given. */
void gw_forward_hidden(gw_state *s);
/* logits[rows][n_vocab], close together, of the batch's tokens first .. first + rows - 1. */
void gw_forward_logits(gw_state *s, int first, int rows);
/* The same for one token, but only the logits of `exact`, and those that may be the greatest of the others: see
 * gw_matmul_top. */
void gw_forward_top(gw_state *s, int token, const int32_t *exact, int n, const gw_rows *rows);
/* The same with those of some rows, where these are few; false where they are not. */
bool gw_forward_few(gw_state *s, int token, const gw_rows *rows);

#endif
