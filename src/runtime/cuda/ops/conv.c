/* conv.c - convolution steps: which of the ways to do them is taken, with the pool behind them, and two of these, by kernels
 * of our own. */
#include "runtime/cuda/ops/conv.h"

#include "base/dtype.h"
#include "base/strbuf.h"
#include "runtime/reference/reference.h"
#include "runtime/cuda/session/backend.h"

hyp_cuda_call_fn hyp_cuda_add_conv;

enum { THREADS = 256 };

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
    size_t size = hyp_dtype_size(step->dtype);
    hyp_cuda_box box;
    hyp_cuda_image_box(&box, step->conv.y, step->added_last, step->y_last);
    HYP_TRY(hyp_cuda_want_room(b, (size_t)step->conv.y->count * size));
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
    bool turned = step->weight_last && hyp_cuda_is_depthwise(v); /* [kernel..., channels] */
    p->args.filter_step = turned || step->weight_kn ? 1 : filter;
    p->args.tap_step = turned ? v->y->dims[1] : step->weight_last ? v->in_channels : 1;
    p->args.channel_step = step->weight_kn ? v->y->dims[1] : step->weight_last ? 1 : v->window.kernel_count;
    p->moves = step->added_plus1 && step->added_last != step->y_last;
    if (p->moves) HYP_TRY(add_mover(b, step, p));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

static const char *plain_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    (void)b;
    (void)step;
    return NULL;
}

static const hyp_cuda_conv_way plain = {"plain", plain_cannot, hyp_cuda_plain_seconds, add_plain, false};

/* ---- single channels ------------------------------------------------------------------------------------------- */

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

/* It does single channels that come last, in multiples of 16 bytes. */
static const char *depthwise_cannot(const hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    const hyp_conv *v = &step->conv;
    bool is_native = step->dtype == HYP_F32 || step->dtype == HYP_F16 || step->dtype == HYP_BF16;
    bool x_last = step->x_last || hyp_cuda_one_order(v->x), y_last = step->y_last || hyp_cuda_one_order(v->y);
    (void)b;
    if (!hyp_cuda_is_depthwise(v) || v->out_channels != 1) return "its channels are not convolved each by itself";
    if (!is_native || !step->weight_last || !x_last || !y_last || v->group * (int64_t)hyp_dtype_size(step->dtype) % 16 != 0)
        return "its channels do not come last, in multiples of 16 bytes";
    if (step->added_plus1) return "something is added to it";
    return is_small(v) ? NULL : "its sizes are out of range";
}

