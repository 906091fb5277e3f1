/* sample.c - images sampled at places that the data give. */
#include "kernels/sample.h"

#include "base/dtype.h"
#include "runtime/cuda/kernels/sample_args.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_grid_sample;

hyp_status hyp_cuda_add_grid_sample(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { GROUP = 8 }; /* channels that share what a thread finds of a place */
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    hyp_cuda_sample args = {.dtype = x->dtype, .grid_dtype = c->in[1].dtype, .group = GROUP};
    HYP_TRY(hyp_kernel_read_grid_sample(c, &args.sampler));
    if (y->count == 0) return HYP_OK;
    const int64_t groups = (x->dims[1] + GROUP - 1) / GROUP;
    args.places = hyp_cuda_extent_of(args.sampler.places);
    args.groups = hyp_cuda_extent_of(groups);
    args.channels = x->dims[1];
    args.total = x->dims[0] * groups * args.sampler.places;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_sample, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_sample, grid, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_sample, y, k->outputs[0] + 1)};
    const hyp_cuda_kernel kernel = x->dtype == HYP_F64 ? HYP_CUDA_KERNEL_sample_f64 : HYP_CUDA_KERNEL_sample_f32;
    return hyp_cuda_add_spread(b, kernel, args.total, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
