/* channels.c - what batch normalizations take of each channel: two launches, one that reads x once, in parts, and one
 * that puts the parts together. */
#include "kernels/batch_norm.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_batch_norm_gradient, hyp_cuda_add_batch_norm_stats;

typedef struct channels_op {
    hyp_cuda_channels args;
    hyp_cuda_channels_end end;
    hyp_cuda_grid grid, end_grid;
    uint32_t x, g_plus1, mean_plus1, inverse_plus1, scale_plus1, bias_plus1, out[3], out_count;
} channels_op;

static CUdeviceptr at(const hyp_cuda_session *s, uint32_t tensor_plus1)
{
    return tensor_plus1 ? s->at[tensor_plus1 - 1] : 0;
}

static hyp_status run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    channels_op *p = data;
    p->args.x = s->at[p->x];
    p->args.g = at(s, p->g_plus1);
    p->args.mean = at(s, p->mean_plus1);
    p->args.parts = p->end.parts = s->room;
    p->args.inverse = p->end.inverse = at(s, p->inverse_plus1);
    p->args.scale = at(s, p->scale_plus1);
    p->args.bias = at(s, p->bias_plus1);
    p->end.first = s->at[p->out[0]];
    p->end.second = s->at[p->out[1]];
    p->end.third = p->out_count > 2 ? s->at[p->out[2]] : 0;
    HYP_TRY(hyp_cuda_launch(s, &p->grid, &p->args, diag));
    return hyp_cuda_launch(s, &p->end_grid, &p->end, diag);
}

/* Elements of 16 bytes, where there is a kernel that takes as many at once. */
static int64_t piece_of(hyp_dtype dtype)
{
    if (dtype == HYP_F32) return 4;
    return dtype == HYP_F16 || dtype == HYP_BF16 ? 8 : 1;
}

/* Where the terms of a channel lie: neighbours in memory are of several channels where these come last, or there is one
 * place, else of one. Returns how many elements a term has. */
static int64_t lay_terms(const hyp_channels *s, hyp_dtype dtype, bool last, hyp_cuda_channels *args)
{
    const bool along = s->channels == 1 || (!last && s->places > 1), run = along && s->channels > 1;
    const int64_t all = s->images * s->places, inner = !along ? s->channels : run ? s->places : all;
    const int64_t width = inner % piece_of(dtype) == 0 ? piece_of(dtype) : 1;
    args->along = along;
    args->channels = s->channels;
    args->groups = hyp_cuda_extent_of(along ? s->channels : s->channels / width);
    args->group = along ? s->places : width;
    args->all_terms = along ? all / width : all;
    args->stride = along ? width : s->channels;
    args->run = hyp_cuda_extent_of(run ? s->places / width : INT64_MAX);
    args->jump = run ? (s->channels - 1) * s->places : 0;
    return width;
}

/* Threads of a block: along x those of groups of channels that are neighbours in memory, as many bytes as come from it at
 * once, along y those that share a group. Few groups are made in parts, so that all multiprocessors have some. */
static void set_grid(const hyp_cuda_device *device, uint32_t line, hyp_cuda_channels *args, hyp_cuda_grid *grid,
                     int64_t *out_parts)
{
    enum { THREADS = HYP_CUDA_REDUCE_THREADS, PER_MULTIPROCESSOR = 1024, EACH = 8, MOST = 1024 };
    uint32_t across = 1;
    while (!args->along && across < line && across < args->groups.size) across *= 2;
    const int64_t team = THREADS / across, most = args->all_terms / (EACH * team);
    int64_t parts = (int64_t)device->multiprocessors * PER_MULTIPROCESSOR / team / args->groups.size;
    if (parts > most) parts = most;
    parts = parts < 1 ? 1 : parts < MOST ? parts : MOST;
    args->terms = (args->all_terms + parts - 1) / parts;
    args->total = args->groups.size * parts;
    grid->block_x = across;
    grid->block_y = (uint32_t)team;
    grid->blocks = hyp_cuda_blocks(device, args->total, across);
    *out_parts = parts;
}

static hyp_status add(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c, const hyp_channels *s)
{
    enum { LINE = 128, SINGLES = 32, COLUMNS = 8, THREADS = HYP_CUDA_REDUCE_THREADS };
    const hyp_cuda_device *device = b->session->model->device;
    const hyp_dtype dtype = c->in[0].dtype;
    const bool gradient = c->in_count > 1, wide = dtype == HYP_F64;
    const size_t value = wide ? sizeof(double) : sizeof(float);
    int64_t parts;
    void *data;
    if (s->channels == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, run, sizeof(channels_op), &data));
    channels_op *p = data;
    *p = (channels_op){.args = {.dtype = dtype}, .x = hyp_plan_call_input(k, 0) - 1, .out_count = c->out_count};
    const int64_t width = lay_terms(s, dtype, hyp_cuda_lies_last(b, p->x), &p->args);
    if (gradient) {
        p->g_plus1 = hyp_plan_call_input(k, 1);
        p->mean_plus1 = hyp_plan_call_input(k, 2);
        p->inverse_plus1 = hyp_plan_call_input(k, 3);
        p->args.least = hyp_batch_norm_least(dtype);
    }
    p->scale_plus1 = hyp_plan_call_input(k, 4);
    p->bias_plus1 = hyp_plan_call_input(k, 5);
    for (uint32_t i = 0; i < c->out_count; i++) p->out[i] = k->outputs[i];
    set_grid(device, width > 1 ? LINE / 16 : SINGLES, &p->args, &p->grid, &parts);
    p->grid.kernel = wide        ? (gradient ? HYP_CUDA_KERNEL_batch_gradient_f64 : HYP_CUDA_KERNEL_batch_stats_f64)
                     : width > 1 ? (gradient ? HYP_CUDA_KERNEL_batch_gradient_pieces : HYP_CUDA_KERNEL_batch_stats_pieces)
                                 : (gradient ? HYP_CUDA_KERNEL_batch_gradient_f32 : HYP_CUDA_KERNEL_batch_stats_f32);
    p->grid.shared_bytes = (uint32_t)(3 * value * THREADS * (size_t)(p->args.along ? 1 : width));
    p->end = (hyp_cuda_channels_end){.channels = s->channels, .part_count = parts, .count = s->images * s->places};
    if (!gradient) p->end.epsilon = c->attrs[0].f;
    p->end_grid = (hyp_cuda_grid){.kernel = gradient ? (wide ? HYP_CUDA_KERNEL_batch_gradient_end_f64
                                                             : HYP_CUDA_KERNEL_batch_gradient_end_f32)
                                                     : (wide ? HYP_CUDA_KERNEL_batch_stats_end_f64
                                                             : HYP_CUDA_KERNEL_batch_stats_end_f32),
                                  .block_x = COLUMNS,
                                  .block_y = THREADS / COLUMNS,
                                  .blocks = hyp_cuda_blocks(device, s->channels, COLUMNS),
                                  .shared_bytes = (uint32_t)(3 * value * THREADS)};
    HYP_TRY(hyp_cuda_want_room(b, 3 * value * (size_t)(parts * s->channels)));
    HYP_TRY(hyp_cuda_need_kernel(b, p->end_grid.kernel));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

hyp_status hyp_cuda_add_batch_norm_stats(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_channels s;
    HYP_TRY(hyp_kernel_read_batch_norm_stats(c, &s));
    return add(b, k, c, &s);
}

hyp_status hyp_cuda_add_batch_norm_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_channels s;
    HYP_TRY(hyp_kernel_read_batch_norm_gradient(c, &s));
    return add(b, k, c, &s);
}
