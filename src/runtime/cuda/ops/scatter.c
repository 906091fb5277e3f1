/* scatter.c - elements and rows picked by indices, and updates written, or combined, into places of a copy of the data. */
#include "base/dtype.h"
#include "base/elementwise.h"
#include "kernels/scatter.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_gather_elements, hyp_cuda_add_gather_nd, hyp_cuda_add_scatter_elements, hyp_cuda_add_scatter_nd;

enum { SORT_BITS = 8 }; /* of a place, at a time */

typedef struct scatter {
    hyp_cuda_scatter args;
    hyp_cuda_grid grid;
    hyp_cuda_mover data; /* to the result */
    uint32_t x, indices, updates, y;
    /* Where many updates may meet they are listed and sorted, in the session's room: two lists, and counts. */
    uint32_t passes; /* 0: they are not */
    hyp_cuda_sort sort;
    hyp_cuda_grid list_grid, sort_grid;
    size_t list_bytes;
} scatter;

/* Leaves the list at args.list. */
static hyp_status sort_updates(hyp_cuda_session *s, scatter *p, hyp_diag *diag)
{
    p->args.list = s->room;
    p->sort.from = s->room;
    p->sort.to = s->room + p->list_bytes;
    p->sort.counts = s->room + 2 * p->list_bytes;
    HYP_TRY(hyp_cuda_launch(s, &p->list_grid, &p->args, diag));
    for (uint32_t pass = 0; pass < p->passes; pass++) {
        p->sort.shift = pass * SORT_BITS;
        p->sort.moves = 0;
        HYP_TRY(hyp_cuda_launch(s, &p->sort_grid, &p->sort, diag));
        p->sort.moves = 1;
        HYP_TRY(hyp_cuda_launch(s, &p->sort_grid, &p->sort, diag));
        p->args.list = p->sort.to;
        p->sort.to = p->sort.from;
        p->sort.from = p->args.list;
    }
    return HYP_OK;
}

static hyp_status scatter_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    scatter *p = data;
    p->args.indices = s->at[p->indices];
    p->args.updates = s->at[p->updates];
    p->args.y = s->at[p->y];
    p->args.error = s->error_at;
    HYP_TRY(hyp_cuda_mover_run(s, &p->data, s->at[p->x], s->at[p->y], diag));
    if (p->args.total == 0) return HYP_OK;
    if (p->passes > 0) HYP_TRY(sort_updates(s, p, diag));
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

/* What is needed to sort updates that go to so many places. */
static hyp_status add_sort(hyp_cuda_build *b, scatter *p, int64_t places)
{
    enum { BLOCKS_PER_MULTIPROCESSOR = 2 };
    const hyp_cuda_device *device = b->session->model->device;
    const int64_t count = p->args.updates_count, most = (int64_t)device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    int64_t tiles = (count + HYP_CUDA_DIGITS - 1) / HYP_CUDA_DIGITS, each = (tiles + most - 1) / most;
    p->sort = (hyp_cuda_sort){.count = count, .each = each * HYP_CUDA_DIGITS};
    p->sort_grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_scatter_sort,
                                   .blocks = (uint32_t)((tiles + each - 1) / each),
                                   .block_x = HYP_CUDA_DIGITS,
                                   .block_y = 1,
                                   .shared_bytes = HYP_CUDA_DIGITS * (2 * sizeof(int64_t) + sizeof(uint32_t))};
    p->list_grid.kernel = HYP_CUDA_KERNEL_scatter_list;
    hyp_cuda_spread(device, count, &p->list_grid);
    p->list_bytes = hyp_cuda_round_up((size_t)count * sizeof(hyp_cuda_scattered), HYP_CUDA_ALIGN);
    for (p->passes = 1; p->passes * SORT_BITS < 64 && (places - 1) >> p->passes * SORT_BITS > 0;) p->passes++;
    HYP_TRY(hyp_cuda_want_room(b, 2 * p->list_bytes + p->sort_grid.blocks * HYP_CUDA_DIGITS * sizeof(uint32_t)));
    HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_scatter_list));
    return hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_scatter_sort);
}

