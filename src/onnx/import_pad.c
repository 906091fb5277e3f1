/* Pad and CenterCropPad: slices, and pads of a constant; the other modes are joined from slices of the data. */
#include "onnx/import.h"

/* Which part of x along an axis, in steps of 1 or -1. */
static hyp_status slice_axis(const hyp_onnx_node *n, hyp_value_id x, int32_t axis, hyp_dim start, hyp_dim size,
                             hyp_dim step, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    hyp_dim starts[HYP_MAX_RANK] = {0}, steps[HYP_MAX_RANK];
    for (int32_t i = 0; i < type.rank; i++) steps[i] = 1;
    starts[axis] = start;
    type.dims[axis] = size;
    steps[axis] = step;
    uint32_t rank = (uint32_t)type.rank;
    hyp_attr attrs[] = {hyp_attr_of_dims(starts, rank), hyp_attr_of_dims(type.dims, rank),
                        hyp_attr_of_dims(steps, rank)};
    return hyp_onnx_emit(n, HYP_OP_slice, &x, 1, attrs, out, 1);
}

/* One element along the axis, repeated. */
static hyp_status repeat_edge(const hyp_onnx_node *n, hyp_value_id x, int32_t axis, hyp_dim at, hyp_dim count,
                              hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    HYP_TRY(slice_axis(n, x, axis, at, 1, 1, out));
    type.dims[axis] = count;
    return hyp_onnx_emit_dims(n, HYP_OP_expand, *out, type.dims, type.rank, out);
}

static hyp_dim smaller(hyp_dim a, hyp_dim b) { return hyp_dim_is_const(a) && hyp_dim_is_const(b) && b < a ? b : a; }

/* What lies in front of and behind x along the axis. A round of reflection or wrapping reaches as far as x does. */
static hyp_status pad_round(const hyp_onnx_node *n, const char *mode, int32_t axis, hyp_dim period, hyp_dim *before,
                            hyp_dim *after, hyp_value_id *x)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_dim size = hyp_onnx_value_type(n, *x).dims[axis], step[2] = {*before, *after}, from[2], last;
    hyp_value_id parts[3], joined[3];
    uint32_t count = 0;
    bool single = hyp_dim_is_const(size) && size == 1, edge = *mode == 'e' || (*mode == 'r' && single);
    HYP_TRY(hyp_dim_sub(dims, size, 1, &last, n->im->diag));
    for (int side = 0; side < 2 && !edge; side++) step[side] = smaller(step[side], *mode == 'r' ? last : period);
    if (*mode == 'r') {
        from[0] = step[0];
        HYP_TRY(hyp_dim_sub(dims, last, 1, &from[1], n->im->diag));
    } else {
        HYP_TRY(hyp_dim_sub(dims, period, step[0], &from[0], n->im->diag));
        HYP_TRY(hyp_dim_sub(dims, size, period, &from[1], n->im->diag));
    }
    parts[1] = *x;
    for (int side = 0; side < 2; side++) {
        if (step[side] == 0) continue;
        if (edge)
            HYP_TRY(repeat_edge(n, *x, axis, side ? last : 0, step[side], &parts[2 * side]));
        else
            HYP_TRY(slice_axis(n, *x, axis, from[side], step[side], *mode == 'r' ? -1 : 1, &parts[2 * side]));
    }
    if (step[0] != 0) joined[count++] = parts[0];
    joined[count++] = parts[1];
    if (step[1] != 0) joined[count++] = parts[2];
    hyp_attr attr = hyp_attr_of_int(axis);
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_concat, joined, count, &attr, x, 1));
    HYP_TRY(hyp_dim_sub(dims, *before, step[0], before, n->im->diag));
    return hyp_dim_sub(dims, *after, step[1], after, n->im->diag);
}

static hyp_status pad_from_data(const hyp_onnx_node *n, const char *mode, const hyp_dim *before, const hyp_dim *after,
                                hyp_value_id *x)
{
    enum { MAX_ROUNDS = 64 };
    hyp_type type = hyp_onnx_value_type(n, *x);
    for (int32_t axis = 0; axis < type.rank; axis++) {
        hyp_dim left = before[axis], right = after[axis];
        if ((left != 0 || right != 0) && type.dims[axis] == 0)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "axis %d is empty, there is nothing to pad it with", axis);
        for (int round = 0; left != 0 || right != 0; round++) {
            if (round == MAX_ROUNDS)
                return hyp_fail(n->im->diag, HYP_ERR_LIMIT, "axis %d is padded by more than %d times its size", axis,
                                MAX_ROUNDS);
            HYP_TRY(pad_round(n, mode, axis, type.dims[axis], &left, &right, x));
        }
    }
    return HYP_OK;
}

/* A constant pad of the value, 0 if there is none. Leaves *x alone where nothing is added. */
static hyp_status pad_constant(const hyp_onnx_node *n, const hyp_dim *before, const hyp_dim *after, hyp_value_id value,
                               hyp_value_id *x)
{
    hyp_type type = hyp_onnx_value_type(n, *x);
    bool any = false;
    for (int32_t i = 0; i < type.rank; i++) any = any || before[i] != 0 || after[i] != 0;
    if (!any) return HYP_OK;
    if (value == HYP_NO_VALUE) HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, 0, &value));
    if (hyp_onnx_value_type(n, value).rank != 0) HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, value, NULL, 0, &value));
    hyp_value_id inputs[] = {*x, value};
    hyp_attr attrs[] = {hyp_attr_of_dims(before, (uint32_t)type.rank), hyp_attr_of_dims(after, (uint32_t)type.rank)};
    return hyp_onnx_emit(n, HYP_OP_pad, inputs, 2, attrs, x, 1);
}

