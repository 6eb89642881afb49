/* state: see state.h. Writing and reading process the same pieces in the same order: the header, blocks of ids, the
 * sampler, single rows, and the hash. The window (buffer) always has room for a whole piece. */
#include "run/state.h"
#include "base/hash.h"
#include "model/errors.h"
#include "run/errors.h"

#include <stdio.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 18, IDS = 4096 }; /* IDS: maximum number of ids in a piece of a saved state */
_Static_assert((int)GW_SAMPLER_MOST <= (int)WINDOW_BYTES, "a saved sampler must fit in WINDOW_BYTES");
enum { HEADER, IDENTIFIERS, SAMPLER, ROWS, HASH, OVER };
enum { KEYS, VALUES, KEYS_ASIDE, VALUES_ASIDE, KINDS };
static const char magic[8] = "gwstate";
_Static_assert(sizeof(gw_state_header) == 64, "gw_state_header must have 64 bytes, without padding");

void gw_state_key(const gw_state_of *of, char key[17]) {
    uint32_t facts[] = { GW_LAYOUT, (uint32_t)of->session->now->kv.memory->shape.type };
    snprintf(key, 17, "%016llx", (unsigned long long)gw_hash(of->model, facts, sizeof facts));
}

/* --- pieces --- */

typedef struct {
    uint32_t first, end;
} span;

static const gw_kv_layer *layer_of(const gw_state_io *io) { return &io->of.session->now->kv.layers[io->layer]; }

/* Returns the layer's cache, or the saved rows of its ring if io->kind stands for these. */
static const gw_kv_layer *holder_of(const gw_state_io *io) {
    return io->kind < KEYS_ASIDE ? layer_of(io) : &io->of.session->now->kv.saved[io->layer];
}

/* Returns the positions whose rows of kind io->kind belong to layer io->layer of the saved state. */
static span rows_of(const gw_state_io *io) {
    const gw_kv_layer *l = layer_of(io);
    uint32_t aside = l->ring ? io->head.aside : 0;
    if (!l->rows) return (span){ 0 }; /* another layer owns the rows of this layer */
    if (io->kind < KEYS_ASIDE) return (span){ l->ring ? io->head.low : 0, io->head.pos };
    return (span){ gw_kv_window_start(&io->of.session->now->kv, aside), aside };
}

/* Moves to the kind (keys, values, or copies of these) and layer of the next row. Returns false if none is left. */
static bool next_row(gw_state_io *io) {
    uint32_t layers = io->of.session->now->kv.memory->shape.n_layer;
    while (io->layer < layers) {
        span s = rows_of(io);
        if (io->at < s.first) io->at = s.first;
        if (io->at < s.end) return true;
        io->at = 0;
        if (++io->kind < KINDS) continue;
        io->kind = 0;
        io->layer++;
    }
    return false;
}

/* Moves to the phase of the next piece. Returns the size of that piece in bytes, or 0 at the end. */
static size_t piece(gw_state_io *io) {
    if (io->phase == IDENTIFIERS && io->at == io->head.pos) io->at = 0, io->phase = SAMPLER;
    if (io->phase == ROWS && !next_row(io)) io->phase = HASH;
    switch (io->phase) {
    case HEADER: return sizeof io->head;
    case IDENTIFIERS: return gw_min(IDS, io->head.pos - io->at) * sizeof(int32_t);
    case SAMPLER: return io->head.sampler;
    case ROWS: return gw_kv_row_bytes(layer_of(io));
    case HASH: return sizeof io->hash;
    default: return 0;
    }
}

/* Moves past a piece whose bytes have been written or read, and adds the bytes to the hash. */
static void pass(gw_state_io *io, const uint8_t *bytes, size_t n) {
    if (io->phase != HASH) io->hash = gw_hash(io->hash, bytes, n);
    if (io->phase == IDENTIFIERS) io->at += (uint32_t)(n / sizeof(int32_t));
    else if (io->phase == ROWS) io->at++;
    else io->phase++;
}

