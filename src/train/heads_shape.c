/* heads_shape.c - heads of gradients that shapes decide: what was reshaped, moved, reduced or picked, put back. */
#include <stdio.h>
#include <string.h>

#include "train/form.h"

static hyp_type input_type(const hyp_scope *s, uint32_t i) { return hyp_build_type(s->b, s->node.inputs[i]); }

/* ---- types and shapes ------------------------------------------------------------------------------- */

hyp_value_id hyp_head_fit(hyp_scope *s, const hyp_value_id *args)
{
    hyp_type to = hyp_build_type(s->b, args[0]);
    return hyp_build_fit(s->b, args[1], &to);
}

hyp_value_id hyp_head_reshape_to(hyp_scope *s, const hyp_value_id *args)
{
    hyp_type to = hyp_build_type(s->b, args[0]);
    return hyp_build_reshape(s->b, args[1], to.rank, to.dims);
}

hyp_value_id hyp_head_zeros(hyp_scope *s, const hyp_value_id *args)
{
    hyp_type type = hyp_build_type(s->b, args[0]);
    return hyp_build_full(s->b, &type, 0);
}

hyp_value_id hyp_head_given(hyp_scope *s, const hyp_value_id *args)
{
    return args[0] != HYP_NO_VALUE ? args[0] : hyp_head_zeros(s, &args[1]);
}

hyp_value_id hyp_head_like(hyp_scope *s, const hyp_value_id *args)
{
    return hyp_build_cast(s->b, args[1], hyp_build_type(s->b, args[0]).dtype);
}

hyp_value_id hyp_head_rows(hyp_scope *s, const hyp_value_id *args)
{
    hyp_type t = hyp_build_type(s->b, args[0]);
    const hyp_dim dims[] = {hyp_build_count(s->b, &t, 0, t.rank - 1), t.dims[t.rank - 1]};
    return hyp_build_reshape(s->b, args[0], 2, dims);
}

/* ---- reductions ------------------------------------------------------------------------------------- */

/* The axes of the node's first attribute, marked, in a tensor of this rank. */
static void mark_axes(const hyp_scope *s, int32_t rank, bool *mark)
{
    memset(mark, 0, HYP_MAX_RANK * sizeof *mark);
    for (uint32_t i = 0; i < s->node.attrs[0].count; i++) {
        hyp_dim axis = s->node.attrs[0].dims[i];
        mark[axis < 0 ? axis + rank : axis] = true;
    }
}

hyp_value_id hyp_head_keep(hyp_scope *s, const hyp_value_id *args)
{
    hyp_type x = input_type(s, 0);
    bool reduced[HYP_MAX_RANK];
    mark_axes(s, x.rank, reduced);
    for (int32_t i = 0; i < x.rank; i++)
        if (reduced[i]) x.dims[i] = 1;
    return hyp_build_reshape(s->b, args[0], x.rank, x.dims);
}

hyp_value_id hyp_head_ratio(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type x = hyp_build_type(b, args[0]), y = hyp_build_type(b, args[1]);
    hyp_dim all = hyp_build_count(b, &x, 0, x.rank), each = hyp_build_count(b, &y, 0, y.rank), ratio;
    if (hyp_build_ok(b) && each != 0 && hyp_dim_floordiv(b->g->dims, all, each, &ratio, NULL) == HYP_OK &&
        hyp_dim_is_const(ratio) && hyp_build_mul(b, ratio, each) == all)
        return hyp_build_scalar(b, y.dtype, (double)ratio);
    hyp_value_id count = hyp_build_cast(b, hyp_build_node(b, HYP_OP_size, NULL, args[0]), y.dtype);
    if (each == 1) return count;
    return hyp_build_node(b, HYP_OP_div, NULL, count,
                          hyp_build_cast(b, hyp_build_node(b, HYP_OP_size, NULL, args[1]), y.dtype));
}

/* The products of what stands before and of what stands behind each element, along the reduced axes as one: a zero
 * among them is nothing special. */
