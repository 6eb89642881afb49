/* kv: the key/value cache. Rows are [kv head][head_dim] in one of the types of kernels.h. Global layers hold every
 * position of a sequence, sliding-window layers a ring of the last positions, so a long context needs little memory.
 * Only layers that own their keys and values (kv_owner) have rows.
 *
 * The sequences of a session share memory: pages of GW_KEYS positions in all global layers, or in all rings. Each
 * sequence has page tables, and a page may be in several of them (Kwon et al. 2023, PagedAttention): sequences that
 * begin with the same ids share the pages of these, and the rows saved for a retry are pages of the ring. A page is
 * written only while one table holds it; before that, a shared page is copied.
 *
 * GW_KV_AUTO: i16 in global layers, f32 in rings: rings are small, and i16 in them would cost more accuracy than all
 * other rounding (tests/vectors/kv-types.md). */
#ifndef GW_KV_H
#define GW_KV_H

#include "kernels/kernels.h"
#include "model/arch.h"

enum { GW_KV_AUTO, GW_KV_F32, GW_KV_I16, GW_KV_Q8, GW_KV_TYPES };

typedef struct {
    uint32_t n_layer, n_ctx;
    uint32_t window;             /* the largest window of any layer: all rings hold equally many positions */
    uint32_t batch;              /* maximum number of cache rows written at once */
    const gw_layer_shape *layer; /* [n_layer] */
    int type;
} gw_kv_shape;

/* The keys and values of a layer. A row has n_head heads of `head` bytes. */
typedef struct {
    uint8_t *k, *v;
    const uint32_t *pages;                 /* [rows / GW_KEYS] page of each GW_KEYS positions; NULL: pages 0, 1, 2, … */
    uint32_t rows, n_head, head_dim, head; /* rows: number of positions for which a sequence has room */
    int type;                              /* type of the rows: GW_KV_…, but not GW_KV_AUTO */
    bool ring;
} gw_kv_layer;

/* Returns the row of position pos in the keys or values of a layer. A ring has room for the last l->rows positions. */
static inline size_t gw_kv_row(const gw_kv_layer *l, uint32_t pos) {
    uint32_t row = pos % l->rows;
    return l->pages ? (size_t)l->pages[row / GW_KEYS] * GW_KEYS + row % GW_KEYS : row;
}

/* The pages of all global layers, or of all rings. */
typedef struct {
    uint32_t n, first; /* number of pages; all pages before `first` are in use */
    uint8_t *users;    /* [n] number of page tables that hold each page */
} gw_kv_pool;

/* The memory of the caches of several sequences. */
typedef struct {
    gw_kv_shape shape;
    gw_kv_layer *layers; /* [n_layer], without page tables; all zeros for layers that share another layer's rows */
    gw_kv_pool pools[2]; /* pages of global layers, and of rings */
} gw_kv_memory;

/* The page tables of a cache: for its global layers, its rings, and the rows of rings that are saved for a retry. */
enum { GW_KV_GLOBAL, GW_KV_RING, GW_KV_SAVED, GW_KV_TABLES };
typedef struct {
    uint32_t *pages, n; /* [n] UINT32_MAX: no page */
} gw_kv_table;

/* The cache of one sequence. */
typedef struct {
    gw_kv_memory *memory; /* NULL without a cache, which then has 0 positions */
    uint32_t window;      /* the largest window of any layer */
    gw_kv_table tables[GW_KV_TABLES];
    gw_kv_layer *layers; /* [n_layer]; all zeros for layers that share another layer's rows */
    uint32_t pos;        /* positions 0 .. pos - 1 are valid in global layers */
    uint32_t low;        /* positions low .. pos - 1 are valid in the rings */
    /* The rows of the rings before position saved_pos, so that a retry of an answer can rewind to saved_pos after the
     * rings have dropped these rows. saved_pos 0: no rows are saved. */
    gw_kv_layer *saved; /* [n_layer] saved rows of rings; all zeros for layers without a ring that wraps around */
    uint32_t saved_pos;
} gw_kv;

