// pool_gradient.cu - gradients of max-pools: what g adds to the first of the largest under each window. An element of x
// sees itself whether it is that, or blocks find it for the windows around a tile of x and keep it for the tile's elements;
// so nothing is written twice, and sums have one order. Part of image.cu, behind windows.cu.

inline namespace hyp_device
{

// An element of x, whose windows are those from first to last: where its plane begins in x and in the result, and how far
// apart neighbouring places are there. I has room for places in a channel.
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

// 16 bytes of channels of one window: which taps are the first largest, a byte each, and g.
enum { NO_TAP = HYP_CUDA_POOL_TAPS, TAPS_AT_ONCE = 3 };
struct tile_room {
    uint4 *g;
    uint2 *taps;
};

__device__ __forceinline__ uint32_t bytes_of(const uint32_t *v) { return v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24; }

// What a window gives, as bits, so that floats of 16 bits are alike: x is that where no bit differs that counts. Those of
// a NaN nothing equals; of zeros the sign does not count. What lies outside of x is NaN.
template <int WIDTH> struct largest_of {
    static constexpr uint32_t MAGNITUDE = WIDTH == 4 ? 0x7fffffffu : 0x7fffu;
    uint32_t bits[4], counts[4], tap[8];

    static __device__ __forceinline__ uint32_t lane(int e) { return WIDTH == 4 ? ~0u : 0xffffu << 16 * (e % 2); }
    __device__ __forceinline__ uint32_t magnitude(int e) const
    {
        return (WIDTH == 4 ? bits[e] : bits[e / 2] >> 16 * (e % 2)) & MAGNITUDE;
    }

    __device__ __forceinline__ explicit largest_of(uint4 y) : bits{y.x, y.y, y.z, y.w}, counts{0, 0, 0, 0}
    {
#pragma unroll
        for (int e = 0; e < 8; e++) tap[e] = NO_TAP;
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            const uint32_t all = WIDTH == 4 ? MAGNITUDE : MAGNITUDE << 16 * (e % 2);
            counts[e * 4 / WIDTH] |= magnitude(e) ? lane(e) : all;
        }
    }
    __device__ __forceinline__ void look_at(uint4 x, uint32_t at)
    {
        const uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            const int i = e * 4 / WIDTH;
            if (!((words[i] ^ bits[i]) & counts[i] & lane(e))) tap[e] = at;
        }
    }
    __device__ __forceinline__ uint2 taps(uint32_t infinity) const
    {
        uint32_t t[8];
#pragma unroll
        for (int e = 0; e < 8; e++) t[e] = e >= WIDTH || magnitude(e) > infinity ? (uint32_t)NO_TAP : tap[e];
        return make_uint2(bytes_of(t), bytes_of(t + 4));
    }
};

// x: the pieces of an image. From the last tap on, as the first is to stay.
template <int WIDTH>
__device__ __forceinline__ uint2 first_largest(const hyp_cuda_pool_tiles &p, const uint4 *x, int row, int column, uint4 y)
{
    largest_of<WIDTH> largest(y);
#pragma unroll 1
    for (int k1 = p.kernel[1] - 1; k1 >= 0; k1--) {
        if (row + k1 < 0 || row + k1 >= p.in[1]) continue;
        const int begin = (row + k1) * p.in[0] + column;
#pragma unroll 1
        for (int k0 = (p.kernel[0] - 1) / TAPS_AT_ONCE * TAPS_AT_ONCE; k0 >= 0; k0 -= TAPS_AT_ONCE) {
            uint4 bits[TAPS_AT_ONCE];
#pragma unroll
            for (int k = 0; k < TAPS_AT_ONCE; k++) {
                const int at = column + k0 + k;
                bits[k] = make_uint4(~0u, ~0u, ~0u, ~0u);
                if (k0 + k < p.kernel[0] && at >= 0 && at < p.in[0]) bits[k] = x[(begin + k0 + k) * p.pieces];
            }
#pragma unroll
            for (int k = TAPS_AT_ONCE - 1; k >= 0; k--) largest.look_at(bits[k], k1 * p.kernel[0] + k0 + k);
        }
    }
    return largest.taps(p.infinity);
}

// What the windows that reach a tile give, whose first cell is [down, across]; x, y, g: this thread's pieces of an image.
template <int WIDTH>
__device__ __forceinline__ void find_largest(const hyp_cuda_pool_tiles &p, int down, int across, const uint4 *x,
                                             const uint4 *y, const uint4 *g, const tile_room &room)
{
#pragma unroll 1
    for (int i = threadIdx.y; i < p.windows[1] * p.windows[0]; i += blockDim.y) {
        const int row = (int)((uint64_t)(uint32_t)i * p.per_row >> 32), column = i - row * p.windows[0];
        const int o1 = down + p.first[1] + row, o0 = across + p.first[0] + column, to = i * blockDim.x + threadIdx.x;
        uint2 taps = make_uint2(~0u, ~0u);
        if (o1 >= 0 && o1 < p.out[1] && o0 >= 0 && o0 < p.out[0]) {
            const int at = (o1 * p.out[0] + o0) * p.pieces;
            const uint4 most = y[at], by_y = g[at];
            taps = first_largest<WIDTH>(p, x, o1 * p.stride[1] - p.before[1], o0 * p.stride[0] - p.before[0], most);
            room.g[to] = by_y;
        }
        room.taps[to] = taps;
    }
}

