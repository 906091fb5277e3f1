/* sample.c - images sampled at places that the data give. */
#include "kernels/sample.h"

#include "base/dtype.h"
#include "runtime/cuda/kernels/sample_args.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_grid_sample, hyp_cuda_add_grid_sample_gradient;

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

hyp_status hyp_cuda_add_grid_sample_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { THREADS = 1 << 16 }; /* about so many: more would look through all places for fewer rows each */
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const bool wide = x->dtype == HYP_F64;
    hyp_cuda_sample_gradient args = {.dtype = x->dtype, .grid_dtype = c->in[1].dtype};
    bool by_grid;
    HYP_TRY(hyp_kernel_read_grid_sample_gradient(c, &args.sampler, &by_grid));
    if (y->count == 0) return HYP_OK;
    args.places = hyp_cuda_extent_of(args.sampler.places);
    args.channels = hyp_cuda_extent_of(x->dims[1]);
    args.axes = hyp_cuda_extent_of(args.sampler.axes);
    args.total = y->count;
    if (!by_grid) {
        const int64_t planes = x->dims[0] * x->dims[1], size = x->dims[2];
        int64_t bands = THREADS / planes > 1 ? THREADS / planes : 1;
        args.rows = bands < size ? (size + bands - 1) / bands : 1;
        bands = (size + args.rows - 1) / args.rows;
        args.bands = hyp_cuda_extent_of(bands);
        args.total = planes * bands;
    }
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_sample_gradient, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_sample_gradient, grid, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_sample_gradient, g, hyp_plan_call_input(k, 2)),
                                   HYP_CUDA_SLOT(hyp_cuda_sample_gradient, y, k->outputs[0] + 1)};
    const hyp_cuda_kernel kernel = by_grid ? (wide ? HYP_CUDA_KERNEL_sample_slopes_f64 : HYP_CUDA_KERNEL_sample_slopes_f32)
                                           : (wide ? HYP_CUDA_KERNEL_sample_back_f64 : HYP_CUDA_KERNEL_sample_back_f32);
    return hyp_cuda_add_spread(b, kernel, args.total, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
