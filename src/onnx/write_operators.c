/* What each operator is in ONNX: a row for every one; functions of those that are elementwise, or of the model's authors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/custom.h"
#include "base/loop.h"
#include "onnx/writer.h"

/* ---- elementwise ------------------------------------------------------------------------------------------- */

static const char *number(hyp_ow *w, hyp_dtype dtype, double value) { return hyp_ow_scalar(w, dtype, value); }

static const char *clip(hyp_ow *w, const hyp_attr *attrs, const char *x, hyp_dtype dtype)
{
    bool low = attrs[0].f > -INFINITY, high = attrs[1].f < INFINITY;
    if (!low && !high) return hyp_ow_op(w, "Identity", x);
    return hyp_ow_op(w, "Clip", x, low ? number(w, dtype, attrs[0].f) : NULL, high ? number(w, dtype, attrs[1].f) : NULL);
}

const char *hyp_ow_unary(hyp_ow *w, hyp_op op, const hyp_attr *attrs, const char *x, hyp_dtype dtype)
{
    switch (op) {
    case HYP_OP_clip: return clip(w, attrs, x, dtype);
    case HYP_OP_silu: return hyp_ow_op(w, "Mul", x, hyp_ow_op(w, "Sigmoid", x));
    case HYP_OP_quick_gelu: {
        const char *scaled = hyp_ow_op(w, "Mul", x, number(w, dtype, 1.702));
        return hyp_ow_op(w, "Mul", x, hyp_ow_op(w, "Sigmoid", scaled));
    }
    case HYP_OP_gelu_tanh: hyp_ow_text(w, "approximate", "tanh", 4); return hyp_ow_op(w, "Gelu", x);
    case HYP_OP_leaky_relu: hyp_ow_float(w, "alpha", attrs[0].f); return hyp_ow_op(w, "LeakyRelu", x);
    case HYP_OP_elu: /* Selu is scaled as a whole */
        hyp_ow_float(w, "alpha", attrs[0].f);
        if (attrs[1].f != 1) hyp_ow_float(w, "gamma", attrs[1].f);
        return hyp_ow_op(w, attrs[1].f == 1 ? "Elu" : "Selu", x);
    default: return hyp_ow_op(w, hyp_ow_row_of(op).onnx, x);
    }
}

static const char *unary(hyp_ow *w)
{
    return hyp_ow_unary(w, w->node->op, w->node->attrs, hyp_ow_in(w, 0), hyp_ow_type(w, 0)->dtype);
}

static const char *sigmoid_ms(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0);
    if (hyp_ow_type(w, 0)->dtype != HYP_F32) return NULL;
    hyp_ow_float(w, "alpha", w->node->op == HYP_OP_silu ? 1 : 1.702);
    return hyp_ow_op(w, "com.microsoft::QuickGelu", x);
}

static const char *cast(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0);
    hyp_ow_int(w, "to", hyp_ow_result_type(w, 0)->dtype);
    return hyp_ow_op(w, "Cast", x);
}

/* Of bools a logical operator, of integers one of bits. */
static const char *bits(hyp_ow *w)
{
    bool logical = hyp_ow_type(w, 0)->dtype == HYP_BOOL;
    switch (w->node->op) {
    case HYP_OP_and: return hyp_ow_op(w, logical ? "And" : "BitwiseAnd", hyp_ow_in(w, 0), hyp_ow_in(w, 1));
    case HYP_OP_or: return hyp_ow_op(w, logical ? "Or" : "BitwiseOr", hyp_ow_in(w, 0), hyp_ow_in(w, 1));
    case HYP_OP_xor: return hyp_ow_op(w, logical ? "Xor" : "BitwiseXor", hyp_ow_in(w, 0), hyp_ow_in(w, 1));
    default: return hyp_ow_op(w, logical ? "Not" : "BitwiseNot", hyp_ow_in(w, 0));
    }
}

