/* What moves elements, by shape, by index and along an axis, as nodes of ONNX. */
#include <string.h>

#include "onnx/writer.h"

static bool is_known(const hyp_attr *list)
{
    bool known = true;
    for (uint32_t i = 0; i < list->count; i++) known = known && hyp_dim_is_const(list->dims[i]);
    return known;
}

static const char *list_attr(hyp_ow *w, uint32_t attr)
{
    const hyp_attr *a = &w->node->attrs[attr];
    return hyp_ow_dims(w, a->dims, a->count);
}

/* The one size that a list attribute has, as a list or as a scalar. */
static const char *scalar_of(hyp_ow *w, const hyp_dim *d)
{
    return hyp_dim_is_const(*d) ? hyp_ow_scalar(w, HYP_I64, (double)*d)
                                : hyp_ow_op(w, "Squeeze", hyp_ow_dims(w, d, 1));
}

static int64_t axis_of(int64_t axis, int32_t rank) { return axis < 0 ? axis + rank : axis; }

/* ---- shapes ------------------------------------------------------------------------------------------------ */

/* A shape of which ONNX finds the sizes that are not known: 0 is the size that x has there, -1 what is left. */
static const char *shape_for(hyp_ow *w, const hyp_type *x, const hyp_dim *dims, uint32_t count)
{
    int64_t list[HYP_MAX_RANK];
    uint32_t open = 0;
    bool zero = false;
    for (uint32_t i = 0; i < count; i++) {
        bool same = i < (uint32_t)x->rank && x->dims[i] == dims[i];
        zero = zero || dims[i] == 0;
        list[i] = hyp_dim_is_const(dims[i]) ? dims[i] : same ? 0 : -1;
        open += list[i] == -1;
    }
    if (zero || open > 1) {
        const char *shape = hyp_ow_dims(w, dims, count);
        hyp_ow_int(w, "allowzero", 1);
        return shape;
    }
    return hyp_ow_list(w, list, count);
}

const char *hyp_ow_reshape(hyp_ow *w)
{
    const hyp_attr *a = &w->node->attrs[0];
    const char *x = hyp_ow_in(w, 0), *shape = shape_for(w, hyp_ow_type(w, 0), a->dims, a->count);
    return hyp_ow_op(w, "Reshape", x, shape);
}

const char *hyp_ow_squeezed(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0);
    return w->node->attrs[0].count ? hyp_ow_op(w, "Squeeze", x, list_attr(w, 0)) : hyp_ow_op(w, "Identity", x);
}

const char *hyp_ow_unsqueezed(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0);
    return w->node->attrs[0].count ? hyp_ow_op(w, "Unsqueeze", x, list_attr(w, 0)) : hyp_ow_op(w, "Identity", x);
}

/* A size that x has already may be 1 in the shape. */
const char *hyp_ow_expand(hyp_ow *w)
{
    const hyp_attr *a = &w->node->attrs[0];
    const hyp_type *x = hyp_ow_type(w, 0);
    hyp_dim dims[HYP_MAX_RANK];
    int64_t behind = (int64_t)a->count - x->rank;
    for (uint32_t i = 0; i < a->count; i++) {
        bool same = i >= behind && x->dims[i - behind] == a->dims[i];
        dims[i] = same && !hyp_dim_is_const(a->dims[i]) ? 1 : a->dims[i];
    }
    return hyp_ow_op(w, "Expand", hyp_ow_in(w, 0), hyp_ow_dims(w, dims, a->count));
}

const char *hyp_ow_split(hyp_ow *w)
{
    uint32_t count = w->node->output_count;
    const char *x = hyp_ow_in(w, 0), **out = hyp_arena_zalloc(&w->arena, count, sizeof *out);
    if (!out) return hyp_ow_no_memory(w);
    if (w->node->attrs[1].count > 2 * HYP_MAX_RANK && !is_known(&w->node->attrs[1]))
        return hyp_ow_refuse(w, "it has more parts of unknown sizes than are written");
    const char *sizes = list_attr(w, 1);
    hyp_ow_attrs(w, "axis");
    hyp_ow_nodes(w, "Split", (const char *const[]){x, sizes}, 2, out, count);
    for (uint32_t i = 0; i < count; i++) hyp_ow_give(w, i, out[i]);
    return NULL;
}

