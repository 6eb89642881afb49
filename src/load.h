/* load: bytes of a GGUF in file order -> a gw_file with its weights in place. One window of bytes is
 * all that is ever held besides the packed weights. */
#ifndef GW_LOAD_H
#define GW_LOAD_H

#include "model.h"

enum { GW_LOAD_HEADER = 0, GW_LOAD_PLAN = 1, GW_LOAD_WEIGHTS = 2, GW_LOAD_READY = 3 };

typedef struct {
    gw_file *file;
    gw_pool *pool;
    gw_gguf parser;
    int state;                /* GW_LOAD_*, or the error that ended it */
    uint8_t *window;
    size_t window_size, used;
    uint64_t position;        /* offset in the file of window[0] */
    uint32_t *order;          /* tensors by offset */
    uint32_t current;         /* index into order */
    uint64_t done;            /* bytes of the current tensor that are in place */
    uint64_t end;             /* offset in the file where the last tensor ends */
    void *block;              /* the weights */
    size_t block_bytes;
} gw_loader;

int gw_loader_init(gw_loader *l, gw_file *file, gw_pool *pool);   /* 0 or GW_E_NO_MEMORY */
void gw_loader_free(gw_loader *l);                                /* the weights too */
/* n bytes were put behind the `used` ones of the window. Returns the state or an error. */
int gw_loader_commit(gw_loader *l, size_t n);
/* From PLAN to WEIGHTS. */
int gw_loader_reserve(gw_loader *l);
size_t gw_loader_weight_bytes(gw_loader *l);
/* Give the window back once READY. */
void gw_loader_finish(gw_loader *l);

#endif
