/* store: what the header of a GGUF says, kept: metadata and the tensor directory. Knows no model: what a key means,
 * and which tensors there must be, is for those who read it. Functions that may fail give 0 or a coded error in e. */
#ifndef GW_STORE_H
#define GW_STORE_H

#include "file/gguf.h"
#include "file/types.h"

/* One metadata entry: its text at `text` in the pool for strings; count and of for arrays. Of arrays of numbers with
 * at most GW_MAX_LAYERS elements these are kept too, at `first` of `numbers`. */
typedef struct {
    size_t key, text;
    gw_gguf_value value; /* its text pointer is not used */
    int of;
    uint64_t count;
    size_t first; /* GW_NOT_KEPT: none of its elements are there */
} gw_entry;
#define GW_NOT_KEPT SIZE_MAX

typedef struct {
    gw_gguf_tensor info;
    const gw_type *type;
    uint64_t bytes; /* in the file */
    uint32_t part;  /* index of that file, where the model is split */
} gw_tensor;

typedef struct {
    gw_buffer pool;    /* keys and strings, NUL-terminated */
    gw_buffer entries; /* gw_entry[] */
    gw_buffer numbers; /* double[]: elements of short arrays */
    gw_buffer tensors; /* gw_tensor[] */
    uint32_t version, alignment;
} gw_store;

/* Keep one thing that the parser saw; an element belongs to the array that came last. */
int gw_store_value(gw_store *s, const char *key, const gw_gguf_value *v, gw_error *e);
int gw_store_array(gw_store *s, const char *key, int of, uint64_t count, gw_error *e);
int gw_store_element(gw_store *s, const gw_gguf_value *v, gw_error *e);
int gw_store_tensor(gw_store *s, const gw_gguf_tensor *t, uint32_t part, gw_error *e);
/* No key and no tensor is there twice. */
int gw_store_check(const gw_store *s, gw_error *e);
void gw_store_free(gw_store *s);
size_t gw_store_bytes(const gw_store *s); /* heap it holds */

uint32_t gw_store_entries(const gw_store *s);
uint32_t gw_store_tensors(const gw_store *s);
const gw_entry *gw_store_entry(const gw_store *s, uint32_t i);
const gw_tensor *gw_store_tensor_at(const gw_store *s, uint32_t i);
const char *gw_store_pooled(const gw_store *s, size_t at);

const gw_entry *gw_store_find(const gw_store *s, const char *key); /* NULL if absent */
const char *gw_store_text(const gw_store *s, const char *key);     /* NULL if absent or no string */
bool gw_is_number(const gw_entry *e);                              /* false for NULL */
/* Elements of an array of numbers that was kept, NULL if there is none. */
const double *gw_store_numbers(const gw_store *s, const gw_entry *e);

#endif
