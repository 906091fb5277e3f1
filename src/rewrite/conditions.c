/* What a rule may ask of a match. Every condition is one row of the table at the end. A question that cannot be
 * answered for sure, about a symbolic size for instance, is answered with no. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

static const hyp_rw_fact *fact(const hyp_call *call, size_t i) { return hyp_rw_fact_of(call->user, call->args[i]); }

bool hyp_rw_tensor_arg(const hyp_call *call, size_t i, const hyp_infer_value **out)
{
    const hyp_rw_fact *f = fact(call, i);
    if (f->kind == HYP_RW_TENSOR) *out = f->values;
    return f->kind == HYP_RW_TENSOR;
}

hyp_status hyp_rw_literal_arg(const hyp_call *call, size_t i, hyp_attr_kind kind, hyp_attr *out, hyp_diag *diag)
{
    const hyp_rw_fact *f = fact(call, i);
    if (f->kind != HYP_RW_LITERAL)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "argument %zu is a tensor, the value of an attribute is wanted",
                        i + 1);
    return hyp_rw_attr(call->user, f->literal, kind, out, diag);
}

/* Most conditions are about one tensor: its type, or NULL when the argument is none. */
static const hyp_type *type_of(const hyp_call *call, size_t i)
{
    const hyp_infer_value *v;
    return hyp_rw_tensor_arg(call, i, &v) ? &v->type : NULL;
}

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

static hyp_status is_same(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = call->args[0] == call->args[1];
    return HYP_OK;
}

/* A constant that the model has, or a view or transposition of one: not one that a rule computes from others. */
static hyp_status is_stored(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    hyp_class_id c = call->args[0];
    *out = false;
    if (fact(call, 0)->kind != HYP_RW_TENSOR || !fact(call, 0)->constant) return HYP_OK;
    for (int depth = 0; depth < 4; depth++) { /* more views in a row are none after the clean-up */
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t ignored;
        size_t count;
        hyp_class_id through = HYP_NONE;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
        for (size_t i = 0; i < count; i++) {
            HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &ignored, &n, diag));
            if (shape == HYP_RW_IS_LEAF) *out = true;
            if (shape == HYP_RW_IS_OP && through == HYP_NONE && (n.op == HYP_OP_transpose || n.op == HYP_OP_reshape))
                through = hyp_egraph_find(rw->eg, n.inputs[0]);
        }
        if (*out || through == HYP_NONE) return HYP_OK;
        c = through;
    }
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
    const hyp_type *t = type_of(call, 0);
    (void)diag;
    *out = t && hyp_dtype_is_float(t->dtype);
    return HYP_OK;
}

static hyp_status has_dtype(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = type_of(call, 0);
    hyp_attr name;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_SYM, &name, diag));
    *out = t && t->dtype == hyp_dtype_parse(name.sym);
    return HYP_OK;
}

static hyp_status same_dtype(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = type_of(call, 0), *b = type_of(call, 1);
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
    const hyp_type *t = type_of(call, 0);
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

/* ---- shapes ---------------------------------------------------------------------------------------- */

static hyp_status compare_rank(const hyp_call *call, bool at_least, bool *out, hyp_diag *diag)
{
    const hyp_type *t = type_of(call, 0);
    hyp_attr rank;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &rank, diag));
    *out = t && (at_least ? t->rank >= rank.i : t->rank == rank.i);
    return HYP_OK;
}
static hyp_status rank_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return compare_rank(call, false, out, diag);
}
static hyp_status rank_at_least(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return compare_rank(call, true, out, diag);
}

static hyp_status is_static(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = type_of(call, 0);
    (void)diag;
    *out = t && hyp_type_is_static(t);
    return HYP_OK;
}

static hyp_status is_single(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = type_of(call, 0);
    (void)diag;
    *out = t != NULL;
    for (int32_t i = 0; t && i < t->rank; i++) *out = *out && t->dims[i] == 1;
    return HYP_OK;
}

static hyp_status has_shape(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = type_of(call, 0);
    hyp_attr shape;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &shape, diag));
    *out = t && (uint32_t)t->rank == shape.count;
    for (uint32_t i = 0; *out && i < shape.count; i++) *out = t->dims[i] == shape.dims[i];
    return HYP_OK;
}

static hyp_status broadcasts_into(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *c = type_of(call, 0), *x = type_of(call, 1);
    (void)diag;
    *out = c && x && c->rank <= x->rank;
    for (int32_t i = 0; *out && i < c->rank; i++)
        *out = c->dims[i] == 1 || c->dims[i] == x->dims[x->rank - c->rank + i];
    return HYP_OK;
}

