/* pack: converts rows of a GGUF file to panels of four rows (kernels.h), and single packed rows back to floats. A panel
 * is exactly as large as its four rows. Floats can be rounded to Q8_0 first. */
#ifndef GW_PACK_H
#define GW_PACK_H

#include "kernels/kernels.h"
#include "file/types.h"

/* Returns the bytes of `rows` packed rows of k items, the last panel padded with zero rows; UINT64_MAX if the number
 * does not fit. */
uint64_t gw_packed_bytes(const gw_type *type, size_t rows, size_t k);

/* Returns the type that rows of k items are packed as: Q8_0 for floats if floats_to_q8 is set and k is a multiple of
 * 32, otherwise `type`. */
const gw_type *gw_packed_type(const gw_type *type, size_t k, bool floats_to_q8);

/* Rounds n consecutive rows of floats to consecutive rows of Q8_0, in place, with the results of the quantiser in
 * types.h. */
void gw_round_rows(const gw_type *from, uint8_t *rows, int n, size_t k);

/* Packs n <= 4 consecutive rows of k items as one panel; missing rows become zeros. */
void gw_pack_panel(const gw_type *type, const uint8_t *rows, int n, size_t k, uint8_t *panel);

/* gw_panel_finite returns whether the numbers, or the scales of blocks, in four packed rows are finite; gw_rows_finite
 * checks n rows of floats of a file. */
bool gw_panel_finite(const gw_type *type, const uint8_t *panel, size_t k);
bool gw_rows_finite(const gw_type *type, const uint8_t *rows, size_t n, size_t k);

/* Unpacks row `row` of a packed matrix to floats[k]. */
void gw_unpack_row(const gw_type *type, const uint8_t *panels, size_t row, size_t k, float *out);

/* The two-stage output head (model/topk.c) needs norms of each row, which are rounded up, and infinite if a scale is
 * not finite. Rows of Q8_0, which are stored in planes (kernels.h), have GW_NORMS norms: the norm of a row's
 * approximation by the high plane, scale * (16 n - 120); the norm of the error of this approximation; with a middle
 * plane, also the norm of the error of the approximation by the high and middle planes, scale * (16 n + 4 m - 126).
 * Rows of any other type have one: the greatest norm that a row with these scales and mins can have. */
enum { GW_HEAD_MAX_K = 8192, GW_NORMS = GW_MIDDLE_PLANE ? 3 : 2 };
/* Returns the number of norms of a row of k items of this packed type: GW_NORMS, 1 or 0. With 0, the head has one
 * stage: for floats, for long rows, and for types other than Q8_0 in builds whose products with int8 and int15 take the
 * same time. */
int gw_head_norms(const gw_type *type, size_t k);
/* Sets norms[4] of a panel of n <= 4 rows of a type other than Q8_0; norms of missing rows are 0. */
void gw_row_norms(const gw_type *type, const uint8_t *rows, int n, size_t k, float *norms);
/* Packs n <= 4 rows of Q8_0 to one panel of each plane, and sets norms[GW_NORMS][ld] of the rows. */
void gw_pack_planes(const uint8_t *rows, int n, size_t k, gw_planes to, float *norms, size_t ld);
bool gw_planes_finite(const uint8_t *high, size_t k);
void gw_unpack_planes(gw_planes w, size_t row, size_t k, float *out);

#endif
