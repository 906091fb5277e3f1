// scalar.cuh - single elements: small floats, bits in memory, activations. Shared by our kernels and by those that are
// generated (generate.h), which compile without any header but this folder's.
#ifndef HYP_RUNTIME_CUDA_SCALAR_CUH
#define HYP_RUNTIME_CUDA_SCALAR_CUH

#ifndef HYP_CUDA_GENERATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "hypatia/types.h"
#endif

namespace
{

// ---- small floats -----------------------------------------------------------------------------------------

__device__ __forceinline__ float from_bfloat(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
#ifndef HYP_CUDA_GENERATED
__device__ __forceinline__ float from_half(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ uint16_t half_bits(float v) { return __half_as_ushort(__float2half_rn(v)); }
__device__ __forceinline__ uint16_t half_bits(double v) { return __half_as_ushort(__double2half(v)); }
__device__ __forceinline__ uint16_t bfloat_bits(float v) { return __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
__device__ __forceinline__ uint16_t bfloat_bits(double v) { return __bfloat16_as_ushort(__double2bfloat16(v)); }
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
#elif !defined(HYP_CUDA_EMULATOR) // which has functions of the same names
__device__ __forceinline__ float from_half(uint16_t bits)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
}
__device__ __forceinline__ uint16_t half_bits(float v)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
}
__device__ __forceinline__ uint16_t half_bits(double v)
{
    uint16_t bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(v));
    return bits;
}
__device__ __forceinline__ uint16_t bfloat_bits(float v)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
}
// A kernel with f8e4m3 compiles for 8.9 and newer.
__device__ __forceinline__ uint8_t to_byte(float v)
{
    uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(v));
    return (uint8_t)two;
}
__device__ __forceinline__ float from_byte(uint8_t code)
{
    uint32_t two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((uint16_t)code));
    return from_half((uint16_t)two);
}
// An f32 that is rounded to odd, so that nothing is rounded twice (Boldo and Melquiond 2005).
__device__ __forceinline__ float cut(double v)
{
    float low = __double2float_rz(v);
    return (double)low == v ? low : __uint_as_float(__float_as_uint(low) | 1);
}
__device__ __forceinline__ uint16_t bfloat_bits(double v) { return bfloat_bits(cut(v)); }
__device__ __forceinline__ uint8_t to_byte(double v) { return to_byte(cut(v)); }
#endif

// From 9.0 on a kernel is launched before the one before it in the stream has ended.
// The next kernel may be launched as soon as every block of this one has come here.
__device__ __forceinline__ void next_kernel_may_start()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until all kernels before this one in the stream have ended and their results are there.
__device__ __forceinline__ void kernels_before_end()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// First thing in most kernels.
__device__ __forceinline__ void wait_for_kernels_before()
{
    next_kernel_may_start();
    kernels_before_end();
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

// ---- sums and products that round: a product and a sum of it do not become one operation ----------------------

__device__ __forceinline__ float rounded_sum(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double rounded_sum(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double rounded_product(double a, double b) { return __dmul_rn(a, b); }

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
