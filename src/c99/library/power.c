/* Modulo 2^64; a negative power is the truncated fraction. */
static int64_t hyp_power(int64_t base, int64_t exponent)
{
    uint64_t result = 1, square = (uint64_t)base;
    if (exponent < 0) return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? -1 : 0;
    for (; exponent; exponent /= 2, square *= square)
        if (exponent % 2) result *= square;
    return (int64_t)result;
}
