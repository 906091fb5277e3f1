// kernels.cu - the kernels that cuBLASLt lacks: pointwise programs, softmax of any strides and data movement. They are
// bound by memory, so element types are decided by uniform branches at run time and the code stays small.
//
// Every tensor starts at a multiple of 16 bytes (the host sees to it), offsets of copies excepted.
#define HYP_PHILOX_FN static __device__ __forceinline__
#include "base/philox.h"
#include "runtime/cuda/kernels/common.cuh"
#include "runtime/cuda/kernels/moves.cuh"
#include "runtime/cuda/kernels/pointwise.cuh"

inline namespace hyp_device
{

// ---- pointwise --------------------------------------------------------------------------------------------

// The instructions that are long: one element at a time, by way of an array in local memory, which keeps their code
// small. They cost more than that way does.
template <typename C, int V>
__device__ __forceinline__ void execute_long(const hyp_cuda_pw_instr &in, const C (&a)[V], const C (&b)[V], C (&r)[V])
{
    C x[V], y[V];
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = a[v], y[v] = b[v];
#pragma unroll 1
    for (int v = 0; v < V; v++) x[v] = long_instr(in.op, x[v], y[v], in.p, in.q);
#pragma unroll
    for (int v = 0; v < V; v++) r[v] = x[v];
}

template <typename C, int V> __device__ __forceinline__ void round_long(uint32_t dtype, C (&r)[V])
{
    C x[V];
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = r[v];
#pragma unroll 1
    for (int v = 0; v < V; v++) x[v] = round_to(dtype, x[v]);
#pragma unroll
    for (int v = 0; v < V; v++) r[v] = x[v];
}

// One instruction on V elements.
template <typename C, int V>
__device__ __forceinline__ void execute(const hyp_cuda_pw_instr &in, const C (&a)[V], const C (&b)[V], const C (&c)[V],
                                        C (&r)[V])
{
#define EACH(name)                                                                                                     \
    case HYP_PW_##name:                                                                                                \
        _Pragma("unroll") for (int v = 0; v < V; v++) r[v] = instruction(HYP_PW_##name, a[v], b[v], c[v], in.p, in.q); \
        break;
    switch (in.op) {
        EACH(ADD)
        EACH(SUB)
        EACH(MUL)
        EACH(MIN)
        EACH(MAX)
        EACH(RELU)
        EACH(LEAKY_RELU)
        EACH(CLIP)
        EACH(CAST)
        EACH(ABS)
        EACH(NEG)
        EACH(NOT)
        EACH(EQUAL)
        EACH(LESS)
        EACH(LESS_EQUAL)
        EACH(WHERE)
    default: execute_long(in, a, b, r);
    }
    if (in.to == (sizeof(C) == 4 ? HYP_F32 : HYP_F64)) return;
    if (V > 1 && in.to == HYP_F16) {
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)from_half(half_bits((float)r[v]));
    } else if (V > 1 && in.to == HYP_BF16) {
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)from_bfloat(bfloat_bits((float)r[v]));
    } else {
        round_long(in.to, r);
    }
#undef EACH
}

// V = 8 neighbours of a float type in accesses of 16 bytes, or of the 8 that they have.
__device__ __forceinline__ void load_vector(uint32_t dtype, uint64_t data, int64_t i, float (&r)[8])
{
    if (dtype == HYP_F32) {
        const float4 *p = (const float4 *)((const float *)data + i);
        float4 low = p[0], high = p[1];
        r[0] = low.x, r[1] = low.y, r[2] = low.z, r[3] = low.w;
        r[4] = high.x, r[5] = high.y, r[6] = high.z, r[7] = high.w;
        return;
    }
    if (dtype == HYP_F8E4M3) {
        uint2 bytes = *(const uint2 *)((const uint8_t *)data + i);
#pragma unroll
        for (int k = 0; k < 8; k++) r[k] = from_byte((uint8_t)((k < 4 ? bytes.x : bytes.y) >> 8 * (k % 4)));
        return;
    }
    uint4 bits = *(const uint4 *)((const uint16_t *)data + i);
    const uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint16_t half = (uint16_t)(word[k / 2] >> 16 * (k % 2));
        r[k] = dtype == HYP_BF16 ? from_bfloat(half) : from_half(half);
    }
}

