// sample.cu - images sampled at places that the data give. A thread finds the neighbours of one place, and takes them
// from some channels, or, back, gives them what they have had. Part of image.cu, behind resize.cu.
#include "runtime/cuda/kernels/sample_args.h"

inline namespace hyp_device
{

template <typename C> __device__ __forceinline__ void sample_places(const hyp_cuda_sample &p)
{
    const hyp_sampler &s = p.sampler;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.places), place = i - row * p.places.size;
        int64_t image = divide(row, p.groups), first = (row - image * p.groups.size) * p.group;
        hyp_sample_neighbours n;
        int64_t offset[HYP_SAMPLE_NEIGHBOURS], end = first + p.group < p.channels ? first + p.group : p.channels;
        double weight[HYP_SAMPLE_NEIGHBOURS];
        const int64_t at = (image * p.places.size + place) * s.axes; // coordinates are those of the last axis first
#pragma unroll 1
        for (int32_t a = 0; a < s.axes; a++)
            hyp_sample_find(&s, a, load<double>(p.grid_dtype, p.grid, at + s.axes - 1 - a), &n);
        const int count = hyp_sample_list(&s, &n, offset, weight);
#pragma unroll 1
        for (int64_t c = image * p.channels + first; c < image * p.channels + end; c++) {
            C sum = 0;
#pragma unroll 1
            for (int k = 0; k < count; k++) sum += (C)weight[k] * load<C>(p.dtype, p.x, c * s.image + offset[k]);
            store<C>(p.dtype, p.y, c * p.places.size + place, sum);
        }
    }
}

// Adds what the places of an image took, one after the other, to some rows of a channel. Threads side by side have other channels
// of the same rows, which the same places have taken from.
template <typename C> __device__ __forceinline__ void add_places(const hyp_cuda_sample_gradient &p)
{
    const hyp_sampler &s = p.sampler;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        const int64_t rest = divide(i, p.channels), image = divide(rest, p.bands);
        const int64_t low = (rest - image * p.bands.size) * p.rows, high = low + p.rows < s.dims[0] ? low + p.rows : s.dims[0];
        const int64_t channel = image * p.channels.size + i - rest * p.channels.size;
        C *y = (C *)p.y + channel * s.image;
#pragma unroll 1
        for (int64_t k = low * s.strides[0]; k < high * s.strides[0]; k++) y[k] = 0;
#pragma unroll 1
        for (int64_t place = 0; place < p.places.size; place++) {
            const int64_t at = (image * p.places.size + place) * s.axes; // coordinates are those of the last axis first
            hyp_sample_neighbours n;
            int64_t offset[HYP_SAMPLE_NEIGHBOURS];
            double weight[HYP_SAMPLE_NEIGHBOURS];
            bool any = false;
            hyp_sample_find(&s, 0, load<double>(p.grid_dtype, p.grid, at + s.axes - 1), &n);
#pragma unroll 1
            for (int t = 0; t < s.taps; t++) {
                if (n.at[0][t] < low || n.at[0][t] >= high) n.at[0][t] = -1; // another thread's
                any = any || n.at[0][t] >= 0;
            }
            if (!any) continue;
#pragma unroll 1
            for (int32_t a = 1; a < s.axes; a++)
                hyp_sample_find(&s, a, load<double>(p.grid_dtype, p.grid, at + s.axes - 1 - a), &n);
            const int count = hyp_sample_list(&s, &n, offset, weight);
            const C g = load<C>(p.dtype, p.g, channel * p.places.size + place);
#pragma unroll 1
            for (int k = 0; k < count; k++) y[offset[k]] += (C)weight[k] * g;
        }
    }
}

// What the samples at a place gain as one of its coordinates grows.
template <typename C> __device__ __forceinline__ void slopes_of_places(const hyp_cuda_sample_gradient &p)
{
    const hyp_sampler &s = p.sampler;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        const int64_t at = divide(i, p.axes), image = divide(at, p.places), place = at - image * p.places.size;
        const int32_t axis = s.axes - 1 - (int32_t)(i - at * s.axes);
        hyp_sample_neighbours n;
        int64_t offset[HYP_SAMPLE_NEIGHBOURS];
        double weight[HYP_SAMPLE_NEIGHBOURS];
#pragma unroll 1
        for (int32_t a = 0; a < s.axes; a++) {
            const double coordinate = load<double>(p.grid_dtype, p.grid, at * s.axes + s.axes - 1 - a);
            hyp_sample_find(&s, a, coordinate, &n);
            if (a == axis) hyp_sample_slopes(&s, a, coordinate, &n);
        }
        const int count = hyp_sample_list(&s, &n, offset, weight);
        C sum = 0;
#pragma unroll 1
        for (int64_t c = image * p.channels.size; c < (image + 1) * p.channels.size; c++) {
            C gain = 0;
#pragma unroll 1
            for (int k = 0; k < count; k++) gain += (C)weight[k] * load<C>(p.dtype, p.x, c * s.image + offset[k]);
            sum += gain * load<C>(p.dtype, p.g, c * p.places.size + place);
        }
        store<C>(p.grid_dtype, p.y, i, sum);
    }
}

} // namespace hyp_device

KERNEL(sample_f32, hyp_cuda_sample, sample_places<float>(p))
KERNEL(sample_f64, hyp_cuda_sample, sample_places<double>(p))
KERNEL(sample_back_f32, hyp_cuda_sample_gradient, add_places<float>(p))
KERNEL(sample_back_f64, hyp_cuda_sample_gradient, add_places<double>(p))
KERNEL(sample_slopes_f32, hyp_cuda_sample_gradient, slopes_of_places<float>(p))
KERNEL(sample_slopes_f64, hyp_cuda_sample_gradient, slopes_of_places<double>(p))
