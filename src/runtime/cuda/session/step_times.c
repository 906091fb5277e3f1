/* step_times.c - what every step of a run takes on the device. */
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/tuning/tune.h"

enum { ROUNDS = 3 };

/* Some of the ops as a list of their own, which borrows everything. */
static hyp_cuda_prepared part(const hyp_cuda_prepared *p, size_t first, size_t count)
{
    hyp_cuda_prepared some = *p;
    some.ops.data += first;
    some.ops.len = some.commit = count;
    some.aside = some.ahead.len = 0;
    some.branches.units = NULL;
    return some;
}

/* Times an op whose tensors are bound. */
static hyp_status time_op(hyp_cuda_session *s, hyp_cuda_prepared *one, double *out, hyp_diag *diag)
{
    hyp_cuda_candidate c = {.ops = one}, *list[] = {&c};
    hyp_cuda_trial t = {0};
    bool runs = true;
    hyp_status status = hyp_cuda_trial_open_op(&t, s, one->ops.data[0].step, diag);
    if (status == HYP_OK) status = hyp_cuda_trial_start(&t, &c, diag);
    if (status == HYP_OK) status = hyp_cuda_trial_ready(&t, &c, &runs, diag);
    if (status == HYP_OK && !runs) status = hyp_fail(diag, HYP_ERR_DEVICE, "it cannot be captured into a CUDA graph");
    if (status == HYP_OK) status = hyp_cuda_race(&t, list, 1, ROUNDS, 0, diag);
    *out = c.seconds;
    hyp_cuda_candidate_dispose(&c, &s->model->device->lib);
    hyp_cuda_trial_close(&t);
    return status;
}

hyp_status hyp_cuda_time_ops(hyp_cuda_session *s, hyp_cuda_prepared *p, double *step_seconds, hyp_diag *diag)
{
    for (size_t i = 0; i < p->ops.len; i++) {
        hyp_cuda_prepared before = part(p, 0, i), one = part(p, i, 1);
        uint32_t step = one.ops.data[0].step;
        double seconds = 0;
        HYP_TRY(hyp_cuda_run_ops(s, &before, diag)); /* an op finds what it finds in a run */
        hyp_status status = time_op(s, &one, &seconds, diag);
        step_seconds[step] += seconds;
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", step, s->model->plan->program->steps[step]->label);
        return status;
    }
    return HYP_OK;
}
