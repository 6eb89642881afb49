/* sha256: FIPS 180-4, computed incrementally, for downloads of models whose digest is known. In C because Web Crypto
 * only digests whole buffers, and because the bytes are in the wasm heap anyway. Little-endian machines only. */
#ifndef GW_SHA256_H
#define GW_SHA256_H

#include "base/base.h"

typedef struct gw_sha256 gw_sha256;

enum { GW_SHA256_STATE = 104 }; /* number of bytes at the start of a gw_sha256 that are its whole state */

gw_sha256 *gw_sha256_new(void); /* returns NULL if out of memory; the other functions accept NULL; freed with gw_free */
void gw_sha256_update(gw_sha256 *s, const uint8_t *bytes, size_t n);
/* Returns the digest of the bytes so far as 64 hexadecimal digits, without changing the state. */
const char *gw_sha256_hex(gw_sha256 *s);

#endif
