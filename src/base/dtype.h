/* dtype.h - element conversions. */
#ifndef HYP_BASE_DTYPE_H
#define HYP_BASE_DTYPE_H

#include <string.h>

#include "base/mem.h"
#include "hypatia/types.h"

static inline bool hyp_dtype_is_float(hyp_dtype t)
{
    return t == HYP_F32 || t == HYP_F16 || t == HYP_BF16 || t == HYP_F64 || t == HYP_F8E4M3;
}

/* The type in which sums of floats of this type, and other statistics of them, are kept. */
static inline hyp_dtype hyp_dtype_wide(hyp_dtype t) { return t == HYP_F64 ? HYP_F64 : HYP_F32; }

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

/* The largest number that f8e4m3 has. */
#define HYP_F8E4M3_MOST 448.0f
/* The same for f8e4m3 (OCP 8-bit Floating Point Specification 1.0, E4M3). What is beyond its range, infinities too,
 * becomes the largest number of its sign. */
static inline float hyp_f8e4m3_to_f32(uint8_t code)
{
    /* In place the exponent is 120 too small, which a product mends, subnormals too. */
    uint32_t u = (uint32_t)(code & 0x7f) << 20, sign = (uint32_t)(code & 0x80) << 24;
    float f;
    memcpy(&f, &u, 4);
    f *= 0x1p120f;
    memcpy(&u, &f, 4);
    u = (code & 0x7f) == 0x7f ? sign | 0x7fc00000 : sign | u;
    memcpy(&f, &u, 4);
    return f;
}
uint8_t hyp_f32_to_f8e4m3(float f);

/* Element i of an array of any type, as a double (64-bit integers may round) or as an int64 (floats
 * truncate toward zero and saturate, NaN gives 0). */
double hyp_load_f64(hyp_dtype t, const void *data, size_t i);
int64_t hyp_load_i64(hyp_dtype t, const void *data, size_t i);
/* Stores with one rounding from the double (floats), saturation-free C conversion (integers wrap modulo
 * 2^bits), != 0 (bool). */
void hyp_store_f64(hyp_dtype t, void *data, size_t i, double value);
void hyp_store_i64(hyp_dtype t, void *data, size_t i, int64_t value);

/* Of `outer` pieces of `have` bytes the first `keep` bytes of each, one behind the other. */
static inline void hyp_cut_axis(void *data, size_t outer, size_t have, size_t keep)
{
    char *p = data;
    for (size_t o = 1; o < outer && keep && keep < have; o++) memmove(p + o * keep, p + o * have, keep);
}

#endif
