// along.cu - what works along one axis: where the largest is, the k largest, running sums. A lane is the elements along
// the axis at one place of the others. Results have the same bits in every run: elements have an order in which no two
// are equal, and sums are taken in a fixed one. Part of image.cu, behind scatter.cu.

#include "runtime/cuda/kernels/along_args.h"

inline namespace hyp_device
{

// ---- order ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t key_of(const hyp_cuda_order &o, uint64_t bits)
{
    uint64_t magnitude = bits & (o.sign - 1), key = bits ^ o.sign;
    if (o.number) {
        if (magnitude > o.number) return o.nan;
        key = bits & o.sign ? o.sign - magnitude : o.sign + magnitude;
    }
    return key ^ o.flip;
}

__device__ __forceinline__ bool is_before(const hyp_cuda_ranked &a, const hyp_cuda_ranked &b, bool last)
{
    return a.key > b.key || (a.key == b.key && (last ? a.at > b.at : a.at < b.at));
}

struct take_first {
    bool last;
    __device__ hyp_cuda_ranked operator()(const hyp_cuda_ranked &a, const hyp_cuda_ranked &b) const
    {
        return is_before(b, a, last) ? b : a;
    }
};

// ---- where the largest is -----------------------------------------------------------------------------------------

// Lanes, or parts of them, are shared by the threads along x (elements are neighbours) or y of a block. Every thread
// takes part in every round, for the barriers.
__device__ __forceinline__ void locate_first(const hyp_cuda_locate &p)
{
    extern __shared__ double shared[];
    constexpr int AT_ONCE = 4;
    const take_first first_of = {p.last != 0};
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.total; first += (int64_t)gridDim.x * teams) {
        int64_t self = first + mine, part = divide(self, p.lanes), lane = self - part * p.lanes.size,
                o = divide(lane, p.inner);
        int64_t start = o * p.axis * p.inner.size + (lane - o * p.inner.size);
        int64_t begin = part * p.terms, end = begin + p.terms < p.axis ? begin + p.terms : p.axis;
        if (self >= p.total) begin = end = 0;
        hyp_cuda_ranked best = {0, p.last ? -1 : INT64_MAX}; // which is behind all
#pragma unroll 1
        for (int64_t i = begin + member; i < end; i += AT_ONCE * (int64_t)team) {
            hyp_cuda_ranked some[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                int64_t at = i + j * (int64_t)team, from = start + (at < end ? at : i) * p.inner.size;
                if (p.from_list)
                    some[j] = ((const hyp_cuda_ranked *)p.x)[from];
                else
                    some[j].key = load_bits(p.order.size, p.x, from), some[j].at = at < end ? at : i;
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                if (!p.from_list) some[j].key = key_of(p.order, some[j].key);
                best = first_of(best, some[j]);
            }
        }
        best = combine(best, (hyp_cuda_ranked *)shared, along_x, first_of);
        if (member > 0 || self >= p.total) continue;
        if (p.to_list)
            ((hyp_cuda_ranked *)p.y)[self] = best;
        else
            ((int64_t *)p.y)[self] = best.at;
    }
}

// ---- the first k --------------------------------------------------------------------------------------------------

// The elements of a lane, or of a part of one.
struct ranked_list {
    int64_t base, begin, count;

    __device__ hyp_cuda_ranked get(const hyp_cuda_topk &p, int64_t i) const
    {
        if (p.from_list) return ((const hyp_cuda_ranked *)p.list)[base + i];
        return {key_of(p.order, load_bits(p.order.size, p.x, base + (begin + i) * p.inner.size)), begin + i};
    }
};

// What is known of the last one that is wanted: the first digits of its key and, behind these, of its place, turned.
struct ranked_bound {
    uint64_t key, key_mask, at, at_mask;

    __device__ bool equals(const hyp_cuda_ranked &e) const
    {
        return (e.key & key_mask) == key && (~(uint64_t)e.at & at_mask) == at;
    }
    __device__ bool holds(const hyp_cuda_ranked &e) const
    {
        uint64_t of_key = e.key & key_mask;
        return of_key > key || (of_key == key && (~(uint64_t)e.at & at_mask) >= at);
    }
};

