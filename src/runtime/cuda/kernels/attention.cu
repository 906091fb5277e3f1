// attention.cu - softmax(scale q k^T + mask) v whose scores never reach memory. Whoever goes through the keys keeps for
// a row the largest score so far, the sum of the exponentials and the unfinished result, and scales both when a larger
// score comes (Milakov and Gimelshein 2018; tiles and their order as in FlashAttention-2, Dao 2023).
//
//   attention_rows_*   one row of q for a block, keys shared out to groups of lanes: few rows, any type and width
//   attention_f16_*    64 rows for a block on tensor cores, 16 for each warp, or 128 and 32; bf16 likewise
//   attention_f32_*    64 rows for a block in full precision
//   attention_by_*     gradients, in bf16 and of narrow heads alone: attention_gradient.cuh
//
// The number behind the type is the widest head. Sums are taken in a fixed order, so results are the same on every run.
#include "runtime/cuda/kernels/attention_rows.cuh"
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800 // on older devices everything goes by rows
#include "runtime/cuda/kernels/attention_fma.cuh"
#include "runtime/cuda/kernels/attention_gradient.cuh"
#include "runtime/cuda/kernels/attention_mma.cuh"
#endif

// `blocks` are to fit on a multiprocessor, by their registers.
#define KERNEL_OF(type, name, threads, blocks, call)                                                                   \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ type p)                 \
    {                                                                                                                  \
        call;                                                                                                          \
    }
#define ATTENTION(name, threads, blocks, call) KERNEL_OF(hyp_cuda_attention, name, threads, blocks, call)

ATTENTION(attention_rows_f32, HYP_CUDA_ROW_THREADS, 2, attention_rows<float>(p))
ATTENTION(attention_rows_f16, HYP_CUDA_ROW_THREADS, 2, attention_rows<__half>(p))
ATTENTION(attention_rows_bf16, HYP_CUDA_ROW_THREADS, 2, attention_rows<__nv_bfloat16>(p))
ATTENTION(attention_rows_f64, HYP_CUDA_ROW_THREADS, 2, attention_rows<double>(p))

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TILES_OF(type, name, blocks, call)                                                                             \
    extern "C" __global__ void name(const __grid_constant__ type p) {} // not used
#else
#define TILES_OF(type, name, blocks, call)                                                                             \
    KERNEL_OF(type, name, HYP_CUDA_ATTENTION_THREADS, blocks, (wait_for_kernels_before(), call))
#endif
#define TILES(name, blocks, call) TILES_OF(hyp_cuda_attention, name, blocks, call)
#define GRADIENT(name, blocks, call) TILES_OF(hyp_cuda_attention_gradient, name, blocks, call)
TILES(attention_f16_64, 3, (attention_mma<__half, 64, 1>(p)))
TILES(attention_f16_64_tall, 2, (attention_mma<__half, 64, 2>(p)))
TILES(attention_f16_128, 2, (attention_mma<__half, 128, 1>(p)))
TILES(attention_f16_128_tall, 2, (attention_mma<__half, 128, 2>(p)))
TILES(attention_bf16_64, 3, (attention_mma<__nv_bfloat16, 64, 1>(p)))
TILES(attention_bf16_64_tall, 2, (attention_mma<__nv_bfloat16, 64, 2>(p)))
TILES(attention_bf16_128, 2, (attention_mma<__nv_bfloat16, 128, 1>(p)))
TILES(attention_bf16_128_tall, 2, (attention_mma<__nv_bfloat16, 128, 2>(p)))
TILES(attention_f32_64, 3, attention_fma<64>(p))
TILES(attention_f32_128, 2, attention_fma<128>(p))
GRADIENT(attention_by_queries_bf16_64, 3, (attention_by_queries<__nv_bfloat16, 64>(p)))
GRADIENT(attention_by_keys_bf16_64, 2, (attention_by_keys<__nv_bfloat16, 64>(p)))
