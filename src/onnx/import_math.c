/* Matrix products and running sums. */
#include "onnx/import.h"

static hyp_status emit_gemm(const hyp_onnx_node *n, hyp_value_id *out)
{
    int64_t trans_a, trans_b;
    double alpha, beta;
    HYP_TRY(hyp_onnx_attr_int(n, "transA", 0, &trans_a));
    HYP_TRY(hyp_onnx_attr_int(n, "transB", 0, &trans_b));
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1, &alpha));
    HYP_TRY(hyp_onnx_attr_float(n, "beta", 1, &beta));
    hyp_attr attrs[] = {hyp_attr_of_int(trans_a != 0), hyp_attr_of_int(trans_b != 0), hyp_attr_of_float(alpha),
                        hyp_attr_of_float(beta)};
    return hyp_onnx_emit(n, HYP_OP_gemm, n->inputs, n->input_count, attrs, out, 1);
}

static hyp_status import_gemm(hyp_onnx_node *n) { return emit_gemm(n, n->outputs); }

hyp_status hyp_onnx_emit_fused(const hyp_onnx_node *n, double alpha, hyp_value_id y, hyp_value_id *out)
{
    static const char *const names[] = {"", "Relu", "Sigmoid", "Tanh", "LeakyRelu", NULL};
    const char *name;
    HYP_TRY(hyp_onnx_attr_choice(n, "activation", names, &name));
    hyp_attr slope = hyp_attr_of_float(alpha);
    hyp_op op = name == names[1]   ? HYP_OP_relu
                : name == names[2] ? HYP_OP_sigmoid
                : name == names[3] ? HYP_OP_tanh
                : name == names[4] ? HYP_OP_leaky_relu
                                   : HYP_OP_identity;
    return hyp_onnx_emit(n, op, &y, 1, op == HYP_OP_leaky_relu ? &slope : NULL, out, 1);
}

static hyp_status import_fused_gemm(hyp_onnx_node *n)
{
    double alpha;
    hyp_value_id y;
    HYP_TRY(hyp_onnx_attr_float(n, "activation_alpha", (double)0.01f, &alpha));
    HYP_TRY(emit_gemm(n, &y));
    return hyp_onnx_emit_fused(n, alpha, y, n->outputs);
}

static hyp_status import_fused_matmul(hyp_onnx_node *n)
{
    int64_t trans_a, trans_b, batch_a, batch_b;
    double alpha;
    HYP_TRY(hyp_onnx_attr_int(n, "transA", 0, &trans_a));
    HYP_TRY(hyp_onnx_attr_int(n, "transB", 0, &trans_b));
    HYP_TRY(hyp_onnx_attr_int(n, "transBatchA", 0, &batch_a));
    HYP_TRY(hyp_onnx_attr_int(n, "transBatchB", 0, &batch_b));
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1, &alpha));
    if (batch_a || batch_b)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "transBatchA and transBatchB are not supported");
    hyp_attr attrs[] = {hyp_attr_of_int(trans_a != 0), hyp_attr_of_int(trans_b != 0), hyp_attr_of_float(alpha)};
    return hyp_onnx_emit(n, HYP_OP_matmul, n->inputs, 2, attrs, n->outputs, 1);
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
    {"com.microsoft::FusedGemm", 1, 2, 3, 1, "activation activation_alpha alpha beta transA transB ", import_fused_gemm,
     HYP_OP_gemm},
    {"com.microsoft::FusedMatMul", 1, 2, 2, 1, "alpha transA transB transBatchA transBatchB ", import_fused_matmul,
     HYP_OP_matmul},
};
const hyp_onnx_family hyp_onnx_math = {rows, sizeof rows / sizeof *rows};
