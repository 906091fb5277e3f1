/* limits.c - what a caller allows a context to take. */
#include "runtime/core/backend.h"
#include "runtime/core/engine.h"

size_t hyp_memory_limit(const hyp_context_options *options)
{
    return options->memory_limit > 0 && options->memory_limit < SIZE_MAX ? (size_t)options->memory_limit : SIZE_MAX;
}

hyp_status hyp_want_memory(size_t have, size_t more, size_t limit, hyp_diag *diag)
{
    if (more <= limit && have <= limit - more) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "%zu bytes of scratch memory are wanted beside %zu that there are: options->memory_limit is %zu; "
                    "raise it, or run smaller inputs",
                    more, have, limit);
}

hyp_status hyp_want_work(const HypPlan__Program *p, const int64_t *values, double limit, hyp_diag *diag)
{
    double flops = 0, bytes = 0;
    for (uint32_t i = 0; limit > 0 && i < p->n_steps; i++) {
        hyp_step_work work = hyp_plan_step_work(p, i, values);
        flops += work.flops;
        bytes += work.bytes;
    }
    if (!(limit > 0) || flops + bytes <= limit) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "a run of these shapes is %g operations on %g bytes: options->work_limit is %g; raise it, or run "
                    "smaller inputs",
                    flops, bytes, limit);
}
