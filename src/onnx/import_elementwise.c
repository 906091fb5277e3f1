/* Elementwise operators: arithmetic, functions, comparisons, logic, bits, conversions. What ONNX composes of others is
 * composed here. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/elementwise.h"
#include "onnx/import.h"
#include "onnx/tensor.h"

hyp_status hyp_onnx_import_same(hyp_onnx_node *n)
{
    return hyp_onnx_emit(n, n->op->op, n->inputs, n->input_count, NULL, n->outputs, 1);
}

/* Any number of inputs, by a binary operator. */
static hyp_status import_fold(hyp_onnx_node *n)
{
    hyp_value_id so_far = n->inputs[0];
    if (n->input_count == 1) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
    for (uint32_t i = 1; i < n->input_count; i++)
        HYP_TRY(hyp_onnx_emit(n, n->op->op, (const hyp_value_id[]){so_far, n->inputs[i]}, 2, NULL, &so_far, 1));
    n->outputs[0] = so_far;
    return HYP_OK;
}

/* ---- compositions ------------------------------------------------------------------------------- */

static hyp_status unary(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id *out)
{
    return hyp_onnx_emit(n, op, &x, 1, NULL, out, 1);
}

static hyp_status binary(const hyp_onnx_node *n, hyp_op op, hyp_value_id a, hyp_value_id b, hyp_value_id *out)
{
    return hyp_onnx_emit(n, op, (const hyp_value_id[]){a, b}, 2, NULL, out, 1);
}

static hyp_status where(const hyp_onnx_node *n, hyp_value_id condition, hyp_value_id a, hyp_value_id b,
                        hyp_value_id *out)
{
    return hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){condition, a, b}, 3, NULL, out, 1);
}

/* A constant in the type of input 0. */
static hyp_status number(const hyp_onnx_node *n, double value, hyp_value_id *out)
{
    hyp_type type = {.dtype = hyp_onnx_input_type(n, 0).dtype};
    uint64_t data;
    hyp_store_f64(type.dtype, &data, 0, value);
    return hyp_graph_add_const(n->im->g, NULL, &type, &data, hyp_dtype_size(type.dtype), true, out, n->im->diag);
}

/* op(value, x) */
static hyp_status with_number(const hyp_onnx_node *n, hyp_op op, double value, hyp_value_id x, hyp_value_id *out)
{
    hyp_value_id c;
    HYP_TRY(number(n, value, &c));
    return binary(n, op, c, x, out);
}

static hyp_status import_swapped(hyp_onnx_node *n)
{
    return binary(n, n->op->op, n->inputs[1], n->inputs[0], n->outputs);
}

static hyp_status import_mean(hyp_onnx_node *n)
{
    hyp_value_id sum = n->inputs[0], count;
    for (uint32_t i = 1; i < n->input_count; i++) HYP_TRY(binary(n, HYP_OP_add, sum, n->inputs[i], &sum));
    HYP_TRY(number(n, (double)n->input_count, &count));
    return binary(n, HYP_OP_div, sum, count, n->outputs);
}

static hyp_status import_reciprocal(hyp_onnx_node *n)
{
    return with_number(n, HYP_OP_div, 1, n->inputs[0], n->outputs);
}

static hyp_status import_mod(hyp_onnx_node *n)
{
    int64_t fmod;
    HYP_TRY(hyp_onnx_attr_int(n, "fmod", 0, &fmod));
    hyp_attr attr = hyp_attr_of_int(fmod != 0);
    return hyp_onnx_emit(n, HYP_OP_mod, n->inputs, 2, &attr, n->outputs, 1);
}

static bool says(const HypOnnx__AttributeProto *a, const char *text)
{
    return a && a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

static hyp_status import_bit_shift(hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, "direction");
    if (!says(a, "LEFT") && !says(a, "RIGHT"))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"direction\" should be \"LEFT\" or \"RIGHT\"");
    hyp_op op = says(a, "LEFT") ? HYP_OP_shift_left : HYP_OP_shift_right;
    return binary(n, op, n->inputs[0], n->inputs[1], n->outputs);
}

static hyp_status import_is_nan(hyp_onnx_node *n)
{
    hyp_value_id same;
    HYP_TRY(binary(n, HYP_OP_equal, n->inputs[0], n->inputs[0], &same));
    return unary(n, HYP_OP_not, same, n->outputs);
}

static hyp_status import_is_inf(hyp_onnx_node *n)
{
    hyp_value_id x = n->inputs[0];
    int64_t negative, positive;
    HYP_TRY(hyp_onnx_attr_int(n, "detect_negative", 1, &negative));
    HYP_TRY(hyp_onnx_attr_int(n, "detect_positive", 1, &positive));
    if (!negative && !positive) return binary(n, HYP_OP_less, x, x, n->outputs); /* false */
    if (negative && positive) HYP_TRY(unary(n, HYP_OP_abs, x, &x));
    return with_number(n, HYP_OP_equal, positive ? INFINITY : -INFINITY, x, n->outputs);
}

