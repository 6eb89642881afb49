/* sha256: FIPS 180-4, computed incrementally, for downloads of models whose digest is known. In C because Web Crypto
 * only digests whole buffers, and because the bytes are in the wasm heap anyway. Little-endian machines only. */
#ifndef GW_SHA256_H
#define GW_SHA256_H

#include "base/base.h"

typedef struct gw_sha256 gw_sha256;

enum { GW_SHA256_STATE = 104 }; /* bytes of the hash state, which is at the start of a gw_sha256 */

/* Returns a new state, which the caller frees with gw_free(), or NULL if out of memory. gw_sha256_update() and
 * gw_sha256_hex() accept NULL. */
gw_sha256 *gw_sha256_new(void);
void gw_sha256_update(gw_sha256 *s, const uint8_t *bytes, size_t n);
/* Returns the digest of the bytes so far as 64 hexadecimal digits, without changing the state. */
const char *gw_sha256_hex(gw_sha256 *s);

#endif
