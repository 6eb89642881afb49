/* errors: messages of the folder base, and messages that several folders use. In every errors.h, a macro is a code and
 * a format for gw_fail(), which appends the code's remedy (base.h). The formats are literals, so that the compiler
 * checks the arguments. */
#ifndef GW_BASE_ERRORS_H
#define GW_BASE_ERRORS_H

#include "base/base.h"

#define MSG_NO_MEMORY \
    GW_E_NO_MEMORY, "The engine has no memory for %s%s. Use a smaller model or context, or close other tabs."
#define MSG_TOKEN_RANGE GW_E_BAD_TOKEN, "The token id must be 0 to %u (got %d)."

#endif
