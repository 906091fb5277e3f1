/* call.c - calls of kernels: from what a plan says to what src/kernels takes. */
#include "plan/call.h"

static hyp_array array_of(const HypPlan__Program *program, uint32_t tensor, const int64_t *values)
{
    const HypPlan__Tensor *t = program->tensors[tensor];
    hyp_array a = {.dtype = (hyp_dtype)t->dtype, .stored = (hyp_dtype)t->dtype, .rank = (int32_t)t->n_dims, .count = 1};
    for (size_t i = 0; i < t->n_dims; i++) {
        a.dims[i] = values ? values[t->dims[i]] : 0;
        if (!hyp_mul_i64(a.count, a.dims[i], &a.count)) a.count = INT64_MAX; /* of sizes that nobody has checked yet */
    }
    return a;
}

_Static_assert((int)HYP_PLAN_CALL_INPUTS <= HYP_KERNEL_MAX_INPUTS, "a kernel takes what a plan can name");

void hyp_plan_call_arguments(const HypPlan__Program *program, const HypPlan__Call *s, const int64_t *values,
                             hyp_diag *diag, hyp_call_arguments *a)
{
    size_t ints = 0;
    a->call = (hyp_kernel_call){.op = s->kernel,
                                .in = a->in,
                                .in_count = (uint32_t)s->n_inputs_plus1,
                                .out = a->out,
                                .out_count = (uint32_t)s->n_outputs,
                                .attrs = a->attrs,
                                .diag = diag};
    for (size_t i = 0; i < s->n_inputs_plus1; i++)
        a->in[i] = s->inputs_plus1[i] ? array_of(program, s->inputs_plus1[i] - 1, values) : (hyp_array){0};
    for (size_t i = 0; i < s->n_outputs; i++) a->out[i] = array_of(program, s->outputs[i], values);
    for (size_t i = s->n_attrs; i < HYP_PLAN_CALL_ATTRS; i++) a->attrs[i] = (hyp_kernel_attr){.kind = HYP_KERNEL_FLOAT};
    for (size_t i = 0; i < s->n_attrs; i++) {
        static const hyp_kernel_attr_kind kinds[] = {HYP_KERNEL_INT, HYP_KERNEL_FLOAT, HYP_KERNEL_SYM, HYP_KERNEL_INTS};
        const HypPlan__Call__Attr *from = s->attrs[i];
        hyp_kernel_attr *to = &a->attrs[i];
        *to = (hyp_kernel_attr){.kind = kinds[from->kind]};
        int64_t *list = a->ints + ints;
        for (size_t d = 0; d < from->n_dims; d++) a->ints[ints++] = values ? values[from->dims[d]] : 0;
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

hyp_status hyp_plan_call_kernel(const HypPlan__Program *program, const HypPlan__Call *s, const hyp_kernel **out,
                                hyp_diag *diag)
{
    const hyp_kernel *kernel = *out = hyp_kernel_find(s->kernel);
    hyp_call_arguments a;
    if (!kernel)
        return hyp_fail(diag, HYP_ERR_INCOMPATIBLE,
                        "it calls the kernel '%s', which this version of Hypatia does not have; run the plan with the "
                        "version that built it, or build it again with the hypatiac of this version",
                        s->kernel);
    hyp_plan_call_arguments(program, s, NULL, diag, &a);
    size_t most = strlen(kernel->attrs);
    if (s->n_attrs < hyp_kernel_least_attrs(kernel) || s->n_attrs > most)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s has %zu attributes, %zu are given", s->kernel, most, s->n_attrs);
    return hyp_kernel_check(kernel, &a.call);
}

void hyp_plan_call_shorten(HypPlan__Call *s)
{
    const hyp_kernel *kernel = hyp_kernel_find(s->kernel);
    while (kernel && s->n_attrs > hyp_kernel_least_attrs(kernel) && s->attrs[s->n_attrs - 1]->number == 0) s->n_attrs--;
}