__device__ __forceinline__ void store_vector(uint32_t dtype, uint64_t data, int64_t i, const float (&r)[8])
{
    if (dtype == HYP_F32) {
        float4 *p = (float4 *)((float *)data + i);
        p[0] = make_float4(r[0], r[1], r[2], r[3]);
        p[1] = make_float4(r[4], r[5], r[6], r[7]);
        return;
    }
    uint32_t word[4] = {0, 0, 0, 0};
    if (dtype == HYP_F8E4M3) {
#pragma unroll
        for (int k = 0; k < 8; k += 2) word[k / 4] |= (uint32_t)to_bytes(r[k], r[k + 1]) << 8 * (k % 4);
        *(uint2 *)((uint8_t *)data + i) = make_uint2(word[0], word[1]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint16_t half = dtype == HYP_BF16 ? bfloat_bits(r[k]) : half_bits(r[k]);
        word[k / 2] |= (uint32_t)half << 16 * (k % 2);
    }
    *(uint4 *)((uint16_t *)data + i) = make_uint4(word[0], word[1], word[2], word[3]);
}

// Other widths never vectorise; these let the one body below compile for them.
template <typename C, int V> __device__ __forceinline__ void load_vector(uint32_t, uint64_t, int64_t, C (&)[V]) {}
template <typename C, int V> __device__ __forceinline__ void store_vector(uint32_t, uint64_t, int64_t, const C (&)[V])
{
}

// Where a thread stands: V elements from column `inner` of the row `row`, of which `count` exist.
struct place {
    int64_t row, inner;
    int count;
};

template <typename C, int V>
__device__ __forceinline__ void fetch(const hyp_cuda_pointwise &p, hyp_cuda_pw_operand from, const place &at,
                                      const C *temps, const C (&last)[V], C (&r)[V])
{
    switch (from.kind) {
    case HYP_PW_LAST:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = last[v];
        break;
    case HYP_PW_TEMP:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = temps[((int)from.index * V + v) * (int)blockDim.x];
        break;
    case HYP_PW_CONST:
#pragma unroll
        for (int v = 0; v < V; v++) r[v] = (C)p.constant[from.index];
        break;
    default: {
        const hyp_cuda_pw_input &in = p.input[from.index];
        int64_t offset, unused;
        offsets(at.row, 1, p.rank, p.extent, in.stride, in.stride, offset, unused);
        offset += at.inner * in.stride[0];
        if (V > 1 && in.vector && at.count == V) {
            load_vector(in.dtype, in.data, offset, r);
        } else {
            C x[V] = {}; // a loop over an array in local memory, as in execute_long
#pragma unroll 1
            for (int v = 0; v < at.count; v++) x[v] = load<C>(in.dtype, in.data, offset + v * in.stride[0]);
#pragma unroll
            for (int v = 0; v < V; v++) r[v] = x[v];
        }
    }
    }
}

// One thread does V neighbours of the innermost extent at a time. `vector` of a tensor is the host's promise that V
// neighbours of it can be read or written in one access wherever a thread stands.
template <typename C, int V> __device__ __forceinline__ void pointwise(const hyp_cuda_pointwise &p)
{
    extern __shared__ double shared[];
    C *temps = (C *)shared + threadIdx.x;
    if (p.gate && *(const volatile int64_t *)p.gate) return;
#pragma unroll 1
    for (int64_t chunk = first_thread(); chunk < p.chunks; chunk += thread_count()) {
        place at;
        at.row = p.rank > 1 ? divide(chunk, p.row_chunks) : 0;
        at.inner = (chunk - at.row * p.row_chunks.size) * V;
        int64_t left = p.extent[0].size - at.inner;
        at.count = left < V ? (int)left : V;
        C last[V] = {}, a[V], b[V] = {}, c[V] = {};
#pragma unroll 1
        for (uint32_t i = 0; i < p.instrs; i++) {
            const hyp_cuda_pw_instr &in = p.instr[i];
            fetch<C, V>(p, in.a, at, temps, last, a);
            if (in.op == HYP_PW_STORE) {
                const hyp_cuda_pw_output &out = p.output[in.b.index];
                int64_t first = at.row * p.extent[0].size + at.inner;
                if (V > 1 && out.vector && at.count == V) {
                    store_vector(out.dtype, out.data, first, a);
                } else {
                    C x[V];
#pragma unroll
                    for (int v = 0; v < V; v++) x[v] = a[v];
#pragma unroll 1
                    for (int v = 0; v < at.count; v++) store<C>(out.dtype, out.data, first + v, x[v]);
                }
                continue;
            }
            if (in.op < HYP_PW_RELU || in.op >= HYP_PW_MOD) fetch<C, V>(p, in.b, at, temps, last, b);
            if (in.op == HYP_PW_WHERE) fetch<C, V>(p, in.c, at, temps, last, c);
            execute<C, V>(in, a, b, c, last);
            if (in.temp_plus1) {
#pragma unroll
                for (int v = 0; v < V; v++) temps[((int)(in.temp_plus1 - 1) * V + v) * (int)blockDim.x] = last[v];
            }
        }
    }
}

// ---- softmax -------------------------------------------------------------------------------

struct take_max {
    template <typename C> __device__ C operator()(C a, C b) const { return a != a || a > b ? a : b; }
};
struct take_sum {
    template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};

// Combines over the threads of a block that share threadIdx.y (along x) or threadIdx.x (along y); all get the result.
// The order is fixed, so results are the same on every run. `room` holds one value for each thread of the block.
template <typename C, typename F> __device__ __noinline__ C combine(C v, C *room, bool along_x, F f)
{
    unsigned at = along_x ? threadIdx.x : threadIdx.y, size = along_x ? blockDim.x : blockDim.y;
    unsigned step = along_x ? 1 : blockDim.x, self = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();
    room[self] = v;
#pragma unroll 1
    for (unsigned half = size / 2; half; half /= 2) {
        __syncthreads();
        if (at < half) room[self] = f(room[self], room[self + half * step]);
    }
    __syncthreads();
    return room[self - at * step];
}

// What the elements under a largest one are less: 0 where that is -infinity, so that the exponentials are 0.
template <typename C> __device__ __forceinline__ C base_of(C top) { return top == (C)-INFINITY ? (C)0 : top; }

// The largest and the sum of exponentials of the elements member, member + team, ... of a column, in one pass: a larger
// one scales the sum that there is (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax",
// section 3). NaN is not the largest, but makes the sum NaN.
template <typename C>
__device__ __forceinline__ void gather_stats(const hyp_cuda_softmax &p, int64_t start, int64_t member, int64_t end,
                                             unsigned team, C &top, C &sum)
{
    constexpr int AT_ONCE = 4;
    int64_t inner = p.inner.size;
#pragma unroll 1
    for (int64_t i = member; i < end; i += AT_ONCE * (int64_t)team) {
        C v[AT_ONCE], most = top;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int64_t at = i + j * (int64_t)team;
            v[j] = at < end ? load_native<C>(p.dtype, p.x, start + at * inner) : (C)-INFINITY;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) most = v[j] > most ? v[j] : most;
        if (most > top && top > (C)-INFINITY) sum *= exponential(top - most);
        top = most;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) sum += exponential(v[j] - base_of(top));
    }
}

