/* emit_movement.c - steps that move elements, and reductions: strides do the work. */
#include <string.h>

#include "codegen/lower.h"

static int32_t axis_of(int64_t axis, int32_t rank) { return (int32_t)(axis < 0 ? axis + rank : axis); }

/* ---- copies ----------------------------------------------------------------------------------------- */

enum { LANE_X, LANE_Y, COPY_LANES };

/* An index space of this shape, row-major in both tensors until the caller says otherwise. */
static hyp_status copy_axes(hyp_lowering *l, const hyp_type *type, hyp_axes *axes)
{
    *axes = (hyp_axes){.rank = type->rank, .lanes = COPY_LANES};
    memcpy(axes->extents, type->dims, sizeof type->dims);
    HYP_TRY(hyp_lower_strides(l, type->rank, type->dims, axes->strides[LANE_X]));
    return hyp_lower_strides(l, type->rank, type->dims, axes->strides[LANE_Y]);
}

static hyp_status emit_copy(hyp_lowering *l, const hyp_node *node, uint32_t x, hyp_dim x_offset, uint32_t y,
                            hyp_dim y_offset, hyp_axes *axes)
{
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, node ? hyp_op_get(node->op)->name : "copy", &node, node ? 1 : 0,
                               HYP_PLAN__STEP__KERNEL_COPY, &step));
    HypPlan__Copy *k = step->copy;
    hyp_lower_merge_axes(l, axes);
    size_t rank = (size_t)axes->rank;
    k->x = x;
    k->y = y;
    k->n_extents = k->n_x_strides = k->n_y_strides = rank;
    HYP_TRY(hyp_lower_dims(l, rank, axes->extents, &k->extents));
    HYP_TRY(hyp_lower_dims(l, rank, axes->strides[LANE_X], &k->x_strides));
    HYP_TRY(hyp_lower_dims(l, rank, axes->strides[LANE_Y], &k->y_strides));
    HYP_TRY(hyp_lower_dim(l, x_offset, &k->x_offset));
    return hyp_lower_dim(l, y_offset, &k->y_offset);
}

hyp_status hyp_emit_whole_copy(hyp_lowering *l, uint32_t from, uint32_t to, const hyp_type *type)
{
    hyp_axes axes;
    HYP_TRY(copy_axes(l, type, &axes));
    return emit_copy(l, NULL, from, 0, to, 0, &axes);
}

/* A copy of the only input to the only output, whose shape is the index space. */
static hyp_status emit_unary_copy(hyp_lowering *l, const hyp_node *node, hyp_dim x_offset, hyp_axes *axes)
{
    uint32_t x, y;
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &x));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    return emit_copy(l, node, x, x_offset, y, 0, axes);
}

/* What it moves is read where it lies: a part of a tensor is not cut out first. */
hyp_status hyp_emit_transpose(hyp_lowering *l, const hyp_node *node)
{
    hyp_axes axes;
    hyp_view view;
    uint32_t x, y;
    HYP_TRY(hyp_lower_find_view(l, node->outputs[0], false, &view));
    HYP_TRY(copy_axes(l, &hyp_lower_value(l, node->outputs[0])->type, &axes));
    memcpy(axes.strides[LANE_X], view.strides, sizeof view.strides);
    HYP_TRY(hyp_lower_read(l, view.value, &x));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    return emit_copy(l, node, x, view.offset, y, 0, &axes);
}

hyp_status hyp_emit_slice(hyp_lowering *l, const hyp_node *node)
{
    hyp_dims *dims = l->graph->dims;
    const hyp_type *x = &hyp_lower_value(l, node->inputs[0])->type;
    const hyp_attr *starts = &node->attrs[0], *steps = &node->attrs[2];
    hyp_axes axes;
    hyp_dim strides[HYP_MAX_RANK], offset = 0;
    HYP_TRY(copy_axes(l, &hyp_lower_value(l, node->outputs[0])->type, &axes));
    HYP_TRY(hyp_lower_strides(l, x->rank, x->dims, strides));
    for (int32_t i = 0; i < axes.rank; i++) {
        hyp_dim first;
        HYP_TRY(hyp_dim_mul(dims, starts->dims[i], strides[i], &first, l->diag));
        HYP_TRY(hyp_dim_add(dims, offset, first, &offset, l->diag));
        HYP_TRY(hyp_dim_mul(dims, steps->dims[i], strides[i], &axes.strides[LANE_X][i], l->diag));
    }
    return emit_unary_copy(l, node, offset, &axes);
}

