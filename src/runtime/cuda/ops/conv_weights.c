/* conv_weights.c - gradients of convolutions by the weights: which way is taken, and that by a kernel of our own, a
 * block a weight, whose threads share the places. */
#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"

hyp_cuda_call_fn hyp_cuda_add_conv_backward_weights;

static const char *plain_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    (void)b;
    (void)step;
    return NULL;
}

static hyp_status add_plain(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    enum { WARP = 32, MOST = 256 };
    const hyp_conv *v = &step->conv;
    uint32_t threads = WARP;
    while (threads < MOST && threads < v->batch * v->window.out_count) threads *= 2;
    hyp_cuda_conv_weights args = {.group_out = v->out_channels,
                                  .group_in = v->in_channels,
                                  .weights = v->w->count,
                                  .places = v->window.out_count,
                                  .dtype = step->dtype};
    const hyp_cuda_grid grid = {.kernel = !hyp_dtype_is_float(step->dtype) ? HYP_CUDA_KERNEL_conv_weights_u64
                                          : step->dtype == HYP_F64         ? HYP_CUDA_KERNEL_conv_weights_f64
                                                                           : HYP_CUDA_KERNEL_conv_weights_f32,
                                .blocks = hyp_cuda_blocks(b->session->model->device, v->w->count, 1),
                                .block_x = threads,
                                .block_y = 1,
                                .shared_bytes = threads * (uint32_t)sizeof(double)};
    hyp_cuda_windows_of(&v->window, v->x, v->y, &args.windows);
    args.windows.x_last = step->x_last;
    args.windows.y_last = step->y_last;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_conv_weights, x, step->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_weights, g, step->y + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_conv_weights, y, step->weight + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

const hyp_cuda_conv_way hyp_cuda_conv_weights_plain = {"plain", plain_cannot, hyp_cuda_plain_seconds, add_plain, false};

hyp_status hyp_cuda_add_conv_backward_weights(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_conv_step step = {.gradient = HYP_CUDA_CONV_BY_WEIGHTS,
                               .x = k->inputs_plus1[0] - 1,
                               .weight = k->outputs[0],
                               .y = k->inputs_plus1[1] - 1,
                               .dtype = c->out[0].dtype,
                               .act = HYP_PW_CAST};
    const hyp_array *w = &c->out[0];
    HYP_TRY(hyp_kernel_read_conv_weights(c, &step.conv));
    if (w->count == 0) return HYP_OK;
    if (step.conv.y->count == 0) return hyp_cuda_add_zero(b, step.weight, (size_t)w->count * hyp_dtype_size(w->dtype));
    step.x_last = hyp_cuda_lies_last(b, step.x);
    step.y_last = hyp_cuda_lies_last(b, step.y);
    return hyp_cuda_add_conv_step(b, &step);
}
