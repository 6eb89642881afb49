/* scoped: declarations whose values are freed at the end of their block, the last one first:
 * `scoped_pool *pool = gw_pool_new(1);`. A failed test leaves its block by longjmp(), and its memory is not freed. */
#ifndef SCOPED_H
#define SCOPED_H

#include "api.h"
#include "run/sampler.h"
#include "text/tokenizer.h"

#include <stdlib.h>

/* Declares a variable whose address is passed to `release` at the end of its block. */
#define SCOPED(release) __attribute__((cleanup(release)))

static inline void end_memory(void *at) { free(*(void **)at); }
static inline void end_block(void *at) { gw_free(*(void **)at); }
static inline void end_pool(gw_pool **p) { gw_pool_free(*p); }
static inline void end_model(gw_model **m) { gw_model_free(*m); }
static inline void end_sampler(gw_sampler **s) { gw_sampler_free(*s); }
static inline void end_tokenizer(gw_tokenizer **t) { gw_tokenizer_free(*t); }

#define scoped_memory SCOPED(end_memory)
#define scoped_block SCOPED(end_block)
#define scoped_pool SCOPED(end_pool) gw_pool
#define scoped_model SCOPED(end_model) gw_model
#define scoped_sampler SCOPED(end_sampler) gw_sampler
#define scoped_tokenizer SCOPED(end_tokenizer) gw_tokenizer

#endif
