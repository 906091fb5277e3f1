/* call.c - steps that call a kernel of src/kernels by name. */
#include "runtime/reference/reference.h"

void hyp_reference_arguments(const hyp_reference_call *call, const HypPlan__Call *s, hyp_diag *diag,
                             hyp_call_arguments *a)
{
    static _Alignas(64) char nothing[1]; /* of no bytes, where no step needs any */
    hyp_plan_call_arguments(call->program, s, call->values, diag, a);
    a->call.scratch = call->work ? call->work : nothing;
    for (size_t i = 0; call->at && i < s->n_inputs_plus1; i++)
        if (s->inputs_plus1[i]) a->in[i].data = call->at[s->inputs_plus1[i] - 1];
    for (size_t i = 0; call->at && i < s->n_outputs; i++) a->out[i].data = call->at[s->outputs[i]];
}

hyp_status hyp_reference_check_calls(const HypPlan__Program *program, hyp_diag *diag)
{
    for (size_t i = 0; i < program->n_steps; i++) {
        const hyp_kernel *kernel;
        if (program->steps[i]->kernel_case != HYP_PLAN__STEP__KERNEL_CALL) continue;
        hyp_status status = hyp_plan_call_kernel(program, program->steps[i]->call, &kernel, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %zu", i);
        return status;
    }
    return HYP_OK;
}

size_t hyp_reference_call_work(const HypPlan__Program *program, const HypPlan__Call *step, const int64_t *values)
{
    const hyp_reference_call call = {.program = program, .values = values};
    const hyp_kernel *kernel = hyp_kernel_find(step->kernel);
    hyp_call_arguments a;
    hyp_reference_arguments(&call, step, NULL, &a);
    return kernel->scratch(&a.call);
}

hyp_status hyp_reference_run_call(const hyp_reference_call *call, const HypPlan__Call *step, hyp_diag *diag)
{
    hyp_call_arguments a;
    hyp_reference_arguments(call, step, diag, &a);
    return hyp_kernel_find(step->kernel)->run(&a.call);
}
