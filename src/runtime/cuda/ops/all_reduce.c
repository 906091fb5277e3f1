/* all_reduce.c - sums and means over the processes of a group, by NCCL; all tensors of a step in one launch. */
#include <string.h>

#include "runtime/cuda/driver/nccl.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_all_reduce;

typedef struct reduced {
    uint32_t x, y; /* tensors */
    size_t count, bytes;
    int type; /* NCCL's */
} reduced;

typedef struct all_reduce {
    int reduction; /* NCCL's */
    uint32_t count;
    reduced parts[HYP_KERNEL_MAX_OUTPUTS];
} all_reduce;

/* A process that runs the plan alone. */
static hyp_status copy_all(hyp_cuda_session *s, const all_reduce *p, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (uint32_t i = 0; i < p->count; i++) {
        const reduced *r = &p->parts[i];
        HYP_TRY(hyp_cuda_check(lib, lib->cuMemcpyDtoDAsync(s->at[r->y], s->at[r->x], r->bytes, s->stream),
                               "cuMemcpyDtoDAsync", diag));
    }
    return HYP_OK;
}

static hyp_status run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    const all_reduce *p = data;
    const hyp_cuda_group *group = s->model->device->group;
    if (!group) return copy_all(s, p, diag);
    const hyp_nccl *nccl = hyp_cuda_group_nccl(group);
    void *comm = hyp_cuda_group_comm(group);
    HYP_TRY(hyp_nccl_check(nccl, nccl->ncclGroupStart(), "ncclGroupStart", diag));
    int result = 0;
    for (uint32_t i = 0; i < p->count && result == 0; i++) {
        const reduced *r = &p->parts[i];
        result = nccl->ncclAllReduce((const void *)(uintptr_t)s->at[r->x], (void *)(uintptr_t)s->at[r->y], r->count,
                                     r->type, p->reduction, comm, s->stream);
    }
    int ended = nccl->ncclGroupEnd();
    return hyp_nccl_check(nccl, result ? result : ended, "ncclAllReduce", diag);
}

static int type_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F16: return HYP_NCCL_HALF;
    case HYP_BF16: return HYP_NCCL_BFLOAT16;
    case HYP_F32: return HYP_NCCL_FLOAT;
    case HYP_F64: return HYP_NCCL_DOUBLE;
    default: return -1;
    }
}

hyp_status hyp_cuda_add_all_reduce(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    all_reduce all = {.reduction = strcmp(c->attrs[0].sym, "mean") == 0 ? HYP_NCCL_MEAN : HYP_NCCL_SUM};
    if (all.reduction == HYP_NCCL_SUM && strcmp(c->attrs[0].sym, "sum") != 0)
        return hyp_kernel_fail(c, "no reduction '%s': mean or sum is wanted", c->attrs[0].sym);
    if (c->in_count != c->out_count)
        return hyp_kernel_fail(c, "%u outputs for %u inputs: as many are wanted", c->out_count, c->in_count);
    for (uint32_t i = 0; i < c->in_count; i++) {
        const hyp_array *x = &c->in[i], *y = &c->out[i];
        if (x->dtype != y->dtype || !hyp_array_same_shape(x, y) || type_of(x->dtype) < 0)
            return hyp_kernel_fail(c, "output %u is not of the type and shape of input %u, or of a type that is not added", i, i);
        if (x->count == 0) continue;
        all.parts[all.count++] = (reduced){.x = hyp_plan_call_input(k, i) - 1,
                                           .y = k->outputs[i],
                                           .count = (size_t)x->count,
                                           .bytes = (size_t)x->count * hyp_dtype_size(x->dtype),
                                           .type = type_of(x->dtype)};
    }
    void *data;
    if (all.count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, run, sizeof all, &data));
    memcpy(data, &all, sizeof all);
    return HYP_OK;
}
