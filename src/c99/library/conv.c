#include "activate.h"
#include "kinds.h"
#include "tile.c"
#include "window.h"

/* A convolution of x[batch, groups in, ...] with w[groups out, in, ...]. */
struct hyp_conv {
    long batch, groups, in, out;
    enum hyp_kind kind; /* of the numbers of w */
    const float *x;
    const void *w;
    const float *bias, *added; /* may be NULL */
    int act;
    float slope, *y; /* may be what is added */
};

/* What lies under the window for `width` results from `first` on, as [in, window, width]. */
static void hyp_patches(const struct hyp_window *w, long in, const float *x, long first, long width, float *patch)
{
    long channel = w->in[0] * w->in[1] * w->in[2], window = w->kernel[0] * w->kernel[1] * w->kernel[2];
    long begin[HYP_TILE][3], place[HYP_TILE];
    for (long j = 0; j < width; j++) {
        const long o = first + j, result[3] = {o / (w->out[1] * w->out[2]), o / w->out[2] % w->out[1], o % w->out[2]};
        for (int a = 0; a < 3; a++) begin[j][a] = result[a] * w->stride[a] - w->before[a];
    }
    for (long p = 0; p < window; p++) {
        const long depth = p / (w->kernel[1] * w->kernel[2]) * w->dilation[0];
        const long row = p / w->kernel[2] % w->kernel[1] * w->dilation[1], column = p % w->kernel[2] * w->dilation[2];
        int run = 1; /* whether they lie one behind the other */
        for (long j = 0; j < width; j++) {
            const long d = begin[j][0] + depth, r = begin[j][1] + row, c = begin[j][2] + column;
            const int inside = d >= 0 && d < w->in[0] && r >= 0 && r < w->in[1] && c >= 0 && c < w->in[2];
            place[j] = inside ? (d * w->in[1] + r) * w->in[2] + c : -1;
            run = run && inside && place[j] == place[0] + j;
        }
        for (long c = 0; c < in; c++) {
            const float *from = x + c * channel;
            float *to = patch + (c * window + p) * width;
            if (run)
                for (long j = 0; j < width; j++) to[j] = from[place[0] + j];
            else
                for (long j = 0; j < width; j++) to[j] = place[j] < 0 ? 0 : from[place[j]];
        }
    }
}

/* patch: [in, window, HYP_TILE], and of filters that are no floats [HYP_ROWS, in, window] more */
static void hyp_convolve(const struct hyp_conv *s, const struct hyp_window *w, float *patch)
{
    long places = w->out[0] * w->out[1] * w->out[2], channel = w->in[0] * w->in[1] * w->in[2];
    long depth = s->in * w->kernel[0] * w->kernel[1] * w->kernel[2];
    for (long g = 0; g < s->batch * s->groups; g++)
        for (long first = 0; first < places; first += HYP_TILE) {
            long width = places - first < HYP_TILE ? places - first : HYP_TILE, group = g % s->groups * s->out;
            hyp_patches(w, s->in, s->x + g * s->in * channel, first, width, patch);
            for (long m = 0; m < s->out; m += HYP_ROWS) {
                float c[HYP_ROWS][HYP_TILE];
                long rows = s->out - m < HYP_ROWS ? s->out - m : HYP_ROWS;
                const float *w4 = hyp_floats(s->kind, s->w, (group + m) * depth, rows * depth, patch + depth * HYP_TILE);
                hyp_tile(rows, width, depth, w4, depth, 1, patch, width, c);
                for (long r = 0; r < rows; r++) {
                    float bias = s->bias ? s->bias[group + m + r] : 0;
                    long to = (g * s->out + m + r) * places + first;
                    for (long j = 0; j < width; j++) c[r][j] += s->added ? bias + s->added[to + j] : bias;
                    hyp_activate(s->act, c[r], width, s->slope);
                    for (long j = 0; j < width; j++) s->y[to + j] = c[r][j];
                }
            }
        }
}
