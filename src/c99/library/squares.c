/* The sum of (x - mean)^2, in lanes side by side. */
static float hyp_squares(const float *x, long count, float mean)
{
    enum { LANES = 16 };
    float lanes[LANES] = {0}, sum = 0;
    long whole = count / LANES * LANES;
    for (long i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += (x[i + j] - mean) * (x[i + j] - mean);
    for (long i = whole; i < count; i++) sum += (x[i] - mean) * (x[i] - mean);
    for (int j = 0; j < LANES; j++) sum += lanes[j];
    return sum;
}
