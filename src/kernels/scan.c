/* Running sums and products, and sequences reversed. */
#include "kernels/along.h"

hyp_kernel_fn hyp_kernel_cumsum, hyp_kernel_cumprod, hyp_kernel_reverse_sequence;

hyp_status hyp_kernel_read_scan(const hyp_kernel_call *c, hyp_along *out)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int32_t axis;
    *out = (hyp_along){0};
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    if (x->dtype != y->dtype) return hyp_kernel_fail(c, "the result is of another type");
    if (x->count > 0) hyp_array_split(x, axis, &out->outer, &out->size, &out->inner); /* else other axes may be anything */
    return HYP_OK;
}

static hyp_status scan(const hyp_kernel_call *c, bool product)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool exclusive = c->attrs[1].i != 0, reverse = c->attrs[2].i != 0, is_float = hyp_array_is_float(x);
    hyp_along s;
    HYP_TRY(hyp_kernel_read_scan(c, &s));
    for (int64_t lane = 0; lane < s.outer * s.inner; lane++) {
        int64_t first = lane / s.inner * s.size * s.inner + lane % s.inner;
        double total = product;
        uint64_t whole = product;
        for (int64_t i = 0; i < s.size; i++) {
            int64_t at = first + (reverse ? s.size - 1 - i : i) * s.inner;
            if (is_float) {
                double v = hyp_array_f64(x, at), next = product ? total * v : total + v;
                hyp_array_set_f64(y, at, exclusive ? total : next);
                total = next;
            } else {
                uint64_t v = (uint64_t)hyp_array_i64(x, at), next = product ? whole * v : whole + v;
                hyp_array_set_i64(y, at, (int64_t)(exclusive ? whole : next));
                whole = next;
            }
        }
    }
    return HYP_OK;
}

hyp_status hyp_kernel_cumsum(const hyp_kernel_call *c) { return scan(c, false); }

hyp_status hyp_kernel_cumprod(const hyp_kernel_call *c) { return scan(c, true); }

hyp_status hyp_kernel_read_reverse_sequence(const hyp_kernel_call *c, int32_t *batch, int32_t *time)
{
    const hyp_array *x = &c->in[0], *lengths = &c->in[1], *y = &c->out[0];
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, batch));
    HYP_TRY(hyp_kernel_axis(c, c->attrs[1].i, x->rank, time));
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    HYP_TRY(hyp_kernel_want_shape(c, lengths, 1, &x->dims[*batch], "the list of lengths"));
    if (x->dtype != y->dtype) return hyp_kernel_fail(c, "the result is of another type");
    return HYP_OK;
}

/* The first lengths[b] elements along the time axis in reverse order, the rest as they are. */
hyp_status hyp_kernel_reverse_sequence(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *lengths = &c->in[1], *y = &c->out[0];
    int64_t strides[HYP_MAX_RANK], index[HYP_MAX_RANK] = {0};
    int32_t batch, time;
    HYP_TRY(hyp_kernel_read_reverse_sequence(c, &batch, &time));
    for (int64_t b = 0; b < lengths->count; b++)
        if (hyp_array_i64(lengths, b) < 0 || hyp_array_i64(lengths, b) > x->dims[time])
            return hyp_kernel_fail(c, "length %lld is out of range for axis %d of %lld",
                                   (long long)hyp_array_i64(lengths, b), time, (long long)x->dims[time]);
    hyp_array_strides(x, strides);
    for (int64_t i = 0; i < x->count; i++, hyp_index_next(x->rank, x->dims, index)) {
        int64_t length = hyp_array_i64(lengths, index[batch]), t = index[time];
        hyp_array_copy(y, i, x, t < length ? i + (length - 1 - 2 * t) * strides[time] : i);
    }
    return HYP_OK;
}
