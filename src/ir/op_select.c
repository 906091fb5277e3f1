/* Operators whose results are as large as the data say. `size` is what there is room for. */
#include "ir/op.h"

static hyp_status read_size(const hyp_infer_call *c, hyp_dim *out)
{
    const hyp_attr *a = &c->attrs[0];
    if (a->count != 1) return hyp_infer_fail(c, "size has %u entries, 1 is wanted", a->count);
    *out = a->dims[0];
    if (hyp_dim_is_const(*out) && *out < 0) return hyp_infer_fail(c, "size is %lld", (long long)*out);
    return HYP_OK;
}

hyp_status hyp_infer_nonzero(const hyp_infer_call *c)
{
    hyp_dim size = 0;
    HYP_TRY(read_size(c, &size));
    c->out[0].type = (hyp_type){HYP_I64, 2, {c->in[0]->type.rank, size}};
    c->out[1].type = (hyp_type){.dtype = HYP_I64};
    return HYP_OK;
}

hyp_status hyp_infer_non_max_suppression(const hyp_infer_call *c)
{
    const hyp_type *boxes = &c->in[0]->type, *scores = &c->in[1]->type;
    hyp_dim size = 0;
    HYP_TRY(read_size(c, &size));
    bool floats = hyp_dtype_is_float(boxes->dtype) && hyp_dtype_is_float(scores->dtype);
    if (!floats || boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 ||
        !hyp_check_equal(c, boxes->dims[0], scores->dims[0]) || !hyp_check_equal(c, boxes->dims[1], scores->dims[2]))
        return hyp_infer_fail(c, "boxes [images n 4] and scores [images classes n] of floats are wanted, not %s and %s",
                              hyp_infer_type_text(c, boxes), hyp_infer_type_text(c, scores));
    c->out[0].type = (hyp_type){HYP_I64, 2, {size, 3}};
    c->out[1].type = (hyp_type){.dtype = HYP_I64};
    return HYP_OK;
}

hyp_status hyp_infer_unique(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_dim size = 0, items;
    int32_t axis = 0;
    HYP_TRY(read_size(c, &size));
    if (c->attrs[1].i >= 0) {
        HYP_TRY(hyp_check_axis(c, c->attrs[1].i, x->rank, &axis));
        c->out[0].type = *x;
        items = x->dims[axis];
    } else {
        HYP_TRY(hyp_type_elements(c->dims, x, &items, c->diag));
        c->out[0].type = (hyp_type){.dtype = x->dtype, .rank = 1};
    }
    c->out[0].type.dims[axis] = size;
    for (int i = 1; i < 4; i++) c->out[i].type = (hyp_type){HYP_I64, 1, {i == 2 ? items : size}};
    c->out[4].type = (hyp_type){.dtype = HYP_I64};
    return HYP_OK;
}
