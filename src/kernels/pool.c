/* Pooling over sliding windows. */
#include <math.h>

#include "kernels/window.h"

hyp_kernel_fn hyp_kernel_max_pool, hyp_kernel_max_pool_places, hyp_kernel_max_pool_gradient,
    hyp_kernel_average_pool, hyp_kernel_lp_pool, hyp_kernel_max_unpool;

/* Of x, input 0, which give y. */
static hyp_status read_windows(const hyp_kernel_call *c, const hyp_array *y, hyp_window *w)
{
    const hyp_array *x = &c->in[0];
    const hyp_kernel_attr *kernel = &c->attrs[0];
    if (x->rank < 3 || kernel->count != (uint32_t)x->rank - 2)
        return hyp_kernel_fail(c, "a window of %u axes over a tensor of rank %d", kernel->count, x->rank);
    HYP_TRY(hyp_window_read(c, x, y, kernel->ints, &c->attrs[1], &c->attrs[2], &c->attrs[3], w));
    if (x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] || x->dtype != y->dtype)
        return hyp_kernel_fail(c, "the result is of another type");
    return HYP_OK;
}

hyp_status hyp_kernel_read_pool(const hyp_kernel_call *c, hyp_window *w)
{
    const hyp_array *y = &c->out[0];
    HYP_TRY(read_windows(c, y, w));
    if (c->out_count > 1 && (c->out[1].dtype != HYP_I64 || !hyp_array_same_shape(&c->out[1], y)))
        return hyp_kernel_fail(c, "the indices are of another type");
    return HYP_OK;
}

/* Row-major offset in one channel to the one that counts the first spatial axis fastest. */
static int64_t by_column(const hyp_window *w, int64_t offset)
{
    int64_t at[HYP_SPATIAL], to = 0;
    hyp_window_position(w->n, w->in, offset, at);
    for (int32_t a = w->n; a-- > 0;) to = to * w->in[a] + at[a];
    return to;
}

hyp_status hyp_kernel_max_pool(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0], *where = c->out_count > 1 ? &c->out[1] : NULL;
    bool columns = c->attrs[5].i != 0, is_float = hyp_array_is_float(x);
    hyp_window w;
    HYP_TRY(hyp_kernel_read_pool(c, &w));
    for (int64_t i = 0; i < y->count; i++) {
        int64_t channel = i / w.out_count, o[HYP_SPATIAL], k[HYP_SPATIAL], best = -1, most_whole = 0;
        double most = 0;
        hyp_window_position(w.n, w.out, i % w.out_count, o);
        for (int64_t p = 0; p < w.kernel_count; p++) {
            hyp_window_position(w.n, w.kernel, p, k);
            int64_t source = hyp_window_source(&w, o, k);
            if (source < 0) continue;
            int64_t at = channel * w.in_count + source;
            double v = is_float ? hyp_array_f64(x, at) : 0;
            int64_t whole = is_float ? 0 : hyp_array_i64(x, at);
            bool better = is_float ? v > most || (isnan(v) && !isnan(most))
                                   : x->dtype == HYP_U64 ? (uint64_t)whole > (uint64_t)most_whole : whole > most_whole;
            if (best >= 0 && !better) continue;
            best = source;
            most = v;
            most_whole = whole;
        }
        if (is_float)
            hyp_array_set_f64(y, i, best < 0 ? -INFINITY : most);
        else
            hyp_array_set_i64(y, i, most_whole);
        if (where) hyp_array_set_i64(where, i, channel * w.in_count + (columns && best >= 0 ? by_column(&w, best) : best));
    }
    return HYP_OK;
}

hyp_status hyp_kernel_max_pool_places(const hyp_kernel_call *c) { return hyp_kernel_max_pool(c); }

hyp_status hyp_kernel_read_pool_gradient(const hyp_kernel_call *c, hyp_window *w)
{
    const hyp_array *x = &c->in[0], *y = &c->in[1], *g = &c->in[2], *by_x = &c->out[0];
    HYP_TRY(read_windows(c, y, w));
    if (!hyp_array_same_shape(y, g) || !hyp_array_same_shape(x, by_x))
        return hyp_kernel_fail(c, "tensors that do not fit each other");
    if (!hyp_array_is_float(x) || x->dtype != g->dtype || x->dtype != by_x->dtype)
        return hyp_kernel_fail(c, "tensors of several types, or of no floats");
    return HYP_OK;
}

/* The first element of the window of result o that is what the window gives, as an offset in its channel of x; -1 where none is:
 * of NaN, or of nothing but padding. */
static int64_t first_of_largest(const hyp_window *w, const int64_t *o, const hyp_array *x, int64_t channel, double most)
{
    int64_t k[HYP_SPATIAL];
    for (int64_t p = 0; p < w->kernel_count; p++) {
        hyp_window_position(w->n, w->kernel, p, k);
        int64_t source = hyp_window_source(w, o, k);
        if (source >= 0 && hyp_array_f64(x, channel * w->in_count + source) == most) return source;
    }
    return -1;
}

/* The results along one axis whose windows reach an element. */
static void results_over(const hyp_window *w, int32_t a, int64_t at, int64_t *first, int64_t *last)
{
    int64_t reach = at + w->before[a], back = reach - (w->kernel[a] - 1) * w->dilation[a];
    *first = back <= 0 ? 0 : (back + w->stride[a] - 1) / w->stride[a];
    *last = reach / w->stride[a] < w->out[a] ? reach / w->stride[a] : w->out[a] - 1;
}

