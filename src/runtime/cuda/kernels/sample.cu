// sample.cu - images sampled at places that the data give. A thread finds the neighbours of one place, and takes them
// from some channels. Part of image.cu, behind resize.cu.
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

} // namespace hyp_device

KERNEL(sample_f32, hyp_cuda_sample, sample_places<float>(p))
KERNEL(sample_f64, hyp_cuda_sample, sample_places<double>(p))
