/* Operators that select or join elements: Concat, Split, Slice, Gather. */
#include "onnx/import.h"

static hyp_status import_concat(hyp_onnx_node *n)
{
    int64_t axis;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_axis(n, axis, hyp_onnx_input_type(n, 0).rank, &axis));
    hyp_attr attr = hyp_attr_of_int(axis);
    return hyp_onnx_emit(n, HYP_OP_concat, n->inputs, n->input_count, &attr, n->outputs, 1);
}

static hyp_status import_gather(hyp_onnx_node *n)
{
    int64_t axis;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_axis(n, axis, hyp_onnx_input_type(n, 0).rank, &axis));
    hyp_attr attr = hyp_attr_of_int(axis);
    return hyp_onnx_emit(n, HYP_OP_gather, n->inputs, 2, &attr, n->outputs, 1);
}

/* Equal parts; from opset 18 on the last may be smaller. */
static hyp_status equal_parts(hyp_onnx_node *n, hyp_dim whole, hyp_dim *sizes)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_dim part, rest, count = n->output_count;
    bool divides = hyp_dim_divides(dims, count, whole, &part);
    if (!divides && n->im->opset < 18 && !hyp_dim_is_const(whole))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "cannot split a symbolic dim into %u equal parts; fix it with --dim", n->output_count);
    if (!divides && n->im->opset < 18)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "cannot split %lld into %u equal parts", (long long)whole,
                        n->output_count);
    if (!divides) {
        HYP_TRY(hyp_dim_add(dims, whole, count - 1, &part, n->im->diag));
        HYP_TRY(hyp_dim_floordiv(dims, part, count, &part, n->im->diag));
    }
    for (uint32_t i = 0; i < n->output_count; i++) sizes[i] = part;
    if (divides) return HYP_OK;
    HYP_TRY(hyp_dim_mul(dims, part, count - 1, &rest, n->im->diag));
    HYP_TRY(hyp_dim_sub(dims, whole, rest, &rest, n->im->diag));
    sizes[count - 1] = rest;
    if (hyp_dim_is_const(rest) && rest < 0)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "cannot split %lld into %u parts of %lld", (long long)whole,
                        n->output_count, (long long)part);
    return HYP_OK;
}

static hyp_status import_split(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    int64_t axis, num_outputs;
    hyp_onnx_ints split;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_axis(n, axis, x.rank, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "num_outputs", n->output_count, &num_outputs));
    HYP_TRY(hyp_onnx_ints_of(n, 1, "split", &split));
    if (num_outputs != n->output_count || n->output_count > HYP_ONNX_MAX_INTS)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "has %u outputs; num_outputs says %lld, at most %d are supported", n->output_count,
                        (long long)num_outputs, HYP_ONNX_MAX_INTS);
    if (!split.present) {
        HYP_TRY(equal_parts(n, x.dims[axis], split.items));
        split.count = n->output_count;
    }
    hyp_attr attrs[] = {hyp_attr_of_int(axis), hyp_attr_of_dims(split.items, split.count)};
    return hyp_onnx_emit(n, HYP_OP_split, n->inputs, 1, attrs, n->outputs, n->output_count);
}

/* ---- slice -------------------------------------------------------------------------------------- */

/* min or max, without an expression where the signs of the symbols decide. */
static hyp_status pick(hyp_dims *dims, bool larger, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag)
{
    hyp_dim difference;
    HYP_TRY(hyp_dim_sub(dims, a, b, &difference, diag));
    if (hyp_dim_is_nonneg(dims, difference)) return *out = larger ? a : b, HYP_OK;
    HYP_TRY(hyp_dim_sub(dims, b, a, &difference, diag));
    if (hyp_dim_is_nonneg(dims, difference)) return *out = larger ? b : a, HYP_OK;
    return larger ? hyp_dim_max(dims, a, b, out, diag) : hyp_dim_min(dims, a, b, out, diag);
}

/* Far outside any tensor, and far from overflow. */
static int64_t bounded(int64_t value)
{
    const int64_t limit = (int64_t)1 << 60;
    return value > limit ? limit : value < -limit ? -limit : value;
}

/* Steps past the end of the axis all pick one element: the shortest of them, so that no address overflows. */
static int64_t bounded_step(int64_t step, hyp_dim size)
{
    int64_t limit = hyp_dim_is_const(size) ? (size > 0 ? size : 1) : INT32_MAX;
    return step > limit ? limit : step < -limit ? -limit : step;
}

/* A start or end, which may count from the end of `size`, as a place in [low, size + high]. */
static hyp_status resolve(const hyp_onnx_node *n, hyp_dim at, hyp_dim size, int64_t low, int64_t high, hyp_dim *out)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    /* Exporters write the largest number for "to the end" and the smallest for "from the start". */
    const int64_t far = INT32_MAX;
    hyp_dim top;
    at = hyp_dim_is_const(at) ? bounded(at) : at;
    HYP_TRY(hyp_dim_add(dims, size, high, &top, diag));
    if (hyp_dim_is_const(at)) {
        if (at >= far && !hyp_dim_is_const(size)) return *out = top, HYP_OK;
        if (at < -far && !hyp_dim_is_const(size)) return *out = low, HYP_OK;
        if (at < 0) HYP_TRY(hyp_dim_add(dims, at, size, &at, diag));
    } else if (!hyp_dim_is_nonneg(dims, at)) {
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "the sign of a start or end depends on the symbolic dims; fix them with --dim");
    }
    HYP_TRY(pick(dims, false, at, top, &at, diag));
    return pick(dims, true, at, low, out, diag);
}

