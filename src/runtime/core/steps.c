/* steps.c - what is done around the steps of a run, whatever the device. */
#include "runtime/core/backend.h"
#include "runtime/core/host_memory.h"

bool hyp_steps_are_watched(const hyp_bindings *b)
{
    return b->options && (b->options->step_begins || b->options->step_ends);
}

hyp_status hyp_step_begins(const hyp_bindings *b, size_t step, hyp_diag *diag)
{
    if (step <= b->commit && b->cancelled && atomic_load_explicit(b->cancelled, memory_order_relaxed))
        return hyp_fail(diag, HYP_ERR_CANCELLED, "the run was cancelled before step %zu: hyp_context_cancel", step);
    if (b->options && b->options->step_begins) b->options->step_begins(step, b->options->step_user);
    return HYP_OK;
}

void hyp_step_ends(const hyp_bindings *b, size_t step)
{
    if (b->options && b->options->step_ends) b->options->step_ends(step, b->options->step_user);
}

hyp_status hyp_run_steps(const hyp_bindings *b, const HypPlan__Program *p, hyp_step_fn *run, void *state,
                         hyp_diag *diag)
{
    size_t count = b->leaves_commit ? b->commit : p->n_steps;
    for (size_t i = 0; i < count; i++) {
        HYP_TRY(hyp_step_begins(b, i, diag));
        double start = b->step_seconds ? hyp_clock_seconds() : 0;
        hyp_status status = run(state, i, diag);
        if (b->step_seconds) b->step_seconds[i] += hyp_clock_seconds() - start;
        if (status != HYP_OK) {
            hyp_host_name_step(p, i, diag);
            return status;
        }
        hyp_step_ends(b, i);
    }
    return HYP_OK;
}
