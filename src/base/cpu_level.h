/* cpu_level.h - the instruction set that the processor here has, of those that Hypatia has kernels and costs for. */
#ifndef HYP_BASE_CPU_LEVEL_H
#define HYP_BASE_CPU_LEVEL_H

/* Worst first. A level has all of those before it. */
#ifdef __aarch64__
typedef enum hyp_cpu_level { HYP_CPU_GENERIC, HYP_CPU_NEON } hyp_cpu_level;
#else
typedef enum hyp_cpu_level { HYP_CPU_GENERIC, HYP_CPU_AVX2, HYP_CPU_AVX512 } hyp_cpu_level;
#endif

hyp_cpu_level hyp_cpu_level_here(void);

/* The name of the profile that is of such a processor: "generic", "avx2" or "avx512"; "amx" where it also multiplies tiles of
 * bf16, and the system lets it; "neon". */
const char *hyp_cpu_machine_name(void);

#endif
