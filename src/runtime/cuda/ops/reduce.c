/* reduce.c - softmax, what it is made of, sums, and what is largest or smallest. */
#include <string.h>

#include "base/dtype.h"
#include "kernels/softmax_stats.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/reduce.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_extreme, hyp_cuda_add_softmax_stats;

/* A warp, a whole block for a long one, or eight along y, where neighbours along x belong to different columns; 32 where
 * there are few of them. */
hyp_cuda_grid hyp_cuda_column_grid(hyp_cuda_kernel kernel, const hyp_cuda_device *device, int64_t columns, int64_t terms,
                                   bool along_x, uint32_t room)
{
    enum { LANES = 32, THREADS = 256, LONG = 1024, FEW = 64 };
    bool few = !along_x && terms >= FEW && columns < (int64_t)device->multiprocessors * LANES;
    uint32_t x = along_x && terms > LONG ? THREADS : few ? LANES / 4 : LANES, y = THREADS / x;
    return (hyp_cuda_grid){.kernel = kernel,
                           .blocks = hyp_cuda_blocks(device, columns, along_x ? y : x),
                           .block_x = x,
                           .block_y = y,
                           .shared_bytes = THREADS * room};
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
    grid = hyp_cuda_column_grid(dtype == HYP_F64 ? HYP_CUDA_KERNEL_softmax_f64 : HYP_CUDA_KERNEL_softmax_f32, device,
                                args.columns, axis, args.along_x, sizeof(double));
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_softmax, x, k->x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, y, k->y + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_softmax_stats(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { PIECE = 8 };
    int64_t outer, axis, inner;
    HYP_TRY(hyp_kernel_read_softmax_stats(c, &outer, &axis, &inner));
    if (outer * inner == 0) return HYP_OK;
    const hyp_dtype dtype = c->in[0].dtype;
    const bool pieces = (dtype == HYP_F16 || dtype == HYP_BF16) && inner == 1 && axis % PIECE == 0;
    hyp_cuda_softmax args = {.dtype = dtype, .vector = pieces};
    set_columns(&args, outer, axis, inner);
    const hyp_cuda_grid grid =
        hyp_cuda_column_grid(args.dtype == HYP_F64 ? HYP_CUDA_KERNEL_softmax_stats_f64 : HYP_CUDA_KERNEL_softmax_stats_f32,
                             b->session->model->device, args.columns, axis, args.along_x, sizeof(double));
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_softmax, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, y, k->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_softmax, log_sum, k->outputs[1] + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

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
    bool add; /* to what is there */
} reduction;

static hyp_cuda_kernel kernel_of(hyp_dtype dtype, bool pieces)
{
    if (pieces) return HYP_CUDA_KERNEL_reduce_pieces;
    if (dtype == HYP_F64) return HYP_CUDA_KERNEL_reduce_f64;
    return hyp_dtype_is_float(dtype) ? HYP_CUDA_KERNEL_reduce_f32 : HYP_CUDA_KERNEL_reduce_i64;
}

/* The type that partial results have. */
static hyp_dtype wide_type(hyp_dtype dtype)
{
    if (hyp_dtype_is_float(dtype)) return dtype == HYP_F64 ? HYP_F64 : HYP_F32;
    return HYP_I64;
}

/* A launch, and what decides how its threads are grouped. */
typedef struct reduce_launch {
    hyp_cuda_reduce args;
    hyp_cuda_grid grid;
    uint32_t width; /* elements that a thread takes at once */
    uint32_t team;  /* threads that share a result */
    int64_t terms;  /* so many at once */
    int64_t side;   /* results that are neighbours in memory, so many at once */
    int64_t count;  /* of results, in elements */
} reduce_launch;

/* Elements of 16 bytes, where there are kernels that take as many at once. */
static int64_t piece_of(hyp_dtype dtype)
{
    if (dtype == HYP_F32) return 4;
    return dtype == HYP_F16 || dtype == HYP_BF16 ? 8 : 1;
}

/* Do `width` neighbours along the innermost axis of `inner` always begin at multiples of that? */
static bool lies_in_pieces(const hyp_cuda_box *inner, const hyp_cuda_box *other, int64_t width)
{
    if (width == 1 || inner->rank == 0 || inner->stride[0][0] != 1 || inner->extent[0] % width != 0) return false;
    for (uint32_t a = 1; a < inner->rank; a++)
        if (inner->stride[0][a] % width != 0) return false;
    for (uint32_t a = 0; a < other->rank; a++)
        if (other->stride[0][a] % width != 0) return false;
    return true;
}

/* Terms lie along up to two axes, or as kernels find them by all. */
static void set_terms(hyp_cuda_reduce *args, const hyp_cuda_box *reduced)
{
    const bool rows = reduced->rank > 1;
    args->reduced_rank = reduced->rank;
    args->term_stride = reduced->rank > 0 ? reduced->stride[0][0] : 0;
    args->row_terms = hyp_cuda_extent_of(rows && reduced->extent[0] > 0 ? reduced->extent[0] : INT64_MAX);
    args->row_stride = rows ? reduced->stride[0][1] - reduced->stride[0][0] * reduced->extent[0] : 0;
    hyp_cuda_box_axes(reduced, args->reduced, args->reduced_stride);
}

/* Threads of the device that are worth having. */
static int64_t wanted_threads(const hyp_cuda_device *device)
{
    enum { PER_MULTIPROCESSOR = 1024 };
    return (int64_t)device->multiprocessors * PER_MULTIPROCESSOR;
}

/* Is a team of twice as many threads better? Each is to have some terms, which it asks for at once, as long as there are
 * threads for all multiprocessors; along x terms that lie side by side are dealt out as widely as that. */
static bool wants_more(const hyp_cuda_device *device, const reduce_launch *l, int64_t team, int64_t least)
{
    enum { EACH = 4 };
    int64_t threads = l->args.results.size * team, wanted = wanted_threads(device);
    if (team < least) return team < l->terms;
    if (2 * EACH * team <= l->terms) return l->args.along_x || threads < wanted;
    return team < l->terms && 2 * threads < wanted;
}

/* How the threads of a block share results. Where these are neighbours, threads along x read as many bytes that follow each
 * other as come from memory at once, and those along y as many rows as that takes. */
static void set_grid(const hyp_cuda_device *device, reduce_launch *l)
{
    enum { THREADS = HYP_CUDA_REDUCE_THREADS, LINE = 128, WARP = 32 };
    uint32_t team = 1, least = 1, most = THREADS;
    if (!l->args.along_x) {
        uint32_t line = LINE / ((uint32_t)hyp_dtype_size((hyp_dtype)l->args.dtype) * l->width), across = 1;
        if (line > WARP) line = WARP;
        while (across < line && across < l->side) across *= 2;
        least = line / across;
        most = THREADS / across;
    }
    while (team < most && wants_more(device, l, team, least)) team *= 2;
    l->team = team;
    l->grid.block_x = l->args.along_x ? team : THREADS / team;
    l->grid.block_y = THREADS / l->grid.block_x;
    l->grid.blocks = hyp_cuda_blocks(device, l->args.total, THREADS / team);
}

/* In how many parts few results of many terms are made, so that all multiprocessors have some. */
static int64_t parts_of(const hyp_cuda_device *device, const reduce_launch *l)
{
    enum { EACH = 4, MOST = 1024 };
    int64_t parts = wanted_threads(device) / (l->args.results.size * l->team), most = l->terms / (EACH * l->team);
    if (parts > most) parts = most;
    return parts < 1 ? 1 : parts < MOST ? parts : MOST;
}

/* Everything but addresses and parts. The boxes are merged, and there are results. */
static reduce_launch plan_reduce(const hyp_cuda_device *device, const reduction *r, hyp_dtype dtype, hyp_dtype y_dtype,
                                 hyp_cuda_box kept, hyp_cuda_box reduced)
{
    enum { LONG = 32 }; /* pieces of a run that is worth its two ends */
    const int64_t width = piece_of(dtype), count = hyp_cuda_box_count(&kept), terms = hyp_cuda_box_count(&reduced);
    /* Neighbours in memory go to neighbouring threads: they are summed, or they belong to different results. */
    const bool along_x = kept.rank == 0 || (reduced.rank > 0 && reduced.stride[0][0] < kept.stride[0][0]);
    hyp_cuda_box *inner = along_x ? &reduced : &kept;
    const bool in_pieces = reduced.rank <= 2 && lies_in_pieces(inner, along_x ? &kept : &reduced, width);
    const bool run = !in_pieces && width > 1 && along_x && reduced.rank == 1 && reduced.stride[0][0] == 1 && terms >= LONG * width;
    if (in_pieces) inner->extent[0] /= width;
    if (in_pieces || run) inner->stride[0][0] = width;
    const int64_t some_terms = hyp_cuda_box_count(&reduced), results = hyp_cuda_box_count(&kept);
    reduce_launch l = {.count = count,
                       .terms = run ? terms / width : some_terms,
                       .width = in_pieces || run ? (uint32_t)width : 1,
                       .side = along_x ? 1 : kept.extent[0]};
    l.args = (hyp_cuda_reduce){.total = results,
                               .terms = some_terms,
                               .all_terms = some_terms,
                               .mean = r->mean ? terms : -1,
                               .results = hyp_cuda_extent_of(results),
                               .kept_rank = kept.rank,
                               .dtype = dtype,
                               .y_dtype = y_dtype,
                               .largest = r->largest,
                               .turned = r->turned,
                               .add = r->add,
                               .size = (uint32_t)hyp_dtype_size(dtype),
                               .along_x = along_x,
                               .run = run};
    hyp_cuda_box_axes(&kept, l.args.kept, l.args.kept_stride);
    set_terms(&l.args, &reduced);
    l.grid.kernel = kernel_of(dtype, l.width > 1);
    l.grid.shared_bytes = HYP_CUDA_REDUCE_THREADS * (along_x ? 1 : l.width) * (uint32_t)hyp_dtype_size(wide_type(dtype));
    set_grid(device, &l);
    return l;
}

/* A reduction as launches: the second one, where there is one, takes the parts that the first leaves in the session's room. */
typedef struct reduce_plan {
    reduce_launch first, second;
    size_t room; /* bytes; 0: results are made at once */
} reduce_plan;

static reduce_plan plan_launches(const hyp_cuda_device *device, const reduction *r, hyp_dtype dtype, const hyp_cuda_box *kept,
                                 const hyp_cuda_box *reduced)
{
    reduce_plan p = {.first = plan_reduce(device, r, dtype, dtype, *kept, *reduced)};
    const int64_t parts = parts_of(device, &p.first), count = p.first.count;
    if (parts == 1) return p;
    const hyp_dtype wide = wide_type(dtype);
    hyp_cuda_box all = {.rank = 1, .lanes = 1, .extent = {count}, .stride = {{1}}};
    const hyp_cuda_box of_parts = {.rank = 1, .lanes = 1, .extent = {parts}, .stride = {{count}}};
    hyp_cuda_box_merge(&all);
    p.second = plan_reduce(device, r, wide, dtype, all, of_parts);
    p.second.args.mean = p.first.args.mean;
    p.first.args.mean = -1;
    p.first.args.add = 0;
    p.first.args.terms = (p.first.args.all_terms + parts - 1) / parts;
    p.first.args.total *= parts;
    p.first.args.y_dtype = wide;
    p.first.grid.blocks = hyp_cuda_blocks(device, p.first.args.total, HYP_CUDA_REDUCE_THREADS / p.first.team);
    p.room = (size_t)(count * parts) * hyp_dtype_size(wide);
    return p;
}

static hyp_status launch(hyp_cuda_session *s, reduce_plan *p, CUdeviceptr x, CUdeviceptr y, hyp_diag *diag)
{
    p->first.args.x = x;
    p->first.args.y = p->room > 0 ? s->room : y;
    p->second.args.x = s->room;
    p->second.args.y = y;
    HYP_TRY(hyp_cuda_launch(s, &p->first.grid, &p->first.args, diag));
    return p->room > 0 ? hyp_cuda_launch(s, &p->second.grid, &p->second.args, diag) : HYP_OK;
}

typedef struct reduce_op {
    reduce_plan plan;
    uint32_t x, y;
} reduce_op;

static hyp_status reduce_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    reduce_op *p = data;
    return launch(s, &p->plan, s->at[p->x], s->at[p->y], diag);
}

