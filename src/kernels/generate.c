/* Elements that depend on their position, or on nothing but their bits. */
#include "kernels/along.h"
#include "kernels/generate.h"

hyp_kernel_fn hyp_kernel_range, hyp_kernel_trilu, hyp_kernel_one_hot, hyp_kernel_bit_cast;

/* start, start + delta, ... */
hyp_status hyp_kernel_range(const hyp_kernel_call *c)
{
    const hyp_array *start = &c->in[0], *delta = &c->in[1], *y = &c->out[0];
    if (start->count != 1 || delta->count != 1 || y->rank != 1 || start->dtype != y->dtype || delta->dtype != y->dtype)
        return hyp_kernel_fail(c, "two scalars and a vector of one type are wanted");
    for (int64_t i = 0; i < y->count; i++) {
        if (hyp_array_is_float(y))
            hyp_array_set_f64(y, i, hyp_array_f64(start, 0) + (double)i * hyp_array_f64(delta, 0));
        else
            hyp_array_set_i64(
                y, i, (int64_t)((uint64_t)hyp_array_i64(start, 0) + (uint64_t)i * (uint64_t)hyp_array_i64(delta, 0)));
    }
    return HYP_OK;
}

hyp_status hyp_kernel_check_trilu(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0], *diagonal = hyp_kernel_input(c, 1);
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    if (x->rank < 2 || y->dtype != x->dtype || (diagonal && (diagonal->count != 1 || hyp_array_is_float(diagonal))))
        return hyp_kernel_fail(c, "matrices and an integer are wanted");
    return HYP_OK;
}

/* Matrices with 0 below (upper) or above the k-th diagonal. */
hyp_status hyp_kernel_trilu(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0], *diagonal = hyp_kernel_input(c, 1);
    bool upper = c->attrs[0].i != 0;
    HYP_TRY(hyp_kernel_check_trilu(c));
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], k = diagonal ? hyp_array_i64(diagonal, 0) : 0;
    if (k > columns) k = columns; /* so that nothing overflows */
    if (k < -rows) k = -rows;
    size_t size = hyp_dtype_size(x->stored);
    for (int64_t row = 0; row < x->count / (columns ? columns : 1); row++) {
        int64_t edge = row % rows + k + !upper; /* the first of the upper columns, or behind the last of the lower */
        size_t split = (size_t)(edge < 0 ? 0 : edge > columns ? columns : edge) * size, all = (size_t)columns * size;
        const char *from = (const char *)x->data + (size_t)row * all;
        char *to = (char *)y->data + (size_t)row * all;
        memcpy(upper ? to + split : to, upper ? from + split : from, upper ? all - split : split);
        memset(upper ? to : to + split, 0, upper ? split : all - split);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_read_one_hot(const hyp_kernel_call *c, hyp_along *out)
{
    const hyp_array *indices = &c->in[0], *values = &c->in[1], *y = &c->out[0];
    int32_t axis;
    *out = (hyp_along){0};
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, y->rank, &axis));
    bool fits = y->rank == indices->rank + 1 && values->count == 2 && values->dtype == y->dtype;
    for (int32_t a = 0; fits && a < indices->rank; a++) fits = indices->dims[a] == y->dims[a + (a >= axis)];
    if (!fits) return hyp_kernel_fail(c, "the shapes do not fit each other");
    if (y->count > 0) hyp_array_split(y, axis, &out->outer, &out->size, &out->inner);
    return HYP_OK;
}

/* values[1] at the index along the axis, values[0] elsewhere; an index out of range has none. */
hyp_status hyp_kernel_one_hot(const hyp_kernel_call *c)
{
    const hyp_array *indices = &c->in[0], *values = &c->in[1], *y = &c->out[0];
    hyp_along s;
    HYP_TRY(hyp_kernel_read_one_hot(c, &s));
    if (y->count == 0) return HYP_OK;
    int64_t depth = s.size, inner = s.inner;
    for (int64_t i = 0; i < y->count; i++) hyp_array_copy(y, i, values, 0);
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t at = hyp_array_i64(indices, i);
        if (at < -depth || at >= depth) continue;
        hyp_array_copy(y, (i / inner * depth + (at < 0 ? at + depth : at)) * inner + i % inner, values, 1);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_check_bit_cast(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    if (hyp_dtype_size(x->dtype) != hyp_dtype_size(y->dtype) || y->dtype == HYP_BOOL)
        return hyp_kernel_fail(c, "the elements are of different sizes, or become bools");
    return HYP_OK;
}

/* The same bits as another type of the same size. */
hyp_status hyp_kernel_bit_cast(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    HYP_TRY(hyp_kernel_check_bit_cast(c));
    for (int64_t i = 0; i < x->count; i++) {
        uint64_t bits = 0;
        if (hyp_array_is_float(x))
            hyp_store_f64(x->dtype, &bits, 0, hyp_array_f64(x, i));
        else
            hyp_store_i64(x->dtype, &bits, 0, hyp_array_i64(x, i));
        if (hyp_array_is_float(y))
            hyp_array_set_f64(y, i, hyp_load_f64(y->dtype, &bits, 0));
        else
            hyp_array_set_i64(y, i, hyp_load_i64(y->dtype, &bits, 0));
    }
    return HYP_OK;
}
