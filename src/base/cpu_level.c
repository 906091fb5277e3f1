#include "base/cpu_level.h"

hyp_cpu_level hyp_cpu_level_here(void)
{
#if defined __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return HYP_CPU_GENERIC;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return HYP_CPU_AVX512;
    return HYP_CPU_AVX2;
#elif defined __aarch64__
    return HYP_CPU_NEON;
#else
    return HYP_CPU_GENERIC;
#endif
}

const char *hyp_cpu_level_name(void)
{
#ifdef __aarch64__
    static const char *const names[] = {"generic", "neon"};
#else
    static const char *const names[] = {"generic", "avx2", "avx512"};
#endif
    return names[hyp_cpu_level_here()];
}
