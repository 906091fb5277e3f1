/* views.c - moves that a kernel which takes strides need not see done: transpositions, slices, splits, and reshapes
 * that split axes. Seen from the value that the kernel reads, each of its axes runs along one axis of the value behind
 * the moves.
 */
#include <string.h>

#include "codegen/lower.h"

/* A value and, by axis of the value that is read: along which axis of it, how many elements of that axis a step is. */
typedef struct moves {
    hyp_value_id value;
    int32_t axis[HYP_MAX_RANK];
    hyp_dim step[HYP_MAX_RANK];
    hyp_dim first[HYP_MAX_RANK]; /* by axis of `value`: where the part that is read begins */
} moves;

static void through_transpose(const hyp_node *node, int32_t rank, moves *m)
{
    hyp_dim first[HYP_MAX_RANK];
    const hyp_dim *perm = node->attrs[0].dims;
    for (uint32_t a = 0; a < node->attrs[0].count; a++) first[perm[a]] = m->first[a];
    memcpy(m->first, first, sizeof first);
    for (int32_t i = 0; i < rank; i++) m->axis[i] = (int32_t)perm[m->axis[i]];
    m->value = node->inputs[0];
}

/* A slice in steps of 1; false, and nothing done, for any other. */
static hyp_status through_slice(hyp_lowering *l, const hyp_node *node, moves *m, bool *out_done)
{
    const hyp_attr *starts = &node->attrs[0], *steps = &node->attrs[2];
    *out_done = true;
    for (uint32_t a = 0; a < steps->count; a++) *out_done = *out_done && steps->dims[a] == 1;
    for (uint32_t a = 0; a < starts->count && *out_done; a++)
        HYP_TRY(hyp_dim_add(l->graph->dims, m->first[a], starts->dims[a], &m->first[a], l->diag));
    if (*out_done) m->value = node->inputs[0];
    return HYP_OK;
}

/* The part of a tensor that an output of a split is. */
static hyp_status through_split(hyp_lowering *l, const hyp_node *node, moves *m)
{
    const hyp_attr *sizes = &node->attrs[1];
    int32_t rank = hyp_lower_value(l, node->inputs[0])->type.rank;
    int64_t axis = node->attrs[0].i < 0 ? node->attrs[0].i + rank : node->attrs[0].i;
    for (uint32_t i = 0; node->outputs[i] != m->value; i++)
        HYP_TRY(hyp_dim_add(l->graph->dims, m->first[axis], sizes->dims[i], &m->first[axis], l->diag));
    m->value = node->inputs[0];
    return HYP_OK;
}

/* A reshape in which every axis of the input is one axis of the result or a row of neighbours; false, and nothing done,
 * for any other, and where a part of a split axis was taken. */
static hyp_status through_reshape(hyp_lowering *l, const hyp_node *node, int32_t rank, moves *m, bool *out_done)
{
    const hyp_type *from = &hyp_lower_value(l, node->inputs[0])->type,
                   *to = &hyp_lower_value(l, node->outputs[0])->type;
    int32_t of[HYP_MAX_RANK], next = to->rank - 1;
    hyp_dim size[HYP_MAX_RANK], first[HYP_MAX_RANK] = {0}; /* by axis of `to`, of `from` */
    *out_done = false;
    for (int32_t a = from->rank - 1; a >= 0;
         a--) { /* from the last axis on, so that sizes are those of the inner ones */
        hyp_dim product = 1;
        int32_t last = next;
        while (next >= 0 && product != from->dims[a]) {
            of[next] = a;
            size[next] = product;
            if (hyp_dim_mul(l->graph->dims, product, to->dims[next], &product, NULL) != HYP_OK) return HYP_OK;
            if (m->first[next] != 0 && !(next == last && product == from->dims[a])) return HYP_OK;
            first[a] = m->first[next--];
        }
        if (product != from->dims[a]) return HYP_OK;
    }
    for (; next >= 0; next--) { /* what is left has to be axes of one element */
        if (to->dims[next] != 1 || m->first[next] != 0 || from->rank == 0) return HYP_OK;
        of[next] = 0;
        size[next] = 0;
    }
    for (int32_t i = 0; i < rank; i++) {
        int32_t a = m->axis[i];
        HYP_TRY(hyp_dim_mul(l->graph->dims, m->step[i], size[a], &m->step[i], l->diag));
        m->axis[i] = of[a];
    }
    memcpy(m->first, first, sizeof first);
    m->value = node->inputs[0];
    *out_done = true;
    return HYP_OK;
}