hyp_value_id hyp_head_others(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type x = hyp_build_type(b, args[0]), moved = x;
    bool reduced[HYP_MAX_RANK];
    hyp_dim perm[HYP_MAX_RANK], back[HYP_MAX_RANK];
    int32_t at = 0, kept;
    mark_axes(s, x.rank, reduced);
    for (int32_t i = 0; i < x.rank; i++)
        if (!reduced[i]) perm[at++] = i;
    kept = at;
    for (int32_t i = 0; i < x.rank; i++)
        if (reduced[i]) perm[at++] = i;
    for (int32_t i = 0; i < x.rank; i++) {
        back[perm[i]] = i;
        moved.dims[i] = x.dims[perm[i]];
    }
    hyp_type flat = moved;
    flat.rank = kept + 1;
    flat.dims[kept] = hyp_build_count(b, &moved, kept, x.rank);
    hyp_value_id v = hyp_build_reshape(b, hyp_build_transpose(b, args[0], perm), flat.rank, flat.dims);
    const hyp_attr before[] = {hyp_attr_of_int(kept), hyp_attr_of_int(1), hyp_attr_of_int(0)};
    const hyp_attr behind[] = {hyp_attr_of_int(kept), hyp_attr_of_int(1), hyp_attr_of_int(1)};
    v = hyp_build_node(b, HYP_OP_mul, NULL, hyp_build_node(b, HYP_OP_cumprod, before, v),
                       hyp_build_node(b, HYP_OP_cumprod, behind, v));
    return hyp_build_transpose(b, hyp_build_reshape(b, v, x.rank, moved.dims), back);
}

static const hyp_node *maker(const hyp_graph *g, hyp_value_id v)
{
    const hyp_value *value = &g->values.data[v];
    return value->kind == HYP_VALUE_NODE ? &g->nodes.data[value->producer] : NULL;
}

/* Whether a value is a sum of squares. */
static bool is_square_sum(const hyp_graph *g, hyp_value_id v)
{
    const hyp_node *sum = maker(g, v), *square = sum && sum->op == HYP_OP_reduce_sum ? maker(g, sum->inputs[0]) : NULL;
    return square && square->op == HYP_OP_mul && square->inputs[0] == square->inputs[1];
}

/* The root of 0 has no slope but an infinite one, which times the slopes of squares, 0, would be no number: the length of
 * a vector of zeros has slopes of 0, as a norm of PyTorch has. */
hyp_value_id hyp_head_over_root(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_value_id y = s->node.outputs[0];
    hyp_dtype dtype = hyp_build_type(b, y).dtype;
    hyp_value_id twice = hyp_build_node(b, HYP_OP_mul, NULL, hyp_build_scalar(b, dtype, 2), y);
    hyp_value_id slope = hyp_build_node(b, HYP_OP_div, NULL, args[0], twice), zero = hyp_build_scalar(b, dtype, 0);
    if (!is_square_sum(b->g, s->node.inputs[0])) return slope;
    return hyp_build_node(b, HYP_OP_where, NULL, hyp_build_node(b, HYP_OP_equal, NULL, y, zero), zero, slope);
}

/* ---- moves ------------------------------------------------------------------------------------------ */

hyp_value_id hyp_head_untranspose(hyp_scope *s, const hyp_value_id *args)
{
    const hyp_attr *perm = &s->node.attrs[0];
    hyp_dim back[HYP_MAX_RANK] = {0};
    for (uint32_t i = 0; i < perm->count; i++) back[perm->dims[i]] = i;
    return hyp_build_transpose(s->b, args[0], back);
}

hyp_value_id hyp_head_part(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type g = hyp_build_type(b, args[0]);
    int32_t axis = hyp_scope_axis(s, 0, g.rank);
    hyp_type part = input_type(s, s->input);
    hyp_dim starts[HYP_MAX_RANK] = {0};
    for (uint32_t i = 0; i < s->input; i++) starts[axis] = hyp_build_add(b, starts[axis], input_type(s, i).dims[axis]);
    return s->node.input_count == 1 ? args[0] : hyp_build_slice(b, args[0], starts, part.dims);
}

