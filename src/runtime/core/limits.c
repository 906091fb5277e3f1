/* limits.c - what a caller allows a context to do. */
#include "base/mem.h"
#include "runtime/core/buckets.h"
#include "runtime/core/loop.h"

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

hyp_status hyp_context_growth(hyp_context *c, size_t *out, hyp_diag *diag)
{
    hyp_mem_account *account = &c->root->account;
    size_t most = account->most, bytes = 0;
    account->most = SIZE_MAX; /* to measure takes some for a moment */
    *out = c->buckets ? hyp_buckets_needed(c) : 0;
    hyp_status status = c->engine->backend->measure(c->session, c->values, &bytes, diag);
    *out += bytes;
    if (status == HYP_OK) status = hyp_outputs_needed(c, out, diag);
    if (status == HYP_OK) status = hyp_loops_measure(c, c->values, out, diag);
    account->most = most;
    return status;
}

hyp_status hyp_want_room(hyp_context *c, hyp_diag *diag)
{
    size_t bytes;
    HYP_TRY(hyp_context_growth(c, &bytes, diag));
    bool known = hyp_add_size(bytes, hyp_context_scratch_bytes(c), &bytes);
    return known && hyp_mem_fits(bytes) ? HYP_OK : hyp_fail_memory(diag, known ? bytes : SIZE_MAX);
}
