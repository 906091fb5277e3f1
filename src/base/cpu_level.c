#include "base/cpu_level.h"

#include <stdbool.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

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

#ifdef __x86_64__
/* Of leaf 7, and the registers of tiles among those that the system saves: compilers do not all know a name for it. */
static bool has_amx(void)
{
    enum { FEATURES = 7, BF16 = 1 << 22, TILES = 1 << 24, SAVED = 3 << 17 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) || !(d & BF16) || !(d & TILES)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & SAVED) == SAVED;
}
#endif

const char *hyp_cpu_machine_name(void)
{
#ifdef __aarch64__
    static const char *const names[] = {"generic", "neon"};
#else
    static const char *const names[] = {"generic", "avx2", "avx512"};
#endif
#ifdef __x86_64__
    if (hyp_cpu_level_here() == HYP_CPU_AVX512 && has_amx()) return "amx";
#endif
    return names[hyp_cpu_level_here()];
}
