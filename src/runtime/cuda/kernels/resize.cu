// resize.cu - images, or any axes, of other sizes: one launch lists where the elements of two axes come from, the next
// one makes the result along both. Sums are taken in the order of kernels/resize.c, so that integers, which are cut,
// are the same. Part of image.cu, behind places.cu.
#define HYP_PLACE_FN static __device__ __forceinline__
#define HYP_PLACE_PRODUCT(a, b) __dmul_rn(a, b)
#include "runtime/cuda/kernels/resize_args.h"

inline namespace hyp_device
{

__device__ __forceinline__ void list_resized(const hyp_cuda_resize &p)
{
#pragma unroll 1
    for (int k = 0; k < 2; k++) {
        const hyp_cuda_resize_list &list = p.axis[k];
        if (list.line.taps == 0) continue;
#pragma unroll 1
        for (int64_t i = first_thread(); i < list.line.out; i += thread_count())
            ((int64_t *)list.first)[i] = hyp_resize_element(&list.line, i, (double *)list.weights + i * list.line.taps);
    }
}

// Where element i of an axis comes from.
struct resized {
    int64_t first; // may lie in front of the axis, whose end elements continue for ever
    bool outside;

    __device__ resized(const hyp_cuda_resize_list &list, int64_t i) : first(i), outside(false)
    {
        if (list.line.taps == 0) return;
        int64_t listed = ((const int64_t *)list.first)[i];
        outside = listed == HYP_RESIZE_OUTSIDE;
        first = listed - list.line.taps;
    }
    __device__ int64_t source(const hyp_cuda_resize_list &list, int64_t t) const
    {
        int64_t at = first + t;
        return at < 0 ? 0 : at < list.line.in ? at : list.line.in - 1;
    }
};

// An element of the result, by its places.
struct resized_place {
    int64_t i[2], outer, middle, inner;

    __device__ resized_place(const hyp_cuda_resize &p, int64_t y)
    {
        int64_t row = divide(y, p.inner), rest = divide(row, p.out[1]), image = divide(rest, p.middle);
        outer = divide(image, p.out[0]);
        inner = y - row * p.inner.size;
        i[1] = row - rest * p.out[1].size;
        middle = rest - image * p.middle.size;
        i[0] = image - outer * p.out[0].size;
    }
    __device__ int64_t from(const hyp_cuda_resize &p, int64_t a, int64_t b) const
    {
        return (((outer * p.axis[0].line.in + a) * p.middle.size + middle) * p.axis[1].line.in + b) * p.inner.size +
               inner;
    }
};

__device__ __forceinline__ float add_weighted(float sum, double w, float v) { return sum + (float)w * v; }
__device__ __forceinline__ double add_weighted(double sum, double w, double v)
{
    return rounded_sum(sum, rounded_product(w, v));
}

// Bytes are cut at their ends.
__device__ __forceinline__ double cut(uint32_t dtype, double v)
{
    if (dtype == HYP_U8) return fmin(fmax(v, 0.0), 255.0);
    return dtype == HYP_I8 ? fmin(fmax(v, -128.0), 127.0) : v;
}
__device__ __forceinline__ float cut(uint32_t, float v) { return v; }

template <typename C> __device__ __forceinline__ void resize_weighted(const hyp_cuda_resize &p)
{
    const hyp_cuda_resize_list &one = p.axis[0], &two = p.axis[1];
    const int64_t taps1 = one.line.taps ? one.line.taps : 1, taps2 = two.line.taps ? two.line.taps : 1;
#pragma unroll 1
    for (int64_t y = first_thread(); y < p.total; y += thread_count()) {
        const resized_place at(p, y);
        const resized a(one, at.i[0]), b(two, at.i[1]);
        C all = 0;
#pragma unroll 1
        for (int64_t t2 = 0; t2 < taps2; t2++) {
            C sum = a.outside ? (C)p.extrapolation : (C)0;
#pragma unroll 1
            for (int64_t t1 = 0; t1 < taps1 && !a.outside; t1++) {
                C v = load<C>(p.x_dtype, p.x, at.from(p, a.source(one, t1), b.source(two, t2)));
                sum = one.line.taps ? add_weighted(sum, ((const double *)one.weights)[at.i[0] * taps1 + t1], v) : v;
            }
            all = two.line.taps ? add_weighted(all, ((const double *)two.weights)[at.i[1] * taps2 + t2], sum) : sum;
        }
        store<C>(p.y_dtype, p.y, y, cut(p.y_dtype, b.outside ? (C)p.extrapolation : all));
    }
}

__device__ __forceinline__ void resize_to_nearest(const hyp_cuda_resize &p)
{
#pragma unroll 1
    for (int64_t y = first_thread(); y < p.total; y += thread_count()) {
        const resized_place at(p, y);
        const resized a(p.axis[0], at.i[0]), b(p.axis[1], at.i[1]);
        bool outside = a.outside || b.outside;
        int64_t from = at.from(p, a.source(p.axis[0], 0), b.source(p.axis[1], 0));
        store_bits(p.size, p.y, y, outside ? p.outside : load_bits(p.size, p.x, from));
    }
}

} // namespace hyp_device

KERNEL(resize_lists, hyp_cuda_resize, list_resized(p))
KERNEL(resize_f32, hyp_cuda_resize, resize_weighted<float>(p))
KERNEL(resize_f64, hyp_cuda_resize, resize_weighted<double>(p))
KERNEL(resize_nearest, hyp_cuda_resize, resize_to_nearest(p))
