/* relaxed_simde: the three relaxed instructions that kernels use, for native builds, so that tests and sanitizers run
 * those kernels too: in relaxed.c, for inlined they would make these loops take minutes to compile. What the WebAssembly
 * specification leaves to engines comes out as on one of three kinds of them: gw_relaxed_engine. Included by relaxed.h
 * only. */
#ifndef GW_RELAXED_SIMDE_H
#define GW_RELAXED_SIMDE_H

#include "kernels/simd.h"

v128_t gw_simde_pairs(v128_t x, v128_t c);
v128_t gw_simde_dot(v128_t x, v128_t c, v128_t total);
v128_t gw_simde_swizzle(v128_t table, v128_t c);

#define DOT gw_simde_dot
#define PAIRS gw_simde_pairs
#define SWIZZLE gw_simde_swizzle

#endif