/* A length check alone would mistake a column for a row where the matrix is square: the axes before the last one
 * must be of size 1. */
static hyp_status row_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *b = type_of(call, 0), *y = type_of(call, 1);
    (void)diag;
    *out = b && y && y->rank >= 1 && b->rank <= y->rank;
    for (int32_t i = 0; *out && i < b->rank; i++)
        *out = b->dims[i] == 1 || (i == b->rank - 1 && b->dims[i] == y->dims[y->rank - 1]);
    return HYP_OK;
}

static hyp_status channel_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *c = type_of(call, 0), *y = type_of(call, 1);
    (void)diag;
    *out = c && y && y->rank >= 2 && c->rank <= y->rank;
    for (int32_t i = 0; *out && i < c->rank; i++)
        *out = c->dims[i] == 1 || (i + y->rank - c->rank == 1 && c->dims[i] == y->dims[1]);
    return HYP_OK;
}

static hyp_status one_row(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *m = type_of(call, 0);
    (void)diag;
    *out = !m || m->rank < 2 || m->dims[m->rank - 2] == 1;
    return HYP_OK;
}

static hyp_status one_matrix(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *w = type_of(call, 0), *x = type_of(call, 1);
    (void)diag;
    *out = w && x && w->rank > 2 && w->rank <= x->rank;
    for (int32_t i = 0; *out && i < w->rank - 2; i++) *out = w->dims[i] == 1;
    return HYP_OK;
}

static hyp_status keeps_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr shape;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    *out = x && x->rank >= 1 && shape.count >= 1 && shape.dims[shape.count - 1] == x->dims[x->rank - 1];
    return HYP_OK;
}

static hyp_status keeps_first(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr shape, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i >= 0 && axis.i < x->rank && axis.i < shape.count;
    for (int64_t i = 0; *out && i <= axis.i; i++) *out = shape.dims[i] == x->dims[i];
    return HYP_OK;
}

static hyp_status merges(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr shape, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i >= 0 && axis.i < shape.count && shape.count + 1 == (uint32_t)x->rank;
    for (uint32_t i = 0; *out && i < shape.count; i++) {
        hyp_dim size = x->dims[i + (i > axis.i)];
        if (i == axis.i) HYP_TRY(hyp_dim_mul(((hyp_rw *)call->user)->dims, size, x->dims[i + 1], &size, diag));
        *out = shape.dims[i] == size;
    }
    return HYP_OK;
}

/* Equal sizes on the first `rank` axes of both. */
static bool agree(const hyp_type *a, const hyp_type *b, int32_t rank)
{
    bool same = a && b && a->rank == b->rank;
    for (int32_t i = 0; same && i < rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static hyp_status same_shape(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = type_of(call, 0), *b = type_of(call, 1);
    (void)diag;
    *out = a && agree(a, b, a->rank);
    return HYP_OK;
}

static hyp_status same_leading(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = type_of(call, 0), *b = type_of(call, 1);
    (void)diag;
    *out = a && agree(a, b, a->rank - 1);
    return HYP_OK;
}

static hyp_status tail_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *g = type_of(call, 0), *x = type_of(call, 2);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &axis, diag));
    *out = g && x && axis.i >= 0 && axis.i < x->rank && g->rank <= x->rank && g->rank >= x->rank - axis.i;
    for (int32_t i = 0; *out && i < g->rank; i++) {
        int32_t k = i + x->rank - g->rank; /* the axis of x */
        *out = k < axis.i ? g->dims[i] == 1 : g->dims[i] == x->dims[k];
    }
    return HYP_OK;
}

/* ---- axes ------------------------------------------------------------------------------------------- */

static hyp_status trailing_axes(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr axes;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    *out = x && axes.count > 0 && axes.count <= (uint32_t)x->rank;
    for (uint32_t i = 0; *out && i < axes.count; i++) *out = axes.dims[i] == x->rank - (hyp_dim)axes.count + i;
    return HYP_OK;
}

static hyp_status starts_at(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr axes, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &axis, diag));
    *out = axes.count > 0 && axes.dims[0] == axis.i;
    return HYP_OK;
}

static hyp_status is_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i == x->rank - 1;
    return HYP_OK;
}

