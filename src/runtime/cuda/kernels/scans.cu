// scans.cu - running sums along one axis, and what is listed by them. Sums are taken in an order that follows from sizes
// and the device, so that results have the same bits in every run. Part of image.cu, behind along.cu.

#include "runtime/cuda/kernels/along_args.h"

inline namespace hyp_device
{

// ---- running sums -------------------------------------------------------------------------------------------------

// What the threads of a team that come before have together, and in `total` what all have. `room` has a value for each
// warp.
template <typename C, typename F> __device__ __forceinline__ C before_in_team(C mine, C nothing, C *room, F f, C &total)
{
    C before = nothing;
    total = mine;
    if (blockDim.x == 1) return before;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32,
                   first = (threadIdx.y * blockDim.x + threadIdx.x) / 32 - warp;
    C up_to = mine;
#pragma unroll 1
    for (unsigned step = 1; step < 32; step *= 2) {
        C other = __shfl_up_sync(0xffffffff, up_to, step);
        if (lane >= step) up_to = f(other, up_to);
    }
    before = __shfl_up_sync(0xffffffff, up_to, 1);
    if (lane == 0) before = nothing;
    total = __shfl_sync(0xffffffff, up_to, 31);
    if (blockDim.x == 32) return before;
    __syncthreads();
    if (lane == 31) room[first + warp] = up_to;
    __syncthreads();
    C of_warps = nothing;
    total = nothing;
#pragma unroll 1
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        if (w == warp) of_warps = total;
        total = f(total, room[first + w]);
    }
    return f(of_warps, before);
}

template <typename C> struct sum_or_product {
    bool product;
    __device__ C operator()(C a, C b) const { return product ? a * b : a + b; }
};

// Elements of one type, or, where that is HYP_DTYPE_NONE, of the one that the arguments tell.
template <typename C, uint32_t DTYPE> struct scanned {
    const hyp_cuda_scan &p;
    int64_t start; // of the lane

    __device__ int64_t place(int64_t i) const { return start + (p.reverse ? p.axis - 1 - i : i) * p.inner.size; }
    __device__ uint64_t bits(int64_t i) const
    {
        return load_bits(element_size(DTYPE ? DTYPE : p.dtype), p.x, place(i));
    }
    __device__ C value(uint64_t bits) const
    {
        if (DTYPE) return from_bits<C>(DTYPE, bits);
        return p.mask ? (C)((bits & p.mask) != 0) : from_bits<C>(p.dtype, bits);
    }
    __device__ void put(int64_t i, C v) const
    {
        if (DTYPE)
            store_bits(element_size(DTYPE), p.y, place(i), to_bits(DTYPE, v));
        else
            store<C>(p.y_dtype, p.y, place(i), v);
    }
};

// What the elements begin .. limit - 1 of a lane have together; the threads of its team take turns.
template <typename C, uint32_t DTYPE>
__device__ __forceinline__ C scan_total(const scanned<C, DTYPE> &x, int64_t begin, int64_t limit, C nothing, C *room,
                                        sum_or_product<C> both)
{
    constexpr int AT_ONCE = HYP_CUDA_SCAN_EACH;
    C mine = nothing, total;
#pragma unroll 1
    for (int64_t i = begin + threadIdx.x; i < limit; i += AT_ONCE * (int64_t)blockDim.x) {
        uint64_t bits[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int64_t at = i + j * (int64_t)blockDim.x;
            bits[j] = x.bits(at < limit ? at : i);
        }
#pragma unroll(DTYPE ? AT_ONCE : 1)
        for (int j = 0; j < AT_ONCE; j++)
            if (i + j * (int64_t)blockDim.x < limit) mine = both(mine, x.value(bits[j]));
    }
    before_in_team(mine, nothing, room, both, total);
    return total;
}

