/* Operators whose result is as large as the data say: computed now where these are constant, else with a size that only
 * a run knows (data_size.c). */
#include <string.h>

#include "onnx/import.h"

enum { MOST_RESULTS = 5, MOST_INPUTS = 5 };

/* A node of the IR on its way: attribute 0 is the room for the result, and the last result how many there are. */
typedef struct selection {
    hyp_op op;
    hyp_attr attrs[3]; /* the first is size */
    hyp_dim most, size;
    uint32_t results;
    int32_t axes[MOST_RESULTS]; /* of each result the one that has the size; -1: none */
} selection;

/* The part of a result that means something, as a constant. */
static hyp_status add_part(const hyp_onnx_node *n, const hyp_eval_tensor *t, int32_t axis, int64_t count,
                           hyp_value_id *out)
{
    hyp_type type = {.dtype = t->dtype, .rank = t->rank};
    size_t size = hyp_dtype_size(t->dtype), outer = 1, inner = 1;
    for (int32_t a = 0; a < t->rank; a++) type.dims[a] = t->dims[a];
    for (int32_t a = 0; a < axis; a++) outer *= (size_t)t->dims[a];
    for (int32_t a = axis + 1; a < t->rank; a++) inner *= (size_t)t->dims[a];
    size_t have = axis < 0 ? 1 : (size_t)t->dims[axis], keep = axis < 0 ? 1 : (size_t)count;
    if (axis >= 0) type.dims[axis] = count;
    char *data = hyp_arena_alloc(&n->im->g->arena, t->count * size + 1);
    if (!data) return hyp_fail_memory(n->im->diag, t->count * size);
    hyp_eval_tensor_store(t, data);
    hyp_cut_axis(data, outer, have * inner * size, keep * inner * size);
    return hyp_graph_add_const(n->im->g, NULL, &type, data, outer * keep * inner * size, false, out, n->im->diag);
}

static hyp_status compute(const hyp_onnx_node *n, const selection *s, const hyp_eval_tensor *const *in,
                          uint32_t input_count, hyp_value_id *outs)
{
    hyp_eval_tensor results[MOST_RESULTS] = {{0}};
    HYP_TRY(hyp_op_eval(n->im->g->dims, s->op, s->attrs, HYP_EVAL_NATIVE, in, input_count, results, s->results, NULL,
                        n->im->diag));
    hyp_status status = HYP_OK;
    int64_t count = results[s->results - 1].i[0];
    outs[s->results - 1] = HYP_NO_VALUE; /* it is in the shapes now */
    for (uint32_t i = 0; i + 1 < s->results && status == HYP_OK; i++)
        status = add_part(n, &results[i], s->axes[i], count, &outs[i]);
    for (uint32_t i = 0; i < s->results; i++) hyp_eval_tensor_dispose(&results[i]);
    return status;
}

/* The elements of all inputs, as far as they are constant; *out_all says whether all are. */
static hyp_status read_constants(const hyp_onnx_node *n, const hyp_value_id *inputs, uint32_t count,
                                 hyp_eval_tensor *tensors, const hyp_eval_tensor **in, bool *out_all)
{
    *out_all = true;
    for (uint32_t i = 0; i < count && *out_all; i++) {
        if (inputs[i] == HYP_NO_VALUE) continue;
        hyp_onnx_node one = *n;
        one.inputs = &inputs[i];
        one.input_count = 1;
        hyp_status status = hyp_onnx_constant(&one, 0, "which decides the size of the result", &tensors[i]);
        if (status != HYP_OK && status != HYP_ERR_UNSUPPORTED) return status;
        *out_all = status == HYP_OK;
        in[i] = &tensors[i];
    }
    if (!*out_all) *n->im->diag = (hyp_diag){0};
    return HYP_OK;
}

static hyp_status emit(const hyp_onnx_node *n, selection *s, const hyp_value_id *inputs, uint32_t input_count,
                       hyp_value_id *outs)
{
    hyp_eval_tensor tensors[MOST_INPUTS] = {{0}};
    const hyp_eval_tensor *in[MOST_INPUTS] = {0};
    hyp_importer *im = n->im;
    bool constant;
    s->size = s->most;
    s->attrs[0] = hyp_attr_of_dims(&s->size, 1);
    hyp_status status = read_constants(n, inputs, input_count, tensors, in, &constant);
    if (status == HYP_OK && constant) {
        status = compute(n, s, in, input_count, outs);
    } else if (status == HYP_OK) {
        status = hyp_onnx_new_data_size(n, s->most, &s->size);
        if (status == HYP_OK) status = hyp_onnx_emit(n, s->op, inputs, input_count, s->attrs, outs, s->results);
        if (status == HYP_OK) im->data_sizes.data[im->data_sizes.len - 1].count = outs[s->results - 1];
    }
    for (uint32_t i = 0; i < MOST_INPUTS; i++) hyp_eval_tensor_dispose(&tensors[i]);
    return status;
}

/* ---- nonzero, compress ----------------------------------------------------------------------------------------- */

static hyp_status find_places(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id *out)
{
    selection s = {.op = HYP_OP_nonzero, .results = 2, .axes = {1, -1}};
    hyp_value_id outs[2];
    hyp_type type = hyp_onnx_value_type(n, x);
    HYP_TRY(hyp_type_elements(n->im->g->dims, &type, &s.most, n->im->diag));
    HYP_TRY(emit(n, &s, &x, 1, outs));
    *out = outs[0];
    return HYP_OK;
}

static hyp_status import_nonzero(hyp_onnx_node *n) { return find_places(n, n->inputs[0], n->outputs); }