/* One move back; *out_done is false where the value has to be there as it is. */
static hyp_status go_back(hyp_lowering *l, int32_t rank, moves *m, bool *out_done)
{
    const hyp_value *value = hyp_lower_value(l, m->value);
    *out_done = false;
    if (value->kind != HYP_VALUE_NODE || l->values[m->value].constant || l->values[m->value].listed) return HYP_OK;
    const hyp_node *node = &l->graph->nodes.data[value->producer];
    switch (node->op) {
    case HYP_OP_transpose: through_transpose(node, rank, m); break;
    case HYP_OP_identity:
    case HYP_OP_dropout: m->value = node->inputs[0]; break;
    case HYP_OP_split: HYP_TRY(through_split(l, node, m)); break;
    case HYP_OP_slice: return through_slice(l, node, m, out_done);
    case HYP_OP_reshape:
    case HYP_OP_flatten:
    case HYP_OP_squeeze:
    case HYP_OP_unsqueeze: return through_reshape(l, node, rank, m, out_done);
    default: return HYP_OK;
    }
    *out_done = true;
    return HYP_OK;
}

hyp_status hyp_lower_find_view(hyp_lowering *l, hyp_value_id v, bool matrices, hyp_view *out)
{
    int32_t rank = hyp_lower_value(l, v)->type.rank;
    moves m = {.value = v};
    for (int32_t i = 0; i < rank; i++) {
        m.axis[i] = i;
        m.step[i] = 1;
    }
    for (bool done = true; done;) HYP_TRY(go_back(l, rank, &m, &done));
    const hyp_type *type = &hyp_lower_value(l, m.value)->type;
    hyp_dim strides[HYP_MAX_RANK];
    HYP_TRY(hyp_lower_strides(l, type->rank, type->dims, strides));
    *out = (hyp_view){.value = m.value};
    for (int32_t i = 0; i < rank; i++)
        HYP_TRY(hyp_dim_mul(l->graph->dims, m.step[i], strides[m.axis[i]], &out->strides[i], l->diag));
    bool together = rank < 2 || out->strides[rank - 1] == 1 || out->strides[rank - 2] == 1;
    if (matrices && !together && m.value != v) { /* no kernel for matrices takes that */
        *out = (hyp_view){.value = v};
        return hyp_lower_strides(l, rank, hyp_lower_value(l, v)->type.dims, out->strides);
    }
    for (int32_t a = 0; a < type->rank; a++) {
        hyp_dim skipped;
        HYP_TRY(hyp_dim_mul(l->graph->dims, m.first[a], strides[a], &skipped, l->diag));
        HYP_TRY(hyp_dim_add(l->graph->dims, out->offset, skipped, &out->offset, l->diag));
    }
    return HYP_OK;
}

/* Which axis of `to` each axis of `from` is part of, and in which steps; false where some axis of `to` is not a row of
 * neighbours of `from`. */
static bool find_merged(hyp_dims *dims, const hyp_type *from, const hyp_type *to, hyp_fine_view *out)
{
    int32_t next = from->rank - 1;
    for (int32_t a = to->rank - 1; a >= 0; a--) {
        hyp_dim product = 1;
        while (next >= 0 && product != to->dims[a]) {
            out->axis[next] = a;
            out->step[next] = product;
            if (hyp_dim_mul(dims, product, from->dims[next--], &product, NULL) != HYP_OK) return false;
        }
        if (product != to->dims[a]) return false;
    }
    for (; next >= 0; next--) { /* what is left has to be axes of one element */
        if (from->dims[next] != 1 || to->rank == 0) return false;
        out->axis[next] = 0;
        out->step[next] = 0;
    }
    return true;
}

hyp_status hyp_lower_find_fine_view(hyp_lowering *l, hyp_value_id v, hyp_fine_view *out)
{
    const hyp_value *value = hyp_lower_value(l, v);
    hyp_fine_view fine = {.of = v};
    *out = fine;
    for (int32_t i = 0; i < value->type.rank; i++) {
        out->axis[i] = i;
        out->step[i] = 1;
    }
    HYP_TRY(hyp_lower_find_view(l, v, false, &out->view));
    if (out->view.value != v || value->kind != HYP_VALUE_NODE || l->values[v].constant || l->values[v].listed) return HYP_OK;
    const hyp_node *node = &l->graph->nodes.data[value->producer];
    if (node->op != HYP_OP_reshape && node->op != HYP_OP_flatten) return HYP_OK;
    fine.of = node->inputs[0];
    if (!find_merged(l->graph->dims, &hyp_lower_value(l, fine.of)->type, &value->type, &fine)) return HYP_OK;
    HYP_TRY(hyp_lower_find_view(l, fine.of, false, &fine.view));
    if (fine.view.value != fine.of) *out = fine;
    return HYP_OK;
}

hyp_status hyp_lower_find_rows(hyp_lowering *l, hyp_value_id v, hyp_view *out)
{
    enum { LONG = 16 };
    const hyp_type *type = &hyp_lower_value(l, v)->type;
    int32_t last = type->rank - 1;
    hyp_view as_it_is = {.value = v};
    HYP_TRY(hyp_lower_strides(l, type->rank, type->dims, as_it_is.strides));
    HYP_TRY(hyp_lower_find_view(l, v, false, out));
    bool moved = l->options->target->reads_rows_in_place &&
                 memcmp(out->strides, as_it_is.strides, (size_t)type->rank * sizeof *out->strides) != 0;
    bool rows = moved && out->offset == 0 && out->strides[last] == 1 && hyp_dim_is_const(type->dims[last]) &&
                type->dims[last] >= LONG;
    if (!rows) *out = as_it_is;
    return HYP_OK;
}

