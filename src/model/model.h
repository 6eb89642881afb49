/* model: one model's file: what its header says, its sizes and rules, its tokenizer, and its weights. Binds names of
 * tensors to weights and checks every shape. Knows nothing of bytes arriving (load), nor of evaluation (forward). */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "file/store.h"
#include "model/arch.h"
#include "model/tokens.h"

/* What becomes of matrices that the file has as F32, F16 or BF16. AUTO: they stay, also the F16 embedding of files
 * whose layers are quantised (api.h says why). */
enum { GW_FLOATS_AUTO, GW_FLOATS_KEEP, GW_FLOATS_Q8_0 };

/* How an output matrix of Q8_0 is packed. AUTO: in two planes, of which greedy decoding reads one (argmax.c), if it is
 * large; a small one stays in a cache, and its bound would cost more than its bytes. */
enum { GW_OUTPUT_AUTO, GW_OUTPUT_WHOLE, GW_OUTPUT_PLANES };

/* Which weight a tensor is: GW_WEIGHT_…, GW_WEIGHTS for none (its bytes are passed over), and of which layer. */
typedef struct {
    int weight;
    uint32_t layer;
} gw_bound;

typedef struct {
    gw_store store;
    gw_tokenizer *tokenizer;
    gw_config config;
    gw_tokens tokens;
    gw_weights weights;
    gw_bound *bound;         /* [tensors of the store] */
    uint64_t *has;           /* [n_layer + 1] sets of GW_WEIGHT_…; the last: those of no layer */
    int floats, output;      /* GW_FLOATS_*, GW_OUTPUT_*; may be changed until weights have their places */
    _Atomic uint64_t sample; /* sum of hashes of what was taken of the weights' bytes (load) */
    gw_error error;
} gw_file;

/* The header is complete: read the config, check it, bind all tensors. 0 or an error. */
int gw_file_bind(gw_file *f);
/* The type that holds most weights of the layers' matrices. */
const gw_type *gw_file_layer_type(const gw_file *f);
/* What the cache is to hold where GW_KV_AUTO is asked for: floats where the layers' weights are floats. */
int gw_file_kv_type(const gw_file *f, int asked);

uint64_t gw_file_weight_bytes(const gw_file *f);
/* Weights get their places in the arena, matrices the type that they are packed in. */
void gw_file_place(gw_file *f, gw_arena *arena);
/* Where tensor i goes, once it has its place: a matrix or a vector, or neither. */
gw_matrix *gw_file_matrix(const gw_file *f, uint32_t i);
float *gw_file_vector(const gw_file *f, uint32_t i);

/* Once all weights are in place: 64 bits for all that keys and values depend on, the rules, how weights are packed,
 * and each row of them by a few of its bytes. The same for a whole file and its parts. */
uint64_t gw_file_hash(const gw_file *f);

void gw_file_free(gw_file *f);

#endif
