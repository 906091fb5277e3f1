#include "reach.c"

/* How many places of the window of result o count along an axis: those in x, or with `pads` in the padding, too. */
static long hyp_counted(const struct hyp_window *w, int axis, long o, int pads)
{
    long begin = o * w->stride[axis] - w->before[axis], count = 0;
    long low = pads ? -w->before[axis] : 0, high = pads ? w->in[axis] + w->after[axis] : w->in[axis];
    for (long k = 0; k < w->kernel[axis]; k++) {
        long i = begin + k * w->dilation[axis];
        count += i >= low && i < high;
    }
    return count;
}

enum { HYP_MAX, HYP_MEAN, HYP_NORM };

/* Takes a row of x into a row of results, for every place of a row of the window. */
static void hyp_pool_row(const struct hyp_window *w, int kind, float order, const float *x, float *to)
{
    for (long k = 0; k < w->kernel[2]; k++) {
        long first, last, stride = w->stride[2];
        hyp_reach(w, 2, k, &first, &last);
        const float *from = x + first * stride + k * w->dilation[2] - w->before[2];
        if (kind == HYP_MAX)
            for (long i = first; i < last; i++) {
                float v = from[(i - first) * stride];
                to[i] = v > to[i] || v != v ? v : to[i]; /* NaN wins */
            }
        else if (kind == HYP_MEAN)
            for (long i = first; i < last; i++) to[i] += from[(i - first) * stride];
        else
            for (long i = first; i < last; i++) to[i] += powf(fabsf(from[(i - first) * stride]), order);
    }
}

/* Of x[channels, ...]; `pads`: of means, padding counts; `order`: of norms. */
static void hyp_pool(const struct hyp_window *w, long channels, int kind, int pads, float order, const float *x, float *y)
{
    long rows = w->out[0] * w->out[1], width = w->out[2];
    for (long r = 0; r < channels * rows; r++) {
        const float *from = x + r / rows * w->in[0] * w->in[1] * w->in[2];
        const long o[2] = {r % rows / w->out[1], r % w->out[1]};
        float *to = y + r * width;
        for (long i = 0; i < width; i++) to[i] = kind == HYP_MAX ? -INFINITY : 0;
        for (long p = 0; p < w->kernel[0] * w->kernel[1]; p++) {
            const long k[2] = {p / w->kernel[1], p % w->kernel[1]}, row = hyp_row(w, o, k);
            if (row >= 0) hyp_pool_row(w, kind, order, from + row * w->in[2], to);
        }
        long count = hyp_counted(w, 0, o[0], pads) * hyp_counted(w, 1, o[1], pads);
        if (kind == HYP_MEAN)
            for (long i = 0; i < width; i++) to[i] /= (float)(count * hyp_counted(w, 2, i, pads));
        else if (kind == HYP_NORM)
            for (long i = 0; i < width; i++) to[i] = powf(to[i], 1 / order);
    }
}
