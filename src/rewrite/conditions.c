/* What a rule may ask of a match: constants and element types here, the rest in the files beside. Every condition is one
 * row of the table at the end of its file. A question that cannot be answered for sure, about a symbolic size for
 * instance, is answered with no. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

static const hyp_rw_fact *fact(const hyp_call *call, size_t i) { return hyp_rw_fact_of(call->user, call->args[i]); }

/* ---- identity and constants ------------------------------------------------------------------------ */

static hyp_status is_const(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = fact(call, 0)->kind == HYP_RW_TENSOR && fact(call, 0)->constant;
    return HYP_OK;
}

static hyp_status is_present(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = fact(call, 0)->kind == HYP_RW_TENSOR;
    return HYP_OK;
}

/* Weights, then as many biases. A layer that is there with its bias and without, as a sum is known, is no two layers. */
static hyp_status are_mixed(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    const size_t count = call->arg_count / 2;
    size_t there = 0;
    bool twice = false;
    for (size_t i = 0; i < count; i++) {
        const bool biased = fact(call, count + i)->kind == HYP_RW_TENSOR;
        there += biased;
        for (size_t k = 0; k < i && !twice; k++)
            twice = call->args[i] == call->args[k] && biased != (fact(call, count + k)->kind == HYP_RW_TENSOR);
    }
    *out = there > 0 && there < count && !twice;
    return HYP_OK;
}

static hyp_status is_same(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = call->args[0] == call->args[1];
    return HYP_OK;
}

/* A linear whose weight and bias are constants: it takes in what is done to its result. */
static hyp_status is_constant_linear(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, call->args[0], &count);
    *out = false;
    for (size_t i = 0; i < count && !*out; i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
        if (shape != HYP_RW_IS_OP || n.op != HYP_OP_linear) continue;
        const hyp_rw_fact *bias = hyp_rw_fact_of(rw, n.inputs[1]);
        *out = hyp_rw_fact_of(rw, n.inputs[0])->constant && (hyp_rw_is_none(rw, bias) || bias->constant);
    }
    return HYP_OK;
}

/* Nothing computes it: whatever rules know of what lies before a value, they have nothing to say here. */
static hyp_status is_given(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, call->args[0], &count);
    *out = false;
    for (size_t i = 0; i < count && fact(call, 0)->kind == HYP_RW_TENSOR && !fact(call, 0)->constant; i++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
        if (shape == HYP_RW_IS_LEAF) *out = true;
    }
    return HYP_OK;
}

/* An order of classes, so that a rule about a pair meets it once. */
static hyp_status is_before(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = call->args[0] < call->args[1];
    return HYP_OK;
}

/* Whether every element of a constant passes; no when the elements are not at hand or there are none. */
static bool every_element(const hyp_call *call, bool (*test)(double value, const double *user), const double *user)
{
    const hyp_rw_fact *f = fact(call, 0);
    if (f->kind != HYP_RW_TENSOR || !f->constant || !f->data) return false;
    size_t count = f->bytes / hyp_dtype_size(f->values[0].type.dtype);
    for (size_t i = 0; i < count; i++)
        if (!test(hyp_load_f64(f->values[0].type.dtype, f->data, i), user)) return false;
    return count > 0;
}

/* want: the number, the relative tolerance, the number as the constant's type has it. */
static bool is_near(double value, const double *want)
{
    return value == want[0] || value == want[2] || fabs(value - want[0]) <= want[1] * fabs(want[0]);
}

static hyp_status all_equal(const hyp_call *call, bool *out, hyp_diag *diag)
{
    double want[3] = {0, 0, 0};
    if (call->arg_count < 2 || call->arg_count > 3)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "all-equal takes a constant, a number and perhaps a tolerance");
    for (size_t i = 1; i < call->arg_count; i++) {
        hyp_attr number;
        HYP_TRY(hyp_rw_literal_arg(call, i, HYP_ATTR_FLOAT, &number, diag));
        want[i - 1] = number.f;
    }
    const hyp_rw_fact *f = fact(call, 0);
    want[2] = want[0];
    if (f->kind == HYP_RW_TENSOR && hyp_dtype_is_float(f->values[0].type.dtype)) {
        uint64_t rounded = 0;
        hyp_store_f64(f->values[0].type.dtype, &rounded, 0, want[0]);
        want[2] = hyp_load_f64(f->values[0].type.dtype, &rounded, 0);
    }
    *out = every_element(call, is_near, want);
    return HYP_OK;
}

/* Within 64 unit roundoffs of the number, which the bound of class R allows, but at most 4e-6: a constant of 16 bits is
 * the number as its type rounds it. */
static hyp_status near(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr number;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_FLOAT, &number, diag));
    const hyp_rw_fact *f = fact(call, 0);
    double want[3] = {number.f, 4e-6, number.f};
    if (f->kind == HYP_RW_TENSOR && hyp_dtype_is_float(f->values[0].type.dtype)) {
        hyp_dtype t = f->values[0].type.dtype;
        uint64_t rounded = 0;
        hyp_store_f64(t, &rounded, 0, number.f);
        want[2] = hyp_load_f64(t, &rounded, 0);
        if (t == HYP_F64) want[1] = 64 * 0x1p-53;
        if (t == HYP_F32) want[1] = 64 * 0x1p-24;
    }
    *out = every_element(call, is_near, want);
    return HYP_OK;
}

