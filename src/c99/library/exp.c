#include "limit.c"

static inline float hyp_two_to(int32_t n)
{
    union hyp_bits u;
    u.bits = (uint32_t)(n + 127) << 23;
    return u.value;
}

/* e^x, to two units in the last place: 2^n e^r, where 2^n is in two factors, so that results below the normal range come out
 * right. */
static inline float hyp_exp(float x)
{
    const float in = hyp_limit(x, 0x42d00000); /* 104 */
    const int32_t n = (int32_t)(in * 1.44269504f + 200.5f) - 200, half = n / 2;
    const float r = (in - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    float q = r * 1.381421927e-03f + 8.368899114e-03f;
    q = q * r + 4.166840762e-02f;
    q = q * r + 1.666651964e-01f;
    q = q * r + 4.999999404e-01f;
    return hyp_keep_nan(x, (q * (r * r) + r + 1) * hyp_two_to(half) * hyp_two_to(n - half));
}
