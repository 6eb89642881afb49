/* config: sizes and rules of a model as its file states them, checked. Keys are those of llama.cpp's converters,
 * behind the architecture's name; what a file does not say is what llama.cpp takes for it. */
#ifndef GW_CONFIG_H
#define GW_CONFIG_H

#include "file/store.h"
#include "model/arch.h"

/* All but n_vocab. 0 or a coded error. */
int gw_config_read(gw_config *c, const gw_store *s, gw_error *e);

#endif
