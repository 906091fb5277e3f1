/* Images sampled at places that the data gives. */
#include "kernels/sample.h"
#include "kernels/kernels.h"

#include <math.h>

hyp_kernel_fn hyp_kernel_grid_sample, hyp_kernel_affine_grid, hyp_kernel_roi_align;

static void read_modes(const hyp_kernel_call *c, hyp_sampler *s)
{
    const char *mode = c->attrs[0].sym, *beyond = c->attrs[1].sym;
    s->taps = strcmp(mode, "nearest") == 0 ? 1 : strcmp(mode, "linear") == 0 ? 2 : 4;
    s->padding = strcmp(beyond, "zeros") == 0    ? HYP_SAMPLE_ZEROS
                 : strcmp(beyond, "border") == 0 ? HYP_SAMPLE_BORDER
                                                 : HYP_SAMPLE_REFLECTION;
    s->align_corners = c->attrs[2].i != 0;
}

/* y: the result, or the gradient by it. */
static hyp_status read_sampler(const hyp_kernel_call *c, const hyp_array *y, hyp_sampler *s)
{
    const hyp_array *x = &c->in[0], *grid = &c->in[1];
    int64_t strides[HYP_MAX_RANK], dims[HYP_MAX_RANK];
    *s = (hyp_sampler){.axes = x->rank - 2, .image = 1, .places = 1};
    if (s->axes < 1 || s->axes > HYP_SAMPLE_AXES || grid->rank != x->rank || grid->dims[grid->rank - 1] != s->axes ||
        grid->dims[0] != x->dims[0] || y->dtype != x->dtype || !hyp_array_is_float(x) || !hyp_array_is_float(grid))
        return hyp_kernel_fail(c, "the grid does not fit the images");
    hyp_array_strides(x, strides);
    memcpy(dims, x->dims, sizeof dims);
    for (int32_t a = 0; a < s->axes; a++) {
        s->dims[a] = x->dims[a + 2];
        s->strides[a] = strides[a + 2];
        s->image *= s->dims[a];
        s->places *= dims[a + 2] = grid->dims[a + 1];
    }
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, dims, "what is sampled"));
    read_modes(c, s);
    return y->count > 0 && s->image == 0 ? hyp_kernel_fail(c, "the images are empty") : HYP_OK;
}

hyp_status hyp_kernel_read_grid_sample(const hyp_kernel_call *c, hyp_sampler *s)
{
    return read_sampler(c, &c->out[0], s);
}

hyp_status hyp_kernel_read_grid_sample_gradient(const hyp_kernel_call *c, hyp_sampler *s, bool *by_grid)
{
    HYP_TRY(read_sampler(c, &c->in[2], s));
    *by_grid = strcmp(c->attrs[3].sym, "grid") == 0;
    const hyp_array *x = &c->in[*by_grid], *y = &c->out[0];
    if (y->dtype != (*by_grid || x->dtype == HYP_F64 ? x->dtype : HYP_F32))
        return hyp_kernel_fail(c, "the gradient is of another type");
    return hyp_kernel_want_shape(c, y, x->rank, x->dims, "the gradient");
}

hyp_status hyp_kernel_grid_sample(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *grid = &c->in[1], *y = &c->out[0];
    hyp_sampler s;
    HYP_TRY(hyp_kernel_read_grid_sample(c, &s));
    if (y->count == 0) return HYP_OK;
    for (int64_t batch = 0; batch < x->dims[0]; batch++)
        for (int64_t p = 0; p < s.places; p++) {
            hyp_sample_neighbours n;
            int64_t offsets[HYP_SAMPLE_NEIGHBOURS];
            double weights[HYP_SAMPLE_NEIGHBOURS];
            int64_t at = (batch * s.places + p) * s.axes; /* coordinates are those of the last axis first */
            for (int32_t a = 0; a < s.axes; a++) hyp_sample_find(&s, a, hyp_array_f64(grid, at + s.axes - 1 - a), &n);
            int count = hyp_sample_list(&s, &n, offsets, weights);
            for (int64_t ch = batch * x->dims[1]; ch < (batch + 1) * x->dims[1]; ch++) {
                double sum = 0;
                for (int i = 0; i < count; i++) sum += weights[i] * hyp_array_f64(x, ch * s.image + offsets[i]);
                hyp_array_set_f64(y, ch * s.places + p, sum);
            }
        }
    return HYP_OK;
}

