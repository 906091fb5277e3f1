/* Sums of many numbers in lanes side by side, which compilers make vectors of, and which round less. */
enum { HYP_LANES = 16 };

static float hyp_sum(const float *x, long count)
{
    float lanes[HYP_LANES] = {0}, sum = 0;
    long whole = count / HYP_LANES * HYP_LANES;
    for (long i = 0; i < whole; i += HYP_LANES)
        for (int j = 0; j < HYP_LANES; j++) lanes[j] += x[i + j];
    for (long i = whole; i < count; i++) sum += x[i];
    for (int j = 0; j < HYP_LANES; j++) sum += lanes[j];
    return sum;
}
