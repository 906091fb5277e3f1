/* call.c - steps that call a kernel of src/kernels by name. */
#include "runtime/reference/reference.h"

static hyp_array array_of(const hyp_reference_call *call, uint32_t tensor)
{
    const HypPlan__Tensor *t = call->program->tensors[tensor];
    hyp_array a = {.dtype = (hyp_dtype)t->dtype,
                   .stored = (hyp_dtype)t->dtype,
                   .rank = (int32_t)t->n_dims,
                   .count = 1,
                   .data = call->at ? call->at[tensor] : NULL};
    for (size_t i = 0; i < t->n_dims; i++) {
        a.dims[i] = call->values ? call->values[t->dims[i]] : 0;
        a.count *= a.dims[i]; /* no overflow: the sizes were checked */
    }
    return a;
}

_Static_assert((int)HYP_PLAN_CALL_INPUTS <= HYP_KERNEL_MAX_INPUTS, "a kernel takes what a plan can name");

void hyp_reference_arguments(const hyp_reference_call *call, const HypPlan__Call *s, hyp_diag *diag,
                             hyp_call_arguments *a)
{
    size_t ints = 0;
    a->call = (hyp_kernel_call){.op = s->kernel,
                                .in = a->in,
                                .in_count = (uint32_t)s->n_inputs_plus1,
                                .out = a->out,
                                .out_count = (uint32_t)s->n_outputs,
                                .attrs = a->attrs,
                                .scratch = call->work,
                                .diag = diag};
    for (size_t i = 0; i < s->n_inputs_plus1; i++)
        a->in[i] = s->inputs_plus1[i] ? array_of(call, s->inputs_plus1[i] - 1) : (hyp_array){0};
    for (size_t i = 0; i < s->n_outputs; i++) a->out[i] = array_of(call, s->outputs[i]);
    for (size_t i = 0; i < s->n_attrs; i++) {
        static const hyp_kernel_attr_kind kinds[] = {HYP_KERNEL_INT, HYP_KERNEL_FLOAT, HYP_KERNEL_SYM, HYP_KERNEL_INTS};
        const HypPlan__Call__Attr *from = s->attrs[i];
        hyp_kernel_attr *to = &a->attrs[i];
        *to = (hyp_kernel_attr){.kind = kinds[from->kind]};
        int64_t *list = a->ints + ints;
        for (size_t d = 0; d < from->n_dims; d++) a->ints[ints++] = call->values ? call->values[from->dims[d]] : 0;
        switch (to->kind) {
        case HYP_KERNEL_INT: to->i = *list; break;
        case HYP_KERNEL_FLOAT: to->f = from->number; break;
        case HYP_KERNEL_SYM: to->sym = from->text; break;
        case HYP_KERNEL_INTS:
            to->ints = list;
            to->count = (uint32_t)from->n_dims;
            break;
        }
    }
}

hyp_status hyp_reference_check_calls(const HypPlan__Program *program, hyp_diag *diag)
{
    const hyp_reference_call call = {.program = program};
    for (size_t i = 0; i < program->n_steps; i++) {
        if (program->steps[i]->kernel_case != HYP_PLAN__STEP__KERNEL_CALL) continue;
        const HypPlan__Call *s = program->steps[i]->call;
        const hyp_kernel *kernel = hyp_kernel_find(s->kernel);
        hyp_call_arguments a;
        if (!kernel)
            return hyp_fail(diag, HYP_ERR_INCOMPATIBLE,
                            "step %zu calls the kernel '%s', which this version of Hypatia does not have; run the plan "
                            "with the version that built it, or build it again with the hypatiac of this version",
                            i, s->kernel);
        hyp_reference_arguments(&call, s, diag, &a);
        if (strlen(kernel->attrs) != s->n_attrs)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "step %zu: %s has %zu attributes, %zu are given", i, s->kernel,
                            strlen(kernel->attrs), s->n_attrs);
        hyp_status status = hyp_kernel_check(kernel, &a.call);
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
