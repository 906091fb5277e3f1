/* gradients.c - those of softmax and of norms, one kernel over rows for all. */
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_norm_gradient, hyp_cuda_add_softmax_gradient;

/* `args` says what is computed; rows.size and count, inner and the type of the scale are given. */
static hyp_status add(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c, hyp_cuda_row_gradient *args)
{
    const hyp_array *x = &c->in[0], *scale = hyp_kernel_input(c, 2);
    hyp_cuda_grid grid = {0};
    if (x->count == 0) return HYP_OK;
    args->scale_dtype = scale ? scale->dtype : HYP_DTYPE_NONE;
    args->rows.dtype = x->dtype;
    args->rows.vector = args->inner.size == 1 && (!scale || scale->dtype == x->dtype);
    bool fits = hyp_cuda_row_grid(b->session->model->device, &args->rows, &grid);
    grid.kernel = x->dtype == HYP_F64         ? HYP_CUDA_KERNEL_row_gradient_long_f64
                  : fits && args->rows.vector ? HYP_CUDA_KERNEL_row_gradient
                                              : HYP_CUDA_KERNEL_row_gradient_long_f32;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_row_gradient, rows.x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_row_gradient, g, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_row_gradient, rows.y, k->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_row_gradient, scale, hyp_plan_call_input(k, 2))};
    return hyp_cuda_add_launch(b, &grid, args, sizeof *args, slots, scale ? 4 : 3);
}

hyp_status hyp_cuda_add_norm_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    bool by_scale;
    hyp_cuda_row_gradient args = {
        .inner = hyp_cuda_extent_of(1), .epsilon = c->attrs[1].f, .centred = c->attrs[2].i != 0};
    HYP_TRY(hyp_kernel_norm_gradient_rows(c, &args.rows.count, &args.rows.size, &by_scale));
    args.by_scale = by_scale;
    return add(b, k, c, &args);
}

hyp_status hyp_cuda_add_softmax_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_row_gradient args = {.softmax = true};
    int64_t outer, inner;
    HYP_TRY(hyp_kernel_softmax_gradient_rows(c, &outer, &args.rows.size, &inner));
    if (outer == 0) return HYP_OK;
    args.rows.count = outer * inner;
    args.inner = hyp_cuda_extent_of(inner);
    return add(b, k, c, &args);
}
