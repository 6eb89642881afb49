/* states: the DFA cache of a grammar (matcher.h explains the design). All its data is in one array of 32-bit words,
 * with offsets for pointers and 0 for null. Equal stacks, DFA states and sets of object members are stored once, so
 * equal offsets mean equal contents. */
#ifndef GW_STATES_H
#define GW_STATES_H

#include "text/grammar.h"

enum {
    GW_MOST_ITEMS = 8192, /* maximum number of items in an NFA set */
    GW_MOST_STATES = 65000,
    GW_MOST_FRAMES = 4096,     /* maximum number of frames of one stack node */
    GW_STATES_WORDS = 5 << 20, /* size of the DFA cache's array: 20 MB */
    GW_MOST_WORK = 1 << 22,    /* maximum steps (items visited, frames joined) per call: a fraction of a second */
};
#define GW_AT_TOKEN 0x80000000u

/* A stack frame: a grammar state (GW_NEVER for the bottom of the stack), the register of the state's rule (a count of
 * rounds, or the offset of a set of object members), and the offset of the gw_stack that the rule returns to. */
typedef struct {
    uint32_t to, reg, below;
} gw_frame;
/* An item, a position in the grammar: a node inside the bytes of a character (grammar.h), or GW_AT_TOKEN | id to wait
 * for that token; and the frame that follows the character or the token. */
typedef struct {
    uint32_t node;
    gw_frame frame;
} gw_item;

typedef struct {
    uint32_t next, hash;
} gw_link; /* first member of array entries that are linked in hash chains */

/* A node of the graph-structured stack. */
typedef struct {
    gw_link link;
    uint32_t n;
    uint32_t memo;     /* DFA state of a single frame with the bottom of the stack below it; 0: unknown */
    gw_frame frames[]; /* [n] sorted */
} gw_stack;

/* An NFA set under construction. */
typedef struct {
    gw_item items[GW_MOST_ITEMS];
    uint32_t n;
    bool ends; /* whether the bottom of the stack was reached */
} gw_set;

enum { GW_STATE_NONE = 0, GW_STATE_DEAD = 1 }; /* special DFA states: a next state not computed yet; the empty set */
enum { GW_STATE_GOES = 1, GW_STATE_ENDS = 2 }; /* flags of a DFA state: has items; reached the bottom of the stack */
enum { GW_FULL = 2 }; /* result: the array is full, so collect garbage and retry. Success is 0, errors are negative */

typedef struct {
    uint32_t stamp, index;
} gw_item_slot;
typedef struct {
    uint32_t stamp;
    gw_frame frame;
} gw_seen;

typedef struct {
    const gw_grammar *g;
    uint32_t *words;
    uint32_t used, size;
    gw_error *error;
    uint32_t bottom;     /* stack with only the bottom, for the start rule and as a placeholder (matcher.h) */
    uint32_t work;       /* steps left in the work budget of this call; set by the caller */
    uint32_t *chains[3]; /* hash tables of stacks, member sets and DFA states */
    uint32_t n_states;
    uint32_t *entry; /* [GW_MOST_STATES] offset of each DFA state in the array */
    uint32_t *table; /* [GW_MOST_STATES] offset of each DFA state's 256 next states (16 bits each), 0: not made yet */
    uint32_t *memo;  /* [GW_MOST_STATES] offset of the data that masks.c caches for a DFA state, 0: none yet */
    uint8_t *flags;  /* [GW_MOST_STATES] flags of each DFA state: GW_STATE_GOES, GW_STATE_ENDS */
    gw_set *set;
    gw_item_slot *slots; /* hash table of the items of `set` */
    gw_seen *seen;       /* hash table of the frames that the closure of `set` has visited */
    uint32_t stamp;      /* number of the current set; entries of `slots` and `seen` with another stamp are empty */
    gw_frame *pending;   /* [n_pending] frames that the closure has to visit */
    uint32_t n_pending;
    gw_frame *joined;
    /* First and last byte of a range around the byte of the last gw_set_step: all its bytes lead to the same set. */
    uint32_t alike[2];
} gw_dfa;

int gw_dfa_init(gw_dfa *d, const gw_grammar *g, gw_error *e);
void gw_dfa_free(gw_dfa *d);
size_t gw_dfa_bytes(const gw_dfa *d);

/* A place to which a rule returns: a DFA state, and the stack below it. */
typedef struct {
    uint32_t state, stack;
} gw_return;
/* The roots of a garbage collection of the DFA cache: everything reachable from them is kept. */
typedef struct {
    gw_item *items;
    uint32_t n_items;
    gw_return *returns;
    uint32_t n_returns;
    uint16_t *states;
    uint32_t n_states;
} gw_roots;
/* Drops everything from the DFA cache that is not reachable from the roots, and updates the offsets and state numbers
 * in the roots. Returns 0, or a coded error after which nothing has changed. */
int gw_dfa_collect(gw_dfa *d, const gw_roots *roots);

/* Reports that a format needs more than `most` of something, for example "steps". Returns GW_E_BAD_FORMAT. */
int gw_too_ambiguous(const gw_dfa *d, const char *what, uint32_t most);
/* Spends n steps of the work budget and returns 0. If fewer steps are left, spends none and returns GW_E_BAD_FORMAT. */
int gw_dfa_spend(gw_dfa *d, uint32_t n);

/* Allocates words in the DFA cache's array. Returns their offset, or 0 if the array is full. */
uint32_t gw_dfa_take(gw_dfa *d, uint32_t words);

/* The gw_set_… functions clear the NFA set d->set, or add to it: the closure of a frame, an item, or the items that a
 * byte or token leads to. An int result is 0, GW_FULL, or a coded error. */
void gw_set_clear(gw_dfa *d);
int gw_set_enter(gw_dfa *d, gw_frame frame);
int gw_set_add(gw_dfa *d, gw_item item);
int gw_set_begin(gw_dfa *d); /* clears the NFA set, and enters the start rule */
int gw_set_step(gw_dfa *d, const gw_item *items, uint32_t n, uint32_t byte);
int gw_set_token(gw_dfa *d, const gw_item *items, uint32_t n, uint32_t id);

/* Returns the DFA state of d->set, or 0 if the cache is full. */
uint32_t gw_dfa_state(gw_dfa *d);
const gw_item *gw_dfa_items(const gw_dfa *d, uint32_t state, uint32_t *n);
/* Returns a DFA state's table of next states, or NULL if the array is full. */
uint16_t *gw_dfa_table(gw_dfa *d, uint32_t state);
/* Computes the next state of a DFA state that has a table, and stores it for a byte and the adjacent bytes that lead to
 * the same state. Returns 0, with a code in *bad, if that fails. */
uint32_t gw_dfa_next(gw_dfa *d, uint32_t state, uint32_t byte, int *bad);

static inline gw_stack *gw_stack_at(const gw_dfa *d, uint32_t offset) { return (gw_stack *)(d->words + offset); }

/* Returns the representative of all register values that no token of at most `longest` bytes can distinguish from
 * `reg`. */
uint32_t gw_register_class(const gw_dfa *d, uint32_t state, uint32_t reg, uint32_t longest);

#endif