// The same of a row in 16 bits that begins at a multiple of 16 bytes, eight elements at a time.
__device__ __forceinline__ void gather_pieces(const hyp_cuda_softmax &p, int64_t start, int64_t member, int64_t end,
                                              unsigned team, float &top, float &sum)
{
    constexpr int PIECE = 8;
#pragma unroll 1
    for (int64_t i = PIECE * member; i < end; i += PIECE * (int64_t)team) {
        float v[PIECE], most = top;
        const uint4 bits = *(const uint4 *)((const uint16_t *)p.x + start + i);
        const uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < PIECE; j++) {
            uint16_t half = (uint16_t)(word[j / 2] >> 16 * (j % 2));
            v[j] = p.dtype == HYP_BF16 ? from_bfloat(half) : from_half(half);
            most = v[j] > most ? v[j] : most;
        }
        if (most > top && top > -INFINITY) sum *= exponential(top - most);
        top = most;
#pragma unroll
        for (int j = 0; j < PIECE; j++) sum += exponential(v[j] - base_of(top));
    }
}
__device__ __forceinline__ void gather_pieces(const hyp_cuda_softmax &, int64_t, int64_t, int64_t, unsigned, double &,
                                              double &)
{
}

// The columns of [outer, axis, inner], each shared by the threads along x (inner is 1) or y of a block. Every thread
// takes part in every round, for the barriers.
template <typename C, bool STATS> __device__ __forceinline__ void softmax(const hyp_cuda_softmax &p)
{
    extern __shared__ double shared[];
    bool along_x = p.along_x != 0;
    unsigned team = along_x ? blockDim.x : blockDim.y, member = along_x ? threadIdx.x : threadIdx.y;
    unsigned teams = along_x ? blockDim.y : blockDim.x, mine = along_x ? threadIdx.y : threadIdx.x;
    int64_t inner = p.inner.size;
#pragma unroll 1
    for (int64_t first = (int64_t)blockIdx.x * teams; first < p.columns; first += (int64_t)gridDim.x * teams) {
        int64_t column = first + mine, o = divide(column, p.inner);
        int64_t start = o * p.axis * inner + (column - o * inner), end = column < p.columns ? p.axis : 0;
        C mine_top = (C)-INFINITY, sum = 0;
        if (STATS && p.vector)
            gather_pieces(p, start, member, end, team, mine_top, sum);
        else
            gather_stats(p, start, member, end, team, mine_top, sum);
        C top = combine(mine_top, (C *)shared, along_x, take_max());
        sum = combine(mine_top > (C)-INFINITY ? sum * exponential(mine_top - top) : sum, (C *)shared, along_x, take_sum());
        if constexpr (STATS) {
            if (member > 0 || column >= p.columns) continue;
            ((C *)p.y)[column] = top;
            ((C *)p.log_sum)[column] = log(sum);
        } else {
            for (int64_t i = member; i < end; i += team) {
                int64_t at = start + i * inner;
                store_native(p.dtype, p.y, at, exponential(load_native<C>(p.dtype, p.x, at) - top) / sum);
            }
        }
    }
}