/* Allocates, in an arena that may only add up sizes (base.h), memory for `caches` caches with `tokens` positions of
 * global layers together, at least shape.n_ctx; and the tables of one cache. */
void gw_kv_memory_init(gw_kv_memory *m, gw_kv_shape shape, uint32_t caches, uint64_t tokens, gw_arena *arena);
void gw_kv_init(gw_kv *kv, gw_kv_memory *memory, gw_arena *arena);

/* Returns the greatest length <= `length` to which the cache can still be truncated. */
uint32_t gw_kv_reach(const gw_kv *kv, uint32_t length);
/* Truncates the cache to gw_kv_reach(kv, length); returns the new length. */
uint32_t gw_kv_rewind(gw_kv *kv, uint32_t length);

/* Makes `to` share the first `length` positions of the cache `from`; fewer if the rings of `from` no longer hold the
 * rows they need. Both caches have the same memory. Returns the number of positions shared. */
uint32_t gw_kv_share(gw_kv *to, const gw_kv *from, uint32_t length);

/* Prepares the cache for writing rows pos .. pos + n - 1 (n <= batch), which may drop the oldest rows of rings. Must be
 * called before these rows are written. Returns false if the memory has no free page. */
bool gw_kv_reserve(gw_kv *kv, uint32_t n);
/* Prepares an empty cache for the rows of a state that is read: positions 0 .. pos - 1, and the rows of GW_KV_SAVED,
 * the last ones of rings before position saved_pos. Returns false if the memory has no free page. */
bool gw_kv_open(gw_kv *kv, uint32_t pos, uint32_t saved_pos);
/* Ends gw_kv_open(): the rows are written, in rings from position `low` on. Returns false, and changes nothing, if the
 * cache no longer has the pages of these rows. */
bool gw_kv_opened(gw_kv *kv, uint32_t pos, uint32_t low, uint32_t saved_pos);
/* Returns the number of positions in global layers for which the memory still has free pages. */
uint64_t gw_kv_free(const gw_kv_memory *m);
void gw_kv_store(const gw_kv_layer *l, uint32_t pos, const float *k, const float *v);
/* Returns the part of a layer's cache from row `row` on, for one of several texts that share a cache. If row > 0, this
 * cache must be the only one of its memory, and empty before it was written: its pages are then consecutive. */
gw_kv_layer gw_kv_from(const gw_kv_layer *l, uint32_t row);
/* Adds n positions to the cache. Must be called when rows up to pos + n - 1 are complete in all layers. */
void gw_kv_advance(gw_kv *kv, uint32_t n);
/* Converts a query q[d] to a row in the format of keys of GW_KV_I16. */
void gw_kv_query(uint8_t *row, const float *q, uint32_t d);

/* Rows in the format of saved states (run/state.h): heads without gaps. gw_kv_row_bytes returns the bytes of one row of
 * keys or of values. gw_kv_row_in returns false for a row that gw_kv_store would never write, because kernels rely on
 * the bounds of stored rows, and for a position whose page the cache does not have; gw_kv_row_out writes zeros then. */
uint32_t gw_kv_row_bytes(const gw_kv_layer *l);
void gw_kv_row_out(const gw_kv_layer *l, bool values, uint32_t pos, uint8_t *out);
bool gw_kv_row_in(const gw_kv_layer *l, bool values, uint32_t pos, const uint8_t *in);
/* Returns the first position that a query at position p attends to in a ring. */
uint32_t gw_kv_window_start(const gw_kv *kv, uint32_t p);

/* Keeps the rows of rings that a later rewind to `length` <= pos needs. Does nothing if the rings no longer hold these
 * rows. */
void gw_kv_save(gw_kv *kv, uint32_t length);

#endif