hyp_value_id hyp_head_join(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    char name[16];
    hyp_value_id *parts = hyp_arena_zalloc(&b->arena, s->node.output_count, sizeof *parts);
    (void)args;
    if (!parts) return hyp_build_note(b, hyp_fail_memory(b->diag, sizeof *parts)), HYP_NO_VALUE;
    for (uint32_t i = 0; i < s->node.output_count; i++) {
        hyp_type type = hyp_build_type(b, s->node.outputs[i]);
        snprintf(name, sizeof name, "g%u", i);
        parts[i] = hyp_scope_find(s, name);
        if (parts[i] == HYP_NO_VALUE) parts[i] = hyp_build_full(b, &type, 0);
    }
    return hyp_build_output(b, HYP_OP_concat, &s->node.attrs[0], parts, s->node.output_count, 1, 0);
}

/* n elements along an axis, in steps of `step` from `start` on in an axis of `size`: zeros between them, before and
 * behind. */
static hyp_value_id spread(hyp_builder *b, hyp_value_id v, int32_t axis, hyp_dim start, int64_t step, hyp_dim size)
{
    hyp_type t = hyp_build_type(b, v);
    hyp_dim n = t.dims[axis], reach = n;
    if (n == 0) return hyp_build_pad(b, v, axis, 0, size);
    if (step != 1) {
        /* [outer n inner] with step - 1 zeros behind each of the n, those behind the last one cut off */
        hyp_dim outer = hyp_build_count(b, &t, 0, axis), inner = hyp_build_count(b, &t, axis + 1, t.rank);
        hyp_dim all = hyp_build_mul(b, n, step), room[] = {outer, n, 1, inner};
        reach = hyp_build_sub(b, all, step - 1);
        v = hyp_build_pad(b, hyp_build_reshape(b, v, 4, room), 2, 0, step - 1);
        t.dims[axis] = all;
        v = hyp_build_reshape(b, v, t.rank, t.dims);
        t.dims[axis] = reach;
        v = hyp_build_head(b, v, t.dims);
    }
    return hyp_build_pad(b, v, axis, start, hyp_build_sub(b, hyp_build_sub(b, size, start), reach));
}

hyp_value_id hyp_head_unslice(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type x = input_type(s, 0);
    const hyp_dim *starts = s->node.attrs[0].dims, *sizes = s->node.attrs[1].dims, *steps = s->node.attrs[2].dims;
    hyp_dim from[HYP_MAX_RANK] = {0}, step[HYP_MAX_RANK];
    hyp_value_id v = args[0];
    bool backward = false;
    for (int32_t i = 0; i < x.rank; i++) {
        step[i] = steps[i] < 0 ? -1 : 1;
        if (steps[i] < 0) from[i] = hyp_build_sub(b, sizes[i], 1);
        backward |= steps[i] < 0;
    }
    if (backward && hyp_build_ok(b)) {
        const hyp_attr attrs[] = {hyp_attr_of_dims(from, x.rank), hyp_attr_of_dims(sizes, x.rank),
                                  hyp_attr_of_dims(step, x.rank)};
        v = hyp_build_node(b, HYP_OP_slice, attrs, v);
    }
    for (int32_t i = 0; i < x.rank; i++) {
        int64_t away = steps[i] < 0 ? -steps[i] : steps[i];
        hyp_dim start = starts[i]; /* of the smallest place */
        if (steps[i] < 0) start = hyp_build_sub(b, start, hyp_build_mul(b, from[i], away));
        if (sizes[i] != x.dims[i] || away != 1) v = spread(b, v, i, sizes[i] == 0 ? 0 : start, away, x.dims[i]);
    }
    return v;
}

hyp_value_id hyp_head_unpad(hyp_scope *s, const hyp_value_id *args)
{
    return hyp_build_slice(s->b, args[0], s->node.attrs[0].dims, input_type(s, 0).dims);
}

