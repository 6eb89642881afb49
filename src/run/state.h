/* state: what a session knows, as bytes, and back: ids, their keys and values, the sampler. A conversation goes on from
 * them as if it had never been interrupted, bit for bit, with any number of threads, in every build.
 * In this order: a header, the ids, the sampler, layer by layer the rows of keys and of values, of layers with a window
 * only those that the ring holds, then the ring rows that are kept aside for a retry; last a hash of each piece and
 * all before it. Only what is used: never more than the cache itself has.
 * It fits one model, one type of cache and one GW_LAYOUT; others are refused before anything is changed. The bytes may
 * be a stranger's: every number is checked against what the session has, every row for what kernels rely on. What the
 * rows say cannot be checked: whoever makes them decides what a model answers. Little-endian machines. */
#ifndef GW_STATE_H
#define GW_STATE_H

#include "run/sampler.h"
#include "run/session.h"

enum { GW_LAYOUT = 1 };   /* another number where rows of the cache, or results, are no longer what they were */

typedef struct {
    gw_session *session;
    gw_sampler *sampler;
    uint64_t model;           /* hash of the weights and rules */
    gw_error *error;
} gw_state_of;

typedef struct {
    char magic[8];
    uint32_t layout, kv_type;
    uint64_t model;
    uint32_t n_layer, n_head_kv, head_dim, window;
    uint32_t pos, low;        /* positions 0 .. pos - 1, in rings low .. pos - 1 */
    uint32_t aside;           /* rows before this one are kept aside; 0: none */
    uint32_t sampler;         /* bytes */
    uint64_t bytes;           /* of all */
} gw_state_header;

/* One that is being written or read, piece by piece through a window. */
typedef struct {
    gw_state_of of;
    gw_state_header head;
    int phase;
    uint32_t layer, plane, at;   /* of the next row */
    uint64_t hash;
    uint8_t *window;             /* NULL: nothing is under way */
    size_t size, used;
    bool reads;
} gw_state_io;

/* 16 hexadecimal digits for all that a state must fit. */
void gw_state_key(const gw_state_of *of, char key[17]);

/* Of the n ids, which must be evaluated already; 0 ids: of all that are. 0; 1: they are not, or the rings do not reach
 * back there; or GW_E_NO_MEMORY. Until all is read, or gw_state_end, the session must not change. */
int gw_state_save(gw_state_io *io, gw_state_of of, const int32_t *ids, uint32_t n);
/* The next bytes, at the window: how many, 0 at the end. */
size_t gw_state_next(gw_state_io *io);

/* A state of so many bytes comes. 0 or GW_E_NO_MEMORY. */
int gw_state_restore(gw_state_io *io, gw_state_of of, double bytes);
size_t gw_state_room(const gw_state_io *io);   /* at window + used */
/* n bytes were put there. 1: more; 0: all is in its place; GW_E_BAD_SAVED: it is over. Once its header was taken, a
 * state that is refused leaves the cache empty. */
int gw_state_commit(gw_state_io *io, size_t n);

void gw_state_end(gw_state_io *io);

#endif
