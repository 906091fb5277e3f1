#include "reach.c"

/* A convolution of integers x[batch, groups in, ...] with w[groups out, in, ...], modulo 2^32. */
struct hyp_conv_whole {
    long batch, groups, in, out;
    const int32_t *x, *w, *bias, *added; /* the last two may be NULL */
    int32_t *y;                          /* may be what is added */
};

/* to += the row of x times a row of the window. */
static void hyp_add_whole(const struct hyp_window *w, const int32_t *x, const int32_t *row, int32_t *to)
{
    for (long k = 0; k < w->kernel[2]; k++) {
        long first, last, stride = w->stride[2];
        hyp_reach(w, 2, k, &first, &last);
        const uint32_t weight = (uint32_t)row[k];
        const int32_t *from = x + first * stride + k * w->dilation[2] - w->before[2];
        if (stride == 1)
            for (long i = first; i < last; i++) to[i] = (int32_t)((uint32_t)to[i] + weight * (uint32_t)from[i - first]);
        else
            for (long i = first; i < last; i++) to[i] = (int32_t)((uint32_t)to[i] + weight * (uint32_t)from[(i - first) * stride]);
    }
}

static void hyp_convolve_whole(const struct hyp_conv_whole *s, const struct hyp_window *w)
{
    long filters = s->groups * s->out, rows = w->out[0] * w->out[1], width = w->out[2], taps = w->kernel[0] * w->kernel[1];
    for (long m = 0; m < s->batch * filters * rows; m++) {
        const long filter = m / rows % filters, o[2] = {m % rows / w->out[1], m % rows % w->out[1]};
        const long first = (m / rows / filters * s->groups + filter / s->out) * s->in; /* channel of x */
        int32_t *to = s->y + m * width;
        for (long i = 0; i < width; i++)
            to[i] = (int32_t)((s->bias ? (uint32_t)s->bias[filter] : 0) + (s->added ? (uint32_t)s->added[m * width + i] : 0));
        for (long p = 0; p < s->in * taps; p++) {
            const long k[2] = {p % taps / w->kernel[1], p % taps % w->kernel[1]}, row = hyp_row(w, o, k);
            if (row >= 0)
                hyp_add_whole(w, s->x + ((first + p / taps) * w->in[0] * w->in[1] + row) * w->in[2],
                              s->w + (filter * s->in * taps + p) * w->kernel[2], to);
        }
    }
}
