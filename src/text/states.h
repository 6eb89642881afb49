/* states: a grammar made deterministic while it runs. What can come next is a set of items: a place in a spelling, the
 * state behind it, the register of that state's rule, and the frames that the rule returns to. Frames are sets, too,
 * of a state to go on at, its register, and frames below: ways that differ only further down are one (as in M. Tomita's
 * graph-structured stack), so that ambiguity costs as much as it must, and each set is kept once.
 *
 * A set is kept relative to the frames it stands on (bottom): how it came there plays no role until its rule ends, so
 * what is known of it holds wherever it occurs. All memory is one block, taken at the beginning; when it is full, what
 * nobody stands on is forgotten. */
#ifndef GW_STATES_H
#define GW_STATES_H

#include "text/grammar.h"

enum {
    GW_MOST_ITEMS = 8192,        /* of one set */
    GW_MOST_STATES = 65000,      /* that are known at a time */
    GW_MOST_FRAMES = 4096,       /* of one set of frames */
    GW_STATES_WORDS = 5 << 20,   /* 20 MB */
    GW_MOST_WORK = 1 << 22,      /* steps of one call: places looked at, frames joined; a fraction of a second */
};
#define GW_AT_TOKEN 0x80000000u  /* in an item: it waits for the token with this id */

/* Frames are offsets into the block. The bottom: what a set stands on; of a whole text's: its end. */
typedef struct { uint32_t at, to, count, frames; } gw_item;
typedef struct { uint32_t to, count, frames; } gw_frame;   /* to: GW_NEVER for the bottom */

/* A set while it is made. */
typedef struct {
    gw_item items[GW_MOST_ITEMS];
    uint32_t n;
    bool ends;                   /* the bottom was reached */
} gw_set;

enum { GW_STATE_NONE = 0, GW_STATE_DEAD = 1 };             /* numbers of states: not known yet; nothing is left */
enum { GW_STATE_GOES = 1, GW_STATE_ENDS = 2 };             /* flags: it has items; the bottom was reached */
enum { GW_FULL = 1 };                                      /* forget, and try again; negative: a coded error */

typedef struct gw_states gw_states;
struct gw_states {
    const gw_grammar *g;
    uint32_t *words;             /* the block */
    uint32_t used, size;
    gw_error *error;
    uint32_t bottom;             /* frames */
    uint32_t work;               /* steps that are left; who calls sets it */
    uint32_t *heads[3];          /* hash chains: frames, sets of members, states */
    uint32_t n_states;
    uint32_t *place;             /* [GW_MOST_STATES] of a state: see states.c */
    uint32_t *table;             /* [GW_MOST_STATES] of its 256 next states (16 bits each), 0: none yet */
    uint32_t *answer;            /* [GW_MOST_STATES] what masks keep of it, 0: nothing yet */
    uint8_t *flags;              /* [GW_MOST_STATES] */
    gw_set *set;                 /* what is being made */
    uint32_t *slots;             /* where items of a larger set are, by their hash */
    uint32_t *seen, stamp;       /* places that a closure has been at */
    gw_frame *waiting;           /* [n_waiting] places that it has still to look at */
    uint32_t n_waiting;
    gw_frame *mixed;             /* scratch for joining frames */
};

int gw_states_init(gw_states *s, const gw_grammar *g, gw_error *e);
void gw_states_free(gw_states *s);
size_t gw_states_bytes(const gw_states *s);   /* heap it holds */
/* Forgets all but the frames and registers of these items, which are named anew. 0 or a coded error. */
typedef struct { gw_item *items; uint32_t n; } gw_kept;
int gw_states_forget(gw_states *s, const gw_kept *kept);

/* Words of the block, 0 if it is full. */
uint32_t gw_states_take(gw_states *s, uint32_t words);

/* These fill s->set. What comes after a state is entered; what comes after one byte, or one token, of a set of items;
 * they add to what is there. 0, GW_FULL, or a coded error. */
void gw_set_clear(gw_states *s);
int gw_set_enter(gw_states *s, uint32_t state, uint32_t count, uint32_t frames);
int gw_set_add(gw_states *s, gw_item item);
int gw_set_begin(gw_states *s);    /* the grammar's first rule, on the bottom */
int gw_set_step(gw_states *s, const gw_item *items, uint32_t n, uint32_t byte);
int gw_set_token(gw_states *s, const gw_item *items, uint32_t n, uint32_t id);

/* The number of the state that s->set is, GW_STATE_DEAD for an empty one; 0: full. */
uint32_t gw_state_of_set(gw_states *s);
const gw_item *gw_state_items(const gw_states *s, uint32_t state, uint32_t *n);
/* What follows a state after a byte: GW_STATE_DEAD, a state, or 0 with *bad set. */
uint32_t gw_state_make_next(gw_states *s, uint32_t state, uint32_t byte, int *bad);
/* A state's table, made if there is none; NULL: full. */
uint16_t *gw_state_table(gw_states *s, uint32_t state);

/* Of a set of frames: them, and a word that is 0 until somebody notes something there. */
const gw_frame *gw_frames(const gw_states *s, uint32_t frames, uint32_t *n);
uint32_t *gw_frames_known(gw_states *s, uint32_t frames);

/* A register that masks cannot tell from this one: pieces have at most `longest` bytes. */
uint32_t gw_plain_count(const gw_states *s, uint32_t state, uint32_t count, uint32_t longest);

#endif
