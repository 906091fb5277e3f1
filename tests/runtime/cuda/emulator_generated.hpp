// emulator_generated.hpp - the language of generated kernels on the host. The emulated NVRTC puts it before their source.
#include <math.h>
#include <string.h>

#include "emulator_halves.hpp"

#define HYP_CUDA_EMULATOR
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
static void *__cvta_global_to_generic(size_t at) { return (void *)at; }
template <typename T> static void __stwb(T *to, T value) { *to = value; }
static const generated_halves *halves;
struct emulated_index {
    unsigned x;
};
#define blockIdx (*(const emulated_index *)halves->block)
#define threadIdx (*(const emulated_index *)halves->thread)
#define blockDim (*(const emulated_index *)halves->threads)
// Of the block that runs.
alignas(16) __attribute__((visibility("hidden"))) double shared[(128 << 10) / sizeof(double)];
static void __syncthreads() { halves->sync_block(); }
static void __syncwarp() { halves->sync_warp(); }
static float __shfl_xor_sync(unsigned, float v, int mask) { return halves->shuffle_xor(v, mask); }
static void barrier_init(uint64_t *barrier, uint32_t arrivals) { halves->barrier_init(barrier, arrivals); }
static void barriers_ready() {}
static void barrier_arrive(uint64_t *barrier) { halves->barrier_arrive(barrier); }
static void barrier_expect(uint64_t *barrier, uint32_t bytes) { halves->barrier_expect(barrier, bytes); }
static void barrier_wait(uint64_t *barrier, uint32_t phase) { halves->barrier_wait(barrier, phase); }
static void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    halves->copy_bulk(to, from, bytes, barrier);
}

static float __uint_as_float(uint32_t u);
static float from_bfloat(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
static float from_half(uint16_t bits) { return halves->from_half(bits); }
static uint16_t half_bits(float v) { return halves->half_of_float(v); }
static uint16_t half_bits(double v) { return halves->half_of_double(v); }
static uint16_t bfloat_bits(float v) { return halves->bfloat_of_float(v); }
static uint16_t bfloat_bits(double v) { return halves->bfloat_of_double(v); }
static float round_bfloat(float v) { return from_bfloat(bfloat_bits(v)); }
static float from_byte(uint8_t code) { return halves->from_byte(code); }
static uint8_t to_byte(float v) { return halves->byte_of_float(v); }
static uint8_t to_byte(double v) { return halves->byte_of_double(v); }

template <typename To, typename From> static To as(From v)
{
    To to;
    memcpy(&to, &v, sizeof to);
    return to;
}
static float __uint_as_float(uint32_t u) { return as<float>(u); }
static uint32_t __float_as_uint(float f) { return as<uint32_t>(f); }
static double __longlong_as_double(long long bits) { return as<double>(bits); }
static long long __double_as_longlong(double d) { return as<long long>(d); }
#define __expf expf // the library has one of this name
static float __fdividef(float a, float b) { return a / b; }
static uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
static float __fadd_rn(float a, float b) { return a + b; }
static double __dadd_rn(double a, double b) { return a + b; }
static float __fmul_rn(float a, float b) { return a * b; }
static double __dmul_rn(double a, double b) { return a * b; }
