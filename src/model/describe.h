/* describe: describes a gw_file to hosts: metadata and tensors as JSON, and values by name. Read-only. */
#ifndef GW_DESCRIBE_H
#define GW_DESCRIBE_H

#include "model/model.h"

/* Write NUL-terminated JSON to out, which is emptied first; return NULL if out of range or without memory. */
const char *gw_describe_entry(const gw_store *s, uint32_t i, gw_buffer *out);
const char *gw_describe_tensor(const gw_tensor *t, uint64_t data_offset, bool stays, gw_buffer *out);

/* Return NAN or NULL for an unknown or missing value; the keys are listed in api.h. */
double gw_describe_number(const gw_file *f, const char *key);
const char *gw_describe_text(const gw_file *f, const char *key);

#endif