/* Where a slice of this axis ends: behind its last element; in front of all is a number below any place. */
static hyp_dim end_of(hyp_ow *w, hyp_dim start, hyp_dim size, hyp_dim step)
{
    hyp_dim end = 0;
    hyp_ow_note(w, hyp_dim_mul(w->g->dims, size, step, &end, w->diag));
    if (w->status == HYP_OK) hyp_ow_note(w, hyp_dim_add(w->g->dims, start, end, &end, w->diag));
    if (!hyp_dim_is_const(step)) hyp_ow_refuse(w, "its step is not known");
    bool front = hyp_dim_is_const(step) && step < 0 && hyp_dim_is_const(end) && end < 0;
    return front ? HYP_DIM_CONST_MIN : end; /* of any size: it is cut */
}

const char *hyp_ow_slice(hyp_ow *w)
{
    enum { STARTS, SIZES, STEPS };
    const hyp_attr *a = w->node->attrs;
    const hyp_type *x = hyp_ow_type(w, 0);
    hyp_dim starts[HYP_MAX_RANK], ends[HYP_MAX_RANK], steps[HYP_MAX_RANK];
    int64_t axes[HYP_MAX_RANK];
    size_t count = 0;
    const char *in = hyp_ow_in(w, 0);
    for (int32_t i = 0; i < x->rank; i++) {
        hyp_dim start = a[STARTS].dims[i], size = a[SIZES].dims[i], step = a[STEPS].dims[i];
        if (start == 0 && size == x->dims[i] && step == 1) continue;
        starts[count] = start;
        ends[count] = end_of(w, start, size, step);
        steps[count] = step;
        axes[count++] = i;
    }
    if (!count) return hyp_ow_op(w, "Identity", in);
    const char *s = hyp_ow_dims(w, starts, count), *e = hyp_ow_dims(w, ends, count);
    return hyp_ow_op(w, "Slice", in, s, e, hyp_ow_list(w, axes, count), hyp_ow_dims(w, steps, count));
}

const char *hyp_ow_pad(hyp_ow *w)
{
    const hyp_attr *a = w->node->attrs;
    hyp_dim pads[2 * HYP_MAX_RANK];
    memcpy(pads, a[0].dims, a[0].count * sizeof *pads);
    memcpy(pads + a[0].count, a[1].dims, a[1].count * sizeof *pads);
    const char *x = hyp_ow_in(w, 0), *value = hyp_ow_in(w, 1);
    return hyp_ow_op(w, "Pad", x, hyp_ow_dims(w, pads, (size_t)a[0].count + a[1].count), value);
}

const char *hyp_ow_bit_cast(hyp_ow *w)
{
    enum { SINCE = 26 };
    const char *x = hyp_ow_in(w, 0);
    if (w->opset < SINCE) w->opset = SINCE;
    hyp_ow_int(w, "to", hyp_ow_result_type(w, 0)->dtype);
    return hyp_ow_op(w, "BitCast", x);
}

/* ---- along an axis ----------------------------------------------------------------------------------------- */

static const char *reduction_of(hyp_op op)
{
    switch (op) {
    case HYP_OP_reduce_sum: return "ReduceSum";
    case HYP_OP_reduce_mean: return "ReduceMean";
    case HYP_OP_reduce_max: return "ReduceMax";
    case HYP_OP_reduce_min: return "ReduceMin";
    default: return "ReduceProd";
    }
}

const char *hyp_ow_reduce(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0);
    if (!w->node->attrs[0].count) return hyp_ow_op(w, "Identity", x);
    const char *axes = list_attr(w, 0);
    hyp_ow_attrs(w, "keepdims=keep");
    return hyp_ow_op(w, reduction_of(w->node->op), x, axes);
}

const char *hyp_ow_scan(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *axis = hyp_ow_scalar(w, HYP_I64, (double)w->node->attrs[0].i);
    hyp_ow_attrs(w, "exclusive reverse");
    return hyp_ow_op(w, "CumSum", x, axis);
}

