/* load: turns the bytes of a GGUF file, or of the parts of a split model, in file order, into a gw_file with its
 * weights in place. Besides the packed weights, it only holds one window of bytes. Split models are as llama.cpp's
 * gguf-split writes them: every part is a GGUF file with its own tensor directory; split.no, split.count and
 * split.tensors.count say how the parts belong together; the first part has all other metadata. The headers of all
 * parts are read before any weights, so that the memory plan is complete first. */
#ifndef GW_LOAD_H
#define GW_LOAD_H

#include <stdatomic.h>

#include "base/threads.h"
#include "file/gguf.h"
#include "model/model.h"

enum { GW_LOAD_HEADER = 0, GW_LOAD_PLAN = 1, GW_LOAD_WEIGHTS = 2, GW_LOAD_READY = 3 };

/* A file of the model (one part of a split model) whose header is complete. Offsets are in that file. */
typedef struct {
    uint64_t data_offset, end; /* offsets in the file: of the data section and of the last tensor's end */
    uint64_t alignment;
    uint64_t position; /* offset of the kept bytes in the file */
    uint8_t *kept;     /* bytes read after the header, kept until the part's weights are loaded */
    size_t n_kept;
} gw_part;

typedef struct {
    gw_file *file;
    gw_pool *pool;
    gw_gguf parser;
    int64_t split[3]; /* the header's values of split.no, split.count and split.tensors.count; -1: missing */
    int array;        /* the tokenizer's array whose elements are being read; 0: none */
    unsigned arrays_seen;
    int state; /* state of the load: GW_LOAD_*, or the error that ended it */
    uint8_t *window;
    size_t window_size, used;
    uint64_t position;         /* offset of the window's bytes in the part's file */
    uint32_t part;             /* index of the part whose bytes are in the window */
    uint32_t n_given, n_parts; /* number of files that the host has; number of parts according to the first file */
    int64_t n_tensors;         /* number of tensors in all parts, according to the first part; -1: not given */
    gw_buffer parts;           /* gw_part[] of the parts whose header is complete */
    uint32_t *order;           /* indexes of the tensors, sorted by part and offset */
    uint32_t current;          /* index into `order` of the tensor that is being read */
    uint64_t done;             /* bytes of the current tensor that have been processed */
    _Atomic uint64_t wild;     /* 1 + index of a row of the current tensor that is not finite; 0: none */
    void *block;
    uint64_t block_bytes;
} gw_loader;

int gw_loader_init(gw_loader *l, gw_file *file, gw_pool *pool); /* initialises a loader; returns 0 or GW_E_NO_MEMORY */
void gw_loader_free(gw_loader *l);                              /* frees the loader and the weights */
/* Sets the number of files of a split model. Must be called before the first byte. Default: 1. */
int gw_loader_give(gw_loader *l, int n_files);
size_t gw_loader_room(const gw_loader *l);
/* Processes n bytes that the caller has written to window + used. Returns the state (GW_LOAD_*) or an error. */
int gw_loader_commit(gw_loader *l, size_t n);
/* Ends the current file. Returns 0 if the load is complete, otherwise an error. */
int gw_loader_end(gw_loader *l);
/* Allocates the weights and changes the state, which must be GW_LOAD_PLAN, to GW_LOAD_WEIGHTS. Returns the state or an
 * error. */
int gw_loader_reserve(gw_loader *l);
/* Returns the bytes that gw_loader_reserve needs for a larger window, usually 0. */
uint64_t gw_loader_window_bytes(const gw_loader *l);
/* Returns part i of the model, or NULL if the part's header is not complete yet. */
const gw_part *gw_loader_part(const gw_loader *l, uint32_t i);

#endif