/* ---- parts of a concat ------------------------------------------------------------------------------ */

/* The axis of this size and stride, -1 where there is none. */
static int32_t find_axis(const hyp_type *type, const hyp_dim *strides, hyp_dim size, hyp_dim stride)
{
    for (int32_t i = 0; i < type->rank; i++)
        if (type->dims[i] == size && strides[i] == stride) return i;
    return -1;
}

hyp_status hyp_lower_find_parts(hyp_lowering *l, hyp_value_id v, hyp_parts *out)
{
    const hyp_value *value = hyp_lower_value(l, v);
    hyp_parts parts = {.rank = value->type.rank};
    hyp_view view;
    hyp_dim strides[HYP_MAX_RANK];
    *out = (hyp_parts){0};
    HYP_TRY(hyp_lower_find_view(l, v, false, &view));
    const hyp_value *whole = hyp_lower_value(l, view.value);
    const hyp_value_info *info = &l->values[view.value];
    if (whole->kind != HYP_VALUE_NODE || info->constant || info->listed || view.offset != 0) return HYP_OK;
    parts.concat = &l->graph->nodes.data[whole->producer];
    if (parts.concat->op != HYP_OP_concat) return HYP_OK;
    int64_t along = parts.concat->attrs[0].i;
    if (along < 0) along += whole->type.rank;
    parts.axis = -1;
    for (int32_t i = 0; i < parts.rank; i++) parts.from[i] = -1;
    HYP_TRY(hyp_lower_strides(l, whole->type.rank, whole->type.dims, strides));
    for (int32_t a = 0; a < whole->type.rank; a++) {
        if (whole->type.dims[a] == 1) continue;
        int32_t i = find_axis(&value->type, view.strides, whole->type.dims[a], strides[a]);
        if (i < 0 || parts.from[i] >= 0) return HYP_OK;
        parts.from[i] = a;
        if (a == along) parts.axis = i;
    }
    for (int32_t i = 0; i < parts.rank; i++)
        if (parts.from[i] < 0 && value->type.dims[i] != 1) return HYP_OK;
    if (parts.axis >= 0) *out = parts;
    return HYP_OK;
}

hyp_status hyp_lower_find_copied_parts(hyp_lowering *l, hyp_value_id v, hyp_parts *out)
{
    HYP_TRY(hyp_lower_find_parts(l, v, out));
    if (out->concat && l->values[out->concat->outputs[0]].whole) *out = (hyp_parts){0};
    return HYP_OK;
}

hyp_status hyp_lower_find_part(hyp_lowering *l, const hyp_parts *parts, uint32_t i, hyp_view *out, hyp_dim *out_size)
{
    hyp_value_id part = parts->concat->inputs[i];
    hyp_view view;
    HYP_TRY(hyp_lower_find_view(l, part, false, &view));
    *out = (hyp_view){.value = view.value, .offset = view.offset};
    for (int32_t a = 0; a < parts->rank; a++) out->strides[a] = parts->from[a] < 0 ? 0 : view.strides[parts->from[a]];
    *out_size = hyp_lower_value(l, part)->type.dims[parts->from[parts->axis]];
    return HYP_OK;
}

/* In two parts along this axis, counted from the end. */
static hyp_status find_two(hyp_lowering *l, hyp_value_id v, int32_t from_end, hyp_parts *out)
{
    HYP_TRY(hyp_lower_find_parts(l, v, out));
    if (out->concat && (out->concat->input_count != 2 || out->axis != out->rank - from_end)) *out = (hyp_parts){0};
    return HYP_OK;
}

hyp_status hyp_lower_find_key_parts(hyp_lowering *l, const hyp_node *node, hyp_parts *out_k, hyp_parts *out_v)
{
    const hyp_type *q = &hyp_lower_value(l, node->inputs[0])->type;
    *out_k = *out_v = (hyp_parts){0};
    if (!l->options->target->reads_keys_in_parts || q->dims[q->rank - 2] != 1) return HYP_OK;
    HYP_TRY(find_two(l, node->inputs[1], node->attrs[0].i == 0 ? 1 : 2, out_k));
    HYP_TRY(find_two(l, node->inputs[2], 2, out_v));
    if (!out_k->concat || !out_v->concat) {
        *out_k = *out_v = (hyp_parts){0};
        return HYP_OK;
    }
    hyp_view unused;
    hyp_dim size_k, size_v;
    HYP_TRY(hyp_lower_find_part(l, out_k, 0, &unused, &size_k));
    HYP_TRY(hyp_lower_find_part(l, out_v, 0, &unused, &size_v));
    if (size_k != size_v) *out_k = *out_v = (hyp_parts){0};
    return HYP_OK;
}
