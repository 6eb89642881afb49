/* model: one model's file: its header, sizes and rules, tokenizer, and weights. Assigns tensors to weights by name and
 * checks every shape. Loading the bytes (load.h) and evaluation (forward.h) are separate. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "file/store.h"
#include "model/arch.h"
#include "model/tokens.h"

/* How F32, F16 and BF16 matrices are stored. GW_FLOATS_AUTO converts none of them, not even an F16 embedding matrix
 * (api.h says why). */
enum { GW_FLOATS_AUTO, GW_FLOATS_KEEP, GW_FLOATS_Q8_0 };

/* Whether a quantised output matrix is multiplied in two stages (topk.c). GW_OUTPUT_AUTO: if the matrix is large. A
 * small matrix stays in the CPU cache, so computing bounds would take longer than reading its bytes. */
enum { GW_OUTPUT_AUTO, GW_OUTPUT_WHOLE, GW_OUTPUT_STAGES };

/* Where to store matrices that are read by token (gw_file_by_token): in memory; in the file if they have at least
 * GW_LARGE_TABLE bytes; always in the file. */
enum { GW_TABLES_MEMORY, GW_TABLES_LARGE, GW_TABLES_FILE };
enum { GW_LARGE_TABLE = 64 << 20 };

/* The weight that a tensor holds (GW_WEIGHT_…, or GW_WEIGHTS if the tensor's bytes are skipped), and the weight's
 * layer. */
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
    gw_bound *bound;            /* [number of tensors in the store] the weight of each tensor */
    uint64_t *has;              /* [n_layer + 1] sets of GW_WEIGHT_…; the last set: weights that belong to no layer */
    int floats, output, tables; /* GW_FLOATS_*, GW_OUTPUT_*, GW_TABLES_*: options, fixed when the weights are placed */
    _Atomic uint64_t sample;    /* sum of hashes of sampled bytes of the weights (load.c) */
    gw_error error;
} gw_file;

/* Reads and checks the config and assigns all tensors to weights. The header must be complete. Returns 0 or an
 * error. */
int gw_file_bind(gw_file *f);
/* Returns the most frequent type among the weights of the layers' matrices. */
const gw_type *gw_file_layer_type(const gw_file *f);
/* Returns the type of a KV cache for the option `asked`: GW_KV_AUTO becomes GW_KV_F32 if the layers' weights are floats
 * or if the cache holds only one layer. */
int gw_file_kv_type(const gw_file *f, int asked);

/* gw_file_by_token returns whether evaluation reads only the rows of a batch's tokens from tensor i, gw_file_stays
 * whether tensor i therefore stays in the file. */
bool gw_file_by_token(const gw_file *f, uint32_t i);
bool gw_file_stays(const gw_file *f, uint32_t i);
uint64_t gw_file_weight_bytes(const gw_file *f);
uint64_t gw_file_bytes_on_disk(const gw_file *f);
/* Allocates the weights in the arena and sets the packed types of matrices. */
void gw_file_place(gw_file *f, gw_arena *arena);
/* Return the matrix or the vector of weights into which tensor i is loaded, NULL if the tensor is skipped or of the
 * other kind. The weights must have been allocated. */
gw_matrix *gw_file_matrix(const gw_file *f, uint32_t i);
float *gw_file_vector(const gw_file *f, uint32_t i);

/* Returns a hash of everything that keys and values depend on: the rules, how weights are packed, and a few bytes of
 * each row of weights. All weights must have been loaded. Splitting a model into parts does not change its hash. */
uint64_t gw_file_hash(const gw_file *f);

void gw_file_free(gw_file *f);

#endif
