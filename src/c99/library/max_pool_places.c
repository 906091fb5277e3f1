#include "reach.c"

/* The largest of each window of x[channels, ...], and its place in x, counted by columns if so. */
static void hyp_max_pool_places(const struct hyp_window *w, long channels, int columns, const float *x, float *y,
                                int64_t *places)
{
    long rows = w->out[0] * w->out[1], width = w->out[2], channel = w->in[0] * w->in[1] * w->in[2];
    for (long r = 0; r < channels * rows; r++) {
        const float *from = x + r / rows * channel;
        const long o[2] = {r % rows / w->out[1], r % w->out[1]};
        for (long i = 0; i < width; i++) {
            y[r * width + i] = -INFINITY;
            places[r * width + i] = -1;
        }
        for (long p = 0; p < w->kernel[0] * w->kernel[1] * w->kernel[2]; p++) {
            const long k[2] = {p / w->kernel[2] / w->kernel[1], p / w->kernel[2] % w->kernel[1]}, row = hyp_row(w, o, k);
            long first, last, last_axis = p % w->kernel[2];
            hyp_reach(w, 2, last_axis, &first, &last);
            for (long i = first; i < last && row >= 0; i++) {
                long at = row * w->in[2] + i * w->stride[2] + last_axis * w->dilation[2] - w->before[2];
                float v = from[at], most = y[r * width + i];
                if (places[r * width + i] >= 0 && !(v > most || (v != v && most == most))) continue;
                y[r * width + i] = v;
                places[r * width + i] = at;
            }
        }
        for (long i = 0; i < width; i++) {
            int64_t *place = &places[r * width + i];
            long row = (long)*place / w->in[2], at[3] = {row / w->in[1], row % w->in[1], (long)*place % w->in[2]};
            if (columns && *place >= 0) *place = (at[2] * w->in[1] + at[1]) * w->in[0] + at[0];
            *place += (int64_t)(r / rows) * channel;
        }
    }
}
