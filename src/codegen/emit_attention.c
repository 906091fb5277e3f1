/* emit_attention.c - attention as one step. Its operands are read where they lie: the transpositions that split heads
 * become strides. */
#include <string.h>

#include "codegen/lower.h"

enum { Q, K, V, Y, MASK, MORE_K, MORE_V, LANES };

/* An operand: what is read, and the strides of its rows and columns. Those of its batch are a lane of the axes. */
typedef struct operand {
    uint32_t tensor;
    hyp_dim offset, row, column;
} operand;

/* The strides of a batch axis: 0 where an operand lacks it or repeats its one element. `dims` and `strides` are those
 * of the operand's `rank` leading axes. */
static void add_lane(hyp_axes *axes, int32_t lane, int32_t rank, const hyp_dim *dims, const hyp_dim *strides)
{
    int32_t shift = axes->rank - rank;
    for (int32_t i = 0; i < axes->rank; i++)
        axes->strides[lane][i] = i < shift || (dims[i - shift] == 1 && axes->extents[i] != 1) ? 0 : strides[i - shift];
}

/* An input of this type that lies as `view` says. */
static hyp_status add_view(hyp_lowering *l, const hyp_type *type, const hyp_view *view, bool swapped, int32_t lane,
                           hyp_axes *axes, operand *out)
{
    add_lane(axes, lane, type->rank - 2, type->dims, view->strides);
    HYP_TRY(hyp_lower_read(l, view->value, &out->tensor));
    out->offset = view->offset;
    out->row = view->strides[type->rank - (swapped ? 1 : 2)];
    out->column = view->strides[type->rank - (swapped ? 2 : 1)];
    return HYP_OK;
}

static hyp_status add_input(hyp_lowering *l, hyp_value_id v, bool swapped, int32_t lane, hyp_axes *axes, operand *out)
{
    hyp_view view;
    HYP_TRY(hyp_lower_find_view(l, v, true, &view));
    return add_view(l, &hyp_lower_value(l, v)->type, &view, swapped, lane, axes, out);
}

/* Both parts of the keys, or of the values, and how many there are of each. */
static hyp_status add_parts(hyp_lowering *l, hyp_value_id v, const hyp_parts *parts, bool swapped, const int32_t *lanes,
                            hyp_axes *axes, operand *operands, hyp_dim *sizes)
{
    for (uint32_t i = 0; i < 2; i++) {
        hyp_view view;
        HYP_TRY(hyp_lower_find_part(l, parts, i, &view, &sizes[i]));
        HYP_TRY(add_view(l, &hyp_lower_value(l, v)->type, &view, swapped, lanes[i], axes, &operands[lanes[i]]));
    }
    return HYP_OK;
}

/* Keys and values, in two parts where they come so: `sizes` of them. */
static hyp_status add_keys(hyp_lowering *l, const hyp_node *node, hyp_axes *axes, operand *operands, hyp_dim *sizes,
                           bool *out_parts)
{
    static const int32_t k_lanes[] = {K, MORE_K}, v_lanes[] = {V, MORE_V};
    bool swapped = node->attrs[0].i == 0;
    hyp_parts k, v;
    HYP_TRY(hyp_lower_find_key_parts(l, node, &k, &v));
    *out_parts = k.concat != NULL;
    if (!*out_parts) {
        HYP_TRY(add_input(l, node->inputs[1], swapped, K, axes, &operands[K]));
        return add_input(l, node->inputs[2], false, V, axes, &operands[V]);
    }
    HYP_TRY(add_parts(l, node->inputs[1], &k, swapped, k_lanes, axes, operands, sizes));
    return add_parts(l, node->inputs[2], &v, false, v_lanes, axes, operands, sizes);
}

static hyp_status add_mask(hyp_lowering *l, hyp_value_id v, hyp_dim rows, hyp_dim keys, hyp_axes *axes, operand *out)
{
    const hyp_type *type = &hyp_lower_value(l, v)->type;
    hyp_axes whole = {.rank = axes->rank + 2, .lanes = 1};
    memcpy(whole.extents, axes->extents, sizeof whole.extents);
    whole.extents[axes->rank] = rows;
    whole.extents[axes->rank + 1] = keys;
    HYP_TRY(hyp_lower_broadcast(l, &whole, 0, type));
    memcpy(axes->strides[MASK], whole.strides[0], sizeof axes->strides[MASK]);
    out->row = whole.strides[0][axes->rank];
    out->column = whole.strides[0][axes->rank + 1];
    return hyp_lower_read(l, v, &out->tensor);
}

/* The result, [.. heads rows columns], the rows in front of `behind` axes of heads: batch axes, their strides, those of
 * rows. */
