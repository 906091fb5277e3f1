// channels.cu - what batch normalizations take of each channel over all else, in one read: mean and variance, or the two
// sums of a gradient. Threads that share channels take terms in a fixed order, in parts, which a second kernel puts
// together. Part of image.cu, behind reduce.cu.

inline namespace hyp_device
{

// Of some terms: how many, their mean, and the sum of the squares of their distances from it; or, of a gradient, two sums.
template <typename C> struct of_terms {
    C a, b, c;
};

// Of the terms of both (Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983).
template <bool GRADIENT, typename C> __device__ __forceinline__ of_terms<C> both_of(of_terms<C> x, of_terms<C> y)
{
    if (GRADIENT) return {x.a + y.a, x.b + y.b, 0};
    const C all = x.a + y.a, away = y.b - x.b, share = all > 0 ? y.a / all : 0;
    return {all, x.b + away * share, x.c + y.c + away * away * x.a * share};
}

// What a thread has of W channels, or of one in W places. Distances are taken from `base`: of a gradient that is the
// mean, else the thread's own first term, so that of n terms no more than n units of roundoff are lost, wherever they
// lie.
template <typename C, int W> struct running {
    C base[W], sum[W], along[W];
    C inverse[W], scale[W], bias[W]; // of a relu behind the normalization
};

// g where the relu lets x through.
template <typename C, int W>
__device__ __forceinline__ void pass_relu(const running<C, W> &r, C least, const C (&x)[W], C (&g)[W])
{
#pragma unroll
    for (int e = 0; e < W; e++) {
        const C normal = rounded_product(r.base[e] - x[e], r.inverse[e]);
        if (!(r.bias[e] - rounded_product(normal, r.scale[e]) > least)) g[e] = 0;
    }
}

// Takes the n-th of a thread's terms. Places beyond the tensor's width hold zeros.
template <bool GRADIENT, typename C, int W>
__device__ __forceinline__ void take_term(running<C, W> &r, const C (&x)[W], const C (&g)[W], bool first)
{
#pragma unroll
    for (int e = 0; e < W; e++) {
        if (!GRADIENT && first) r.base[e] = x[e];
        const C away = x[e] - r.base[e];
        r.sum[e] += GRADIENT ? g[e] : away;
        r.along[e] += GRADIENT ? g[e] * away : away * away;
    }
}

template <bool GRADIENT, typename C, int W>
__device__ __forceinline__ of_terms<C> made_of(const running<C, W> &r, int e, int64_t count)
{
    if (GRADIENT) return {r.along[e], r.sum[e], 0};
    const C n = (C)count, mean = n > 0 ? r.sum[e] / n : 0;
    return {n, r.base[e] + mean, r.along[e] - r.sum[e] * mean};
}

// A term as it is in memory: one element, or 16 bytes.
template <typename C, int W> struct term {
    single<C> bits;
    __device__ void load(uint32_t dtype, uint64_t data, int64_t at)
    {
        bits.load(dtype, data + (uint64_t)at * element_size(dtype));
    }
    __device__ void numbers(uint32_t dtype, C (&v)[W]) const { v[0] = bits.number(dtype); }
};
template <> struct term<float, 8> {
    uint4 bits;
    __device__ void load(uint32_t dtype, uint64_t data, int64_t at)
    {
        bits = load_bits16(data, at >> (dtype == HYP_F32 ? 2 : 3));
    }
    __device__ void numbers(uint32_t dtype, float (&v)[8]) const
    {
        const piece p = to_piece(dtype, bits);
#pragma unroll
        for (int e = 0; e < 8; e++) v[e] = e < 4 || dtype != HYP_F32 ? p.v[e] : 0;
    }
};

// The terms begin, begin + step ... before `end`, of which it returns how many there were.
template <bool GRADIENT, typename C, int W>
__device__ __forceinline__ int64_t take_all(const hyp_cuda_channels &p, int64_t base, int64_t i, int64_t end, int64_t step,
                                            running<C, W> &r)
{
    constexpr int AT_ONCE = GRADIENT ? 2 : 4;
    int64_t count = 0, run = divide(i, p.run), rest = i - run * p.run.size, at = base + i * p.stride + run * p.jump;
    const int64_t runs = divide(step, p.run), more = step - runs * p.run.size, far = step * p.stride + runs * p.jump;
#pragma unroll 1
    for (; i < end; i += AT_ONCE * step) {
        term<C, W> x[AT_ONCE], g[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * step < end) {
                x[j].load(p.dtype, p.x, at);
                if (GRADIENT) g[j].load(p.dtype, p.g, at);
            }
            at += far;
            rest += more;
            if (rest >= p.run.size) rest -= p.run.size, at += p.jump;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * step >= end) continue;
            C v[W], w[W] = {};
            x[j].numbers(p.dtype, v);
            if (GRADIENT) g[j].numbers(p.dtype, w);
            if (GRADIENT && p.scale) pass_relu(r, (C)p.least, v, w);
            take_term<GRADIENT, C, W>(r, v, w, count == 0);
            count++;
        }
    }
    return count;
}

