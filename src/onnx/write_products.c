/* Products, attention, convolutions, norms and recurrences as nodes of ONNX. */
#include <string.h>

#include "onnx/writer.h"

/* ---- what is read ------------------------------------------------------------------------------------------ */

hyp_value_id hyp_ow_weight_of(const hyp_graph *g, const hyp_node *node, uint32_t i, bool *out_transposed)
{
    hyp_value_id v = node->inputs[i];
    *out_transposed = false;
    if (v == HYP_NO_VALUE || !hyp_op_is_weight(node->op, i, node->input_count)) return v;
    const hyp_value *value = &g->values.data[v];
    const hyp_node *by = value->kind == HYP_VALUE_NODE ? &g->nodes.data[value->producer] : NULL;
    if (!by || by->op != HYP_OP_transpose || by->attrs[0].count != 2 || by->attrs[0].dims[0] != 1) return v;
    *out_transposed = true;
    return by->inputs[0];
}

const hyp_node *hyp_ow_projection(const hyp_graph *g, const hyp_node *node)
{
    if (node->op != HYP_OP_lstm && node->op != HYP_OP_gru && node->op != HYP_OP_rnn) return NULL;
    const hyp_value *x = &g->values.data[node->inputs[0]];
    if (x->kind != HYP_VALUE_NODE || g->nodes.data[x->producer].op != HYP_OP_linear) return NULL;
    for (size_t n = 0, readers = 0; n < g->nodes.len; n++)
        for (uint32_t i = 0; i < g->nodes.data[n].input_count; i++)
            if (g->nodes.data[n].inputs[i] == node->inputs[0] && ++readers > 1) return NULL;
    for (size_t o = 0; o < g->outputs.len; o++)
        if (g->outputs.data[o].value == node->inputs[0]) return NULL;
    return &g->nodes.data[x->producer];
}

/* ---- products ---------------------------------------------------------------------------------------------- */

/* x w^T + b; `b` is the index of the bias, the weight precedes it. */
static const char *layer(hyp_ow *w, uint32_t b, const char *x, int32_t rank)
{
    bool transposed;
    const char *weight = hyp_ow_value(w, hyp_ow_weight_of(w->g, w->node, b - 1, &transposed)), *bias = hyp_ow_in(w, b);
    if (rank == 2 && bias) {
        hyp_ow_int(w, "transB", !transposed);
        return hyp_ow_op(w, "Gemm", x, weight, bias);
    }
    if (!transposed) weight = hyp_ow_swap(w, weight, 2);
    const char *y = hyp_ow_op(w, "MatMul", x, weight);
    return bias ? hyp_ow_op(w, "Add", y, bias) : y;
}

static const char *activation(hyp_ow *w, const char *name, const char *x, hyp_dtype dtype)
{
    hyp_op op = HYP_OP_identity;
    hyp_activation_find(name, &op);
    return op == HYP_OP_identity ? x : hyp_ow_unary(w, op, NULL, x, dtype);
}

const char *hyp_ow_linear(hyp_ow *w)
{
    const hyp_type *x = hyp_ow_type(w, 2);
    const char *y = layer(w, 1, hyp_ow_in(w, 2), x->rank);
    return w->node->op == HYP_OP_fused_linear ? activation(w, w->node->attrs[0].sym, y, x->dtype) : y;
}

