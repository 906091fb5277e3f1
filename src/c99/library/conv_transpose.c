#include "tile.c"
#include "window.h"

/* The transpose of a convolution: of x[batch, groups in, ...] with w[groups in, out, ...]. */
struct hyp_transposed {
    long batch, groups, in, out;
    const float *x, *w, *bias; /* the last may be NULL */
    float *y;
};

/* Adds c, what `width` places of x from `first` on give at place p of the window, to a channel y of the result. */
static void hyp_spread(const struct hyp_window *w, long p, long first, long width, const float *c, float *y)
{
    const long k[3] = {p / (w->kernel[1] * w->kernel[2]), p / w->kernel[2] % w->kernel[1], p % w->kernel[2]};
    for (long j = 0; j < width; j++) {
        long i = first + j, to = 0;
        const long at[3] = {i / (w->out[1] * w->out[2]), i / w->out[2] % w->out[1], i % w->out[2]};
        for (int a = 0; a < 3 && to >= 0; a++) {
            long o = at[a] * w->stride[a] + k[a] * w->dilation[a] - w->before[a];
            to = o < 0 || o >= w->in[a] ? -1 : to * w->in[a] + o;
        }
        if (to >= 0) y[to] += c[j];
    }
}

static void hyp_convolve_back(const struct hyp_transposed *s, const struct hyp_window *w)
{
    long places = w->out[0] * w->out[1] * w->out[2], channel = w->in[0] * w->in[1] * w->in[2];
    long window = w->kernel[0] * w->kernel[1] * w->kernel[2], lines = s->out * window;
    for (long g = 0; g < s->batch * s->groups; g++) {
        const float *x = s->x + g * s->in * places, *filters = s->w + g % s->groups * s->in * lines;
        float *y = s->y + g * s->out * channel;
        for (long m = 0; m < s->out; m++)
            for (long i = 0; i < channel; i++) y[m * channel + i] = s->bias ? s->bias[g % s->groups * s->out + m] : 0;
        for (long first = 0; first < places; first += HYP_TILE)
            for (long line = 0; line < lines; line += HYP_ROWS) {
                float c[HYP_ROWS][HYP_TILE];
                long width = places - first < HYP_TILE ? places - first : HYP_TILE;
                long rows = lines - line < HYP_ROWS ? lines - line : HYP_ROWS;
                hyp_tile(rows, width, s->in, filters + line, 1, lines, x + first, places, c);
                for (long r = 0; r < rows; r++)
                    hyp_spread(w, (line + r) % window, first, width, c[r], y + (line + r) / window * channel);
            }
    }
}
