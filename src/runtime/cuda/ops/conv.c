/* conv.c - convolution steps: as products, by cuDNN, or by kernels of our own. */
#include "runtime/cuda/ops/conv.h"

#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/session/backend.h"

hyp_cuda_call_fn hyp_cuda_add_conv;

enum { THREADS = 256 };

/* One weight for each place of the window and no sum over channels: a product would be almost empty. */
static bool is_depthwise(const hyp_conv *v) { return v->in_channels == 1 && v->group > 1; }

/* ---- our kernel for all ---------------------------------------------------------------------------------------- */

typedef struct conv {
    hyp_cuda_conv args;
    hyp_cuda_grid grid;
    uint32_t x, weight, y, bias_plus1, added_plus1;
    bool moves; /* what is added is brought to the session's room, in the order of the result */
    hyp_cuda_mover added;
} conv;

static hyp_status conv_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    conv *p = data;
    p->args.x = s->at[p->x];
    p->args.weight = s->at[p->weight];
    p->args.y = s->at[p->y];
    p->args.bias = hyp_cuda_address(s, p->bias_plus1);
    p->args.added = hyp_cuda_address(s, p->added_plus1);
    if (p->moves) {
        HYP_TRY(hyp_cuda_mover_run(s, &p->added, p->args.added, s->room, diag));
        p->args.added = s->room;
    }
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status add_mover(hyp_cuda_build *b, const hyp_cuda_conv_step *step, conv *p)
{
    hyp_cuda_session *s = b->session;
    size_t size = hyp_dtype_size(step->dtype);
    hyp_cuda_box box;
    hyp_cuda_image_box(&box, step->conv.y, step->added_last, step->y_last);
    HYP_TRY(hyp_cuda_grow(s, &s->room, &s->room_bytes, (size_t)step->conv.y->count * size, "convolutions", b->diag));
    return hyp_cuda_mover_init(b, &box, size, 0, 0, &p->added);
}

static hyp_status add_plain(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, conv_run, sizeof(conv), &data));
    conv *p = data;
    *p = (conv){.args = {.group_out = hyp_cuda_extent_of(v->out_channels),
                         .group_in = v->in_channels,
                         .dtype = step->dtype,
                         .act = step->act},
                .grid = {.kernel = !hyp_dtype_is_float(step->dtype) ? HYP_CUDA_KERNEL_conv_u64
                                   : step->dtype == HYP_F64         ? HYP_CUDA_KERNEL_conv_f64
                                                                    : HYP_CUDA_KERNEL_conv_f32,
                         .blocks = hyp_cuda_blocks(b->session->model->device, v->y->count, THREADS),
                         .block_x = THREADS,
                         .block_y = 1},
                .x = step->x,
                .weight = step->weight,
                .y = step->y,
                .bias_plus1 = step->bias_plus1,
                .added_plus1 = step->added_plus1};
    hyp_cuda_windows_of(&v->window, v->x, v->y, &p->args.windows);
    p->args.windows.x_last = step->x_last;
    p->args.windows.y_last = step->y_last;
    int64_t filter = v->in_channels * v->window.kernel_count;
    bool turned = step->weight_last && is_depthwise(v); /* [kernel..., channels] */
    p->args.filter_step = turned ? 1 : filter;
    p->args.tap_step = turned ? v->y->dims[1] : step->weight_last ? v->in_channels : 1;
    p->args.channel_step = step->weight_last ? 1 : v->window.kernel_count;
    p->moves = step->added_plus1 && step->added_last != step->y_last;
    if (p->moves) HYP_TRY(add_mover(b, step, p));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* ---- single channels ------------------------------------------------------------------------------------------- */

typedef struct depthwise {
    hyp_cuda_depthwise args;
    hyp_cuda_grid grid;
    uint32_t x, weight, y, bias_plus1;
} depthwise;

static hyp_status depthwise_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    depthwise *p = data;
    p->args.x = s->at[p->x];
    p->args.weight = s->at[p->weight];
    p->args.y = s->at[p->y];
    p->args.bias = hyp_cuda_address(s, p->bias_plus1);
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

/* Are all places that a window may reach, and their counts, far below 2^31? */
static bool is_small(const hyp_conv *v)
{
    const int64_t most = 1 << 28;
    const hyp_window *w = &v->window;
    bool small = w->in_count <= most && w->kernel_count <= most && v->group <= most;
    for (int32_t a = 0; a < w->n; a++)
        small =
            small && w->before[a] <= most && w->dilation[a] * w->kernel[a] <= most && w->stride[a] * w->out[a] <= most;
    return small;
}

