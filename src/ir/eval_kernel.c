/* eval_kernel.c - the reference evaluation of operators that have a kernel of their name. */
#include <string.h>

#include "ir/op.h"
#include "kernels/kernels.h"

static hyp_array array_of(const hyp_eval_tensor *t)
{
    hyp_array a = {.dtype = t->dtype,
                   .stored = t->f ? HYP_F64 : HYP_I64,
                   .rank = t->rank,
                   .count = (int64_t)t->count,
                   .data = t->f ? (void *)t->f : (void *)t->i};
    memcpy(a.dims, t->dims, sizeof a.dims);
    return a;
}

static hyp_kernel_attr attr_of(const hyp_attr *a)
{
    switch (a->kind) {
    case HYP_ATTR_INT: return (hyp_kernel_attr){.kind = HYP_KERNEL_INT, .i = a->i};
    case HYP_ATTR_FLOAT: return (hyp_kernel_attr){.kind = HYP_KERNEL_FLOAT, .f = a->f};
    case HYP_ATTR_SYM: return (hyp_kernel_attr){.kind = HYP_KERNEL_SYM, .sym = a->sym};
    default: return (hyp_kernel_attr){.kind = HYP_KERNEL_INTS, .count = a->count, .ints = a->dims};
    }
}

static hyp_status run(const hyp_kernel *kernel, hyp_kernel_call *call)
{
    size_t bytes = kernel->scratch(call);
    call->scratch = hyp_aligned_alloc(64, bytes ? bytes : 1);
    if (!call->scratch) return hyp_fail_memory(call->diag, bytes);
    hyp_status status = kernel->run(call);
    hyp_aligned_free(call->scratch);
    return status;
}

/* With the weights of a convolution, which are not loaded. */
static hyp_status run_loaded(const hyp_eval_call *c, const hyp_kernel *kernel, hyp_kernel_call *call)
{
    const hyp_eval_tensor *w = c->in[1];
    hyp_tensor from = {.dtype = w->dtype, .rank = w->rank, .data = (void *)(uintptr_t)w->stored};
    hyp_eval_tensor loaded;
    hyp_array in[HYP_KERNEL_MAX_INPUTS];
    memcpy(from.dims, w->dims, sizeof from.dims);
    from.bytes = w->count * sizeof(float);
    HYP_TRY(hyp_eval_tensor_load(&loaded, &from, c->diag));
    memcpy(in, call->in, sizeof in);
    in[1] = array_of(&loaded);
    call->in = in;
    hyp_status status = run(kernel, call);
    hyp_eval_tensor_dispose(&loaded);
    return status;
}

hyp_status hyp_eval_kernel(const hyp_eval_call *c)
{
    const hyp_op_info *info = hyp_op_get(c->op);
    const hyp_kernel *kernel = hyp_kernel_find(info->name);
    hyp_array in[HYP_KERNEL_MAX_INPUTS] = {0}, out[HYP_KERNEL_MAX_OUTPUTS] = {0};
    hyp_kernel_attr attrs[HYP_KERNEL_MAX_ATTRS];
    if (!kernel || c->in_count > HYP_KERNEL_MAX_INPUTS || c->out_count > HYP_KERNEL_MAX_OUTPUTS)
        return hyp_fail(c->diag, HYP_ERR_LIMIT, "%s: %u inputs and %u outputs, kernels take at most %d and %d",
                        info->name, c->in_count, c->out_count, HYP_KERNEL_MAX_INPUTS, HYP_KERNEL_MAX_OUTPUTS);
    hyp_kernel_call call = {
        .op = info->name, .in = in, .out = out, .out_count = c->out_count, .attrs = attrs, .diag = c->diag};
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!c->in[i]) continue;
        in[i] = array_of(c->in[i]);
        call.in_count = i + 1;
    }
    for (uint32_t i = 0; i < c->out_count; i++) out[i] = array_of(&c->out[i]);
    for (uint32_t i = 0; i < info->attr_count; i++) attrs[i] = attr_of(&c->attrs[i]);
    HYP_TRY(hyp_kernel_check(kernel, &call));
    bool done;
    HYP_TRY(hyp_eval_conv_fast(c, &call, &done));
    if (done) return HYP_OK;
    if (c->op == HYP_OP_conv && c->in[1]->stored) return run_loaded(c, kernel, &call);
    return run(kernel, &call);
}
