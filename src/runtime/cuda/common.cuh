// common.cuh - what our kernels share: quotients, elements of the common types, activations.
#ifndef HYP_RUNTIME_CUDA_COMMON_CUH
#define HYP_RUNTIME_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

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
// f8e4m3: what is out of range becomes the largest number.
__device__ __forceinline__ uint8_t to_byte(float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3); }
__device__ __forceinline__ uint8_t to_byte(double v) { return __nv_cvt_double_to_fp8(v, __NV_SATFINITE, __NV_E4M3); }
__device__ __forceinline__ uint16_t to_bytes(float low, float high)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}
__device__ __forceinline__ float from_byte(uint8_t code)
{
    return __half2float((__half)__nv_cvt_fp8_to_halfraw(code, __NV_E4M3));
}

// First thing in a kernel: from 9.0 on it is launched before the one before it in the stream has ended, and waits here for
// that one's results, while the next one may be launched as soon as every block of it has come here.
__device__ __forceinline__ void wait_for_kernels_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- elements ---------------------------------------------------------------------------------------------

// Elements as bits, by size in bytes. What is long and rare is kept out of line or in one form for all types: the
// fatbin holds every kernel for every architecture.
__device__ __forceinline__ uint64_t load_bits(uint32_t size, uint64_t data, int64_t i)
{
    uint64_t at = data + (uint64_t)i * size;
    switch (size) {
    case 1: return *(const uint8_t *)at;
    case 2: return *(const uint16_t *)at;
    case 4: return *(const uint32_t *)at;
    default: return *(const uint64_t *)at;
    }
}

__device__ __forceinline__ void store_bits(uint32_t size, uint64_t data, int64_t i, uint64_t bits)
{
    uint64_t at = data + (uint64_t)i * size;
    switch (size) {
    case 1: *(uint8_t *)at = (uint8_t)bits; break;
    case 2: *(uint16_t *)at = (uint16_t)bits; break;
    case 4: *(uint32_t *)at = (uint32_t)bits; break;
    default: *(uint64_t *)at = bits;
    }
}

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

// ---- activations ------------------------------------------------------------------------------------------

__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }
__device__ __forceinline__ double gelu(double v) { return 0.5 * v * (1.0 + erf(v * 0.70710678118654752)); }
__device__ __forceinline__ float gelu_tanh(float v)
{
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
}
__device__ __forceinline__ double gelu_tanh(double v)
{
    return 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
}
__device__ __forceinline__ float exponential(float v) { return expf(v); }
__device__ __forceinline__ double exponential(double v) { return exp(v); }

template <typename C> __device__ __forceinline__ C sigmoid(C v) { return (C)1 / ((C)1 + exponential(-v)); }
template <typename C> __device__ __forceinline__ C relu(C v) { return v < (C)0 ? (C)0 : v; } // NaN stays
template <typename C> __device__ __forceinline__ C softplus(C v) { return relu(v) + log1p(exponential(-fabs(v))); }
template <typename C> __device__ __forceinline__ C at_most(C v, C limit) { return v > limit ? limit : v; }

} // namespace

#endif
