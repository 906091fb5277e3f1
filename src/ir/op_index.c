/* Operators that pick, place or make elements by index or position; the kernels compute them. */
#include "ir/op.h"

/* A list attribute of one size. */
static hyp_status want_size(const hyp_infer_call *c, uint32_t attr, hyp_dim *out)
{
    const hyp_attr *a = &c->attrs[attr];
    const char *name = hyp_op_get(c->op)->attrs[attr].name;
    if (a->count != 1) return hyp_infer_fail(c, "%s has %u entries, 1 is wanted", name, a->count);
    *out = a->dims[0];
    if (hyp_dim_is_const(*out) && *out < 0) return hyp_infer_fail(c, "%s is %lld", name, (long long)*out);
    return HYP_OK;
}

/* Axes of the data other than `axis` are no shorter than those of the indices, as far as that is known. */
static hyp_status check_element_indices(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *indices = &c->in[1]->type;
    int32_t axis;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &axis));
    HYP_TRY(hyp_check_index_type(c, 1));
    if (x->rank != indices->rank)
        return hyp_infer_fail(c, "the indices %s and the data %s are of different ranks",
                              hyp_infer_type_text(c, indices), hyp_infer_type_text(c, x));
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis && hyp_dim_is_const(x->dims[i]) && indices->dims[i] > x->dims[i])
            return hyp_infer_fail(c, "axis %d of the indices %s is longer than that of the data %s", i,
                                  hyp_infer_type_text(c, indices), hyp_infer_type_text(c, x));
    return HYP_OK;
}

hyp_status hyp_infer_gather_elements(const hyp_infer_call *c)
{
    HYP_TRY(check_element_indices(c));
    c->out[0].type = c->in[1]->type;
    c->out[0].type.dtype = c->in[0]->type.dtype;
    return HYP_OK;
}

/* The shape of what the tuples along the last axis of the indices select, behind `batch` common axes. */
static hyp_status infer_selection(const hyp_infer_call *c, int64_t batch, hyp_type *out)
{
    const hyp_type *x = &c->in[0]->type, *indices = &c->in[1]->type;
    hyp_type t = {.dtype = x->dtype};
    HYP_TRY(hyp_check_index_type(c, 1));
    hyp_dim width = indices->rank ? indices->dims[indices->rank - 1] : -1;
    if (!hyp_dim_is_const(width) || batch < 0 || batch >= indices->rank || width < 0 || width > x->rank - batch ||
        x->rank < 1)
        return hyp_infer_fail(c, "the last axis of the indices %s is no number of axes of %s behind %lld",
                              hyp_infer_type_text(c, indices), hyp_infer_type_text(c, x), (long long)batch);
    int64_t rank = indices->rank - 1 + x->rank - batch - width;
    if (rank > HYP_MAX_RANK)
        return hyp_infer_fail(c, "the result would be of rank %lld, the highest supported is %d", (long long)rank,
                              HYP_MAX_RANK);
    for (int32_t i = 0; i < batch; i++)
        if (indices->dims[i] != x->dims[i])
            return hyp_infer_fail(c, "batch axis %d of the indices %s and the data %s differs", i,
                                  hyp_infer_type_text(c, indices), hyp_infer_type_text(c, x));
    for (int32_t i = 0; i < indices->rank - 1; i++) t.dims[t.rank++] = indices->dims[i];
    for (int32_t i = (int32_t)(batch + width); i < x->rank; i++) t.dims[t.rank++] = x->dims[i];
    *out = t;
    return HYP_OK;
}

hyp_status hyp_infer_gather_nd(const hyp_infer_call *c) { return infer_selection(c, c->attrs[0].i, &c->out[0].type); }

static hyp_status check_updates(const hyp_infer_call *c, const hyp_type *want, uint32_t reduction)
{
    static const char *const reductions[] = {"none", "add", "mul", "min", "max", NULL};
    const hyp_type *updates = &c->in[2]->type;
    HYP_TRY(hyp_check_sym(c, reduction, reductions));
    if (!hyp_type_equal(updates, want))
        return hyp_infer_fail(c, "the updates are %s, %s is wanted", hyp_infer_type_text(c, updates),
                              hyp_infer_type_text(c, want));
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

hyp_status hyp_infer_scatter_elements(const hyp_infer_call *c)
{
    hyp_type want = c->in[1]->type;
    want.dtype = c->in[0]->type.dtype;
    HYP_TRY(check_element_indices(c));
    return check_updates(c, &want, 1);
}

hyp_status hyp_infer_scatter_nd(const hyp_infer_call *c)
{
    hyp_type want;
    HYP_TRY(infer_selection(c, 0, &want));
    return check_updates(c, &want, 0);
}

hyp_status hyp_infer_tensor_scatter(const hyp_infer_call *c)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    const hyp_infer_value *first = hyp_infer_input(c, 2);
    const hyp_type *x = &c->in[0]->type, *updates = &c->in[1]->type;
    hyp_type want = *x;
    int32_t axis;
    HYP_TRY(hyp_check_sym(c, 1, modes));
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &axis));
    HYP_TRY(hyp_check_index_type(c, 2));
    if (axis == 0) return hyp_infer_fail(c, "the axis is that of the batch, 0");
    if (updates->rank == x->rank) want.dims[axis] = updates->dims[axis];
    bool longer = hyp_dim_is_const(x->dims[axis]) && want.dims[axis] > x->dims[axis];
    if (!hyp_type_equal(updates, &want) || longer)
        return hyp_infer_fail(c, "the updates %s do not fit along axis %d of %s", hyp_infer_type_text(c, updates), axis,
                              hyp_infer_type_text(c, x));
    if (first && (first->type.rank != 1 || first->type.dims[0] != x->dims[0]))
        return hyp_infer_fail(c, "the first places are %s, one for every index of axis 0 of %s is wanted",
                              hyp_infer_type_text(c, &first->type), hyp_infer_type_text(c, x));
    c->out[0].type = *x;
    return HYP_OK;
}

