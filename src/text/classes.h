/* classes: the class of a code point: letter (\p{L}), number (\p{N}), white space (White_Space) or other.
 * tools/build/classes.js makes the table. */
#ifndef GW_CLASSES_H
#define GW_CLASSES_H

#include "base/base.h"

typedef enum { GW_OTHER, GW_LETTER, GW_NUMBER, GW_BLANK } gw_class;

gw_class gw_class_of(uint32_t code_point);

#endif
