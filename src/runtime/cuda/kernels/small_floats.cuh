// small_floats.cuh - conversions from and to floats of 16 and 8 bits, by the toolkit's headers. Generated kernels have
// functions of the same names: own_floats.cuh. Bits are taken by the raw types, as headers before CUDA 12.2 have
// __bfloat16_as_ushort only from 8.0 on.
#ifndef HYP_RUNTIME_CUDA_KERNELS_SMALL_FLOATS_CUH
#define HYP_RUNTIME_CUDA_KERNELS_SMALL_FLOATS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

inline namespace hyp_device
{

__device__ __forceinline__ float from_bfloat(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
__device__ __forceinline__ float from_half(uint16_t bits) { return __half2float(__half_raw{bits}); }
__device__ __forceinline__ uint16_t half_bits(float v) { return __half_raw(__float2half_rn(v)).x; }
__device__ __forceinline__ uint16_t half_bits(double v) { return __half_raw(__double2half(v)).x; }
__device__ __forceinline__ uint16_t bfloat_bits(float v) { return __nv_bfloat16_raw(__float2bfloat16_rn(v)).x; }
__device__ __forceinline__ uint16_t bfloat_bits(double v) { return __nv_bfloat16_raw(__double2bfloat16(v)).x; }
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

} // namespace hyp_device

#endif
