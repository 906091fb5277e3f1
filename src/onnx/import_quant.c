/* Quantization and products of integers, as compositions: a scale or a zero point is brought to the shape in which it
 * broadcasts to what it belongs to, and the rest is elementwise. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* ---- scales and zero points ------------------------------------------------------------------------ */

/* A vector along an axis of a tensor of this rank; of one element, as a scalar. */
static hyp_status emit_along(const hyp_onnx_node *n, hyp_value_id v, int32_t rank, int64_t axis, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, v);
    hyp_dim dims[HYP_MAX_RANK] = {type.dims[0], 1, 1, 1, 1, 1, 1, 1};
    *out = v;
    if (type.rank == 0) return HYP_OK;
    if (type.dims[0] == 1) return hyp_onnx_emit_dims(n, HYP_OP_reshape, v, NULL, 0, out);
    HYP_TRY(hyp_onnx_axis(n, axis, rank, &axis));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, v, dims, rank - (int32_t)axis, out);
}

/* Each element along the axis `block` times, as many in all as x has. */
static hyp_status emit_blocked(const hyp_onnx_node *n, hyp_value_id v, const hyp_type *x, int64_t axis, int64_t block,
                               hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, v);
    hyp_dim at, wide[HYP_MAX_RANK];
    HYP_TRY(hyp_onnx_axis(n, axis, x->rank, &axis));
    if (type.rank != x->rank || type.rank >= HYP_MAX_RANK)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the scale of blocks has rank %d, x has %d", type.rank,
                        x->rank);
    at = axis + 1;
    memcpy(wide, type.dims, sizeof wide);
    memmove(wide + at + 1, wide + at, (size_t)(x->rank - at) * sizeof *wide);
    wide[at] = block;
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, v, &at, 1, out));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_expand, *out, wide, x->rank + 1, out));
    HYP_TRY(hyp_dim_mul(n->im->g->dims, type.dims[axis], block, &type.dims[axis], n->im->diag));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, type.dims, x->rank, out));
    if (type.dims[axis] == x->dims[axis]) return HYP_OK;
    return hyp_onnx_emit_part(n, *out, (int32_t)axis, 0, x->dims[axis], 1, out);
}

/* Input i in the shape in which it broadcasts to x: per tensor, per axis or per block. */
static hyp_status emit_parameter(const hyp_onnx_node *n, uint32_t i, hyp_value_id *out)
{
    hyp_type x = hyp_onnx_input_type(n, 0), type = hyp_onnx_input_type(n, i);
    int64_t axis, block;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 1, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "block_size", 0, &block));
    if (block < 0 || block > INT32_MAX)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"block_size\" is %lld", (long long)block);
    if (block > 0) return emit_blocked(n, n->inputs[i], &x, axis, block, out);
    if (type.rank > 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "input %u has rank %d; without block_size it should be a number "
                        "or a vector",
                        i, type.rank);
    return emit_along(n, n->inputs[i], x.rank, axis, out);
}

/* An attribute that names an element type, `missing` where it is absent or 0. */
static hyp_status read_dtype(const hyp_onnx_node *n, const char *name, hyp_dtype missing, hyp_dtype *out)
{
    int64_t code;
    HYP_TRY(hyp_onnx_attr_int(n, name, 0, &code));
    *out = code ? (hyp_dtype)code : missing;
    if (code >= 0 && code <= INT32_MAX && (!code || hyp_dtype_size(*out))) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "element type %lld (%s) is not supported", (long long)code,
                    code > 0 && code <= INT32_MAX ? hyp_onnx_dtype_name((int32_t)code) : "?");
}

/* ---- to and from integers -------------------------------------------------------------------------- */

