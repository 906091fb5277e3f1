/* Operators that pick elements by index, put them into places, or look for them. */
#include <string.h>

#include "onnx/import.h"

static hyp_status axis_attr(const hyp_onnx_node *n, const char *name, int64_t missing, int32_t rank, int64_t *out)
{
    HYP_TRY(hyp_onnx_attr_int(n, name, missing, out));
    return hyp_onnx_axis(n, *out, rank, out);
}

static hyp_status import_gather_elements(hyp_onnx_node *n)
{
    hyp_attr axis = hyp_attr_of_int(0);
    HYP_TRY(axis_attr(n, "axis", 0, hyp_onnx_input_type(n, 0).rank, &axis.i));
    return hyp_onnx_emit(n, HYP_OP_gather_elements, n->inputs, 2, &axis, n->outputs, 1);
}

static hyp_status import_gather_nd(hyp_onnx_node *n)
{
    hyp_attr batch = hyp_attr_of_int(0);
    HYP_TRY(hyp_onnx_attr_int(n, "batch_dims", 0, &batch.i));
    return hyp_onnx_emit(n, HYP_OP_gather_nd, n->inputs, 2, &batch, n->outputs, 1);
}

static const char *const reductions[] = {"none", "add", "mul", "min", "max", NULL};

static hyp_status import_scatter_elements(hyp_onnx_node *n)
{
    hyp_attr attrs[] = {hyp_attr_of_int(0), hyp_attr_of_sym(NULL)};
    HYP_TRY(axis_attr(n, "axis", 0, hyp_onnx_input_type(n, 0).rank, &attrs[0].i));
    HYP_TRY(hyp_onnx_attr_choice(n, "reduction", reductions, &attrs[1].sym));
    return hyp_onnx_emit(n, HYP_OP_scatter_elements, n->inputs, 3, attrs, n->outputs, 1);
}

static hyp_status import_scatter_nd(hyp_onnx_node *n)
{
    hyp_attr attr = hyp_attr_of_sym(NULL);
    HYP_TRY(hyp_onnx_attr_choice(n, "reduction", reductions, &attr.sym));
    return hyp_onnx_emit(n, HYP_OP_scatter_nd, n->inputs, 3, &attr, n->outputs, 1);
}

static hyp_status import_tensor_scatter(hyp_onnx_node *n)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    hyp_attr attrs[] = {hyp_attr_of_int(0), hyp_attr_of_sym(NULL)};
    HYP_TRY(axis_attr(n, "axis", -2, hyp_onnx_input_type(n, 0).rank, &attrs[0].i));
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", modes, &attrs[1].sym));
    return hyp_onnx_emit(n, HYP_OP_tensor_scatter, n->inputs, n->input_count, attrs, n->outputs, 1);
}

static hyp_status import_reverse_sequence(hyp_onnx_node *n)
{
    int32_t rank = hyp_onnx_input_type(n, 0).rank;
    hyp_attr attrs[] = {hyp_attr_of_int(0), hyp_attr_of_int(0)};
    HYP_TRY(axis_attr(n, "batch_axis", 1, rank, &attrs[0].i));
    HYP_TRY(axis_attr(n, "time_axis", 0, rank, &attrs[1].i));
    return hyp_onnx_emit(n, HYP_OP_reverse_sequence, n->inputs, 2, attrs, n->outputs, 1);
}

static hyp_status import_topk(hyp_onnx_node *n)
{
    int64_t axis, largest, k;
    hyp_onnx_ints list;
    hyp_value_id outs[2];
    HYP_TRY(axis_attr(n, "axis", -1, hyp_onnx_input_type(n, 0).rank, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "largest", 1, &largest));
    HYP_TRY(hyp_onnx_attr_int(n, "k", -1, &k));
    HYP_TRY(hyp_onnx_input_ints(n, 1, "k", &list));
    if (!list.present) list.items[list.count++] = k;
    if (list.count != 1) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "k should be one number");
    hyp_attr attrs[] = {hyp_attr_of_int(axis), hyp_attr_of_dims(list.items, 1), hyp_attr_of_int(largest != 0)};
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_topk, n->inputs, 1, attrs, outs, 2));
    memcpy(n->outputs, outs, n->output_count * sizeof *outs);
    return HYP_OK;
}

/* The depth may be of any type of numbers; a symbolic one is an integer. */
static hyp_status read_depth(const hyp_onnx_node *n, hyp_dim *out)
{
    hyp_dtype dtype = hyp_onnx_input_type(n, 1).dtype;
    hyp_onnx_ints list = {0};
    if (dtype == HYP_I64 || dtype == HYP_I32) {
        HYP_TRY(hyp_onnx_input_ints(n, 1, "depth", &list));
    } else {
        hyp_eval_tensor t;
        hyp_status status = hyp_onnx_constant(n, 1, "depth", &t);
        if (status == HYP_OK && t.count == 1) list.items[list.count++] = t.f ? (int64_t)t.f[0] : t.i[0];
        hyp_eval_tensor_dispose(&t);
        HYP_TRY(status);
    }
    if (list.count != 1) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the depth should be one number");
    *out = list.items[0];
    return HYP_OK;
}

static hyp_status import_one_hot(hyp_onnx_node *n)
{
    int64_t axis;
    hyp_dim depth;
    HYP_TRY(axis_attr(n, "axis", -1, hyp_onnx_input_type(n, 0).rank + 1, &axis));
    HYP_TRY(read_depth(n, &depth));
    hyp_value_id inputs[] = {n->inputs[0], n->inputs[2]};
    hyp_attr attrs[] = {hyp_attr_of_int(axis), hyp_attr_of_dims(&depth, 1)};
    return hyp_onnx_emit(n, HYP_OP_one_hot, inputs, 2, attrs, n->outputs, 1);
}

static const hyp_onnx_operator rows[] = {
    {"GatherElements", 11, 2, 2, 1, "axis ", import_gather_elements, HYP_OP_gather_elements},
    {"GatherND", 11, 2, 2, 1, "batch_dims ", import_gather_nd, HYP_OP_gather_nd},
    {"OneHot", 9, 3, 3, 1, "axis ", import_one_hot, HYP_OP_one_hot},
    {"ReverseSequence", 10, 2, 2, 1, "batch_axis time_axis ", import_reverse_sequence, HYP_OP_reverse_sequence},
    {"Scatter", 9, 3, 3, 1, "axis ", import_scatter_elements, HYP_OP_scatter_elements},
    {"ScatterElements", 11, 3, 3, 1, "axis reduction ", import_scatter_elements, HYP_OP_scatter_elements},
    {"ScatterND", 11, 3, 3, 1, "reduction ", import_scatter_nd, HYP_OP_scatter_nd},
    {"TensorScatter", 24, 2, 3, 1, "axis mode ", import_tensor_scatter, HYP_OP_tensor_scatter},
    {"TopK", 7, 1, 2, 2, "axis k largest sorted ", import_topk, HYP_OP_topk},
};
const hyp_onnx_family hyp_onnx_scatter = {rows, sizeof rows / sizeof *rows};