static double depthwise_seconds(const hyp_cuda_conv_step *step, double floor)
{
    (void)step;
    return hyp_cuda_own_seconds + floor;
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
    hyp_cuda_depthwise args = {.dtype = step->dtype, .act = step->act, .clips = take_clip(b, step->x)};
    hyp_cuda_grid grid = {.kernel = HYP_CUDA_KERNEL_depthwise};
    hyp_cuda_windows *w = &args.windows;
    hyp_cuda_windows_of(&v->window, v->x, v->y, w);
    int64_t row = w->out[0].size, rows = v->y->count / v->group / row;
    int64_t pieces = v->group * (int64_t)hyp_dtype_size(step->dtype) / 16;
    int64_t groups = (row + HYP_CUDA_DEPTHWISE - 1) / HYP_CUDA_DEPTHWISE;
    w->x_last = w->y_last = true;
    w->channels = hyp_cuda_extent_of(pieces);
    w->out[0] = hyp_cuda_extent_of(groups);
    w->total = rows * groups * pieces;
    args.row = row;
    args.step = w->stride[0];
    w->stride[0] *= HYP_CUDA_DEPTHWISE;
    hyp_cuda_spread(b->session->model->device, w->total, &grid);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_depthwise, x, step->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_depthwise, weight, step->weight + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_depthwise, bias, step->bias_plus1),
                                   HYP_CUDA_SLOT(hyp_cuda_depthwise, y, step->y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

static const hyp_cuda_conv_way depthwise_way = {"depthwise", depthwise_cannot, depthwise_seconds, add_depthwise, false};

/* ---- choosing ------------------------------------------------------------------------------------------------ */

/* Of equals the first is taken. */
enum { MOST_WAYS = 10 };
static const hyp_cuda_conv_way *const ways[HYP_CUDA_CONV_GRADIENTS][MOST_WAYS] = {
    {&depthwise_way, &hyp_cuda_conv_product, &hyp_cuda_conv_unfolded, &hyp_cuda_conv_tiles, &hyp_cuda_conv_small_tiles,
     &hyp_cuda_conv_turned_tiles, &hyp_cuda_conv_small_turned_tiles, &hyp_cuda_conv_cudnn, &hyp_cuda_conv_cudnn_last,
     &plain},
    {&hyp_cuda_gradient_cudnn, &hyp_cuda_gradient_cudnn_last, &hyp_cuda_conv_transpose_plain},
    {&hyp_cuda_gradient_cudnn, &hyp_cuda_gradient_cudnn_last, &hyp_cuda_conv_weights_plain}};

static void add_numbers(hyp_strbuf *key, const char *what, const int64_t *numbers, int32_t count)
{
    hyp_strbuf_printf(key, "%s", what);
    for (int32_t i = 0; i < count; i++) hyp_strbuf_printf(key, " %lld", (long long)numbers[i]);
}

/* "conv bf16 8: ..., last xwy": types, sizes, what follows, and what lies with the channels last. */
static void set_key(const hyp_cuda_build *b, const hyp_cuda_conv_step *step, hyp_choice *out)
{
    const hyp_conv *v = &step->conv;
    const hyp_window *w = &v->window;
    const bool last[] = {step->x_last, step->weight_last, step->y_last, step->added_last};
    static const char *const names[] = {"conv", "conv-transpose", "conv-backward-weights"};
    hyp_strbuf key = {0};
    bool tf32 = step->dtype == HYP_F32 && hyp_cuda_is_tf32(b->program);
    hyp_strbuf_printf(&key, "%s %s ", names[step->gradient], tf32 ? "tf32" : hyp_dtype_name(step->dtype));
    out->size_at = key.len;
    out->size_most = 2 * v->batch;
    hyp_strbuf_printf(&key, "%lld:", (long long)v->batch);
    add_numbers(&key, "", v->x->dims + 1, v->x->rank - 1);
    add_numbers(&key, " by", v->w->dims, v->w->rank);
    add_numbers(&key, " strides", w->stride, w->n);
    add_numbers(&key, " dilations", w->dilation, w->n);
    add_numbers(&key, " pads", w->before, w->n);
    add_numbers(&key, "", w->after, w->n);
    hyp_strbuf_printf(&key, " groups %lld act %u%s%s last ", (long long)v->group, step->act, step->bias_plus1 ? " bias" : "",
                      step->added_plus1 ? " added" : "");
    for (size_t i = 0; i < 4; i++) hyp_strbuf_printf(&key, "%s", last[i] ? "y" : "n");
    if (step->pool) hyp_strbuf_printf(&key, ", then max-pool%s", step->pooled_last ? " last" : "");
    if (!key.failed && key.len < sizeof out->key) memcpy(out->key, key.data, key.len + 1);
    hyp_strbuf_dispose(&key);
}

/* What a pool takes that is no part of the convolution. */
static double pool_seconds(const hyp_cuda_conv_step *step)
{
    const int64_t *y = step->pooled_dims;
    if (!step->pool) return 0;
    double bytes = (double)(step->conv.y->count + y[0] * y[1] * y[2] * y[3]) * (double)hyp_dtype_size(step->dtype);
    return hyp_cuda_own_seconds + hyp_cuda_floor_seconds(step->dtype, false, bytes, 0);
}

void hyp_cuda_offer_conv(const hyp_cuda_build *b, const hyp_cuda_conv_step *step, hyp_choice *out)
{
    const hyp_conv *v = &step->conv;
    double products = (double)v->y->count * (double)v->in_channels * (double)v->window.kernel_count;
    double bytes = (double)(v->x->count + v->w->count + v->y->count) * (double)hyp_dtype_size(step->dtype);
    double floor = hyp_cuda_floor_seconds(step->dtype, hyp_cuda_is_tf32(b->program), bytes, 2 * products);
    hyp_choice_init(out);
    set_key(b, step, out);
    const hyp_cuda_conv_way *const *list = ways[step->gradient];
    for (uint32_t i = 0; i < MOST_WAYS && list[i]; i++) {
        const char *cannot = list[i]->cannot(b, step);
        double pooling = list[i]->pools ? 0 : pool_seconds(step);
        hyp_choice_offer(out, list[i]->name, i, cannot ? 0 : list[i]->seconds(step, floor) + pooling, cannot);
    }
}

/* With the pool behind it. */
static hyp_status add_way(hyp_cuda_build *b, const void *data, uint32_t form)
{
    const hyp_cuda_conv_step *step = data;
    const hyp_cuda_conv_way *way = ways[step->gradient][form];
    HYP_TRY(way->add(b, step));
    if (!step->pool) return HYP_OK;
    b->step++;
    if (!way->pools) return hyp_cuda_add_call(b, step->pool);
    b->prepared->ops.data[b->prepared->ops.len - 1].last_step = b->step;
    return HYP_OK;
}

hyp_status hyp_cuda_add_conv_step(hyp_cuda_build *b, const hyp_cuda_conv_step *step)
{
    hyp_choice choice;
    hyp_cuda_offer_conv(b, step, &choice);
    return hyp_cuda_add_chosen(b, &choice, add_way, step);
}

/* ---- a pool behind it ------------------------------------------------------------------------------------------ */

static bool is_two_by_two(const hyp_window *w)
{
    bool is = w->n == 2;
    for (int32_t a = 0; a < w->n; a++)
        is = is && w->kernel[a] == 2 && w->stride[a] == 2 && w->dilation[a] == 1 && w->before[a] == 0;
    return is;
}

/* Does any step but this one read some of the tensor? */
static bool is_read_by_others(const HypPlan__Program *p, uint32_t tensor, uint32_t step)
{
    uint32_t reads[HYP_PLAN_CALL_INPUTS];
    bool others = false;
    for (uint32_t i = 0; i < p->n_steps && !others; i++) {
        size_t count = i == step ? 0 : hyp_plan_step_reads(p->steps[i], reads, HYP_PLAN_CALL_INPUTS);
        others = count > HYP_PLAN_CALL_INPUTS; /* which are not looked at */
        for (size_t k = 0; k < count && !others; k++) others = hyp_plan_root(p, reads[k]) == hyp_plan_root(p, tensor);
    }
    return others;
}

/* A value of the plan's own, which stands as long as ops want it (session/pack.c). */
static bool is_value(const hyp_cuda_build *b, uint32_t tensor)
{
    return b->program->tensors[tensor]->place == HYP_PLAN__PLACE__PLACE_SCRATCH && !hyp_cuda_has_own(b->prepared, tensor);
}

/* Fills in the pool behind the step, where a way of those that it has does both. */
static void find_pool(const hyp_cuda_build *b, hyp_cuda_conv_step *step)
{
    const HypPlan__Program *p = b->program;
    const HypPlan__Step *next = b->step + 1 < p->n_steps ? p->steps[b->step + 1] : NULL;
    const HypPlan__Call *call = next && next->kernel_case == HYP_PLAN__STEP__KERNEL_CALL ? next->call : NULL;
    const hyp_reference_call shapes = {.program = p, .values = b->values};
    hyp_call_arguments a;
    hyp_window window;
    if (!call || strcmp(call->kernel, "max-pool") != 0 || hyp_plan_call_input(call, 0) != step->y + 1 ||
        hyp_cuda_is_gated(b->session, b->step + 1) || !is_value(b, step->y) || !is_value(b, call->outputs[0]) ||
        hyp_cuda_conv_tiles.cannot(b, step))
        return;
    hyp_reference_arguments(&shapes, call, NULL, &a);
    const hyp_array *y = &a.call.out[0];
    if (hyp_kernel_read_pool(&a.call, &window) != HYP_OK || !is_two_by_two(&window) || y->count == 0 ||
        is_read_by_others(p, step->y, b->step + 1))
        return;
    step->pool = call;
    step->pooled = call->outputs[0];
    step->pooled_last = hyp_cuda_lies_last(b, step->pooled);
    memcpy(step->pooled_dims, y->dims, sizeof step->pooled_dims);
}

/* ---- steps --------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_add_conv(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_cuda_conv_step step = {.x = k->inputs_plus1[0] - 1,
                               .weight = k->inputs_plus1[1] - 1,
                               .y = k->outputs[0],
                               .bias_plus1 = hyp_plan_call_input(k, 2),
                               .added_plus1 = hyp_plan_call_input(k, 3),
                               .dtype = c->in[0].dtype,
                               .tf32 = hyp_cuda_is_tf32(b->program)};
    HYP_TRY(hyp_kernel_read_conv(c, false, &step.conv));
    bool leaky = step.conv.act == HYP_PW_LEAKY_RELU; /* in a pass of its own: no library has it, nor a kernel of ours */
    step.act = leaky ? HYP_PW_CAST : (uint32_t)step.conv.act;
    if (step.conv.y->count == 0) return HYP_OK;
    step.x_last = hyp_cuda_lies_last(b, step.x);
    step.weight_last = hyp_cuda_lies_last(b, step.weight);
    step.weight_kn = step.weight_last && step.conv.group == 1 && hyp_cuda_is_matrix_filter(b->program, step.weight);
    step.computes_weights = !hyp_cuda_is_constant(b, step.weight + 1);
    step.y_last = hyp_cuda_lies_last(b, step.y);
    step.added_last = step.added_plus1 && hyp_cuda_lies_last(b, step.added_plus1 - 1);
    if (!leaky) find_pool(b, &step);
    HYP_TRY(hyp_cuda_add_conv_step(b, &step));
    if (!leaky) return HYP_OK;
    return hyp_cuda_add_channels(b, step.y, 1, step.conv.y->count, 1, 0, HYP_PLAN__POINTWISE__OP__LEAKY_RELU,
                                 step.conv.p, 0);
}
