/* tiny_gguf: makes small files of Gemma 3 and of assistants in memory, for tests and fuzz harnesses: of any shape, with
 * seeded weights, and with at most one defect. File layout: GGUF specification, version 3. */
#ifndef TINY_GGUF_H
#define TINY_GGUF_H

#include "api.h"

/* The one defect of a file. It concerns the tensor or key `victim`; `number` or `text` is the new value. TINY_SHAPE
 * sets the last dimension. */
typedef enum {
    TINY_SOUND,
    TINY_DROP_TENSOR,
    TINY_TWICE,
    TINY_SHAPE,
    TINY_TYPE,
    TINY_OFFSET,
    TINY_FAR, /* adds a tensor of `number` bytes, without its data, before `victim` */
    TINY_DROP_KEY,
    TINY_SET_KEY, /* sets the key `victim` to `number`, or to `text` if it holds text */
    TINY_EMPTY_ARRAY,
    TINY_SHORT_ARRAY,
    TINY_KEY_AS_TEXT,
} tiny_damage;

typedef struct {
    uint32_t n_embd, n_layer, n_ff, n_head, n_head_kv, head_dim, window, n_ctx, n_vocab;
    uint32_t target;       /* n_embd of the target: the file is an assistant; 0: the file is a Gemma 3 model */
    uint32_t centroids;    /* number of an assistant's centroids; 0: none */
    uint32_t pattern;      /* every pattern-th layer is global; 0: no key, which means 6 */
    bool pattern_as_bools; /* the pattern is written as an array of n_layer bools, true for local layers */
    int embd, attn, ffn;   /* GGML types of the matrices */
    int head;              /* GGML type of output.weight; -1: tied to the embedding */
    uint32_t alignment;    /* alignment of tensor data; 0: no key, which means 32 */
    uint32_t seed;
    bool header_only; /* omits the weights of files that are too large to write */
    /* A part of a split model, as llama.cpp's gguf-split writes it: n_parts files (0: not split), of
     * which this is number `part` (from 0). Together the parts have the weights of the whole file. */
    uint32_t n_parts, part;
    bool bare_first; /* the first part of a split model holds no tensors */
    tiny_damage damage;
    const char *victim, *text;
    double number;
} tiny_config;

typedef struct {
    char name[64];
    uint32_t type, n_dims;
    uint64_t shape[2], offset; /* offset of the tensor in the data section */
    uint64_t bytes;
} tiny_tensor;

typedef struct {
    uint8_t *data;
    size_t size, header; /* header: bytes before the data section */
    tiny_tensor *tensors;
    uint32_t n_tensors;
} tiny_file;

/* Vocabulary: 0 <pad>, 1 <eos>, 2 <bos>, 3 <unk>, 4 <end_of_turn>, then the 256 byte pieces, then
 * words; cut off at n_vocab. */
enum { TINY_EOS = 1, TINY_BOS = 2, TINY_UNK = 3, TINY_EOT = 4, TINY_BYTES = 5, TINY_WORDS = 261 };

tiny_file tiny_make(const tiny_config *c);
void tiny_free(tiny_file *f);
/* Returns a tensor by its name, or NULL if the file has no such tensor. */
const tiny_tensor *tiny_find(const tiny_file *f, const char *name);
/* Converts a row of a matrix, or a vector as row 0, to floats. */
void tiny_row(const tiny_file *f, const tiny_tensor *t, uint64_t row, float *out);

/* Commits n bytes of the window, and reserves n_ctx when the header is complete. Returns the state or an error. */
int tiny_commit(gw_model *m, size_t n, uint32_t n_ctx);

/* Feeds data[0..size) in steps of `chunk` bytes (0: sizes drawn at random) and reserves n_ctx when
 * the header is complete. Returns the last state, or the first error. */
int tiny_feed(gw_model *m, const uint8_t *data, size_t size, size_t chunk, uint32_t n_ctx);

/* Feeds the parts of a split model like tiny_feed(), as streams, each resumed where it stopped. Aborts the process if
 * the loader requests other bytes. */
int tiny_feed_parts(gw_model *m, const tiny_file *files, uint32_t n_files, size_t chunk, uint32_t n_ctx);

#endif
