#include "runtime/cpu/kernels.h"

#include <math.h>

#include "base/dtype.h"
#include "kernels/scalar.h"

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

HypPlan__Pointwise__Op hyp_block_op_of_act(HypPlan__Act act)
{
    switch (act) {
    case HYP_PLAN__ACT__ACT_GELU: return HYP_PLAN__POINTWISE__OP__GELU;
    case HYP_PLAN__ACT__ACT_GELU_TANH: return HYP_PLAN__POINTWISE__OP__GELU_TANH;
    case HYP_PLAN__ACT__ACT_SIGMOID: return HYP_PLAN__POINTWISE__OP__SIGMOID;
    case HYP_PLAN__ACT__ACT_SILU: return HYP_PLAN__POINTWISE__OP__SILU;
    case HYP_PLAN__ACT__ACT_QUICK_GELU: return HYP_PLAN__POINTWISE__OP__QUICK_GELU;
    case HYP_PLAN__ACT__ACT_HARD_SWISH: return HYP_PLAN__POINTWISE__OP__HARD_SWISH;
    case HYP_PLAN__ACT__ACT_MISH: return HYP_PLAN__POINTWISE__OP__MISH;
    default: return HYP_PLAN__POINTWISE__OP__TANH;
    }
}

typedef float function(float);

static function *function_of(HypPlan__Pointwise__Op op)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__SIN: return sinf;
    case HYP_PLAN__POINTWISE__OP__COS: return cosf;
    case HYP_PLAN__POINTWISE__OP__TAN: return tanf;
    case HYP_PLAN__POINTWISE__OP__ASIN: return asinf;
    case HYP_PLAN__POINTWISE__OP__ACOS: return acosf;
    case HYP_PLAN__POINTWISE__OP__ATAN: return atanf;
    case HYP_PLAN__POINTWISE__OP__SINH: return sinhf;
    case HYP_PLAN__POINTWISE__OP__COSH: return coshf;
    case HYP_PLAN__POINTWISE__OP__ASINH: return asinhf;
    case HYP_PLAN__POINTWISE__OP__ACOSH: return acoshf;
    default: return atanhf;
    }
}

void hyp_block_rare(HypPlan__Pointwise__Op op, float *out, const float *a, const float *b, int64_t n)
{
    bool remainder = op == HYP_PLAN__POINTWISE__OP__MOD || op == HYP_PLAN__POINTWISE__OP__FMOD;
    function *f = function_of(op);
    for (int64_t i = 0; i < n; i++)
        out[i] =
            remainder ? (float)hyp_mod_f64((double)a[i], (double)b[i], op == HYP_PLAN__POINTWISE__OP__FMOD) : f(a[i]);
}

void hyp_block_to_integers(hyp_dtype to, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t stored;
        hyp_store_f64(to, &stored, 0, (double)out[i]);
        out[i] = (float)hyp_load_f64(to, &stored, 0);
    }
}
