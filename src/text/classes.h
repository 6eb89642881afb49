/* classes: looks up the Unicode class of a code point. tools/build/classes.js generates the table. */
#ifndef GW_CLASSES_H
#define GW_CLASSES_H

#include "base/base.h"

/* The class of a character: letter (\p{L}), number (\p{N}), white space (White_Space), or other. Letters are also
 * classified by case, and others by whether they are marks (\p{M}). */
typedef enum {
    GW_OTHER,
    GW_LETTER, /* letters without case: \p{Lm}, \p{Lo} */
    GW_NUMBER,
    GW_BLANK,
    GW_WITHOUT_CASE = 3, /* class & GW_WITHOUT_CASE is one of the four values GW_OTHER to GW_BLANK */
    GW_MARK = GW_OTHER | 1 << 2,
    GW_UPPER = GW_LETTER | 1 << 2, /* upper and title case: \p{Lu}, \p{Lt} */
    GW_LOWER = GW_LETTER | 2 << 2, /* \p{Ll} */
} gw_class;

gw_class gw_class_of(uint32_t code_point);

#endif
