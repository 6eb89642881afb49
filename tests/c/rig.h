/* rig: loads small models that are made in memory (tiny_gguf.h), for tests that evaluate. */
#ifndef RIG_H
#define RIG_H

#include "scoped.h"
#include "tiny_gguf.h"

/* The window (24) is smaller than a batch (64); the rings have 96 rows; the context (400) is far longer. */
extern const tiny_config base;
/* Smaller, for tests of loading. */
extern const tiny_config small;

typedef struct {
    gw_pool *pool;
    gw_model *m;
} rig;

/* Loads a model with its own pool; `option`, unless NULL, is set to `value` first. n_ctx: 0 takes the model's. */
rig rig_with(const tiny_config *c, int threads, uint32_t n_ctx, const char *option, const char *value);
static inline rig rig_new(const tiny_config *c, int threads, uint32_t n_ctx) {
    return rig_with(c, threads, n_ctx, NULL, NULL);
}
void rig_free(rig *r);

#define scoped_rig SCOPED(rig_free) rig
#define scoped_file SCOPED(tiny_free) tiny_file

/* Returns a model without a file. */
gw_model *fresh(gw_pool *pool);

/* Feeds a file's header, after which the memory plan is known. */
void feed_header(gw_model *m, const tiny_file *f);

/* Copies the logits after a fixed prompt, for vocabularies of at least 40 tokens. */
void logits_of(gw_model *m, float *out, uint32_t n_vocab);

#endif