// Every thread takes part in every round, for the barriers.
template <typename C, uint32_t DTYPE> __device__ __forceinline__ void scan(const hyp_cuda_scan &p)
{
    extern __shared__ double shared[];
    constexpr int EACH = HYP_CUDA_SCAN_EACH, UNROLLED = DTYPE ? EACH : 1;
    const sum_or_product<C> both = {p.product != 0};
    const C nothing = p.product ? (C)1 : (C)0;
    const int64_t tile = (int64_t)blockDim.x * EACH;
    C *room = (C *)shared;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.total; first += (int64_t)gridDim.x * blockDim.y) {
        int64_t self = first + threadIdx.y, part = divide(self, p.lanes), lane = self - part * p.lanes.size;
        int64_t o = divide(lane, p.inner), begin = part * p.terms;
        int64_t limit = begin + p.terms < p.axis ? begin + p.terms : p.axis;
        const scanned<C, DTYPE> x = {p, o * p.axis * p.inner.size + (lane - o * p.inner.size)};
        if (self >= p.total) limit = begin;
        if (p.makes_sums) {
            C total = scan_total(x, begin, limit, nothing, room, both);
            if (threadIdx.x == 0 && self < p.total) ((C *)p.sums)[self] = total;
            continue;
        }
        C all = nothing;
        if (p.sums) { // of the parts before this one
            C mine = nothing;
#pragma unroll 4
            for (int64_t q = threadIdx.x; q < part && self < p.total; q += blockDim.x)
                mine = both(mine, ((const C *)p.sums)[q * p.lanes.size + lane]);
            before_in_team(mine, nothing, room, both, all);
        }
        uint64_t bits[EACH];
#pragma unroll 1
        for (int64_t done = 0; done < p.terms; done += tile) { // as often in all teams
            int64_t at = begin + done + threadIdx.x * EACH;
            C v[EACH], mine = nothing, total;
#pragma unroll
            for (int e = 0; e < EACH; e++) // all are asked for before the first is needed
                if (at + e < limit) bits[e] = x.bits(at + e);
#pragma unroll(UNROLLED)
            for (int e = 0; e < EACH; e++) {
                v[e] = at + e < limit ? x.value(bits[e]) : nothing;
                mine = both(mine, v[e]);
            }
            C sum = both(all, before_in_team(mine, nothing, room, both, total));
            all = both(all, total);
#pragma unroll(UNROLLED)
            for (int e = 0; e < EACH; e++) {
                C next = both(sum, v[e]);
                if (at + e < limit) x.put(at + e, p.exclusive ? sum : next);
                sum = next;
            }
        }
    }
}

// ---- what is not zero ---------------------------------------------------------------------------------------------

// Room by room: where the count first is as high.
__device__ __forceinline__ void list_nonzero(const hyp_cuda_nonzero &p)
{
    const int64_t *counts = (const int64_t *)p.counts, found = p.count ? counts[p.count - 1] : 0;
    if (first_thread() == 0) {
        *(int64_t *)p.found = found;
        if (found > p.room) report_index(p.error, p.step, found);
    }
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.room; i += thread_count()) {
        int64_t low = 0, high = p.count, wanted = i < found ? i + 1 : found;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (counts[middle] < wanted)
                low = middle + 1;
            else
                high = middle;
        }
        int64_t rest = found ? low : 0;
#pragma unroll 1
        for (uint32_t a = 0; a < p.rank; a++) {
            int64_t next = divide(rest, p.extent[a]);
            ((int64_t *)p.y)[(p.rank - 1 - a) * p.room + i] = rest - next * p.extent[a].size;
            rest = next;
        }
    }
}

} // namespace hyp_device

KERNEL(nonzero, hyp_cuda_nonzero, list_nonzero(p))
KERNEL(scan_f64, hyp_cuda_scan, (scan<double, HYP_DTYPE_NONE>(p)))
KERNEL(scan_u64, hyp_cuda_scan, (scan<uint64_t, HYP_DTYPE_NONE>(p)))
KERNEL(scan_of_f32, hyp_cuda_scan, (scan<double, HYP_F32>(p)))
KERNEL(scan_of_f16, hyp_cuda_scan, (scan<double, HYP_F16>(p)))
KERNEL(scan_of_bf16, hyp_cuda_scan, (scan<double, HYP_BF16>(p)))
KERNEL(scan_of_i64, hyp_cuda_scan, (scan<uint64_t, HYP_I64>(p)))
