// barriers.cuh - barriers in shared memory, and the copies that they wait for. They need compute capability 9.0. Generated
// kernels have them, too (pointwise_source.h); the emulator of the tests has functions of the same names.
#ifndef HYP_RUNTIME_CUDA_KERNELS_BARRIERS_CUH
#define HYP_RUNTIME_CUDA_KERNELS_BARRIERS_CUH

#ifndef HYP_CUDA_GENERATED
#include <stdint.h>
#endif

#ifndef HYP_CUDA_EMULATOR
inline namespace hyp_device
{

// A barrier completes a phase, 0 first, when it has had its arrivals and the bytes that it was told to expect.
__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"((uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(arrivals)
                 : "memory");
}
// After the last barrier_init, before the first copy.
__device__ __forceinline__ void barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}
// Arrives, and lets the phase wait for so many bytes more.
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(bytes)
                 : "memory");
}
// Waits for the end of the phase of this number, of which the last bit counts.
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t phase)
{
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"((uint32_t)__cvta_generic_to_shared(barrier)),
                 "r"(phase)
                 : "memory");
}
// Copies to shared memory; the barrier gets the bytes. Addresses and size are multiples of 16.
__device__ __forceinline__ void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes), "r"((uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}

} // namespace hyp_device
#endif

#endif
