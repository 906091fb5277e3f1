// few_rows.cu - linear layers for a few rows.
//
// Such a layer does almost nothing but read its weights: what it takes beside is what counts. So
//   - the rows of the weight are dealt out to the blocks. A block's rows lie one behind the other, and its first
//   threads
//     fetch them in chunks into a ring in shared memory, all that fit at once;
//   - that is done before the kernel waits for those before it in the stream, which is where x comes from: their ends
//   and
//     the next beginning overlap (programmatic dependent launch);
//   - a lane has its part of x in registers and keeps it for all rows.
//
// One row of x, and f32, are multiplied element by element in f32; more rows of 16-bit types on tensor cores. Of f8e4m3
// there is one row alone; its result, bias and what is added are bf16.
#include "runtime/cuda/kernels/few_rows.cuh"
#ifndef HYP_CUDA_EMULATOR // it has its own
#include "runtime/cuda/kernels/warp.cuh"
#endif

inline namespace hyp_device
{

// Up to M rows of x in shared memory.
template <uint32_t D, int M> struct shared_rows {
    static constexpr int E = piece_elements<D>;
    __device__ __forceinline__ void take(const hyp_cuda_layer &l, const uint4 *from, uint4 *x)
    {
        constexpr int AT_ONCE = 4;
#pragma unroll 1
        for (uint32_t first = threadIdx.x; first < l.rows * l.pieces; first += AT_ONCE * blockDim.x) {
            uint32_t row[AT_ONCE], at[AT_ONCE];
            uint4 piece[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                uint32_t place = first + i * blockDim.x;
                row[i] = place / l.pieces;
                at[i] = row[i] < l.rows ? place - row[i] * l.pieces : l.pieces;
            }
            take_pieces(l, from, row, at, piece);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (row[i] < l.rows) x[first + i * blockDim.x] = piece[i];
        }
        __syncthreads();
    }
    __device__ __forceinline__ void multiply_chunk(const hyp_cuda_layer &l, const uint4 *w, uint32_t rows,
                                                   uint32_t first, uint32_t count, const uint4 *x, float *sums)
    {
        uint32_t split = threadIdx.x / 32 & ((1u << l.log_splits) - 1), lane = threadIdx.x % 32;
#pragma unroll 1
        for (uint32_t r = threadIdx.x / 32 >> l.log_splits; r < rows; r += warps() >> l.log_splits) {
            float acc[M] = {};
#pragma unroll 1
            for (uint32_t at = split * 32 + lane; at < l.pieces; at += 32u << l.log_splits) {
                float a[E], b[E];
                unpack<D>(w[r * l.pieces + at], a);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    if (m >= l.rows) break;
                    unpack<D>(x[m * l.pieces + at], b);
#pragma unroll
                    for (int e = 0; e < E; e++) acc[m] += a[e] * b[e];
                }
            }
            float *to = sums + (split * count + first + r) * l.rows;
            float sum = sum_rows(acc);
            uint32_t m = lane / (32 / M);
            if (lane % (32 / M) == 0 && m < l.rows) to[m] = sum;
        }
    }
    // Sums over the lanes; lane i gets the sum of acc[i / (32 / M)]. At each step half of the values that are left go
    // to the other half of the lanes.
    static __device__ __forceinline__ float sum_rows(float (&acc)[M])
    {
        int half = M / 2;
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2, half /= 2) {
            bool upper = (threadIdx.x & distance) != 0;
            if (half == 0) {
                acc[0] += __shfl_xor_sync(0xffffffffu, acc[0], distance);
                continue;
            }
#pragma unroll
            for (int i = 0; i < M / 2; i++) {
                if (i >= half) break;
                float keep = upper ? acc[i + half] : acc[i], give = upper ? acc[i] : acc[i + half];
                acc[i] = keep + __shfl_xor_sync(0xffffffffu, give, distance);
            }
        }
        return acc[0];
    }
};