static hyp_dtype unsigned_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_I8: return HYP_U8;
    case HYP_I16: return HYP_U16;
    case HYP_I32: return HYP_U32;
    case HYP_I64: return HYP_U64;
    default: return dtype;
    }
}

/* ONNX shifts numbers without a sign: what is below 0 is turned around before and after, so that its copies come in. */
static const char *shift(hyp_ow *w)
{
    bool left = w->node->op == HYP_OP_shift_left;
    hyp_dtype dtype = hyp_ow_type(w, 0)->dtype, plain = unsigned_of(dtype);
    const char *x = hyp_ow_in(w, 0), *places = hyp_ow_cast(w, hyp_ow_in(w, 1), dtype, plain), *below = NULL;
    if (plain != dtype && !left) {
        below = hyp_ow_op(w, "Less", x, number(w, dtype, 0));
        x = hyp_ow_op(w, "Where", below, hyp_ow_op(w, "BitwiseNot", x), x);
    }
    x = hyp_ow_cast(w, x, dtype, plain);
    hyp_ow_text(w, "direction", left ? "LEFT" : "RIGHT", left ? 4 : 5);
    x = hyp_ow_cast(w, hyp_ow_op(w, "BitShift", x, places), plain, dtype);
    return below ? hyp_ow_op(w, "Where", below, hyp_ow_op(w, "BitwiseNot", x), x) : x;
}

/* ONNX has that with the sign of b for integers alone. */
static const char *mod(hyp_ow *w)
{
    bool fmod = w->node->attrs[0].i != 0;
    hyp_dtype dtype = hyp_ow_type(w, 0)->dtype;
    const char *a = hyp_ow_in(w, 0), *b = hyp_ow_in(w, 1);
    hyp_ow_int(w, "fmod", fmod || hyp_dtype_is_float(dtype));
    const char *rest = hyp_ow_op(w, "Mod", a, b);
    if (fmod || !hyp_dtype_is_float(dtype)) return rest;
    const char *signs = hyp_ow_op(w, "Mul", rest, hyp_ow_op(w, "Sign", b));
    const char *other = hyp_ow_op(w, "Less", signs, number(w, dtype, 0));
    return hyp_ow_op(w, "Where", other, hyp_ow_op(w, "Add", rest, b), rest);
}

/* ---- custom operators -------------------------------------------------------------------------------------- */

/* The parts of a text that end in commas: numbers, or escaped text. */
typedef struct list {
    HYP_VEC(char *) items;
} list;

static void split(hyp_ow *w, char *text, list *out)
{
    for (char *comma; w->status == HYP_OK && (comma = strchr(text, ',')); text = comma + 1) {
        *comma = 0;
        hyp_ow_note(w, hyp_vec_push(&out->items, w->diag, text));
    }
}

/* "name=k:a,b," as an attribute. */
static void put_value(hyp_ow *w, const char *value)
{
    char *text = hyp_arena_strdup(&w->arena, value), *equals = text ? strchr(text, '=') : NULL;
    list l = {0};
    if (!equals || !equals[1] || equals[2] != ':') {
        hyp_ow_refuse(w, "an attribute of it cannot be read");
        return;
    }
    *equals = 0;
    hyp_custom_unescape(text);
    char kind = equals[1];
    split(w, equals + 3, &l);
    size_t count = l.items.len;
    int64_t *ints = hyp_arena_zalloc(&w->arena, count + 1, sizeof *ints);
    double *floats = hyp_arena_zalloc(&w->arena, count + 1, sizeof *floats);
    if (!ints || !floats) hyp_ow_note(w, hyp_fail_memory(w->diag, count));
    size_t len = 0;
    for (size_t i = 0; i < count && w->status == HYP_OK; i++) {
        ints[i] = strtoll(l.items.data[i], NULL, 10);
        floats[i] = hyp_strtod(l.items.data[i], NULL);
        if (kind == 's' || kind == 'S') len = hyp_custom_unescape(l.items.data[i]);
    }
    if (w->status == HYP_OK) switch (kind) {
        case 'i': hyp_ow_int(w, text, ints[0]); break;
        case 'f': hyp_ow_float(w, text, floats[0]); break;
        case 's': hyp_ow_text(w, text, count ? l.items.data[0] : "", len); break;
        case 'I': hyp_ow_ints(w, text, ints, count); break;
        case 'F': hyp_ow_floats(w, text, floats, count); break;
        default: hyp_ow_texts(w, text, (const char *const *)l.items.data, count); break;
        }
    hyp_vec_free(&l.items);
}

