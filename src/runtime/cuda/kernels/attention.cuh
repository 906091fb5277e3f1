// attention.cuh - what the kernels of attention share: operands, and what a mask does to scores.
#ifndef HYP_RUNTIME_CUDA_KERNELS_ATTENTION_CUH
#define HYP_RUNTIME_CUDA_KERNELS_ATTENTION_CUH

#include "runtime/cuda/kernels/common.cuh"
#ifndef HYP_CUDA_EMULATOR // it has its own
#include "runtime/cuda/kernels/warp.cuh"
#endif

inline namespace hyp_device
{

constexpr double LOG2_E = 1.4426950408889634;
constexpr unsigned EVERY_LANE = 0xffffffff;

template <typename T> constexpr int VECTOR = 16 / (int)sizeof(T); // elements of 16 bytes

template <typename T> struct computing {
    using type = float;
};
template <> struct computing<double> {
    using type = double;
};

template <typename T> struct alignas(16) vector {
    T x[VECTOR<T>];
};

__device__ __forceinline__ float widen(__half v) { return __half2float(v); }
__device__ __forceinline__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ void narrow(float v, __half &to) { to = to_half(v); }
__device__ __forceinline__ void narrow(float v, __nv_bfloat16 &to) { to = to_bfloat(v); }
__device__ __forceinline__ void narrow(float v, float &to) { to = v; }
__device__ __forceinline__ void narrow(double v, double &to) { to = v; }

// The larger one, or the one that is a number.
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }
// What a row with this largest score subtracts: 0 where there is nothing but -inf, so that its exponentials are 0.
template <typename C> __device__ __forceinline__ C finite(C top) { return top == (C)-INFINITY ? (C)0 : top; }

// 2^x, as precise as results of type T need.
__device__ __forceinline__ float exp2_for(float x, __half) { return exp2_short(x); }
__device__ __forceinline__ float exp2_for(float x, __nv_bfloat16) { return exp2_short(x); }
__device__ __forceinline__ float exp2_for(float x, float) { return exp2f(x); }
__device__ __forceinline__ double exp2_for(double x, double) { return exp2(x); }

// ---- operands ---------------------------------------------------------------------------------------------

// The operands at one index of the batch.
template <typename T> struct operands {
    const T *q, *k, *v;
    uint64_t mask;
    T *y;
    const T *more_k, *more_v; // as if the keys of k and v were in front of them
};

template <typename T> __device__ __forceinline__ operands<T> operands_at(const hyp_cuda_attention &p, int64_t index)
{
    int64_t at[HYP_CUDA_ATTENTION_LANES] = {0};
#pragma unroll 1
    for (uint32_t d = 0; d < p.rank; d++) {
        int64_t next = d + 1 < p.rank ? divide(index, p.batch[d]) : 0, i = index - next * p.batch[d].size;
#pragma unroll
        for (int lane = 0; lane < HYP_CUDA_ATTENTION_LANES; lane++) at[lane] += i * p.stride[lane][d];
        index = next;
    }
    return {(const T *)p.q.data + at[0],
            (const T *)p.k.data + at[1],
            (const T *)p.v.data + at[2],
            p.mask.data + (uint64_t)at[3] * (p.masked == HYP_CUDA_MASK_ADDED ? sizeof(T) : 1),
            (T *)p.y.data + at[4],
            (const T *)p.more_k.data + at[5] - p.first_keys * p.more_k.row,
            (const T *)p.more_v.data + at[6] - p.first_keys * p.more_v.row};
}

// What the mask adds to COUNT scores, NaN where p.fill takes their place: that of score j is element at + j step. From
// `end` on it is -inf. All are loaded before any is looked at.
template <typename T, int COUNT, typename C>
__device__ __forceinline__ void load_shifts(const hyp_cuda_attention &p, uint64_t mask, int64_t at, int64_t step,
                                            int end, C (&out)[COUNT])
{
    if (p.masked > HYP_CUDA_MASK_ADDED) {
        const uint8_t *from = (const uint8_t *)mask + at;
        uint8_t bools[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++, from += step) bools[j] = j < end ? *from : 0;
#pragma unroll
        for (int j = 0; j < COUNT; j++) out[j] = (bools[j] != 0) == (p.masked == HYP_CUDA_MASK_HIDES) ? (C)NAN : (C)0;
    } else if (p.masked == HYP_CUDA_MASK_ADDED) {
        const T *from = (const T *)mask + at;
        T numbers[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++, from += step) numbers[j] = j < end ? *from : T(0.0f);
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            C shift = (C)widen(numbers[j]); // the lowest number must stay one
            out[j] = larger(shift * (C)LOG2_E, shift == (C)-INFINITY ? shift : (C)HYP_CUDA_LOWEST);
        }
    } else {
#pragma unroll
        for (int j = 0; j < COUNT; j++) out[j] = 0;
    }
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        if (j >= end) out[j] = -INFINITY;
}

// The score as an exponent of 2, once it is multiplied by p.unit.
template <typename C> __device__ __forceinline__ C shifted(const hyp_cuda_attention &p, C score, C shift)
{
    return shift == shift ? score * (C)p.scale + shift : (C)p.fill;
}

// What a row starts with. Without a softmax all parts of a row are of the size that a largest score of 0 stands for, and its
// sum is 1, of whoever has the first key: so they are put together, and divided, as with one.
template <typename C> __device__ __forceinline__ C start_of(const hyp_cuda_attention &p)
{
    return p.plain ? (C)0 : (C)-INFINITY;
}
template <typename C> __device__ __forceinline__ C plain_sum(const hyp_cuda_attention &p, bool first)
{
    return p.plain && first ? (C)1 : (C)0;
}

// VECTOR elements of a row from a column on, zeros from column `end` on.
template <bool VECTORS, typename T>
__device__ __forceinline__ vector<T> load_vector(const hyp_cuda_matrix &m, const T *base, int64_t row, int64_t column,
                                                 int64_t end)
{
    vector<T> out = {};
    const T *at = base + row * m.row + column * m.column;
    if constexpr (VECTORS) {
        return column < end ? *(const vector<T> *)at : out;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR<T>; i++)
            if (column + i < end) out.x[i] = at[i * m.column];
        return out;
    }
}

// ---- keys that are split among blocks ----------------------------------------------------------------------

// Is this block the last of those that share rows? What they wrote before can be read then.
__device__ __forceinline__ bool is_last(uint32_t *counter, uint32_t count, uint32_t *room)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); // for the whole block, which has come to the barrier
        *room = atomicAdd(counter, 1u) == count - 1;
        if (*room) *counter = 0; // for the next launch
        __threadfence();
    }
    __syncthreads();
    return *room != 0;
}

} // namespace hyp_device

#endif
