#include "runtime/cpu/vector_kernels.h"

#include <math.h>
#include <string.h>

#include "base/cpu_level.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "base/elementwise.h"
#include "base/strbuf.h"
#include "kernels/scalar.h"

/* Worst first; a processor has the first few of them. */
static const hyp_cpu_kernels *const known[] = {
    &hyp_cpu_kernels_generic,
#ifdef HYP_CPU_X86
    &hyp_cpu_kernels_avx2,
    &hyp_cpu_kernels_avx512,
#elif defined HYP_CPU_ARM
    &hyp_cpu_kernels_neon,
#endif
};
#define KNOWN (sizeof known / sizeof *known)

static size_t supported(void)
{
    size_t level = (size_t)hyp_cpu_level_here();
    return level < KNOWN ? level + 1 : KNOWN;
}

void hyp_cpu_kernels_list(const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX])
{
    size_t count = supported();
    for (size_t i = 0; i < count; i++) list[i] = known[i];
    list[count] = NULL;
}

static hyp_status fail_unknown(hyp_cpu_limit limit, hyp_diag *diag)
{
    hyp_strbuf names = {0};
    for (size_t i = 0; i < KNOWN; i++) hyp_strbuf_printf(&names, "%s%s", i ? ", " : "", known[i]->isa);
    hyp_status status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s is '%s': this build knows %s", limit.by, limit.most,
                                 hyp_strbuf_text(&names));
    hyp_strbuf_dispose(&names);
    return status;
}

hyp_status hyp_cpu_kernels_choose(hyp_cpu_limit limit, const hyp_cpu_kernels **out, hyp_diag *diag)
{
    size_t best = supported() - 1, most = KNOWN - 1;
    if (limit.most && *limit.most)
        for (most = 0; most < KNOWN && strcmp(known[most]->isa, limit.most) != 0;) most++;
    if (most == KNOWN) return fail_unknown(limit, diag);
    *out = known[best < most ? best : most];
    return HYP_OK;
}

static float function_of(HypPlan__Pointwise__Op op, float a)
{
#define LIB(function) function##f
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) CASE_##kind(OP, (__VA_ARGS__))
#define CASE_V(OP, expression)
#define CASE_I(OP, expression)
#define CASE_L(OP, expression)                                                                                         \
    case HYP_PLAN__POINTWISE__OP__##OP: return expression;
    switch (op) {
        HYP_FUNCTIONS(X)
    default: return a;
    }
#undef X
}

void hyp_block_rare(HypPlan__Pointwise__Op op, float *out, const float *a, const float *b, int64_t n)
{
    bool keeps = op == HYP_PLAN__POINTWISE__OP__FMOD, remainder = op == HYP_PLAN__POINTWISE__OP__MOD || keeps;
    for (int64_t i = 0; i < n; i++)
        out[i] = remainder ? (float)hyp_mod_f64((double)a[i], (double)b[i], keeps) : function_of(op, a[i]);
}

void hyp_block_to_integers(hyp_dtype to, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t stored;
        hyp_store_f64(to, &stored, 0, (double)out[i]);
        out[i] = (float)hyp_load_f64(to, &stored, 0);
    }
}
