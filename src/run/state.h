/* state: saves a session as bytes and restores it: ids, their keys and values, the sampler. A restored conversation
 * continues bit for bit as if it had never been interrupted, with any number of threads, in every build.
 * Order: a header, the ids, the sampler, then for each layer its rows of keys and of values (for a layer with a window,
 * the rows in the ring) and the ring rows saved for a retry; last a hash of everything before it.
 * A state fits one model, one type of cache and one GW_LAYOUT; others are rejected before anything changes. The bytes
 * are untrusted: every number is checked against the session, every row for what kernels rely on. The contents of rows
 * cannot be checked: forged ones change what a model answers. Little-endian machines only. */
#ifndef GW_STATE_H
#define GW_STATE_H

#include "run/sampler.h"
#include "run/session.h"

enum { GW_LAYOUT = 1 }; /* increase it when the bytes, or results, change */

typedef struct {
    gw_session *session;
    gw_sampler *sampler;
    uint64_t model; /* hash of the weights and rules */
    gw_error *error;
} gw_state_of;

typedef struct {
    char magic[8];
    uint32_t layout, kv_type;
    uint64_t model;
    uint32_t n_layer, n_head_kv, head_dim, window;
    uint32_t pos, low; /* positions 0 .. pos - 1, in rings low .. pos - 1 */
    uint32_t aside;    /* rows before this one are kept aside; 0: none */
    uint32_t sampler;  /* bytes */
    uint64_t bytes;    /* size of the whole saved state */
} gw_state_header;

/* A state that is being written or read, in pieces through a window. */
typedef struct {
    gw_state_of of;
    gw_state_header head;
    int phase;
    uint32_t layer, plane, at; /* position of the next row */
    uint64_t hash;
    uint8_t *window; /* NULL: no save or restore in progress */
    size_t size, used;
    bool reads;
} gw_state_io;

/* Writes 16 hexadecimal digits that identify everything that a state must match. */
void gw_state_key(const gw_state_of *of, char key[17]);

/* Begins a state of the n ids; n = 0: of all that are evaluated. Returns 0; 1 if they are not all evaluated or the
 * rings no longer reach back to them; or GW_E_NO_MEMORY. The session must not change until the last byte or
 * gw_state_end. */
int gw_state_save(gw_state_io *io, gw_state_of of, const int32_t *ids, uint32_t n);
/* Writes the next bytes to the window; returns their number, 0 at the end. */
size_t gw_state_next(gw_state_io *io);

/* Begins to read a state of `bytes` bytes. Returns 0 or GW_E_NO_MEMORY. */
int gw_state_restore(gw_state_io *io, gw_state_of of, double bytes);
size_t gw_state_room(const gw_state_io *io); /* at window + used */
/* Reads the n bytes that were written to the window. Returns 1: more; 0: restored; GW_E_BAD_SAVED: rejected, and if the
 * header had been accepted the cache is empty. */
int gw_state_commit(gw_state_io *io, size_t n);

void gw_state_end(gw_state_io *io);

#endif
