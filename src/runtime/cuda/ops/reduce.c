/* reduce.c - softmax, what it is made of, sums, and what is largest or smallest. */
#include <string.h>

#include "base/dtype.h"
#include "kernels/softmax_stats.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_extreme, hyp_cuda_add_softmax_stats;

/* Threads that work together on one result share the x or the y dimension of a block: a warp, a whole block for a long
 * sum, or eight along y, where neighbours along x belong to different results; 32 where there are few of them. */
static hyp_cuda_grid team_grid(hyp_cuda_kernel kernel, const hyp_cuda_device *device, int64_t results, int64_t terms,
                               bool along_x)
{
    enum { LANES = 32, THREADS = 256, LONG = 1024, FEW = 64 };
    bool few = !along_x && terms >= FEW && results < (int64_t)device->multiprocessors * LANES;
    uint32_t x = along_x && terms > LONG ? THREADS : few ? LANES / 4 : LANES, y = THREADS / x;
    return (hyp_cuda_grid){.kernel = kernel,
                           .blocks = hyp_cuda_blocks(device, results, along_x ? y : x),
                           .block_x = x,
                           .block_y = y,
                           .shared_bytes = THREADS * sizeof(double)};
}

static void set_columns(hyp_cuda_softmax *args, int64_t outer, int64_t axis, int64_t inner)
{
    args->columns = outer * inner;
    args->axis = axis;
    args->inner = hyp_cuda_extent_of(inner);
    args->along_x = inner == 1;
}