/* q, which is whole, plus zero, which may be absent, brought into the range of the type. */
static hyp_status emit_saturated(const hyp_onnx_node *n, hyp_value_id q, hyp_value_id zero, hyp_dtype to,
                                 hyp_value_id *out)
{
    bool is_signed = to == HYP_I8 || to == HYP_I16;
    if (!is_signed && to != HYP_U8 && to != HYP_U16)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "quantization to %s is not supported", hyp_dtype_name(to));
    double span = hyp_dtype_size(to) == 1 ? 256 : 65536, least = is_signed ? -span / 2 : 0;
    hyp_attr bounds[] = {hyp_attr_of_float(least), hyp_attr_of_float(least + span - 1)};
    HYP_TRY(hyp_onnx_emit_cast(n, q, HYP_F32, &q));
    if (zero != HYP_NO_VALUE) {
        HYP_TRY(hyp_onnx_emit_cast(n, zero, HYP_F32, &zero));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, q, zero, &q));
    }
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_clip, &q, 1, bounds, &q, 1));
    return hyp_onnx_emit_cast(n, q, to, out);
}

static hyp_status emit_f8(const hyp_onnx_node *n, hyp_value_id q, hyp_value_id *out)
{
    int64_t saturate;
    HYP_TRY(hyp_onnx_attr_int(n, "saturate", 1, &saturate));
    if (saturate) return hyp_onnx_emit_cast(n, q, HYP_F8E4M3, out);
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "quantization to f8e4m3 without saturation is not supported");
}

/* The quotient is rounded in the types of x and the scale, or as the attribute says. */
static hyp_status import_quantize(hyp_onnx_node *n)
{
    hyp_dtype x = hyp_onnx_input_type(n, 0).dtype, scale_type = hyp_onnx_input_type(n, 1).dtype, precision, to;
    hyp_value_id q, scale, zero = HYP_NO_VALUE;
    HYP_TRY(read_dtype(n, "precision", x == scale_type ? x : HYP_F32, &precision));
    HYP_TRY(read_dtype(n, "output_dtype", HYP_U8, &to));
    if (hyp_onnx_has_input(n, 2)) {
        to = hyp_onnx_input_type(n, 2).dtype;
        HYP_TRY(emit_parameter(n, 2, &zero));
    }
    HYP_TRY(emit_parameter(n, 1, &scale));
    HYP_TRY(hyp_onnx_emit_cast(n, scale, precision, &scale));
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[0], precision, &q));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, q, scale, &q));
    if (to == HYP_F8E4M3) return emit_f8(n, q, n->outputs); /* whose zero point only says the type */
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_round, &q, 1, NULL, &q, 1));
    return emit_saturated(n, q, zero, to, n->outputs);
}

/* x - zero in i32, of f8e4m3 in f32. Either has been brought to its shape. */
static hyp_status emit_centred(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id zero, hyp_value_id *out)
{
    hyp_dtype in = hyp_onnx_value_type(n, x).dtype == HYP_F8E4M3 ? HYP_F32 : HYP_I32;
    HYP_TRY(hyp_onnx_emit_cast(n, x, in, out));
    if (zero == HYP_NO_VALUE) return HYP_OK;
    HYP_TRY(hyp_onnx_emit_cast(n, zero, in, &zero));
    return hyp_onnx_emit_binary(n, HYP_OP_sub, *out, zero, out);
}

static hyp_status import_dequantize(hyp_onnx_node *n)
{
    hyp_value_id x, scale, zero = HYP_NO_VALUE;
    hyp_dtype to;
    HYP_TRY(read_dtype(n, "output_dtype", hyp_onnx_input_type(n, 1).dtype, &to));
    HYP_TRY(emit_parameter(n, 1, &scale));
    if (hyp_onnx_has_input(n, 2)) HYP_TRY(emit_parameter(n, 2, &zero));
    HYP_TRY(emit_centred(n, n->inputs[0], zero, &x));
    HYP_TRY(hyp_onnx_emit_cast(n, x, HYP_F32, &x));
    HYP_TRY(hyp_onnx_emit_cast(n, scale, HYP_F32, &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x, scale, &x));
    return hyp_onnx_emit_cast(n, x, to, n->outputs);
}

typedef struct quantized {
    hyp_value_id values, scale, zero;
} quantized;