/* One axis: `size` elements from `start` are what ONNX's start, end and step select. */
static hyp_status slice_axis(const hyp_onnx_node *n, hyp_dim have, hyp_dim start, hyp_dim end, int64_t step,
                             hyp_dim *out_start, hyp_dim *out_size)
{
    hyp_dims *dims = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    /* Going backwards, places run from the last element down to one before the first. */
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? 0 : -1, stride = step > 0 ? step : -step;
    hyp_dim given = start, length;
    /* What begins before the first element is clamped to it in either direction: the last place of `low` is for ends alone. */
    bool before = step < 0 && hyp_dim_is_const(given) && given < -1;
    HYP_TRY(resolve(n, start, have, before ? 0 : low, high, &start));
    HYP_TRY(resolve(n, end, have, low, high, &end));
    if (step > 0 && end == have && hyp_dim_is_const(given)) {
        /* Up to the end, in the plainest of equal expressions, so that x[1:] and x[:-1] have one type. */
        given = bounded(given);
        if (given < 0) {
            HYP_TRY(pick(dims, false, -given, have, &length, diag));
        } else {
            HYP_TRY(hyp_dim_sub(dims, have, given, &length, diag));
            HYP_TRY(pick(dims, true, length, 0, &length, diag));
        }
    } else {
        HYP_TRY(step > 0 ? hyp_dim_sub(dims, end, start, &length, diag) : hyp_dim_sub(dims, start, end, &length, diag));
        HYP_TRY(pick(dims, true, length, 0, &length, diag));
        if (before) HYP_TRY(pick(dims, false, length, have, &length, diag)); /* of an axis without elements: none */
    }
    if (stride > 1) { /* rounded up */
        HYP_TRY(hyp_dim_add(dims, length, stride - 1, &length, diag));
        HYP_TRY(hyp_dim_floordiv(dims, length, stride, &length, diag));
    }
    *out_start = start;
    *out_size = length;
    return HYP_OK;
}

static hyp_status import_slice(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints starts, ends, axes, steps;
    HYP_TRY(hyp_onnx_ints_of(n, 1, "starts", &starts));
    HYP_TRY(hyp_onnx_ints_of(n, 2, "ends", &ends));
    HYP_TRY(hyp_onnx_ints_of(n, 3, "axes", &axes));
    HYP_TRY(hyp_onnx_input_ints(n, 4, "steps", &steps));
    if (starts.count != ends.count || starts.count > (uint32_t)x.rank || (axes.present && axes.count != starts.count) ||
        (steps.present && steps.count != starts.count))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "starts, ends, axes and steps should be equally long, at most %d", x.rank);

    hyp_dim first[HYP_MAX_RANK], size[HYP_MAX_RANK], step[HYP_MAX_RANK];
    bool seen[HYP_MAX_RANK] = {false};
    for (int32_t i = 0; i < x.rank; i++) {
        first[i] = 0;
        size[i] = x.dims[i];
        step[i] = 1;
    }
    for (uint32_t i = 0; i < starts.count; i++) {
        int64_t axis;
        hyp_dim stride = steps.present ? steps.items[i] : 1, given = axes.present ? axes.items[i] : (hyp_dim)i;
        if (!hyp_dim_is_const(given) || !hyp_dim_is_const(stride))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                            "an axis or step depends on the shape of the model's inputs");
        HYP_TRY(hyp_onnx_axis(n, given, x.rank, &axis));
        if (seen[axis]) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "axis %lld is listed twice", (long long)axis);
        if (stride == 0) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a step is 0");
        seen[axis] = true;
        step[axis] = bounded_step(stride, x.dims[axis]);
        HYP_TRY(slice_axis(n, x.dims[axis], starts.items[i], ends.items[i], step[axis], &first[axis], &size[axis]));
        if (size[axis] == 0) first[axis] = 0;
    }
    uint32_t rank = (uint32_t)x.rank;
    hyp_attr attrs[] = {hyp_attr_of_dims(first, rank), hyp_attr_of_dims(size, rank), hyp_attr_of_dims(step, rank)};
    return hyp_onnx_emit_unary(n, HYP_OP_slice, attrs);
}

static const hyp_onnx_operator rows[] = {
    {"Concat", 7, 1, HYP_ONNX_ANY, 1, "axis ", import_concat, HYP_OP_concat},
    {"Gather", 7, 2, 2, 1, "axis ", import_gather, HYP_OP_gather},
    {"Slice", 7, 1, 5, 1, "axes ends starts ", import_slice, HYP_OP_slice},
    {"Split", 7, 1, 2, HYP_ONNX_ANY, "axis num_outputs split ", import_split, HYP_OP_split},
};
const hyp_onnx_family hyp_onnx_index = {rows, sizeof rows / sizeof *rows};
