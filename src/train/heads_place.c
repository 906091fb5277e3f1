/* heads_place.c - heads of gradients of what is put at places that the data give, and of such places themselves. */
#include <string.h>

#include "train/form.h"

static hyp_type input_type(const hyp_scope *s, uint32_t i) { return hyp_build_type(s->b, s->node.inputs[i]); }

/* Places count in sizes no larger than those of the result, so that what g has beyond them is cut off before they are
 * read. */
hyp_value_id hyp_head_unpooled(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type counted = hyp_build_type(b, args[0]);
    memcpy(counted.dims + 2, s->node.attrs[0].dims, s->node.attrs[0].count * sizeof *counted.dims);
    hyp_value_id v = hyp_build_head(b, args[0], counted.dims);
    const hyp_dim all = hyp_build_count(b, &counted, 0, counted.rank);
    const hyp_attr first = hyp_attr_of_int(0);
    return hyp_build_node(b, HYP_OP_gather, &first, hyp_build_reshape(b, v, 1, &all), s->node.inputs[1]);
}

/* The size of an axis as a scalar of integers. */
static hyp_value_id size_of(hyp_builder *b, hyp_value_id v, int32_t axis, hyp_dtype dtype)
{
    hyp_dim size = hyp_build_type(b, v).dims[axis];
    if (hyp_dim_is_const(size)) return hyp_build_scalar(b, dtype, (double)size);
    const hyp_dim start = axis, one = 1;
    hyp_value_id shape = hyp_build_node(b, HYP_OP_shape, NULL, v);
    return hyp_build_cast(b, hyp_build_reshape(b, hyp_build_slice(b, shape, &start, &one), 0, NULL), dtype);
}

/* Of g what a cache took from the updates: from the first place of each batch on, circular around the end. */
hyp_value_id hyp_head_of_updates(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type updates = input_type(s, 1);
    int32_t axis = hyp_scope_axis(s, 0, updates.rank);
    hyp_value_id first = s->node.input_count > 2 ? s->node.inputs[2] : HYP_NO_VALUE;
    if (first == HYP_NO_VALUE) return hyp_build_head(b, args[0], updates.dims);
    const hyp_dtype dtype = hyp_build_type(b, first).dtype;
    const hyp_attr length = hyp_attr_of_dims(&updates.dims[axis], 1),
                   shape = hyp_attr_of_dims(updates.dims, (uint32_t)updates.rank), along = hyp_attr_of_int(axis);
    hyp_dim ones[HYP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, batch[HYP_MAX_RANK];
    memcpy(batch, ones, sizeof batch);
    batch[0] = updates.dims[0];
    ones[axis] = updates.dims[axis];
    hyp_value_id zero = hyp_build_scalar(b, dtype, 0), one = hyp_build_scalar(b, dtype, 1);
    hyp_value_id steps = hyp_build_node(b, HYP_OP_range, &length, zero, one);
    hyp_value_id at = hyp_build_node(b, HYP_OP_add, NULL, hyp_build_reshape(b, first, updates.rank, batch),
                                     hyp_build_reshape(b, steps, updates.rank, ones));
    if (strcmp(s->node.attrs[1].sym, "circular") == 0) {
        const hyp_attr sign_of_size = hyp_attr_of_int(0);
        at = hyp_build_node(b, HYP_OP_mod, &sign_of_size, at, size_of(b, args[0], axis, dtype));
    }
    at = hyp_build_node(b, HYP_OP_expand, &shape, at);
    return hyp_build_node(b, HYP_OP_gather_elements, &along, args[0], at);
}

/* The sums of g where the second value of a one-hot is not, and where it is. */
hyp_value_id hyp_head_off_on(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_dtype dtype = hyp_build_type(b, args[0]).dtype;
    const hyp_type pair = {.dtype = HYP_BOOL, .rank = 1, .dims = {2}};
    const hyp_dim one = 1;
    const hyp_attr first = hyp_attr_of_int(0);
    hyp_value_id on = hyp_build_node(b, HYP_OP_one_hot, s->node.attrs, s->node.inputs[0], hyp_build_numbers(b, &pair, 1));
    hyp_value_id zero = hyp_build_scalar(b, dtype, 0), parts[] = {hyp_build_node(b, HYP_OP_where, NULL, on, zero, args[0]),
                                                                  hyp_build_node(b, HYP_OP_where, NULL, on, args[0], zero)};
    for (int i = 0; i < 2; i++)
        parts[i] = hyp_build_reshape(b, hyp_build_reduce_all(b, HYP_OP_reduce_sum, parts[i]), 1, &one);
    return hyp_build_node(b, HYP_OP_concat, &first, parts[0], parts[1]);
}

/* Each place of a grid is a matrix times a place over [-1, 1] and 1, which the unit matrix gives. */
hyp_value_id hyp_head_of_matrices(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type theta = input_type(s, 0), g = hyp_build_type(b, args[0]), unit = theta, ones = theta;
    int32_t axes = g.rank - 2;
    double numbers[3 * 4] = {0};
    unsigned char data[sizeof numbers] = {0};
    hyp_dim sizes[HYP_MAX_RANK] = {1, 1};
    for (int32_t i = 0; i < axes; i++) {
        numbers[i * (axes + 1) + i] = 1;
        sizes[2 + i] = g.dims[1 + i];
    }
    for (int32_t i = 0; i < axes * (axes + 1); i++) hyp_store_f64(theta.dtype, data, (size_t)i, numbers[i]);
    unit.dims[0] = 1;
    hyp_value_id places = hyp_build_const(b, &unit, data, (size_t)(axes * (axes + 1)) * hyp_dtype_size(theta.dtype));
    const hyp_attr attrs[] = {hyp_attr_of_dims(sizes, (uint32_t)axes + 2), s->node.attrs[1]}, last = hyp_attr_of_int(1),
                   product[] = {hyp_attr_of_int(1), hyp_attr_of_int(0), hyp_attr_of_float(1)};
    hyp_dim rows[] = {g.dims[0], hyp_build_count(b, &g, 1, axes + 1), axes};
    places = hyp_build_reshape(b, hyp_build_node(b, HYP_OP_affine_grid, attrs, places), 2, rows + 1);
    ones.rank = 2;
    ones.dims[0] = rows[1];
    ones.dims[1] = 1;
    places = hyp_build_node(b, HYP_OP_concat, &last, places, hyp_build_full(b, &ones, 1));
    return hyp_build_node(b, HYP_OP_matmul, product, hyp_build_reshape(b, args[0], 3, rows), places);
}
