/* dtype.h - element conversions. */
#ifndef HYP_BASE_DTYPE_H
#define HYP_BASE_DTYPE_H

#include <string.h>

#include "base/mem.h"
#include "hypatia/types.h"

static inline bool hyp_dtype_is_float(hyp_dtype t) { return t == HYP_F32 || t == HYP_F16 || t == HYP_BF16 || t == HYP_F64; }

/* IEEE half and bfloat16 to and from float; to the narrow type by round-to-nearest-even, NaN kept. */
float hyp_f16_to_f32(uint16_t h);
uint16_t hyp_f32_to_f16(float f);
static inline float hyp_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint16_t hyp_f32_to_bf16(float f);

/* Element i of an array of any type, as a double (64-bit integers may round) or as an int64 (floats
 * truncate toward zero and saturate, NaN gives 0). */
double hyp_load_f64(hyp_dtype t, const void *data, size_t i);
int64_t hyp_load_i64(hyp_dtype t, const void *data, size_t i);
/* Stores with one rounding from the double (floats), saturation-free C conversion (integers wrap modulo
 * 2^bits), != 0 (bool). */
void hyp_store_f64(hyp_dtype t, void *data, size_t i, double value);
void hyp_store_i64(hyp_dtype t, void *data, size_t i, int64_t value);

#endif