// ---- data movement ----------------------------------------------------------------------------------------

template <typename C> __device__ __forceinline__ void range(const hyp_cuda_range &p)
{
    for (int64_t i = first_thread(); i < p.count; i += thread_count())
        store<C>(p.dtype, p.y, i, load<C>(p.dtype, p.start, 0) + (C)i * load<C>(p.dtype, p.delta, 0));
}

// A thread makes four elements at a time, as the generator does.
__device__ __forceinline__ void random_blocks(const hyp_cuda_random &p)
{
    uint64_t seed = *(const uint64_t *)p.seed, number = *(const uint64_t *)p.number;
    int64_t blocks = (p.count + HYP_PHILOX_WORDS - 1) / HYP_PHILOX_WORDS;
    for (int64_t i = first_thread(); i < blocks; i += thread_count()) {
        float value[HYP_PHILOX_WORDS];
        hyp_random_block(seed, number, p.stream, (uint32_t)i, value);
#pragma unroll
        for (int k = 0; k < HYP_PHILOX_WORDS; k++)
            if (HYP_PHILOX_WORDS * i + k < p.count) ((float *)p.y)[HYP_PHILOX_WORDS * i + k] = value[k];
    }
}

// Elements of up to 16 bytes.
__device__ __forceinline__ void move(uint32_t size, uint64_t y, int64_t to, uint64_t x, int64_t from)
{
    if (size == 16)
        ((uint4 *)y)[to] = ((const uint4 *)x)[from];
    else
        store_bits(size, y, to, load_bits(size, x, from));
}

// P is hyp_cuda_copy or hyp_cuda_part. What is large moves four pieces of 16 bytes at a time.
template <typename P> __device__ __forceinline__ void copy_elements(const P &p, int64_t first, int64_t step)
{
    constexpr int AT_ONCE = 4;
    int64_t i = first, from[AT_ONCE], to[AT_ONCE];
#pragma unroll 1
    for (; p.size == 16 && i + (AT_ONCE - 1) * step < p.total; i += AT_ONCE * step) {
        uint4 piece[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            offsets(i + j * step, 0, p.rank, p.extent, p.x_stride, p.y_stride, from[j], to[j]);
            piece[j] = ((const uint4 *)p.x)[from[j]];
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) ((uint4 *)p.y)[to[j]] = piece[j];
    }
#pragma unroll 1
    for (; i < p.total; i += step) {
        offsets(i, 0, p.rank, p.extent, p.x_stride, p.y_stride, from[0], to[0]);
        move(p.size, p.y, to[0], p.x, from[0]);
    }
}

__device__ __forceinline__ void copy_parts(const hyp_cuda_copies &p)
{
    uint32_t part = 0;
    while (part + 1 < p.count && blockIdx.x >= p.first_block[part + 1]) part++;
    int64_t threads = (int64_t)(p.first_block[part + 1] - p.first_block[part]) * blockDim.x;
    copy_elements(p.part[part], (int64_t)(blockIdx.x - p.first_block[part]) * blockDim.x + threadIdx.x, threads);
}

// Any one of several bad indexes may be the one reported.
__device__ __forceinline__ void report_index(uint64_t error, uint32_t step, int64_t index)
{
    volatile int64_t *report = (volatile int64_t *)error;
    report[1] = index;
    report[2] = step;
    report[0] = 1;
}

