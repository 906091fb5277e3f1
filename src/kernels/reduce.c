/* Largest, smallest, product over axes; where the largest or smallest is along one, and what softmax is made of. */
#include <math.h>

#include "kernels/along.h"
#include "kernels/softmax_stats.h"

hyp_kernel_fn hyp_kernel_reduce_max, hyp_kernel_reduce_min, hyp_kernel_reduce_prod, hyp_kernel_argmax, hyp_kernel_argmin,
    hyp_kernel_softmax_stats;

typedef enum reduction { REDUCE_MAX, REDUCE_MIN, REDUCE_PROD } reduction;

/* An index space in x: extents, strides, where it stands. */
typedef struct space {
    int32_t rank;
    int64_t extents[HYP_MAX_RANK], strides[HYP_MAX_RANK], index[HYP_MAX_RANK];
    int64_t count, offset;
} space;

static void add_axis(space *s, int64_t extent, int64_t stride)
{
    s->extents[s->rank] = extent;
    s->strides[s->rank++] = stride;
    s->count *= extent;
}

static void advance(space *s)
{
    for (int32_t a = s->rank; a-- > 0;) {
        s->offset += s->strides[a];
        if (++s->index[a] < s->extents[a]) return;
        s->offset -= s->strides[a] * s->extents[a];
        s->index[a] = 0;
    }
}

static bool is_less(const hyp_array *x, int64_t a, int64_t b)
{
    return x->dtype == HYP_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

/* What a reduction of nothing gives. */
static int64_t nothing_i64(const hyp_array *x, reduction kind)
{
    if (kind == REDUCE_PROD) return 1;
    bool is_signed = x->dtype == HYP_I8 || x->dtype == HYP_I16 || x->dtype == HYP_I32 || x->dtype == HYP_I64;
    int bits = (int)hyp_dtype_size(x->dtype) * 8;
    if (x->dtype == HYP_BOOL) return kind == REDUCE_MIN;
    if (!is_signed) return kind == REDUCE_MAX ? 0 : -1; /* all bits set */
    return kind == REDUCE_MAX ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits);
}

static double nothing_f64(reduction kind) { return kind == REDUCE_MAX ? -INFINITY : kind == REDUCE_MIN ? INFINITY : 1; }

static void reduce_f64(const hyp_array *x, int64_t first, space *s, reduction kind, const hyp_array *y, int64_t to)
{
    double result = nothing_f64(kind);
    for (int64_t i = 0; i < s->count; i++, advance(s)) {
        double v = hyp_array_f64(x, first + s->offset);
        if (kind == REDUCE_PROD)
            result *= v;
        else if (isnan(v) || (kind == REDUCE_MAX ? v > result : v < result))
            result = isnan(result) ? result : v;
    }
    hyp_array_set_f64(y, to, result);
}

static void reduce_i64(const hyp_array *x, int64_t first, space *s, reduction kind, const hyp_array *y, int64_t to)
{
    int64_t result = nothing_i64(x, kind);
    for (int64_t i = 0; i < s->count; i++, advance(s)) {
        int64_t v = hyp_array_i64(x, first + s->offset);
        if (kind == REDUCE_PROD)
            result = (int64_t)((uint64_t)result * (uint64_t)v);
        else if (i == 0 || (kind == REDUCE_MAX ? is_less(x, result, v) : is_less(x, v, result)))
            result = v;
    }
    hyp_array_set_i64(y, to, result);
}

/* attrs: axes, keep. */
static hyp_status reduce(const hyp_kernel_call *c, reduction kind)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool reduced[HYP_MAX_RANK] = {false};
    int64_t strides[HYP_MAX_RANK], shape[HYP_MAX_RANK];
    space kept = {.count = 1}, inner = {.count = 1};
    int32_t rank = 0;
    for (uint32_t i = 0; i < c->attrs[0].count; i++) {
        int32_t axis;
        HYP_TRY(hyp_kernel_axis(c, c->attrs[0].ints[i], x->rank, &axis));
        reduced[axis] = true;
    }
    hyp_array_strides(x, strides);
    for (int32_t i = 0; i < x->rank; i++) {
        add_axis(reduced[i] ? &inner : &kept, x->dims[i], strides[i]);
        if (!reduced[i] || c->attrs[1].i) shape[rank++] = reduced[i] ? 1 : x->dims[i];
    }
    HYP_TRY(hyp_kernel_want_shape(c, y, rank, shape, "the result"));
    if (y->dtype != x->dtype) return hyp_kernel_fail(c, "the result is of another type");
    for (int64_t i = 0; i < y->count; i++, advance(&kept))
        (hyp_array_is_float(x) ? reduce_f64 : reduce_i64)(x, kept.offset, &inner, kind, y, i);
    return HYP_OK;
}

