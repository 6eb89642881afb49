/* rig: loads small models that are made in memory (tiny_gguf.h), for tests of evaluation. */
#ifndef RIG_H
#define RIG_H

#include "scoped.h"
#include "tiny_gguf.h"

/* A model with a window (24) smaller than a batch (64), KV rings of 96 rows, and a longer context (400). */
extern const tiny_config base;
/* A smaller model, for tests of loading. */
extern const tiny_config small;

typedef struct {
    gw_pool *pool;
    gw_model *m;
} rig;

/* Loads a model with its own thread pool, after setting a load option, unless NULL. n_ctx 0: that of the file. */
rig rig_with(const tiny_config *c, int threads, uint32_t n_ctx, const char *option, const char *value);
static inline rig rig_new(const tiny_config *c, int threads, uint32_t n_ctx) {
    return rig_with(c, threads, n_ctx, NULL, NULL);
}
void rig_free(rig *r);

#define scoped_rig SCOPED(rig_free) rig
#define scoped_file SCOPED(tiny_free) tiny_file

gw_model *fresh(gw_pool *pool);

/* Feeds a file's header, after which the memory plan is known. */
void feed_header(gw_model *m, const tiny_file *f);

/* Evaluates a fixed prompt, for vocabularies of at least 40 tokens, and copies the logits. */
void logits_of(gw_model *m, float *out, uint32_t n_vocab);

#endif
