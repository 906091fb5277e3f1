/* Gradients of images that were sampled at places that the data gives. */
#include "kernels/sample.h"

hyp_kernel_fn hyp_kernel_grid_sample_gradient, hyp_kernel_roi_align_gradient;
hyp_kernel_scratch_fn hyp_kernel_scratch_grid_sample_gradient, hyp_kernel_scratch_roi_align_gradient;

/* ---- by places of a grid ------------------------------------------------------------------------------------ */

/* Sums of all channels of an image. */
size_t hyp_kernel_scratch_grid_sample_gradient(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    int64_t bytes = sizeof(double);
    for (int32_t a = 1; a < x->rank; a++)
        if (!hyp_mul_i64(bytes, x->dims[a], &bytes)) return x->count == 0 ? 0 : SIZE_MAX;
    return (size_t)bytes;
}

/* Coordinates are those of the last axis first. */
static double coordinate(const hyp_kernel_call *c, const hyp_sampler *s, int64_t place, int32_t axis)
{
    return hyp_array_f64(&c->in[1], place * s->axes + s->axes - 1 - axis);
}

/* What each place has taken from its neighbours. */
static void by_images(const hyp_kernel_call *c, const hyp_sampler *s)
{
    const hyp_array *g = &c->in[2], *y = &c->out[0];
    const int64_t channels = y->dims[1], all = channels * s->image;
    double *sums = c->scratch;
    for (int64_t batch = 0; batch < y->dims[0]; batch++) {
        for (int64_t i = 0; i < all; i++) sums[i] = 0;
        for (int64_t p = 0; p < s->places; p++) {
            hyp_sample_neighbours n;
            int64_t offsets[HYP_SAMPLE_NEIGHBOURS];
            double weights[HYP_SAMPLE_NEIGHBOURS];
            for (int32_t a = 0; a < s->axes; a++) hyp_sample_find(s, a, coordinate(c, s, batch * s->places + p, a), &n);
            int count = hyp_sample_list(s, &n, offsets, weights);
            for (int64_t ch = 0; ch < channels; ch++) {
                double more = hyp_array_f64(g, (batch * channels + ch) * s->places + p);
                for (int i = 0; i < count; i++) sums[ch * s->image + offsets[i]] += weights[i] * more;
            }
        }
        for (int64_t i = 0; i < all; i++) hyp_array_set_f64(y, batch * all + i, sums[i]);
    }
}

/* What the samples at a place gain, all channels together, as its coordinate along the axis grows. */
static double slope_at(const hyp_kernel_call *c, const hyp_sampler *s, int64_t batch, int64_t p, int32_t axis)
{
    const hyp_array *x = &c->in[0], *g = &c->in[2];
    hyp_sample_neighbours n;
    int64_t offsets[HYP_SAMPLE_NEIGHBOURS];
    double weights[HYP_SAMPLE_NEIGHBOURS], sum = 0;
    for (int32_t a = 0; a < s->axes; a++) {
        double at = coordinate(c, s, batch * s->places + p, a);
        hyp_sample_find(s, a, at, &n);
        if (a == axis) hyp_sample_slopes(s, a, at, &n);
    }
    int count = hyp_sample_list(s, &n, offsets, weights);
    for (int64_t ch = batch * x->dims[1]; ch < (batch + 1) * x->dims[1]; ch++) {
        double gain = 0;
        for (int i = 0; i < count; i++) gain += weights[i] * hyp_array_f64(x, ch * s->image + offsets[i]);
        sum += gain * hyp_array_f64(g, ch * s->places + p);
    }
    return sum;
}

hyp_status hyp_kernel_grid_sample_gradient(const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    hyp_sampler s;
    bool by_grid;
    HYP_TRY(hyp_kernel_read_grid_sample_gradient(c, &s, &by_grid));
    if (y->count == 0) return HYP_OK;
    if (!by_grid) by_images(c, &s);
    for (int64_t i = 0; by_grid && i < y->count; i++) {
        int64_t place = i / s.axes;
        int32_t axis = s.axes - 1 - (int32_t)(i % s.axes);
        hyp_array_set_f64(y, i, slope_at(c, &s, place / s.places, place % s.places, axis));
    }
    return HYP_OK;
}

/* ---- regions of interest ------------------------------------------------------------------------------------ */

size_t hyp_kernel_scratch_roi_align_gradient(const hyp_kernel_call *c)
{
    int64_t bytes;
    return hyp_mul_i64(c->in[0].count, sizeof(double), &bytes) ? (size_t)bytes : SIZE_MAX;
}

/* Adds what a bin had: of a mean to all neighbours of its samples, of the largest to the first that was it. */
static void unpool_bin(const hyp_roi_align *p, const hyp_roi_bins *bins, const int64_t bin[2], const hyp_array *x,
                       int64_t image, double g, double *sums)
{
    const int64_t samples = bins->samples[0] * bins->samples[1];
    int64_t offsets[4], chosen = -1;
    double weights[4], largest = 0, weight = 0;
    bool any = false;
    for (int64_t i = 0; i < samples; i++) {
        bool there = hyp_roi_sample(p, bins, bin, i, offsets, weights);
        for (int k = 0; k < 4; k++) {
            if (!p->largest && there) sums[image + offsets[k]] += weights[k] * g / (double)samples;
            if (!p->largest) continue;
            double v = there ? weights[k] * hyp_array_f64(x, image + offsets[k]) : 0;
            if (any && largest >= v) continue;
            any = true;
            largest = v;
            chosen = there ? image + offsets[k] : -1;
            weight = there ? weights[k] : 0;
        }
    }
    if (chosen >= 0) sums[chosen] += weight * g;
}

hyp_status hyp_kernel_roi_align_gradient(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *g = &c->in[3], *y = &c->out[0];
    double *sums = c->scratch;
    hyp_roi_align p;
    HYP_TRY(hyp_kernel_read_roi_align_gradient(c, &p));
    for (int64_t i = 0; i < y->count; i++) sums[i] = 0;
    const int64_t each = p.channels * p.bins[0] * p.bins[1];
    for (int64_t r = 0; r < p.regions && each > 0; r++) {
        hyp_roi_bins bins;
        HYP_TRY(hyp_roi_bins_of(c, &p, r, &bins));
        for (int64_t i = 0; i < each; i++) {
            int64_t channel = i / (p.bins[0] * p.bins[1]), bin[2] = {i / p.bins[1] % p.bins[0], i % p.bins[1]};
            int64_t image = (bins.image * p.channels + channel) * p.in[0] * p.in[1];
            unpool_bin(&p, &bins, bin, x, image, hyp_array_f64(g, r * each + i), sums);
        }
    }
    for (int64_t i = 0; i < y->count; i++) hyp_array_set_f64(y, i, sums[i]);
    return HYP_OK;
}
