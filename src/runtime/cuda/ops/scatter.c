/* scatter.c - elements picked by indices along an axis, and updates written, or combined, into places of a copy of the data. */
#include "base/dtype.h"
#include "base/elementwise.h"
#include "kernels/scatter.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_gather_elements, hyp_cuda_add_scatter_elements, hyp_cuda_add_scatter_nd;

typedef struct scatter {
    hyp_cuda_scatter args;
    hyp_cuda_grid grid;
    hyp_cuda_mover data; /* to the result */
    uint32_t x, indices, updates, y;
} scatter;

static hyp_status scatter_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    scatter *p = data;
    p->args.indices = s->at[p->indices];
    p->args.updates = s->at[p->updates];
    p->args.y = s->at[p->y];
    p->args.error = s->error_at;
    HYP_TRY(hyp_cuda_mover_run(s, &p->data, s->at[p->x], s->at[p->y], diag));
    return p->grid.blocks > 0 ? hyp_cuda_launch(s, &p->grid, &p->args, diag) : HYP_OK;
}

static hyp_cuda_kernel kernel_of(uint32_t combine, hyp_dtype dtype)
{
    if (combine == HYP_PW_CAST) return HYP_CUDA_KERNEL_scatter;
    if (hyp_dtype_is_float(dtype)) return HYP_CUDA_KERNEL_scatter_f64;
    return dtype == HYP_U64 ? HYP_CUDA_KERNEL_scatter_u64 : HYP_CUDA_KERNEL_scatter_i64;
}

/* How many parts few lines are shared out in: enough threads to fill the device, none of which looks at all tuples for nothing. */
static int64_t parts_of(const hyp_cuda_device *device, int64_t lines, int64_t tuples)
{
    enum { PER_MULTIPROCESSOR = 512, MOST = 256 };
    int64_t parts = 1, wanted = (int64_t)device->multiprocessors * PER_MULTIPROCESSOR;
    while (parts < MOST && lines * parts < wanted && 2 * parts <= tuples) parts *= 2;
    return parts;
}

/* Adds the op. `lines` is their box, with the offsets that they begin with in y and in the updates; `args` has the rest, but for
 * what is the same for all. */
static hyp_status add(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c, hyp_cuda_box *lines,
                      hyp_cuda_scatter *args)
{
    enum { THREADS = 64 };
    const hyp_array *y = &c->out[0];
    const hyp_cuda_device *device = b->session->model->device;
    uint32_t size = (uint32_t)hyp_dtype_size(y->dtype);
    void *data;
    hyp_cuda_box_merge(lines);
    int64_t count = hyp_cuda_box_count(lines), parts = parts_of(device, count, args->tuples);
    args->line_rank = lines->rank;
    for (uint32_t a = 0; a < lines->rank; a++) {
        args->line[a] = hyp_cuda_extent_of(lines->extent[a]);
        args->line_to[a] = lines->stride[0][a];
        args->line_from[a] = lines->stride[1][a];
    }
    if (count > 0) args->lines = hyp_cuda_extent_of(count);
    args->part_mask = parts - 1;
    args->wide_indices = c->in[1].dtype == HYP_I64;
    args->dtype = y->dtype;
    args->step = b->step;
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, scatter_run, sizeof(scatter), &data));
    scatter *p = data;
    *p = (scatter){.args = *args,
                   .grid = {.kernel = kernel_of(args->combine, y->dtype),
                            .blocks = args->tuples > 0 ? hyp_cuda_blocks(device, count * parts, THREADS) : 0,
                            .block_x = THREADS,
                            .block_y = 1},
                   .x = hyp_plan_call_input(k, 0) - 1,
                   .indices = hyp_plan_call_input(k, 1) - 1,
                   .updates = hyp_plan_call_input(k, 2) - 1,
                   .y = k->outputs[0]};
    hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {y->count}, .stride = {{1}, {1}}};
    HYP_TRY(hyp_cuda_mover_init(b, &box, size, 0, 0, &p->data));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* A line is an element of the rows that tuples place. */
