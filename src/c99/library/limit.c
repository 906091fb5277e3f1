#include "bits.h"

/* x, brought into -limit .. limit, of which the bits are given; NaN becomes a limit. */
static inline float hyp_limit(float x, uint32_t limit)
{
    union hyp_bits u;
    u.value = x;
    const uint32_t size = u.bits & ~HYP_SIGN;
    u.bits = (u.bits & HYP_SIGN) | (size < limit ? size : limit);
    return u.value;
}

/* y, or NaN where x is. */
static inline float hyp_keep_nan(float x, float y)
{
    union hyp_bits u, v;
    u.value = x;
    v.value = y;
    v.bits |= (0u - ((u.bits & ~HYP_SIGN) > HYP_INFINITE)) & HYP_NAN;
    return v.value;
}
