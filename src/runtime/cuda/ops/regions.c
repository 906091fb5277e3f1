/* regions.c - places and regions of images: grids that are moved, bins of regions, and what pools have left put back.
 */
#include "base/dtype.h"
#include "kernels/sample.h"
#include "kernels/window.h"
#include "runtime/cuda/kernels/regions_args.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_affine_grid, hyp_cuda_add_roi_align, hyp_cuda_add_roi_align_gradient, hyp_cuda_add_unpool;

hyp_status hyp_cuda_add_affine_grid(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    int64_t dims[HYP_MAX_RANK] = {0};
    int32_t axes;
    HYP_TRY(hyp_kernel_read_affine_grid(c, &axes, dims));
    if (y->count == 0) return HYP_OK;
    hyp_cuda_affine_grid args = {.axes = hyp_cuda_extent_of(axes),
                                 .total = y->count,
                                 .dtype = c->in[0].dtype,
                                 .y_dtype = y->dtype,
                                 .align_corners = c->attrs[1].i != 0};
    for (int32_t a = 0; a < HYP_CUDA_GRID_AXES; a++) args.size[a] = hyp_cuda_extent_of(a < axes ? dims[axes - a] : 1);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_affine_grid, theta, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_affine_grid, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_affine_grid, y->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

/* All but addresses; total: of a launch's results. */
static hyp_cuda_roi_align roi_args(const hyp_cuda_build *b, const hyp_kernel_call *c, const hyp_roi_align *p, int64_t total)
{
    return (hyp_cuda_roi_align){.error = b->session->error_at,
                                .channels = hyp_cuda_extent_of(p->channels),
                                .bins = {hyp_cuda_extent_of(p->bins[1]), hyp_cuda_extent_of(p->bins[0])},
                                .image_count = c->in[0].dims[0],
                                .in = {p->in[1], p->in[0]},
                                .total = total,
                                .samples = p->samples,
                                .most = HYP_ROI_SAMPLES,
                                .scale = p->scale,
                                .dtype = c->out[0].dtype,
                                .region_dtype = c->in[1].dtype,
                                .image_dtype = c->in[2].dtype,
                                .largest = p->largest,
                                .half_pixel = p->half_pixel,
                                .step = b->step};
}

hyp_status hyp_cuda_add_roi_align(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    hyp_roi_align p;
    HYP_TRY(hyp_kernel_read_roi_align(c, &p));
    if (y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_need_report(b));
    const hyp_cuda_roi_align args = roi_args(b, c, &p, y->count);
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_roi_align, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_align, regions, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_align, images, hyp_plan_call_input(k, 2)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_align, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_roi_align, y->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_roi_align_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    hyp_roi_align p;
    HYP_TRY(hyp_kernel_read_roi_align_gradient(c, &p));
    if (y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_need_report(b));
    const hyp_cuda_roi_gradient args = {.of = roi_args(b, c, &p, y->count),
                                        .in = {hyp_cuda_extent_of(p.in[1]), hyp_cuda_extent_of(p.in[0])},
                                        .regions = c->in[3].count > 0 ? p.regions : 0};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_roi_gradient, of.x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_gradient, of.regions, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_gradient, of.images, hyp_plan_call_input(k, 2)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_gradient, g, hyp_plan_call_input(k, 3)),
                                   HYP_CUDA_SLOT(hyp_cuda_roi_gradient, of.y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_roi_align_back, y->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

typedef struct unpool_op {
    hyp_cuda_unpool args;
    hyp_cuda_grid of_x, of_y;
    uint32_t x, places, y;
} unpool_op;

static hyp_status unpool_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    unpool_op *p = data;
    p->args.x = s->at[p->x];
    p->args.places = s->at[p->places];
    p->args.y = s->at[p->y];
    p->args.owners = s->room;
    p->args.error = s->error_at;
    for (uint32_t stage = HYP_CUDA_UNPOOL_CLEAR; stage <= HYP_CUDA_UNPOOL_TAKE; stage++) {
        p->args.stage = stage;
        HYP_TRY(hyp_cuda_launch(s, stage == HYP_CUDA_UNPOOL_CLAIM ? &p->of_x : &p->of_y, &p->args, diag));
    }
    return HYP_OK;
}

hyp_status hyp_cuda_add_unpool(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_cuda_device *device = b->session->model->device;
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const int32_t axes = x->rank - 2;
    int64_t each, inner;
    size_t room = 0, at;
    void *data;
    HYP_TRY(hyp_kernel_read_max_unpool(c, &each, &inner));
    if (y->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_need_report(b));
    HYP_TRY(hyp_cuda_add_op(b, unpool_run, sizeof(unpool_op), &data));
    unpool_op *p = data;
    *p = (unpool_op){.x = hyp_plan_call_input(k, 0) - 1, .places = hyp_plan_call_input(k, 1) - 1, .y = k->outputs[0]};
    p->args = (hyp_cuda_unpool){.each = hyp_cuda_extent_of(each),
                                .channels = y->dims[0] * y->dims[1],
                                .inner = inner,
                                .count = x->count,
                                .total = y->count,
                                .size_of = (uint32_t)hyp_dtype_size(x->dtype),
                                .step = b->step};
    for (int32_t a = 0; a < HYP_CUDA_SPATIAL; a++) {
        p->args.size[a] = hyp_cuda_extent_of(a < axes ? c->attrs[0].ints[axes - 1 - a] : 1);
        p->args.out[a] = a < axes ? y->dims[x->rank - 1 - a] : 1;
    }
    p->of_x.kernel = p->of_y.kernel = HYP_CUDA_KERNEL_unpool;
    hyp_cuda_spread(device, x->count > 0 ? x->count : 1, &p->of_x);
    hyp_cuda_spread(device, y->count, &p->of_y);
    if (!hyp_cuda_take_room((size_t)y->count, sizeof(uint64_t), &room, &at))
        return hyp_kernel_fail(c, "the sizes are too large");
    HYP_TRY(hyp_cuda_want_room(b, room));
    return hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_unpool);
}
