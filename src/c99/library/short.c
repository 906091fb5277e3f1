#include "bits.h"

/* Numbers of 16 bits: a bf16 is the upper half of a float, a f16 is that of IEEE 754. To the nearest, ties to even. */
enum hyp_kind { HYP_FLOATS, HYP_BF16, HYP_F16 };

static inline float hyp_from_bf16(uint16_t x)
{
    union hyp_bits u;
    u.bits = (uint32_t)x << 16;
    return u.value;
}

static inline uint16_t hyp_to_bf16(float x)
{
    union hyp_bits u;
    u.value = x;
    if (x != x) return (uint16_t)(u.bits >> 16 | 0x40);
    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

/* Moved to where a float has them, bits have an exponent that is 112 too small. */
static inline float hyp_from_f16(uint16_t x)
{
    union hyp_bits u;
    u.bits = (uint32_t)(x & 0x7fff) << 13;
    if ((x & 0x7c00) == 0x7c00)
        u.bits |= HYP_INFINITE;
    else
        u.value *= 5.192296858534827628530496329220096e33f; /* 2^112 */
    u.bits |= (uint32_t)(x & 0x8000) << 16;
    return u.value;
}

static inline uint16_t hyp_to_f16(float x)
{
    union hyp_bits u;
    u.value = x;
    const uint32_t sign = u.bits >> 16 & 0x8000, size = u.bits & ~HYP_SIGN;
    if (x != x) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
    if (size < 0x38800000) { /* below the normal ones: 2^23 has no bits behind the point, to which its sum is rounded */
        u.bits = size;
        u.value = u.value * 16777216.0f + 8388608.0f;
        return (uint16_t)(sign | (u.bits - 0x4b000000u));
    }
    return (uint16_t)(sign | (((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10)));
}
