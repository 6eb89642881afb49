/* load: turns the bytes of one GGUF, or of the parts of a split one, in file order, into a gw_file with its weights in
 * place. Holds one window of bytes besides the packed weights, never more.
 * Split models, as llama.cpp's gguf-split writes them: every part is a complete GGUF with its own
 * tensor directory; split.no, split.count and split.tensors.count say how they belong together; the
 * first one has all other metadata. The headers of all parts come before any weights, so that the memory
 * plan is complete first. */
#ifndef GW_LOAD_H
#define GW_LOAD_H

#include <stdatomic.h>

#include "base/threads.h"
#include "file/gguf.h"
#include "model/model.h"

enum { GW_LOAD_HEADER = 0, GW_LOAD_PLAN = 1, GW_LOAD_WEIGHTS = 2, GW_LOAD_READY = 3 };

/* One file whose header is complete. Offsets are in that file. */
typedef struct {
    uint64_t data_offset, end; /* where its data section begins and its last tensor ends */
    uint64_t alignment;
    uint64_t position; /* offset of kept[0] */
    uint8_t *kept;     /* bytes read after its header, kept until its weights are loaded */
    size_t n_kept;
} gw_part;

typedef struct {
    gw_file *file;
    gw_pool *pool;
    gw_gguf parser;       /* of the header that is being read */
    int64_t split[3];     /* its values of split.*; -1: missing */
    int array;            /* which of the tokenizer's arrays its elements belong to; 0: none */
    unsigned arrays_seen; /* bits of these */
    int state;            /* GW_LOAD_*, or the error that ended it */
    uint8_t *window;
    size_t window_size, used;
    uint64_t position;         /* offset in the part's file of window[0] */
    uint32_t part;             /* whose bytes are in the window */
    uint32_t n_given, n_parts; /* files of the host; parts according to the first file */
    int64_t n_tensors;         /* of all parts, according to the first; -1: not given */
    gw_buffer parts;           /* gw_part[], of those whose header is complete */
    uint32_t *order;           /* tensors by part and offset */
    uint32_t current;          /* index into order */
    uint64_t done;             /* bytes of the current tensor that are in place */
    _Atomic uint64_t wild;     /* 1 + a row of the current tensor that is not finite; 0: none */
    void *block;               /* the weights */
    uint64_t block_bytes;
} gw_loader;

int gw_loader_init(gw_loader *l, gw_file *file, gw_pool *pool); /* 0 or GW_E_NO_MEMORY */
void gw_loader_free(gw_loader *l);                              /* the weights too */
int gw_loader_give(gw_loader *l, int n_files);                  /* before the first byte; 1 else */
size_t gw_loader_room(const gw_loader *l);
/* Processes n bytes that were written after the `used` ones in the window. Returns the state or an error. */
int gw_loader_commit(gw_loader *l, size_t n);
/* Ends the current file. Returns 0 if READY, else an error. */
int gw_loader_end(gw_loader *l);
/* Allocates the weights: from PLAN to WEIGHTS. */
int gw_loader_reserve(gw_loader *l);
uint64_t gw_loader_window_bytes(const gw_loader *l); /* bytes that reserve needs for a larger window; usually 0 */
/* Returns part i, NULL before its header is complete. */
const gw_part *gw_loader_part(const gw_loader *l, uint32_t i);

#endif