hyp_status hyp_kernel_reduce_max(const hyp_kernel_call *c) { return reduce(c, REDUCE_MAX); }
hyp_status hyp_kernel_reduce_min(const hyp_kernel_call *c) { return reduce(c, REDUCE_MIN); }
hyp_status hyp_kernel_reduce_prod(const hyp_kernel_call *c) { return reduce(c, REDUCE_PROD); }

/* Whether element a comes before b: larger or smaller, NaN before all. */
static bool is_better(const hyp_array *x, int64_t a, int64_t b, bool largest)
{
    if (!hyp_array_is_float(x)) {
        int64_t v = hyp_array_i64(x, a), w = hyp_array_i64(x, b);
        return largest ? is_less(x, w, v) : is_less(x, v, w);
    }
    double v = hyp_array_f64(x, a), w = hyp_array_f64(x, b);
    if (isnan(w)) return false;
    return isnan(v) || (largest ? v > w : v < w);
}

/* attrs: axis, keep, last. */
hyp_status hyp_kernel_read_locate(const hyp_kernel_call *c, hyp_along *out)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t shape[HYP_MAX_RANK];
    int32_t axis, rank = 0;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis || c->attrs[1].i) shape[rank++] = i == axis ? 1 : x->dims[i];
    HYP_TRY(hyp_kernel_want_shape(c, y, rank, shape, "the result"));
    if (y->dtype != HYP_I64) return hyp_kernel_fail(c, "the result is of another type");
    hyp_array_split(x, axis, &out->outer, &out->size, &out->inner);
    return y->count > 0 && out->size == 0 ? hyp_kernel_fail(c, "the axis is empty") : HYP_OK;
}

static hyp_status locate(const hyp_kernel_call *c, bool largest)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool last = c->attrs[2].i != 0;
    hyp_along s;
    HYP_TRY(hyp_kernel_read_locate(c, &s));
    for (int64_t lane = 0; lane < y->count; lane++) {
        int64_t first = lane / s.inner * s.size * s.inner + lane % s.inner, best = 0;
        for (int64_t i = 1; i < s.size; i++) {
            int64_t at = first + i * s.inner, top = first + best * s.inner;
            if (is_better(x, at, top, largest) || (last && !is_better(x, top, at, largest))) best = i;
        }
        hyp_array_set_i64(y, lane, best);
    }
    return HYP_OK;
}

hyp_status hyp_kernel_argmax(const hyp_kernel_call *c) { return locate(c, true); }
hyp_status hyp_kernel_argmin(const hyp_kernel_call *c) { return locate(c, false); }

hyp_status hyp_kernel_read_softmax_stats(const hyp_kernel_call *c, int64_t *outer, int64_t *size, int64_t *inner)
{
    const hyp_array *x = &c->in[0];
    int64_t shape[HYP_MAX_RANK];
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    for (int32_t i = 0; i < x->rank; i++) shape[i] = i == axis ? 1 : x->dims[i];
    for (uint32_t i = 0; i < 2; i++) {
        HYP_TRY(hyp_kernel_want_shape(c, &c->out[i], x->rank, shape, "a result"));
        if (!hyp_array_is_float(x) || c->out[i].dtype != hyp_dtype_wide(x->dtype))
            return hyp_kernel_fail(c, "a result is of another type");
    }
    hyp_array_split(x, axis, outer, size, inner);
    return HYP_OK;
}

/* Nothing, and what is -infinity, adds 0 to the sum. A NaN is not the largest, but the sum is NaN then. */
hyp_status hyp_kernel_softmax_stats(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    int64_t outer, size, inner;
    HYP_TRY(hyp_kernel_read_softmax_stats(c, &outer, &size, &inner));
    for (int64_t lane = 0; lane < c->out[0].count; lane++) {
        int64_t first = lane / inner * size * inner + lane % inner;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < size; i++) top = fmax(top, hyp_array_f64(x, first + i * inner));
        double less = top == -INFINITY ? 0 : top;
        for (int64_t i = 0; i < size; i++) sum += exp(hyp_array_f64(x, first + i * inner) - less);
        hyp_array_set_f64(&c->out[0], lane, top);
        hyp_array_set_f64(&c->out[1], lane, log(sum));
    }
    return HYP_OK;
}
