/* relaxed: what tests and proofs set for relaxed kernels; see kernels.h. */
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

volatile bool gw_relaxed_only_7_bits;
volatile int gw_relaxed_pairs = GW_PAIRS_ASK;

#ifdef GW_RELAXED_SIMDE
int gw_relaxed_engine = GW_ENGINE_PAIRS;
int gw_relaxed_fault = GW_FAULT_NONE;
#endif

#endif