// A block's columns are groups of channels, its rows the threads that share one. Every thread takes part in every round,
// for the barriers.
template <bool GRADIENT, typename C, int W> __device__ __forceinline__ void over_channels(const hyp_cuda_channels &p)
{
    extern __shared__ double shared[];
    const int width = W == 1 ? 1 : p.dtype == HYP_F32 ? 4 : 8, wide = p.along ? 1 : width;
    const unsigned self = threadIdx.y * blockDim.x + threadIdx.x, size = blockDim.x * blockDim.y;
    of_terms<C> *room = (of_terms<C> *)shared;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.x; first < p.total; first += (int64_t)gridDim.x * blockDim.x) {
        const int64_t mine = first + threadIdx.x, part = divide(mine, p.groups), group = mine - part * p.groups.size;
        const int64_t begin = part * p.terms, limit = begin + p.terms < p.all_terms ? begin + p.terms : p.all_terms;
        const int64_t channel = group * wide, end = mine < p.total ? limit : begin;
        running<C, W> r;
#pragma unroll
        for (int e = 0; e < W; e++) {
            r.base[e] = r.sum[e] = r.along[e] = 0;
            if (!GRADIENT || mine >= p.total || e >= width) continue;
            const int64_t of = p.along ? channel : channel + e;
            r.base[e] = ((const C *)p.mean)[of];
            if (!p.scale) continue;
            r.inverse[e] = ((const C *)p.inverse)[of];
            r.scale[e] = ((const C *)p.scale)[of];
            r.bias[e] = ((const C *)p.bias)[of];
        }
        const int64_t count = take_all<GRADIENT, C, W>(p, group * p.group, begin + threadIdx.y, end, blockDim.y, r);
        __syncthreads(); // what was read of the round before
#pragma unroll
        for (int e = 0; e < W; e++) {
            if (e >= width) continue;
            of_terms<C> v = made_of<GRADIENT, C, W>(r, e, count);
            if (p.along && e > 0) v = both_of<GRADIENT>(room[self], v);
            room[(p.along ? 0 : e * size) + self] = v;
        }
#pragma unroll 1
        for (unsigned half = blockDim.y / 2; half; half /= 2) {
            __syncthreads();
            const unsigned each = half * blockDim.x;
#pragma unroll 1
            for (unsigned i = self; i < wide * each; i += size) { // all threads, whichever rows and elements they have read
                of_terms<C> *of = room + i / each * size + i % each;
                *of = both_of<GRADIENT>(*of, of[each]);
            }
        }
        __syncthreads();
#pragma unroll 1
        for (int e = 0; e < wide && threadIdx.y == 0 && mine < p.total; e++) {
            of_terms<C> *to = (of_terms<C> *)p.parts + part * p.channels + channel + e;
            *to = room[e * size + self];
        }
    }
}

// A channel for each column of a block, whose rows share its parts.
template <bool GRADIENT, typename C> __device__ __forceinline__ void join_parts(const hyp_cuda_channels_end &p)
{
    extern __shared__ double shared[];
    const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
    of_terms<C> *room = (of_terms<C> *)shared;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * blockDim.x; first < p.channels; first += (int64_t)gridDim.x * blockDim.x) {
        const int64_t channel = first + threadIdx.x;
        of_terms<C> all = {0, 0, 0};
#pragma unroll 4
        for (int64_t i = threadIdx.y; i < p.part_count && channel < p.channels; i += blockDim.y)
            all = both_of<GRADIENT>(all, ((const of_terms<C> *)p.parts)[i * p.channels + channel]);
        __syncthreads();
        room[self] = all;
#pragma unroll 1
        for (unsigned half = blockDim.y / 2; half; half /= 2) {
            __syncthreads();
            if (threadIdx.y < half) room[self] = both_of<GRADIENT>(room[self], room[self + half * blockDim.x]);
        }
        if (threadIdx.y > 0 || channel >= p.channels) continue;
        all = room[self];
        const C count = (C)p.count;
        if (GRADIENT) {
            ((C *)p.first)[channel] = all.a * ((const C *)p.inverse)[channel] / count;
            ((C *)p.second)[channel] = all.b / count;
        } else {
            ((C *)p.first)[channel] = all.b;
            ((C *)p.second)[channel] = all.c / count;
            ((C *)p.third)[channel] = 1 / sqrt(all.c / count + (C)p.epsilon);
        }
    }
}

} // namespace hyp_device

#define CHANNELS(name, args, body)                                                                                     \
    extern "C" __global__ void __launch_bounds__(HYP_CUDA_REDUCE_THREADS, 2) name(const __grid_constant__ args p)      \
    {                                                                                                                  \
        wait_for_kernels_before();                                                                                     \
        body;                                                                                                          \
    }
CHANNELS(batch_stats_f32, hyp_cuda_channels, (over_channels<false, float, 1>(p)))
CHANNELS(batch_stats_f64, hyp_cuda_channels, (over_channels<false, double, 1>(p)))
CHANNELS(batch_stats_pieces, hyp_cuda_channels, (over_channels<false, float, 8>(p)))
CHANNELS(batch_gradient_f32, hyp_cuda_channels, (over_channels<true, float, 1>(p)))
CHANNELS(batch_gradient_f64, hyp_cuda_channels, (over_channels<true, double, 1>(p)))
CHANNELS(batch_gradient_pieces, hyp_cuda_channels, (over_channels<true, float, 8>(p)))
CHANNELS(batch_stats_end_f32, hyp_cuda_channels_end, (join_parts<false, float>(p)))
CHANNELS(batch_stats_end_f64, hyp_cuda_channels_end, (join_parts<false, double>(p)))
CHANNELS(batch_gradient_end_f32, hyp_cuda_channels_end, (join_parts<true, float>(p)))
CHANNELS(batch_gradient_end_f64, hyp_cuda_channels_end, (join_parts<true, double>(p)))
#undef CHANNELS
