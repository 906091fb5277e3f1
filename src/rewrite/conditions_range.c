/* What a rule may ask about the sizes of elements, and about bits. */
#include <math.h>

#include "rewrite/internal.h"

static hyp_status is_determined(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = hyp_rw_fact_of(call->user, call->args[0])->kind == HYP_RW_TENSOR &&
           hyp_rw_fact_of(call->user, call->args[0])->determined;
    return HYP_OK;
}

static hyp_status is_finite(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_rw_range r;
    HYP_TRY(hyp_rw_range_of(call->user, call->args[0], &r, diag));
    *out = hyp_rw_is_bounded(r);
    return HYP_OK;
}

static hyp_status never_nan(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_rw_range r;
    HYP_TRY(hyp_rw_range_of(call->user, call->args[0], &r, diag));
    *out = r.no_nan;
    return HYP_OK;
}

/* f16 and narrower types have no room for products and sums in between that are larger than the result. */
static hyp_status is_roomy(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    (void)diag;
    *out = t && t->dtype != HYP_F16 && t->dtype != HYP_F8E4M3;
    return HYP_OK;
}

static hyp_status is_moderate(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_rw_range r;
    *out = t && !hyp_dtype_is_float(t->dtype);
    if (!t || *out) return HYP_OK;
    HYP_TRY(hyp_rw_range_of(call->user, call->args[0], &r, diag));
    *out = hyp_rw_is_bounded(r) && hyp_rw_most(r) <= HYP_RW_MODERATE && r.least >= 1 / HYP_RW_MODERATE;
    return HYP_OK;
}

/* Whether a combination of two constants, whose largest sizes give `most`, is finite; integers wrap. */
static hyp_status combine(const hyp_call *call, double (*most)(double, double), bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_rw_range a, b;
    *out = t && !hyp_dtype_is_float(t->dtype);
    if (!t || *out) return HYP_OK;
    HYP_TRY(hyp_rw_range_of(call->user, call->args[0], &a, diag));
    HYP_TRY(hyp_rw_range_of(call->user, call->args[1], &b, diag));
    *out = hyp_rw_is_bounded(a) && hyp_rw_is_bounded(b) && hyp_rw_fits(t->dtype, most(hyp_rw_most(a), hyp_rw_most(b)));
    return HYP_OK;
}

static double most_product(double a, double b) { return a * b; }

static double most_sum(double a, double b) { return a + b; }

static hyp_status scalable(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return combine(call, most_product, out, diag);
}

static hyp_status addable(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return combine(call, most_sum, out, diag);
}

static hyp_status multipliable(const hyp_call *call, bool *out, hyp_diag *diag)
{
    if (call->arg_count < 2 || call->arg_count > 3)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "multipliable takes w and c, perhaps b; there are %zu",
                        call->arg_count);
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_rw_range r[3] = {{0}};
    *out = t && !hyp_dtype_is_float(t->dtype);
    if (!t || *out || t->rank == 0 || !hyp_dim_is_const(t->dims[t->rank - 1])) return HYP_OK;
    for (size_t i = 0; i < call->arg_count; i++) {
        HYP_TRY(hyp_rw_range_of(call->user, call->args[i], &r[i], diag));
        if (!hyp_rw_is_bounded(r[i])) return HYP_OK;
    }
    double most = (double)t->dims[t->rank - 1] * hyp_rw_most(r[0]) * hyp_rw_most(r[1]);
    *out = hyp_rw_fits(t->dtype, most + (call->arg_count > 2 ? hyp_rw_most(r[2]) : 0));
    return HYP_OK;
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_range_conditions[] = {
    {"determined", 1, is_determined, NULL, "(determined x): IEEE arithmetic fixes its bits (see above)", false},
    {"finite", 1, is_finite, NULL, "(finite c): every element is known to be a finite number", false},
    {"never-nan", 1, never_nan, NULL, "(never-nan x): no element can be NaN", false},
    {"roomy", 1, is_roomy, NULL,
     "(roomy x): the type has room for products that are larger than results: not f16", false},
    {"moderate", 1, is_moderate, NULL, "(moderate c): every element is 0 or of a size within 2^-30 .. 2^30",
     false},
    {"scalable", 2, scalable, NULL, "(scalable w c): any element of w times any of c is finite", false},
    {"addable", 2, addable, NULL, "(addable b c): any element of b plus any of c is finite", false},
    {"multipliable", -1, multipliable, NULL,
     "(multipliable w c [b]): so is any sum of as many such products as w's last size says, and that plus any of b",
     false},
    {0},
};