// Digit by digit: counts which there are among those that begin as the bound does, until all of these are wanted.
__device__ __forceinline__ ranked_bound find_bound(const hyp_cuda_topk &p, const ranked_list &list, uint32_t *counts)
{
    uint32_t *chosen = counts + HYP_CUDA_DIGITS + 1; // the digit, those with larger ones, those with it
    ranked_bound bound = {0, 0, 0, 0};
    const unsigned self = threadIdx.x;
    int64_t wanted = p.k, open = list.count;
#pragma unroll 1
    for (uint32_t digit = 0; wanted < open && digit < p.digits; digit++) {
        bool of_key = digit < p.order.size;
        uint32_t shift = 8 * ((of_key ? p.order.size : p.digits) - 1 - digit);
        __syncthreads();
        counts[self] = 0;
        if (self == 0) counts[HYP_CUDA_DIGITS] = 0;
        __syncthreads();
#pragma unroll 4
        for (int64_t i = self; i < list.count; i += HYP_CUDA_DIGITS) {
            hyp_cuda_ranked e = list.get(p, i);
            if (bound.equals(e))
                atomicAdd(&counts[(of_key ? e.key : ~(uint64_t)e.at) >> shift & (HYP_CUDA_DIGITS - 1)], 1);
        }
#pragma unroll 1
        for (unsigned step = 1; step < HYP_CUDA_DIGITS; step *= 2) { // sums from each digit on
            __syncthreads();
            uint32_t more = self + step < HYP_CUDA_DIGITS ? counts[self + step] : 0;
            __syncthreads();
            counts[self] += more;
        }
        __syncthreads();
        if (counts[self] >= wanted && counts[self + 1] < wanted)
            chosen[0] = self, chosen[1] = counts[self + 1], chosen[2] = counts[self] - counts[self + 1];
        __syncthreads();
        uint64_t bits = (uint64_t)chosen[0] << shift, mask = (uint64_t)(HYP_CUDA_DIGITS - 1) << shift;
        if (of_key)
            bound.key |= bits, bound.key_mask |= mask;
        else
            bound.at |= bits, bound.at_mask |= mask;
        wanted -= chosen[1];
        open = chosen[2];
    }
    return bound;
}

// A bitonic network (Batcher 1968), whose result depends on nothing but what there is, as no two elements are equal.
__device__ __forceinline__ void sort_ranked(hyp_cuda_ranked *list, int64_t count)
{
#pragma unroll 1
    for (int64_t run = 2; run <= count; run *= 2)
#pragma unroll 1
        for (int64_t apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
#pragma unroll 1
            for (int64_t i = threadIdx.x; i < count / 2; i += HYP_CUDA_DIGITS) {
                int64_t low = 2 * i - (i & (apart - 1)), high = low + apart;
                hyp_cuda_ranked a = list[low], b = list[high];
                if (is_before(b, a, false) == ((low & run) == 0)) list[low] = b, list[high] = a;
            }
        }
    __syncthreads();
}

