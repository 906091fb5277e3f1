/* The remainder with the sign of b. */
static float hyp_float_modulo(float a, float b)
{
    float r = fmodf(a, b);
    if (r != r) return r;
    return r == 0 ? copysignf(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