/* What the kernel for single channels does: they come last, in multiples of 16 bytes. */
static bool is_simple_depthwise(const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    bool is_native = step->dtype == HYP_F32 || step->dtype == HYP_F16 || step->dtype == HYP_BF16;
    bool x_last = step->x_last || hyp_cuda_one_order(v->x), y_last = step->y_last || hyp_cuda_one_order(v->y);
    return is_depthwise(v) && v->out_channels == 1 && step->weight_last && is_native && !step->added_plus1 && x_last &&
           y_last && v->group * (int64_t)hyp_dtype_size(step->dtype) % 16 == 0 && is_small(v);
}

/* Takes the newest op back, if it does nothing but clip x, which no other step reads: a pass through memory less. */
static bool take_clip(hyp_cuda_build *b, uint32_t x)
{
    uint32_t reads[HYP_PLAN_CALL_INPUTS];
    size_t uses = 0, newest = b->prepared->ops.len - 1;
    if (b->clipped_plus1 != x + 1 || b->clipped_at != newest || b->prepared->ops.data[newest].dispose) return false;
    for (size_t i = 0; i < b->program->n_steps; i++) {
        size_t count = hyp_plan_step_reads(b->program->steps[i], reads, HYP_PLAN_CALL_INPUTS);
        if (count > HYP_PLAN_CALL_INPUTS) return false;
        for (size_t k = 0; k < count; k++) uses += hyp_plan_root(b->program, reads[k]) == hyp_plan_root(b->program, x);
    }
    if (uses != 1) return false;
    b->prepared->ops.len--;
    return true;
}

static hyp_status add_depthwise(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    bool clips = take_clip(b, step->x);
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, depthwise_run, sizeof(depthwise), &data));
    depthwise *p = data;
    *p = (depthwise){.args = {.dtype = step->dtype, .act = step->act, .clips = clips},
                     .grid = {.kernel = HYP_CUDA_KERNEL_depthwise, .block_x = THREADS, .block_y = 1},
                     .x = step->x,
                     .weight = step->weight,
                     .y = step->y,
                     .bias_plus1 = step->bias_plus1};
    hyp_cuda_windows *w = &p->args.windows;
    hyp_cuda_windows_of(&v->window, v->x, v->y, w);
    int64_t row = w->out[0].size, rows = v->y->count / v->group / row;
    int64_t pieces = v->group * (int64_t)hyp_dtype_size(step->dtype) / 16;
    int64_t groups = (row + HYP_CUDA_DEPTHWISE - 1) / HYP_CUDA_DEPTHWISE;
    w->x_last = w->y_last = true;
    w->channels = hyp_cuda_extent_of(pieces);
    w->out[0] = hyp_cuda_extent_of(groups);
    w->total = rows * groups * pieces;
    p->args.row = row;
    p->args.step = w->stride[0];
    w->stride[0] *= HYP_CUDA_DEPTHWISE;
    p->grid.blocks = hyp_cuda_blocks(b->session->model->device, w->total, THREADS);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

/* hyp_kernel_read_conv knows the names. */
static uint32_t act_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t op;
    } acts[] = {{"relu", HYP_PW_RELU}, {"relu6", HYP_PW_CLIP}, {"sigmoid", HYP_PW_SIGMOID},
                {"tanh", HYP_PW_TANH}, {"silu", HYP_PW_SILU},  {"hard-swish", HYP_PW_HARD_SWISH},
                {"mish", HYP_PW_MISH}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (strcmp(acts[i].name, name) == 0) return acts[i].op;
    return HYP_PW_CAST;
}

hyp_status hyp_cuda_add_conv(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_conv_step step = {.x = k->inputs_plus1[0] - 1,
                               .weight = k->inputs_plus1[1] - 1,
                               .y = k->outputs[0],
                               .bias_plus1 = k->n_inputs_plus1 > 2 ? k->inputs_plus1[2] : 0,
                               .added_plus1 = k->n_inputs_plus1 > 3 ? k->inputs_plus1[3] : 0,
                               .dtype = c->in[0].dtype,
                               .act = act_of(c->attrs[4].sym)};
    bool done = false;
    HYP_TRY(hyp_kernel_read_conv(c, false, &step.conv));
    if (step.conv.y->count == 0) return HYP_OK;
    step.x_last = hyp_cuda_lies_last(b, step.x);
    step.weight_last = hyp_cuda_lies_last(b, step.weight);
    step.y_last = hyp_cuda_lies_last(b, step.y);
    step.added_last = step.added_plus1 && hyp_cuda_lies_last(b, step.added_plus1 - 1);
    if (is_simple_depthwise(&step)) return add_depthwise(b, &step);
    HYP_TRY(hyp_cuda_add_conv_product(b, &step, &done));
    if (!done && !is_depthwise(&step.conv)) HYP_TRY(hyp_cuda_add_dnn_conv(b, &step, &done));
    return done ? HYP_OK : add_plain(b, &step);
}