hyp_status hyp_emit_expand(hyp_lowering *l, const hyp_node *node)
{
    hyp_axes axes;
    HYP_TRY(copy_axes(l, &hyp_lower_value(l, node->outputs[0])->type, &axes));
    HYP_TRY(hyp_lower_broadcast(l, &axes, LANE_X, &hyp_lower_value(l, node->inputs[0])->type));
    return emit_unary_copy(l, node, 0, &axes);
}

/* The place of a part in the whole where it lies along the axis: strides and offset. Moves *at behind it. */
static hyp_status part_of(hyp_lowering *l, const hyp_type *whole, const hyp_type *part, int32_t axis, hyp_dim *strides,
                          hyp_dim *offset, hyp_dim *at)
{
    HYP_TRY(hyp_lower_strides(l, whole->rank, whole->dims, strides));
    HYP_TRY(hyp_dim_mul(l->graph->dims, *at, strides[axis], offset, l->diag));
    return hyp_dim_add(l->graph->dims, *at, part->dims[axis], at, l->diag);
}

hyp_status hyp_emit_split(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *whole = &hyp_lower_value(l, node->inputs[0])->type;
    int32_t axis = axis_of(node->attrs[0].i, whole->rank);
    hyp_dim at = 0, offset;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const hyp_value_info *info = &l->values[node->outputs[i]];
        const hyp_type *part = &hyp_lower_value(l, node->outputs[i])->type;
        uint32_t x, y;
        if (!info->needed || info->constant || info->listed) {
            HYP_TRY(hyp_dim_add(l->graph->dims, at, part->dims[axis], &at, l->diag));
            continue;
        }
        hyp_axes axes;
        HYP_TRY(hyp_lower_read(l, node->inputs[0], &x));
        HYP_TRY(hyp_lower_write(l, node->outputs[i], &y));
        HYP_TRY(copy_axes(l, part, &axes));
        HYP_TRY(part_of(l, whole, part, axis, axes.strides[LANE_X], &offset, &at));
        HYP_TRY(emit_copy(l, node, x, offset, y, 0, &axes));
    }
    return HYP_OK;
}

/* Copies what lies as `view` says to a part of y with the strides of the whole: the shape of the part is `type`. */
static hyp_status emit_part(hyp_lowering *l, const hyp_node *node, const hyp_view *view, const hyp_type *type,
                            uint32_t y, const hyp_dim *strides, hyp_dim offset)
{
    hyp_axes axes;
    uint32_t x;
    HYP_TRY(hyp_lower_read(l, view->value, &x));
    HYP_TRY(copy_axes(l, type, &axes));
    memcpy(axes.strides[LANE_X], view->strides, sizeof view->strides);
    memcpy(axes.strides[LANE_Y], strides, (size_t)type->rank * sizeof *strides);
    return emit_copy(l, node, x, view->offset, y, offset, &axes);
}

/* The same for a whole input, by the finest axes in which it is seen. */
static hyp_status emit_input(hyp_lowering *l, const hyp_node *node, hyp_value_id v, uint32_t y, const hyp_dim *strides,
                             hyp_dim offset)
{
    hyp_fine_view fine;
    hyp_dim of_axis[HYP_MAX_RANK] = {0};
    HYP_TRY(hyp_lower_find_fine_view(l, v, &fine));
    const hyp_type *type = &hyp_lower_value(l, fine.of)->type;
    for (int32_t i = 0; i < type->rank; i++)
        HYP_TRY(hyp_dim_mul(l->graph->dims, fine.step[i], strides[fine.axis[i]], &of_axis[i], l->diag));
    return emit_part(l, node, &fine.view, type, y, of_axis, offset);
}

/* Parts are read where they lie: a part that was cut out, or whose axes changed places, is not made by itself first,
 * and of one that is a concat, and nothing else, its own parts are copied. */