// A block has a lane, or a part of one, at a time.
__device__ __forceinline__ void select_first(const hyp_cuda_topk &p)
{
    extern __shared__ double shared[];
    uint32_t *counts = (uint32_t *)shared, *next = counts + HYP_CUDA_DIGITS + 4;
#pragma unroll 1
    for (int64_t self = blockIdx.x; self < p.total; self += gridDim.x) {
        int64_t lane = divide(self, p.parts), part = self - lane * p.parts.size, o = divide(lane, p.inner);
        int64_t column = lane - o * p.inner.size, begin = part * p.terms, left = p.axis - begin;
        ranked_list list = {o * p.axis * p.inner.size + column, begin, left < p.terms ? left : p.terms};
        if (p.from_list) list = {lane * p.terms, 0, p.terms};
        hyp_cuda_ranked *to = p.to_list ? (hyp_cuda_ranked *)p.list + self * p.k
                              : p.room  ? (hyp_cuda_ranked *)p.room + blockIdx.x * p.padded
                                        : (hyp_cuda_ranked *)(shared + HYP_CUDA_TOPK_COUNTS);
        ranked_bound bound = find_bound(p, list, counts);
        __syncthreads();
        if (threadIdx.x == 0) *next = 0;
        __syncthreads();
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < list.count; i += HYP_CUDA_DIGITS) {
            hyp_cuda_ranked e = list.get(p, i);
            if (bound.holds(e)) to[atomicAdd(next, 1)] = e;
        }
        __syncthreads();
#pragma unroll 1
        for (int64_t i = *next + threadIdx.x; i < (p.to_list ? p.k : p.padded); i += HYP_CUDA_DIGITS)
            to[i] = {0, p.axis};
        if (p.to_list) continue;
        sort_ranked(to, p.padded);
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < p.k; i += HYP_CUDA_DIGITS) {
            int64_t y = (o * p.k + i) * p.inner.size + column, at = to[i].at;
            ((int64_t *)p.places)[y] = at;
            move(p.order.size, p.values, y, p.x, (o * p.axis + at) * p.inner.size + column);
        }
    }
}

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

// Every thread takes part in every round, for the barriers.
template <typename C> __device__ __forceinline__ void scan(const hyp_cuda_scan &p)
{
    extern __shared__ double shared[];
    constexpr int EACH = HYP_CUDA_SCAN_EACH;
    const sum_or_product<C> both = {p.product != 0};
    const C nothing = p.product ? (C)1 : (C)0;
    const uint32_t size = element_size(p.dtype);
    const int64_t inner = p.inner.size, tile = (int64_t)blockDim.x * EACH;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.total; first += (int64_t)gridDim.x * blockDim.y) {
        int64_t self = first + threadIdx.y, part = divide(self, p.lanes), lane = self - part * p.lanes.size;
        int64_t o = divide(lane, p.inner), start = o * p.axis * inner + (lane - o * inner);
        int64_t begin = part * p.terms, limit = begin + p.terms < p.axis ? begin + p.terms : p.axis;
        if (self >= p.total) limit = begin;
        C all = nothing;
#pragma unroll 1
        for (int64_t q = 0; p.sums && !p.makes_sums && self < p.total && q < part; q++)
            all = both(all, ((const C *)p.sums)[q * p.lanes.size + lane]);
#pragma unroll 1
        for (int64_t done = 0; done < p.terms; done += tile) { // as often in all teams
            int64_t at = begin + done + threadIdx.x * EACH;
            uint64_t bits[EACH];
            C v[EACH], mine = nothing, total;
#pragma unroll
            for (int e = 0; e < EACH; e++) // all are asked for before the first is needed
                if (at + e < limit)
                    bits[e] = load_bits(size, p.x, start + (p.reverse ? p.axis - 1 - at - e : at + e) * inner);
#pragma unroll 1
            for (int e = 0; e < EACH; e++) {
                v[e] = at + e >= limit ? nothing
                       : p.mask        ? (C)((bits[e] & p.mask) != 0)
                                       : from_bits<C>(p.dtype, bits[e]);
                mine = both(mine, v[e]);
            }
            C sum = both(all, before_in_team(mine, nothing, (C *)shared, both, total));
            all = both(all, total);
            if (p.makes_sums) continue;
#pragma unroll 1
            for (int e = 0; e < EACH && at + e < limit; e++) {
                C next = both(sum, v[e]);
                store<C>(p.y_dtype, p.y, start + (p.reverse ? p.axis - 1 - at - e : at + e) * inner,
                         p.exclusive ? sum : next);
                sum = next;
            }
        }
        if (p.makes_sums && threadIdx.x == 0 && self < p.total) ((C *)p.sums)[self] = all;
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
KERNEL(locate, hyp_cuda_locate, locate_first(p))
KERNEL(topk, hyp_cuda_topk, select_first(p))
KERNEL(scan_f64, hyp_cuda_scan, scan<double>(p))
KERNEL(scan_u64, hyp_cuda_scan, scan<uint64_t>(p))
