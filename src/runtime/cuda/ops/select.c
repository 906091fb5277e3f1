/* select.c - steps whose results are as large as the data say: what is not zero, boxes that do not overlap. How many
 * there are up to each element, or each class, is a running sum in the session's room, and a last launch lists them. */
#include "base/dtype.h"
#include "runtime/cuda/kernels/regions_args.h"
#include "runtime/cuda/ops/scans.h"

hyp_cuda_call_fn hyp_cuda_add_nonzero, hyp_cuda_add_suppression;

/* ---- what is not zero -------------------------------------------------------------------------------------- */

/* Counts of what is not zero up to each element, in the session's room, and the places that they tell. */
typedef struct nonzero {
    hyp_cuda_scans scan; /* nothing is counted where x has no elements */
    hyp_cuda_nonzero args;
    hyp_cuda_grid grid;
    uint32_t x, y, found;
    size_t counts_at; /* in the room, behind the sums of parts */
} nonzero;

static hyp_status nonzero_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    nonzero *p = data;
    p->args.counts = s->room + p->counts_at;
    p->args.y = s->at[p->y];
    p->args.found = s->at[p->found];
    p->args.error = s->error_at;
    if (p->args.count > 0) HYP_TRY(hyp_cuda_scans_run(s, &p->scan, s->at[p->x], p->args.counts, s->room, diag));
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

hyp_status hyp_cuda_add_nonzero(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    const hyp_cuda_device *device = b->session->model->device;
    size_t room = 0, sums_at;
    void *data;
    HYP_TRY(hyp_kernel_check_nonzero(c));
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, nonzero_run, sizeof(nonzero), &data));
    nonzero *p = data;
    *p = (nonzero){.x = hyp_plan_call_input(k, 0) - 1, .y = k->outputs[0], .found = k->outputs[1]};
    p->args =
        (hyp_cuda_nonzero){.count = x->count, .room = c->out[0].dims[1], .rank = (uint32_t)x->rank, .step = b->step};
    for (int32_t a = 0; a < x->rank && x->count > 0; a++)
        p->args.extent[x->rank - 1 - a] = hyp_cuda_extent_of(x->dims[a]);
    if (x->count > 0) {
        const hyp_along line = {1, x->count, 1};
        const hyp_cuda_order order = hyp_cuda_order_of(x->dtype, true, true);
        p->scan = hyp_cuda_scans_of(device, &line, HYP_CUDA_KERNEL_scan_u64, x->dtype, HYP_I64);
        p->scan.args.mask =
            hyp_array_is_float(x) ? order.sign - 1 : UINT64_MAX; /* of floats the sign counts for nothing */
        HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_scan_u64));
    }
    if (!hyp_cuda_take_room(1, p->scan.room, &room, &sums_at) ||
        !hyp_cuda_take_room((size_t)x->count, sizeof(int64_t), &room, &p->counts_at))
        return hyp_kernel_fail(c, "the sizes are too large");
    HYP_TRY(hyp_cuda_want_room(b, room));
    p->grid.kernel = HYP_CUDA_KERNEL_nonzero;
    hyp_cuda_spread(device, p->args.room > 0 ? p->args.room : 1, &p->grid);
    return hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_nonzero);
}

/* ---- boxes that do not overlap ------------------------------------------------------------------------------ */

typedef struct suppression {
    hyp_cuda_suppress args; /* nothing is taken where there are no classes of boxes */
    hyp_cuda_suppressed list;
    hyp_cuda_scans scan; /* of the counts */
    hyp_cuda_grid grid, list_grid;
    uint32_t in_plus1[5], y, found;
    size_t keys_at, taken_at, counts_at, ends_at; /* in the room, behind the sums of parts */
} suppression;

static hyp_status suppression_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    suppression *p = data;
    uint64_t *const in[] = {&p->args.boxes, &p->args.scores, &p->args.most, &p->args.threshold, &p->args.least};
    for (int i = 0; i < 5; i++) *in[i] = p->in_plus1[i] ? s->at[p->in_plus1[i] - 1] : 0;
    p->args.keys = s->room + p->keys_at;
    p->args.taken = p->list.taken = s->room + p->taken_at;
    p->args.counts = s->room + p->counts_at;
    p->list.ends = s->room + p->ends_at;
    p->list.y = s->at[p->y];
    p->list.found = s->at[p->found];
    p->list.error = s->error_at;
    if (p->list.groups > 0) {
        HYP_TRY(hyp_cuda_launch(s, &p->grid, &p->args, diag));
        HYP_TRY(hyp_cuda_scans_run(s, &p->scan, p->args.counts, p->list.ends, s->room, diag));
    }
    return hyp_cuda_launch(s, &p->list_grid, &p->list, diag);
}

