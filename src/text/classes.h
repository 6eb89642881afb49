/* classes: which code points Unicode calls letters (\p{L}), numbers (\p{N}) and blanks (White_Space); all others are
 * alike here. The table is made by tools/build/classes.js. */
#ifndef GW_CLASSES_H
#define GW_CLASSES_H

#include "base/base.h"

typedef enum { GW_OTHER, GW_LETTER, GW_NUMBER, GW_BLANK } gw_class;

gw_class gw_class_of(uint32_t code_point);

#endif
