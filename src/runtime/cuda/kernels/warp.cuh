// warp.cuh - instructions that a warp does together, or that have no name in C++. All threads of the warp must call
// them. They need compute capability 8.0. The emulator of the tests has functions of the same names.
#ifndef HYP_RUNTIME_CUDA_KERNELS_WARP_CUH
#define HYP_RUNTIME_CUDA_KERNELS_WARP_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "runtime/cuda/kernels/barriers.cuh"

inline namespace hyp_device
{

// 2^x, off by up to 2 units in the last place; what is not normal is 0.
__device__ __forceinline__ float exp2_short(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Begins to copy 16 bytes to shared memory, zeros unless `there`. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_begin(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

// Waits for the copies that this thread has begun.
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---- matrices
// ---------------------------------------------------------------------------------------------------------

// Loads four 8x8 matrices of 16-bit elements from shared memory: lane l gives the address of row l % 8 of matrix l / 8,
// and has elements 2 (l % 4) and the next of row l / 4 of matrix i in out[i].
__device__ __forceinline__ void load_matrices(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// The same of the transposed matrices.
__device__ __forceinline__ void load_transposed(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// c[16x8] += a[16x16] b[16x8]. With g = lane / 4 and t = 2 (lane % 4): c has rows g, g, g+8, g+8 and columns t, t+1, t,
// t+1; a has rows g, g+8, g, g+8 and columns t, t, t+8, t+8 with the next ones; b rows t and t+8 with the next ones,
// column g.
__device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, __half)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, __nv_bfloat16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace hyp_device

#endif
