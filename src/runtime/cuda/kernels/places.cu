// places.cu - elements that depend on where they are: one-hot rows, triangles, sequences in reverse. Part of image.cu,
// behind along.cu.

#include "runtime/cuda/kernels/along_args.h"

inline namespace hyp_device
{

__device__ __forceinline__ void make_one_hot(const hyp_cuda_one_hot &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), o = divide(row, p.depth), at = row - o * p.depth.size;
        int64_t from = o * p.inner.size + (i - row * p.inner.size);
        int64_t index =
            p.floats ? to_integer(load<double>(p.dtype, p.indices, from)) : load<int64_t>(p.dtype, p.indices, from);
        store_bits(p.size, p.y, i, load_bits(p.size, p.values, index == at || index == at - p.depth.size));
    }
}

__device__ __forceinline__ void keep_triangles(const hyp_cuda_trilu &p)
{
    const int64_t k = p.diagonal ? load<int64_t>(p.dtype, p.diagonal, 0) : 0;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t line = divide(i, p.columns), row = line - divide(line, p.rows) * p.rows.size;
        int64_t above = i - line * p.columns.size - row; // the diagonal that the element is on
        bool kept = p.upper ? above >= k : above <= k;
        store_bits(p.size, p.y, i, kept ? load_bits(p.size, p.x, i) : 0);
    }
}

__device__ __forceinline__ void reverse_sequences(const hyp_cuda_reverse &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t rows = divide(i, p.batch), b = rows - divide(rows, p.batches) * p.batches.size;
        int64_t times = divide(i, p.time), t = times - divide(times, p.times) * p.times.size;
        int64_t length = load<int64_t>(p.dtype, p.lengths, b);
        if (length < 0 || length > p.times.size)
            report_index(p.error, p.step, length);
        else
            store_bits(p.size, p.y, i, load_bits(p.size, p.x, t < length ? i + (length - 1 - 2 * t) * p.time.size : i));
    }
}

} // namespace hyp_device

KERNEL(one_hot, hyp_cuda_one_hot, make_one_hot(p))
KERNEL(trilu, hyp_cuda_trilu, keep_triangles(p))
KERNEL(reverse, hyp_cuda_reverse, reverse_sequences(p))