/* Products of rows of a matrix of which the elements behind the place are 1: ONNX lacked it before opset 26. */
const char *hyp_ow_cumprod(hyp_ow *w)
{
    enum { AXIS, EXCLUSIVE, REVERSE };
    const hyp_attr *a = w->node->attrs;
    const hyp_type *x = hyp_ow_type(w, 0);
    int64_t axis = axis_of(a[AXIS].i, x->rank), last = -1, two = x->rank, perm[HYP_MAX_RANK];
    hyp_dim square[] = {x->dims[axis], x->dims[axis]};
    for (int32_t i = 0; i < x->rank; i++) perm[i] = i == axis ? x->rank - 1 : i == x->rank - 1 ? axis : i;
    const char *in = hyp_ow_transpose(w, hyp_ow_in(w, 0), perm, (size_t)x->rank);
    const char *ones = hyp_ow_full(w, hyp_ow_dims(w, square, 2), HYP_F32, 1); /* f32: what all readers cut triangles of */
    const char *place = hyp_ow_scalar(w, HYP_I64, a[EXCLUSIVE].i ? (a[REVERSE].i ? 1 : -1) : 0);
    hyp_ow_int(w, "upper", a[REVERSE].i != 0);
    const char *shown = hyp_ow_cast(w, hyp_ow_op(w, "Trilu", ones, place), HYP_F32, HYP_BOOL);
    const char *rows = hyp_ow_unsqueeze(w, in, two - 1);
    const char *parts = hyp_ow_op(w, "Where", shown, rows, hyp_ow_scalar(w, x->dtype, 1));
    const char *axes = hyp_ow_list(w, &last, 1);
    hyp_ow_int(w, "keepdims", 0);
    return hyp_ow_transpose(w, hyp_ow_op(w, "ReduceProd", parts, axes), perm, (size_t)x->rank);
}

const char *hyp_ow_reverse_sequence(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *lengths = hyp_ow_cast(w, hyp_ow_in(w, 1), hyp_ow_type(w, 1)->dtype, HYP_I64);
    hyp_ow_attrs(w, "batch_axis=batch-axis time_axis=time-axis");
    return hyp_ow_op(w, "ReverseSequence", x, lengths);
}

const char *hyp_ow_topk(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *k = list_attr(w, 1), *out[2];
    hyp_ow_attrs(w, "axis largest");
    hyp_ow_nodes(w, "TopK", (const char *const[]){x, k}, 2, out, 2);
    for (uint32_t i = 0; i < 2; i++) hyp_ow_give(w, i, out[i]);
    return NULL;
}

/* ---- by index ---------------------------------------------------------------------------------------------- */

const char *hyp_ow_one_hot(hyp_ow *w)
{
    const char *indices = hyp_ow_in(w, 0), *values = hyp_ow_in(w, 1), *depth = list_attr(w, 1);
    hyp_ow_attrs(w, "axis=new-axis");
    return hyp_ow_op(w, "OneHot", indices, depth, values);
}

/* 0, 1, ... below a size. */
static const char *numbers(hyp_ow *w, const hyp_dim *size)
{
    const char *zero = hyp_ow_scalar(w, HYP_I64, 0), *end = scalar_of(w, size), *one = hyp_ow_scalar(w, HYP_I64, 1);
    return hyp_ow_op(w, "Range", zero, end, one);
}

const char *hyp_ow_range(hyp_ow *w)
{
    const hyp_type *type = hyp_ow_type(w, 0);
    const char *start = hyp_ow_in(w, 0), *delta = hyp_ow_in(w, 1);
    const char *places = hyp_ow_cast(w, numbers(w, &w->node->attrs[0].dims[0]), HYP_I64, type->dtype);
    return hyp_ow_op(w, "Add", hyp_ow_op(w, "Mul", places, delta), start);
}

/* As elements that are scattered: where each goes along the axis. */
const char *hyp_ow_tensor_scatter(hyp_ow *w)
{
    const hyp_type *x = hyp_ow_type(w, 0), *updates = hyp_ow_type(w, 1);
    int64_t axis = axis_of(w->node->attrs[0].i, x->rank), along[HYP_MAX_RANK], of_batch[HYP_MAX_RANK];
    size_t rank = (size_t)x->rank;
    for (size_t i = 0; i < rank; i++) along[i] = of_batch[i] = 1;
    along[axis] = of_batch[0] = -1;
    const char *in = hyp_ow_in(w, 0), *new_ones = hyp_ow_in(w, 1);
    const char *places = hyp_ow_op(w, "Reshape", numbers(w, &updates->dims[axis]), hyp_ow_list(w, along, rank));
    if (hyp_ow_has(w, 2)) {
        const char *first = hyp_ow_cast(w, hyp_ow_in(w, 2), hyp_ow_type(w, 2)->dtype, HYP_I64);
        places = hyp_ow_op(w, "Add", places, hyp_ow_op(w, "Reshape", first, hyp_ow_list(w, of_batch, rank)));
    }
    if (strcmp(w->node->attrs[1].sym, "circular") == 0)
        places = hyp_ow_op(w, "Mod", places, scalar_of(w, &x->dims[axis]));
    places = hyp_ow_op(w, "Expand", places, hyp_ow_op(w, "Shape", new_ones));
    hyp_ow_int(w, "axis", axis);
    return hyp_ow_op(w, "ScatterElements", in, places, new_ones);
}

