/* directly.c - results of convolutions as the sums that define them, one after the other.
 *
 * Tiles and neighbouring places (winograd.c, windows.c) multiply numbers by others than their own weights, zeros among them,
 * and take away again what they have added. An infinity or a number that is none then reaches results that do not read
 * it, and sums of large numbers overflow that should not. Such numbers are rare, and looked for where lines of x are at
 * hand anyway: results made of a part that has one are computed here.
 */
#include <math.h>

#include "runtime/cpu/windows.h"

bool hyp_cpu_is_tame(const float *x, int64_t count)
{
    const float most = 1e15f; /* products of two of them, of tiles and many channels, do not overflow */
    bool wild = false;
    for (int64_t i = 0; i < count; i++) wild |= !(fabsf(x[i]) < most);
    return !wild;
}

/* The sum for channel o whose window begins at x. */
static float sum_window(const hyp_cpu_conv *c, const float *x, int64_t line, int64_t place, int64_t o)
{
    int64_t along = c->kernel[HYP_X], taps = c->kernel[HYP_Y] * along;
    const float *w = c->w + o * c->in_channels * taps;
    float sum = 0;
    for (int64_t t = 0; t < taps; t++) {
        const float *at = x + t / along * c->dilation[HYP_Y] * line + t % along * c->dilation[HYP_X] * place;
        for (int64_t i = 0; i < c->in_channels; i++) sum += at[i] * w[i * taps + t];
    }
    return sum;
}

void hyp_cpu_conv_directly(const hyp_cpu_kernels *kernels, const hyp_cpu_conv *c, const hyp_direct *d)
{
    int64_t n = d->to - d->from;
    for (int64_t l = 0; l < d->lines; l++)
        for (int64_t p = 0; p < c->out[HYP_X]; p++) {
            const float *x = d->x + l * c->stride[HYP_Y] * d->line + p * c->stride[HYP_X] * d->place;
            const float *added = d->added ? d->added + (l * c->out[HYP_X] + p) * c->channels : NULL;
            float *y = d->y + (l * c->out[HYP_X] + p) * d->y_place;
            for (int64_t o = d->from; o < d->to; o++) {
                float v = sum_window(c, x, d->line, d->place, o) + (c->bias ? c->bias[o] : 0);
                y[o] = added ? v + added[o] : v;
            }
            if (c->act.op != HYP_PLAN__POINTWISE__OP__CAST) kernels->activate(&c->act, y + d->from, n);
        }
}
