/* model: one model's file: its header, its sizes and rules, its tokenizer, and its weights. Assigns tensors to weights
 * by name and checks every shape. Loading the bytes (load.h) and evaluation (forward.h) are separate. */
#ifndef GW_MODEL_H
#define GW_MODEL_H

#include "file/store.h"
#include "model/arch.h"
#include "model/tokens.h"

/* The storage of F32, F16 and BF16 matrices. AUTO: not converted, not even the F16 embedding of files whose layers are
 * quantised (api.h says why). */
enum { GW_FLOATS_AUTO, GW_FLOATS_KEEP, GW_FLOATS_Q8_0 };

/* The packing of a Q8_0 output matrix. AUTO: a large matrix is stored in planes, of which decoding reads the
 * lowest only in part (topk.c). A small matrix is not: it stays in the CPU cache, so computing the bound
 * would take longer than reading its bytes. */
enum { GW_OUTPUT_AUTO, GW_OUTPUT_WHOLE, GW_OUTPUT_PLANES };

/* Where to store matrices of which only the rows of the batch's tokens are read: in memory; in the file if they have at
 * least GW_LARGE_TABLE bytes; always in the file. */
enum { GW_TABLES_MEMORY, GW_TABLES_LARGE, GW_TABLES_FILE };
enum { GW_LARGE_TABLE = 64 << 20 };

/* The weight that a tensor holds: GW_WEIGHT_…, or GW_WEIGHTS if the tensor's bytes are skipped; and the weight's
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
    gw_bound *bound;            /* [number of tensors in the store] */
    uint64_t *has;              /* [n_layer + 1] sets of GW_WEIGHT_…; the last set: weights that belong to no layer */
    int floats, output, tables; /* GW_FLOATS_*, GW_OUTPUT_*, GW_TABLES_*; may change until the weights are placed */
    _Atomic uint64_t sample;    /* sum of hashes of sampled bytes of the weights (load.c) */
    gw_error error;
} gw_file;

/* Reads and checks the config and assigns all tensors to weights. The header must be complete. Returns 0 or an
 * error. */
int gw_file_bind(gw_file *f);
/* Returns the most frequent type among the weights of the layers' matrices. */
const gw_type *gw_file_layer_type(const gw_file *f);
/* Resolves GW_KV_AUTO: floats if the layers' weights are floats. */
int gw_file_kv_type(const gw_file *f, int asked);

/* The first function returns whether evaluation reads only the rows of the batch's tokens from tensor i, the second
 * whether the tensor stays in the file for that reason. */
bool gw_file_by_token(const gw_file *f, uint32_t i);
bool gw_file_stays(const gw_file *f, uint32_t i);
/* Return the size of the weights in memory, and the size of the weights in the file, in bytes. */
uint64_t gw_file_weight_bytes(const gw_file *f);
uint64_t gw_file_bytes_on_disk(const gw_file *f);
/* Allocates the weights in the arena and sets the packed types of matrices. */
void gw_file_place(gw_file *f, gw_arena *arena);
/* Return the matrix or the vector that tensor i is loaded into, NULL if the tensor is not a matrix or not a vector. The
 * weights must have been allocated. */
gw_matrix *gw_file_matrix(const gw_file *f, uint32_t i);
float *gw_file_vector(const gw_file *f, uint32_t i);

/* Returns a hash of everything that keys and values depend on: the rules, how weights are packed, and a few bytes of
 * each row of weights. All weights must have been loaded. A whole file and the same model split into parts have equal
 * hashes. */
uint64_t gw_file_hash(const gw_file *f);

void gw_file_free(gw_file *f);

#endif
