/* Elements, random contents and comparison of tensors. */
#include <math.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "hypatia/tensor_io.h"
#include "onnx/random.h"

void hyp_tensor_randomize(hyp_tensor *t, uint64_t seed)
{
    if (!t) return;
    int64_t count = hyp_tensor_elements(t);
    /* As many bits as every value in [-1, 1) that they make is exact in the type. */
    int bits = t->dtype == HYP_F64 ? 53 : t->dtype == HYP_F32 ? 24 : t->dtype == HYP_F16 ? 11 : 8;
    const double unit = ldexp(1, 1 - bits);
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = hyp_random_bits(seed, (uint64_t)i);
        double v = (double)(r >> (64 - bits)) * unit - 1.0;
        if (t->dtype == HYP_F32) /* most of what is drawn, gigabytes at times */
            ((float *)t->data)[i] = (float)v;
        else if (hyp_dtype_is_float(t->dtype))
            hyp_store_f64(t->dtype, t->data, (size_t)i, v);
        else
            hyp_store_i64(t->dtype, t->data, (size_t)i, (int64_t)(r >> (t->dtype == HYP_BOOL ? 63 : 61)));
    }
}

double hyp_tensor_at(const hyp_tensor *t, int64_t i)
{
    return t && t->data ? hyp_load_f64(t->dtype, t->data, (size_t)i) : 0;
}

static void compare_element(hyp_comparison *c, int64_t i, double a, double ref, double diff, double rtol, double atol)
{
    if (!isfinite(a) || !isfinite(ref)) {
        if (a == ref || (isnan(a) && isnan(ref))) return;
        c->outside++;
        c->atol_needed = c->rtol_needed = INFINITY;
        return;
    }
    double size = fabs(ref);
    if (diff > c->max_abs || c->max_abs_at < 0) {
        c->max_abs = diff;
        c->max_abs_at = i;
    }
    if (size > 0 && (diff / size > c->max_rel || c->max_rel_at < 0)) {
        c->max_rel = diff / size;
        c->max_rel_at = i;
    }
    c->atol_needed = fmax(c->atol_needed, diff - rtol * size);
    if (diff > atol) c->rtol_needed = fmax(c->rtol_needed, size > 0 ? (diff - atol) / size : INFINITY);
    if (!(diff <= atol + rtol * size)) c->outside++;
}

/* Whether two tensors can be compared; *count is the number of their elements. */
static hyp_status check_pair(const hyp_tensor *actual, const hyp_tensor *reference, int64_t *out, hyp_diag *diag)
{
    if (actual->dtype != reference->dtype)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "cannot compare elements of type %s with %s",
                        hyp_dtype_name(actual->dtype), hyp_dtype_name(reference->dtype));
    if (actual->rank != reference->rank)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "cannot compare a tensor of rank %d with one of rank %d",
                        actual->rank, reference->rank);
    for (int32_t i = 0; i < actual->rank; i++)
        if (actual->dims[i] != reference->dims[i])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "cannot compare: dim %d is %lld in one, %lld in the other",
                            i, (long long)actual->dims[i], (long long)reference->dims[i]);
    int64_t count = hyp_tensor_elements(reference);
    size_t elem = hyp_dtype_size(reference->dtype), bytes;
    if (count < 0 || !elem || !hyp_mul_size((size_t)count, elem, &bytes) || bytes > actual->bytes ||
        bytes > reference->bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "cannot compare: the memory of a tensor is smaller than its dims say");
    *out = count;
    return HYP_OK;
}

/* |a - b| of elements i; 64-bit integers may differ by less than a double shows. */
static double distance(const hyp_tensor *a, const hyp_tensor *b, int64_t i)
{
    double d = fabs(hyp_load_f64(a->dtype, a->data, (size_t)i) - hyp_load_f64(b->dtype, b->data, (size_t)i));
    bool equal = hyp_dtype_is_float(a->dtype) ||
                 hyp_load_i64(a->dtype, a->data, (size_t)i) == hyp_load_i64(a->dtype, b->data, (size_t)i);
    return d == 0 && !equal ? 1 : d;
}

hyp_status hyp_tensor_compare(const hyp_tensor *actual, const hyp_tensor *reference, double rtol, double atol,
                              hyp_comparison *out, hyp_diag *diag)
{
    HYP_NEED(actual);
    HYP_NEED(reference);
    HYP_NEED(out);
    HYP_TRY(hyp_sized_want(out, hyp_comparison, diag));
    int64_t count;
    HYP_TRY(check_pair(actual, reference, &count, diag));
    hyp_comparison c = {.elements = count, .max_abs_at = -1, .max_rel_at = -1};
    for (int64_t i = 0; i < count; i++) {
        double a = hyp_load_f64(actual->dtype, actual->data, (size_t)i);
        double ref = hyp_load_f64(reference->dtype, reference->data, (size_t)i);
        compare_element(&c, i, a, ref, distance(actual, reference, i), rtol, atol);
    }
    hyp_sized_give(out, &c);
    return HYP_OK;
}

hyp_status hyp_tensor_judge(const hyp_tensor *actual, const hyp_tensor *expected, const hyp_tensor *tolerance,
                            hyp_judgement *out, hyp_diag *diag)
{
    HYP_NEED(actual);
    HYP_NEED(expected);
    HYP_NEED(out);
    HYP_TRY(hyp_sized_want(out, hyp_judgement, diag));
    int64_t count;
    HYP_TRY(check_pair(actual, expected, &count, diag));
    if (tolerance->dtype != HYP_F64 || hyp_tensor_elements(tolerance) != count ||
        tolerance->bytes < (size_t)count * sizeof(double))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "cannot compare: the tolerances are no f64 of as many elements");
    hyp_judgement j = {.elements = count, .max_abs_at = -1, .max_rel_at = -1, .worst_at = -1};
    const double *allowed = tolerance->data;
    double worst = -1, sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++) {
        double a = hyp_tensor_at(actual, i), b = hyp_tensor_at(expected, i), d = distance(actual, expected, i);
        if (isinf(allowed[i])) {
            j.undecided++;
            continue;
        }
        bool numbers = isfinite(a) && isfinite(b);
        if (!numbers) d = a == b || (isnan(a) && isnan(b)) ? 0 : INFINITY;
        double part = d == 0 ? 0 : allowed[i] > 0 ? d / allowed[i] : INFINITY;
        if (part > 1) j.outside++;
        if (part > worst || (part == worst && d > j.worst_abs)) {
            worst = part;
            j.worst_at = i;
            j.worst_abs = d;
            j.worst_allowed = allowed[i];
        }
        if (!numbers) continue;
        finite++;
        sum += d;
        if (d > j.max_abs || j.max_abs_at < 0) j.max_abs = d, j.max_abs_at = i;
        if (b != 0 && (d / fabs(b) > j.max_rel || j.max_rel_at < 0)) j.max_rel = d / fabs(b), j.max_rel_at = i;
    }
    j.mean_abs = finite ? sum / (double)finite : 0;
    j.factor = worst > 1 ? worst : 1;
    hyp_sized_give(out, &j);
    return HYP_OK;
}
