/* Updates written, or combined, into places of a copy of the data. */
#include "kernels/scatter.h"

#include <math.h>

#include "base/elementwise.h"
#include "kernels/scalar.h"

hyp_kernel_fn hyp_kernel_scatter_elements, hyp_kernel_scatter_nd, hyp_kernel_tensor_scatter;

static hyp_status find_reduction(const hyp_kernel_call *c, const char *name, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t op;
    } rows[] = {
        {"none", HYP_PW_CAST}, {"add", HYP_PW_ADD}, {"mul", HYP_PW_MUL}, {"min", HYP_PW_MIN}, {"max", HYP_PW_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return *out = rows[i].op, HYP_OK;
    return hyp_kernel_fail(c, "no reduction '%s'", name);
}

static double combine_f64(uint32_t how, double a, double b)
{
    switch (how) {
    case HYP_PW_ADD: return a + b;
    case HYP_PW_MUL: return a * b;
    case HYP_PW_MIN: return b < a || isnan(b) ? b : a;
    case HYP_PW_MAX: return b > a || isnan(b) ? b : a;
    default: return b;
    }
}

static int64_t combine_i64(uint32_t how, bool is_u64, int64_t a, int64_t b)
{
    bool less = hyp_less_i64(b, a, is_u64);
    switch (how) {
    case HYP_PW_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case HYP_PW_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case HYP_PW_MIN: return less ? b : a;
    case HYP_PW_MAX: return less || a == b ? a : b;
    default: return b;
    }
}

/* `count` elements of y from i on, and those of the updates from j on. Rounded each time, as they come in any number.
 */
static void combine(uint32_t how, const hyp_array *y, int64_t i, const hyp_array *updates, int64_t j, int64_t count)
{
    size_t size = hyp_dtype_size(y->stored);
    bool is_u64 = y->dtype == HYP_U64;
    if (how == HYP_PW_CAST && count > 0)
        memcpy((char *)y->data + (size_t)i * size, (const char *)updates->data + (size_t)j * size,
               (size_t)count * size);
    for (int64_t k = 0; k < count && how != HYP_PW_CAST; k++) {
        if (hyp_array_is_float(y))
            hyp_array_set_f64(y, i + k, combine_f64(how, hyp_array_f64(y, i + k), hyp_array_f64(updates, j + k)));
        else
            hyp_array_set_i64(y, i + k,
                              combine_i64(how, is_u64, hyp_array_i64(y, i + k), hyp_array_i64(updates, j + k)));
    }
}

/* The result is of the data's shape, and everything of its type. */
static hyp_status check_result(const hyp_kernel_call *c, const hyp_array *updates)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    if (y->dtype != x->dtype || updates->dtype != x->dtype)
        return hyp_kernel_fail(c, "data, updates and result are of different types");
    return HYP_OK;
}

/* The data becomes the result. */
static hyp_status start(const hyp_kernel_call *c, const hyp_array *updates)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    HYP_TRY(check_result(c, updates));
    if (x->count) memcpy(y->data, x->data, (size_t)x->count * hyp_dtype_size(x->stored));
    return HYP_OK;
}

hyp_status hyp_kernel_read_scatter_elements(const hyp_kernel_call *c, int32_t *axis, uint32_t *combine)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, axis));
    HYP_TRY(find_reduction(c, c->attrs[1].sym, combine));
    HYP_TRY(hyp_kernel_want_shape(c, updates, x->rank, indices->dims, "the list of updates"));
    if (indices->rank != x->rank) return hyp_kernel_fail(c, "the indices are of another rank");
    for (int32_t a = 0; a < x->rank; a++)
        if (a != *axis && indices->dims[a] > x->dims[a])
            return hyp_kernel_fail(c, "axis %d of the indices is longer than that of the data", a);
    return check_result(c, updates);
}

