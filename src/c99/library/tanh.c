#include "limit.c"

/* The hyperbolic tangent, to four units in the last place: a quotient of polynomials. */
static inline float hyp_tanh(float x)
{
    const float c = hyp_limit(x, 0x40fccccd), s = c * c; /* 7.9 */
    float p = s * 1.542835015e-08f + 2.202331962e-05f, q = s * 8.598835848e-07f + 3.423660237e-04f;
    p = p * s + 3.578998614e-03f;
    p = p * s + 1.345062554e-01f;
    p = p * s + 1;
    q = q * s + 2.619226091e-02f;
    q = q * s + 4.678395391e-01f;
    q = q * s + 1;
    return hyp_keep_nan(x, c * p / q);
}
