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

// ---- rows ---------------------------------------------------------------------------------------------------------

// A thread has some columns of many rows of the result: where a column comes from along axis 1, and its weights, are
// found once, and what is true of a row for all of its columns.

// A row of the result, by its number.
struct resized_row {
    int64_t i, image, middle; // i: along axis 0

    __device__ resized_row(const hyp_cuda_resize &p, int64_t row)
    {
        int64_t rest = divide(row, p.middle), outer = divide(rest, p.out[0]);
        middle = row - rest * p.middle.size;
        i = rest - outer * p.out[0].size;
        image = outer * p.axis[0].line.in;
    }
    // Where the row of x begins that has this place along axis 0.
    __device__ int64_t from(const hyp_cuda_resize &p, int64_t place) const
    {
        return ((image + place) * p.middle.size + middle) * p.axis[1].line.in * p.inner.size;
    }
};

// Calls columns(first) for each tile of columns, which gives what is to be called for its rows.
template <typename F> __device__ __forceinline__ void for_tiles(const hyp_cuda_resize &p, F columns)
{
    const int64_t width = (int64_t)blockDim.x * HYP_CUDA_RESIZE_EACH;
#pragma unroll 1
    for (int64_t tile = blockIdx.x; tile < p.tiles.size * p.groups; tile += gridDim.x) {
        int64_t group = divide(tile, p.tiles);
        columns((tile - group * p.tiles.size) * width + threadIdx.x, group * blockDim.y + threadIdx.y);
    }
}

// T has the bits of an element: float, or uint16_t of f16 and bf16, so that no branch lies between reads.
__device__ __forceinline__ float element_of(uint32_t, float v) { return v; }
__device__ __forceinline__ float element_of(uint32_t dtype, uint16_t bits)
{
    return dtype == HYP_BF16 ? from_bfloat(bits) : from_half(bits);
}

template <int TAPS, typename T> __device__ __forceinline__ void resize_rows_of(const hyp_cuda_resize &p)
{
    constexpr int EACH = HYP_CUDA_RESIZE_EACH;
    const hyp_cuda_resize_list &one = p.axis[0], &two = p.axis[1];
    const float extrapolation = (float)p.extrapolation;
    const bool both = one.line.taps != 0;
    for_tiles(p, [&](int64_t first, int64_t first_row) {
        uint32_t from[EACH][TAPS];
        float weight[EACH][TAPS];
        bool outside[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) { // what is behind the last column is read as that, and not written
            int64_t column = first + e * (int64_t)blockDim.x, last = p.columns - 1;
            if (column > last) column = last;
            int64_t i = divide(column, p.inner);
            const resized b(two, i);
            outside[e] = b.outside;
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                from[e][t] = (uint32_t)(b.source(two, t) * p.inner.size + (column - i * p.inner.size));
                weight[e][t] = (float)((const double *)two.weights)[i * TAPS + t];
            }
        }
#pragma unroll 1
        for (int64_t row = first_row; row < p.rows; row += p.groups * blockDim.y) {
            const resized_row at(p, row);
            const resized a(one, at.i);
            const T *x[TAPS];
            float row_weight[TAPS];
#pragma unroll
            for (int t = 0; t < TAPS; t++) {
                x[t] = (const T *)p.x + at.from(p, a.source(one, both ? t : 0));
                row_weight[t] = both ? (float)((const double *)one.weights)[at.i * TAPS + t] : 1.0f;
            }
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                T v[TAPS][TAPS];
#pragma unroll
                for (int t2 = 0; t2 < TAPS; t2++)
#pragma unroll
                    for (int t1 = 0; t1 < TAPS; t1++) v[t2][t1] = t1 == 0 || both ? x[t1][from[e][t2]] : v[t2][0];
                float all = 0;
#pragma unroll
                for (int t2 = 0; t2 < TAPS; t2++) {
                    float sum = 0;
#pragma unroll
                    for (int t1 = 0; t1 < TAPS; t1++) sum += row_weight[t1] * element_of(p.x_dtype, v[t2][t1]);
                    if (!both) sum = element_of(p.x_dtype, v[t2][0]);
                    if (a.outside) sum = extrapolation;
                    all += weight[e][t2] * sum;
                }
                const int64_t column = first + e * (int64_t)blockDim.x;
                if (column < p.columns)
                    store_native(p.y_dtype, p.y, row * p.columns + column, outside[e] ? extrapolation : all);
            }
        }
    });
}

template <int TAPS> __device__ __forceinline__ void resize_rows(const hyp_cuda_resize &p)
{
    if (p.x_dtype == HYP_F32)
        resize_rows_of<TAPS, float>(p);
    else
        resize_rows_of<TAPS, uint16_t>(p);
}

// T has the bits of an element.
template <typename T> __device__ __forceinline__ void resize_rows_to_nearest(const hyp_cuda_resize &p)
{
    constexpr int EACH = HYP_CUDA_RESIZE_EACH;
    const hyp_cuda_resize_list &one = p.axis[0], &two = p.axis[1];
    for_tiles(p, [&](int64_t first, int64_t first_row) {
        int64_t from[EACH]; // -1: outside
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int64_t column = first + e * (int64_t)blockDim.x, i = divide(column, p.inner);
            if (column >= p.columns) continue;
            const resized b(two, i);
            from[e] = b.outside ? -1 : b.source(two, 0) * p.inner.size + (column - i * p.inner.size);
        }
#pragma unroll 1
        for (int64_t row = first_row; row < p.rows; row += p.groups * blockDim.y) {
            const resized_row at(p, row);
            const resized a(one, at.i);
            const T *x = (const T *)p.x + at.from(p, a.source(one, 0));
            T *y = (T *)p.y + row * p.columns, v[EACH];
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (first + e * (int64_t)blockDim.x < p.columns)
                    v[e] = a.outside || from[e] < 0 ? (T)p.outside : x[from[e]];
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (first + e * (int64_t)blockDim.x < p.columns) y[first + e * (int64_t)blockDim.x] = v[e];
        }
    });
}

__device__ __forceinline__ void resize_to_nearest(const hyp_cuda_resize &p)
{
    switch (p.size) {
    case 1: resize_rows_to_nearest<uint8_t>(p); break;
    case 2: resize_rows_to_nearest<uint16_t>(p); break;
    case 4: resize_rows_to_nearest<uint32_t>(p); break;
    default: resize_rows_to_nearest<uint64_t>(p);
    }
}

} // namespace hyp_device

KERNEL(resize_lists, hyp_cuda_resize, list_resized(p))
KERNEL(resize_f32, hyp_cuda_resize, resize_weighted<float>(p))
KERNEL(resize_f64, hyp_cuda_resize, resize_weighted<double>(p))
KERNEL(resize_rows_2, hyp_cuda_resize, resize_rows<2>(p))
KERNEL(resize_rows_4, hyp_cuda_resize, resize_rows<4>(p))
KERNEL(resize_nearest, hyp_cuda_resize, resize_to_nearest(p))
