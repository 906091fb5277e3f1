/* Elements, random contents and comparison of tensors. */
#include <math.h>

#include "base/dtype.h"
#include "hypatia/tensor_io.h"

/* SplitMix64 (Steele, Lea, Flood 2014) as a function of the counter, so that element i does not depend on
 * the elements before it. */
static uint64_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void hyp_tensor_randomize(hyp_tensor *t, uint64_t seed)
{
    int64_t count = hyp_tensor_elements(t);
    /* As many bits as every value in [-1, 1) that they make is exact in the type. */
    int bits = t->dtype == HYP_F64 ? 53 : t->dtype == HYP_F32 ? 24 : t->dtype == HYP_F16 ? 11 : 8;
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = random_bits(seed, (uint64_t)i);
        if (hyp_dtype_is_float(t->dtype))
            hyp_store_f64(t->dtype, t->data, (size_t)i, ldexp((double)(r >> (64 - bits)), 1 - bits) - 1.0);
        else
            hyp_store_i64(t->dtype, t->data, (size_t)i, (int64_t)(r >> (t->dtype == HYP_BOOL ? 63 : 61)));
    }
}

double hyp_tensor_at(const hyp_tensor *t, int64_t i) { return hyp_load_f64(t->dtype, t->data, (size_t)i); }

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

hyp_status hyp_tensor_compare(const hyp_tensor *actual, const hyp_tensor *reference, double rtol, double atol,
                              hyp_comparison *out, hyp_diag *diag)
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

    hyp_comparison c = {.elements = count, .max_abs_at = -1, .max_rel_at = -1};
    for (int64_t i = 0; i < count; i++) {
        double a = hyp_load_f64(actual->dtype, actual->data, (size_t)i);
        double ref = hyp_load_f64(reference->dtype, reference->data, (size_t)i);
        double diff = fabs(a - ref);
        /* 64-bit integers may differ by less than a double shows. */
        if (diff == 0 && !hyp_dtype_is_float(actual->dtype) &&
            hyp_load_i64(actual->dtype, actual->data, (size_t)i) !=
                hyp_load_i64(actual->dtype, reference->data, (size_t)i))
            diff = 1;
        compare_element(&c, i, a, ref, diff, rtol, atol);
    }
    *out = c;
    return HYP_OK;
}