static uint64_t all_bytes(const gw_state_io *io) {
    gw_state_io walk = *io;
    uint64_t sum = sizeof walk.head + (uint64_t)walk.head.pos * sizeof(int32_t) + walk.head.sampler + sizeof walk.hash;
    walk.at = 0;
    for (walk.layer = 0; walk.layer < walk.of.session->now->kv.memory->shape.n_layer; walk.layer++)
        for (walk.kind = 0; walk.kind < KINDS; walk.kind++) {
            span s = rows_of(&walk);
            sum += (uint64_t)(s.end - s.first) * gw_kv_row_bytes(layer_of(&walk));
        }
    return sum;
}

static int begin(gw_state_io *io, gw_state_of of) {
    size_t size = WINDOW_BYTES;
    const gw_kv *kv = &of.session->now->kv;
    for (uint32_t l = 0; l < kv->memory->shape.n_layer; l++) size = gw_max(size, gw_kv_row_bytes(&kv->layers[l]));
    gw_state_end(io);
    *io = (gw_state_io){ .of = of, .window = gw_alloc(size), .size = size };
    return io->window ? 0 : gw_no_memory(of.error, "the buffer of a saved state", size);
}

void gw_state_end(gw_state_io *io) {
    gw_free(io->window);
    io->window = NULL;
}

/* --- writing --- */

/* Returns a header that describes the session; the sizes of heads are those of the first layer. */
static gw_state_header header_of(const gw_state_of *of) {
    const gw_kv *kv = &of->session->now->kv;
    gw_state_header h = { .layout = GW_LAYOUT,
                          .kv_type = (uint32_t)kv->memory->shape.type,
                          .model = of->model,
                          .n_layer = kv->memory->shape.n_layer,
                          .n_head_kv = kv->layers->n_head,
                          .head_dim = kv->layers->head_dim,
                          .window = kv->window };
    memcpy(h.magic, magic, sizeof magic);
    return h;
}

static bool keeps_aside(const gw_kv *kv) {
    for (uint32_t l = 0; l < kv->memory->shape.n_layer; l++)
        if (kv->saved[l].rows) return true;
    return false;
}

static bool holds(const gw_session *s, const int32_t *ids, uint32_t n) {
    const gw_kv *kv = &s->now->kv;
    bool idle = s->now->rows == 0; /* otherwise, an evaluation is overwriting rows of rings */
    return idle && n && n <= kv->pos && !memcmp(s->now->ids, ids, n * sizeof *ids) &&
           gw_kv_window_start(kv, n) >= kv->low;
}

/* A saved ring has at least SPARE positions before its window, if the session's ring has them. So a restored
 * conversation can be rewound by up to SPARE tokens without evaluating its window again. */
enum { SPARE = 64 };

int gw_state_save(gw_state_io *io, gw_state_of of, const int32_t *ids, uint32_t n) {
    const gw_kv *kv = &of.session->now->kv;
    if (n == 0) {
        ids = of.session->now->ids;
        n = kv->pos;
    }
    if (!holds(of.session, ids, n)) return 1;
    int bad = begin(io, of);
    if (bad) return bad;
    io->head = header_of(&of);
    io->head.pos = n;
    io->head.low = (uint32_t)gw_max(kv->low, n - gw_min(n, gw_round_up(kv->window + SPARE, GW_KEYS)));
    io->head.aside = keeps_aside(kv) && kv->saved_pos <= n ? kv->saved_pos : 0;
    io->head.sampler = (uint32_t)gw_sampler_state_bytes(of.sampler);
    io->head.bytes = all_bytes(io);
    return 0;
}

