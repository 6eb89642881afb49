/* describe: describes a gw_file to the host program: metadata and tensors as JSON, and values by name. Read-only. */
#ifndef GW_DESCRIBE_H
#define GW_DESCRIBE_H

#include "model/model.h"

/* Describe a metadata entry or a tensor: empty `out` and write NUL-terminated JSON to it. Return NULL for an index out
 * of range or if out of memory. */
const char *gw_describe_entry(const gw_store *s, uint32_t i, gw_buffer *out);
const char *gw_describe_tensor(const gw_tensor *t, uint64_t data_offset, bool stays, gw_buffer *out);

/* Return a property of the model by name; NAN or NULL for an unknown name or a missing value. api.h lists the names. */
double gw_describe_number(const gw_file *f, const char *key);
const char *gw_describe_text(const gw_file *f, const char *key);

#endif
