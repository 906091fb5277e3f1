/* Matrix products and running sums. */
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
};
const hyp_onnx_family hyp_onnx_math = {rows, sizeof rows / sizeof *rows};
