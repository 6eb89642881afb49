/* errors: the messages of the folder kernels. base/errors.h says how they are written. */
#ifndef GW_KERNELS_ERRORS_H
#define GW_KERNELS_ERRORS_H

#include "base/base.h"

#define MSG_WRONG_INSTRUCTION \
    GW_E_ENGINE, "The instruction %s gives wrong results on this platform. Update the browser or Node."
#define MSG_WRONG_KERNEL \
    GW_E_ENGINE, "The self-test of the %s build failed: %s%s gave wrong results. Update the browser or Node."

#endif