/* The one row of places as a list. */
static hyp_status make_list(const hyp_onnx_node *n, hyp_value_id row, hyp_dim count, hyp_value_id *out)
{
    const hyp_value v = n->im->g->values.data[row];
    const hyp_type type = {HYP_I64, 1, {count}};
    if (v.kind != HYP_VALUE_CONST) return hyp_onnx_emit_dims(n, HYP_OP_reshape, row, &count, 1, out);
    return hyp_graph_add_const(n->im->g, NULL, &type, v.data, v.bytes, false, out, n->im->diag);
}

hyp_status hyp_onnx_emit_kept(const hyp_onnx_node *n, hyp_value_id mask, hyp_value_id *out)
{
    HYP_TRY(find_places(n, mask, out));
    return make_list(n, *out, hyp_onnx_value_type(n, *out).dims[1], out);
}

/* A gather of the places where the condition holds; of a flat x without an axis. */
static hyp_status import_compress(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_attr axis = hyp_attr_of_int(0);
    hyp_value_id inputs[] = {n->inputs[0], HYP_NO_VALUE};
    hyp_dim count;
    if (hyp_onnx_attr(n, "axis")) {
        HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis.i));
        HYP_TRY(hyp_onnx_axis(n, axis.i, x.rank, &axis.i));
    } else {
        HYP_TRY(hyp_type_elements(n->im->g->dims, &x, &count, n->im->diag));
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, inputs[0], &count, 1, &inputs[0]));
    }
    if (hyp_onnx_input_type(n, 1).rank != 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the condition has %d axes, wanted 1",
                        hyp_onnx_input_type(n, 1).rank);
    HYP_TRY(hyp_onnx_emit_kept(n, n->inputs[1], &inputs[1]));
    return hyp_onnx_emit(n, HYP_OP_gather, inputs, 2, &axis, n->outputs, 1);
}

/* ---- unique ---------------------------------------------------------------------------------------------------- */

static hyp_status import_unique(hyp_onnx_node *n)
{
    selection s = {.op = HYP_OP_unique, .results = 5, .axes = {0, 0, -1, 0, -1}};
    hyp_value_id outs[MOST_RESULTS];
    hyp_type x = hyp_onnx_input_type(n, 0);
    int64_t sorted, axis = -1;
    HYP_TRY(hyp_onnx_attr_int(n, "sorted", 1, &sorted));
    if (hyp_onnx_attr(n, "axis")) {
        HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
        HYP_TRY(hyp_onnx_axis(n, axis, x.rank, &axis));
        s.axes[0] = (int32_t)axis;
        s.most = x.dims[axis];
    } else {
        HYP_TRY(hyp_type_elements(n->im->g->dims, &x, &s.most, n->im->diag));
    }
    s.attrs[1] = hyp_attr_of_int(axis);
    s.attrs[2] = hyp_attr_of_int(sorted != 0);
    HYP_TRY(emit(n, &s, n->inputs, 1, outs));
    memcpy(n->outputs, outs, n->output_count * sizeof *outs);
    return HYP_OK;
}

/* ---- non-max suppression --------------------------------------------------------------------------------------- */

/* How many boxes of a class are wanted at most, where it is known. */
static hyp_status read_most(hyp_onnx_node *n, hyp_dim boxes, hyp_dim *out)
{
    hyp_onnx_ints most;
    *out = 0;
    if (!hyp_onnx_has_input(n, 2)) return HYP_OK;
    *out = boxes;
    hyp_status status = hyp_onnx_input_ints(n, 2, "max_output_boxes_per_class", &most);
    if (status == HYP_ERR_UNSUPPORTED) return *n->im->diag = (hyp_diag){0}, HYP_OK;
    HYP_TRY(status);
    if (most.count != 1 || !hyp_dim_is_const(most.items[0])) return HYP_OK;
    return hyp_dim_min(n->im->g->dims, boxes, most.items[0] > 0 ? most.items[0] : 0, out, n->im->diag);
}

static hyp_status import_suppression(hyp_onnx_node *n)
{
    selection s = {.op = HYP_OP_non_max_suppression, .results = 2, .axes = {0, -1}};
    hyp_dims *dims = n->im->g->dims;
    hyp_value_id outs[2];
    hyp_type scores = hyp_onnx_input_type(n, 1);
    int64_t center;
    HYP_TRY(hyp_onnx_attr_int(n, "center_point_box", 0, &center));
    if (scores.rank != 3)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the scores have %d axes, wanted 3", scores.rank);
    HYP_TRY(read_most(n, scores.dims[2], &s.most));
    HYP_TRY(hyp_dim_mul(dims, s.most, scores.dims[0], &s.most, n->im->diag));
    HYP_TRY(hyp_dim_mul(dims, s.most, scores.dims[1], &s.most, n->im->diag));
    s.attrs[1] = hyp_attr_of_int(center != 0);
    HYP_TRY(emit(n, &s, n->inputs, n->input_count, outs));
    n->outputs[0] = outs[0];
    return HYP_OK;
}

static const hyp_onnx_operator rows[] = {
    {"Compress", 9, 2, 2, 1, "axis ", import_compress, HYP_OP_gather},
    {"NonMaxSuppression", 10, 2, 5, 1, "center_point_box ", import_suppression, HYP_OP_COUNT},
    {"NonZero", 9, 1, 1, 1, "", import_nonzero, HYP_OP_COUNT},
    {"Unique", 11, 1, 1, 4, "axis sorted ", import_unique, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_select = {rows, sizeof rows / sizeof *rows};