static hyp_dtype input_type(const hyp_kernel_call *c, uint32_t i)
{
    const hyp_array *a = hyp_kernel_input(c, i);
    return a ? a->dtype : HYP_DTYPE_NONE;
}

/* What is taken of each class, and the room that it takes. There are classes and boxes. */
static hyp_status plan_suppression(hyp_cuda_build *b, const hyp_kernel_call *c, suppression *p, size_t *room)
{
    enum { THREADS = 512, WARP = 32 };
    const hyp_cuda_device *device = b->session->model->device;
    const hyp_cuda_kernel sums = HYP_CUDA_KERNEL_scan_of_i64;
    const int64_t groups = p->list.groups, n = c->in[0].dims[1], limit = p->list.limit;
    const hyp_along line = {1, groups, 1};
    size_t sums_at, taken;
    p->args = (hyp_cuda_suppress){.order = hyp_cuda_order_of(c->in[1].dtype, true, false),
                                  .classes = p->list.classes,
                                  .n = n,
                                  .groups = groups,
                                  .limit = limit,
                                  .box_dtype = c->in[0].dtype,
                                  .score_dtype = c->in[1].dtype,
                                  .most_dtype = input_type(c, 2),
                                  .threshold_dtype = input_type(c, 3),
                                  .least_dtype = input_type(c, 4),
                                  .center = c->attrs[1].i != 0};
    p->grid = (hyp_cuda_grid){.kernel = HYP_CUDA_KERNEL_suppress,
                              .blocks = hyp_cuda_blocks(device, groups, 1),
                              .block_x = THREADS,
                              .block_y = 1,
                              .shared_bytes = (THREADS / WARP + 1) * sizeof(hyp_cuda_ranked)};
    p->scan = hyp_cuda_scans_of(device, &line, sums, HYP_I64, HYP_I64);
    if (!hyp_cuda_take_room(1, p->scan.room, room, &sums_at) || !hyp_mul_size((size_t)groups, (size_t)limit, &taken) ||
        !hyp_cuda_take_room((size_t)n, p->grid.blocks * sizeof(uint64_t), room, &p->keys_at) ||
        !hyp_cuda_take_room(taken, sizeof(int64_t), room, &p->taken_at) ||
        !hyp_cuda_take_room((size_t)groups, sizeof(int64_t), room, &p->counts_at) ||
        !hyp_cuda_take_room((size_t)groups, sizeof(int64_t), room, &p->ends_at))
        return hyp_kernel_fail(c, "the sizes are too large");
    HYP_TRY(hyp_cuda_want_room(b, *room));
    HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_suppress));
    return hyp_cuda_need_kernel(b, sums);
}

/* non-max-suppression. */
hyp_status hyp_cuda_add_suppression(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const int64_t room_for = c->out[0].dims[0], n = c->in[0].dims[1];
    size_t room = 0;
    void *data;
    HYP_TRY(hyp_kernel_check_non_max_suppression(c));
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, suppression_run, sizeof(suppression), &data));
    suppression *p = data;
    *p = (suppression){.y = k->outputs[0], .found = k->outputs[1]};
    for (uint32_t i = 0; i < 5; i++) p->in_plus1[i] = hyp_plan_call_input(k, i);
    p->list = (hyp_cuda_suppressed){.room = room_for, .limit = n < room_for ? n : room_for, .step = b->step};
    if (c->in[1].count > 0) {
        p->list.groups = c->in[1].dims[0] * c->in[1].dims[1];
        p->list.classes = hyp_cuda_extent_of(c->in[1].dims[1]);
        HYP_TRY(plan_suppression(b, c, p, &room));
    }
    p->list_grid.kernel = HYP_CUDA_KERNEL_suppressed;
    hyp_cuda_spread(b->session->model->device, room_for > 0 ? room_for : 1, &p->list_grid);
    return hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_suppressed);
}
