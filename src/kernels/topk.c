/* The k largest or smallest elements along an axis, best first. */
#include "kernels/along.h"

#include <math.h>

hyp_kernel_fn hyp_kernel_topk;
hyp_kernel_scratch_fn hyp_kernel_scratch_topk;

typedef struct lane {
    const hyp_array *x;
    int64_t first, step;
    bool largest;
} lane;

static bool less(const hyp_array *x, int64_t a, int64_t b)
{
    if (hyp_array_is_float(x)) {
        double u = hyp_array_f64(x, a), v = hyp_array_f64(x, b);
        return u < v || (isnan(v) && !isnan(u)); /* NaN is the largest */
    }
    int64_t u = hyp_array_i64(x, a), v = hyp_array_i64(x, b);
    return x->dtype == HYP_U64 ? (uint64_t)u < (uint64_t)v : u < v;
}

/* Is place a of the lane wanted before place b? Of equal elements the first is. */
static bool before(const lane *l, int64_t a, int64_t b)
{
    int64_t u = l->first + a * l->step, v = l->first + b * l->step;
    if (less(l->x, l->largest ? v : u, l->largest ? u : v)) return true;
    return !less(l->x, l->largest ? u : v, l->largest ? v : u) && a < b;
}

/* Sinks the entry at `at` of a heap whose root is wanted last. */
static void sink(const lane *l, int64_t *heap, int64_t count, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(l, heap[child], heap[child + 1])) child++;
        if (before(l, heap[child], heap[at])) return;
        int64_t t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

/* The places of the k wanted elements, best first. */
static void select_best(const lane *l, int64_t size, int64_t *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++) heap[i] = i;
    for (int64_t i = k / 2; i-- > 0;) sink(l, heap, k, i);
    bool is_float = hyp_array_is_float(l->x);
    double worst = is_float ? hyp_array_f64(l->x, l->first + heap[0] * l->step) : 0;
    for (int64_t i = k; i < size; i++) {
        double v = is_float ? hyp_array_f64(l->x, l->first + i * l->step) : 0;
        bool hopeless = is_float && (l->largest ? v <= worst : v >= worst); /* which is what most are */
        if (hopeless || !before(l, i, heap[0])) continue;
        heap[0] = i;
        sink(l, heap, k, 0);
        if (is_float) worst = hyp_array_f64(l->x, l->first + heap[0] * l->step);
    }
    for (int64_t last = k - 1; last > 0; last--) {
        int64_t t = heap[0];
        heap[0] = heap[last];
        heap[last] = t;
        sink(l, heap, last, 0);
    }
}

size_t hyp_kernel_scratch_topk(const hyp_kernel_call *c)
{
    if (c->attrs[1].count != 1 || c->attrs[1].ints[0] < 0) return 0;
    return (size_t)c->attrs[1].ints[0] * sizeof(int64_t);
}

hyp_status hyp_kernel_read_topk(const hyp_kernel_call *c, hyp_along *out, int64_t *out_k)
{
    const hyp_array *x = &c->in[0], *values = &c->out[0], *places = &c->out[1];
    int64_t dims[HYP_MAX_RANK];
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    hyp_array_split(x, axis, &out->outer, &out->size, &out->inner);
    if (c->attrs[1].count != 1 || c->attrs[1].ints[0] < 0 || c->attrs[1].ints[0] > out->size)
        return hyp_kernel_fail(c, "k is out of range for axis %d of %lld", axis, (long long)out->size);
    memcpy(dims, x->dims, sizeof dims);
    *out_k = dims[axis] = c->attrs[1].ints[0];
    HYP_TRY(hyp_kernel_want_shape(c, values, x->rank, dims, "the result"));
    HYP_TRY(hyp_kernel_want_shape(c, places, x->rank, dims, "the list of indices"));
    if (values->dtype != x->dtype || places->dtype != HYP_I64) return hyp_kernel_fail(c, "a result is of another type");
    return HYP_OK;
}

hyp_status hyp_kernel_topk(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *values = &c->out[0], *places = &c->out[1];
    hyp_along s;
    int64_t k;
    HYP_TRY(hyp_kernel_read_topk(c, &s, &k));
    if (values->count == 0) return HYP_OK;
    lane l = {.x = x, .step = s.inner, .largest = c->attrs[2].i != 0};
    for (int64_t i = 0; i < s.outer * s.inner; i++) {
        int64_t *heap = c->scratch, to = i / s.inner * k * s.inner + i % s.inner;
        l.first = i / s.inner * s.size * s.inner + i % s.inner;
        select_best(&l, s.size, heap, k);
        for (int64_t j = 0; j < k; j++) {
            hyp_array_copy(values, to + j * s.inner, x, l.first + heap[j] * s.inner);
            hyp_array_set_i64(places, to + j * s.inner, heap[j]);
        }
    }
    return HYP_OK;
}
