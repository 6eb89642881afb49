/* store: the header of a GGUF in memory: its metadata and its tensor directory. It does not interpret keys or require
 * tensors. Functions that can fail return 0 or a code, with the error in e. */
#ifndef GW_STORE_H
#define GW_STORE_H

#include "file/gguf.h"
#include "file/types.h"

/* One metadata entry. A string's text is at `text` in the pool; an array has the element type `of` and `count`
 * elements. Arrays of at most GW_MAX_LAYERS numbers are kept, from `first` on in `numbers`. */
typedef struct {
    size_t key, text;
    gw_gguf_value value; /* type, and the number or a string's length; value.text is not used */
    int of;
    uint64_t count;
    size_t first; /* index of an array's first element in `numbers`; GW_NOT_KEPT if its elements are not kept */
} gw_entry;
#define GW_NOT_KEPT SIZE_MAX

typedef struct {
    gw_gguf_tensor info;
    const gw_type *type;
    uint64_t bytes; /* bytes of the tensor's data in the file */
    uint32_t part;  /* index of the file that holds the tensor, in a split model */
} gw_tensor;

typedef struct {
    gw_buffer pool;    /* metadata keys and strings, NUL-terminated */
    gw_buffer entries; /* gw_entry[]: metadata entries */
    gw_buffer numbers; /* double[]: elements of short metadata arrays */
    gw_buffer tensors; /* gw_tensor[]: tensor directory */
    uint32_t version, alignment;
} gw_store;

/* gw_store_value, _array, _element and _tensor add one item that the parser has read. An element belongs to the array
 * that was added last. */
int gw_store_value(gw_store *s, const char *key, const gw_gguf_value *v, gw_error *e);
int gw_store_array(gw_store *s, const char *key, int of, uint64_t count, gw_error *e);
int gw_store_element(gw_store *s, const gw_gguf_value *v, gw_error *e);
int gw_store_tensor(gw_store *s, const gw_gguf_tensor *t, uint32_t part, gw_error *e);
/* Fails if a key or a tensor occurs twice. */
int gw_store_check(const gw_store *s, gw_error *e);
void gw_store_free(gw_store *s);
size_t gw_store_bytes(const gw_store *s);

uint32_t gw_store_entries(const gw_store *s);
uint32_t gw_store_tensors(const gw_store *s);
const gw_entry *gw_store_entry(const gw_store *s, uint32_t i);
const gw_tensor *gw_store_tensor_at(const gw_store *s, uint32_t i);
const char *gw_store_pooled(const gw_store *s, size_t at);

/* Returns the entry of a metadata key, or NULL if the file has no such key. */
const gw_entry *gw_store_find(const gw_store *s, const char *key);
/* Returns the string of a metadata key, or NULL if the file has no such key or its value is not a string. */
const char *gw_store_text(const gw_store *s, const char *key);
bool gw_is_number(const gw_entry *e); /* returns whether an entry is a number; false if the entry is NULL */
/* Returns the elements of an array of numbers, or NULL if the store does not keep them. */
const double *gw_store_numbers(const gw_store *s, const gw_entry *e);

#endif
