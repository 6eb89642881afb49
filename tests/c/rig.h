/* rig: loads small models that are made in memory (tiny_gguf.h), for tests of evaluation. */
#ifndef RIG_H
#define RIG_H

#include "scoped.h"
#include "tiny_gguf.h"

/* Configuration of a model whose window (24) is smaller than a batch (128), with KV rings of 192 rows and a longer
 * context (400). */
extern const tiny_config base;
extern const tiny_config small;

typedef struct {
    gw_pool *pool;
    gw_model *m;
} rig;

/* Loads a model with its own thread pool. option: name of a load option to set first; NULL: none. n_ctx 0: the context
 * length of the file. */
rig rig_with(const tiny_config *c, int threads, uint32_t n_ctx, const char *option, const char *value);
static inline rig rig_new(const tiny_config *c, int threads, uint32_t n_ctx) {
    return rig_with(c, threads, n_ctx, NULL, NULL);
}
void rig_free(rig *r);

#define scoped_rig SCOPED(rig_free) rig
#define scoped_file SCOPED(tiny_free) tiny_file

/* The files of a split model, freed together. */
enum { MOST_PARTS = 8 };
typedef tiny_file parts[MOST_PARTS];
void make_parts(tiny_config c, uint32_t n, tiny_file *files);
void free_parts(parts *files);
#define scoped_parts SCOPED(free_parts) parts

gw_model *fresh(gw_pool *pool);
/* Returns a pool without helper threads, which lives until the program ends. */
gw_pool *one_thread(void);

void feed_header(gw_model *m, const tiny_file *f);

/* Sets ids[0..n) to random ids of a vocabulary. */
void make_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t seed);

/* Evaluates a fixed prompt, whose ids need a vocabulary of at least 40 tokens, and copies the last logits to `out`. */
void logits_of(gw_model *m, float *out, uint32_t n_vocab);

#endif