/* Adds the op. `args` says which updates there are, each of `inner` elements, and to which of so many places they go. */
static hyp_status add(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c, const hyp_cuda_scatter *args,
                      int64_t inner, int64_t places)
{
    enum { THREADS = 128, SHORT = 32, PIECE = 16 }; /* SHORT: updates that are compared with each other rather than sorted */
    const hyp_array *y = &c->out[0];
    const hyp_cuda_device *device = b->session->model->device;
    const uint32_t size = (uint32_t)hyp_dtype_size(y->dtype);
    const bool moves = args->combine == HYP_PW_CAST, floats = y->dtype == HYP_F32 || y->dtype == HYP_F16 || y->dtype == HYP_BF16;
    const bool pieces = !moves && floats && inner * size % PIECE == 0;
    void *data;
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, scatter_run, sizeof(scatter), &data));
    scatter *p = data;
    *p = (scatter){.args = *args,
                   .x = hyp_plan_call_input(k, 0) - 1,
                   .indices = hyp_plan_call_input(k, 1) - 1,
                   .updates = hyp_plan_call_input(k, 2) - 1,
                   .y = k->outputs[0]};
    p->args.size = moves ? hyp_cuda_widest((uint64_t)inner * size) : pieces ? PIECE : size;
    p->args.pieces = hyp_cuda_extent_of(inner * size / p->args.size);
    p->args.total = args->updates_count * p->args.pieces.size;
    p->args.wide_indices = c->in[1].dtype == HYP_I64;
    p->args.dtype = y->dtype;
    p->args.step = b->step;
    p->grid = (hyp_cuda_grid){.kernel = moves    ? HYP_CUDA_KERNEL_scatter
                                        : pieces ? HYP_CUDA_KERNEL_scatter_pieces
                                                 : HYP_CUDA_KERNEL_scatter_elements,
                              .blocks = hyp_cuda_blocks(device, p->args.total, THREADS),
                              .block_x = THREADS,
                              .block_y = 1};
    hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {y->count}, .stride = {{1}, {1}}};
    HYP_TRY(hyp_cuda_mover_init(b, &box, size, 0, 0, &p->data));
    if (p->args.total > 0 && args->line.size > SHORT) HYP_TRY(add_sort(b, p, places));
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* All tuples are one line, and an update is the row that one of them places. */
hyp_status hyp_cuda_add_scatter_nd(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    hyp_scatter_nd rows;
    HYP_TRY(hyp_kernel_read_scatter_nd(c, &rows));
    if (y->count == 0) return HYP_OK;
    hyp_cuda_scatter args = {.updates_count = rows.tuples,
                             .line = hyp_cuda_extent_of(rows.tuples),
                             .line_step = hyp_cuda_extent_of(1),
                             .width = (uint32_t)rows.width,
                             .combine = rows.combine};
    for (uint32_t a = 0; a < args.width; a++) {
        args.dims[a] = c->in[0].dims[a];
        args.strides[a] = rows.strides[a] / rows.inner;
    }
    return add(b, k, c, &args, rows.inner, y->count / rows.inner);
}

/* A line lies along the axis, and there is one for every place on the others that the indices have; an update is an element. */
hyp_status hyp_cuda_add_scatter_elements(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1];
    int64_t to[HYP_MAX_RANK], from[HYP_MAX_RANK];
    int32_t axis;
    hyp_cuda_scatter args = {.updates_count = indices->count, .width = 1};
    HYP_TRY(hyp_kernel_read_scatter_elements(c, &axis, &args.combine));
    if (x->count == 0) return HYP_OK;
    hyp_array_strides(x, to);
    hyp_array_strides(indices, from);
    args.line = hyp_cuda_extent_of(indices->dims[axis]);
    args.line_step = hyp_cuda_extent_of(from[axis]);
    args.dims[0] = x->dims[axis];
    args.strides[0] = to[axis];
    hyp_cuda_box box = {.lanes = 1};
    for (int32_t a = x->rank; a-- > 0;) {
        box.stride[0][box.rank] = a == axis ? 0 : to[a];
        box.extent[box.rank++] = indices->dims[a];
    }
    hyp_cuda_box_merge(&box);
    args.rank = box.rank;
    hyp_cuda_box_axes(&box, args.extent, args.offset);
    return add(b, k, c, &args, 1, x->count);
}

hyp_status hyp_cuda_add_gather_elements(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
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
    hyp_cuda_box_axes(&box, args.extent, args.stride);
    HYP_TRY(hyp_cuda_need_report(b));
    args.error = b->session->error_at;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_gather_along, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_along, indices, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_along, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_gather_along, y->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_gather_nd(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const uint32_t size = (uint32_t)hyp_dtype_size(y->dtype);
    hyp_gather_nd g;
    HYP_TRY(hyp_kernel_read_gather_nd(c, &g));
    if (y->count == 0) return HYP_OK;
    hyp_cuda_gather_nd args = {.width = (uint32_t)g.width, .wide_indices = c->in[1].dtype == HYP_I64, .step = b->step};
    args.size = hyp_cuda_widest((uint64_t)g.inner * size);
    const int64_t piece = args.size / size; /* elements */
    args.inner = hyp_cuda_extent_of(g.inner / piece);
    args.of_batch = hyp_cuda_extent_of(g.of_batch);
    args.batch = g.batch / piece;
    args.total = y->count / piece;
    for (int32_t a = 0; a < g.width; a++) {
        args.dims[a] = x->dims[g.first + a];
        args.strides[a] = g.strides[g.first + a] / piece;
    }
    HYP_TRY(hyp_cuda_need_report(b));
    args.error = b->session->error_at;
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_gather_nd, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_nd, indices, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_gather_nd, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_gather_nd, args.total, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}