__device__ __forceinline__ void gather_elements(const hyp_cuda_gather &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), o = divide(row, p.count), j = row - o * p.count.size;
        int64_t index = p.wide_indices ? ((const int64_t *)p.indices)[j] : ((const int32_t *)p.indices)[j];
        int64_t at = index < 0 ? index + p.axis : index;
        if (at < 0 || at >= p.axis) {
            report_index(p.error, p.step, index);
            continue;
        }
        move(p.size, p.y, i, p.x, (o * p.axis + at) * p.inner.size + (i - row * p.inner.size));
    }
}

__device__ __forceinline__ void gather_places(const hyp_cuda_gather_along &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t from, unused, index = p.wide_indices ? ((const int64_t *)p.indices)[i] : ((const int32_t *)p.indices)[i];
        int64_t at = index < 0 ? index + p.axis : index;
        offsets(i, 0, p.rank, p.extent, p.stride, p.stride, from, unused);
        if (at >= 0 && at < p.axis)
            move(p.size, p.y, i, p.x, from + at * p.axis_stride);
        else
            report_index(p.error, p.step, index);
    }
}

__device__ __forceinline__ void gather_rows(const hyp_cuda_gather_nd &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.inner), from = divide(row, p.of_batch) * p.batch + (i - row * p.inner.size);
        bool found = true;
#pragma unroll 1
        for (uint32_t a = 0; a < p.width && found; a++) {
            int64_t k = row * p.width + a, index = p.wide_indices ? ((const int64_t *)p.indices)[k] : ((const int32_t *)p.indices)[k];
            int64_t at = index < 0 ? index + p.dims[a] : index;
            found = at >= 0 && at < p.dims[a];
            if (found)
                from += at * p.strides[a];
            else
                report_index(p.error, p.step, index);
        }
        if (found) move(p.size, p.y, i, p.x, from);
    }
}

} // namespace hyp_device

// ---- entry points -----------------------------------------------------------------------------------------

#define KERNEL(name, args, call)                                                                                       \
    extern "C" __global__ void name(const __grid_constant__ args p)                                                    \
    {                                                                                                                  \
        wait_for_kernels_before();                                                                                     \
        call;                                                                                                          \
    }

KERNEL(pointwise_f32, hyp_cuda_pointwise, (pointwise<float, HYP_CUDA_PW_VECTOR>(p)))
KERNEL(pointwise_f64, hyp_cuda_pointwise, (pointwise<double, 1>(p)))
KERNEL(pointwise_i64, hyp_cuda_pointwise, (pointwise<int64_t, 1>(p)))
KERNEL(pointwise_u64, hyp_cuda_pointwise, (pointwise<uint64_t, 1>(p)))
KERNEL(softmax_f32, hyp_cuda_softmax, (softmax<float, false>(p)))
KERNEL(softmax_f64, hyp_cuda_softmax, (softmax<double, false>(p)))
KERNEL(softmax_stats_f32, hyp_cuda_softmax, (softmax<float, true>(p)))
KERNEL(softmax_stats_f64, hyp_cuda_softmax, (softmax<double, true>(p)))
KERNEL(range_f64, hyp_cuda_range, range<double>(p))
KERNEL(range_u64, hyp_cuda_range, range<uint64_t>(p))
KERNEL(random_uniform, hyp_cuda_random, random_blocks(p))
KERNEL(copy, hyp_cuda_copy, copy_elements(p, first_thread(), thread_count()))
KERNEL(copies, hyp_cuda_copies, copy_parts(p))
KERNEL(pitch_16, hyp_cuda_pitch, change_pitch<uint16_t>(p))
KERNEL(pitch_32, hyp_cuda_pitch, change_pitch<uint32_t>(p))
KERNEL(transpose, hyp_cuda_transpose, transpose_tiles(p))
KERNEL(gather, hyp_cuda_gather, gather_elements(p))
KERNEL(gather_along, hyp_cuda_gather_along, gather_places(p))
KERNEL(gather_nd, hyp_cuda_gather_nd, gather_rows(p))

extern "C" __global__ void fill_i64(const __grid_constant__ hyp_cuda_fill p)
{
    wait_for_kernels_before();
    if (threadIdx.x < p.count) ((int64_t *)p.y)[threadIdx.x] = p.value[threadIdx.x];
}

extern "C" __global__ void prefetch(const __grid_constant__ hyp_cuda_prefetch p)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const uint64_t piece = 4096;
    for (uint32_t i = 0; i < p.count; i++)
        for (uint64_t at = piece * (uint64_t)first_thread(); at < p.bytes[i]; at += piece * (uint64_t)thread_count()) {
            uint32_t bytes = (uint32_t)(p.bytes[i] - at < piece ? p.bytes[i] - at : piece);
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p.at[i] + at), "r"(bytes));
        }
#endif
}