hyp_status hyp_cuda_add_softmax(hyp_cuda_build *b, const HypPlan__Softmax *k)
{
    const hyp_cuda_device *device = b->session->model->device;
    int64_t outer = b->values[k->outer], axis = b->values[k->axis], inner = b->values[k->inner];
    if (outer == 0 || axis == 0 || inner == 0) return HYP_OK;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    /* softmax_rows keeps rows in registers, the others take any strides and lengths. */
    hyp_cuda_rows rows = {.count = outer, .size = axis, .dtype = dtype, .vector = 1};
    hyp_cuda_grid grid = {0};
    if (inner == 1 && dtype != HYP_F64 && hyp_cuda_row_grid(device, &rows, &grid)) {
        grid.kernel = rows.vector ? HYP_CUDA_KERNEL_softmax_rows : HYP_CUDA_KERNEL_softmax_loose_rows;
        const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_rows, x, k->x + 1),
                                       HYP_CUDA_SLOT(hyp_cuda_rows, y, k->y + 1)};
        return hyp_cuda_add_launch(b, &grid, &rows, sizeof rows, slots, sizeof slots / sizeof *slots);
    }
    hyp_cuda_softmax args = {.dtype = dtype};
    set_columns(&args, outer, axis, inner);
    grid = team_grid(dtype == HYP_F64 ? HYP_CUDA_KERNEL_softmax_f64 : HYP_CUDA_KERNEL_softmax_f32, device, args.columns, axis,
                     args.along_x);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_softmax, x, k->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, y, k->y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_softmax_stats(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    int64_t outer, axis, inner;
    HYP_TRY(hyp_kernel_read_softmax_stats(c, &outer, &axis, &inner));
    if (outer * inner == 0) return HYP_OK;
    hyp_cuda_softmax args = {.dtype = c->in[0].dtype};
    set_columns(&args, outer, axis, inner);
    const hyp_cuda_grid grid =
        team_grid(args.dtype == HYP_F64 ? HYP_CUDA_KERNEL_softmax_stats_f64 : HYP_CUDA_KERNEL_softmax_stats_f32,
                  b->session->model->device, args.columns, axis, args.along_x);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_softmax, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, y, k->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, log_sum, k->outputs[1] + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

/* Sums may be taken in any order, so the axes are put in that of memory, the nearest innermost. */
static void sort_axes(hyp_cuda_box *box)
{
    for (uint32_t a = 1; a < box->rank; a++)
        for (uint32_t i = a; i > 0 && box->stride[0][i] < box->stride[0][i - 1]; i--) hyp_cuda_box_swap(box, i, i - 1);
}

/* The boxes of a sum over all places of x [N, C, spatial...], which lies with the channels last. */
static void set_images(const hyp_cuda_build *b, uint32_t tensor, hyp_cuda_box *kept, hyp_cuda_box *reduced)
{
    const HypPlan__Tensor *x = b->program->tensors[tensor];
    int64_t images = b->values[x->dims[0]], channels = b->values[x->dims[1]], places = hyp_cuda_box_count(reduced);
    *kept = (hyp_cuda_box){.rank = 2, .lanes = 1, .extent = {channels, images}, .stride = {{1, channels * places}}};
    *reduced = (hyp_cuda_box){.rank = 1, .lanes = 1, .extent = {places}, .stride = {{channels}}};
}

/* What is done with the elements that are reduced, and the tensors. */
typedef struct reduction {
    uint32_t x, y;
    bool mean, largest, turned;
} reduction;

static hyp_cuda_kernel reduce_kernel(hyp_dtype dtype)
{
    if (dtype == HYP_F64) return HYP_CUDA_KERNEL_reduce_f64;
    return hyp_dtype_is_float(dtype) ? HYP_CUDA_KERNEL_reduce_f32 : HYP_CUDA_KERNEL_reduce_i64;
}

/* The type that partial results have. */
static hyp_dtype wide_type(hyp_dtype dtype)
{
    if (hyp_dtype_is_float(dtype)) return dtype == HYP_F64 ? HYP_F64 : HYP_F32;
    return HYP_I64;
}

/* In how many parts few results of many terms are made, so that all multiprocessors have some. */
static int64_t parts_of(const hyp_cuda_device *device, int64_t blocks, int64_t terms)
{
    enum { TERMS = 4096, BLOCKS_PER_MULTIPROCESSOR = 4, MOST = 1024 };
    int64_t wanted = (int64_t)device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR, parts;
    if (blocks >= device->multiprocessors || terms < 2 * TERMS) return 1;
    parts = wanted / blocks < terms / TERMS ? wanted / blocks : terms / TERMS;
    return parts < 1 ? 1 : parts < MOST ? parts : MOST;
}

/* Parts of the results go to the session's room, and from there to y. */
typedef struct in_parts {
    hyp_cuda_reduce first, second;
    hyp_cuda_grid first_grid, second_grid;
    uint32_t x, y;
} in_parts;

static hyp_status run_parts(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    in_parts *p = data;
    p->first.x = s->at[p->x];
    p->first.y = p->second.x = s->room;
    p->second.y = s->at[p->y];
    HYP_TRY(hyp_cuda_launch(s, &p->first_grid, &p->first, diag));
    return hyp_cuda_launch(s, &p->second_grid, &p->second, diag);
}

/* `args` is for results in one part each. */
static hyp_status add_parts(hyp_cuda_build *b, const reduction *r, const hyp_cuda_reduce *args, const hyp_cuda_grid *grid,
                            int64_t parts)
{
    const hyp_cuda_device *device = b->session->model->device;
    hyp_dtype wide = wide_type((hyp_dtype)args->dtype);
    void *data;
    HYP_TRY(hyp_cuda_want_room(b, (size_t)(args->results * parts) * hyp_dtype_size(wide)));
    HYP_TRY(hyp_cuda_add_op(b, run_parts, sizeof(in_parts), &data));
    in_parts *p = data;
    *p = (in_parts){.first = *args, .second = *args, .first_grid = *grid, .x = r->x, .y = r->y};
    p->first.results *= parts;
    p->first.parts = hyp_cuda_extent_of(parts);
    p->first.terms = (args->all_terms + parts - 1) / parts;
    p->first.mean = -1;
    p->first.y_dtype = wide;
    p->first_grid.blocks = hyp_cuda_blocks(device, p->first.results, args->along_x ? grid->block_y : grid->block_x);
    p->second.dtype = wide;
    p->second.terms = p->second.all_terms = parts;
    p->second.kept_rank = p->second.reduced_rank = 1;
    p->second.kept[0] = hyp_cuda_extent_of(args->results);
    p->second.kept_stride[0] = parts;
    p->second.reduced[0] = hyp_cuda_extent_of(parts);
    p->second.reduced_stride[0] = 1;
    p->second.along_x = 1;
    p->second_grid = team_grid(grid->kernel, device, args->results, parts, true);
    return hyp_cuda_need_kernel(b, grid->kernel);
}

static hyp_status add_reduction(hyp_cuda_build *b, const reduction *r, hyp_cuda_box *kept, hyp_cuda_box *reduced)
{
    const hyp_cuda_device *device = b->session->model->device;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, r->x);
    hyp_cuda_box_merge(kept);
    sort_axes(reduced);
    hyp_cuda_box_merge(reduced);
    int64_t results = hyp_cuda_box_count(kept), terms = hyp_cuda_box_count(reduced);
    if (results == 0) return HYP_OK;
    /* Neighbours in memory go to neighbouring threads: they are summed, or they belong to different results. */
    bool along_x = kept->rank == 0 || (reduced->rank > 0 && reduced->stride[0][0] < kept->stride[0][0]);
    hyp_cuda_reduce args = {.results = results,
                            .terms = terms,
                            .all_terms = terms,
                            .mean = r->mean ? terms : -1,
                            .parts = hyp_cuda_extent_of(1),
                            .kept_rank = kept->rank,
                            .reduced_rank = reduced->rank,
                            .dtype = dtype,
                            .y_dtype = dtype,
                            .largest = r->largest,
                            .turned = r->turned,
                            .along_x = along_x};
    for (uint32_t a = 0; a < kept->rank; a++) {
        args.kept[a] = hyp_cuda_extent_of(kept->extent[a]);
        args.kept_stride[a] = kept->stride[0][a];
    }
    for (uint32_t a = 0; a < reduced->rank; a++) {
        args.reduced[a] = hyp_cuda_extent_of(reduced->extent[a]);
        args.reduced_stride[a] = reduced->stride[0][a];
    }
    const hyp_cuda_grid grid = team_grid(reduce_kernel(dtype), device, results, terms, along_x);
    int64_t parts = parts_of(device, grid.blocks, terms);
    if (parts > 1) return add_parts(b, r, &args, &grid, parts);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_reduce, x, r->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_reduce, y, r->y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_reduce(hyp_cuda_build *b, const HypPlan__Reduce *k)
{
    const reduction r = {.x = k->x, .y = k->y, .mean = k->kind == HYP_PLAN__REDUCE__KIND__MEAN};
    hyp_cuda_box kept, reduced;
    hyp_cuda_box_init(&kept, b->values, k->n_kept, k->kept);
    hyp_cuda_box_add_lane(&kept, b->values, k->kept_strides);
    hyp_cuda_box_init(&reduced, b->values, k->n_reduced, k->reduced);
    hyp_cuda_box_add_lane(&reduced, b->values, k->reduced_strides);
    if (hyp_cuda_lies_last(b, k->x)) set_images(b, k->x, &kept, &reduced);
    return add_reduction(b, &r, &kept, &reduced);
}

/* reduce-max and reduce-min. */
hyp_status hyp_cuda_add_extreme(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const reduction r = {.x = hyp_plan_call_input(k, 0) - 1,
                         .y = k->outputs[0],
                         .largest = true,
                         .turned = strcmp(k->kernel, "reduce-min") == 0};
    hyp_cuda_box kept = {.lanes = 1}, reduced = {.lanes = 1};
    bool along[HYP_MAX_RANK] = {false};
    for (uint32_t i = 0; i < c->attrs[0].count; i++) {
        int32_t axis;
        HYP_TRY(hyp_kernel_axis(c, c->attrs[0].ints[i], x->rank, &axis));
        along[axis] = true;
    }
    int64_t stride = 1;
    for (int32_t a = x->rank; a-- > 0;) {
        hyp_cuda_box *box = along[a] ? &reduced : &kept;
        box->stride[0][box->rank] = stride;
        box->extent[box->rank++] = x->dims[a];
        stride *= x->dims[a];
    }
    if (x->dtype != y->dtype || hyp_cuda_box_count(&kept) != y->count)
        return hyp_kernel_fail(c, "the result is not of the data's type, or of another size than what is kept");
    if (hyp_cuda_box_count(&reduced) == 0 && !hyp_array_is_float(x) && y->count > 0)
        return hyp_kernel_fail(c, "there are no integers to find the %s of", r.turned ? "smallest" : "largest");
    return add_reduction(b, &r, &kept, &reduced);
}