/* Element by element, so that each sum is rounded once. */
hyp_status hyp_kernel_max_pool_gradient(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->in[1], *g = &c->in[2];
    hyp_window w;
    HYP_TRY(hyp_kernel_read_pool_gradient(c, &w));
    for (int64_t i = 0; i < x->count; i++) {
        int64_t channel = i / w.in_count, place = i % w.in_count, at[HYP_SPATIAL], size[HYP_SPATIAL], first[HYP_SPATIAL], count = 1;
        double sum = 0;
        hyp_window_position(w.n, w.in, place, at);
        for (int32_t a = 0; a < w.n; a++) {
            int64_t last;
            results_over(&w, a, at[a], &first[a], &last);
            size[a] = last < first[a] ? 0 : last - first[a] + 1;
            count *= size[a];
        }
        for (int64_t r = 0; r < count; r++) {
            int64_t o[HYP_SPATIAL], result = 0;
            hyp_window_position(w.n, size, r, o);
            for (int32_t a = 0; a < w.n; a++) result = result * w.out[a] + (o[a] += first[a]);
            double most = hyp_array_f64(y, channel * w.out_count + result);
            if (hyp_array_f64(x, i) == most && first_of_largest(&w, o, x, channel, most) == place)
                sum += hyp_array_f64(g, channel * w.out_count + result);
        }
        hyp_array_set_f64(&c->out[0], i, sum);
    }
    return HYP_OK;
}

/* The mean of every window, or its norm. */
static hyp_status pool_sums(const hyp_kernel_call *c, bool mean)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool pads = c->attrs[5].i != 0;
    double order = (double)c->attrs[5].i;
    hyp_window w;
    HYP_TRY(hyp_kernel_read_pool(c, &w));
    if (!hyp_array_is_float(x)) return hyp_kernel_fail(c, "a floating-point type is wanted");
    for (int64_t i = 0; i < y->count; i++) {
        int64_t channel = i / w.out_count, o[HYP_SPATIAL], k[HYP_SPATIAL];
        double sum = 0;
        hyp_window_position(w.n, w.out, i % w.out_count, o);
        for (int64_t p = 0; p < w.kernel_count; p++) {
            hyp_window_position(w.n, w.kernel, p, k);
            int64_t source = hyp_window_source(&w, o, k);
            if (source < 0) continue;
            double v = hyp_array_f64(x, channel * w.in_count + source);
            sum += mean ? v : pow(fabs(v), order);
        }
        hyp_array_set_f64(y, i, mean ? sum / (double)hyp_window_count(&w, o, pads) : pow(sum, 1 / order));
    }
    return HYP_OK;
}

hyp_status hyp_kernel_average_pool(const hyp_kernel_call *c) { return pool_sums(c, true); }

hyp_status hyp_kernel_lp_pool(const hyp_kernel_call *c) { return pool_sums(c, false); }

hyp_status hyp_kernel_read_max_unpool(const hyp_kernel_call *c, int64_t *out_each, int64_t *out_inner)
{
    const hyp_array *x = &c->in[0], *where = &c->in[1], *y = &c->out[0];
    const hyp_kernel_attr *sizes = &c->attrs[0];
    int32_t n = x->rank - 2;
    if (n < 1 || sizes->count != (uint32_t)n || y->rank != x->rank || !hyp_array_same_shape(x, where) ||
        where->dtype != HYP_I64 || x->dtype != y->dtype || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1])
        return hyp_kernel_fail(c, "tensors that do not fit each other");
    int64_t each = 1, inner = 1;
    for (int32_t a = 0; a < n; a++) {
        if (sizes->ints[a] < 1 || sizes->ints[a] > y->dims[2 + a])
            return hyp_kernel_fail(c, "the result is smaller than what the indices count in");
        if (y->count == 0) continue; /* whose other sizes may be of any product */
        each *= sizes->ints[a];
        inner *= y->dims[2 + a];
    }
    *out_each = each;
    *out_inner = inner;
    return HYP_OK;
}

/* Indices count the elements of a tensor of y's shape, or of one that the window makes of x's: attribute 0 are the
 * spatial sizes that they count in. */
hyp_status hyp_kernel_max_unpool(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *where = &c->in[1], *y = &c->out[0];
    const hyp_kernel_attr *sizes = &c->attrs[0];
    int32_t n = x->rank - 2;
    int64_t each, inner;
    HYP_TRY(hyp_kernel_read_max_unpool(c, &each, &inner));
    if (hyp_array_is_float(y))
        for (int64_t i = 0; i < y->count; i++) hyp_array_set_f64(y, i, 0);
    else
        for (int64_t i = 0; i < y->count; i++) hyp_array_set_i64(y, i, 0);
    int64_t channels = y->dims[0] * y->dims[1];
    for (int64_t i = 0; i < x->count; i++) {
        int64_t index = hyp_array_i64(where, i), at[HYP_SPATIAL], to = 0;
        if (index < 0 || index / each >= channels)
            return hyp_kernel_fail(c, "index %lld is out of range", (long long)index);
        hyp_window_position(n, sizes->ints, index % each, at);
        for (int32_t a = 0; a < n; a++) to = to * y->dims[2 + a] + at[a];
        hyp_array_copy(y, index / each * inner + to, x, i);
    }
    return HYP_OK;
}