static hyp_status emit_extreme(const hyp_onnx_node *n, hyp_op reduce, hyp_op widen, hyp_value_id nought,
                               hyp_value_id *out)
{
    static const hyp_dim axes[HYP_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    hyp_attr attrs[] = {hyp_attr_of_dims(axes, (uint32_t)hyp_onnx_input_type(n, 0).rank), hyp_attr_of_int(0)};
    HYP_TRY(hyp_onnx_emit(n, reduce, n->inputs, 1, attrs, out, 1));
    return hyp_onnx_emit_binary(n, widen, *out, nought, out);
}

/* To u8 such that the range of x with 0 fills that of the type; the scale of nothing but 0 is 1. */
static hyp_status emit_dynamic(const hyp_onnx_node *n, quantized *out)
{
    hyp_attr bounds[] = {hyp_attr_of_float(0), hyp_attr_of_float(255)};
    hyp_value_id least, most, nought, one, steps, flat, whole, q;
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_F32, 0, &nought));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_F32, 1, &one));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_F32, 255, &steps));
    HYP_TRY(emit_extreme(n, HYP_OP_reduce_min, HYP_OP_min, nought, &least));
    HYP_TRY(emit_extreme(n, HYP_OP_reduce_max, HYP_OP_max, nought, &most));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_equal, most, least, &flat));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, most, least, &q));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, q, steps, &q));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){flat, one, q}, 3, NULL, &out->scale, 1));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, least, out->scale, &whole));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, nought, whole, &whole));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_clip, &whole, 1, bounds, &whole, 1));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_round, &whole, 1, NULL, &whole, 1));
    HYP_TRY(hyp_onnx_emit_cast(n, whole, HYP_U8, &out->zero));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, n->inputs[0], out->scale, &q));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_round, &q, 1, NULL, &q, 1));
    return emit_saturated(n, q, whole, HYP_U8, &out->values);
}

static hyp_status import_dynamic_quantize(hyp_onnx_node *n)
{
    quantized q;
    HYP_TRY(emit_dynamic(n, &q));
    const hyp_value_id all[] = {q.values, q.scale, q.zero};
    memcpy(n->outputs, all, n->output_count * sizeof *all);
    return HYP_OK;
}

/* ---- products ------------------------------------------------------------------------------------- */

/* A parameter of the left operand is one number or one for each row, of the right one for each column; with more axes
 * it has those of the operand. */
static hyp_status emit_operand_parameter(const hyp_onnx_node *n, uint32_t i, bool left, hyp_value_id *out)
{
    *out = HYP_NO_VALUE;
    if (!hyp_onnx_has_input(n, i)) return HYP_OK;
    *out = n->inputs[i];
    return hyp_onnx_input_type(n, i).rank == 1 ? emit_along(n, *out, 2, left ? 0 : 1, out) : HYP_OK;
}

/* (a - its zero point) (b - its zero point): of few terms in f32, which holds every partial sum exactly, else in i32.
 */
static hyp_status emit_product(const hyp_onnx_node *n, hyp_value_id a, hyp_value_id a_zero, hyp_value_id b,
                               hyp_value_id b_zero, hyp_value_id *out)
{
    enum { LARGEST = 255 * 255, EXACT_IN_F32 = 1 << 24 };
    hyp_type left = hyp_onnx_value_type(n, a);
    hyp_dim terms = left.rank ? left.dims[left.rank - 1] : 1;
    bool few = hyp_dim_is_const(terms) && terms <= EXACT_IN_F32 / LARGEST;
    hyp_dtype sums = few ? HYP_F32 : n->im->options->no_integer_products ? HYP_F64 : HYP_I32;
    HYP_TRY(emit_centred(n, a, a_zero, &a));
    HYP_TRY(emit_centred(n, b, b_zero, &b));
    HYP_TRY(hyp_onnx_emit_cast(n, a, sums, &a));
    HYP_TRY(hyp_onnx_emit_cast(n, b, sums, &b));
    return hyp_onnx_emit_matmul(n, a, b, false, 1, out);
}

static hyp_status import_matmul_integer(hyp_onnx_node *n)
{
    hyp_value_id a_zero, b_zero, y;
    HYP_TRY(emit_operand_parameter(n, 2, true, &a_zero));
    HYP_TRY(emit_operand_parameter(n, 3, false, &b_zero));
    HYP_TRY(emit_product(n, n->inputs[0], a_zero, n->inputs[1], b_zero, &y));
    return hyp_onnx_emit_cast(n, y, HYP_I32, n->outputs);
}

