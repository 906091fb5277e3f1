// common.cuh - what our kernels share: elements of the common types; scalar.cuh has the rest.
#ifndef HYP_RUNTIME_CUDA_KERNELS_COMMON_CUH
#define HYP_RUNTIME_CUDA_KERNELS_COMMON_CUH

#include "runtime/cuda/kernels/kernel_args.h"
#include "runtime/cuda/kernels/scalar.cuh"

// Named: names of an anonymous namespace hold a number made of the path of the source, and images would differ with it.
inline namespace hyp_device
{

__device__ __forceinline__ __half to_half(float v) { return __float2half_rn(v); }
__device__ __forceinline__ __nv_bfloat16 to_bfloat(float v) { return __float2bfloat16_rn(v); }

// The few types that most kernels take, which the host sees to: a float type that computes in C, i64 or i32.
template <typename C> __device__ __forceinline__ C load_native(uint32_t dtype, uint64_t data, int64_t i);
template <> __device__ __forceinline__ float load_native(uint32_t dtype, uint64_t data, int64_t i)
{
    if (dtype == HYP_F32) return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return dtype == HYP_BF16 ? from_bfloat(bits) : from_half(bits);
}
template <> __device__ __forceinline__ double load_native(uint32_t, uint64_t data, int64_t i)
{
    return ((const double *)data)[i];
}
template <> __device__ __forceinline__ int64_t load_native(uint32_t dtype, uint64_t data, int64_t i)
{
    return dtype == HYP_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}
__device__ __forceinline__ void store_native(uint32_t dtype, uint64_t data, int64_t i, float v)
{
    if (dtype == HYP_F32)
        ((float *)data)[i] = v;
    else if (dtype == HYP_BF16)
        ((__nv_bfloat16 *)data)[i] = to_bfloat(v);
    else
        ((__half *)data)[i] = to_half(v);
}
__device__ __forceinline__ void store_native(uint32_t, uint64_t data, int64_t i, double v) { ((double *)data)[i] = v; }
__device__ __forceinline__ void store_native(uint32_t dtype, uint64_t data, int64_t i, int64_t v)
{
    if (dtype == HYP_I64)
        ((int64_t *)data)[i] = v;
    else
        ((int32_t *)data)[i] = (int32_t)v;
}

} // namespace hyp_device

#endif
