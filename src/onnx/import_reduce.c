/* Reductions, and what is made of them: norms, logarithms of sums, softmax and its relatives. */
#include <float.h>
#include <string.h>

#include "onnx/import.h"

static hyp_status emit_unary(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id *out)
{
    return hyp_onnx_emit(n, op, &x, 1, NULL, out, 1);
}

/* ---- reductions ------------------------------------------------------------------------------------ */

typedef struct reduction {
    hyp_onnx_ints axes;
    int64_t keep;
    bool nothing; /* no axes, and that is what it should mean */
} reduction;

static hyp_status read_reduction(const hyp_onnx_node *n, reduction *r)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    int64_t noop;
    HYP_TRY(hyp_onnx_attr_int(n, "keepdims", 1, &r->keep));
    HYP_TRY(hyp_onnx_attr_int(n, "noop_with_empty_axes", 0, &noop));
    HYP_TRY(hyp_onnx_ints_of(n, 1, "axes", &r->axes));
    r->nothing = !r->axes.count && noop;
    if (!r->axes.count && !noop)
        for (int32_t i = 0; i < x.rank; i++) r->axes.items[r->axes.count++] = i;
    return hyp_onnx_axes(n, &r->axes, x.rank);
}

static hyp_status emit_reduce(const hyp_onnx_node *n, hyp_op op, const reduction *r, bool keep, hyp_value_id x,
                              hyp_value_id *out)
{
    hyp_attr attrs[] = {hyp_attr_of_dims(r->axes.items, r->axes.count), hyp_attr_of_int(keep)};
    return hyp_onnx_emit(n, op, &x, 1, attrs, out, 1);
}

static hyp_status import_reduce(hyp_onnx_node *n)
{
    reduction r;
    HYP_TRY(read_reduction(n, &r));
    if (r.nothing) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
    return emit_reduce(n, n->op->op, &r, r.keep != 0, n->inputs[0], n->outputs);
}

/* The row's operator on every element, then the sum: ReduceL1, ReduceSumSquare (mul by itself). */
static hyp_status emit_sum_of(const hyp_onnx_node *n, const reduction *r, hyp_op each, hyp_value_id *out)
{
    hyp_value_id x = n->inputs[0];
    HYP_TRY(each == HYP_OP_mul ? hyp_onnx_emit_binary(n, each, x, x, &x) : emit_unary(n, each, x, &x));
    return emit_reduce(n, HYP_OP_reduce_sum, r, r->keep != 0, x, out);
}

static hyp_status import_sum_of(hyp_onnx_node *n)
{
    reduction r;
    HYP_TRY(read_reduction(n, &r));
    return emit_sum_of(n, &r, n->op->op, n->outputs);
}

/* Integers by way of f64, as numpy takes their roots and logarithms. */
static hyp_status emit_float(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id *out)
{
    hyp_dtype dtype = hyp_onnx_value_type(n, x).dtype;
    hyp_attr to = hyp_attr_of_sym("f64"), back = hyp_attr_of_sym(hyp_dtype_name(dtype));
    if (hyp_dtype_is_float(dtype)) return emit_unary(n, op, x, out);
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_cast, &x, 1, &to, &x, 1));
    HYP_TRY(emit_unary(n, op, x, &x));
    return hyp_onnx_emit(n, HYP_OP_cast, &x, 1, &back, out, 1);
}

static hyp_status import_l2(hyp_onnx_node *n)
{
    reduction r;
    hyp_value_id sum;
    HYP_TRY(read_reduction(n, &r));
    HYP_TRY(emit_sum_of(n, &r, HYP_OP_mul, &sum));
    return emit_float(n, HYP_OP_sqrt, sum, n->outputs);
}

static hyp_status import_log_sum(hyp_onnx_node *n)
{
    reduction r;
    hyp_value_id sum;
    HYP_TRY(read_reduction(n, &r));
    HYP_TRY(emit_reduce(n, HYP_OP_reduce_sum, &r, r.keep != 0, n->inputs[0], &sum));
    return emit_float(n, HYP_OP_log, sum, n->outputs);
}

