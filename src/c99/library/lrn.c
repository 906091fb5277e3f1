/* x / (bias + alpha / size * the sum of squares over `size` channels around)^beta, of x[outer, channels, inner]. */
static void hyp_lrn(long outer, long channels, long inner, long size, float alpha, float beta, float bias, const float *x,
                    float *y)
{
    for (long c = 0; c < outer * channels; c++) {
        long at = c % channels, low = at - (size - 1) / 2, high = at + size / 2;
        const float *from = x + (c - at) * inner;
        float *to = y + c * inner;
        for (long i = 0; i < inner; i++) to[i] = 0;
        for (long j = low < 0 ? 0 : low; j <= high && j < channels; j++)
            for (long i = 0; i < inner; i++) to[i] += from[j * inner + i] * from[j * inner + i];
        for (long i = 0; i < inner; i++) to[i] = from[at * inner + i] / powf(bias + alpha / (float)size * to[i], beta);
    }
}