/* ---- activations -------------------------------------------------------------------------------- */

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
    if (says(a, "tanh")) return hyp_onnx_emit_unary(n, HYP_OP_gelu_tanh, NULL);
    if (a && !says(a, "none"))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"approximate\" should be \"none\" or \"tanh\"");
    return hyp_onnx_emit_unary(n, HYP_OP_gelu, NULL);
}

/* Of the sum of x and a bias, which FastGelu may lack. */
static hyp_status import_biased(hyp_onnx_node *n)
{
    hyp_value_id x = n->inputs[0];
    if (hyp_onnx_has_input(n, 1)) HYP_TRY(binary(n, HYP_OP_add, x, n->inputs[1], &x));
    return unary(n, n->op->op, x, n->outputs);
}

static hyp_status import_elu(hyp_onnx_node *n)
{
    hyp_attr attrs[] = {hyp_attr_of_float(1), hyp_attr_of_float(1)};
    bool scaled = strcmp(n->op->name, "Selu") == 0;
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", scaled ? (double)1.67326319217681884765625f : 1, &attrs[0].f));
    HYP_TRY(hyp_onnx_attr_float(n, "gamma", scaled ? (double)1.05070102214813232421875f : 1, &attrs[1].f));
    return hyp_onnx_emit_unary(n, HYP_OP_elu, attrs);
}

/* alpha elu(x / alpha) */
static hyp_status import_celu(hyp_onnx_node *n)
{
    double alpha;
    hyp_value_id x = n->inputs[0], by;
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1, &alpha));
    if (!(alpha > 0)) return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "attribute \"alpha\" should be above 0");
    if (alpha == 1) return hyp_onnx_emit_unary(n, HYP_OP_elu, NULL);
    HYP_TRY(number(n, alpha, &by));
    HYP_TRY(binary(n, HYP_OP_div, x, by, &x));
    HYP_TRY(unary(n, HYP_OP_elu, x, &x));
    return binary(n, HYP_OP_mul, x, by, n->outputs);
}

static hyp_status import_thresholded_relu(hyp_onnx_node *n)
{
    double alpha;
    hyp_value_id above, zero;
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1, &alpha));
    HYP_TRY(with_number(n, HYP_OP_less, alpha, n->inputs[0], &above));
    HYP_TRY(number(n, 0, &zero));
    return where(n, above, n->inputs[0], zero, n->outputs);
}

/* min(max(alpha x + beta, 0), 1) */
static hyp_status hard_sigmoid(const hyp_onnx_node *n, double alpha, double beta, hyp_value_id *out)
{
    const hyp_attr bounds[] = {hyp_attr_of_float(0), hyp_attr_of_float(1)};
    HYP_TRY(with_number(n, HYP_OP_mul, alpha, n->inputs[0], out));
    HYP_TRY(with_number(n, HYP_OP_add, beta, *out, out));
    return hyp_onnx_emit(n, HYP_OP_clip, out, 1, bounds, out, 1);
}

static hyp_status import_hard_sigmoid(hyp_onnx_node *n)
{
    double alpha, beta;
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", (double)0.2f, &alpha));
    HYP_TRY(hyp_onnx_attr_float(n, "beta", 0.5, &beta));
    return hard_sigmoid(n, alpha, beta, n->outputs);
}

static hyp_status import_hard_swish(hyp_onnx_node *n)
{
    hyp_value_id gate;
    HYP_TRY(hard_sigmoid(n, 1.0 / 6, 0.5, &gate));
    return binary(n, HYP_OP_mul, n->inputs[0], gate, n->outputs);
}

static hyp_status import_mish(hyp_onnx_node *n)
{
    hyp_value_id gate;
    HYP_TRY(unary(n, HYP_OP_softplus, n->inputs[0], &gate));
    HYP_TRY(unary(n, HYP_OP_tanh, gate, &gate));
    return binary(n, HYP_OP_mul, n->inputs[0], gate, n->outputs);
}

/* x sigmoid(alpha x): Swish and QuickGelu. SwiGLU multiplies a second input with it. */
static hyp_status import_swish(hyp_onnx_node *n)
{
    double alpha;
    hyp_value_id gate = n->inputs[0];
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", strstr(n->op->name, "QuickGelu") ? (double)1.702f : 1, &alpha));
    if (alpha != 1) HYP_TRY(with_number(n, HYP_OP_mul, alpha, gate, &gate));
    HYP_TRY(unary(n, HYP_OP_sigmoid, gate, &gate));
    HYP_TRY(binary(n, HYP_OP_mul, n->inputs[0], gate, n->outputs));
    return n->input_count == 2 ? binary(n, HYP_OP_mul, n->outputs[0], n->inputs[1], n->outputs) : HYP_OK;
}

