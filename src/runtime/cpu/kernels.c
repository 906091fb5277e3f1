#include "runtime/cpu/kernels.h"

void hyp_cpu_kernels_list(const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX])
{
    size_t n = 0;
    list[n++] = &hyp_cpu_kernels_generic;
#ifdef HYP_CPU_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        list[n++] = &hyp_cpu_kernels_avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            list[n++] = &hyp_cpu_kernels_avx512;
    }
#endif
    list[n] = NULL;
}

const hyp_cpu_kernels *hyp_cpu_kernels_choose(void)
{
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    size_t n = 0;
    while (list[n + 1]) n++;
    return list[n];
}
