#include "activate.h"
#include "kinds.h"
#include "window.h"

/* A convolution of x[batch, channels, ...] with w[channels times, ...]: of each channel by itself. A channel is laid out with its
 * padding around it, by phases: what strides step over is apart, so that the elements that one weight of the window takes for
 * results one behind the other lie one behind the other, too. */
struct hyp_depthwise {
    long batch, channels, times;
    enum hyp_kind kind; /* of the numbers of w */
    const float *x;
    const void *w;
    const float *bias, *added; /* may be NULL */
    int act;
    float slope, *y;   /* may be what is added */
    long phase[3];     /* sizes of a phase */
    long count;        /* of results one behind the other in a phase, from the first that is wanted to the last */
    const long *place; /* of each element of the window, for the first result */
};
enum { HYP_RUN = 32 };

/* Element (d, r, column 0) of a channel with its padding, by phases. */
static long hyp_phase(const struct hyp_depthwise *s, const struct hyp_window *w, long d, long r)
{
    long number = (d % w->stride[0] * w->stride[1] + r % w->stride[1]) * w->stride[2];
    return ((number * s->phase[0] + d / w->stride[0]) * s->phase[1] + r / w->stride[1]) * s->phase[2];
}

static void hyp_lay(const struct hyp_depthwise *s, const struct hyp_window *w, const float *x, float *to)
{
    long size = s->phase[0] * s->phase[1] * s->phase[2], stride = w->stride[2], before = w->before[2];
    for (long i = 0; i < w->in[0] * w->in[1]; i++, x += w->in[2]) {
        float *row = to + hyp_phase(s, w, i / w->in[1] + w->before[0], i % w->in[1] + w->before[1]);
        if (stride == 1)
            for (long c = 0; c < w->in[2]; c++) row[before + c] = x[c];
        else
            for (long p = 0; p < stride; p++) {
                long first = p >= before % stride ? p - before % stride : p - before % stride + stride;
                float *next = row + p * size + (before + first) / stride;
                for (long c = first; c < w->in[2]; c += stride) *next++ = x[c];
            }
    }
}

/* sums[i] = the sum over the window of its elements times x[place + i], for i < count rounded up to HYP_RUN. */
static void hyp_slide(const struct hyp_depthwise *s, long window, const float *filter, const float *x, float *sums)
{
    for (long first = 0; first < s->count; first += HYP_RUN) {
        float c0[HYP_RUN / 2] = {0}, c1[HYP_RUN / 2] = {0};
        for (long k = 0; k < window; k++) {
            const float *from = x + first + s->place[k], weight = filter[k];
            for (int j = 0; j < HYP_RUN / 2; j++) {
                c0[j] += weight * from[j];
                c1[j] += weight * from[HYP_RUN / 2 + j];
            }
        }
        for (int j = 0; j < HYP_RUN / 2; j++) {
            sums[first + j] = c0[j];
            sums[first + HYP_RUN / 2 + j] = c1[j];
        }
    }
}

/* room: of a channel with its padding, HYP_RUN more, of the sums, and of a filter */
static void hyp_convolve_channels(const struct hyp_depthwise *s, const struct hyp_window *w, float *room)
{
    long rows = w->out[0] * w->out[1], width = w->out[2], window = w->kernel[0] * w->kernel[1] * w->kernel[2];
    long laid = w->stride[0] * w->stride[1] * w->stride[2] * s->phase[0] * s->phase[1] * s->phase[2] + HYP_RUN;
    float *sums = room + laid, *weights = sums + (s->count + HYP_RUN - 1) / HYP_RUN * HYP_RUN;
    for (long i = 0; i < laid; i++) room[i] = 0;
    for (long m = 0; m < s->batch * s->channels * s->times; m++) {
        long filter = m % (s->channels * s->times);
        float bias = s->bias ? s->bias[filter] : 0, *y = s->y + m * rows * width;
        const float *added = s->added ? s->added + m * rows * width : 0;
        if (m % s->times == 0) hyp_lay(s, w, s->x + m / s->times * w->in[0] * w->in[1] * w->in[2], room);
        hyp_slide(s, window, hyp_floats(s->kind, s->w, filter * window, window, weights), room, sums);
        for (long r = 0; r < rows; r++) {
            const float *from = sums + (r / w->out[1] * s->phase[1] + r % w->out[1]) * s->phase[2];
            for (long i = 0; i < width; i++) y[r * width + i] = from[i] + (added ? bias + added[r * width + i] : bias);
        }
        hyp_activate(s->act, y, rows * width, s->slope);
    }
}