hyp_status hyp_kernel_read_affine_grid(const hyp_kernel_call *c, int32_t *out_axes, int64_t dims[HYP_MAX_RANK])
{
    const hyp_array *theta = &c->in[0], *y = &c->out[0];
    const int32_t axes = *out_axes = theta->rank == 3 && theta->dims[1] == 3 ? 3 : 2;
    if (c->attrs[0].count != (uint32_t)axes + 2) return hyp_kernel_fail(c, "the size has another number of axes");
    dims[0] = c->attrs[0].ints[0];
    for (int32_t a = 0; a < axes; a++) dims[a + 1] = c->attrs[0].ints[a + 2];
    dims[axes + 1] = axes;
    HYP_TRY(hyp_kernel_want_shape(c, theta, 3, (int64_t[]){dims[0], axes, axes + 1}, "the list of matrices"));
    return hyp_kernel_want_shape(c, y, axes + 2, dims, "the result");
}

/* Places of a grid over [-1, 1], moved by a matrix for each element of the batch. */
hyp_status hyp_kernel_affine_grid(const hyp_kernel_call *c)
{
    const hyp_array *theta = &c->in[0], *y = &c->out[0];
    bool align_corners = c->attrs[1].i != 0;
    int32_t axes;
    int64_t dims[HYP_MAX_RANK] = {0}, index[HYP_MAX_RANK] = {0};
    HYP_TRY(hyp_kernel_read_affine_grid(c, &axes, dims));
    for (int64_t i = 0; i < y->count; i++, hyp_index_next(y->rank, dims, index)) {
        int64_t row = (index[0] * axes + index[axes + 1]) * (axes + 1);
        double sum = hyp_array_f64(theta, row + axes);
        for (int32_t a = 0; a < axes; a++) { /* columns are those of the last axis first */
            double at = (double)index[axes - a], n = (double)dims[axes - a];
            double place = !align_corners ? (2 * at + 1) / n - 1 : n > 1 ? 2 * at / (n - 1) - 1 : 0;
            sum += hyp_array_f64(theta, row + a) * place;
        }
        hyp_array_set_f64(y, i, sum);
    }
    return HYP_OK;
}

/* ---- regions of interest -------------------------------------------------------------------------------- */

/* One axis of a sample: two neighbours. False where it is outside of the image. */
static bool locate(double at, int64_t size, int64_t places[2], double weights[2])
{
    if (!(at >= -1 && at <= (double)size)) return false;
    at = fmin(fmax(at, 0), (double)(size - 1));
    places[0] = (int64_t)at;
    places[1] = places[0] + 1 < size ? places[0] + 1 : places[0];
    weights[1] = at - (double)places[0];
    weights[0] = 1 - weights[1];
    return true;
}

bool hyp_roi_sample(const hyp_roi_align *p, const hyp_roi_bins *bins, const int64_t bin[2], int64_t sample,
                    int64_t offsets[4], double weights[4])
{
    const int64_t index[2] = {sample / bins->samples[1], sample % bins->samples[1]};
    int64_t at[2][2];
    double w[2][2];
    for (int a = 0; a < 2; a++) {
        double corner = bins->start[a] + (double)bin[a] * bins->size[a];
        double place = corner + ((double)index[a] + 0.5) * bins->size[a] / (double)bins->samples[a];
        if (!locate(place, p->in[a], at[a], w[a])) return false;
    }
    for (int k = 0; k < 4; k++) {
        offsets[k] = at[0][k / 2] * p->in[1] + at[1][k % 2];
        weights[k] = w[0][k / 2] * w[1][k % 2];
    }
    return true;
}

/* One element of the result: samples in a bin, averaged, or the largest weighted neighbour of any. */
static double pool_bin(const hyp_roi_align *p, const hyp_roi_bins *bins, const int64_t bin[2], const hyp_array *x,
                       int64_t image)
{
    const int64_t samples = bins->samples[0] * bins->samples[1];
    double sum = 0;
    bool any = false;
    for (int64_t i = 0; i < samples; i++) {
        int64_t offsets[4];
        double weights[4];
        bool there = hyp_roi_sample(p, bins, bin, i, offsets, weights);
        for (int k = 0; k < 4; k++) {
            double v = there ? weights[k] * hyp_array_f64(x, image + offsets[k]) : 0;
            sum = !p->largest ? sum + v : any && sum >= v ? sum : v;
            any = true;
        }
    }
    return p->largest ? sum : sum / (double)(samples > 0 ? samples : 1);
}