/* Between 2^-14 and 2^14: such numbers and their inverses are normal in every floating-point type. */
static bool in_range(double value, const double *user)
{
    (void)user;
    return fabs(value) >= 0x1p-14 && fabs(value) <= 0x1p14;
}

static bool is_power(double value, const double *user)
{
    int exponent;
    return in_range(value, user) && fabs(frexp(value, &exponent)) == 0.5;
}

static hyp_status power_of_two(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = every_element(call, is_power, NULL);
    return HYP_OK;
}

static hyp_status invertible(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = every_element(call, in_range, NULL);
    return HYP_OK;
}

static bool is_above_zero(double value, const double *user)
{
    (void)user;
    return value > 0 && isfinite(value);
}

static hyp_status positive(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = every_element(call, is_above_zero, NULL);
    return HYP_OK;
}

/* ---- element types --------------------------------------------------------------------------------- */

static hyp_status is_float(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    (void)diag;
    *out = t && hyp_dtype_is_float(t->dtype);
    return HYP_OK;
}

static hyp_status has_dtype(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_attr name;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_SYM, &name, diag));
    *out = t && t->dtype == hyp_dtype_parse(name.sym);
    return HYP_OK;
}

static hyp_status same_dtype(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = hyp_rw_type_arg(call, 0), *b = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = a && b && a->dtype == b->dtype;
    return HYP_OK;
}

/* Bits of magnitude of an integer type; of the significand of a floating-point type. */
static int precision(hyp_dtype t)
{
    switch (t) {
    case HYP_BOOL: return 1;
    case HYP_F8E4M3: return 4;
    case HYP_I8: return 7;
    case HYP_U8:
    case HYP_BF16: return 8;
    case HYP_F16: return 11;
    case HYP_I16: return 15;
    case HYP_U16: return 16;
    case HYP_F32: return 24;
    case HYP_I32: return 31;
    case HYP_U32: return 32;
    case HYP_F64: return 53;
    case HYP_I64: return 63;
    case HYP_U64: return 64;
    default: return 0;
    }
}

/* Bits of the exponent. */
static int range(hyp_dtype t) { return t == HYP_F8E4M3 ? 4 : t == HYP_F16 ? 5 : t == HYP_F64 ? 11 : 8; }

static bool is_signed(hyp_dtype t) { return t == HYP_I8 || t == HYP_I16 || t == HYP_I32 || t == HYP_I64; }

static hyp_status widens(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_attr name;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_SYM, &name, diag));
    hyp_dtype to = hyp_dtype_parse(name.sym);
    *out = false;
    if (!t || to == HYP_DTYPE_NONE || precision(to) < precision(t->dtype)) return HYP_OK;
    bool from_float = hyp_dtype_is_float(t->dtype), to_float = hyp_dtype_is_float(to);
    if (from_float)
        *out = to_float && range(to) >= range(t->dtype);
    else
        *out = to_float ? to != HYP_F16 || precision(t->dtype) <= 11 : is_signed(to) || !is_signed(t->dtype);
    return HYP_OK;
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_conditions[] = {
    {"const", 1, is_const, NULL, "(const x): x depends on constants alone", false},
    {"constant-linear", 1, is_constant_linear, NULL,
     "(constant-linear x): a linear computes x, whose weight and bias are constants", false},
    {"given", 1, is_given, NULL, "(given x): an input of the model", false},
    {"before", 2, is_before, NULL, "(before a b): one of (before a b), (before b a) and (same a b) holds", true},
    {"present", 1, is_present, NULL, "(present x): an optional input is there", true},
    {"mixed", -1, are_mixed, NULL, "(mixed w... b...): of the biases b of the weights w some are there, and no weight has one and none",
     false},
    {"same", 2, is_same, NULL, "(same a b): the same class; of literals: the same text", false},
    {"all-equal", -1, all_equal, NULL,
     "(all-equal c v [tol]): every element of the constant c is v, as its type rounds it or up to the tolerance",
     false},
    {"near", 2, near, NULL,
     "(near c v): every element is v up to rounding: as the type rounds it, or within 64 units of its roundoff, at "
     "most 4e-6",
     false},
    {"power-of-two", 1, power_of_two, NULL, "(power-of-two c): every element of the constant is +-2^k, |k| <= 14",
     false},
    {"invertible", 1, invertible, NULL, "(invertible c): every element of the constant is within 2^-14 .. 2^14", false},
    {"positive", 1, positive, NULL, "(positive c): every element of the constant is finite and above 0", false},
    {"float", 1, is_float, NULL, "(float x): of a floating-point type", true},
    {"has-dtype", 2, has_dtype, NULL, "(has-dtype x t): of the element type t", false},
    {"same-dtype", 2, same_dtype, NULL, "(same-dtype a b): of one element type", true},
    {"widens", 2, widens, NULL, "(widens x t): the type t holds every value of x's type", false},
    {0},
};