static hyp_status without_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr axes;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    *out = x != NULL;
    for (uint32_t i = 0; *out && i < axes.count; i++) *out = axes.dims[i] >= 0 && axes.dims[i] < x->rank - 1;
    return HYP_OK;
}

/* Whether a slice (starts sizes steps) of y takes everything of the last axis, or of all the others. */
static hyp_status takes_all(const hyp_call *call, bool last_only, bool *out, hyp_diag *diag)
{
    const hyp_type *y = type_of(call, 3);
    hyp_attr starts, sizes, steps;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &starts, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &sizes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_DIMS, &steps, diag));
    *out = y && y->rank > 0 && starts.count == (uint32_t)y->rank && sizes.count == starts.count &&
           steps.count == starts.count;
    for (int32_t i = 0; *out && i < y->rank; i++)
        if ((i == y->rank - 1) == last_only)
            *out = starts.dims[i] == 0 && sizes.dims[i] == y->dims[i] && steps.dims[i] == 1;
    return HYP_OK;
}
static hyp_status whole_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return takes_all(call, true, out, diag);
}
static hyp_status only_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return takes_all(call, false, out, diag);
}

/* ---- lists and permutations ------------------------------------------------------------------------ */

static hyp_status each_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = true;
    for (uint32_t i = 0; i < list.count; i++) *out = *out && list.dims[i] == value.i;
    return HYP_OK;
}

static hyp_status count_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = list.count == value.i;
    return HYP_OK;
}

static hyp_status shorter(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_SYMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = list.count < value.i;
    return HYP_OK;
}

static hyp_status at_most(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr a, b;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &a, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_FLOAT, &b, diag));
    *out = a.f <= b.f;
    return HYP_OK;
}

static hyp_status identity_perm(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr perm;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    *out = true;
    for (uint32_t i = 0; i < perm.count; i++) *out = *out && perm.dims[i] == i;
    return HYP_OK;
}

static hyp_status swaps_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr perm;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    uint32_t n = perm.count;
    *out = n >= 2 && perm.dims[n - 1] == n - 2 && perm.dims[n - 2] == n - 1;
    for (uint32_t i = 0; *out && i < n - 2; i++) *out = perm.dims[i] == i;
    return HYP_OK;
}

static hyp_status moves_only_ones(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = type_of(call, 1);
    hyp_attr perm;
    hyp_dim last = -1;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    *out = x && (uint32_t)x->rank == perm.count;
    for (uint32_t i = 0; *out && i < perm.count; i++) {
        if (x->dims[perm.dims[i]] == 1) continue;
        *out = perm.dims[i] > last;
        last = perm.dims[i];
    }
    return HYP_OK;
}

/* ---- the table ------------------------------------------------------------------------------------- */