/* y: the result, or the gradient by it. */
static hyp_status read_regions(const hyp_kernel_call *c, const hyp_array *y, hyp_roi_align *out)
{
    const hyp_array *x = &c->in[0], *rois = &c->in[1], *images = &c->in[2];
    const int64_t *bins = c->attrs[2].ints, count = rois->dims[0];
    if (x->rank != 4 || c->attrs[2].count != 2 || y->dtype != x->dtype)
        return hyp_kernel_fail(c, "images and two sizes are wanted");
    *out = (hyp_roi_align){.regions = count,
                           .channels = x->dims[1],
                           .in = {x->dims[2], x->dims[3]},
                           .bins = {bins[0], bins[1]},
                           .samples = c->attrs[3].i > 0 ? c->attrs[3].i : 0,
                           .scale = c->attrs[4].f,
                           .largest = strcmp(c->attrs[0].sym, "max") == 0,
                           .half_pixel = strcmp(c->attrs[1].sym, "half_pixel") == 0};
    HYP_TRY(hyp_kernel_want_shape(c, rois, 2, (int64_t[]){count, 4}, "the list of regions"));
    HYP_TRY(hyp_kernel_want_shape(c, images, 1, &count, "the list of images"));
    HYP_TRY(hyp_kernel_want_shape(c, y, 4, (int64_t[]){count, x->dims[1], bins[0], bins[1]}, "what is pooled"));
    if (y->count > 0 && (x->dims[2] == 0 || x->dims[3] == 0)) return hyp_kernel_fail(c, "the images are empty");
    return HYP_OK;
}

hyp_status hyp_kernel_read_roi_align(const hyp_kernel_call *c, hyp_roi_align *out)
{
    return read_regions(c, &c->out[0], out);
}

hyp_status hyp_kernel_read_roi_align_gradient(const hyp_kernel_call *c, hyp_roi_align *out)
{
    HYP_TRY(read_regions(c, &c->in[3], out));
    if (c->out[0].dtype != c->in[0].dtype) return hyp_kernel_fail(c, "the gradient is of another type");
    return hyp_kernel_want_shape(c, &c->out[0], 4, c->in[0].dims, "the gradient");
}

hyp_status hyp_roi_bins_of(const hyp_kernel_call *c, const hyp_roi_align *p, int64_t region, hyp_roi_bins *out)
{
    const hyp_array *x = &c->in[0], *rois = &c->in[1], *images = &c->in[2];
    HYP_TRY(hyp_kernel_index(c, hyp_array_i64(images, region), 0, x->dims[0], &out->image));
    for (int a = 0; a < 2; a++) { /* x comes before y in a region */
        double shift = p->half_pixel ? 0.5 : 0, size;
        out->start[a] = hyp_array_f64(rois, 4 * region + 1 - a) * p->scale - shift;
        size = hyp_array_f64(rois, 4 * region + 3 - a) * p->scale - shift - out->start[a];
        if (!p->half_pixel && !(size >= 1)) size = 1; /* a region is one element at least */
        size /= (double)p->bins[a];
        double wanted = p->samples > 0 ? (double)p->samples : ceil(size);
        if (!(wanted <= HYP_ROI_SAMPLES)) return hyp_kernel_fail(c, "region %lld is too large", (long long)region);
        out->samples[a] = wanted > 0 ? (int64_t)wanted : 0;
        out->size[a] = size;
    }
    return HYP_OK;
}

hyp_status hyp_kernel_roi_align(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    hyp_roi_align p;
    HYP_TRY(hyp_kernel_read_roi_align(c, &p));
    if (y->count == 0) return HYP_OK;
    for (int64_t r = 0; r < p.regions; r++) {
        hyp_roi_bins bins;
        HYP_TRY(hyp_roi_bins_of(c, &p, r, &bins));
        for (int64_t i = 0; i < p.channels * p.bins[0] * p.bins[1]; i++) {
            int64_t channel = i / (p.bins[0] * p.bins[1]), bin[2] = {i / p.bins[1] % p.bins[0], i % p.bins[1]};
            int64_t image = (bins.image * p.channels + channel) * p.in[0] * p.in[1];
            hyp_array_set_f64(y, r * p.channels * p.bins[0] * p.bins[1] + i, pool_bin(&p, &bins, bin, x, image));
        }
    }
    return HYP_OK;
}
