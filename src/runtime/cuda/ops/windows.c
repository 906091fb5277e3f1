/* windows.c - windows that slide over x, as our kernels see them; pooling. */
#include <string.h>

#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_pool, hyp_cuda_add_pool_gradient;

enum { PIECE = 16 };

void hyp_cuda_windows_of(const hyp_window *window, const hyp_array *x, const hyp_array *y, hyp_cuda_windows *out)
{
    *out = (hyp_cuda_windows){.channels = hyp_cuda_extent_of(y->dims[1]),
                              .in_channels = x->dims[1],
                              .in_count = window->in_count,
                              .kernel_count = window->kernel_count,
                              .total = y->count};
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int32_t i = window->n - 1 - a; /* the innermost comes first */
        bool there = i >= 0;
        out->out[a] = hyp_cuda_extent_of(there ? window->out[i] : 1);
        out->in[a] = there ? window->in[i] : 1;
        out->kernel[a] = there ? window->kernel[i] : 1;
        out->stride[a] = there ? window->stride[i] : 1;
        out->dilation[a] = there ? window->dilation[i] : 1;
        out->before[a] = there ? window->before[i] : 0;
        out->after[a] = there ? window->after[i] : 0;
    }
}

void hyp_cuda_image_lane(hyp_cuda_box *box, uint32_t lane, int32_t rank, const int64_t *dims, bool last)
{
    int64_t step = last ? dims[1] : 1; /* of the innermost spatial axis */
    uint32_t axes = (uint32_t)rank - 2;
    box->rank = (uint32_t)rank;
    if (lane >= box->lanes) box->lanes = lane + 1;
    for (uint32_t a = 0; a < axes; a++) {
        box->stride[lane][a] = step;
        step *= dims[(uint32_t)rank - 1 - a];
    }
    box->stride[lane][axes] = last ? 1 : step;
    box->stride[lane][axes + 1] = last ? step : step * dims[1];
}

static hyp_cuda_kernel kernel_of(hyp_dtype dtype)
{
    if (dtype == HYP_F64) return HYP_CUDA_KERNEL_pool_f64;
    if (hyp_dtype_is_float(dtype)) return HYP_CUDA_KERNEL_pool_f32;
    return HYP_CUDA_KERNEL_pool_i64;
}

hyp_status hyp_cuda_add_pool(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool mean = strcmp(k->kernel, "average-pool") == 0;
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool(c, &window));
    if (mean && !hyp_array_is_float(x)) return hyp_kernel_fail(c, "a floating-point type is wanted");
    if (y->count == 0) return HYP_OK;
    bool last = c->attrs[5].i != 0; /* of a mean: pads count; of places: they count by columns */
    hyp_cuda_pool args = {.dtype = x->dtype, .mean = mean, .count_pads = mean && last, .columns = !mean && last};
    hyp_cuda_grid grid = {.kernel = kernel_of(x->dtype)};
    hyp_cuda_windows *w = &args.windows;
    hyp_cuda_windows_of(&window, x, y, w);
    w->x_last = hyp_cuda_lies_last(b, k->inputs_plus1[0] - 1);
    w->y_last = hyp_cuda_lies_last(b, k->outputs[0]);
    int64_t per_piece = PIECE / (int64_t)hyp_dtype_size(x->dtype);
    if (w->x_last && w->y_last && y->dims[1] % per_piece == 0) { /* such are floats of 16 and 32 bits */
        grid.kernel = HYP_CUDA_KERNEL_pool_pieces;
        w->channels = hyp_cuda_extent_of(y->dims[1] / per_piece);
        w->total /= per_piece;
    }
    hyp_cuda_spread(b->session->model->device, w->total, &grid);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_pool, x, k->inputs_plus1[0]),
                                   HYP_CUDA_SLOT(hyp_cuda_pool, y, k->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_pool, places, c->out_count > 1 ? k->outputs[1] + 1 : 0)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_pool_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    hyp_window window;
    HYP_TRY(hyp_kernel_read_pool_gradient(c, &window));
    if (x->count == 0) return HYP_OK;
    hyp_cuda_pool_gradient args = {.dtype = x->dtype, .out_count = window.out_count};
    /* Places are counted in 32 bits, or in 64 where that is too few. */
    bool wide = x->dtype == HYP_F64 || window.in_count > INT32_MAX || window.out_count > INT32_MAX;
    for (int32_t a = 0; a < window.n; a++)
        wide |= window.in[a] + window.before[a] + window.after[a] + window.kernel[a] * window.dilation[a] + window.stride[a] > INT32_MAX;
    hyp_cuda_grid grid = {.kernel = wide ? HYP_CUDA_KERNEL_pool_gradient_f64 : HYP_CUDA_KERNEL_pool_gradient_f32};
    hyp_cuda_windows *w = &args.windows;
    hyp_cuda_windows_of(&window, x, &c->in[1], w);
    w->total = x->count;
    w->x_last = w->y_last = hyp_cuda_lies_last(b, k->inputs_plus1[0] - 1);
    const int64_t per_piece = PIECE / (int64_t)hyp_dtype_size(x->dtype);
    if (w->x_last && !wide && x->dims[1] % per_piece == 0) { /* such are floats of 16 and 32 bits */
        grid.kernel = HYP_CUDA_KERNEL_pool_gradient_pieces;
        w->channels = hyp_cuda_extent_of(x->dims[1] / per_piece);
        w->total /= per_piece;
    }
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        args.in[a] = hyp_cuda_extent_of(w->in[a]);
        args.stride[a] = hyp_cuda_extent_of(w->stride[a]);
    }
    hyp_cuda_spread(b->session->model->device, w->total, &grid);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_pool_gradient, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_pool_gradient, y, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_pool_gradient, g, hyp_plan_call_input(k, 2)),
                                   HYP_CUDA_SLOT(hyp_cuda_pool_gradient, by_x, k->outputs[0] + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