static hyp_dim product(hyp_ow *w, const hyp_dim *dims, size_t count)
{
    hyp_dim all = 1;
    for (size_t i = 0; i < count && w->status == HYP_OK; i++)
        hyp_ow_note(w, hyp_dim_mul(w->g->dims, all, dims[i], &all, w->diag));
    return all;
}

/* Places that count in other spatial sizes than the result has. */
static const char *recount(hyp_ow *w, const char *places, const hyp_attr *counted, const hyp_type *y)
{
    const char *rest = places, *sum = NULL;
    for (uint32_t i = counted->count; i-- > 0;) {
        hyp_dim inner = product(w, y->dims + 3 + i, counted->count - 1 - i);
        const char *size = hyp_ow_dims(w, &counted->dims[i], 1), *stride = hyp_ow_dims(w, &inner, 1);
        const char *at = hyp_ow_op(w, "Mul", hyp_ow_op(w, "Mod", rest, size), stride);
        rest = hyp_ow_op(w, "Div", rest, size);
        sum = sum ? hyp_ow_op(w, "Add", sum, at) : at;
    }
    hyp_dim each = product(w, y->dims + 2, counted->count);
    return hyp_ow_op(w, "Add", sum, hyp_ow_op(w, "Mul", rest, hyp_ow_dims(w, &each, 1)));
}

const char *hyp_ow_max_unpool(hyp_ow *w)
{
    const hyp_attr *counted = &w->node->attrs[0];
    const hyp_type *y = hyp_ow_result_type(w, 0);
    int64_t flat = -1;
    bool same = true;
    for (uint32_t i = 0; i < counted->count; i++) same = same && counted->dims[i] == y->dims[2 + i];
    const char *list = hyp_ow_list(w, &flat, 1), *x = hyp_ow_op(w, "Reshape", hyp_ow_in(w, 0), list);
    const char *places = hyp_ow_op(w, "Reshape", hyp_ow_in(w, 1), list);
    if (!same) places = recount(w, places, counted, y);
    hyp_dim all = product(w, y->dims, (size_t)y->rank);
    const char *zeros = hyp_ow_full(w, hyp_ow_dims(w, &all, 1), y->dtype, 0);
    hyp_ow_int(w, "axis", 0);
    const char *put = hyp_ow_op(w, "ScatterElements", zeros, places, x);
    return hyp_ow_op(w, "Reshape", put, hyp_ow_dims(w, y->dims, (size_t)y->rank));
}

/* ---- images ------------------------------------------------------------------------------------------------ */

const char *hyp_ow_resize(hyp_ow *w)
{
    const char *x = hyp_ow_in(w, 0), *scales = hyp_ow_in(w, 1), *roi = hyp_ow_in(w, 2), *sizes = NULL;
    if (scales)
        scales = hyp_ow_cast(w, scales, hyp_ow_type(w, 1)->dtype, HYP_F32);
    else
        sizes = list_attr(w, 0);
    if (roi) roi = hyp_ow_cast(w, roi, hyp_ow_type(w, 2)->dtype, hyp_ow_type(w, 0)->dtype);
    hyp_ow_attrs(w, "mode coordinate_transformation_mode=coordinates nearest_mode=nearest cubic_coeff_a=cubic-a "
                    "exclude_outside=exclude-outside antialias extrapolation_value=extrapolation");
    return hyp_ow_op(w, "Resize", x, roi, scales, sizes);
}

const char *hyp_ow_affine_grid(hyp_ow *w)
{
    const char *theta = hyp_ow_in(w, 0), *size = list_attr(w, 0);
    hyp_ow_attrs(w, "align_corners=align-corners");
    return hyp_ow_op(w, "AffineGrid", theta, size);
}

