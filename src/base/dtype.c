#include "base/dtype.h"

#include <math.h>

static const struct {
    hyp_dtype dtype;
    const char *name;
    uint8_t size;
} table[] = {
    {HYP_F32, "f32", 4}, {HYP_U8, "u8", 1},   {HYP_I8, "i8", 1},     {HYP_U16, "u16", 2},       {HYP_I16, "i16", 2},
    {HYP_I32, "i32", 4}, {HYP_I64, "i64", 8}, {HYP_BOOL, "bool", 1}, {HYP_F16, "f16", 2},       {HYP_F64, "f64", 8},
    {HYP_U32, "u32", 4}, {HYP_U64, "u64", 8}, {HYP_BF16, "bf16", 2}, {HYP_F8E4M3, "f8e4m3", 1},
};

size_t hyp_dtype_size(hyp_dtype dtype)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].dtype == dtype) return table[i].size;
    return 0;
}

const char *hyp_dtype_name(hyp_dtype dtype)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].dtype == dtype) return table[i].name;
    return "?";
}

hyp_dtype hyp_dtype_parse(const char *name)
{
    if (!name) return HYP_DTYPE_NONE;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) return table[i].dtype;
    return HYP_DTYPE_NONE;
}

float hyp_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023, bits;
    float f;
    if (exponent == 0) {
        f = ldexpf((float)mantissa, -24);
        return sign ? -f : f;
    }
    bits = exponent == 31 ? sign | 0x7f800000 | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t hyp_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
    if (u < 0x38800000) {                                  /* subnormal half: scale so that one unit is 1.0 */
        float scaled;
        memcpy(&scaled, &u, 4);
        return (uint16_t)(sign | (uint32_t)nearbyintf(scaled * 16777216.0f));
    }
    u += 0xfff + (u >> 13 & 1); /* nearest, ties to even; a carry moves into the exponent as it should */
    return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

uint16_t hyp_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint8_t hyp_f32_to_f8e4m3(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 24 & 0x80;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint8_t)(sign | 0x7f);
    memcpy(&f, &u, 4);
    if (f >= HYP_F8E4M3_MOST) return (uint8_t)(sign | 0x7e);
    if (u < 0x3c800000) return (uint8_t)(sign | (uint32_t)nearbyintf(f * 512.0f)); /* subnormal: in units of 2^-9 */
    u += 0x7ffff + (u >> 20 & 1);
    return (uint8_t)(sign | ((u >> 20) - (120u << 3)));
}

#define LOAD(T)                                      \
    {                                                \
        T v;                                         \
        memcpy(&v, (const char *)data + i * sizeof v, sizeof v); \
        return FROM(v);                              \
    }
#define LOAD_INTEGERS                                                                   \
    case HYP_U8: LOAD(uint8_t)                                                          \
    case HYP_I8: LOAD(int8_t)                                                           \
    case HYP_U16: LOAD(uint16_t)                                                        \
    case HYP_I16: LOAD(int16_t)                                                         \
    case HYP_I32: LOAD(int32_t)                                                         \
    case HYP_I64: LOAD(int64_t)                                                         \
    case HYP_U32: LOAD(uint32_t)                                                        \
    case HYP_U64: LOAD(uint64_t)                                                        \
    case HYP_BOOL: return ((const uint8_t *)data)[i] != 0;
#define STORE(T, value)                              \
    {                                                \
        T v = (T)(value);                            \
        memcpy((char *)data + i * sizeof v, &v, sizeof v); \
        break;                                       \
    }

/* The thread sanitizer would spend three quarters of the tests' time here, nearly all of it on the reference's elements. What
 * kernels of several threads read through this function is not watched either; writes are. */
__attribute__((no_sanitize("thread"))) double hyp_load_f64(hyp_dtype t, const void *data, size_t i)
{
    uint16_t h;
#define FROM(v) (double)(v)
    switch (t) {
    case HYP_F32: LOAD(float)
    case HYP_F64: LOAD(double)
    LOAD_INTEGERS
    case HYP_F16: memcpy(&h, (const char *)data + 2 * i, 2); return (double)hyp_f16_to_f32(h);
    case HYP_BF16: memcpy(&h, (const char *)data + 2 * i, 2); return (double)hyp_bf16_to_f32(h);
    case HYP_F8E4M3: return (double)hyp_f8e4m3_to_f32(((const uint8_t *)data)[i]);
    case HYP_DTYPE_NONE: break;
    }
#undef FROM
    return 0;
}

static int64_t truncate(double v)
{
    if (isnan(v)) return 0;
    if (v >= 9223372036854775807.0) return INT64_MAX;
    if (v <= -9223372036854775808.0) return INT64_MIN;
    return (int64_t)v;
}

int64_t hyp_load_i64(hyp_dtype t, const void *data, size_t i)
{
    if (hyp_dtype_is_float(t)) return truncate(hyp_load_f64(t, data, i));
#define FROM(v) (int64_t)(v)
    switch (t) {
    LOAD_INTEGERS
    default: return 0;
    }
#undef FROM
}

/* double -> half, bfloat16 or f8e4m3 must round once: rounding to float first may round twice. Rounding to odd
 * in the middle step keeps the information that the last rounding needs. */
static float to_float_odd(double value)
{
    float f = (float)value;
    if (isnan(value) || isinf(f) || (double)f == value) return f;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (u & 1) return f;
    /* f is even and inexact: the neighbour on the other side of value is odd. */
    u += fabs(value) > fabs((double)f) ? 1u : -1u;
    memcpy(&f, &u, 4);
    return f;
}

void hyp_store_f64(hyp_dtype t, void *data, size_t i, double value)
{
    switch (t) {
    case HYP_F32: STORE(float, value)
    case HYP_F64: STORE(double, value)
    case HYP_F16: STORE(uint16_t, hyp_f32_to_f16(to_float_odd(value)))
    case HYP_BF16: STORE(uint16_t, hyp_f32_to_bf16(to_float_odd(value)))
    case HYP_F8E4M3: STORE(uint8_t, hyp_f32_to_f8e4m3(to_float_odd(value)))
    case HYP_BOOL: STORE(uint8_t, value != 0)
    case HYP_U64: STORE(uint64_t, value >= 9223372036854775808.0 && value < 18446744073709551616.0 ? (uint64_t)value : (uint64_t)truncate(value))
    default: hyp_store_i64(t, data, i, truncate(value));
    }
}

void hyp_store_i64(hyp_dtype t, void *data, size_t i, int64_t value)
{
    switch (t) {
    case HYP_U8: STORE(uint8_t, value)
    case HYP_I8: STORE(int8_t, value)
    case HYP_U16: STORE(uint16_t, value)
    case HYP_I16: STORE(int16_t, value)
    case HYP_I32: STORE(int32_t, value)
    case HYP_I64: STORE(int64_t, value)
    case HYP_U32: STORE(uint32_t, value)
    case HYP_U64: STORE(uint64_t, value)
    case HYP_BOOL: STORE(uint8_t, value != 0)
    case HYP_F32:
    case HYP_F64:
    case HYP_F16:
    case HYP_BF16:
    case HYP_F8E4M3: hyp_store_f64(t, data, i, (double)value); break;
    case HYP_DTYPE_NONE: break;
    }
}