static hyp_status add_result(hyp_lowering *l, const hyp_type *type, int32_t behind, hyp_axes *axes, operand *out)
{
    hyp_dim strides[HYP_MAX_RANK];
    HYP_TRY(hyp_lower_strides(l, type->rank, type->dims, strides));
    axes->rank = type->rank - 2;
    axes->lanes = LANES;
    for (int32_t i = 0; i < axes->rank; i++) {
        int32_t from = i + (i >= axes->rank - behind);
        axes->extents[i] = type->dims[from];
        axes->strides[Y][i] = strides[from];
    }
    *out = (operand){.row = strides[axes->rank - behind], .column = 1};
    return HYP_OK;
}

static hyp_status finish_operand(hyp_lowering *l, const hyp_axes *axes, int32_t lane, const operand *from,
                                 HypPlan__Attention__Operand **out)
{
    hyp_dim strides[HYP_MAX_RANK];
    size_t batch = (size_t)axes->rank;
    void *memory;
    HYP_TRY(hyp_lower_alloc(l, 1, sizeof **out, &memory));
    *out = memory;
    hyp_plan__attention__operand__init(*out);
    memcpy(strides, axes->strides[lane], batch * sizeof *strides);
    strides[batch] = from->row;
    strides[batch + 1] = from->column;
    (*out)->tensor = from->tensor;
    (*out)->n_strides = batch + 2;
    HYP_TRY(hyp_lower_dims(l, batch + 2, strides, &(*out)->strides));
    return hyp_lower_dim(l, from->offset, &(*out)->offset);
}

hyp_status hyp_emit_attention(hyp_lowering *l, const hyp_node *node)
{
    const hyp_type *q = &hyp_lower_value(l, node->inputs[0])->type, *v = &hyp_lower_value(l, node->inputs[2])->type;
    const hyp_type *y = &hyp_lower_value(l, node->outputs[0])->type;
    hyp_value_id mask = node->input_count > 3 ? node->inputs[3] : HYP_NO_VALUE;
    hyp_dim rows = q->dims[q->rank - 2], keys = v->dims[v->rank - 2];
    operand operands[LANES] = {0};
    hyp_axes axes = {0};
    hyp_dim sizes[2] = {0};
    bool in_parts;
    HYP_TRY(add_result(l, y, (int32_t)node->attrs[1].i, &axes, &operands[Y]));
    HYP_TRY(add_input(l, node->inputs[0], false, Q, &axes, &operands[Q]));
    HYP_TRY(add_keys(l, node, &axes, operands, sizes, &in_parts));
    if (mask != HYP_NO_VALUE) HYP_TRY(add_mask(l, mask, rows, keys, &axes, &operands[MASK]));
    HYP_TRY(hyp_lower_write(l, node->outputs[0], &operands[Y].tensor));
    hyp_lower_merge_axes(l, &axes);

    HypPlan__Step *step;
    HYP_TRY(hyp_lower_add_step(l, hyp_op_get(node->op)->name, &node, 1, HYP_PLAN__STEP__KERNEL_ATTENTION, &step));
    HypPlan__Attention *a = step->attention;
    a->n_batch = (size_t)axes.rank;
    HYP_TRY(hyp_lower_dims(l, a->n_batch, axes.extents, &a->batch));
    HYP_TRY(hyp_lower_dim(l, rows, &a->rows));
    HYP_TRY(hyp_lower_dim(l, keys, &a->keys));
    HYP_TRY(hyp_lower_dim(l, q->dims[q->rank - 1], &a->width));
    HYP_TRY(hyp_lower_dim(l, v->dims[v->rank - 1], &a->columns));
    HYP_TRY(finish_operand(l, &axes, Q, &operands[Q], &a->q));
    HYP_TRY(finish_operand(l, &axes, K, &operands[K], &a->k));
    HYP_TRY(finish_operand(l, &axes, V, &operands[V], &a->v));
    HYP_TRY(finish_operand(l, &axes, Y, &operands[Y], &a->y));
    if (mask != HYP_NO_VALUE) HYP_TRY(finish_operand(l, &axes, MASK, &operands[MASK], &a->mask));
    if (in_parts) {
        HYP_TRY(finish_operand(l, &axes, MORE_K, &operands[MORE_K], &a->more_k));
        HYP_TRY(finish_operand(l, &axes, MORE_V, &operands[MORE_V], &a->more_v));
        HYP_TRY(hyp_lower_dim(l, sizes[0], &a->first_keys));
        HYP_TRY(hyp_lower_dim(l, sizes[1], &a->more_keys));
    }
    a->scale = (float)node->attrs[2].f;
    a->fill = (float)node->attrs[3].f;
    a->shown = node->attrs[4].i != 0;
    a->plain = node->attrs[5].i == 0;
    a->tf32 = l->options->precision == HYP_PRECISION_TF32 && y->dtype == HYP_F32;
    return HYP_OK;
}