static hyp_status import_prelu(hyp_onnx_node *n)
{
    hyp_value_id x = n->inputs[0], zero, negative, scaled;
    HYP_TRY(number(n, 0, &zero));
    HYP_TRY(binary(n, HYP_OP_less, x, zero, &negative));
    HYP_TRY(binary(n, HYP_OP_mul, x, n->inputs[1], &scaled));
    return where(n, negative, scaled, x, n->outputs);
}

/* x + bias below -lambd, x - bias above lambd, else 0. Integers are compared with the integers inside these bounds. */
static hyp_status import_shrink(hyp_onnx_node *n)
{
    double lambd, bias;
    hyp_value_id x = n->inputs[0], low, high, distance, above, below, middle, raised, lowered;
    HYP_TRY(hyp_onnx_attr_float(n, "lambd", 0.5, &lambd));
    HYP_TRY(hyp_onnx_attr_float(n, "bias", 0, &bias));
    hyp_dtype type = hyp_onnx_input_type(n, 0).dtype;
    bool real = hyp_dtype_is_float(type);
    bool is_unsigned = type == HYP_U8 || type == HYP_U16 || type == HYP_U32 || type == HYP_U64;
    if (!real && (lambd < 0 || bias != floor(bias)))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "integers need a bias that is one and a lambd not below 0");
    HYP_TRY(number(n, real ? -lambd : is_unsigned ? 0 : ceil(-lambd), &low));
    HYP_TRY(number(n, real ? lambd : floor(lambd), &high));
    HYP_TRY(number(n, bias, &distance));
    HYP_TRY(number(n, 0, &middle));
    HYP_TRY(binary(n, HYP_OP_less, x, low, &below));
    HYP_TRY(binary(n, HYP_OP_less, high, x, &above));
    HYP_TRY(binary(n, HYP_OP_add, x, distance, &raised));
    HYP_TRY(binary(n, HYP_OP_sub, x, distance, &lowered));
    HYP_TRY(where(n, above, lowered, middle, &middle));
    return where(n, below, raised, middle, n->outputs);
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
        constant = hyp_onnx_is_number(n, i, &bounds[i - 1].f) && constant;
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

/* ---- conversions -------------------------------------------------------------------------------- */

static hyp_status emit_conversion(hyp_onnx_node *n, hyp_dtype to)
{
    int64_t saturate;
    HYP_TRY(hyp_onnx_attr_int(n, "saturate", 1, &saturate));
    if (to == HYP_F8E4M3 && !saturate)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "conversion to f8e4m3 without saturation is not supported");
    hyp_attr attr = hyp_attr_of_sym(hyp_dtype_name(to));
    return hyp_onnx_emit_unary(n, HYP_OP_cast, &attr);
}

static hyp_status import_cast(hyp_onnx_node *n)
{
    int64_t to;
    HYP_TRY(hyp_onnx_attr_int(n, "to", 0, &to));
    if (to <= 0 || to > INT32_MAX || !hyp_dtype_size((hyp_dtype)to))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "element type %lld (%s) is not supported", (long long)to,
                        to > 0 && to <= INT32_MAX ? hyp_onnx_dtype_name((int32_t)to) : "?");
    return emit_conversion(n, (hyp_dtype)to);
}

static hyp_status import_cast_like(hyp_onnx_node *n) { return emit_conversion(n, hyp_onnx_input_type(n, 1).dtype); }

#define SAME hyp_onnx_import_same
#define FOLD import_fold