// 16 rows of x in registers, for tensor cores: 8 rows of w at a time, in groups of 4 pieces of each. Sums may be made
// in any order, so the 16 places along k of one product of a tensor core are filled with what lanes have anyway: half
// of a piece each.
template <typename T, uint32_t D> struct tensor_rows {
    static constexpr int GROUPS = HYP_CUDA_LAYER_GROUPS;
    uint4 x[2 * GROUPS]; // of row lane / 4, then of 8 rows further down
    static __device__ __forceinline__ uint32_t piece_of(const hyp_cuda_layer &l, uint32_t group)
    {
        uint32_t split = threadIdx.x / 32 & ((1u << l.log_splits) - 1);
        return ((group << l.log_splits) + split) * 4 + threadIdx.x % 4;
    }
    __device__ __forceinline__ void take(const hyp_cuda_layer &l, const uint4 *from, uint4 *)
    {
        uint32_t row[2 * GROUPS], at[2 * GROUPS];
#pragma unroll
        for (int i = 0; i < 2 * GROUPS; i++) {
            row[i] = threadIdx.x % 32 / 4 + i % 2 * 8;
            at[i] = row[i] < l.rows ? piece_of(l, i / 2) : l.pieces;
        }
        take_pieces(l, from, row, at, x);
    }
    __device__ __forceinline__ void multiply_chunk(const hyp_cuda_layer &l, const uint4 *w, uint32_t rows,
                                                   uint32_t first, uint32_t count, const uint4 *, float *sums)
    {
        uint32_t split = threadIdx.x / 32 & ((1u << l.log_splits) - 1), lane = threadIdx.x % 32;
#pragma unroll 1
        for (uint32_t tile = 0; tile < rows; tile += HYP_CUDA_LAYER_TILE) {
            float acc[4] = {0, 0, 0, 0};
            uint32_t r = tile + lane / 4;
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                if (((g << l.log_splits) + split) * 4 >= l.pieces) break;
                uint32_t at = piece_of(l, g);
                uint4 v = r < rows && at < l.pieces ? w[r * l.pieces + at] : make_uint4(0, 0, 0, 0);
                uint4 low = x[2 * g], high = x[2 * g + 1];
                const uint32_t one[4] = {low.x, high.x, low.y, high.y}, two[4] = {low.z, high.z, low.w, high.w};
                multiply(acc, one, v.x, v.y, T());
                multiply(acc, two, v.z, v.w, T());
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t m = lane / 4 + i / 2 * 8, row = tile + lane % 4 * 2 + i % 2;
                if (m < l.rows && row < rows) sums[(split * count + first + row) * l.rows + m] = acc[i];
            }
        }
    }
};

template <uint32_t D, typename P> __device__ __forceinline__ void run_layer(const hyp_cuda_layer &l)
{
    extern __shared__ double shared[];
    layer<D, P>(l, (uint4 *)shared).run();
}

} // namespace hyp_device

// Two blocks should fit a multiprocessor, so that one kernel can begin beside another.
#define LAYER(name, dtype, threads, blocks, ...)                                                                       \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ hyp_cuda_layer l)       \
    {                                                                                                                  \
        run_layer<dtype, __VA_ARGS__>(l);                                                                              \
    }

LAYER(layer_f32_1, HYP_F32, HYP_CUDA_LAYER_THREADS, 2, single_row<HYP_F32, false>)
LAYER(layer_f16_1, HYP_F16, HYP_CUDA_LAYER_THREADS, 2, single_row<HYP_F16, false>)
LAYER(layer_bf16_1, HYP_BF16, HYP_CUDA_LAYER_THREADS, 2, single_row<HYP_BF16, false>)
LAYER(layer_f32_1_short, HYP_F32, HYP_CUDA_LAYER_SHORT, 2, single_row<HYP_F32, true>)
LAYER(layer_f16_1_short, HYP_F16, HYP_CUDA_LAYER_SHORT, 2, single_row<HYP_F16, true>)
LAYER(layer_bf16_1_short, HYP_BF16, HYP_CUDA_LAYER_SHORT, 2, single_row<HYP_BF16, true>)
LAYER(layer_f8e4m3_1, HYP_F8E4M3, HYP_CUDA_LAYER_THREADS, 2, single_row<HYP_F8E4M3, false>)
LAYER(layer_f32_16, HYP_F32, HYP_CUDA_LAYER_THREADS, 2, shared_rows<HYP_F32, 16>)
// These mostly run with half of the threads, and then two blocks fit with twice the registers.
LAYER(layer_f16_16, HYP_F16, HYP_CUDA_LAYER_THREADS, 1, tensor_rows<__half, HYP_F16>)
LAYER(layer_bf16_16, HYP_BF16, HYP_CUDA_LAYER_THREADS, 1, tensor_rows<__nv_bfloat16, HYP_BF16>)
