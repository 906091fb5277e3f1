/* Batch normalization: over all axes but that of the channels, axis 1. */
#include "kernels/batch_norm.h"

#include <math.h>

hyp_kernel_fn hyp_kernel_batch_norm, hyp_kernel_batch_norm_stats, hyp_kernel_batch_norm_gradient;

static hyp_status want_channels(const hyp_kernel_call *c, const hyp_array *a, int64_t channels)
{
    if (hyp_array_is_float(a) && a->count == channels) return HYP_OK;
    return hyp_kernel_fail(c, "a tensor has not a float for each of %lld channels", (long long)channels);
}

/* Inputs from `first` on, and outputs from `result` on, have an element for each channel. */
static hyp_status read_channels(const hyp_kernel_call *c, uint32_t first, uint32_t result, hyp_channels *out)
{
    const hyp_array *x = &c->in[0];
    if (x->rank < 2 || !hyp_array_is_float(x)) return hyp_kernel_fail(c, "x is not [N C ...] of floats");
    hyp_array_split(x, 1, &out->images, &out->channels, &out->places);
    for (uint32_t i = first; i < c->in_count; i++)
        if (hyp_kernel_input(c, i)) HYP_TRY(want_channels(c, &c->in[i], out->channels));
    for (uint32_t i = result; i < c->out_count; i++) HYP_TRY(want_channels(c, &c->out[i], out->channels));
    return HYP_OK;
}

/* Kernels of devices take statistics in one type alone. */
static hyp_status want_statistics(const hyp_kernel_call *c, const hyp_array *a)
{
    if (a->dtype == hyp_dtype_wide(c->in[0].dtype)) return HYP_OK;
    return hyp_kernel_fail(c, "statistics are %s", hyp_dtype_name(a->dtype));
}

hyp_status hyp_kernel_read_batch_norm_stats(const hyp_kernel_call *c, hyp_channels *out)
{
    HYP_TRY(read_channels(c, 1, 0, out));
    for (uint32_t i = 0; i < c->out_count; i++) HYP_TRY(want_statistics(c, &c->out[i]));
    return HYP_OK;
}

hyp_status hyp_kernel_read_batch_norm_gradient(const hyp_kernel_call *c, hyp_channels *out)
{
    HYP_TRY(read_channels(c, 2, 0, out));
    if (!hyp_array_same_shape(&c->in[0], &c->in[1]) || c->in[0].dtype != c->in[1].dtype)
        return hyp_kernel_fail(c, "the gradient is not of the type of x");
    if (!hyp_kernel_input(c, 4) != !hyp_kernel_input(c, 5)) return hyp_kernel_fail(c, "of scale and bias one is there");
    for (uint32_t i = 2; i < c->in_count; i++)
        if (hyp_kernel_input(c, i)) HYP_TRY(want_statistics(c, &c->in[i]));
    for (uint32_t i = 0; i < c->out_count; i++) HYP_TRY(want_statistics(c, &c->out[i]));
    return HYP_OK;
}

/* Calls f(index) for every element of a channel. */
#define FOR_CHANNEL(s, c, i)                                                                                           \
    for (int64_t image_ = 0, i = 0; image_ < (s).images; image_++)                                                     \
        for (int64_t place_ = 0; i = (image_ * (s).channels + (c)) * (s).places + place_, place_ < (s).places; place_++)

typedef struct moments {
    double mean, variance, inverse;
} moments;

/* In two passes, the second over what is left without the mean. Of no elements both are NaN. */
static moments moments_of(const hyp_array *x, const hyp_channels *s, int64_t channel, double epsilon)
{
    double count = (double)s->images * (double)s->places, sum = 0, squares = 0;
    FOR_CHANNEL(*s, channel, i) sum += hyp_array_f64(x, i);
    double mean = sum / count;
    FOR_CHANNEL(*s, channel, i) squares += (hyp_array_f64(x, i) - mean) * (hyp_array_f64(x, i) - mean);
    return (moments){mean, squares / count, 1 / sqrt(squares / count + epsilon)};
}

hyp_status hyp_kernel_batch_norm_stats(const hyp_kernel_call *c)
{
    hyp_channels s;
    HYP_TRY(hyp_kernel_read_batch_norm_stats(c, &s));
    for (int64_t channel = 0; channel < s.channels; channel++) {
        const moments m = moments_of(&c->in[0], &s, channel, c->attrs[0].f);
        hyp_array_set_f64(&c->out[0], channel, m.mean);
        hyp_array_set_f64(&c->out[1], channel, m.variance);
        hyp_array_set_f64(&c->out[2], channel, m.inverse);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_batch_norm(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    double momentum = c->attrs[1].f;
    hyp_channels s;
    HYP_TRY(read_channels(c, 1, 1, &s));
    if (!hyp_array_same_shape(x, y) || x->dtype != y->dtype) return hyp_kernel_fail(c, "the result is of another type");
    for (int64_t channel = 0; channel < s.channels; channel++) {
        const moments m = moments_of(x, &s, channel, c->attrs[0].f);
        double scale = hyp_array_f64(&c->in[1], channel) * m.inverse, bias = hyp_array_f64(&c->in[2], channel);
        FOR_CHANNEL(s, channel, i) hyp_array_set_f64(y, i, (hyp_array_f64(x, i) - m.mean) * scale + bias);
        hyp_array_set_f64(&c->out[1], channel, momentum * hyp_array_f64(&c->in[3], channel) + (1 - momentum) * m.mean);
        hyp_array_set_f64(&c->out[2], channel, momentum * hyp_array_f64(&c->in[4], channel) + (1 - momentum) * m.variance);
    }
    return HYP_OK;
}

/* Whether a relu behind the normalization lets the element through, by the arithmetic of statistics. */
static bool is_let_through(const hyp_kernel_call *c, int64_t channel, int64_t i)
{
    const double x = hyp_array_f64(&c->in[0], i), mean = hyp_array_f64(&c->in[2], channel);
    const double inverse = hyp_array_f64(&c->in[3], channel), scale = hyp_array_f64(&c->in[4], channel);
    const double bias = hyp_array_f64(&c->in[5], channel), least = hyp_batch_norm_least(c->in[0].dtype);
    if (c->in[0].dtype == HYP_F64) return bias - (mean - x) * inverse * scale > least;
    const float away = (float)mean - (float)x, normal = away * (float)inverse, scaled = normal * (float)scale;
    return (double)((float)bias - scaled) > least;
}

hyp_status hyp_kernel_batch_norm_gradient(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *g = &c->in[1];
    hyp_channels s;
    HYP_TRY(hyp_kernel_read_batch_norm_gradient(c, &s));
    double count = (double)s.images * (double)s.places;
    for (int64_t channel = 0; channel < s.channels; channel++) {
        double mean = hyp_array_f64(&c->in[2], channel), inverse = hyp_array_f64(&c->in[3], channel), along = 0, sum = 0;
        FOR_CHANNEL(s, channel, i) {
            if (hyp_kernel_input(c, 4) && !is_let_through(c, channel, i)) continue;
            along += hyp_array_f64(g, i) * (hyp_array_f64(x, i) - mean);
            sum += hyp_array_f64(g, i);
        }
        hyp_array_set_f64(&c->out[0], channel, along * inverse / count);
        hyp_array_set_f64(&c->out[1], channel, sum / count);
    }
    return HYP_OK;
}