hyp_status hyp_emit_concat(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *whole = &hyp_lower_value(l, node->outputs[0])->type;
    int32_t axis = axis_of(node->attrs[0].i, whole->rank);
    hyp_dim at = 0, offset, strides[HYP_MAX_RANK];
    uint32_t y;
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    for (uint32_t i = 0; i < node->input_count; i++) {
        hyp_type type = hyp_lower_value(l, node->inputs[i])->type;
        hyp_view view;
        hyp_parts parts;
        HYP_TRY(part_of(l, whole, &type, axis, strides, &offset, &at));
        HYP_TRY(hyp_lower_find_copied_parts(l, node->inputs[i], &parts));
        for (uint32_t j = 0; parts.concat && j < parts.concat->input_count; j++) {
            hyp_dim step;
            HYP_TRY(hyp_lower_find_part(l, &parts, j, &view, &type.dims[parts.axis]));
            HYP_TRY(emit_part(l, node, &view, &type, y, strides, offset));
            HYP_TRY(hyp_dim_mul(l->graph->dims, type.dims[parts.axis], strides[parts.axis], &step, l->diag));
            HYP_TRY(hyp_dim_add(l->graph->dims, offset, step, &offset, l->diag));
        }
        if (!parts.concat) HYP_TRY(emit_input(l, node, node->inputs[i], y, strides, offset));
    }
    return HYP_OK;
}

/* One box of a padded tensor: the sizes and, in y, the place where it starts. */
typedef struct box {
    hyp_dim dims[HYP_MAX_RANK], at[HYP_MAX_RANK];
} box;

static hyp_status emit_box(hyp_lowering *l, const hyp_node *node, const box *b, bool is_x, uint32_t from, uint32_t y)
{
    hyp_type type = hyp_lower_value(l, node->outputs[0])->type;
    hyp_axes axes;
    hyp_dim strides[HYP_MAX_RANK], offset = 0;
    HYP_TRY(hyp_lower_strides(l, type.rank, type.dims, strides));
    memcpy(type.dims, b->dims, sizeof type.dims);
    for (int32_t i = 0; i < type.rank && !is_x; i++) /* x is copied also where it is empty: some step is to write y */
        if (type.dims[i] == 0) return HYP_OK;
    HYP_TRY(copy_axes(l, &type, &axes));
    for (int32_t i = 0; i < type.rank; i++) {
        hyp_dim first;
        HYP_TRY(hyp_dim_mul(l->graph->dims, b->at[i], strides[i], &first, l->diag));
        HYP_TRY(hyp_dim_add(l->graph->dims, offset, first, &offset, l->diag));
        axes.strides[LANE_Y][i] = strides[i];
        if (!is_x) axes.strides[LANE_X][i] = 0;
    }
    return emit_copy(l, node, from, 0, y, offset, &axes);
}

/* The value goes into disjoint boxes around x: in front of and behind it along an axis, as wide as x along the axes
 * before, as wide as y along those after. */
hyp_status hyp_emit_pad(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type x = hyp_lower_value(l, node->inputs[0])->type, whole = hyp_lower_value(l, node->outputs[0])->type;
    uint32_t from, value, y;
    box b = {{0}, {0}};
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &from));
    HYP_TRY(hyp_lower_read(l, node->inputs[1], &value));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &y));
    memcpy(b.dims, whole.dims, sizeof b.dims);
    for (int32_t i = 0; i < x.rank; i++) {
        hyp_dim before = node->attrs[0].dims[i];
        b.dims[i] = before;
        HYP_TRY(emit_box(l, node, &b, false, value, y));
        b.dims[i] = node->attrs[1].dims[i];
        HYP_TRY(hyp_dim_add(l->graph->dims, before, x.dims[i], &b.at[i], l->diag));
        HYP_TRY(emit_box(l, node, &b, false, value, y));
        b.dims[i] = x.dims[i];
        b.at[i] = before;
    }
    return emit_box(l, node, &b, true, from, y);
}

/* ---- along one axis --------------------------------------------------------------------------------- */