static hyp_status add_reduction(hyp_cuda_build *b, const reduction *r, hyp_cuda_box *kept, hyp_cuda_box *reduced)
{
    if (hyp_cuda_box_count(kept) == 0) return HYP_OK;
    hyp_cuda_box_merge(kept);
    sort_axes(reduced);
    hyp_cuda_box_merge(reduced);
    const reduce_plan plan =
        plan_launches(b->session->model->device, r, hyp_cuda_dtype(b->program, r->x), kept, reduced);
    void *data;
    if (plan.room > 0) HYP_TRY(hyp_cuda_want_room(b, plan.room));
    HYP_TRY(hyp_cuda_add_op(b, reduce_run, sizeof(reduce_op), &data));
    *(reduce_op *)data = (reduce_op){.plan = plan, .x = r->x, .y = r->y};
    if (plan.room > 0) HYP_TRY(hyp_cuda_need_kernel(b, plan.second.grid.kernel));
    return hyp_cuda_need_kernel(b, plan.first.grid.kernel);
}

/* ---- sums of rows, without a plan -------------------------------------------------------------------------- */

static reduce_plan plan_row_sums(const hyp_cuda_device *device, const hyp_cuda_row_sums *sums)
{
    const reduction r = {.add = sums->add};
    hyp_cuda_box kept = {.rank = 1, .lanes = 1, .extent = {sums->columns}, .stride = {{1}}};
    hyp_cuda_box reduced = {.rank = 1, .lanes = 1, .extent = {sums->rows}, .stride = {{sums->ld}}};
    hyp_cuda_box_merge(&kept);
    hyp_cuda_box_merge(&reduced);
    return plan_launches(device, &r, sums->dtype, &kept, &reduced);
}

