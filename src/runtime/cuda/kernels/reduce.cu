// reduce.cu - sums, means, and what is largest or smallest, over any axes. What counts is how many bytes are asked for
// before the first is needed: pieces of 16 bytes where elements lie so, several of them at once. Every result is made by
// threads in a fixed order, so its bits are the same in every run. Part of image.cu, behind rows.cu.

inline namespace hyp_device
{

// What makes the smallest the largest, and back.
__device__ __forceinline__ float turned(float x) { return -x; }
__device__ __forceinline__ double turned(double x) { return -x; }
__device__ __forceinline__ int64_t turned(int64_t x) { return ~x; }
__device__ __forceinline__ float lowest(float) { return -INFINITY; }
__device__ __forceinline__ double lowest(double) { return -INFINITY; }
__device__ __forceinline__ int64_t lowest(int64_t) { return (int64_t)1 << 63; }

// Two results of some terms each as one of all of them.
struct take_both {
    bool largest;
    template <typename C> __device__ C operator()(C a, C b) const { return largest ? take_max()(a, b) : a + b; }
};

// One element as it is in memory, which nothing waits for before it is made a number.
template <typename C> struct single {
    C value;
    __device__ void load(uint32_t dtype, uint64_t at) { value = load_native<C>(dtype, at, 0); }
    __device__ C number(uint32_t) const { return value; }
};
template <> struct single<float> {
    uint32_t bits;
    __device__ void load(uint32_t dtype, uint64_t at) { bits = dtype == HYP_F32 ? *(const uint32_t *)at : *(const uint16_t *)at; }
    __device__ float number(uint32_t dtype) const
    {
        if (dtype == HYP_F32) return __uint_as_float(bits);
        return dtype == HYP_BF16 ? from_bfloat((uint16_t)bits) : from_half((uint16_t)bits);
    }
};

// Takes the terms i, i + step ... up to `end`, as p lays them out behind `base`: single ones.
template <typename C>
__device__ __forceinline__ void take_terms(const hyp_cuda_reduce &p, int64_t base, int64_t i, int64_t end, int64_t step,
                                           C (&sum)[1])
{
    constexpr int AT_ONCE = sizeof(C) == 8 ? 2 : 4; // 16 bytes
    const int64_t size = (int64_t)p.size;
    int64_t row = divide(i, p.row_terms), rest = i - row * p.row_terms.size;
    int64_t rows = divide(step, p.row_terms), more = step - rows * p.row_terms.size;
    const int64_t far = (step * p.term_stride + rows * p.row_stride) * size, wrap = p.row_stride * size;
    uint64_t at = p.x + (uint64_t)((base + i * p.term_stride + row * p.row_stride) * size);
#pragma unroll 1
    for (; i < end; i += AT_ONCE * step) {
        single<C> some[AT_ONCE];
        int64_t left = end - i;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (j * step < left) some[j].load(p.dtype, at);
            at += (uint64_t)far;
            if (p.row_stride == 0) continue;
            rest += more;
            if (rest >= p.row_terms.size) rest -= p.row_terms.size, at += (uint64_t)wrap;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (j * step >= left) break;
            C v = some[j].number(p.dtype);
            sum[0] = p.largest ? take_max()(p.turned ? turned(v) : v, sum[0]) : sum[0] + v;
        }
    }
}

// The same of terms, or results, of 16 bytes each, 8 elements or 4. They are told apart element by element: where that is done
// by branches around all of them, an H100 takes twice as long.
__device__ __forceinline__ void take_terms(const hyp_cuda_reduce &p, int64_t base, int64_t i, int64_t end, int64_t step,
                                           float (&sum)[8])
{
    constexpr int AT_ONCE = 4;
    const take_both both = {p.largest != 0};
    int64_t row = divide(i, p.row_terms), rest = i - row * p.row_terms.size, at = base + i * p.term_stride + row * p.row_stride;
    int64_t rows = divide(step, p.row_terms), more = step - rows * p.row_terms.size;
    int64_t far = step * p.term_stride + rows * p.row_stride;
#pragma unroll 1
    for (; i < end; i += AT_ONCE * step) {
        uint4 bits[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * step < end) bits[j] = load_bits16(p.x, at >> (p.dtype == HYP_F32 ? 2 : 3));
            at += far;
            rest += more;
            if (rest >= p.row_terms.size) rest -= p.row_terms.size, at += p.row_stride;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (i + j * step >= end) continue;
            const uint32_t word[4] = {bits[j].x, bits[j].y, bits[j].z, bits[j].w};
#pragma unroll
            for (int e = 0; e < 8; e++) {
                uint16_t half = (uint16_t)(word[e / 2] >> 16 * (e % 2));
                float v = p.dtype == HYP_F32    ? __uint_as_float(word[e % 4])
                          : p.dtype == HYP_BF16 ? from_bfloat(half)
                                                : from_half(half);
                sum[e] = both(p.turned ? turned(v) : v, sum[e]);
            }
        }
    }
}

// Takes terms one by one: along any number of axes, or, of a run that begins at `base`, the elements before and behind its
// pieces, which are `skip` elements behind the first `head`.
template <typename C>
__device__ __forceinline__ void take_loose(const hyp_cuda_reduce &p, int64_t base, int64_t i, int64_t end, int64_t step,
                                           int64_t head, int64_t skip, C &sum)
{
    const take_both both = {p.largest != 0};
#pragma unroll 1
    for (; i < end; i += step) {
        int64_t at = i < head ? i : i + skip, unused;
        if (!p.run) offsets(i, 0, p.reduced_rank, p.reduced, p.reduced_stride, p.reduced_stride, at, unused);
        C x = load_native<C>(p.dtype, p.x, base + at);
        sum = both(p.turned ? turned(x) : x, sum);
    }
}

