/* y[outer, out, inner] of x[outer, in, inner]: sums of the neighbours of each element along the axis. */
struct hyp_axis {
    long outer, in, out, taps, inner;
    const long *from; /* [out, taps]: where they are, in elements of x; -1: the result is `outside` */
    const float *weights;
    float outside;
};

static void hyp_resize(const struct hyp_axis *a, const float *x, float *y)
{
    for (long o = 0; o < a->outer; o++, x += a->in * a->inner)
        for (long i = 0; i < a->out; i++, y += a->inner) {
            const long *from = a->from + i * a->taps;
            const float *weights = a->weights + i * a->taps;
            if (from[0] < 0 || a->inner == 1) {
                float sum = from[0] < 0 ? a->outside : 0;
                for (long t = 0; t < a->taps && from[0] >= 0; t++) sum += weights[t] * x[from[t]];
                for (long j = 0; j < a->inner; j++) y[j] = sum;
                continue;
            }
            for (long j = 0; j < a->inner; j++) y[j] = weights[0] * x[from[0] + j];
            for (long t = 1; t < a->taps; t++)
                for (long j = 0; j < a->inner; j++) y[j] += weights[t] * x[from[t] + j];
        }
}