static const char *custom(hyp_ow *w)
{
    enum { OPERATOR, VALUES };
    const hyp_attr *a = w->node->attrs;
    if (strcmp(a[OPERATOR].sym, HYP_LOOP_OPERATOR) == 0)
        return hyp_ow_refuse(w, "its trips are run, and its body is a plan of its own"), NULL;
    uint32_t count = w->node->output_count;
    const char **in = hyp_arena_zalloc(&w->arena, w->node->input_count, sizeof *in);
    const char **out = hyp_arena_zalloc(&w->arena, count, sizeof *out);
    if (!in || !out) return hyp_ow_no_memory(w);
    for (uint32_t i = 0; i < w->node->input_count; i++) in[i] = hyp_ow_in(w, i);
    for (uint32_t i = 0; i < a[VALUES].count; i++) put_value(w, a[VALUES].syms[i]);
    char *op = hyp_arena_strdup(&w->arena, a[OPERATOR].sym);
    if (!op) return hyp_ow_no_memory(w);
    hyp_custom_unescape(op);
    hyp_ow_nodes(w, strncmp(op, "ai.onnx::", 9) == 0 ? op + 9 : op, in, w->node->input_count, out, count);
    for (uint32_t i = 0; i < count; i++) hyp_ow_give(w, i, out[i]);
    return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------- */

static const hyp_ow_row rows[HYP_OP_COUNT] = {
    [HYP_OP_linear] = {.write = hyp_ow_linear},
    [HYP_OP_fused_linear] = {.write = hyp_ow_linear, .microsoft = hyp_ow_linear_ms},
    [HYP_OP_fused_linear_add] = {.write = hyp_ow_linear_add},
    [HYP_OP_fused_mlp] = {.write = hyp_ow_mlp},
    [HYP_OP_quantized_linear] = {.write = hyp_ow_quantized},
    [HYP_OP_matmul] = {.write = hyp_ow_matmul, .microsoft = hyp_ow_matmul_ms},
    [HYP_OP_gemm] = {.write = hyp_ow_gemm},
    [HYP_OP_attention] = {.write = hyp_ow_attention},
    [HYP_OP_add] = {.onnx = "Add"},
    [HYP_OP_sub] = {.onnx = "Sub"},
    [HYP_OP_mul] = {.onnx = "Mul"},
    [HYP_OP_div] = {.onnx = "Div"},
    [HYP_OP_pow] = {.onnx = "Pow"},
    [HYP_OP_min] = {.onnx = "Min"},
    [HYP_OP_max] = {.onnx = "Max"},
    [HYP_OP_mod] = {.write = mod},
    [HYP_OP_relu] = {.onnx = "Relu"},
    [HYP_OP_leaky_relu] = {.write = unary},
    [HYP_OP_sigmoid] = {.onnx = "Sigmoid"},
    [HYP_OP_tanh] = {.onnx = "Tanh"},
    [HYP_OP_gelu] = {.onnx = "Gelu"},
    [HYP_OP_gelu_tanh] = {.write = unary},
    [HYP_OP_erf] = {.onnx = "Erf"},
    [HYP_OP_exp] = {.onnx = "Exp"},
    [HYP_OP_sqrt] = {.onnx = "Sqrt"},
    [HYP_OP_log] = {.onnx = "Log"},
    [HYP_OP_abs] = {.onnx = "Abs"},
    [HYP_OP_neg] = {.onnx = "Neg"},
    [HYP_OP_sign] = {.onnx = "Sign"},
    [HYP_OP_ceil] = {.onnx = "Ceil"},
    [HYP_OP_floor] = {.onnx = "Floor"},
    [HYP_OP_round] = {.onnx = "Round"},
    [HYP_OP_sin] = {.onnx = "Sin"},
    [HYP_OP_cos] = {.onnx = "Cos"},
    [HYP_OP_tan] = {.onnx = "Tan"},
    [HYP_OP_asin] = {.onnx = "Asin"},
    [HYP_OP_acos] = {.onnx = "Acos"},
    [HYP_OP_atan] = {.onnx = "Atan"},
    [HYP_OP_sinh] = {.onnx = "Sinh"},
    [HYP_OP_cosh] = {.onnx = "Cosh"},
    [HYP_OP_asinh] = {.onnx = "Asinh"},
    [HYP_OP_acosh] = {.onnx = "Acosh"},
    [HYP_OP_atanh] = {.onnx = "Atanh"},
    [HYP_OP_softplus] = {.onnx = "Softplus"},
    [HYP_OP_softsign] = {.onnx = "Softsign"},
    [HYP_OP_elu] = {.write = unary},
    [HYP_OP_silu] = {.write = unary, .microsoft = sigmoid_ms},
    [HYP_OP_quick_gelu] = {.write = unary, .microsoft = sigmoid_ms},
    [HYP_OP_hard_swish] = {.onnx = "HardSwish"},
    [HYP_OP_mish] = {.onnx = "Mish"},
    [HYP_OP_clip] = {.write = unary},
    [HYP_OP_cast] = {.write = cast},
    [HYP_OP_equal] = {.onnx = "Equal"},
    [HYP_OP_less] = {.onnx = "Less"},
    [HYP_OP_less_equal] = {.onnx = "LessOrEqual"},
    [HYP_OP_and] = {.write = bits},
    [HYP_OP_or] = {.write = bits},
    [HYP_OP_xor] = {.write = bits},
    [HYP_OP_not] = {.write = bits},
    [HYP_OP_shift_left] = {.write = shift},
    [HYP_OP_shift_right] = {.write = shift},
    [HYP_OP_where] = {.onnx = "Where"},
    [HYP_OP_identity] = {.onnx = "Identity"},
    [HYP_OP_dropout] = {.onnx = "Identity"},
    [HYP_OP_reshape] = {.write = hyp_ow_reshape},
    [HYP_OP_flatten] = {.onnx = "Flatten", .attrs = "axis"},
    [HYP_OP_squeeze] = {.write = hyp_ow_squeezed},
    [HYP_OP_unsqueeze] = {.write = hyp_ow_unsqueezed},
    [HYP_OP_expand] = {.write = hyp_ow_expand},
    [HYP_OP_transpose] = {.onnx = "Transpose", .attrs = "perm"},
    [HYP_OP_concat] = {.onnx = "Concat", .attrs = "axis"},
    [HYP_OP_split] = {.write = hyp_ow_split},
    [HYP_OP_slice] = {.write = hyp_ow_slice},
    [HYP_OP_gather] = {.onnx = "Gather", .attrs = "axis"},
    [HYP_OP_pad] = {.write = hyp_ow_pad},
    [HYP_OP_size] = {.onnx = "Size"},
    [HYP_OP_shape] = {.onnx = "Shape"},
    [HYP_OP_softmax] = {.onnx = "Softmax", .attrs = "axis"},
    [HYP_OP_reduce_sum] = {.write = hyp_ow_reduce},
    [HYP_OP_reduce_mean] = {.write = hyp_ow_reduce},
    [HYP_OP_reduce_max] = {.write = hyp_ow_reduce},
    [HYP_OP_reduce_min] = {.write = hyp_ow_reduce},
    [HYP_OP_reduce_prod] = {.write = hyp_ow_reduce},
    [HYP_OP_argmax] = {.onnx = "ArgMax", .attrs = "axis keepdims=keep select_last_index=last"},
    [HYP_OP_argmin] = {.onnx = "ArgMin", .attrs = "axis keepdims=keep select_last_index=last"},
    [HYP_OP_cumsum] = {.write = hyp_ow_scan},
    [HYP_OP_cumprod] = {.write = hyp_ow_cumprod},
    [HYP_OP_reverse_sequence] = {.write = hyp_ow_reverse_sequence},
    [HYP_OP_lstm] = {.write = hyp_ow_lstm},
    [HYP_OP_gru] = {.write = hyp_ow_gru},
    [HYP_OP_rnn] = {.write = hyp_ow_rnn},
    [HYP_OP_gather_elements] = {.onnx = "GatherElements", .attrs = "axis"},
    [HYP_OP_gather_nd] = {.onnx = "GatherND", .attrs = "batch_dims=batch-axes"},
    [HYP_OP_scatter_elements] = {.onnx = "ScatterElements", .attrs = "axis reduction"},
    [HYP_OP_scatter_nd] = {.onnx = "ScatterND", .attrs = "reduction"},
    [HYP_OP_tensor_scatter] = {.write = hyp_ow_tensor_scatter},
    [HYP_OP_topk] = {.write = hyp_ow_topk},
    [HYP_OP_one_hot] = {.write = hyp_ow_one_hot},
    [HYP_OP_range] = {.write = hyp_ow_range},
    [HYP_OP_trilu] = {.onnx = "Trilu", .attrs = "upper"},
    [HYP_OP_bit_cast] = {.write = hyp_ow_bit_cast},
    [HYP_OP_resize] = {.write = hyp_ow_resize},
    [HYP_OP_grid_sample] = {.onnx = "GridSample",
    .attrs = "mode padding_mode=padding align_corners=align-corners"},
    [HYP_OP_affine_grid] = {.write = hyp_ow_affine_grid},
    [HYP_OP_roi_align] = {.write = hyp_ow_roi_align},
    [HYP_OP_conv] = {.write = hyp_ow_conv, .microsoft = hyp_ow_conv_ms},
    [HYP_OP_conv_transpose] = {.write = hyp_ow_conv_transpose},
    [HYP_OP_max_pool] = {.onnx = "MaxPool",
    .attrs = "kernel_shape=kernel strides pads dilations ceil_mode=ceil storage_order=columns"},
    [HYP_OP_max_pool_places] = {.onnx = "MaxPool",
    .attrs = "kernel_shape=kernel strides pads dilations ceil_mode=ceil storage_order=columns"},
    [HYP_OP_average_pool] = {.onnx = "AveragePool",
    .attrs = "kernel_shape=kernel strides pads dilations ceil_mode=ceil count_include_pad=count-pads"},
    [HYP_OP_lp_pool] = {.onnx = "LpPool",
    .attrs = "kernel_shape=kernel strides pads dilations ceil_mode=ceil p"},
    [HYP_OP_max_unpool] = {.write = hyp_ow_max_unpool},
    [HYP_OP_layer_norm] = {.write = hyp_ow_layer_norm},
    [HYP_OP_layer_norm_stats] = {.write = hyp_ow_layer_norm},
    [HYP_OP_rms_norm] = {.write = hyp_ow_rms_norm},
    [HYP_OP_lrn] = {.onnx = "LRN", .attrs = "size alpha beta bias"},
    [HYP_OP_custom] = {.write = custom},
    [HYP_OP_nonzero] = {.write = hyp_ow_nonzero},
    [HYP_OP_non_max_suppression] = {.write = hyp_ow_suppression},
    [HYP_OP_unique] = {.write = hyp_ow_unique_op},
    /* Training steps alone have the others: gradients, what gradients read, sums among processes, random numbers. */
};

hyp_ow_row hyp_ow_row_of(hyp_op op) { return rows[op]; }
