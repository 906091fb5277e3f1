/* heads_product.c - heads of gradients of products and powers. */
#include <string.h>

#include "train/form.h"

/* A product y = alpha a' b' whose operands are both matrices, or stacks of them: a vector has got an axis of size 1. */
typedef struct product {
    hyp_value_id a, b, g;
    bool trans_a, trans_b; /* a' and b' are stored transposed */
} product;

static hyp_value_id with_axis(hyp_builder *b, hyp_value_id v, int32_t axis)
{
    hyp_type t = hyp_build_type(b, v);
    memmove(t.dims + axis + 1, t.dims + axis, (size_t)(t.rank - axis) * sizeof *t.dims);
    t.dims[axis] = 1;
    return hyp_build_reshape(b, v, t.rank + 1, t.dims);
}

static product read_product(hyp_scope *s, hyp_value_id g)
{
    hyp_builder *b = s->b;
    product p = {.a = s->node.inputs[0], .b = s->node.inputs[1], .g = g};
    bool row = hyp_build_type(b, p.a).rank == 1, column = hyp_build_type(b, p.b).rank == 1;
    p.trans_a = !row && s->node.attrs[0].i;
    p.trans_b = !column && s->node.attrs[1].i;
    if (row) p.a = with_axis(b, p.a, 0);
    if (column) p.b = with_axis(b, p.b, 1);
    if (column) p.g = with_axis(b, p.g, hyp_build_type(b, p.g).rank);
    if (row) p.g = with_axis(b, p.g, hyp_build_type(b, p.g).rank - 1);
    return p;
}

static hyp_value_id multiply(hyp_scope *s, hyp_value_id a, bool trans_a, hyp_value_id b, bool trans_b)
{
    const hyp_attr attrs[] = {hyp_attr_of_int(trans_a), hyp_attr_of_int(trans_b), s->node.attrs[2]};
    return hyp_build_node(s->b, HYP_OP_matmul, attrs, a, b);
}

/* The gradient by `factor`, which may have been repeated along axes in front, with the shape that input `input` has. */
static hyp_value_id finish(hyp_scope *s, hyp_value_id v, hyp_value_id factor, uint32_t input)
{
    hyp_type promoted = hyp_build_type(s->b, factor), type = hyp_build_type(s->b, s->node.inputs[input]);
    return hyp_build_reshape(s->b, hyp_build_fit(s->b, v, &promoted), type.rank, type.dims);
}

hyp_value_id hyp_head_left_factor(hyp_scope *s, const hyp_value_id *args)
{
    product p = read_product(s, args[0]);
    hyp_value_id v = p.trans_a ? multiply(s, p.b, p.trans_b, p.g, true) : multiply(s, p.g, false, p.b, !p.trans_b);
    return finish(s, v, p.a, 0);
}

/* With one matrix for all rows of a, its gradient is one product over all of them. */
hyp_value_id hyp_head_right_factor(hyp_scope *s, const hyp_value_id *args)
{
    product p = read_product(s, args[0]);
    if (!p.trans_a && hyp_build_type(s->b, p.b).rank == 2) {
        p.a = hyp_head_rows(s, &p.a);
        p.g = hyp_head_rows(s, &p.g);
    }
    hyp_value_id v = p.trans_b ? multiply(s, p.g, true, p.a, p.trans_a) : multiply(s, p.a, !p.trans_a, p.g, false);
    return finish(s, v, p.b, 1);
}

/* The only element of a constant that is there. */
static bool is_constant(const hyp_builder *b, hyp_value_id v, double *out)
{
    const hyp_value *value = &b->g->values.data[v];
    if (value->kind != HYP_VALUE_CONST || !value->data || value->updatable ||
        value->bytes != hyp_dtype_size(value->type.dtype))
        return false;
    *out = hyp_dtype_is_float(value->type.dtype) ? hyp_load_f64(value->type.dtype, value->data, 0)
                                                 : (double)hyp_load_i64(value->type.dtype, value->data, 0);
    return true;
}

/* b a^(b - 1); 0 where b is 0, whatever a is. */
hyp_value_id hyp_head_power_slope(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_value_id base = s->node.inputs[0], exponent = s->node.inputs[1];
    hyp_dtype dtype = hyp_build_type(b, base).dtype;
    double constant;
    (void)args;
    if (is_constant(b, exponent, &constant)) {
        hyp_value_id factor = hyp_build_scalar(b, dtype, constant), v = base;
        if (constant == 0 || constant == 1) return factor;
        if (constant != 2) v = hyp_build_node(b, HYP_OP_pow, NULL, base, hyp_build_scalar(b, dtype, constant - 1));
        return hyp_build_node(b, HYP_OP_mul, NULL, v, factor);
    }
    exponent = hyp_build_cast(b, exponent, dtype);
    hyp_value_id zero = hyp_build_scalar(b, dtype, 0);
    hyp_value_id less = hyp_build_node(b, HYP_OP_sub, NULL, exponent, hyp_build_scalar(b, dtype, 1));
    hyp_value_id slope = hyp_build_node(b, HYP_OP_mul, NULL, hyp_build_node(b, HYP_OP_pow, NULL, base, less), exponent);
    return hyp_build_node(b, HYP_OP_where, NULL, hyp_build_node(b, HYP_OP_equal, NULL, exponent, zero), zero, slope);
}
