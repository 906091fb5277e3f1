/* Operators that compute: matrix products, activations, reductions. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

hyp_status hyp_onnx_import_same(hyp_onnx_node *n)
{
    return hyp_onnx_emit(n, n->op->op, n->inputs, n->input_count, NULL, n->outputs, 1);
}

hyp_status hyp_onnx_import_fold(hyp_onnx_node *n)
{
    hyp_value_id so_far = n->inputs[0];
    if (n->input_count == 1) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
    for (uint32_t i = 1; i < n->input_count; i++)
        HYP_TRY(hyp_onnx_emit(n, n->op->op, (const hyp_value_id[]){so_far, n->inputs[i]}, 2, NULL, &so_far, 1));
    n->outputs[0] = so_far;
    return HYP_OK;
}

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

static hyp_status import_leaky_relu(hyp_onnx_node *n)
{
    double alpha;
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", (double)0.01f, &alpha));
    hyp_attr attr = hyp_attr_of_float(alpha);
    return hyp_onnx_emit_unary(n, HYP_OP_leaky_relu, &attr);
}

static hyp_status import_gelu(hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, "approximate");
    ProtobufCBinaryData s = a ? a->s : (ProtobufCBinaryData){0};
    if (s.len == 4 && memcmp(s.data, "tanh", 4) == 0) return hyp_onnx_emit_unary(n, HYP_OP_gelu_tanh, NULL);
    if (a && !(s.len == 4 && memcmp(s.data, "none", 4) == 0))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"approximate\" should be \"none\" or \"tanh\"");
    return hyp_onnx_emit_unary(n, HYP_OP_gelu, NULL);
}

/* A bound that is one number known now, and that a double holds. */
static bool constant_bound(const hyp_onnx_node *n, uint32_t i, double *out)
{
    const hyp_value *v = &n->im->g->values.data[n->inputs[i]];
    if (v->kind != HYP_VALUE_CONST || v->bytes != hyp_dtype_size(v->type.dtype)) return false;
    *out = hyp_load_f64(v->type.dtype, v->data, 0);
    if (isnan(*out)) return false;
    return hyp_dtype_is_float(v->type.dtype) || fabs(*out) < 9007199254740992.0;
}

static hyp_status import_clip(hyp_onnx_node *n)
{
    hyp_attr bounds[] = {hyp_attr_of_float(-INFINITY), hyp_attr_of_float(INFINITY)};
    if (n->im->opset < 11) { /* attributes, whose defaults are finite */
        HYP_TRY(hyp_onnx_attr_float(n, "min", -(double)FLT_MAX, &bounds[0].f));
        HYP_TRY(hyp_onnx_attr_float(n, "max", (double)FLT_MAX, &bounds[1].f));
        return hyp_onnx_emit_unary(n, HYP_OP_clip, bounds);
    }
    bool constant = true;
    for (uint32_t i = 1; i <= 2; i++) {
        if (!hyp_onnx_has_input(n, i)) continue;
        hyp_type type = hyp_onnx_input_type(n, i);
        for (int32_t d = 0; d < type.rank; d++)
            if (type.dims[d] != 1)
                return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u (a bound) should be one number", i);
        constant = constant_bound(n, i, &bounds[i - 1].f) && constant;
    }
    if (constant) return hyp_onnx_emit_unary(n, HYP_OP_clip, bounds);
    hyp_value_id x = n->inputs[0];
    for (uint32_t i = 1; i <= 2; i++) {
        if (!hyp_onnx_has_input(n, i)) continue;
        hyp_value_id bound = n->inputs[i];
        if (hyp_onnx_input_type(n, i).rank > 0) {
            hyp_attr scalar = hyp_attr_of_dims(NULL, 0);
            HYP_TRY(hyp_onnx_emit(n, HYP_OP_reshape, &bound, 1, &scalar, &bound, 1));
        }
        HYP_TRY(hyp_onnx_emit(n, i == 1 ? HYP_OP_max : HYP_OP_min, (const hyp_value_id[]){x, bound}, 2, NULL, &x, 1));
    }
    n->outputs[0] = x;
    return HYP_OK;
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

static hyp_status import_cast(hyp_onnx_node *n)
{
    int64_t to;
    HYP_TRY(hyp_onnx_attr_int(n, "to", 0, &to));
    if (to <= 0 || to > INT32_MAX || !hyp_dtype_size((hyp_dtype)to))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "element type %lld (%s) is not supported", (long long)to,
                        to > 0 && to <= INT32_MAX ? hyp_onnx_dtype_name((int32_t)to) : "?");
    hyp_attr attr = hyp_attr_of_sym(hyp_dtype_name((hyp_dtype)to));
    return hyp_onnx_emit_unary(n, HYP_OP_cast, &attr);
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
    {"Add", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_add},
    {"Cast", 7, 1, 1, 1, "to saturate round_mode ", import_cast, HYP_OP_cast},
    {"Clip", 7, 1, 3, 1, "min max ", import_clip, HYP_OP_clip},
    {"CumProd", 26, 2, 2, 1, "exclusive reverse ", import_scan, HYP_OP_cumprod},
    {"CumSum", 11, 2, 2, 1, "exclusive reverse ", import_scan, HYP_OP_cumsum},
    {"Div", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_div},
    {"Erf", 9, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_erf},
    {"Exp", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_exp},
    {"Gelu", 20, 1, 1, 1, "approximate ", import_gelu, HYP_OP_gelu},
    {"Gemm", 7, 2, 3, 1, "alpha beta transA transB ", import_gemm, HYP_OP_gemm},
    {"LeakyRelu", 7, 1, 1, 1, "alpha ", import_leaky_relu, HYP_OP_leaky_relu},
    {"MatMul", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_matmul},
    {"Max", 7, 1, HYP_ONNX_ANY, 1, "", hyp_onnx_import_fold, HYP_OP_max},
    {"Min", 7, 1, HYP_ONNX_ANY, 1, "", hyp_onnx_import_fold, HYP_OP_min},
    {"Mul", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_mul},
    {"Pow", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_pow},
    {"ReduceMean", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", import_reduce, HYP_OP_reduce_mean},
    {"ReduceSum", 7, 1, 2, 1, "axes keepdims noop_with_empty_axes ", import_reduce, HYP_OP_reduce_sum},
    {"Relu", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_relu},
    {"Sigmoid", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_sigmoid},
    {"Softmax", 7, 1, 1, 1, "axis ", import_softmax, HYP_OP_softmax},
    {"Sqrt", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_sqrt},
    {"Sub", 7, 2, 2, 1, "", hyp_onnx_import_same, HYP_OP_sub},
    {"Sum", 7, 1, HYP_ONNX_ANY, 1, "", hyp_onnx_import_fold, HYP_OP_add},
    {"Tanh", 7, 1, 1, 1, "", hyp_onnx_import_same, HYP_OP_tanh},
};
const hyp_onnx_family hyp_onnx_math = {rows, sizeof rows / sizeof *rows};
