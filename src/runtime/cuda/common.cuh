// common.cuh - what all our kernels share: quotients, conversions of 16-bit floats.
#ifndef HYP_RUNTIME_CUDA_COMMON_CUH
#define HYP_RUNTIME_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "hypatia/types.h"
#include "runtime/cuda/kernels.h"

namespace
{

__device__ __forceinline__ int64_t divide(int64_t i, const hyp_cuda_extent &by)
{
    return by.magic ? (int64_t)(__umul64hi((uint64_t)i, by.magic) >> by.shift) : i;
}

__device__ __forceinline__ __half to_half(float v) { return __float2half_rn(v); }
__device__ __forceinline__ __half to_half(double v) { return __double2half(v); }
__device__ __forceinline__ __nv_bfloat16 to_bfloat(float v) { return __float2bfloat16_rn(v); }
__device__ __forceinline__ __nv_bfloat16 to_bfloat(double v) { return __double2bfloat16(v); }
__device__ __forceinline__ float from_half(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ float from_bfloat(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }

} // namespace

#endif
