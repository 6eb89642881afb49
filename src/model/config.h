/* config: reads and checks a model's sizes and rules. Keys (prefixed with the architecture's name) and the defaults of
 * missing keys are llama.cpp's. */
#ifndef GW_CONFIG_H
#define GW_CONFIG_H

#include "file/store.h"
#include "model/arch.h"

/* Reads all fields of c except n_vocab from the metadata. Returns 0 or an error code. */
int gw_config_read(gw_config *c, const gw_store *s, gw_error *e);

#endif
