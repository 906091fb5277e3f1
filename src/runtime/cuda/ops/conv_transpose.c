/* conv_transpose.c - transposed convolutions, which are gradients of convolutions by x: which way is taken, and that by
 * a kernel of our own, a thread a result, which gathers what reaches it. */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_conv_transpose;

/* The window slides over the result; to the kernel, which starts from results, it lies the other way round. */
static void set_windows(const hyp_conv *v, hyp_cuda_conv_transpose *out)
{
    hyp_cuda_windows *w = &out->conv.windows;
    hyp_cuda_windows_of(&v->window, v->y, v->x, w);
    w->in_count = v->window.out_count;
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        int64_t of_x = w->in[a];
        w->in[a] = w->out[a].size;
        w->out[a] = hyp_cuda_extent_of(of_x);
        out->step[a] = w->stride[a];
        w->stride[a] = 1;
        w->before[a] = -w->before[a];
    }
}

static const char *plain_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    (void)b;
    (void)step;
    return NULL;
}

static hyp_status add_plain(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    enum { THREADS = 256 };
    const hyp_conv *v = &step->conv;
    hyp_cuda_conv_transpose args = {
        .conv = {.group_out = hyp_cuda_extent_of(v->in_channels), .group_in = v->out_channels, .dtype = step->dtype}};
    const hyp_cuda_grid grid = {.kernel = !hyp_dtype_is_float(step->dtype) ? HYP_CUDA_KERNEL_conv_transpose_u64
                                          : step->dtype == HYP_F64         ? HYP_CUDA_KERNEL_conv_transpose_f64
                                                                           : HYP_CUDA_KERNEL_conv_transpose_f32,
                                .blocks = hyp_cuda_blocks(b->session->model->device, v->x->count, THREADS),
                                .block_x = THREADS,
                                .block_y = 1};
    set_windows(v, &args);
    args.conv.windows.x_last = step->y_last;
    args.conv.windows.y_last = step->x_last;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.x, step->y + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.weight, step->weight + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.bias, step->bias_plus1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_transpose, conv.y, step->x + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

const hyp_cuda_conv_way hyp_cuda_conv_transpose_plain = {"plain", plain_cannot, hyp_cuda_plain_seconds, add_plain, false};

/* The transpose's x is what its convolution gives, and its result the convolution's x. */
static void turn_round(const hyp_conv *v, hyp_conv *out)
{
    *out = *v;
    out->x = v->y;
    out->y = v->x;
    out->in_channels = v->out_channels;
    out->out_channels = v->in_channels;
}

hyp_status hyp_cuda_add_conv_transpose(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_conv_step step = {.gradient = HYP_CUDA_CONV_BY_X,
                               .x = k->outputs[0],
                               .weight = k->inputs_plus1[1] - 1,
                               .y = k->inputs_plus1[0] - 1,
                               .bias_plus1 = hyp_plan_call_input(k, 2),
                               .dtype = c->out[0].dtype,
                               .act = HYP_PW_CAST};
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(c, true, &v));
    if (v.y->count == 0) return HYP_OK;
    turn_round(&v, &step.conv);
    step.x_last = hyp_cuda_lies_last(b, step.x);
    step.y_last = hyp_cuda_lies_last(b, step.y);
    return hyp_cuda_add_conv_step(b, &step);
}