hyp_status hyp_kernel_scatter_elements(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    int64_t strides[HYP_MAX_RANK], at[HYP_MAX_RANK] = {0};
    int32_t axis;
    uint32_t how;
    HYP_TRY(hyp_kernel_read_scatter_elements(c, &axis, &how));
    HYP_TRY(start(c, updates));
    hyp_array_strides(x, strides);
    for (int64_t i = 0; i < indices->count; i++, hyp_index_next(x->rank, indices->dims, at)) {
        int64_t index, to = 0;
        HYP_TRY(hyp_kernel_index(c, hyp_array_i64(indices, i), axis, x->dims[axis], &index));
        for (int32_t a = 0; a < x->rank; a++) to += (a == axis ? index : at[a]) * strides[a];
        combine(how, &c->out[0], to, updates, i, 1);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_read_scatter_nd(const hyp_kernel_call *c, hyp_scatter_nd *out)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    int64_t dims[HYP_MAX_RANK];
    int32_t rank = 0;
    if (x->rank < 1 || indices->rank < 1 || indices->dims[indices->rank - 1] > x->rank)
        return hyp_kernel_fail(c, "the indices do not fit the data");
    *out = (hyp_scatter_nd){.width = (int32_t)indices->dims[indices->rank - 1], .tuples = 1, .inner = 1};
    if (indices->rank - 1 + x->rank - out->width > HYP_MAX_RANK) return hyp_kernel_fail(c, "the rank is too high");
    for (int32_t a = 0; a < indices->rank - 1; a++) out->tuples *= dims[rank++] = indices->dims[a];
    for (int32_t a = out->width; a < x->rank; a++) out->inner *= dims[rank++] = x->dims[a];
    HYP_TRY(hyp_kernel_want_shape(c, updates, rank, dims, "the list of updates"));
    hyp_array_strides(x, out->strides);
    HYP_TRY(find_reduction(c, c->attrs[0].sym, &out->combine));
    return check_result(c, updates);
}

hyp_status hyp_kernel_scatter_nd(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    hyp_scatter_nd s;
    HYP_TRY(hyp_kernel_read_scatter_nd(c, &s));
    HYP_TRY(start(c, updates));
    if (updates->count == 0 && indices->count == 0) return HYP_OK; /* however many tuples of nothing there are */
    for (int64_t t = 0; t < s.tuples; t++) {
        int64_t to = 0, index;
        for (int32_t a = 0; a < s.width; a++) {
            HYP_TRY(hyp_kernel_index(c, hyp_array_i64(indices, t * s.width + a), a, x->dims[a], &index));
            to += index * s.strides[a];
        }
        combine(s.combine, &c->out[0], to, updates, t * s.inner, s.inner);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_read_tensor_scatter(const hyp_kernel_call *c, hyp_tensor_scatter *out)
{
    const hyp_array *x = &c->in[0], *updates = &c->in[1], *first = hyp_kernel_input(c, 2);
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    *out = (hyp_tensor_scatter){.axis = axis, .circular = strcmp(c->attrs[1].sym, "circular") == 0};
    if (axis == 0 || updates->rank != x->rank || updates->dims[axis] > x->dims[axis])
        return hyp_kernel_fail(c, "the update does not fit the cache");
    for (int32_t a = 0; a < x->rank; a++)
        if (a != axis && updates->dims[a] != x->dims[a])
            return hyp_kernel_fail(c, "axis %d of the update differs from that of the cache", a);
    if (first) HYP_TRY(hyp_kernel_want_shape(c, first, 1, x->dims, "the list of write indices"));
    HYP_TRY(check_result(c, updates));
    if (updates->count == 0) return HYP_OK;
    hyp_array_split(x, axis, &out->outer, &out->size, &out->inner);
    out->length = updates->dims[axis];
    out->most = out->circular ? out->size - 1 : out->size - out->length;
    return HYP_OK;
}

/* A cache whose places from write_indices[batch] on along the axis are replaced, around the end when circular. */
hyp_status hyp_kernel_tensor_scatter(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *updates = &c->in[1], *y = &c->out[0], *first = hyp_kernel_input(c, 2);
    hyp_tensor_scatter t;
    HYP_TRY(hyp_kernel_read_tensor_scatter(c, &t));
    HYP_TRY(start(c, updates));
    for (int64_t o = 0; o < t.outer; o++) {
        int64_t at = first ? hyp_array_i64(first, o / (t.outer / x->dims[0])) : 0;
        if (at < 0 || at > t.most)
            return hyp_kernel_fail(c, "index %lld is out of range for %lld updates along axis %d of %lld",
                                   (long long)at, (long long)t.length, t.axis, (long long)t.size);
        for (int64_t s = 0; s < t.length; s++)
            combine(HYP_PW_CAST, y, (o * t.size + (at + s) % t.size) * t.inner, updates, (o * t.length + s) * t.inner,
                    t.inner);
    }
    return HYP_OK;
}
