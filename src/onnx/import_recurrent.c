/* Sequences with a state. LSTM, GRU and RNN: for each direction one product of the whole input with its weights, and
 * the recurrence. Causal convolution with the past that it needs. */
#include <string.h>

#include "onnx/import.h"

enum { MAX_ACTS = 3, MAX_RESULTS = 4 };

typedef struct recurrent {
    hyp_onnx_node *n;
    hyp_op op;
    uint32_t gates, acts, results; /* of one direction: activations, and results of the operator in the graph */
    bool batch_first;
    hyp_dim size; /* of the state */
    uint32_t directions;
    bool backward[2];
    const char *act[2][MAX_ACTS];
    double clip;
} recurrent;

/* ---- attributes ----------------------------------------------------------------------------------- */

static hyp_status find_activation(const recurrent *k, const char *name, const char **out)
{
    static const char *const names[][2] = {{"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Relu", "relu"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name && strcmp(name, names[i][0]) == 0) return *out = names[i][1], HYP_OK;
    return hyp_fail(k->n->im->diag, HYP_ERR_UNSUPPORTED,
                    "activation \"%s\" is not supported; supported are: Sigmoid Tanh Relu", name ? name : "");
}

static hyp_status read_activations(recurrent *k)
{
    static const char *const lstm[] = {"Sigmoid", "Tanh", "Tanh"};
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(k->n, "activations");
    const char *const *defaults = k->gates == 1 ? lstm + 1 : lstm;
    if (a && a->n_strings && a->n_strings != (size_t)k->acts * k->directions)
        return hyp_fail(k->n->im->diag, HYP_ERR_MALFORMED, "has %zu activations, %u are wanted", a->n_strings,
                        k->acts * k->directions);
    for (uint32_t d = 0; d < k->directions; d++)
        for (uint32_t i = 0; i < k->acts; i++) {
            const char *name = defaults[i];
            if (a && a->n_strings) {
                const ProtobufCBinaryData *s = &a->strings[d * k->acts + i];
                name = hyp_arena_strndup(&k->n->im->arena, (const char *)s->data, s->len);
                if (!name) return hyp_fail_memory(k->n->im->diag, s->len);
            }
            HYP_TRY(find_activation(k, name, &k->act[d][i]));
        }
    return HYP_OK;
}

static hyp_status read_attributes(recurrent *k)
{
    static const char *const directions[] = {"forward", "reverse", "bidirectional", NULL};
    hyp_onnx_node *n = k->n;
    const char *direction;
    int64_t layout;
    HYP_TRY(hyp_onnx_attr_choice(n, "direction", directions, &direction));
    HYP_TRY(hyp_onnx_attr_int(n, "layout", 0, &layout));
    HYP_TRY(hyp_onnx_attr_float(n, "clip", 0, &k->clip));
    k->directions = direction == directions[2] ? 2 : 1;
    k->backward[0] = direction == directions[1];
    k->backward[1] = true;
    k->batch_first = layout != 0;
    HYP_TRY(read_activations(k));
    const hyp_type w = hyp_onnx_input_type(n, 1), r = hyp_onnx_input_type(n, 2);
    if (w.rank != 3 || r.rank != 3 || w.dims[0] != k->directions || r.dims[0] != k->directions)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the weights should have 3 axes, the first of %u",
                        k->directions);
    k->size = r.dims[2];
    return HYP_OK;
}

/* ---- parts of the inputs ---------------------------------------------------------------------------- */

/* Entry d of an axis, which goes. *out is HYP_NO_VALUE for an input that is absent. */
static hyp_status part(const recurrent *k, uint32_t input, int32_t axis, uint32_t d, hyp_value_id *out)
{
    *out = HYP_NO_VALUE;
    if (!hyp_onnx_has_input(k->n, input)) return HYP_OK;
    hyp_type t = hyp_onnx_input_type(k->n, input);
    if (axis >= t.rank || t.dims[axis] != k->directions)
        return hyp_fail(k->n->im->diag, HYP_ERR_MALFORMED, "input %u should have %u directions along axis %d", input,
                        k->directions, axis);
    HYP_TRY(hyp_onnx_emit_part(k->n, k->n->inputs[input], axis, d, 1, 1, out));
    hyp_attr axes = hyp_attr_of_dims(&(hyp_dim){axis}, 1);
    return hyp_onnx_emit(k->n, HYP_OP_squeeze, out, 1, &axes, out, 1);
}

/* `count` gates of a vector from gate `first` on. */
static hyp_status gates_of(const recurrent *k, hyp_value_id v, uint32_t first, uint32_t count, hyp_value_id *out)
{
    hyp_dims *dims = k->n->im->g->dims;
    hyp_dim start, size;
    HYP_TRY(hyp_dim_mul(dims, k->size, first, &start, k->n->im->diag));
    HYP_TRY(hyp_dim_mul(dims, k->size, count, &size, k->n->im->diag));
    return hyp_onnx_emit_part(k->n, v, 0, start, size, 1, out);
}

