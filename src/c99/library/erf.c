#include "exp.c"

/* The error function: a polynomial about 0, 1 - e^(a polynomial) further out. */
static inline float hyp_erf(float x)
{
    union hyp_bits in, small, large, limited;
    in.value = x;
    limited.value = hyp_limit(x, 0x40800000); /* 4: erf(4) rounds to 1 */
    limited.bits &= ~HYP_SIGN;
    const float s = limited.value * limited.value, c = limited.value;
    float p = s * -5.953869550e-04f + 4.985971376e-03f, q = c * 1.043291650e-05f + -3.148562391e-04f;
    p = p * s + -2.676174603e-02f;
    p = p * s + 1.128168330e-01f;
    p = p * s + -3.761247993e-01f;
    p = p * s + 1.283791512e-01f;
    q = q * c + 3.610334825e-03f;
    q = q * c + -2.369455248e-02f;
    q = q * c + 1.061590314e-01f;
    q = q * c + 6.351980567e-01f;
    q = q * c + 1.286370754e-01f;
    small.value = p * c + c;
    large.value = 1 - hyp_exp(-(q * c + c));
    const uint32_t near = 0u - (limited.bits < 0x3f6b851f); /* 0.92 */
    small.bits = (in.bits & HYP_SIGN) | (small.bits & near) | (large.bits & ~near);
    return hyp_keep_nan(x, small.value);
}
