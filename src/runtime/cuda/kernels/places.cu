// places.cu - elements that depend on where they are: one-hot rows, triangles, sequences in reverse. Part of image.cu,
// behind scans.cu.

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

__device__ __forceinline__ void scatter_tensors(const hyp_cuda_tensor_scatter &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), o = divide(row, p.size), b = divide(o, p.outer);
        int64_t at = p.first ? load<int64_t>(p.dtype, p.first, b) : 0, behind = row - o * p.size.size - at;
        if (at < 0 || at > p.most) {
            report_index(p.error, p.step, at);
            continue;
        }
        if (behind < 0 && p.circular) behind += p.size.size;
        bool replaced = behind >= 0 && behind < p.length;
        int64_t from = replaced ? (o * p.length + behind) * p.inner.size + (i - row * p.inner.size) : i;
        store_bits(p.bytes, p.y, i, load_bits(p.bytes, replaced ? p.updates : p.x, from));
    }
}

// ---- of few elements each, in the order of the reference and in double ------------------------------------------

__device__ __forceinline__ void normalize_channels(const hyp_cuda_lrn &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), channel = row - divide(row, p.channels) * p.channels.size;
        int64_t low = channel > p.before ? -p.before : -channel, left = p.channels.size - 1 - channel;
        double squares = 0;
#pragma unroll 1
        for (int64_t j = low; j <= (p.behind < left ? p.behind : left); j++) {
            double v = load<double>(p.dtype, p.x, i + j * p.inner.size);
            squares += v * v;
        }
        store<double>(p.dtype, p.y, i, load<double>(p.dtype, p.x, i) / pow(p.bias + p.alpha * squares, p.beta));
    }
}

template <typename C> __device__ __forceinline__ void multiply_all(const hyp_cuda_product &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t base, at, unused;
        C product = 1;
        offsets(i, 0, p.kept_rank, p.kept, p.kept_stride, p.kept_stride, base, unused);
#pragma unroll 1
        for (int64_t t = 0; t < p.terms; t++) {
            offsets(t, 0, p.reduced_rank, p.reduced, p.reduced_stride, p.reduced_stride, at, unused);
            product *= load<C>(p.dtype, p.x, base + at);
        }
        store<C>(p.dtype, p.y, i, product);
    }
}

} // namespace hyp_device

KERNEL(tensor_scatter, hyp_cuda_tensor_scatter, scatter_tensors(p))
KERNEL(lrn, hyp_cuda_lrn, normalize_channels(p))
KERNEL(product_f64, hyp_cuda_product, multiply_all<double>(p))
KERNEL(product_u64, hyp_cuda_product, multiply_all<uint64_t>(p))
KERNEL(one_hot, hyp_cuda_one_hot, make_one_hot(p))
KERNEL(trilu, hyp_cuda_trilu, keep_triangles(p))
KERNEL(reverse, hyp_cuda_reverse, reverse_sequences(p))