size_t hyp_cuda_row_sums_room(const hyp_cuda_device *device, const hyp_cuda_row_sums *sums)
{
    return plan_row_sums(device, sums).room;
}

hyp_status hyp_cuda_load_row_sums(const hyp_cuda_device *device, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_load_kernel(device, kernel_of(HYP_F32, true), diag));
    return hyp_cuda_load_kernel(device, kernel_of(HYP_F32, false), diag);
}

hyp_status hyp_cuda_sum_rows(hyp_cuda_session *s, const hyp_cuda_row_sums *sums, CUdeviceptr x, CUdeviceptr y, hyp_diag *diag)
{
    reduce_plan p = plan_row_sums(s->model->device, sums);
    return launch(s, &p, x, y, diag);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

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

hyp_status hyp_cuda_add_row_sums(hyp_cuda_build *b, uint32_t x, uint32_t y, int64_t rows, int64_t columns)
{
    const reduction r = {.x = x, .y = y};
    hyp_cuda_box kept = {.rank = 1, .lanes = 1, .extent = {columns}, .stride = {{1}}};
    hyp_cuda_box reduced = {.rank = 1, .lanes = 1, .extent = {rows}, .stride = {{columns}}};
    return add_reduction(b, &r, &kept, &reduced);
}

hyp_status hyp_cuda_reduced_boxes(const hyp_kernel_call *c, hyp_cuda_box *kept, hyp_cuda_box *reduced)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    *kept = *reduced = (hyp_cuda_box){.lanes = 1};
    bool along[HYP_MAX_RANK] = {false};
    for (uint32_t i = 0; i < c->attrs[0].count; i++) {
        int32_t axis;
        HYP_TRY(hyp_kernel_axis(c, c->attrs[0].ints[i], x->rank, &axis));
        along[axis] = true;
    }
    int64_t stride = 1;
    for (int32_t a = x->rank; a-- > 0;) {
        hyp_cuda_box *box = along[a] ? reduced : kept;
        box->stride[0][box->rank] = stride;
        box->extent[box->rank++] = x->dims[a];
        stride *= x->dims[a];
    }
    if (x->dtype != y->dtype || hyp_cuda_box_count(kept) != y->count)
        return hyp_kernel_fail(c, "the result is not of the data's type, or of another size than what is kept");
    return HYP_OK;
}

/* reduce-max and reduce-min. */
hyp_status hyp_cuda_add_extreme(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const reduction r = {.x = hyp_plan_call_input(k, 0) - 1,
                         .y = k->outputs[0],
                         .largest = true,
                         .turned = strcmp(k->kernel, "reduce-min") == 0};
    hyp_cuda_box kept, reduced;
    HYP_TRY(hyp_cuda_reduced_boxes(c, &kept, &reduced));
    if (hyp_cuda_box_count(&reduced) == 0 && !hyp_array_is_float(x) && y->count > 0)
        return hyp_kernel_fail(c, "there are no integers to find the %s of", r.turned ? "smallest" : "largest");
    return add_reduction(b, &r, &kept, &reduced);
}
