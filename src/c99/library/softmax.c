#include "exp.c"
#include "sum.c"

/* The largest, in lanes side by side. */
static float hyp_most(const float *x, long count)
{
    float lanes[HYP_LANES], most = x[0];
    long whole = count / HYP_LANES * HYP_LANES;
    for (int j = 0; j < HYP_LANES; j++) lanes[j] = most;
    for (long i = 0; i < whole; i += HYP_LANES)
        for (int j = 0; j < HYP_LANES; j++) lanes[j] = lanes[j] < x[i + j] ? x[i + j] : lanes[j];
    for (long i = whole; i < count; i++) most = most < x[i] ? x[i] : most;
    for (int j = 0; j < HYP_LANES; j++) most = most < lanes[j] ? lanes[j] : most;
    return most;
}

static void hyp_exp_all(float *x, long count)
{
    for (long i = 0; i < count; i++) x[i] = hyp_exp(x[i]);
}

static void hyp_softmax_row(long count, const float *x, float *y)
{
    const float most = hyp_most(x, count);
    for (long i = 0; i < count; i++) y[i] = x[i] - most;
    hyp_exp_all(y, count);
    const float sum = hyp_sum(y, count);
    for (long i = 0; i < count; i++) y[i] /= sum;
}

/* Along the axis of x[outer, axis, inner], for several of `inner` at a time. NaN makes all of a softmax NaN by its sum. */
static void hyp_softmax(long outer, long axis, long inner, const float *x, float *y)
{
    for (long o = 0; o < outer && inner == 1; o++) hyp_softmax_row(axis, x + o * axis, y + o * axis);
    for (long o = 0; o < outer && inner > 1; o++)
        for (long first = 0; first < inner; first += HYP_LANES) {
            const float *from = x + o * axis * inner + first;
            float *to = y + o * axis * inner + first, most[HYP_LANES], sum[HYP_LANES] = {0};
            long width = inner - first < HYP_LANES ? inner - first : HYP_LANES;
            for (long j = 0; j < width; j++) most[j] = from[j];
            for (long i = 1; i < axis; i++)
                for (long j = 0; j < width; j++) most[j] = most[j] < from[i * inner + j] ? from[i * inner + j] : most[j];
            for (long i = 0; i < axis; i++) {
                for (long j = 0; j < width; j++) to[i * inner + j] = from[i * inner + j] - most[j];
                hyp_exp_all(to + i * inner, width);
                for (long j = 0; j < width; j++) sum[j] += to[i * inner + j];
            }
            for (long i = 0; i < axis; i++)
                for (long j = 0; j < width; j++) to[i * inner + j] /= sum[j];
        }
}
