/* scan: products of one query with many rows of bytes, for vector search. All arithmetic is in integers, so every build
 * gives the same results. */
#ifndef GW_SCAN_H
#define GW_SCAN_H

#include "kernels/kernels.h"

enum { GW_SCAN_STEP = 16, GW_SCAN_MOST = 4096, GW_SCAN_TOP = 4095 };

/* Computes the dot products sums[n] of rows[n][d] with query[d]. d is a multiple of GW_SCAN_STEP, at most GW_SCAN_MOST.
 * Rows hold -127 .. 127, the query holds -GW_SCAN_TOP .. GW_SCAN_TOP, so no sum reaches 2^31. */
void gw_scan(const int8_t *rows, uint32_t n, uint32_t d, const int16_t *query, int32_t *sums);

#endif