/* g [pre indices post] becomes [n pre post], is scattered along the first axis, which then goes back to its place. */
hyp_value_id hyp_head_ungather(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type x = input_type(s, 0), indices = input_type(s, 1), g = hyp_build_type(b, args[0]);
    int32_t axis = hyp_scope_axis(s, 0, x.rank);
    const hyp_value *known = &b->g->values.data[s->node.inputs[1]];
    hyp_type one = x;
    one.dims[axis] = 1;
    if (indices.rank == 0 && known->content && hyp_dim_is_const(known->content[0])) {
        hyp_dim at = known->content[0];
        return spread(b, hyp_build_reshape(b, args[0], one.rank, one.dims), axis,
                      at < 0 ? hyp_build_add(b, at, x.dims[axis]) : at, 1, x.dims[axis]);
    }
    hyp_dim perm[HYP_MAX_RANK], n = hyp_build_count(b, &indices, 0, indices.rank), rows[HYP_MAX_RANK];
    for (int32_t i = 0; i < g.rank; i++)
        perm[i] = i < indices.rank ? axis + i : i < indices.rank + axis ? i - indices.rank : i;
    rows[0] = n;
    for (int32_t i = 0, at = 1; i < x.rank; i++)
        if (i != axis) rows[at++] = x.dims[i];
    hyp_value_id v = hyp_build_reshape(b, hyp_build_transpose(b, args[0], perm), x.rank, rows);
    hyp_type all = hyp_build_type(b, v);
    all.dims[0] = x.dims[axis];
    const hyp_dim column[] = {n, 1};
    const hyp_attr add = hyp_attr_of_sym("add");
    v = hyp_build_node(b, HYP_OP_scatter_nd, &add, hyp_build_full(b, &all, 0),
                       hyp_build_reshape(b, s->node.inputs[1], 2, column), v);
    return hyp_build_axis_back(b, v, axis);
}

