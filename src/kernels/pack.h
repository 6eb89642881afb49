/* pack: converts rows of a GGUF file to panels of four rows for the kernels (kernels.h), and single packed rows back to
 * floats. A panel is exactly as large as its four rows. Floats can be rounded to Q8_0 first. */
#ifndef GW_PACK_H
#define GW_PACK_H

#include "kernels/kernels.h"
#include "file/types.h"

/* Returns whether matrices of this type can be packed. */
bool gw_can_pack(const gw_type *type);

/* Returns the bytes of `rows` packed rows of k items, the last panel padded with zero rows; UINT64_MAX if the number
 * does not fit. */
uint64_t gw_packed_bytes(const gw_type *type, size_t rows, size_t k);

/* Returns the type that rows of k items are packed as: Q8_0 for floats if floats_to_q8 is set and k is a multiple of
 * 32, otherwise `type`. */
const gw_type *gw_packed_type(const gw_type *type, size_t k, bool floats_to_q8);

/* Rounds n consecutive rows of floats to consecutive rows of Q8_0, in place, like the quantiser of Q8_0 (types.h). */
void gw_round_rows(const gw_type *from, uint8_t *rows, int n, size_t k);

/* Packs n <= 4 consecutive rows of k items; missing rows become zeros. */
void gw_pack_panel(const gw_type *type, const uint8_t *rows, int n, size_t k, uint8_t *panel);

/* gw_panel_finite returns whether all numbers, or all scales of blocks, of four packed rows of k items are finite;
 * gw_rows_finite, whether all numbers in n rows of floats of a file are. */
bool gw_panel_finite(const gw_type *type, const uint8_t *panel, size_t k);
bool gw_rows_finite(const gw_type *type, const uint8_t *rows, size_t n, size_t k);

/* Unpacks row `row` of a packed matrix to floats[k]. */
void gw_unpack_row(const gw_type *type, const uint8_t *panels, size_t row, size_t k, float *out);

/* Q8_0 in planes for the two-stage output head (kernels.h), with four norms of each row: of its approximation by the
 * high plane, scale * (16 n - 120), of the remainder, of its approximation by the high and middle planes,
 * scale * (16 n + 4 m - 126), and of that remainder. Norms are rounded up, and infinite if a scale is not finite. */
enum { GW_PLANES_MAX_K = 8192, GW_NORMS = 4 };
bool gw_planes_fit(const gw_type *type, size_t k); /* type: the type as packed */
/* Packs like gw_pack_panel for Q8_0, but to one panel of each plane, and sets norms[GW_NORMS][ld] of its four rows. */
void gw_pack_planes(const uint8_t *rows, int n, size_t k, gw_planes to, float *norms, size_t ld);
bool gw_planes_finite(const uint8_t *high, size_t k);
void gw_unpack_planes(gw_planes w, size_t row, size_t k, float *out);

#endif
