// pool_gradient.cu - gradients of max-pools: what g adds to the first of the largest under each window. An element of x
// sees itself whether it is that, so nothing is written twice and nothing has to be remembered. Part of image.cu, behind
// windows.cu.

inline namespace hyp_device
{

// An element of x, or 16 bytes of channels of one, whose windows are those from first to last: where its plane begins in
// x and in the result, and how far apart neighbouring places are there. I has room for places in a channel.
template <typename I> struct reached {
    int64_t x, y, step;
    I first[HYP_CUDA_SPATIAL], last[HYP_CUDA_SPATIAL], reach[HYP_CUDA_SPATIAL];
};

template <typename I> __device__ __forceinline__ reached<I> reached_by(const hyp_cuda_pool_gradient &p, int64_t i)
{
    const hyp_cuda_windows &w = p.windows;
    reached<I> at;
    int64_t place = w.x_last ? divide(i, w.channels) : i, channel = w.x_last ? i - place * w.channels.size : 0;
#pragma unroll
    for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int64_t rest = divide(place, p.in[a]), to = place - rest * p.in[a].size + w.before[a];
        int64_t back = to - (w.kernel[a] - 1) * w.dilation[a], end = divide(to, p.stride[a]);
        place = rest;
        at.reach[a] = (I)to;
        at.first[a] = back <= 0 ? 0 : (I)divide(back + w.stride[a] - 1, p.stride[a]);
        at.last[a] = (I)(end < w.out[a].size ? end : w.out[a].size - 1);
    }
    at.step = w.x_last ? w.channels.size : 1; // place: the image, or the plane
    at.x = place * w.in_count * at.step + channel;
    at.y = place * p.out_count * at.step + channel;
    return at;
}

// Calls f(result, window) for the windows that have the element under a tap.
template <typename I, typename F>
__device__ __forceinline__ void for_windows(const hyp_cuda_pool_gradient &p, const reached<I> &at, F f)
{
    const hyp_cuda_windows &w = p.windows;
    I o[HYP_CUDA_SPATIAL];
#pragma unroll 1
    for (o[2] = at.first[2]; o[2] <= at.last[2]; o[2]++)
#pragma unroll 1
        for (o[1] = at.first[1]; o[1] <= at.last[1]; o[1]++)
#pragma unroll 1
            for (o[0] = at.first[0]; o[0] <= at.last[0]; o[0]++)
                f(at.y + ((o[2] * (I)w.out[1].size + o[1]) * (I)w.out[0].size + o[0]) * at.step, o);
}

// Calls f(element of x) for what lies before the element in window o, row by row, until it says no; not at all, and
// false, where the element is under no tap.
template <typename I, typename F>
__device__ __forceinline__ bool for_taps_before(const hyp_cuda_pool_gradient &p, const reached<I> &at, const I *o, F f)
{
    const hyp_cuda_windows &w = p.windows;
    I begin[HYP_CUDA_SPATIAL], tap[HYP_CUDA_SPATIAL];
    bool under = true;
#pragma unroll
    for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
        I away = at.reach[a] - o[a] * (I)w.stride[a];
        tap[a] = w.dilation[a] == 1 ? away : away / (I)w.dilation[a];
        under &= tap[a] * (I)w.dilation[a] == away;
        begin[a] = o[a] * (I)w.stride[a] - (I)w.before[a];
    }
    if (!under) return false;
#pragma unroll 1
    for (I k2 = 0; k2 <= tap[2]; k2++)
#pragma unroll 1
        for (I k1 = 0; k1 < (I)w.kernel[1]; k1++)
#pragma unroll 1
            for (I k0 = 0; k0 < (I)w.kernel[0]; k0++) {
                if (k2 == tap[2] && (k1 > tap[1] || (k1 == tap[1] && k0 >= tap[0]))) return true;
                I a2 = begin[2] + k2 * (I)w.dilation[2], a1 = begin[1] + k1 * (I)w.dilation[1];
                I a0 = begin[0] + k0 * (I)w.dilation[0];
                if (a2 < 0 || a2 >= (I)w.in[2] || a1 < 0 || a1 >= (I)w.in[1] || a0 < 0 || a0 >= (I)w.in[0]) continue;
                if (!f(at.x + ((a2 * (I)w.in[1] + a1) * (I)w.in[0] + a0) * at.step)) return true;
            }
    return true;
}

// An element of x a thread, over all windows that reach it, which are few: of most of them the largest is another.
template <typename C, typename I> __device__ __forceinline__ void pooling_gradient(const hyp_cuda_pool_gradient &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.windows.total; i += thread_count()) {
        const reached<I> at = reached_by<I>(p, i);
        C v = element<C>(p.dtype, p.x, i), sum = 0;
        for_windows<I>(p, at, [&](int64_t result, const I *o) {
            bool is_first = true;
            if (element<C>(p.dtype, p.y, result) != v) return;
            bool under = for_taps_before<I>(p, at, o, [&](int64_t before) {
                is_first = element<C>(p.dtype, p.x, before) != v;
                return is_first;
            });
            if (under && is_first) sum += element<C>(p.dtype, p.g, result);
        });
        set_element(p.dtype, p.by_x, i, sum);
    }
}

// Which of 16 bytes of channels are alike.
__device__ __forceinline__ uint32_t alike(uint32_t dtype, uint64_t data, int64_t at, const piece &v)
{
    const piece other = to_piece(dtype, load_bits16(data, at));
    uint32_t mask = 0;
#pragma unroll
    for (int e = 0; e < 8; e++)
        if ((e < 4 || dtype != HYP_F32) && other.v[e] == v.v[e]) mask |= 1u << e;
    return mask;
}

// The same for 16 bytes of channels at a time.
__device__ __forceinline__ void pool_gradient_channels(const hyp_cuda_pool_gradient &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.windows.total; i += thread_count()) {
        const reached<int32_t> at = reached_by<int32_t>(p, i);
        const piece v = to_piece(p.dtype, load_bits16(p.x, i));
        piece sum;
#pragma unroll
        for (int e = 0; e < 8; e++) sum.v[e] = 0;
        for_windows<int32_t>(p, at, [&](int64_t result, const int32_t *o) {
            uint32_t largest = alike(p.dtype, p.y, result, v);
            if (!largest) return;
            bool under = for_taps_before<int32_t>(p, at, o, [&](int64_t before) {
                largest &= ~alike(p.dtype, p.x, before, v);
                return largest != 0;
            });
            if (!under || !largest) return;
            const piece g = to_piece(p.dtype, load_bits16(p.g, result));
#pragma unroll
            for (int e = 0; e < 8; e++) sum.v[e] += largest >> e & 1 ? g.v[e] : 0;
        });
        ((uint4 *)p.by_x)[i] = to_bits(p.dtype, sum);
    }
}

} // namespace hyp_device

KERNEL(pool_gradient_f32, hyp_cuda_pool_gradient, (pooling_gradient<float, int32_t>(p)))
KERNEL(pool_gradient_f64, hyp_cuda_pool_gradient, (pooling_gradient<double, int64_t>(p)))
KERNEL(pool_gradient_pieces, hyp_cuda_pool_gradient, pool_gradient_channels(p))
