/* describe: a gw_file in words and numbers, for hosts: JSON texts of metadata and tensors, and values by
 * name. Reads only. */
#ifndef GW_DESCRIBE_H
#define GW_DESCRIBE_H

#include "model/model.h"

/* JSON into out (emptied first), NUL-terminated; NULL out of range or without memory. */
const char *gw_describe_entry(const gw_store *s, uint32_t i, gw_buffer *out);
const char *gw_describe_tensor(const gw_tensor *t, uint64_t data_offset, gw_buffer *out);

/* NAN / NULL for what is not there; the keys are listed in api.h. */
double gw_describe_number(const gw_file *f, const char *key);
const char *gw_describe_text(const gw_file *f, const char *key);

#endif