/* a, its scale and zero point, b, its scale and zero point, the result's scale and zero point. */
static hyp_status import_qlinear_matmul(hyp_onnx_node *n)
{
    hyp_value_id p[8], y, scale;
    for (uint32_t i = 0; i < 8; i++) {
        HYP_TRY(emit_operand_parameter(n, i, i != 4 && i != 5, &p[i]));
        if (i == 0 || i == 3) p[i] = n->inputs[i];
        if (i % 3 == 1 || i == 6) HYP_TRY(hyp_onnx_emit_cast(n, p[i], HYP_F32, &p[i]));
    }
    HYP_TRY(emit_product(n, p[0], p[2], p[3], p[5], &y));
    HYP_TRY(hyp_onnx_emit_cast(n, y, HYP_F32, &y));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, p[1], p[4], &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, scale, p[6], &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, y, scale, &y));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_round, &y, 1, NULL, &y, 1));
    return emit_saturated(n, y, p[7], hyp_onnx_input_type(n, 7).dtype, n->outputs);
}

/* product * a_scale * b_scale + bias in f32. */
static hyp_status emit_scaled(const hyp_onnx_node *n, hyp_value_id product, hyp_value_id a_scale, hyp_value_id b_scale,
                              uint32_t bias, hyp_value_id *out)
{
    hyp_value_id scale;
    HYP_TRY(hyp_onnx_emit_cast(n, product, HYP_F32, &product));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, a_scale, b_scale, &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, product, scale, out));
    return hyp_onnx_has_input(n, bias) ? hyp_onnx_emit_binary(n, HYP_OP_add, *out, n->inputs[bias], out) : HYP_OK;
}

/* a, b, b's scale, b's zero point, bias; a is quantized as DynamicQuantizeLinear does. */
static hyp_status import_dynamic_matmul(hyp_onnx_node *n)
{
    hyp_value_id b_scale, b_zero, y;
    quantized a;
    HYP_TRY(emit_dynamic(n, &a));
    HYP_TRY(emit_operand_parameter(n, 2, false, &b_scale));
    HYP_TRY(emit_operand_parameter(n, 3, false, &b_zero));
    HYP_TRY(emit_product(n, a.values, a.zero, n->inputs[1], b_zero, &y));
    return emit_scaled(n, y, a.scale, b_scale, 4, n->outputs);
}

/* a, b, their scales, their zero points, bias. */
static hyp_status import_matmul_to_float(hyp_onnx_node *n)
{
    hyp_value_id p[4], y;
    for (uint32_t i = 0; i < 4; i++) HYP_TRY(emit_operand_parameter(n, 2 + i, i % 2 == 0, &p[i]));
    HYP_TRY(emit_product(n, n->inputs[0], p[2], n->inputs[1], p[3], &y));
    return emit_scaled(n, y, p[0], p[1], 6, n->outputs);
}

#define QUANTIZE "axis block_size output_dtype precision saturate "
#define DEQUANTIZE "axis block_size output_dtype "

static const hyp_onnx_operator rows[] = {
    {"DequantizeLinear", 10, 2, 3, 1, DEQUANTIZE, import_dequantize, HYP_OP_mul},
    {"DynamicQuantizeLinear", 11, 1, 1, 3, "", import_dynamic_quantize, HYP_OP_round},
    {"MatMulInteger", 10, 2, 4, 1, "", import_matmul_integer, HYP_OP_matmul},
    {"QLinearMatMul", 10, 8, 8, 1, "", import_qlinear_matmul, HYP_OP_matmul},
    {"QuantizeLinear", 10, 2, 3, 1, QUANTIZE, import_quantize, HYP_OP_round},
    {"com.microsoft::DequantizeLinear", 1, 2, 3, 1, "axis block_size ", import_dequantize, HYP_OP_mul},
    {"com.microsoft::DynamicQuantizeMatMul", 1, 3, 5, 1, "", import_dynamic_matmul, HYP_OP_matmul},
    {"com.microsoft::MatMulIntegerToFloat", 1, 4, 7, 1, "", import_matmul_to_float, HYP_OP_matmul},
    {"com.microsoft::QuantizeLinear", 1, 2, 3, 1, "axis block_size saturate ", import_quantize, HYP_OP_round},
};
const hyp_onnx_family hyp_onnx_quant = {rows, sizeof rows / sizeof *rows};
