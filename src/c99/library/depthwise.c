#include "activate.h"
#include "reach.c"

/* A convolution of x[batch, channels, ...] with w[channels times, ...]: of each channel by itself. */
struct hyp_depthwise {
    long batch, channels, times;
    const float *x, *w, *bias, *added; /* the last two may be NULL */
    int act;
    float slope, *y; /* may be what is added */
};

/* to += the row of x times a row of the window. */
static void hyp_add_row(const struct hyp_window *w, const float *x, const float *row, float *to)
{
    for (long k = 0; k < w->kernel[2]; k++) {
        long first, last, stride = w->stride[2];
        hyp_reach(w, 2, k, &first, &last);
        const float weight = row[k], *from = x + first * stride + k * w->dilation[2] - w->before[2];
        if (stride == 1)
            for (long i = first; i < last; i++) to[i] += weight * from[i - first];
        else
            for (long i = first; i < last; i++) to[i] += weight * from[(i - first) * stride];
    }
}

static void hyp_convolve_channels(const struct hyp_depthwise *s, const struct hyp_window *w)
{
    long filters = s->channels * s->times, rows = w->out[0] * w->out[1], width = w->out[2];
    for (long m = 0; m < s->batch * filters; m++) {
        const float *x = s->x + m / s->times * w->in[0] * w->in[1] * w->in[2];
        const float *filter = s->w + m % filters * w->kernel[0] * w->kernel[1] * w->kernel[2];
        for (long r = 0; r < rows; r++) {
            const long o[2] = {r / w->out[1], r % w->out[1]};
            float bias = s->bias ? s->bias[m % filters] : 0, *to = s->y + (m * rows + r) * width;
            for (long i = 0; i < width; i++) to[i] = s->added ? bias + s->added[(m * rows + r) * width + i] : bias;
            for (long p = 0; p < w->kernel[0] * w->kernel[1]; p++) {
                const long k[2] = {p / w->kernel[1], p % w->kernel[1]}, row = hyp_row(w, o, k);
                if (row >= 0) hyp_add_row(w, x + row * w->in[2], filter + p * w->kernel[2], to);
            }
            hyp_activate(s->act, to, width, s->slope);
        }
    }
}
