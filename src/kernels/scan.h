/* scan: products of one query with many rows of bytes, for search over vectors. All in integers, so every build gives
 * the same. */
#ifndef GW_SCAN_H
#define GW_SCAN_H

#include "kernels/kernels.h"

enum { GW_SCAN_STEP = 16, GW_SCAN_MOST = 4096, GW_SCAN_TOP = 4095 };

/* sums[n] = rows[n][d] times query[d]. d: a multiple of GW_SCAN_STEP, GW_SCAN_MOST at most; bytes of rows in
 * -127 .. 127, of the query in -GW_SCAN_TOP .. GW_SCAN_TOP: so no sum is above 2^31. */
void gw_scan(const int8_t *rows, uint32_t n, uint32_t d, const int16_t *query, int32_t *sums);

#endif