/* The largest element along the axes, kept, made finite: what to subtract before exp. */
static hyp_status emit_top(const hyp_onnx_node *n, const reduction *r, hyp_value_id x, hyp_value_id *out)
{
    double most = hyp_onnx_value_type(n, x).dtype == HYP_F16 ? 65504.0 : (double)FLT_MAX * 0.99;
    hyp_attr bounds[] = {hyp_attr_of_float(-most), hyp_attr_of_float(most)};
    HYP_TRY(emit_reduce(n, HYP_OP_reduce_max, r, true, x, out));
    return hyp_onnx_emit(n, HYP_OP_clip, out, 1, bounds, out, 1);
}

/* log(sum(exp(x - top))) + top. */
static hyp_status import_log_sum_exp(hyp_onnx_node *n)
{
    reduction r;
    hyp_value_id x = n->inputs[0], top, sum;
    hyp_dtype dtype = hyp_onnx_input_type(n, 0).dtype;
    hyp_attr to = hyp_attr_of_sym("f64"), back = hyp_attr_of_sym(hyp_dtype_name(dtype));
    bool is_float = hyp_dtype_is_float(dtype);
    HYP_TRY(read_reduction(n, &r));
    if (!is_float) HYP_TRY(hyp_onnx_emit(n, HYP_OP_cast, &x, 1, &to, &x, 1));
    HYP_TRY(emit_top(n, &r, x, &top));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, x, top, &sum));
    HYP_TRY(emit_unary(n, HYP_OP_exp, sum, &sum));
    HYP_TRY(emit_reduce(n, HYP_OP_reduce_sum, &r, true, sum, &sum));
    HYP_TRY(emit_unary(n, HYP_OP_log, sum, &sum));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, sum, top, &sum));
    if (!is_float) HYP_TRY(hyp_onnx_emit(n, HYP_OP_cast, &sum, 1, &back, &sum, 1));
    if (r.keep) return emit_unary(n, HYP_OP_identity, sum, n->outputs);
    return hyp_onnx_emit_dims(n, HYP_OP_squeeze, sum, r.axes.items, (int32_t)r.axes.count, n->outputs);
}

static hyp_status import_arg(hyp_onnx_node *n)
{
    int64_t axis, keep, last;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "keepdims", 1, &keep));
    HYP_TRY(hyp_onnx_attr_int(n, "select_last_index", 0, &last));
    HYP_TRY(hyp_onnx_axis(n, axis, hyp_onnx_input_type(n, 0).rank, &axis));
    hyp_attr attrs[] = {hyp_attr_of_int(axis), hyp_attr_of_int(keep != 0), hyp_attr_of_int(last != 0)};
    return hyp_onnx_emit_unary(n, n->op->op, attrs);
}

/* ---- softmax and its relatives --------------------------------------------------------------------- */

hyp_status hyp_onnx_emit_log_softmax(const hyp_onnx_node *n, hyp_value_id x, int64_t axis, hyp_value_id *out)
{
    const reduction r = {.axes = {.count = 1, .items = {axis}}};
    hyp_value_id shifted, sum;
    HYP_TRY(emit_top(n, &r, x, &shifted));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, x, shifted, &shifted));
    HYP_TRY(emit_unary(n, HYP_OP_exp, shifted, &sum));
    HYP_TRY(emit_reduce(n, HYP_OP_reduce_sum, &r, true, sum, &sum));
    HYP_TRY(emit_unary(n, HYP_OP_log, sum, &sum));
    return hyp_onnx_emit_binary(n, HYP_OP_sub, shifted, sum, out);
}

