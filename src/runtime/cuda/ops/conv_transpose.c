/* conv_transpose.c - transposed convolutions: a thread a result, which gathers what reaches it. cuDNN's gradients, which
 * compute the same, are many times faster for large ones, and not used. */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_conv_transpose;

typedef struct transposed {
    hyp_cuda_conv_transpose args;
    hyp_cuda_grid grid;
    uint32_t x, weight, bias_plus1, y;
} transposed;

static hyp_status transposed_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    transposed *p = data;
    p->args.conv.x = s->at[p->x];
    p->args.conv.weight = s->at[p->weight];
    p->args.conv.bias = hyp_cuda_address(s, p->bias_plus1);
    p->args.conv.y = s->at[p->y];
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

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
    void *data;
    HYP_TRY(hyp_kernel_read_conv(c, true, &v));
    if (v.y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, transposed_run, sizeof(transposed), &data));
    transposed *p = data;
    hyp_dtype dtype = v.y->dtype;
    *p = (transposed){.args.conv = {.group_out = hyp_cuda_extent_of(v.out_channels),
                                    .group_in = v.in_channels,
                                    .dtype = dtype},
                      .grid = {.kernel = !hyp_dtype_is_float(dtype) ? HYP_CUDA_KERNEL_conv_transpose_u64
                                         : dtype == HYP_F64         ? HYP_CUDA_KERNEL_conv_transpose_f64
                                                                    : HYP_CUDA_KERNEL_conv_transpose_f32,
                               .blocks = hyp_cuda_blocks(b->session->model->device, v.y->count, THREADS),
                               .block_x = THREADS,
                               .block_y = 1},
                      .x = hyp_plan_call_input(k, 0) - 1,
                      .weight = hyp_plan_call_input(k, 1) - 1,
                      .bias_plus1 = hyp_plan_call_input(k, 2),
                      .y = k->outputs[0]};
    set_windows(&v, &p->args);
    p->args.conv.windows.x_last = hyp_cuda_lies_last(b, p->x);
    p->args.conv.windows.y_last = hyp_cuda_lies_last(b, p->y);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}