/* A shape seen as [outer, axis, inner]. */
static hyp_status split_at_axis(hyp_lowering *l, const hyp_type *type, int32_t axis, uint32_t *outer, uint32_t *middle,
                                uint32_t *inner)
{
    hyp_dim before, behind;
    HYP_TRY(hyp_lower_product(l, (size_t)axis, type->dims, &before));
    HYP_TRY(hyp_lower_product(l, (size_t)(type->rank - axis - 1), type->dims + axis + 1, &behind));
    HYP_TRY(hyp_lower_dim(l, before, outer));
    HYP_TRY(hyp_lower_dim(l, type->dims[axis], middle));
    return hyp_lower_dim(l, behind, inner);
}

hyp_status hyp_emit_gather(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *x = &hyp_lower_value(l, node->inputs[0])->type,
                   *indices = &hyp_lower_value(l, node->inputs[1])->type;
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_GATHER, &step));
    HypPlan__Gather *k = step->gather;
    hyp_dim count;
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &k->x));
    HYP_TRY(hyp_lower_read(l, node->inputs[1], &k->indices));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &k->y));
    HYP_TRY(split_at_axis(l, x, axis_of(node->attrs[0].i, x->rank), &k->outer, &k->axis, &k->inner));
    HYP_TRY(hyp_lower_product(l, (size_t)indices->rank, indices->dims, &count));
    return hyp_lower_dim(l, count, &k->count);
}

hyp_status hyp_emit_softmax(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *x = &hyp_lower_value(l, node->inputs[0])->type;
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_SOFTMAX, &step));
    HypPlan__Softmax *k = step->softmax;
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &k->x));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &k->y));
    return split_at_axis(l, x, axis_of(node->attrs[0].i, x->rank), &k->outer, &k->axis, &k->inner);
}

hyp_status hyp_emit_reduce(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *x = &hyp_lower_value(l, node->inputs[0])->type;
    bool mean = node->op == HYP_OP_reduce_mean, reduced[HYP_MAX_RANK] = {false};
    if (mean && x->dtype == HYP_U64)
        return hyp_lower_unsupported(l, node, "u64 has no kernel for it; cast to i64 before it");
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_REDUCE, &step));
    HypPlan__Reduce *k = step->reduce;
    k->kind = mean ? HYP_PLAN__REDUCE__KIND__MEAN : HYP_PLAN__REDUCE__KIND__SUM;
    HYP_TRY(hyp_lower_read(l, node->inputs[0], &k->x));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &k->y));
    for (uint32_t i = 0; i < node->attrs[0].count; i++) reduced[axis_of(node->attrs[0].dims[i], x->rank)] = true;
    hyp_dim strides[HYP_MAX_RANK];
    hyp_axes axes[2] = {{.lanes = 1}, {.lanes = 1}}; /* kept, reduced */
    HYP_TRY(hyp_lower_strides(l, x->rank, x->dims, strides));
    for (int32_t i = 0; i < x->rank; i++) {
        hyp_axes *to = &axes[reduced[i]];
        to->extents[to->rank] = x->dims[i];
        to->strides[0][to->rank++] = strides[i];
    }
    hyp_lower_merge_axes(l, &axes[0]);
    hyp_lower_merge_axes(l, &axes[1]);
    k->n_kept = k->n_kept_strides = (size_t)axes[0].rank;
    k->n_reduced = k->n_reduced_strides = (size_t)axes[1].rank;
    HYP_TRY(hyp_lower_dims(l, k->n_kept, axes[0].extents, &k->kept));
    HYP_TRY(hyp_lower_dims(l, k->n_kept, axes[0].strides[0], &k->kept_strides));
    HYP_TRY(hyp_lower_dims(l, k->n_reduced, axes[1].extents, &k->reduced));
    return hyp_lower_dims(l, k->n_reduced, axes[1].strides[0], &k->reduced_strides);
}

/* ---- shape ------------------------------------------------------------------------------------------ */

hyp_status hyp_emit_fill(hyp_lowering *l, const hyp_node *node, hyp_value_id v)
{
    const hyp_value *value = hyp_lower_value(l, v);
    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_FILL, &step));
    HYP_TRY(hyp_lower_write(l, v, &step->fill->y));
    step->fill->n_values = value->content_count;
    return hyp_lower_dims(l, value->content_count, value->content, &step->fill->values);
}