/* The biases of input and state are one, but for that of a GRU's candidate, which its reset gate may take: *out_own. */
static hyp_status add_bias(const recurrent *k, uint32_t d, hyp_value_id *x, hyp_value_id *out_own)
{
    hyp_value_id b, of_x, of_h;
    *out_own = HYP_NO_VALUE;
    HYP_TRY(part(k, 3, 0, d, &b));
    if (b == HYP_NO_VALUE) return HYP_OK;
    HYP_TRY(gates_of(k, b, 0, k->gates, &of_x));
    if (k->gates == 3) {
        hyp_value_id first, last;
        hyp_attr axis = hyp_attr_of_int(0);
        HYP_TRY(gates_of(k, of_x, 0, 2, &first));
        HYP_TRY(gates_of(k, b, 3, 2, &of_h));
        HYP_TRY(hyp_onnx_emit_binary(k->n, HYP_OP_add, first, of_h, &first));
        HYP_TRY(gates_of(k, of_x, 2, 1, &last));
        HYP_TRY(hyp_onnx_emit(k->n, HYP_OP_concat, (hyp_value_id[]){first, last}, 2, &axis, &of_x, 1));
        HYP_TRY(gates_of(k, b, 5, 1, out_own));
    } else {
        HYP_TRY(gates_of(k, b, k->gates, k->gates, &of_h));
        HYP_TRY(hyp_onnx_emit_binary(k->n, HYP_OP_add, of_x, of_h, &of_x));
    }
    return hyp_onnx_emit_binary(k->n, HYP_OP_add, *x, of_x, x);
}

/* ---- the node --------------------------------------------------------------------------------------- */

static hyp_status import_direction(const recurrent *k, hyp_value_id x, uint32_t d, hyp_value_id *outs)
{
    hyp_onnx_node *n = k->n;
    hyp_value_id w, r, bias, in[6];
    hyp_attr attrs[6] = {hyp_attr_of_int(k->backward[d]), hyp_attr_of_float(k->clip)};
    int64_t option;
    uint32_t count = 0, attr = 2;
    HYP_TRY(part(k, 1, 0, d, &w));
    HYP_TRY(part(k, 2, 0, d, &r));
    HYP_TRY(hyp_onnx_emit_matmul(n, x, w, true, 1, &x));
    HYP_TRY(add_bias(k, d, &x, &bias));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_transpose, r, (hyp_dim[]){1, 0}, 2, &r));
    in[count++] = x;
    in[count++] = r;
    if (k->gates == 3) in[count++] = bias;
    in[count++] = hyp_onnx_has_input(n, 4) ? n->inputs[4] : HYP_NO_VALUE;
    HYP_TRY(part(k, 5, k->batch_first ? 1 : 0, d, &in[count++]));
    if (k->gates == 4) {
        HYP_TRY(part(k, 6, k->batch_first ? 1 : 0, d, &in[count++]));
        HYP_TRY(part(k, 7, 0, d, &in[count++]));
    }
    for (uint32_t i = 0; i < k->acts; i++) attrs[attr++] = hyp_attr_of_sym(k->act[d][i]);
    if (k->gates != 1) {
        HYP_TRY(hyp_onnx_attr_int(n, k->gates == 3 ? "linear_before_reset" : "input_forget", 0, &option));
        attrs[attr++] = hyp_attr_of_int(option != 0);
    }
    while (count > 2 && in[count - 1] == HYP_NO_VALUE) count--;
    return hyp_onnx_emit(n, k->op, in, count, attrs, outs, k->results);
}

/* The results of the directions along a new axis, in the order of the layout. */
static hyp_status join(const recurrent *k, const hyp_value_id *each, uint32_t stride, bool sequence, hyp_value_id *out)
{
    hyp_value_id parts[2];
    hyp_attr axis = hyp_attr_of_int(sequence ? 1 : 0), axes = hyp_attr_of_dims(&axis.i, 1);
    for (uint32_t d = 0; d < k->directions; d++)
        HYP_TRY(hyp_onnx_emit(k->n, HYP_OP_unsqueeze, &each[d * stride], 1, &axes, &parts[d], 1));
    *out = parts[0];
    if (k->directions == 2) HYP_TRY(hyp_onnx_emit(k->n, HYP_OP_concat, parts, 2, &axis, out, 1));
    if (!k->batch_first) return HYP_OK;
    return sequence ? hyp_onnx_emit_dims(k->n, HYP_OP_transpose, *out, (hyp_dim[]){2, 0, 1, 3}, 4, out)
                    : hyp_onnx_emit_dims(k->n, HYP_OP_transpose, *out, (hyp_dim[]){1, 0, 2}, 3, out);
}

