/* Matrix products, reductions, softmax, running sums. */
#include "onnx/import.h"

static hyp_status import_gemm(hyp_onnx_node *n)
{
    int64_t trans_a, trans_b;
    double alpha, beta;
    HYP_TRY(hyp_onnx_attr_int(n, "transA", 0, &trans_a));
    HYP_TRY(hyp_onnx_attr_int(n, "transB", 0, &trans_b));
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1, &alpha));
    HYP_TRY(hyp_onnx_attr_float(n, "beta", 1, &beta));
    hyp_attr attrs[] = {hyp_attr_of_int(trans_a != 0), hyp_attr_of_int(trans_b != 0), hyp_attr_of_float(alpha),
                        hyp_attr_of_float(beta)};
    return hyp_onnx_emit(n, HYP_OP_gemm, n->inputs, n->input_count, attrs, n->outputs, 1);
}

static hyp_status import_softmax(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    int64_t axis;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", n->im->opset < 13 ? 1 : -1, &axis));
    HYP_TRY(hyp_onnx_axis(n, axis, x.rank, &axis));
    hyp_attr attr = hyp_attr_of_int(axis);
    if (n->im->opset >= 13 || axis == x.rank - 1) return hyp_onnx_emit_unary(n, HYP_OP_softmax, &attr);
    /* Before opset 13 it is taken over all axes from this one on, as one. */
    hyp_value_id v = n->inputs[0];
    hyp_attr last = hyp_attr_of_int(1), shape = hyp_attr_of_dims(x.dims, (uint32_t)x.rank);
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_flatten, &v, 1, &attr, &v, 1));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_softmax, &v, 1, &last, &v, 1));
    return hyp_onnx_emit(n, HYP_OP_reshape, &v, 1, &shape, n->outputs, 1);
}

static hyp_status import_reduce(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    int64_t keep, noop;
    hyp_onnx_ints axes;
    HYP_TRY(hyp_onnx_attr_int(n, "keepdims", 1, &keep));
    HYP_TRY(hyp_onnx_attr_int(n, "noop_with_empty_axes", 0, &noop));
    HYP_TRY(hyp_onnx_ints_of(n, 1, "axes", &axes));
    if (!axes.count) {
        if (noop) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
        for (int32_t i = 0; i < x.rank; i++) axes.items[axes.count++] = i;
    }
    HYP_TRY(hyp_onnx_axes(n, &axes, x.rank));
    hyp_attr attrs[] = {hyp_attr_of_dims(axes.items, axes.count), hyp_attr_of_int(keep != 0)};
    return hyp_onnx_emit_unary(n, n->op->op, attrs);
}

/* CumSum and CumProd. */
static hyp_status import_scan(hyp_onnx_node *n)
{
    int64_t exclusive, reverse;
    hyp_onnx_ints axis;
    HYP_TRY(hyp_onnx_attr_int(n, "exclusive", 0, &exclusive));
    HYP_TRY(hyp_onnx_attr_int(n, "reverse", 0, &reverse));
    HYP_TRY(hyp_onnx_input_ints(n, 1, "the axis", &axis));
    if (axis.count != 1) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the axis should be one number");
    hyp_attr attrs[] = {hyp_attr_of_int(axis.items[0]), hyp_attr_of_int(exclusive != 0), hyp_attr_of_int(reverse != 0)};
    return hyp_onnx_emit_unary(n, n->op->op, attrs);
}

static const hyp_onnx_operator rows[] = {
    {"CumProd", 26, 2, 2, 1, "exclusive reverse ", import_scan, HYP_OP_cumprod},
    {"CumSum", 11, 2, 2, 1, "exclusive reverse ", import_scan, HYP_OP_cumsum},
    {"Gemm", 7, 2, 3, 1, "alpha beta transA transB ", import_gemm, HYP_OP_gemm},
    {"MatMul", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_matmul},
    {"ReduceMean", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", import_reduce, HYP_OP_reduce_mean},
    {"ReduceSum", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", import_reduce, HYP_OP_reduce_sum},
    {"Softmax", 7, 1, 1, 1, "axis ", import_softmax, HYP_OP_softmax},
};
const hyp_onnx_family hyp_onnx_math = {rows, sizeof rows / sizeof *rows};
