/* conv_transpose.c - transposed convolutions: a thread a result, which gathers what reaches it. cuDNN's gradients, which
 * compute the same, are many times faster for large ones, and not used. */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_conv_transpose;

/* The window slides over y; to the kernel, which starts from results, it lies the other way round. */
static void set_windows(const hyp_conv *v, hyp_cuda_conv_transpose *out)
{
    hyp_cuda_windows *w = &out->conv.windows;
    hyp_cuda_windows_of(&v->window, v->x, v->y, w);
    w->in_count = v->window.out_count;
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int64_t of_y = w->in[a];
        w->in[a] = w->out[a].size;
        w->out[a] = hyp_cuda_extent_of(of_y);
        out->step[a] = w->stride[a];
        w->stride[a] = 1;
        w->before[a] = -w->before[a];
    }
}

hyp_status hyp_cuda_add_conv_transpose(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { THREADS = 256 };
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(c, true, &v));
    if (v.y->count == 0) return HYP_OK;
    uint32_t x_plus1 = hyp_plan_call_input(k, 0), y = k->outputs[0];
    hyp_dtype dtype = v.y->dtype;
    hyp_cuda_conv_transpose args = {
        .conv = {.group_out = hyp_cuda_extent_of(v.out_channels), .group_in = v.in_channels, .dtype = dtype}};
    const hyp_cuda_grid grid = {.kernel = !hyp_dtype_is_float(dtype) ? HYP_CUDA_KERNEL_conv_transpose_u64
                                          : dtype == HYP_F64         ? HYP_CUDA_KERNEL_conv_transpose_f64
                                                                     : HYP_CUDA_KERNEL_conv_transpose_f32,
                                .blocks = hyp_cuda_blocks(b->session->model->device, v.y->count, THREADS),
                                .block_x = THREADS,
                                .block_y = 1};
    set_windows(&v, &args);
    args.conv.windows.x_last = hyp_cuda_lies_last(b, x_plus1 - 1);
    args.conv.windows.y_last = hyp_cuda_lies_last(b, y);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.x, x_plus1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.weight, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.bias, hyp_plan_call_input(k, 2)),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.y, y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