static void write_piece(gw_state_io *io, uint8_t *out, size_t n) {
    switch (io->phase) {
    case HEADER: memcpy(out, &io->head, n); break;
    case IDENTIFIERS: memcpy(out, io->of.session->now->ids + io->at, n); break;
    case SAMPLER: gw_sampler_write(io->of.sampler, out); break;
    case ROWS: gw_kv_row_out(holder_of(io), io->kind & 1, io->at, out); break;
    default: memcpy(out, &io->hash, n);
    }
}

size_t gw_state_next(gw_state_io *io) {
    size_t used = 0;
    if (!io->window || io->reads) return 0;
    for (size_t n; (n = piece(io)) && used + n <= io->size; used += n) {
        write_piece(io, io->window + used, n);
        pass(io, io->window + used, n);
    }
    if (!used) gw_state_end(io);
    return used;
}

/* --- reading --- */

int gw_state_restore(gw_state_io *io, gw_state_of of, double bytes) {
    int bad = begin(io, of);
    if (bad) return bad;
    io->reads = true;
    io->head.bytes = bytes > 0 && bytes < 9007199254740992.0 ? (uint64_t)bytes : 0;
    return 0;
}

size_t gw_state_room(const gw_state_io *io) { return io->window && io->reads ? io->size - io->used : 0; }

/* limit: the words before the expected number, such as "at most ", or "". */
static int refuse(gw_state_io *io, const char *field, const char *limit, uint64_t expected, uint64_t got) {
    return gw_fail(io->of.error, MSG_SAVED_FIELD, field, limit, (unsigned long long)expected, (unsigned long long)got);
}

/* Checks the fields of a saved header that may differ from the session's header. */
static int check_places(gw_state_io *io, const gw_state_header *h) {
    const gw_kv *kv = &io->of.session->now->kv;
    if (h->pos == 0 || h->pos > kv->memory->shape.n_ctx)
        return refuse(io, "its number of tokens", "1 to ", kv->memory->shape.n_ctx, h->pos);
    if (h->low > gw_kv_window_start(kv, h->pos))
        return refuse(io, "the position where its sliding windows begin", "at most ", gw_kv_window_start(kv, h->pos),
                      h->low);
    if (h->aside > h->pos)
        return refuse(io, "the position that a retry starts from", "at most its number of tokens, ", h->pos, h->aside);
    if (h->sampler == 0 || h->sampler > GW_SAMPLER_MOST)
        return refuse(io, "the number of bytes of its sampling options", "1 to ", GW_SAMPLER_MOST, h->sampler);
    return 0;
}

static int check_header(gw_state_io *io, const gw_state_header *h) {
    gw_state_header own = header_of(&io->of);
    if (memcmp(h->magic, own.magic, sizeof magic)) return gw_fail(io->of.error, MSG_NOT_SAVED);
    if (h->layout != own.layout) return refuse(io, "its format version", "", own.layout, h->layout);
    if (h->model != own.model)
        return gw_fail(io->of.error, MSG_OTHER_MODEL, (unsigned long long)own.model, (unsigned long long)h->model);
    if (h->kv_type != own.kv_type)
        return refuse(io, "its kvType (0: auto, 1: f32, 2: i16, 3: q8_0)", "", own.kv_type, h->kv_type);
    if (h->n_layer != own.n_layer) return refuse(io, "its number of layers", "", own.n_layer, h->n_layer);
    if (h->n_head_kv != own.n_head_kv) return refuse(io, "its number of KV heads", "", own.n_head_kv, h->n_head_kv);
    if (h->head_dim != own.head_dim) return refuse(io, "the size of its heads", "", own.head_dim, h->head_dim);
    if (h->window != own.window && io->of.session->state.config->window)
        return refuse(io, "its sliding window", "", own.window, h->window);
    return check_places(io, h);
}