hyp_status hyp_infer_topk(const hyp_infer_call *c)
{
    hyp_type t = c->in[0]->type;
    hyp_dim k = 0;
    int32_t axis;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, t.rank, &axis));
    HYP_TRY(want_size(c, 1, &k));
    if (hyp_dim_is_const(t.dims[axis]) && k > t.dims[axis])
        return hyp_infer_fail(c, "k is %lld, axis %d of %s is shorter", (long long)k, axis, hyp_infer_type_text(c, &t));
    t.dims[axis] = k;
    c->out[0].type = c->out[1].type = t;
    c->out[1].type.dtype = HYP_I64;
    return HYP_OK;
}

hyp_status hyp_infer_one_hot(const hyp_infer_call *c)
{
    const hyp_type *indices = &c->in[0]->type, *values = &c->in[1]->type;
    hyp_type t = {.dtype = values->dtype, .rank = indices->rank + 1};
    hyp_dim depth = 0;
    int32_t axis;
    HYP_TRY(want_size(c, 1, &depth));
    if (indices->dtype == HYP_BOOL || values->rank != 1 || values->dims[0] != 2)
        return hyp_infer_fail(c, "indices %s and values %s, numbers and two values are wanted",
                              hyp_infer_type_text(c, indices), hyp_infer_type_text(c, values));
    if (t.rank > HYP_MAX_RANK)
        return hyp_infer_fail(c, "the result would be of rank %d, the highest supported is %d", t.rank, HYP_MAX_RANK);
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, t.rank, &axis));
    for (int32_t i = 0; i < t.rank; i++) t.dims[i] = i == axis ? depth : indices->dims[i - (i > axis)];
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_range(const hyp_infer_call *c)
{
    const hyp_infer_value *start = c->in[0], *delta = c->in[1];
    hyp_infer_value *y = &c->out[0];
    hyp_dim size = 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(want_size(c, 0, &size));
    if (start->type.rank != 0 || delta->type.rank != 0)
        return hyp_infer_fail(c, "start %s and delta %s, scalars are wanted", hyp_infer_type_text(c, &start->type),
                              hyp_infer_type_text(c, &delta->type));
    y->type = (hyp_type){.dtype = start->type.dtype, .rank = 1, .dims = {size}};
    int64_t count = hyp_content_count(&y->type);
    if (count < 0 || !start->content || !delta->content || start->type.dtype != HYP_I64) return HYP_OK;
    hyp_dim *content = hyp_arena_zalloc(c->arena, (size_t)count, sizeof *content), next = start->content[0];
    if (!content) return hyp_fail_memory(c->diag, (size_t)count * sizeof *content);
    for (int64_t i = 0; i < count; i++) {
        content[i] = next;
        /* Numbers that no dim can be are left to the run, which wraps. */
        if (hyp_dim_add(c->dims, next, delta->content[0], &next, NULL) != HYP_OK) return HYP_OK;
    }
    y->content = content;
    y->content_count = (uint32_t)count;
    return HYP_OK;
}

hyp_status hyp_infer_random_uniform(const hyp_infer_call *c)
{
    hyp_type t = {.dtype = HYP_F32};
    for (int i = 0; i < 2; i++)
        if (c->in[i]->type.dtype != HYP_I64 || c->in[i]->type.rank != 0)
            return hyp_infer_fail(c, "seed and number are %s and %s, scalars of i64 are wanted",
                                  hyp_infer_type_text(c, &c->in[0]->type), hyp_infer_type_text(c, &c->in[1]->type));
    if (c->attrs[1].i < 0 || c->attrs[1].i > (int64_t)UINT32_MAX)
        return hyp_infer_fail(c, "stream %lld is not a number of 32 bits", (long long)c->attrs[1].i);
    HYP_TRY(hyp_check_shape(c, &c->attrs[0], &t));
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_trilu(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    if (x->rank < 2) return hyp_infer_fail(c, "x is %s, matrices are wanted", hyp_infer_type_text(c, x));
    HYP_TRY(hyp_check_index_type(c, 1));
    const hyp_infer_value *k = hyp_infer_input(c, 1);
    hyp_dim count = 1;
    if (k) HYP_TRY(hyp_type_elements(c->dims, &k->type, &count, c->diag));
    if (count != 1) return hyp_infer_fail(c, "k is %s, one number is wanted", hyp_infer_type_text(c, &k->type));
    c->out[0].type = *x;
    return HYP_OK;
}

hyp_status hyp_infer_bit_cast(const hyp_infer_call *c)
{
    hyp_type t = c->in[0]->type;
    t.dtype = hyp_dtype_parse(c->attrs[0].sym);
    if (t.dtype == HYP_BOOL || hyp_dtype_size(t.dtype) != hyp_dtype_size(c->in[0]->type.dtype))
        return hyp_infer_fail(c, "%s cannot be read as '%s'", hyp_infer_type_text(c, &c->in[0]->type), c->attrs[0].sym);
    c->out[0].type = t;
    return HYP_OK;
}
