/* places.c - steps whose elements depend on where they are: one-hot rows, triangles, sequences in reverse; and bits
 * that become another type's. */
#include "base/dtype.h"
#include "kernels/along.h"
#include "kernels/generate.h"
#include "kernels/scatter.h"
#include "runtime/cuda/kernels/along_args.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/reduce.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_bit_cast, hyp_cuda_add_lrn, hyp_cuda_add_one_hot, hyp_cuda_add_product,
    hyp_cuda_add_reverse, hyp_cuda_add_tensor_scatter, hyp_cuda_add_trilu;

hyp_status hyp_cuda_add_bit_cast(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {c->out[0].count}, .stride = {{1}, {1}}};
    HYP_TRY(hyp_kernel_check_bit_cast(c));
    return c->out[0].count == 0 ? HYP_OK
                                : hyp_cuda_add_box(b, &box, hyp_plan_call_input(k, 0) - 1, k->outputs[0], 0, 0);
}

hyp_status hyp_cuda_add_one_hot(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *indices = &c->in[0], *y = &c->out[0];
    hyp_along s;
    HYP_TRY(hyp_kernel_read_one_hot(c, &s));
    if (y->count == 0) return HYP_OK;
    const hyp_cuda_one_hot args = {.inner = hyp_cuda_extent_of(s.inner),
                                   .depth = hyp_cuda_extent_of(s.size),
                                   .total = y->count,
                                   .dtype = indices->dtype,
                                   .floats = hyp_array_is_float(indices),
                                   .size = (uint32_t)hyp_dtype_size(y->dtype)};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_one_hot, indices, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_one_hot, values, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_one_hot, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_one_hot, y->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_trilu(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *diagonal = hyp_kernel_input(c, 1);
    HYP_TRY(hyp_kernel_check_trilu(c));
    if (x->count == 0) return HYP_OK;
    const hyp_cuda_trilu args = {.columns = hyp_cuda_extent_of(x->dims[x->rank - 1]),
                                 .rows = hyp_cuda_extent_of(x->dims[x->rank - 2]),
                                 .total = x->count,
                                 .dtype = diagonal ? diagonal->dtype : HYP_DTYPE_NONE,
                                 .upper = c->attrs[0].i != 0,
                                 .size = (uint32_t)hyp_dtype_size(x->dtype)};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_trilu, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_trilu, diagonal, diagonal ? hyp_plan_call_input(k, 1) : 0),
                                   HYP_CUDA_SLOT(hyp_cuda_trilu, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_trilu, x->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_reverse(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    int64_t strides[HYP_MAX_RANK];
    int32_t batch, time;
    HYP_TRY(hyp_kernel_read_reverse_sequence(c, &batch, &time));
    if (x->count == 0) return HYP_OK;
    hyp_array_strides(x, strides);
    HYP_TRY(hyp_cuda_need_report(b));
    const hyp_cuda_reverse args = {.error = b->session->error_at,
                                   .batch = hyp_cuda_extent_of(strides[batch]),
                                   .batches = hyp_cuda_extent_of(x->dims[batch]),
                                   .time = hyp_cuda_extent_of(strides[time]),
                                   .times = hyp_cuda_extent_of(x->dims[time]),
                                   .total = x->count,
                                   .dtype = c->in[1].dtype,
                                   .size = (uint32_t)hyp_dtype_size(x->dtype),
                                   .step = b->step};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_reverse, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_reverse, lengths, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_reverse, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_reverse, x->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_tensor_scatter(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *first = hyp_kernel_input(c, 2);
    const hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {x->count}, .stride = {{1}, {1}}};
    hyp_tensor_scatter t;
    HYP_TRY(hyp_kernel_read_tensor_scatter(c, &t));
    if (x->count == 0) return HYP_OK;
    if (t.length == 0) return hyp_cuda_add_box(b, &box, hyp_plan_call_input(k, 0) - 1, k->outputs[0], 0, 0);
    HYP_TRY(hyp_cuda_need_report(b));
    const hyp_cuda_tensor_scatter args = {.error = b->session->error_at,
                                          .inner = hyp_cuda_extent_of(t.inner),
                                          .size = hyp_cuda_extent_of(t.size),
                                          .outer = hyp_cuda_extent_of(t.outer / x->dims[0]),
                                          .length = t.length,
                                          .most = t.most,
                                          .total = x->count,
                                          .dtype = first ? first->dtype : HYP_DTYPE_NONE,
                                          .circular = t.circular,
                                          .bytes = (uint32_t)hyp_dtype_size(x->dtype),
                                          .step = b->step};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_tensor_scatter, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_tensor_scatter, updates, hyp_plan_call_input(k, 1)),
                                   HYP_CUDA_SLOT(hyp_cuda_tensor_scatter, first, first ? hyp_plan_call_input(k, 2) : 0),
                                   HYP_CUDA_SLOT(hyp_cuda_tensor_scatter, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_tensor_scatter, x->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_lrn(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    const int64_t size = c->attrs[0].i;
    int64_t channels, inner;
    HYP_TRY(hyp_kernel_read_lrn(c, &channels, &inner));
    if (x->count == 0) return HYP_OK;
    const hyp_cuda_lrn args = {.inner = hyp_cuda_extent_of(inner),
                               .channels = hyp_cuda_extent_of(channels),
                               .before = (size - 1) / 2,
                               .behind = size / 2,
                               .total = x->count,
                               .alpha = c->attrs[1].f / (double)size,
                               .beta = c->attrs[2].f,
                               .bias = c->attrs[3].f,
                               .dtype = x->dtype};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_lrn, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_lrn, y, k->outputs[0] + 1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_lrn, x->count, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

/* reduce-prod. */
hyp_status hyp_cuda_add_product(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    hyp_cuda_box kept, reduced;
    HYP_TRY(hyp_cuda_reduced_boxes(c, &kept, &reduced));
    if (y->count == 0) return HYP_OK;
    hyp_cuda_box_merge(&kept);
    hyp_cuda_product args = {.total = y->count, .terms = hyp_cuda_box_count(&reduced), .dtype = x->dtype};
    args.kept_rank = kept.rank;
    hyp_cuda_box_axes(&kept, args.kept, args.kept_stride);
    if (args.terms > 0) {
        hyp_cuda_box_merge(&reduced);
        args.reduced_rank = reduced.rank;
        hyp_cuda_box_axes(&reduced, args.reduced, args.reduced_stride);
    }
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_product, x, hyp_plan_call_input(k, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_product, y, k->outputs[0] + 1)};
    const hyp_cuda_kernel kernel = hyp_array_is_float(x) ? HYP_CUDA_KERNEL_product_f64 : HYP_CUDA_KERNEL_product_u64;
    return hyp_cuda_add_spread(b, kernel, y->count, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}
