/* Elements and slices picked by indices. */
#include "kernels/scatter.h"

hyp_kernel_fn hyp_kernel_gather_elements, hyp_kernel_gather_nd;

hyp_status hyp_kernel_read_gather_elements(const hyp_kernel_call *c, int32_t *axis)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, axis));
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, indices->dims, "the result"));
    if (indices->rank != x->rank || y->dtype != x->dtype)
        return hyp_kernel_fail(c, "the arrays are of different ranks or types");
    for (int32_t a = 0; a < x->rank; a++)
        if (a != *axis && indices->dims[a] > x->dims[a])
            return hyp_kernel_fail(c, "axis %d of the indices is longer than that of the data", a);
    return HYP_OK;
}

/* y[i] = x[i with its entry along the axis replaced by indices[i]]. */
hyp_status hyp_kernel_gather_elements(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    int64_t strides[HYP_MAX_RANK], at[HYP_MAX_RANK] = {0};
    int32_t axis;
    HYP_TRY(hyp_kernel_read_gather_elements(c, &axis));
    hyp_array_strides(x, strides);
    int32_t last = x->rank - 1;
    int64_t row = indices->dims[last], step = axis == last ? 0 : 1;
    for (int64_t i = 0; i < indices->count; i += row, hyp_index_next(last, indices->dims, at)) {
        int64_t from = 0, index;
        for (int32_t a = 0; a < last; a++) from += a == axis ? 0 : at[a] * strides[a];
        for (int64_t k = 0; k < row; k++) {
            HYP_TRY(hyp_kernel_index(c, hyp_array_i64(indices, i + k), axis, x->dims[axis], &index));
            hyp_array_copy(y, i + k, x, from + k * step + index * strides[axis]);
        }
    }
    return HYP_OK;
}

/* The last axis of `indices` holds index tuples into the axes of x behind the batch axes. */
hyp_status hyp_kernel_read_gather_nd(const hyp_kernel_call *c, hyp_gather_nd *out)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    int64_t dims[HYP_MAX_RANK], batch_axes = c->attrs[0].i, batches = 1;
    int32_t rank = 0;
    if (x->rank < 1 || indices->rank < 1 || batch_axes < 0 || batch_axes >= indices->rank ||
        indices->dims[indices->rank - 1] > x->rank - batch_axes)
        return hyp_kernel_fail(c, "the indices do not fit the data");
    *out = (hyp_gather_nd){.first = (int32_t)batch_axes, .width = (int32_t)indices->dims[indices->rank - 1], .tuples = 1};
    int32_t behind = out->first + out->width;
    if (indices->rank - 1 + x->rank - behind > HYP_MAX_RANK) return hyp_kernel_fail(c, "the rank is too high");
    for (int32_t a = 0; a < indices->rank - 1; a++) dims[rank++] = indices->dims[a];
    for (int32_t a = behind; a < x->rank; a++) dims[rank++] = x->dims[a];
    HYP_TRY(hyp_kernel_want_shape(c, y, rank, dims, "the result"));
    for (int32_t a = 0; a < out->first; a++)
        if (indices->dims[a] != x->dims[a]) return hyp_kernel_fail(c, "batch axis %d differs", a);
    if (y->dtype != x->dtype) return hyp_kernel_fail(c, "the result is of another type");
    hyp_array_strides(x, out->strides);
    if (y->count == 0 && indices->count == 0) out->tuples = 0; /* however many tuples of nothing there are */
    for (int32_t a = 0; a < indices->rank - 1 && out->tuples; a++) out->tuples *= indices->dims[a];
    for (int32_t a = 0; a < out->first; a++) batches *= x->dims[a];
    out->inner = out->tuples ? y->count / out->tuples : 0;
    out->of_batch = batches ? out->tuples / batches : 0;
    out->batch = out->first ? out->strides[out->first - 1] : 0;
    return HYP_OK;
}

hyp_status hyp_kernel_gather_nd(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *y = &c->out[0];
    hyp_gather_nd g;
    HYP_TRY(hyp_kernel_read_gather_nd(c, &g));
    const size_t size = hyp_dtype_size(y->stored), run = (size_t)g.inner * size;
    for (int64_t t = 0; t < g.tuples; t++) {
        int64_t from = t / g.of_batch * g.batch, index;
        for (int32_t k = 0; k < g.width; k++) {
            int32_t axis = g.first + k;
            HYP_TRY(hyp_kernel_index(c, hyp_array_i64(indices, t * g.width + k), axis, x->dims[axis], &index));
            from += index * g.strides[axis];
        }
        if (run) memcpy((char *)y->data + (size_t)t * run, (const char *)x->data + (size_t)from * size, run);
    }
    return HYP_OK;
}