/* Tuples along the last axis of indices behind batch axes become tuples of all axes from the first on. */
hyp_value_id hyp_head_from_first_axis(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    const int64_t batch = s->node.attrs[0].i;
    hyp_type t = hyp_build_type(b, args[0]), one = t;
    hyp_value_id parts[HYP_MAX_RANK + 1];
    if (batch == 0 || !hyp_build_ok(b)) return args[0];
    one.dims[t.rank - 1] = 1;
    for (int32_t a = 0; a < batch; a++) {
        const hyp_attr size = hyp_attr_of_dims(&t.dims[a], 1), shape = hyp_attr_of_dims(one.dims, (uint32_t)one.rank);
        hyp_dim along[HYP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        along[a] = t.dims[a];
        hyp_value_id first = hyp_build_scalar(b, t.dtype, 0), step = hyp_build_scalar(b, t.dtype, 1);
        hyp_value_id v = hyp_build_node(b, HYP_OP_range, &size, first, step);
        parts[a] = hyp_build_node(b, HYP_OP_expand, &shape, hyp_build_reshape(b, v, t.rank, along));
    }
    parts[batch] = args[0];
    const hyp_attr last = hyp_attr_of_int(t.rank - 1);
    return hyp_build_output(b, HYP_OP_concat, &last, parts, (uint32_t)batch + 1, 1, 0);
}

/* ---- resize ----------------------------------------------------------------------------------------- */

enum { MOST_RESIZED = 4096 }; /* of an axis: its matrix has the square of that */

/* 1 where row and column are the same. */
static hyp_value_id unit_matrix(hyp_builder *b, hyp_dtype dtype, hyp_dim size)
{
    const hyp_type row = {.dtype = HYP_F32, .rank = 1, .dims = {size}},
                   column = {.dtype = HYP_F32, .rank = 2, .dims = {size, 1}};
    hyp_value_id same =
        hyp_build_node(b, HYP_OP_equal, NULL, hyp_build_numbers(b, &column, 1), hyp_build_numbers(b, &row, 1));
    return hyp_build_node(b, HYP_OP_where, NULL, same, hyp_build_scalar(b, dtype, 1), hyp_build_scalar(b, dtype, 0));
}

static hyp_value_id input_or_none(const hyp_scope *s, uint32_t i)
{
    return i < s->node.input_count ? s->node.inputs[i] : HYP_NO_VALUE;
}

/* Element `at` of a list, and `next` behind it. */
static hyp_value_id pair_of(hyp_builder *b, hyp_value_id list, hyp_dim at, double next)
{
    const hyp_dim one = 1;
    const hyp_type type = {.dtype = hyp_build_type(b, list).dtype, .rank = 1, .dims = {1}};
    const hyp_attr first = hyp_attr_of_int(0);
    return hyp_build_node(b, HYP_OP_concat, &first, hyp_build_slice(b, list, &at, &one), hyp_build_full(b, &type, next));
}

/* The matrix of a resize along one axis [to, from]: what it makes of the unit vectors, in the axis' part of the region.
 * What is outside of the image does not come from it: 0. */
static hyp_value_id resize_matrix(hyp_scope *s, int32_t axis, hyp_dim from, hyp_dim to)
{
    hyp_builder *b = s->b;
    hyp_value_id in[] = {unit_matrix(b, input_type(s, 0).dtype, from), input_or_none(s, 1), input_or_none(s, 2)};
    const hyp_dim sizes[] = {to, from};
    const hyp_attr first = hyp_attr_of_int(0);
    hyp_attr attrs[HYP_MAX_ATTRS];
    memcpy(attrs, s->node.attrs, hyp_op_get(HYP_OP_resize)->attr_count * sizeof *attrs);
    attrs[0] = hyp_attr_of_dims(sizes, 2);
    attrs[7] = hyp_attr_of_float(0);
    if (in[1] != HYP_NO_VALUE) in[1] = pair_of(b, in[1], axis, 1);
    if (in[2] != HYP_NO_VALUE)
        in[2] = hyp_build_node(b, HYP_OP_concat, &first, pair_of(b, in[2], axis, 0),
                               pair_of(b, in[2], input_type(s, 0).rank + axis, 1));
    return hyp_build_output(b, HYP_OP_resize, attrs, in, 3, 1, 0);
}

/* Whether a number of a list is known to be this one, or there is no list. */
static bool is_known(const hyp_scope *s, hyp_value_id list, int32_t at, double number)
{
    if (list == HYP_NO_VALUE) return true;
    const hyp_value *v = &s->b->g->values.data[list];
    return v->data && hyp_load_f64(v->type.dtype, v->data, (size_t)at) == number;
}

/* Whether an axis that keeps its size also keeps its elements: scales that were given may be others than those of the
 * sizes, and the region another than all of it. */
static bool is_kept(const hyp_scope *s, int32_t axis)
{
    hyp_value_id roi = strcmp(s->node.attrs[2].sym, "tf_crop_and_resize") == 0 ? input_or_none(s, 2) : HYP_NO_VALUE;
    return is_known(s, input_or_none(s, 1), axis, 1) && is_known(s, roi, axis, 0) &&
           is_known(s, roi, input_type(s, 0).rank + axis, 1);
}

/* All modes are products with a matrix along each axis; the gradient is that with its transpose. */
hyp_value_id hyp_head_unresize(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type x = input_type(s, 0), y = hyp_build_type(b, s->node.outputs[0]);
    hyp_value_id v = args[0];
    for (int32_t i = 0; i < x.rank && hyp_build_ok(b); i++) {
        hyp_dim from = x.dims[i], to = y.dims[i];
        if (from == to && is_kept(s, i)) continue;
        if (!hyp_dim_is_const(from) || !hyp_dim_is_const(to) || from > MOST_RESIZED) {
            hyp_build_note(
                b, hyp_fail(b->diag, HYP_ERR_UNSUPPORTED,
                            "the gradient of a resize wants axes of fixed sizes, of at most %d before; axis %d is of "
                            "another; fix it with --dim",
                            MOST_RESIZED, i));
            break;
        }
        hyp_value_id matrix = resize_matrix(s, i, from, to);
        bool last = i == x.rank - 1;
        if (last) {
            v = hyp_build_node(b, HYP_OP_matmul, NULL, v, matrix);
            continue;
        }
        /* [outer to inner] -> [outer from inner] */
        hyp_type t = hyp_build_type(b, v);
        const hyp_attr attrs[] = {hyp_attr_of_int(1), hyp_attr_of_int(0), hyp_attr_of_float(1)};
        const hyp_dim parts[] = {hyp_build_count(b, &t, 0, i), to, hyp_build_count(b, &t, i + 1, t.rank)};
        v = hyp_build_node(b, HYP_OP_matmul, attrs, matrix, hyp_build_reshape(b, v, 3, parts));
        t.dims[i] = from;
        v = hyp_build_reshape(b, v, t.rank, t.dims);
    }
    return v;
}