// The gradient of place [i1, i0] of a cell of the tile, from the windows that reach it.
template <uint32_t dtype>
__device__ __forceinline__ uint4 sum_of(const hyp_cuda_pool_tiles &p, int cell1, int cell0, int i1, int i0,
                                        const tile_room &room)
{
    constexpr int WIDTH = dtype == HYP_F32 ? 4 : 8;
    piece sum;
#pragma unroll
    for (int e = 0; e < 8; e++) sum.v[e] = 0;
#pragma unroll 1
    for (int o1 = cell1, k1 = p.tap[1] + i1; k1 >= 0; o1++, k1 -= p.stride[1]) {
#pragma unroll 1
        for (int o0 = cell0, k0 = p.tap[0] + i0; k0 >= 0; o0++, k0 -= p.stride[0]) {
            if (k1 >= p.kernel[1] || k0 >= p.kernel[0]) continue;
            const int at = (o1 * p.windows[0] + o0) * blockDim.x + threadIdx.x;
            const uint32_t tap = (uint32_t)(k1 * p.kernel[0] + k0) * 0x01010101u;
            const uint2 taps = room.taps[at];
            const piece g = to_piece(dtype, room.g[at]);
#pragma unroll
            for (int e = 0; e < WIDTH; e++) {
                const uint32_t other = ((e < 4 ? taps.x : taps.y) ^ tap) & 255u << 8 * (e % 4);
                if (!other) sum.v[e] += g.v[e];
            }
        }
    }
    return to_bits(dtype, sum);
}

// Threads do cells and not places: then those of a warp have as many windows each.
template <uint32_t dtype>
__device__ __forceinline__ void give_tile(const hyp_cuda_pool_tiles &p, int down, int across, uint4 *by_x,
                                          const tile_room &room)
{
    constexpr int SIDE = HYP_CUDA_POOL_CELLS;
#pragma unroll 1
    for (int i = threadIdx.y; i < SIDE * SIDE; i += blockDim.y) {
        const int cell1 = i / SIDE, cell0 = i % SIDE;
        const int row = (down + cell1) * p.stride[1], column = (across + cell0) * p.stride[0];
#pragma unroll 1
        for (int i1 = 0; i1 < p.stride[1] && row + i1 < p.in[1]; i1++)
#pragma unroll 1
            for (int i0 = 0; i0 < p.stride[0] && column + i0 < p.in[0]; i0++)
                by_x[((row + i1) * p.in[0] + column + i0) * p.pieces] = sum_of<dtype>(p, cell1, cell0, i1, i0, room);
    }
}

__device__ __forceinline__ void pool_gradient_by_tiles(const hyp_cuda_pool_tiles &p)
{
    extern __shared__ double shared[];
    tile_room room;
    room.g = (uint4 *)shared;
    room.taps = (uint2 *)(room.g + p.windows[1] * p.windows[0] * blockDim.x);
#pragma unroll 1
    for (int64_t i = blockIdx.x; i < p.tiles; i += gridDim.x) {
        const int64_t tile = divide(i, p.parts), row = divide(tile, p.across), image = divide(row, p.down);
        const int across = (int)(tile - row * p.across.size) * HYP_CUDA_POOL_CELLS;
        const int down = (int)(row - image * p.down.size) * HYP_CUDA_POOL_CELLS;
        const int piece = (int)(i - tile * p.parts.size) * blockDim.x + threadIdx.x;
        const int64_t x = image * p.in[1] * p.in[0] * p.pieces + piece, y = image * p.out[1] * p.out[0] * p.pieces + piece;
        __syncthreads(); // for what was read of the tile before
        if (piece < p.pieces) {
            const uint4 *by_place = (const uint4 *)p.x + x, *most = (const uint4 *)p.y + y, *g = (const uint4 *)p.g + y;
            if (p.dtype == HYP_F32)
                find_largest<4>(p, down, across, by_place, most, g, room);
            else
                find_largest<8>(p, down, across, by_place, most, g, room);
        }
        __syncthreads();
        if (piece >= p.pieces) continue;
        uint4 *to = (uint4 *)p.by_x + x;
        switch (p.dtype) {
        case HYP_F32: give_tile<HYP_F32>(p, down, across, to, room); break;
        case HYP_BF16: give_tile<HYP_BF16>(p, down, across, to, room); break;
        default: give_tile<HYP_F16>(p, down, across, to, room);
        }
    }
}

} // namespace hyp_device

KERNEL(pool_gradient_f32, hyp_cuda_pool_gradient, (pooling_gradient<float, int32_t>(p)))
KERNEL(pool_gradient_f64, hyp_cuda_pool_gradient, (pooling_gradient<double, int64_t>(p)))

extern "C" __global__ void __launch_bounds__(HYP_CUDA_POOL_THREADS, 5)
    pool_gradient_tiles(const __grid_constant__ hyp_cuda_pool_tiles p)
{
    wait_for_kernels_before();
    pool_gradient_by_tiles(p);
}