// Another lane's value.
template <typename C> __device__ __forceinline__ C from_lane(C v, unsigned distance)
{
    return __shfl_xor_sync(0xffffffff, v, distance);
}

// Combines over the threads that share a block's x dimension, whole warps or equal parts of one; the first gets the result.
// `room` holds one value for each warp. Short in code, unlike over_row.
template <typename C, typename F> __device__ __forceinline__ C over_x(C v, C *room, F both)
{
    unsigned lanes = blockDim.x < 32 ? blockDim.x : 32, warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32;
#pragma unroll 1
    for (unsigned distance = lanes / 2; distance; distance /= 2) v = both(v, from_lane(v, distance));
    if (blockDim.x <= 32) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[warp] = v;
    __syncthreads();
#pragma unroll 1
    for (unsigned i = 1; threadIdx.x == 0 && i < blockDim.x / 32; i++) v = both(v, room[warp + i]);
    return v;
}

// The same over a block's y dimension, for up to W values of each thread. `room` holds them all.
template <typename C, int W> __device__ __forceinline__ void over_y(C (&v)[W], int width, C *room, take_both both)
{
    unsigned self = threadIdx.y * blockDim.x + threadIdx.x, size = blockDim.x * blockDim.y;
    if (blockDim.y == 1) return;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < W; e++)
        if (e < width) room[e * size + self] = v[e];
#pragma unroll 1
    for (unsigned half = blockDim.y / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.y >= half) continue;
#pragma unroll
        for (int e = 0; e < W; e++)
            if (e < width) room[e * size + self] = v[e] = both(v[e], room[e * size + self + half * blockDim.x]);
    }
}

// Writes what is made of the first `width` of W results from y[at] on.
template <typename C, int W>
__device__ __forceinline__ void store_results(const hyp_cuda_reduce &p, int64_t at, const C (&v)[W], int width)
{
    bool whole = W > 1 && width == (p.y_dtype == HYP_F32 ? 4 : 8);
    C x[W]; // a loop over an array in local memory, which is short
#pragma unroll
    for (int e = 0; e < W; e++) x[e] = v[e];
#pragma unroll 1
    for (int e = 0; e < width; e++) {
        if (p.turned) x[e] = turned(x[e]);
        if (p.mean >= 0) x[e] = quotient(x[e], (C)p.mean);
        if (p.add) x[e] += load_native<C>(p.y_dtype, p.y, at + e);
        if (!whole) store_native(p.y_dtype, p.y, at + e, x[e]);
    }
    if constexpr (W > 1) {
        piece all;
#pragma unroll
        for (int e = 0; e < W; e++) all.v[e] = x[e];
        if (whole) store_vector(p.y_dtype, p.y, at / width, all);
    }
}

// A team has up to W results that are neighbours, or, along x, one whose terms are taken so many at a time. Every thread takes
// part in every round, for the barriers.
template <typename C, int W> __device__ __forceinline__ void reduce(const hyp_cuda_reduce &p)
{
    extern __shared__ double shared[];
    const take_both both = {p.largest != 0};
    const int width = W == 1 ? 1 : p.dtype == HYP_F32 ? 4 : 8;
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.total; first += (int64_t)gridDim.x * teams) {
        int64_t result = first + mine, part = divide(result, p.results), base, unused;
        int64_t begin = part * p.terms, end = begin + p.terms < p.all_terms ? begin + p.terms : p.all_terms;
        if (result >= p.total) end = begin;
        offsets(result - part * p.results.size, 0, p.kept_rank, p.kept, p.kept_stride, p.kept_stride, base, unused);
        C sum[W];
#pragma unroll
        for (int e = 0; e < W; e++) sum[e] = p.largest ? lowest((C)0) : 0;
        int64_t loose = p.reduced_rank > 2 ? end : 0, head = 0, skip = 0, from = base;
        if (W > 1 && p.run) { // its pieces, from the first multiple of 16 bytes on, and its ends
            int64_t size = end - begin, ahead = -(base + begin) & (width - 1), pieces = size > ahead ? (size - ahead) / width : 0;
            from = base + begin;
            head = ahead;
            skip = pieces * width;
            loose = size - skip;
            base = from + ahead;
            begin = 0;
            end = pieces;
        }
        if (p.reduced_rank <= 2) take_terms(p, base, begin + member, end, team, sum);
        take_loose(p, from, begin + member, loose, team, head, skip, sum[0]);
        if (along_x) {
#pragma unroll
            for (int e = 1; e < W; e++)
                if (e < width) sum[0] = both(sum[0], sum[e]);
            sum[0] = over_x(sum[0], (C *)shared, both);
        } else {
            over_y<C, W>(sum, width, (C *)shared, both);
        }
        if (member == 0 && result < p.total) store_results<C, W>(p, along_x ? result : result * width, sum, along_x ? 1 : width);
    }
}

} // namespace hyp_device

#define REDUCE(name, C, W)                                                                                             \
    extern "C" __global__ void __launch_bounds__(HYP_CUDA_REDUCE_THREADS, 4)                                           \
        name(const __grid_constant__ hyp_cuda_reduce p)                                                                \
    {                                                                                                                  \
        wait_for_kernels_before();                                                                                     \
        reduce<C, W>(p);                                                                                               \
    }
REDUCE(reduce_f32, float, 1)
REDUCE(reduce_f64, double, 1)
REDUCE(reduce_i64, int64_t, 1)
REDUCE(reduce_pieces, float, 8)
#undef REDUCE
