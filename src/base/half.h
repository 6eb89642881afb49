/* half: conversions between float and the 16-bit floats of model files: IEEE 754 binary16 and bfloat16. */
#ifndef GW_HALF_H
#define GW_HALF_H

#include "base/base.h"

float gw_f16_to_f32(uint16_t h); /* exact for all values, including denormals, infinities and NaN */
uint16_t gw_f32_to_f16(float f); /* rounds to nearest, ties to even */
float gw_bf16_to_f32(uint16_t h);
uint16_t gw_f32_to_bf16(float f); /* rounds to nearest, ties to even; NaN stays NaN */

#endif
