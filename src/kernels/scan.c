/* scan: see scan.h. Widens bytes to int16 for the pairwise dot product (i32x4.dot_i16x8_s). Does not rank the rows:
 * js/search does. */
#include "kernels/scan.h"
#include "kernels/simd.h"

#ifdef GW_HAVE_SIMD

INLINE v128_t add_step(v128_t sum, const int8_t *row, const int16_t *query) {
    v128_t bytes = wasm_v128_load(row), low = wasm_i16x8_extend_low_i8x16(bytes);
    v128_t high = wasm_i16x8_extend_high_i8x16(bytes);
    sum = add_dot(sum, low, wasm_v128_load(query));
    return add_dot(sum, high, wasm_v128_load(query + 8));
}

static int32_t product(const int8_t *row, const int16_t *query, uint32_t d) {
    v128_t sum = wasm_i32x4_splat(0);
    for (uint32_t i = 0; i < d; i += GW_SCAN_STEP) sum = add_step(sum, row + i, query + i);
    return (wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1)) +
           (wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3));
}

#else

static int32_t product(const int8_t *row, const int16_t *query, uint32_t d) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < d; i++) sum += row[i] * query[i];
    return sum;
}

#endif

void gw_scan(const int8_t *rows, uint32_t n, uint32_t d, const int16_t *query, int32_t *sums) {
    for (uint32_t r = 0; r < n; r++) sums[r] = product(rows + (size_t)r * d, query, d);
}