const char *hyp_ow_linear_ms(hyp_ow *w)
{
    static const char *const names[][2] = {{"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};
    if (hyp_ow_type(w, 2)->rank != 2 || hyp_ow_type(w, 2)->dtype != HYP_F32) return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool transposed;
        if (strcmp(w->node->attrs[0].sym, names[i][0]) != 0) continue;
        const char *x = hyp_ow_in(w, 2);
        const char *weight = hyp_ow_value(w, hyp_ow_weight_of(w->g, w->node, 0, &transposed)), *bias = hyp_ow_in(w, 1);
        hyp_ow_int(w, "transB", !transposed);
        hyp_ow_text(w, "activation", names[i][1], strlen(names[i][1]));
        return hyp_ow_op(w, "com.microsoft::FusedGemm", x, weight, bias);
    }
    return NULL;
}

/* With what is added, in front of the activation or behind it. */
static const char *added(hyp_ow *w, const char *y, const char *add, const char *act, const char *place, hyp_dtype dtype)
{
    bool before = strcmp(place, "before") == 0;
    if (add && before) y = hyp_ow_op(w, "Add", y, add);
    y = activation(w, act, y, dtype);
    return add && !before ? hyp_ow_op(w, "Add", y, add) : y;
}

const char *hyp_ow_linear_add(hyp_ow *w)
{
    const hyp_type *x = hyp_ow_type(w, 3);
    const char *y = layer(w, 1, hyp_ow_in(w, 3), x->rank);
    return added(w, y, hyp_ow_in(w, 2), w->node->attrs[0].sym, w->node->attrs[1].sym, x->dtype);
}

const char *hyp_ow_mlp(hyp_ow *w)
{
    uint32_t last = w->node->input_count - 1;
    const hyp_type *x = hyp_ow_type(w, last);
    const char *y = hyp_ow_in(w, last);
    for (uint32_t i = 0; i < w->node->attrs[0].count; i++)
        y = activation(w, w->node->attrs[0].syms[i], layer(w, 2 * i + 1, y, x->rank), x->dtype);
    return y;
}

/* In f32 throughout, and rounded once. */
const char *hyp_ow_quantized(hyp_ow *w)
{
    enum { X_SCALE, W_SCALE, ACT, ADD, TO };
    const hyp_attr *a = w->node->attrs;
    hyp_dtype to = hyp_ow_result_type(w, 0)->dtype;
    const char *x = hyp_ow_cast(w, hyp_ow_in(w, 3), HYP_F8E4M3, HYP_F32);
    const char *weight = hyp_ow_cast(w, hyp_ow_in(w, 0), HYP_F8E4M3, HYP_F32);
    const char *y = hyp_ow_op(w, "MatMul", x, hyp_ow_swap(w, weight, 2)), *bias = hyp_ow_in(w, 1), *add = hyp_ow_in(w, 2);
    y = hyp_ow_op(w, "Mul", y, hyp_ow_scalar(w, HYP_F32, a[X_SCALE].f * a[W_SCALE].f));
    if (bias) y = hyp_ow_op(w, "Add", y, hyp_ow_cast(w, bias, to, HYP_F32));
    if (add) add = hyp_ow_cast(w, add, to, HYP_F32);
    return hyp_ow_cast(w, added(w, y, add, a[ACT].sym, a[ADD].sym, HYP_F32), HYP_F32, to);
}

const char *hyp_ow_matmul(hyp_ow *w)
{
    const hyp_attr *a = w->node->attrs;
    const char *x = hyp_ow_in(w, 0), *y = hyp_ow_in(w, 1);
    int32_t rank[] = {hyp_ow_type(w, 0)->rank, hyp_ow_type(w, 1)->rank};
    if ((a[0].i || a[1].i || a[2].f != 1) && rank[0] == 2 && rank[1] == 2 && hyp_dtype_is_float(hyp_ow_type(w, 0)->dtype)) {
        hyp_ow_attrs(w, "transA=trans-a transB=trans-b alpha");
        return hyp_ow_op(w, "Gemm", x, y);
    }
    if (a[0].i) x = hyp_ow_swap(w, x, rank[0]);
    if (a[1].i) y = hyp_ow_swap(w, y, rank[1]);
    const char *product = hyp_ow_op(w, "MatMul", x, y);
    return a[2].f == 1 ? product : hyp_ow_op(w, "Mul", product, hyp_ow_scalar(w, hyp_ow_type(w, 0)->dtype, a[2].f));
}

const char *hyp_ow_matmul_ms(hyp_ow *w)
{
    const hyp_attr *a = w->node->attrs;
    bool vectors = hyp_ow_type(w, 0)->rank < 2 || hyp_ow_type(w, 1)->rank < 2;
    if ((!a[0].i && !a[1].i && a[2].f == 1) || vectors || hyp_ow_type(w, 0)->dtype != HYP_F32) return NULL;
    const char *x = hyp_ow_in(w, 0), *y = hyp_ow_in(w, 1);
    hyp_ow_attrs(w, "transA=trans-a transB=trans-b alpha");
    return hyp_ow_op(w, "com.microsoft::FusedMatMul", x, y);
}

const char *hyp_ow_gemm(hyp_ow *w)
{
    const char *a = hyp_ow_in(w, 0), *b = hyp_ow_in(w, 1), *c = hyp_ow_in(w, 2);
    hyp_ow_attrs(w, "transA=trans-a transB=trans-b alpha beta");
    return hyp_ow_op(w, "Gemm", a, b, c);
}

const char *hyp_ow_attention(hyp_ow *w)
{
    enum { TRANS_K, ROWS_FIRST, SCALE, FILL, SHOWN, SOFTMAX };
    const hyp_attr *a = w->node->attrs;
    const hyp_type *q = hyp_ow_type(w, 0);
    const char *k = hyp_ow_in(w, 1), *mask = hyp_ow_in(w, 3);
    if (a[TRANS_K].i) k = hyp_ow_swap(w, k, hyp_ow_type(w, 1)->rank);
    const char *scores = hyp_ow_op(w, "MatMul", hyp_ow_in(w, 0), k);
    if (a[SCALE].f != 1) scores = hyp_ow_op(w, "Mul", scores, hyp_ow_scalar(w, q->dtype, a[SCALE].f));
    if (mask && hyp_ow_type(w, 3)->dtype == HYP_BOOL) {
        const char *fill = hyp_ow_scalar(w, q->dtype, a[FILL].f);
        scores = hyp_ow_op(w, "Where", mask, a[SHOWN].i ? scores : fill, a[SHOWN].i ? fill : scores);
    } else if (mask) {
        scores = hyp_ow_op(w, "Add", scores, mask);
    }
    if (a[SOFTMAX].i) {
        hyp_ow_int(w, "axis", -1);
        scores = hyp_ow_op(w, "Softmax", scores);
    }
    const char *y = hyp_ow_op(w, "MatMul", scores, hyp_ow_in(w, 2));
    int64_t rank = hyp_ow_result_type(w, 0)->rank, behind = a[ROWS_FIRST].i, perm[HYP_MAX_RANK];
    if (!behind) return y;
    for (int64_t i = 0; i < rank; i++) /* rows in front of so many axes of heads */
        perm[i] = i < rank - 2 - behind || i == rank - 1 ? i : i == rank - 2 - behind ? rank - 2 : i - 1;
    return hyp_ow_transpose(w, y, perm, (size_t)rank);
}

/* ---- convolutions ------------------------------------------------------------------------------------------ */

enum { CONV_ACT = 4, CONV_SLOPE = 5 };

static const char *const conv_attrs = "strides pads dilations group";

const char *hyp_ow_conv(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *weight = hyp_ow_in(w, 1), *b = hyp_ow_in(w, 2), *z = hyp_ow_in(w, 3);
    const hyp_attr *a = w->node->attrs;
    hyp_dtype dtype = hyp_ow_type(w, 0)->dtype;
    hyp_op act = HYP_OP_identity;
    bool whole = !hyp_dtype_is_float(dtype); /* f64 holds sums of integers, which ONNX does not convolve, as they are */
    if (whole) x = hyp_ow_cast(w, x, dtype, HYP_F64);
    if (whole) weight = hyp_ow_cast(w, weight, dtype, HYP_F64);
    if (whole && b) b = hyp_ow_cast(w, b, dtype, HYP_F64);
    hyp_ow_attrs(w, conv_attrs);
    const char *y = hyp_ow_op(w, "Conv", x, weight, b);
    if (whole) y = hyp_ow_cast(w, hyp_ow_cast(w, y, HYP_F64, HYP_I64), HYP_I64, dtype);
    if (z) y = hyp_ow_op(w, "Add", y, z);
    hyp_conv_activation_find(a[CONV_ACT].sym, &act);
    const hyp_attr six[] = {hyp_attr_of_float(0), hyp_attr_of_float(6)};
    if (act == HYP_OP_identity) return y;
    return hyp_ow_unary(w, act, act == HYP_OP_clip ? six : &a[CONV_SLOPE], y, dtype);
}

const char *hyp_ow_conv_ms(hyp_ow *w)
{
    static const char *const names[][2] = {{"none", ""}, {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};
    const hyp_attr *a = w->node->attrs;
    const char *act = a[CONV_ACT].sym;
    bool sum = hyp_ow_has(w, 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(act, names[i][0]) != 0 || (!*names[i][1] && !sum)) continue;
        if (hyp_ow_type(w, 0)->dtype != HYP_F32 || hyp_ow_type(w, 0)->rank != 4) return NULL;
        const char *x = hyp_ow_in(w, 0), *weight = hyp_ow_in(w, 1), *b = hyp_ow_in(w, 2), *z = hyp_ow_in(w, 3);
        hyp_ow_attrs(w, conv_attrs);
        if (*names[i][1]) hyp_ow_text(w, "activation", names[i][1], strlen(names[i][1]));
        return hyp_ow_op(w, "com.microsoft::FusedConv", x, weight, b, z);
    }
    return NULL;
}

const char *hyp_ow_conv_transpose(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *weight = hyp_ow_in(w, 1), *b = hyp_ow_in(w, 2);
    hyp_ow_attrs(w, "strides pads dilations group output_padding=more");
    return hyp_ow_op(w, "ConvTranspose", x, weight, b);
}

/* ---- norms ------------------------------------------------------------------------------------------------- */

static int32_t axis_of(const hyp_ow *w, uint32_t attr, int32_t rank)
{
    int64_t axis = w->node->attrs[attr].i;
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

const char *hyp_ow_layer_norm(hyp_ow *w)
{
    const hyp_type *x = hyp_ow_type(w, 0);
    int32_t axis = axis_of(w, 0, x->rank);
    const char *in = hyp_ow_in(w, 0), *scale = hyp_ow_in(w, 1), *bias = hyp_ow_in(w, 2), *out[3];
    if (!scale) scale = hyp_ow_full(w, hyp_ow_dims(w, x->dims + axis, (size_t)(x->rank - axis)), x->dtype, 1);
    hyp_ow_attrs(w, "axis epsilon");
    hyp_ow_nodes(w, "LayerNormalization", (const char *const[]){in, scale, bias}, 3, out, w->node->output_count);
    for (uint32_t i = 0; i < w->node->output_count; i++) hyp_ow_give(w, i, out[i]);
    return NULL;
}

/* In f32 where x has less. */
const char *hyp_ow_rms_norm(hyp_ow *w)
{
    const hyp_type *type = hyp_ow_type(w, 0);
    hyp_dtype wide = hyp_dtype_wide(type->dtype);
    int64_t axes[HYP_MAX_RANK], count = 0;
    for (int32_t i = axis_of(w, 0, type->rank); i < type->rank; i++) axes[count++] = i;
    const char *x = hyp_ow_cast(w, hyp_ow_in(w, 0), type->dtype, wide), *scale = hyp_ow_in(w, 1);
    const char *square = hyp_ow_op(w, "Mul", x, x), *axis_list = hyp_ow_list(w, axes, (size_t)count);
    hyp_ow_int(w, "keepdims", 1);
    const char *mean = hyp_ow_op(w, "ReduceMean", square, axis_list);
    const char *root = hyp_ow_op(w, "Sqrt", hyp_ow_op(w, "Add", mean, hyp_ow_scalar(w, wide, w->node->attrs[1].f)));
    const char *y = hyp_ow_op(w, "Div", x, root);
    if (scale) y = hyp_ow_op(w, "Mul", y, hyp_ow_cast(w, scale, type->dtype, wide));
    return hyp_ow_cast(w, y, wide, type->dtype);
}

/* ---- recurrences ------------------------------------------------------------------------------------------- */

typedef struct recurrence {
    const char *op;
    int64_t gates;
    uint32_t lengths; /* index of an input; the first states are behind it */
    uint32_t acts;
} recurrence;

/* [size..] as the one direction of a list of such. */
static const char *direction(hyp_ow *w, const char *x) { return x ? hyp_ow_unsqueeze(w, x, 0) : NULL; }

/* Biases of what the input says and of what the state says, one after the other: either may be NULL, for zeros. */
static const char *biases(hyp_ow *w, const char *of_x, const char *of_state, int64_t size, hyp_dtype dtype)
{
    if (!of_x && !of_state) return NULL;
    const char *zeros = !of_x || !of_state ? hyp_ow_full(w, hyp_ow_list(w, &size, 1), dtype, 0) : NULL;
    hyp_ow_int(w, "axis", 0);
    return direction(w, hyp_ow_op(w, "Concat", of_x ? of_x : zeros, of_state ? of_state : zeros));
}

/* The bias that the state's product with the candidate's weight has. */
static const char *candidate_bias(hyp_ow *w, int64_t size, hyp_dtype dtype)
{
    if (w->node->op != HYP_OP_gru || !hyp_ow_has(w, 2)) return NULL;
    int64_t two = 2 * size;
    const char *zeros = hyp_ow_full(w, hyp_ow_list(w, &two, 1), dtype, 0), *b = hyp_ow_in(w, 2);
    hyp_ow_int(w, "axis", 0);
    return hyp_ow_op(w, "Concat", zeros, b);
}

/* What ONNX makes of the input is there already: W is the layer that did it, or leaves things as they are. */
static void read_input(hyp_ow *w, int64_t columns, hyp_dtype dtype, const char *in[3])
{
    const hyp_node *layer_of = hyp_ow_projection(w->g, w->node), *node = w->node;
    if (layer_of) {
        in[0] = hyp_ow_value(w, layer_of->inputs[2]);
        in[1] = hyp_ow_value(w, layer_of->inputs[0]);
        in[2] = layer_of->inputs[1] == HYP_NO_VALUE ? NULL : hyp_ow_value(w, layer_of->inputs[1]);
        return;
    }
    const int64_t square[] = {columns, columns};
    in[0] = hyp_ow_value(w, node->inputs[0]);
    in[2] = NULL;
    const char *zeros = hyp_ow_full(w, hyp_ow_list(w, square, 2), dtype, 0);
    in[1] = hyp_ow_op(w, "EyeLike", zeros);
}

static void put_activations(hyp_ow *w, uint32_t count)
{
    /* The names that attributes have, as ONNX has them: a list of strings, one field each. */
    const char *names[3];
    for (uint32_t i = 0; i < count; i++) {
        const char *name = w->node->attrs[2 + i].sym;
        names[i] = strcmp(name, "sigmoid") == 0 ? "Sigmoid" : strcmp(name, "tanh") == 0 ? "Tanh" : "Relu";
    }
    hyp_ow_texts(w, "activations", names, count);
}

static const char *recur(hyp_ow *w, const recurrence *r)
{
    const hyp_attr *a = w->node->attrs;
    hyp_dtype dtype = hyp_ow_type(w, 0)->dtype;
    int64_t size = hyp_ow_type(w, 1)->dims[0], columns = size * r->gates;
    const char *x[3], *in[8] = {0}, *out[3], *way = a[0].i ? "reverse" : "forward";
    bool is_lstm = w->node->op == HYP_OP_lstm;
    read_input(w, columns, dtype, x);
    in[0] = x[0];
    in[1] = direction(w, x[1]);
    in[2] = direction(w, hyp_ow_swap(w, hyp_ow_in(w, 1), 2));
    in[3] = biases(w, x[2], candidate_bias(w, size, dtype), columns, dtype);
    if (hyp_ow_has(w, r->lengths))
        in[4] = hyp_ow_cast(w, hyp_ow_in(w, r->lengths), hyp_ow_type(w, r->lengths)->dtype, HYP_I32);
    in[5] = direction(w, hyp_ow_in(w, r->lengths + 1));
    if (is_lstm) in[6] = direction(w, hyp_ow_in(w, r->lengths + 2));
    if (is_lstm) in[7] = direction(w, hyp_ow_in(w, r->lengths + 3));
    hyp_ow_int(w, "hidden_size", size);
    hyp_ow_text(w, "direction", way, strlen(way));
    put_activations(w, r->acts);
    if (a[1].f > 0) hyp_ow_float(w, "clip", a[1].f);
    if (is_lstm && a[5].i) hyp_ow_int(w, "input_forget", 1);
    if (w->node->op == HYP_OP_gru) hyp_ow_int(w, "linear_before_reset", a[4].i);
    hyp_ow_nodes(w, r->op, in, 8, out, w->node->output_count);
    hyp_ow_give(w, 0, hyp_ow_squeeze(w, out[0], 1));
    for (uint32_t i = 1; i < w->node->output_count; i++) hyp_ow_give(w, i, hyp_ow_squeeze(w, out[i], 0));
    return NULL;
}

const char *hyp_ow_lstm(hyp_ow *w) { return recur(w, &(recurrence){"LSTM", 4, 2, 3}); }
const char *hyp_ow_gru(hyp_ow *w) { return recur(w, &(recurrence){"GRU", 3, 3, 2}); }
const char *hyp_ow_rnn(hyp_ow *w) { return recur(w, &(recurrence){"RNN", 1, 2, 1}); }
