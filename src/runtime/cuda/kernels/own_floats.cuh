// own_floats.cuh - what small_floats.cuh has, for generated kernels: their compiler need not find the toolkit's
// headers.
inline namespace hyp_device
{

#ifndef HYP_CUDA_EMULATOR // which has functions of the same names
__device__ __forceinline__ float from_bfloat(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
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
// Rounded to bf16, which is the upper half of an f32: in one instruction.
__device__ __forceinline__ float round_bfloat(float v)
{
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(v), "f"(0.0f));
    return __uint_as_float(two);
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

} // namespace hyp_device
