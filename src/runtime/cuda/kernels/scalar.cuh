// scalar.cuh - quotients, and single elements: bits in memory, activations. Shared by our kernels and by those that are
// generated (pointwise_source.h), which compile without any header but this folder's.
#ifndef HYP_RUNTIME_CUDA_KERNELS_SCALAR_CUH
#define HYP_RUNTIME_CUDA_KERNELS_SCALAR_CUH

#ifndef HYP_CUDA_GENERATED
#include "base/elementwise.h"
#include "hypatia/types.h"
#include "runtime/cuda/kernels/instructions.h"
#include "runtime/cuda/kernels/small_floats.cuh"
#endif

inline namespace hyp_device
{

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

// Reads before this are sent for before anything behind it is computed. The compiler puts a read off until it is needed, and
// what branches between two, as an exact quotient does, lets the second wait until the first has come.
__device__ __forceinline__ void reads_are_sent() { asm volatile("" ::: "memory"); }

// ---- quotients --------------------------------------------------------------------------------------------

__device__ __forceinline__ int64_t divide(int64_t i, const hyp_cuda_extent &by)
{
    return by.magic ? (int64_t)(__umul64hi((uint64_t)i, by.magic) >> by.shift) : i;
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

__device__ __forceinline__ float exponential(float v) { return expf(v); }
__device__ __forceinline__ double exponential(double v) { return exp(v); }

template <typename C> __device__ __forceinline__ C sigmoid(C v) { return (C)1 / ((C)1 + exponential(-v)); }
template <typename C> __device__ __forceinline__ C relu(C v) { return v < (C)0 ? (C)0 : v; } // NaN stays
template <typename C> __device__ __forceinline__ C softplus(C v) { return relu(v) + log1p(exponential(-fabs(v))); }
template <typename C> __device__ __forceinline__ C gelu(C v)
{
    return (C)0.5 * v * ((C)1 + erf(v * (C)0.70710678118654752440));
}
template <typename C> __device__ __forceinline__ C at_most(C v, C limit) { return v > limit ? limit : v; }
template <typename C> __device__ __forceinline__ C leaky_relu(C v, double alpha)
{
    return v < (C)0 ? rounded_product(v, (C)alpha) : v;
}
template <typename C> __device__ __forceinline__ C elu(C v, double alpha, double gamma)
{
    return (C)gamma * (v > 0 ? v : (C)alpha * expm1(v));
}

// The arithmetic of base/elementwise.h, in a type C.
#define NUM(number) ((C)(number))
#define LIB(function) function
#define OWN(function) function

// Any activation, by its number.
template <typename C> __device__ __forceinline__ C activation(uint32_t op, C a)
{
    switch (op) {
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...)                                                   \
    case HYP_PW_##OP: return __VA_ARGS__;
        HYP_ACTIVATIONS(X)
#undef X
    default: return a;
    }
}

} // namespace hyp_device

#endif