const char *hyp_ow_roi_align(hyp_ow *w)
{
    enum { BINS = 2 };
    const hyp_attr *bins = &w->node->attrs[BINS];
    const char *x = hyp_ow_in(w, 0), *rois = hyp_ow_in(w, 1);
    const char *images = hyp_ow_cast(w, hyp_ow_in(w, 2), hyp_ow_type(w, 2)->dtype, HYP_I64);
    if (!is_known(bins)) return hyp_ow_refuse(w, "its bins depend on the sizes of inputs");
    hyp_ow_int(w, "output_height", bins->dims[0]);
    hyp_ow_int(w, "output_width", bins->dims[1]);
    hyp_ow_attrs(w, "mode coordinate_transformation_mode=coordinates sampling_ratio=sampling spatial_scale=scale");
    return hyp_ow_op(w, "RoiAlign", x, rois, images);
}

/* ---- as many as the data say ------------------------------------------------------------------------------- */

/* Behind what was found along an axis, its last again until the room is full; zeros where nothing was. `count` is a list
 * of one, the number that was found. */
static const char *fill_room(hyp_ow *w, const char *x, hyp_dtype dtype, int64_t axis, const char *count, const hyp_dim *room)
{
    const int64_t one_more[] = {0, 1}, one = 1, zero = 0;
    const char *pads = hyp_ow_list(w, one_more, 2), *value = hyp_ow_scalar(w, dtype, 0), *axes = hyp_ow_list(w, &axis, 1);
    const char *longer = hyp_ow_op(w, "Pad", x, pads, value, axes);
    const char *last = hyp_ow_op(w, "Max", hyp_ow_op(w, "Sub", count, hyp_ow_list(w, &one, 1)), hyp_ow_list(w, &zero, 1));
    const char *places = hyp_ow_op(w, "Min", numbers(w, room), last);
    hyp_ow_int(w, "axis", axis);
    return hyp_ow_op(w, "Gather", longer, places);
}

static const char *count_of(hyp_ow *w, const char *x, int64_t axis)
{
    hyp_ow_int(w, "start", axis);
    hyp_ow_int(w, "end", axis + 1);
    return hyp_ow_op(w, "Shape", x);
}

const char *hyp_ow_nonzero(hyp_ow *w)
{
    const char *found = hyp_ow_op(w, "NonZero", hyp_ow_in(w, 0)), *count = count_of(w, found, 1);
    hyp_ow_give(w, 0, fill_room(w, found, HYP_I64, 1, count, &w->node->attrs[0].dims[0]));
    hyp_ow_give(w, 1, hyp_ow_squeeze(w, count, 0));
    return NULL;
}

const char *hyp_ow_suppression(hyp_ow *w)
{
    const char *in[5];
    for (uint32_t i = 0; i < 5; i++) in[i] = hyp_ow_in(w, i);
    hyp_ow_attrs(w, "center_point_box=center");
    const char *found = hyp_ow_node(w, "NonMaxSuppression", in, 5), *count = count_of(w, found, 0);
    hyp_ow_give(w, 0, fill_room(w, found, HYP_I64, 0, count, &w->node->attrs[0].dims[0]));
    hyp_ow_give(w, 1, hyp_ow_squeeze(w, count, 0));
    return NULL;
}

const char *hyp_ow_unique_op(hyp_ow *w)
{
    enum { SIZE, ALONG, SORTED };
    const hyp_attr *a = w->node->attrs;
    const hyp_dim *room = &a[SIZE].dims[0];
    const char *x = hyp_ow_in(w, 0), *out[4];
    if (a[ALONG].i >= 0) hyp_ow_int(w, "axis", a[ALONG].i);
    hyp_ow_int(w, "sorted", a[SORTED].i);
    hyp_ow_nodes(w, "Unique", &x, 1, out, 4);
    const char *count = count_of(w, out[1], 0);
    hyp_ow_give(w, 0, fill_room(w, out[0], hyp_ow_type(w, 0)->dtype, a[ALONG].i >= 0 ? a[ALONG].i : 0, count, room));
    hyp_ow_give(w, 1, fill_room(w, out[1], HYP_I64, 0, count, room));
    hyp_ow_give(w, 2, out[2]);
    hyp_ow_give(w, 3, fill_room(w, out[3], HYP_I64, 0, count, room));
    hyp_ow_give(w, 4, hyp_ow_squeeze(w, count, 0));
    return NULL;
}
