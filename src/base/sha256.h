/* sha256: FIPS 180-4, fed piece by piece, for models whose digest is known. In C because platforms
 * digest whole buffers only, and because the bytes are in the heap anyway. Little-endian machines. */
#ifndef GW_SHA256_H
#define GW_SHA256_H

#include "base/base.h"

typedef struct gw_sha256 gw_sha256;

enum { GW_SHA256_STATE = 104 }; /* the first bytes of a gw_sha256: its whole state */

gw_sha256 *gw_sha256_new(void); /* NULL if no memory; the other functions accept NULL; free it with gw_free */
void gw_sha256_update(gw_sha256 *s, const uint8_t *bytes, size_t n);
/* Returns the digest of the bytes so far as 64 hexadecimal digits, without changing the state. */
const char *gw_sha256_hex(gw_sha256 *s);

#endif