/* 1 at the first of the largest elements, 0 elsewhere. */
static hyp_status emit_hardmax(const hyp_onnx_node *n, hyp_value_id x, int64_t axis, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x), pair = {.dtype = type.dtype, .rank = 1, .dims = {2}};
    unsigned char bytes[16] = {0};
    hyp_value_id index, values;
    hyp_attr arg[] = {hyp_attr_of_int(axis), hyp_attr_of_int(0), hyp_attr_of_int(0)};
    hyp_attr hot[] = {hyp_attr_of_int(axis), hyp_attr_of_dims(&type.dims[axis], 1)};
    hyp_store_f64(type.dtype, bytes, 1, 1);
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_argmax, &x, 1, arg, &index, 1));
    HYP_TRY(
        hyp_graph_add_const(n->im->g, NULL, &pair, bytes, 2 * hyp_dtype_size(type.dtype), true, &values, n->im->diag));
    return hyp_onnx_emit(n, HYP_OP_one_hot, (const hyp_value_id[]){index, values}, 2, hot, out, 1);
}

static hyp_status emit_along(const hyp_onnx_node *n, hyp_value_id x, int64_t axis, hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_int(axis);
    if (n->op->op == HYP_OP_softmax) return hyp_onnx_emit(n, HYP_OP_softmax, &x, 1, &attr, out, 1);
    return n->op->op == HYP_OP_log ? hyp_onnx_emit_log_softmax(n, x, axis, out) : emit_hardmax(n, x, axis, out);
}

/* Before opset 13 over all axes from this one on, as one. */
static hyp_status import_softmax(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_value_id v = n->inputs[0];
    int64_t axis;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", n->im->opset < 13 ? 1 : -1, &axis));
    HYP_TRY(hyp_onnx_axis(n, axis, x.rank, &axis));
    if (n->im->opset >= 13 || axis == x.rank - 1) return emit_along(n, v, axis, n->outputs);
    hyp_attr attr = hyp_attr_of_int(axis);
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_flatten, &v, 1, &attr, &v, 1));
    HYP_TRY(emit_along(n, v, 1, &v));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, v, x.dims, x.rank, n->outputs);
}

#define REDUCE "axes keepdims noop_with_empty_axes "

static const hyp_onnx_operator rows[] = {
    {"ArgMax", 7, 1, 1, 1, "axis keepdims select_last_index ", import_arg, HYP_OP_argmax},
    {"ArgMin", 7, 1, 1, 1, "axis keepdims select_last_index ", import_arg, HYP_OP_argmin},
    {"Hardmax", 7, 1, 1, 1, "axis ", import_softmax, HYP_OP_argmax},
    {"LogSoftmax", 7, 1, 1, 1, "axis ", import_softmax, HYP_OP_log},
    {"ReduceL1", 7, 1, 2, 1, REDUCE, import_sum_of, HYP_OP_abs},
    {"ReduceL2", 7, 1, 2, 1, REDUCE, import_l2, HYP_OP_COUNT},
    {"ReduceLogSum", 7, 1, 2, 1, REDUCE, import_log_sum, HYP_OP_COUNT},
    {"ReduceLogSumExp", 7, 1, 2, 1, REDUCE, import_log_sum_exp, HYP_OP_COUNT},
    {"ReduceMax", 7, 1, 2, 1, REDUCE, import_reduce, HYP_OP_reduce_max},
    {"ReduceMean", 7, 1, 2, 1, REDUCE, import_reduce, HYP_OP_reduce_mean},
    {"ReduceMin", 7, 1, 2, 1, REDUCE, import_reduce, HYP_OP_reduce_min},
    {"ReduceProd", 7, 1, 2, 1, REDUCE, import_reduce, HYP_OP_reduce_prod},
    {"ReduceSum", 7, 1, 2, 1, REDUCE, import_reduce, HYP_OP_reduce_sum},
    {"ReduceSumSquare", 7, 1, 2, 1, REDUCE, import_sum_of, HYP_OP_mul},
    {"Softmax", 7, 1, 1, 1, "axis ", import_softmax, HYP_OP_softmax},
};
const hyp_onnx_family hyp_onnx_reduce = {rows, sizeof rows / sizeof *rows};