/* Negative pads take elements away. What is left in the lists adds some. */
static hyp_status crop(const hyp_onnx_node *n, hyp_dim *before, hyp_dim *after, hyp_value_id *x)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_type type = hyp_onnx_value_type(n, *x);
    for (int32_t i = 0; i < type.rank; i++) {
        hyp_dim left = hyp_dim_is_const(before[i]) && before[i] < 0 ? -before[i] : 0;
        hyp_dim right = hyp_dim_is_const(after[i]) && after[i] < 0 ? -after[i] : 0, size;
        if (left == 0 && right == 0) continue;
        HYP_TRY(hyp_dim_sub(dims, type.dims[i], left, &size, n->im->diag));
        HYP_TRY(hyp_dim_sub(dims, size, right, &size, n->im->diag));
        HYP_TRY(slice_axis(n, *x, i, left, size, 1, x));
        if (left) before[i] = 0;
        if (right) after[i] = 0;
    }
    return HYP_OK;
}

static hyp_status read_pads(const hyp_onnx_node *n, int32_t rank, hyp_dim *before, hyp_dim *after)
{
    hyp_onnx_ints pads, axes;
    HYP_TRY(hyp_onnx_ints_of(n, 1, "pads", &pads));
    HYP_TRY(hyp_onnx_input_ints(n, 3, "axes", &axes));
    uint32_t count = axes.present ? axes.count : (uint32_t)rank;
    if (pads.count != 2 * count || count > (uint32_t)rank)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has %u pads for %u axes", pads.count, count);
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = i;
        if (axes.present && !hyp_dim_is_const(axes.items[i]))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "an axis depends on the shape of the model's inputs");
        if (axes.present) HYP_TRY(hyp_onnx_axis(n, axes.items[i], rank, &axis));
        before[axis] = pads.items[i];
        after[axis] = pads.items[count + i];
    }
    return HYP_OK;
}

/* Names the result, which may be the input itself. */
static hyp_status finish(hyp_onnx_node *n, hyp_value_id x)
{
    if (x == n->inputs[0]) return hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
    n->outputs[0] = x;
    return HYP_OK;
}

static hyp_status import_pad(hyp_onnx_node *n)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_value_id x = n->inputs[0], value = hyp_onnx_has_input(n, 2) ? n->inputs[2] : HYP_NO_VALUE;
    hyp_dim before[HYP_MAX_RANK] = {0}, after[HYP_MAX_RANK] = {0};
    const char *mode;
    double number;
    HYP_TRY(hyp_onnx_attr_choice(n, "mode", modes, &mode));
    HYP_TRY(read_pads(n, type.rank, before, after));
    HYP_TRY(hyp_onnx_attr_float(n, "value", 0, &number));
    if (number != 0) HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, number, &value));
    HYP_TRY(crop(n, before, after, &x));
    HYP_TRY(mode == modes[0] ? pad_constant(n, before, after, value, &x) : pad_from_data(n, mode, before, after, &x));
    return finish(n, x);
}

/* Half of what is too much or missing on either side, the larger half behind. */
static hyp_status center_axis(const hyp_onnx_node *n, int32_t axis, hyp_dim have, hyp_dim want, hyp_dim *before,
                              hyp_dim *after, hyp_value_id *x)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim kept, start, missing;
    HYP_TRY(hyp_dim_min(dims, have, want, &kept, diag));
    HYP_TRY(hyp_dim_sub(dims, have, kept, &start, diag));
    HYP_TRY(hyp_dim_floordiv(dims, start, 2, &start, diag));
    if (kept != have) HYP_TRY(slice_axis(n, *x, axis, start, kept, 1, x));
    HYP_TRY(hyp_dim_sub(dims, want, kept, &missing, diag));
    HYP_TRY(hyp_dim_floordiv(dims, missing, 2, before, diag));
    return hyp_dim_sub(dims, missing, *before, after, diag);
}

static hyp_status import_center_crop_pad(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_dim before[HYP_MAX_RANK] = {0}, after[HYP_MAX_RANK] = {0};
    hyp_onnx_ints shape, axes;
    hyp_value_id x = n->inputs[0];
    HYP_TRY(hyp_onnx_input_ints(n, 1, "shape", &shape));
    HYP_TRY(hyp_onnx_attr_ints(n, "axes", &axes));
    if (shape.count != (axes.present ? axes.count : (uint32_t)type.rank))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "shape has %u entries, not one for every axis", shape.count);
    for (uint32_t i = 0; i < shape.count; i++) {
        int64_t axis = i;
        if (axes.present) HYP_TRY(hyp_onnx_axis(n, axes.items[i], type.rank, &axis));
        HYP_TRY(center_axis(n, (int32_t)axis, type.dims[axis], shape.items[i], &before[axis], &after[axis], &x));
    }
    HYP_TRY(pad_constant(n, before, after, HYP_NO_VALUE, &x));
    return finish(n, x);
}

static const hyp_onnx_operator rows[] = {
    {"CenterCropPad", 18, 2, 2, 1, "axes ", import_center_crop_pad, HYP_OP_COUNT},
    {"Pad", 7, 1, 4, 1, "mode pads value ", import_pad, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_pad = {rows, sizeof rows / sizeof *rows};