static const hyp_onnx_operator rows[] = {
    /* those without a name, "", are imported below */
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) {onnx, since, 1, 1, 1, "", SAME, HYP_OP_##op},
    HYP_ACTIVATIONS(X) HYP_FUNCTIONS(X)
#undef X
    {"Abs", 7, 1, 1, 1, "", SAME, HYP_OP_abs},
    {"Add", 7, 2, 2, 1, "", SAME, HYP_OP_add},
    {"And", 7, 2, 2, 1, "", SAME, HYP_OP_and},
    {"BitShift", 11, 2, 2, 1, "direction ", import_bit_shift, HYP_OP_shift_left},
    {"BitwiseAnd", 18, 2, 2, 1, "", SAME, HYP_OP_and},
    {"BitwiseNot", 18, 1, 1, 1, "", SAME, HYP_OP_not},
    {"BitwiseOr", 18, 2, 2, 1, "", SAME, HYP_OP_or},
    {"BitwiseXor", 18, 2, 2, 1, "", SAME, HYP_OP_xor},
    {"Cast", 7, 1, 1, 1, "to saturate round_mode ", import_cast, HYP_OP_cast},
    {"CastLike", 15, 2, 2, 1, "saturate round_mode ", import_cast_like, HYP_OP_cast},
    {"Celu", 12, 1, 1, 1, "alpha ", import_celu, HYP_OP_elu},
    {"Clip", 7, 1, 3, 1, "min max ", import_clip, HYP_OP_clip},
    {"Div", 7, 2, 2, 1, "", SAME, HYP_OP_div},
    {"Elu", 7, 1, 1, 1, "alpha ", import_elu, HYP_OP_elu},
    {"Equal", 7, 2, 2, 1, "", SAME, HYP_OP_equal},
    {"Gelu", 20, 1, 1, 1, "approximate ", import_gelu, HYP_OP_gelu},
    {"Greater", 7, 2, 2, 1, "", import_swapped, HYP_OP_less},
    {"GreaterOrEqual", 12, 2, 2, 1, "", import_swapped, HYP_OP_less_equal},
    {"HardSigmoid", 7, 1, 1, 1, "alpha beta ", import_hard_sigmoid, HYP_OP_clip},
    {"HardSwish", 14, 1, 1, 1, "", import_hard_swish, HYP_OP_mul},
    {"IsInf", 10, 1, 1, 1, "detect_negative detect_positive ", import_is_inf, HYP_OP_equal},
    {"IsNaN", 9, 1, 1, 1, "", import_is_nan, HYP_OP_equal},
    {"LeakyRelu", 7, 1, 1, 1, "alpha ", import_leaky_relu, HYP_OP_leaky_relu},
    {"Less", 7, 2, 2, 1, "", SAME, HYP_OP_less},
    {"LessOrEqual", 12, 2, 2, 1, "", SAME, HYP_OP_less_equal},
    {"Max", 7, 1, HYP_ONNX_ANY, 1, "", FOLD, HYP_OP_max},
    {"Mean", 7, 1, HYP_ONNX_ANY, 1, "", import_mean, HYP_OP_add},
    {"Min", 7, 1, HYP_ONNX_ANY, 1, "", FOLD, HYP_OP_min},
    {"Mish", 18, 1, 1, 1, "", import_mish, HYP_OP_mul},
    {"Mod", 10, 2, 2, 1, "fmod ", import_mod, HYP_OP_mod},
    {"Mul", 7, 2, 2, 1, "", SAME, HYP_OP_mul},
    {"Neg", 7, 1, 1, 1, "", SAME, HYP_OP_neg},
    {"Not", 7, 1, 1, 1, "", SAME, HYP_OP_not},
    {"Or", 7, 2, 2, 1, "", SAME, HYP_OP_or},
    {"PRelu", 7, 2, 2, 1, "", import_prelu, HYP_OP_where},
    {"Pow", 7, 2, 2, 1, "", SAME, HYP_OP_pow},
    {"Reciprocal", 7, 1, 1, 1, "", import_reciprocal, HYP_OP_div},
    {"Selu", 7, 1, 1, 1, "alpha gamma ", import_elu, HYP_OP_elu},
    {"Shrink", 9, 1, 1, 1, "bias lambd ", import_shrink, HYP_OP_where},
    {"Sign", 9, 1, 1, 1, "", SAME, HYP_OP_sign},
    {"Sub", 7, 2, 2, 1, "", SAME, HYP_OP_sub},
    {"Sum", 7, 1, HYP_ONNX_ANY, 1, "", FOLD, HYP_OP_add},
    {"SwiGLU", 28, 2, 2, 1, "alpha ", import_swish, HYP_OP_mul},
    {"Swish", 24, 1, 1, 1, "alpha ", import_swish, HYP_OP_mul},
    {"ThresholdedRelu", 10, 1, 1, 1, "alpha ", import_thresholded_relu, HYP_OP_where},
    {"Where", 9, 3, 3, 1, "", SAME, HYP_OP_where},
    {"Xor", 7, 2, 2, 1, "", SAME, HYP_OP_xor},
    {"com.microsoft::BiasGelu", 1, 2, 2, 1, "", import_biased, HYP_OP_gelu},
    {"com.microsoft::FastGelu", 1, 1, 2, 1, "", import_biased, HYP_OP_gelu_tanh},
    {"com.microsoft::Gelu", 1, 1, 1, 1, "", SAME, HYP_OP_gelu},
    {"com.microsoft::QuickGelu", 1, 1, 1, 1, "alpha ", import_swish, HYP_OP_mul},
};
const hyp_onnx_family hyp_onnx_elementwise = {rows, sizeof rows / sizeof *rows};
