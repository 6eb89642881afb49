/* naive: a second implementation of Gemma 3's forward pass, in double precision, token by token, without a cache,
 * blocks, batches or threads: slow and obvious. Written from the report (arXiv 2503.19786) and the tensor names of GGUF
 * files, it shares only the dequantisers with src/. */
#ifndef NAIVE_H
#define NAIVE_H

#include "tiny_gguf.h"

/* Computes the logits, [n][n_vocab], of the n token ids of one context. */
void naive_logits(const tiny_config *c, const tiny_file *f, const int32_t *ids, uint32_t n, double *logits);

/* Returns the normalised mean squared error of a against b: sum((a - b)^2) / sum(b^2). */
double naive_nmse(const float *a, const double *b, size_t n);

#endif