hyp_status hyp_cuda_add_scatter_nd(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    hyp_scatter_nd rows;
    HYP_TRY(hyp_kernel_read_scatter_nd(c, &rows));
    if (y->count == 0) return HYP_OK;
    uint32_t size = (uint32_t)hyp_dtype_size(y->dtype);
    hyp_cuda_scatter args = {.tuples = rows.tuples,
                             .width = (uint32_t)rows.width,
                             .index_step = rows.width,
                             .combine = rows.combine,
                             .size = rows.combine == HYP_PW_CAST ? hyp_cuda_widest((uint64_t)rows.inner * size) : size};
    for (uint32_t a = 0; a < args.width; a++) {
        args.dims[a] = c->in[0].dims[a];
        args.strides[a] = rows.strides[a] * size / args.size;
    }
    args.from_step = rows.inner * size / args.size;
    hyp_cuda_box lines = {.rank = 1, .lanes = 2, .extent = {args.from_step}, .stride = {{1}, {1}}};
    return add(b, k, c, &lines, &args);
}

/* A line lies along the axis, and there is one for every place on the others that the indices have. */
hyp_status hyp_cuda_add_scatter_elements(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1];
    int64_t to[HYP_MAX_RANK], from[HYP_MAX_RANK];
    int32_t axis;
    hyp_cuda_scatter args = {.width = 1, .own_indices = 1, .size = (uint32_t)hyp_dtype_size(x->dtype)};
    HYP_TRY(hyp_kernel_read_scatter_elements(c, &axis, &args.combine));
    if (x->count == 0) return HYP_OK;
    hyp_array_strides(x, to);
    hyp_array_strides(indices, from);
    args.tuples = indices->dims[axis];
    args.dims[0] = x->dims[axis];
    args.strides[0] = to[axis];
    args.index_step = args.from_step = from[axis];
    hyp_cuda_box lines = {.lanes = 2};
    for (int32_t a = x->rank; a-- > 0;) {
        if (a == axis) continue;
        lines.stride[0][lines.rank] = to[a];
        lines.stride[1][lines.rank] = from[a];
        lines.extent[lines.rank++] = indices->dims[a];
    }
    return add(b, k, c, &lines, &args);
}

hyp_status hyp_cuda_add_gather_elements(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    enum { THREADS = 256 };
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    int64_t strides[HYP_MAX_RANK];
    int32_t axis;
    HYP_TRY(hyp_kernel_read_gather_elements(c, &axis));
    if (y->count == 0) return HYP_OK;
    hyp_array_strides(x, strides);
    hyp_cuda_box box = {.lanes = 1};
    for (int32_t a = x->rank; a-- > 0;) {
        box.stride[0][box.rank] = a == axis ? 0 : strides[a];
        box.extent[box.rank++] = y->dims[a];
    }
    hyp_cuda_box_merge(&box);
    hyp_cuda_gather_along args = {.axis = x->dims[axis],
                                  .axis_stride = strides[axis],
                                  .total = y->count,
                                  .rank = box.rank,
                                  .wide_indices = indices->dtype == HYP_I64,
                                  .size = (uint32_t)hyp_dtype_size(y->dtype),
                                  .step = b->step};
    for (uint32_t a = 0; a < box.rank; a++) {
        args.extent[a] = hyp_cuda_extent_of(box.extent[a]);
        args.stride[a] = box.stride[0][a];
    }
    HYP_TRY(hyp_cuda_need_report(b));
    args.error = b->session->error_at;
    const hyp_cuda_grid grid = {.kernel = HYP_CUDA_KERNEL_gather_along,
                                .blocks = hyp_cuda_blocks(b->session->model->device, y->count, THREADS),
                                .block_x = THREADS,
                                .block_y = 1};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_gather_along, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_along, indices, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_along, y, k->outputs[0] + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
