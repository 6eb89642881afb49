/* pack: rows as a GGUF holds them -> panels of four rows as kernels.h wants them, and one row back.
 * A panel has exactly the bytes of its four rows. Floats may be packed as Q8_0 instead of as they are.
 * Adding a type: see formats.h. */
#ifndef GW_PACK_H
#define GW_PACK_H

#include "file/types.h"

/* True if matrices of this type can be packed. */
bool gw_can_pack(const gw_type *type);

/* Bytes of `rows` rows of k items, the last panel filled up with zero rows; UINT64_MAX if too many. */
uint64_t gw_packed_bytes(const gw_type *type, size_t rows, size_t k);

/* The type that rows of k items of `type` are packed in: this one, or Q8_0 if they are floats that may become it. */
const gw_type *gw_packed_type(const gw_type *type, size_t k, bool floats_to_q8);

/* n rows of floats, one behind the other, to rows of Q8_0 in their place, one behind the other from the first's
 * beginning, rounded as Q8_0's quantiser does (types.h). */
void gw_round_rows(const gw_type *from, uint8_t *rows, int n, size_t k);

/* Pack n <= 4 rows of k items that lie one behind the other; missing rows become zeros. */
void gw_pack_panel(const gw_type *type, const uint8_t *rows, int n, size_t k, uint8_t *panel);

/* Whether no number of four packed rows of k items, or no scale of their blocks, is an infinity or NaN; rows: the same
 * of floats as a file has them. */
bool gw_panel_finite(const gw_type *type, const uint8_t *panel, size_t k);
bool gw_rows_finite(const gw_type *type, const uint8_t *rows, size_t n, size_t k);

/* Row `row` of a packed matrix as floats[k]. */
void gw_unpack_row(const gw_type *type, const uint8_t *panels, size_t row, size_t k, float *out);

/* Q8_0 in two planes, one of the upper and one of the lower halves of all codes (kernels.h), with the norms of
 * each row's parts rounded up: of scale * (16 n - 120) and of scale * (l - 8), infinite where a scale is. */
enum { GW_PLANES_MAX_K = 8192 };
bool gw_planes_fit(const gw_type *type, size_t k);   /* type: the packed one */
/* As gw_pack_panel of Q8_0, to a panel of each plane and to four norms each. */
void gw_pack_planes(const uint8_t *rows, int n, size_t k, uint8_t *high, uint8_t *low,
                    float *high_norm, float *low_norm);
bool gw_planes_finite(const uint8_t *high, size_t k);
void gw_unpack_planes(const uint8_t *high, const uint8_t *low, size_t row, size_t k, float *out);

#endif
