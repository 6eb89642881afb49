/* half: conversions between float and the 16-bit floats of model files: IEEE 754 binary16 and bfloat16. */
#ifndef GW_HALF_H
#define GW_HALF_H

#include "base/base.h"

/* Reads a little-endian 16-bit number at any address. */
static inline uint16_t gw_load16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

float gw_f16_to_f32(uint16_t h); /* converts an f16 exactly, including denormals, infinities and NaN */
uint16_t gw_f32_to_f16(float f); /* converts to f16: rounds to nearest, ties to even */
float gw_bf16_to_f32(uint16_t h);
uint16_t gw_f32_to_bf16(float f); /* converts to bfloat16: rounds to nearest, ties to even; NaN stays NaN */

#endif
