/* build.c - making nodes without a check behind each. */
#include <string.h>

#include "train/build.h"

void hyp_builder_dispose(hyp_builder *b)
{
    hyp_vec_free(&b->scalars);
    hyp_arena_dispose(&b->arena);
}

void hyp_build_note(hyp_builder *b, hyp_status status)
{
    if (b->status == HYP_OK) b->status = status;
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

typedef hyp_status combine_dims(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);

static hyp_dim combine(hyp_builder *b, combine_dims *how, hyp_dim x, hyp_dim y)
{
    hyp_dim out = 0;
    if (hyp_build_ok(b)) hyp_build_note(b, how(b->g->dims, x, y, &out, b->diag));
    return hyp_build_ok(b) ? out : 0;
}

hyp_dim hyp_build_add(hyp_builder *b, hyp_dim x, hyp_dim y) { return combine(b, hyp_dim_add, x, y); }
hyp_dim hyp_build_sub(hyp_builder *b, hyp_dim x, hyp_dim y) { return combine(b, hyp_dim_sub, x, y); }
hyp_dim hyp_build_mul(hyp_builder *b, hyp_dim x, hyp_dim y) { return combine(b, hyp_dim_mul, x, y); }

hyp_dim hyp_build_count(hyp_builder *b, const hyp_type *t, int32_t first, int32_t end)
{
    hyp_dim product = 1;
    for (int32_t i = first; i < end; i++) product = hyp_build_mul(b, product, t->dims[i]);
    return product;
}

/* ---- nodes ------------------------------------------------------------------------------------------ */

hyp_type hyp_build_type(const hyp_builder *b, hyp_value_id v)
{
    return v == HYP_NO_VALUE ? (hyp_type){.dtype = HYP_F32} : b->g->values.data[v].type;
}

void hyp_build_outputs(hyp_builder *b, hyp_op op, const hyp_attr *attrs, const hyp_value_id *inputs, uint32_t count,
                       hyp_value_id *outs, uint32_t out_count)
{
    if (hyp_build_ok(b))
        hyp_build_note(b, hyp_graph_add_node(b->g, op, inputs, count, attrs, &b->from, outs, out_count, b->diag));
    for (uint32_t i = 0; !hyp_build_ok(b) && i < out_count; i++) outs[i] = HYP_NO_VALUE;
}

hyp_value_id hyp_build_output(hyp_builder *b, hyp_op op, const hyp_attr *attrs, const hyp_value_id *inputs,
                              uint32_t count, uint32_t outputs, uint32_t output)
{
    hyp_value_id *outs = hyp_arena_zalloc(&b->arena, outputs, sizeof *outs);
    if (!outs) return hyp_build_note(b, hyp_fail_memory(b->diag, outputs * sizeof *outs)), HYP_NO_VALUE;
    hyp_build_outputs(b, op, attrs, inputs, count, outs, outputs);
    return outs[output];
}

hyp_value_id hyp_build_const(hyp_builder *b, const hyp_type *type, const void *data, size_t bytes)
{
    hyp_value_id out = HYP_NO_VALUE;
    if (hyp_build_ok(b)) hyp_build_note(b, hyp_graph_add_const(b->g, NULL, type, data, bytes, true, &out, b->diag));
    return hyp_build_ok(b) ? out : HYP_NO_VALUE;
}

hyp_value_id hyp_build_scalar(hyp_builder *b, hyp_dtype dtype, double value)
{
    const hyp_type type = {.dtype = dtype};
    unsigned char data[8] = {0};
    size_t bytes = hyp_dtype_size(dtype);
    hyp_store_f64(dtype, data, 0, value);
    for (size_t i = 0; i < b->scalars.len; i++) {
        const hyp_value *v = &b->g->values.data[b->scalars.data[i]];
        if (v->type.dtype == dtype && memcmp(v->data, data, bytes) == 0) return b->scalars.data[i];
    }
    hyp_value_id out = hyp_build_const(b, &type, data, bytes);
    if (hyp_build_ok(b)) hyp_build_note(b, hyp_vec_push(&b->scalars, b->diag, out));
    return out;
}

hyp_value_id hyp_build_numbers(hyp_builder *b, const hyp_type *type, int64_t step)
{
    size_t bytes = 0, size = hyp_dtype_size(type->dtype);
    if (!hyp_type_bytes(type, &bytes)) hyp_build_note(b, hyp_fail(b->diag, HYP_ERR_LIMIT, "a constant beyond memory"));
    unsigned char *data = hyp_build_ok(b) ? hyp_arena_alloc(&b->arena, bytes) : NULL;
    if (!data && hyp_build_ok(b)) hyp_build_note(b, hyp_fail_memory(b->diag, bytes));
    for (size_t i = 0; data && i < bytes / size; i++) hyp_store_f64(type->dtype, data, i, (double)i * (double)step);
    return data ? hyp_build_const(b, type, data, bytes) : HYP_NO_VALUE;
}

hyp_value_id hyp_build_full(hyp_builder *b, const hyp_type *type, double value)
{
    hyp_attr shape = hyp_attr_of_dims(type->dims, type->rank);
    hyp_value_id scalar = hyp_build_scalar(b, type->dtype, value);
    return type->rank ? hyp_build_node(b, HYP_OP_expand, &shape, scalar) : scalar;
}

hyp_value_id hyp_build_cast(hyp_builder *b, hyp_value_id v, hyp_dtype dtype)
{
    hyp_attr to = hyp_attr_of_sym(hyp_dtype_name(dtype));
    return hyp_build_type(b, v).dtype == dtype ? v : hyp_build_node(b, HYP_OP_cast, &to, v);
}

hyp_value_id hyp_build_reshape(hyp_builder *b, hyp_value_id v, int32_t rank, const hyp_dim *dims)
{
    hyp_type have = hyp_build_type(b, v);
    hyp_attr shape = hyp_attr_of_dims(dims, rank);
    bool same = have.rank == rank && (rank == 0 || memcmp(have.dims, dims, (size_t)rank * sizeof *dims) == 0);
    return same ? v : hyp_build_node(b, HYP_OP_reshape, &shape, v);
}

hyp_value_id hyp_build_transpose(hyp_builder *b, hyp_value_id v, const hyp_dim *perm)
{
    int32_t rank = hyp_build_type(b, v).rank;
    hyp_attr attr = hyp_attr_of_dims(perm, rank);
    bool same = true;
    for (int32_t i = 0; i < rank; i++) same &= perm[i] == i;
    return same ? v : hyp_build_node(b, HYP_OP_transpose, &attr, v);
}

hyp_value_id hyp_build_axis_back(hyp_builder *b, hyp_value_id v, int32_t axis)
{
    hyp_dim perm[HYP_MAX_RANK] = {0};
    for (int32_t i = 0; i < HYP_MAX_RANK; i++) perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    return hyp_build_transpose(b, v, perm);
}

hyp_value_id hyp_build_slice(hyp_builder *b, hyp_value_id v, const hyp_dim *starts, const hyp_dim *sizes)
{
    const hyp_dim steps[] = {1, 1, 1, 1, 1, 1, 1, 1};
    int32_t rank = hyp_build_type(b, v).rank;
    const hyp_attr attrs[] = {hyp_attr_of_dims(starts, rank), hyp_attr_of_dims(sizes, rank),
                              hyp_attr_of_dims(steps, rank)};
    return hyp_build_node(b, HYP_OP_slice, attrs, v);
}

hyp_value_id hyp_build_head(hyp_builder *b, hyp_value_id v, const hyp_dim *dims)
{
    const hyp_dim starts[HYP_MAX_RANK] = {0};
    hyp_type have = hyp_build_type(b, v);
    bool all = memcmp(have.dims, dims, (size_t)have.rank * sizeof *dims) == 0;
    return all ? v : hyp_build_slice(b, v, starts, dims);
}

hyp_value_id hyp_build_pad(hyp_builder *b, hyp_value_id v, int32_t axis, hyp_dim before, hyp_dim after)
{
    hyp_type have = hyp_build_type(b, v);
    hyp_dim in_front[HYP_MAX_RANK] = {0}, behind[HYP_MAX_RANK] = {0};
    if (before == 0 && after == 0) return v;
    in_front[axis] = before;
    behind[axis] = after;
    const hyp_attr attrs[] = {hyp_attr_of_dims(in_front, have.rank), hyp_attr_of_dims(behind, have.rank)};
    return hyp_build_node(b, HYP_OP_pad, attrs, v, hyp_build_scalar(b, have.dtype, 0));
}

hyp_value_id hyp_build_sum(hyp_builder *b, hyp_value_id v, const hyp_dim *axes, int32_t count, bool keep)
{
    const hyp_attr attrs[] = {hyp_attr_of_dims(axes, count), hyp_attr_of_int(keep)};
    return count ? hyp_build_node(b, HYP_OP_reduce_sum, attrs, v) : v;
}

hyp_value_id hyp_build_reduce_all(hyp_builder *b, hyp_op op, hyp_value_id v)
{
    const hyp_dim axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const hyp_attr attrs[] = {hyp_attr_of_dims(axes, hyp_build_type(b, v).rank), hyp_attr_of_int(0)};
    return attrs[0].count ? hyp_build_node(b, op, attrs, v) : v;
}

hyp_value_id hyp_build_fit(hyp_builder *b, hyp_value_id v, const hyp_type *to)
{
    hyp_type have = hyp_build_type(b, v);
    int32_t more = have.rank - to->rank, count = 0; /* axes in front that `to` does not have */
    hyp_dim axes[HYP_MAX_RANK] = {0};
    for (int32_t i = 0; i < have.rank; i++)
        if (i < more || (to->dims[i - more] == 1 && have.dims[i] != 1)) axes[count++] = i;
    v = hyp_build_sum(b, v, axes, count, count > more);
    if (more > 0) v = hyp_build_reshape(b, v, to->rank, hyp_build_type(b, v).dims + (count > more ? more : 0));
    have = hyp_build_type(b, v);
    hyp_attr shape = hyp_attr_of_dims(to->dims, to->rank);
    bool same = have.rank == to->rank && memcmp(have.dims, to->dims, (size_t)to->rank * sizeof *to->dims) == 0;
    if (!same) v = hyp_build_node(b, HYP_OP_expand, &shape, v);
    return hyp_build_cast(b, v, to->dtype);
}
