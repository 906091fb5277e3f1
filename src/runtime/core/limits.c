/* limits.c - what a caller allows a context to do. */
#include "runtime/core/engine.h"

static void add_work(const HypPlan__Program *p, const int64_t *values, double *operations, double *bytes)
{
    for (uint32_t i = 0; i < p->n_steps; i++) {
        hyp_step_work work = hyp_plan_step_work(p, i, values);
        *operations += work.most;
        *bytes += work.bytes;
    }
}

double hyp_run_work(const HypPlan__Program *p, const int64_t *values)
{
    double operations = 0, bytes = 0;
    add_work(p, values, &operations, &bytes);
    return operations + bytes;
}

hyp_status hyp_want_work(const HypPlan__Program *p, const int64_t *values, double limit, hyp_diag *diag)
{
    double operations = 0, bytes = 0;
    if (limit > 0) add_work(p, values, &operations, &bytes);
    if (!(limit > 0) || operations + bytes <= limit) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "a run of these shapes is %g operations on %g bytes: options->work_limit is %g; raise it, or run "
                    "smaller inputs",
                    operations, bytes, limit);
}
