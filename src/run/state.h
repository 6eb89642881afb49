/* state: saves a sequence as bytes and restores it: its ids, their keys and values, its sampler. A restored
 * conversation continues bit for bit as if it had never been interrupted, with any number of threads, in every build.
 * The bytes are a header, the ids, the sampler, then for each layer its rows of keys and of values (in a layer with a
 * window, those in the ring) and the ring rows saved for a retry of an answer, and last a hash of all preceding bytes.
 * A state fits one model, one type of cache and one GW_LAYOUT; any other state is rejected before anything changes. The
 * bytes are untrusted: every number is checked against the session, and every row against the bounds that kernels rely
 * on. Forged rows within these bounds can change the model's answers. Little-endian machines only. */
#ifndef GW_STATE_H
#define GW_STATE_H

#include "run/sampler.h"
#include "run/session.h"

enum { GW_LAYOUT = 1 }; /* version of saved states: increase it when their format or the results of evaluation change */

typedef struct {
    gw_session *session;
    gw_sampler *sampler;
    uint64_t model; /* hash of the model's weights and rules (gw_file_hash) */
    gw_error *error;
} gw_state_of;

typedef struct {
    char magic[8];
    uint32_t layout, kv_type;
    uint64_t model;
    uint32_t n_layer, n_head_kv, head_dim, window;
    uint32_t pos, low; /* the state has positions 0 .. pos - 1, in rings low .. pos - 1 */
    uint32_t aside;    /* position whose preceding ring rows are saved for a retry; 0: none */
    uint32_t sampler;  /* size of the saved options and lists of the sampler in bytes */
    uint64_t bytes;    /* size of the whole saved state */
} gw_state_header;

/* A state that is being written or read. Its bytes pass through a window (buffer). */
typedef struct {
    gw_state_of of;
    gw_state_header head;
    int phase;
    uint32_t layer, kind, at; /* layer, kind (keys, values, or copies of these: state.c) and position of the next row */
    uint64_t hash;
    uint8_t *window; /* buffer of the state's bytes; NULL: no save or restore in progress */
    size_t size, used;
    bool reads;
} gw_state_io;

/* Writes 16 hexadecimal digits that identify the model, type of cache and layout that a state must match. */
void gw_state_key(const gw_state_of *of, char key[17]);

/* Begins to save a state of these n ids, or of all evaluated ids if n is 0. Returns 0; 1 if the ids are not all
 * evaluated or the rings no longer have the rows that these ids need; or GW_E_NO_MEMORY. The session must not change
 * until the last byte is written or gw_state_end is called. */
int gw_state_save(gw_state_io *io, gw_state_of of, const int32_t *ids, uint32_t n);
/* Writes the next bytes to io->window. Returns their number, or 0 at the end. */
size_t gw_state_next(gw_state_io *io);

/* Begins to restore a state of `bytes` bytes. Returns 0 or GW_E_NO_MEMORY. */
int gw_state_restore(gw_state_io *io, gw_state_of of, double bytes);
size_t gw_state_room(const gw_state_io *io); /* returns how many bytes may be written at window + used */
/* Reads the n bytes that were written to io->window. Returns 1 if more bytes are needed, 0 if the state is restored, or
 * GW_E_BAD_SAVED; if its header had been accepted, the cache is then empty. */
int gw_state_commit(gw_state_io *io, size_t n);

void gw_state_end(gw_state_io *io);

#endif