static const hyp_rw_callback table[] = {
    {"const", 1, is_const, NULL, "(const x): x depends on constants alone"},
    {"stored", 1, is_stored, NULL,
     "(stored w): a constant of the model, perhaps transposed: not one that a rule computes"},
    {"constant-linear", 1, is_constant_linear, NULL,
     "(constant-linear x): a linear computes x, whose weight and bias are constants"},
    {"given", 1, is_given, NULL, "(given x): an input of the model"},
    {"before", 2, is_before, NULL, "(before a b): one of (before a b), (before b a) and (same a b) holds"},
    {"present", 1, is_present, NULL, "(present x): an optional input is there"},
    {"same", 2, is_same, NULL, "(same a b): the same class; of literals: the same text"},
    {"all-equal", -1, all_equal, NULL,
     "(all-equal c v [tol]): every element of the constant c is v, as its type rounds it or up to the tolerance"},
    {"near", 2, near, NULL,
     "(near c v): every element is v up to rounding: as the type rounds it, or within 64 units of its roundoff, at "
     "most 4e-6"},
    {"determined", 1, hyp_rw_is_determined, NULL, "(determined x): IEEE arithmetic fixes its bits (see above)"},
    {"finite", 1, hyp_rw_is_finite, NULL, "(finite c): every element is known to be a finite number"},
    {"never-nan", 1, hyp_rw_never_nan, NULL, "(never-nan x): no element can be NaN"},
    {"roomy", 1, hyp_rw_is_roomy, NULL,
     "(roomy x): the type has room for products that are larger than results: not f16"},
    {"moderate", 1, hyp_rw_is_moderate, NULL, "(moderate c): every element is 0 or of a size within 2^-30 .. 2^30"},
    {"scalable", 2, hyp_rw_scalable, NULL, "(scalable w c): any element of w times any of c is finite"},
    {"addable", 2, hyp_rw_addable, NULL, "(addable b c): any element of b plus any of c is finite"},
    {"multipliable", -1, hyp_rw_multipliable, NULL,
     "(multipliable w c [b]): so is any sum of as many such products as w's last size says, and that plus any of b"},
    {"power-of-two", 1, power_of_two, NULL, "(power-of-two c): every element of the constant is +-2^k, |k| <= 14"},
    {"invertible", 1, invertible, NULL, "(invertible c): every element of the constant is within 2^-14 .. 2^14"},
    {"positive", 1, positive, NULL, "(positive c): every element of the constant is finite and above 0"},
    {"float", 1, is_float, NULL, "(float x): of a floating-point type"},
    {"has-dtype", 2, has_dtype, NULL, "(has-dtype x t): of the element type t"},
    {"same-dtype", 2, same_dtype, NULL, "(same-dtype a b): of one element type"},
    {"widens", 2, widens, NULL, "(widens x t): the type t holds every value of x's type"},
    {"rank-is", 2, rank_is, NULL, "(rank-is x n)"},
    {"rank-at-least", 2, rank_at_least, NULL, "(rank-at-least x n)"},
    {"static", 1, is_static, NULL, "(static x): no symbolic size"},
    {"single", 1, is_single, NULL, "(single x): one element, whatever the rank"},
    {"has-shape", 2, has_shape, NULL, "(has-shape x s)"},
    {"broadcasts-into", 2, broadcasts_into, NULL, "(broadcasts-into c x): broadcasting c with x gives x's shape"},
    {"row-vector", 2, row_vector, NULL,
     "(row-vector b y): b broadcasts into y and is constant along all axes but the last"},
    {"channel-vector", 2, channel_vector, NULL,
     "(channel-vector c y): c broadcasts into y and is constant along all axes but axis 1"},
    {"tail-vector", 3, tail_vector, NULL,
     "(tail-vector g a x): g has the sizes of x from axis a on, and no others but 1"},
    {"same-shape", 2, same_shape, NULL, "(same-shape a b): equal sizes, none broadcast"},
    {"same-leading", 2, same_leading, NULL, "(same-leading a b): equal sizes on all axes but the last"},
    {"one-matrix", 2, one_matrix, NULL,
     "(one-matrix w x): w has more than two axes, at most as many as x, and all but the last two are 1"},
    {"one-row", 1, one_row, NULL, "(one-row m): the last axis but one of m is 1, or not there; nor may m be"},
    {"keeps-last", 2, keeps_last, NULL, "(keeps-last s x): the shape s ends as x's shape does"},
    {"keeps-first", 3, keeps_first, NULL, "(keeps-first s x a): the shape s begins as x's shape does, up to axis a"},
    {"merges", 3, merges, NULL, "(merges s x a): the shape s is that of x with the axes a and a + 1 as one"},
    {"trailing-axes", 2, trailing_axes, NULL, "(trailing-axes a x): the list names the last axes of x, in order"},
    {"starts-at", 2, starts_at, NULL, "(starts-at a n): the first entry of the list is n"},
    {"is-last", 2, is_last, NULL, "(is-last a x): the axis is the last one of x"},
    {"without-last", 2, without_last, NULL, "(without-last a x): the last axis of x is not in the list"},
    {"whole-last", 4, whole_last, NULL,
     "(whole-last s z t y): a slice of y from s of the sizes z in steps t takes all of the last axis"},
    {"only-last", 4, only_last, NULL, "(only-last s z t y): such a slice takes all of every other axis"},
    {"at-most", 2, at_most, NULL, "(at-most a b): the number a is not above the number b"},
    {"each", 2, each_is, NULL, "(each s n): every entry of the list is the integer n"},
    {"count-is", 2, count_is, NULL, "(count-is s n): the list has n entries"},
    {"shorter", 2, shorter, NULL, "(shorter s n): the list of symbols has fewer than n entries"},
    {"identity-perm", 1, identity_perm, NULL, "(identity-perm p): (0 1 2 ...)"},
    {"swaps-last", 1, swaps_last, NULL, "(swaps-last p): the permutation swaps the last two axes and no others"},
    {"moves-only-ones", 2, moves_only_ones, NULL, "(moves-only-ones p x): only axes of size 1 change places"},
};

const hyp_rw_callback *hyp_rw_conditions(size_t *out_count)
{
    *out_count = sizeof table / sizeof *table;
    return table;
}