/* Checks the header of a saved state, then empties the cache. */
static int take_header(gw_state_io *io, const uint8_t *bytes) {
    gw_state_header h;
    uint64_t whole = io->head.bytes;
    memcpy(&h, bytes, sizeof h);
    int bad = check_header(io, &h);
    if (bad) return bad;
    io->head = h;
    if (all_bytes(io) != whole || h.bytes != whole) return refuse(io, "its number of bytes", "", all_bytes(io), whole);
    gw_session_clear(io->of.session);
    if (gw_kv_open(&io->of.session->now->kv, h.pos, h.aside)) return 0;
    gw_session_clear(io->of.session);
    return gw_fail(io->of.error, MSG_KV_FULL, h.pos);
}

static int take_ids(gw_state_io *io, const uint8_t *bytes, size_t n) {
    gw_session *s = io->of.session;
    int32_t *ids = s->now->ids + io->at;
    memcpy(ids, bytes, n);
    for (size_t i = 0; i < n / sizeof *ids; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->state.config->n_vocab)
            return gw_fail(io->of.error, MSG_SAVED_TOKEN, s->state.config->n_vocab - 1, ids[i]);
    return 0;
}

/* Stores a row of keys or values. Skips rows for which the session's ring has no room, because its context is shorter
 * than that of the saved state. */
static int take_row(gw_state_io *io, const uint8_t *bytes) {
    const gw_kv_layer *l = holder_of(io);
    if (io->at / GW_KEYS + l->rows / GW_KEYS <= (rows_of(io).end - 1) / GW_KEYS) return 0;
    if (gw_kv_row_in(l, io->kind & 1, io->at, bytes)) return 0;
    return gw_fail(io->of.error, MSG_SAVED_ROW, io->layer, io->at);
}

static int take_hash(gw_state_io *io, const uint8_t *bytes) {
    gw_session *s = io->of.session;
    gw_kv *kv = &s->now->kv;
    uint64_t hash;
    memcpy(&hash, bytes, sizeof hash);
    if (hash != io->hash)
        return gw_fail(io->of.error, MSG_SAVED_CHECKSUM, (unsigned long long)io->hash, (unsigned long long)hash);
    if (!gw_kv_opened(kv, io->head.pos, io->head.low, io->head.aside))
        return gw_fail(io->of.error, MSG_SAVED_TOO_SHORT);
    s->now->n_ids = io->head.pos;
    return 0;
}

static int read_piece(gw_state_io *io, const uint8_t *bytes, size_t n) {
    switch (io->phase) {
    case HEADER: return take_header(io, bytes);
    case IDENTIFIERS: return take_ids(io, bytes, n);
    case SAMPLER: return gw_sampler_read(io->of.sampler, bytes, n, io->of.error);
    case ROWS: return take_row(io, bytes);
    default: return take_hash(io, bytes);
    }
}

/* Ends the reading of a saved state. If reading failed after the header was accepted, empties the context and resets
 * the sampler. */
static int end_reading(gw_state_io *io, int how) {
    if (how < 0 && io->phase > HEADER) {
        gw_session_clear(io->of.session);
        gw_sampler_reset(io->of.sampler);
    }
    gw_state_end(io);
    return how;
}

int gw_state_commit(gw_state_io *io, size_t n) {
    size_t at = 0, next;
    if (!io->window || !io->reads || n > gw_state_room(io))
        return gw_fail(io->of.error, MSG_COMMIT, "gw_state_commit", gw_state_room(io), n);
    io->used += n;
    while ((next = piece(io)) && at + next <= io->used) {
        int bad = read_piece(io, io->window + at, next);
        if (bad) return end_reading(io, bad);
        pass(io, io->window + at, next);
        at += next;
    }
    if (io->phase == OVER && at == io->used) return end_reading(io, 0);
    if (io->phase == OVER || n == 0)
        return end_reading(io,
                           n ? gw_fail(io->of.error, MSG_SAVED_TOO_LONG) : gw_fail(io->of.error, MSG_SAVED_TOO_SHORT));
    memmove(io->window, io->window + at, io->used - at);
    io->used -= at;
    return 1;
}