static hyp_status import_recurrent(hyp_onnx_node *n)
{
    recurrent k = {.n = n, .op = n->op->op, .gates = 1, .acts = 1, .results = 2};
    hyp_value_id x = n->inputs[0], outs[2 * MAX_RESULTS];
    if (n->op->op == HYP_OP_gru) k.gates = 3, k.acts = 2;
    if (n->op->op == HYP_OP_lstm) k.gates = 4, k.acts = k.results = 3;
    if (n->op->op == HYP_OP_lstm && n->im->options->states) k.op = HYP_OP_lstm_cells, k.results = 4; /* training reads them */
    HYP_TRY(read_attributes(&k));
    if (hyp_onnx_input_type(n, 0).rank != 3)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "x has rank %d, 3 is wanted", hyp_onnx_input_type(n, 0).rank);
    if (k.batch_first) HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_transpose, x, (hyp_dim[]){1, 0, 2}, 3, &x));
    for (uint32_t d = 0; d < k.directions; d++) HYP_TRY(import_direction(&k, x, d, &outs[d * k.results]));
    for (uint32_t i = 0; i < n->output_count; i++) HYP_TRY(join(&k, &outs[i], k.results, i == 0, &n->outputs[i]));
    return HYP_OK;
}

/* Depthwise along the last axis, behind the last k-1 values of the past, which are 0 at first; the new past is the
 * second output. Inputs: x, weights [channels 1 k], bias, past. */
static hyp_status import_causal_conv(hyp_onnx_node *n)
{
    static const char *const activations[] = {"none", "silu", "swish", NULL};
    hyp_dims *dims = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_type x = hyp_onnx_input_type(n, 0), w = hyp_onnx_input_type(n, 1);
    hyp_value_id padded, zero;
    const char *activation;
    HYP_TRY(hyp_onnx_attr_choice(n, "activation", activations, &activation));
    if (x.rank != 3 || w.rank != 3 || !hyp_dim_is_const(w.dims[0]) || !hyp_dim_is_const(w.dims[2]) || w.dims[2] < 1)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "x and the weights should have 3 axes, those of the weights fixed");
    const hyp_dim reach = w.dims[2] - 1, ones[] = {1}, none[] = {0, 0, 0}, before[] = {0, 0, reach};
    if (hyp_onnx_has_input(n, 3)) {
        hyp_attr axis = hyp_attr_of_int(2);
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_concat, (hyp_value_id[]){n->inputs[3], n->inputs[0]}, 2, &axis, &padded, 1));
    } else {
        hyp_attr sizes[] = {hyp_attr_of_dims(before, 3), hyp_attr_of_dims(none, 3)};
        HYP_TRY(hyp_onnx_add_scalar(n, x.dtype, 0, &zero));
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_pad, (hyp_value_id[]){n->inputs[0], zero}, 2, sizes, &padded, 1));
    }
    hyp_attr attrs[] = {hyp_attr_of_dims(ones, 1), hyp_attr_of_dims(none, 2), hyp_attr_of_dims(ones, 1),
                        hyp_attr_of_int(w.dims[0]), hyp_attr_of_sym("none"), hyp_attr_of_float(0)};
    hyp_value_id operands[] = {padded, n->inputs[1], hyp_onnx_has_input(n, 2) ? n->inputs[2] : HYP_NO_VALUE};
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_conv, operands, operands[2] == HYP_NO_VALUE ? 2 : 3, attrs, n->outputs, 1));
    if (activation != activations[0]) HYP_TRY(hyp_onnx_emit(n, HYP_OP_silu, n->outputs, 1, NULL, n->outputs, 1));
    if (n->output_count < 2) return HYP_OK;
    hyp_dim start;
    HYP_TRY(hyp_dim_sub(dims, hyp_onnx_value_type(n, padded).dims[2], reach, &start, diag));
    return hyp_onnx_emit_part(n, padded, 2, start, reach, 1, &n->outputs[1]);
}

#define ATTRIBUTES "activations clip direction hidden_size layout "

static const hyp_onnx_operator rows[] = {
    {"CausalConvWithState", 27, 2, 4, 2, "activation ", import_causal_conv, HYP_OP_conv},
    {"GRU", 7, 3, 6, 2, ATTRIBUTES "linear_before_reset ", import_recurrent, HYP_OP_gru},
    {"LSTM", 7, 3, 8, 3, ATTRIBUTES "input_forget ", import_recurrent, HYP_OP_lstm},
    {"RNN", 7, 3, 6, 2, ATTRIBUTES, import_recurrent, HYP_OP_rnn},
};
const hyp_onnx_family hyp_onnx_recurrent = {rows, sizeof rows / sizeof *rows};
