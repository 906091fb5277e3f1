/* Running sums and products, and sequences reversed. */
#include "ir/op.h"

hyp_status hyp_infer_cumsum(const hyp_infer_call *c)
{
    int32_t axis;
    c->out[0].type = c->in[0]->type;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, c->in[0]->type.rank, &axis));
    return hyp_check_dtype(c, HYP_CLASS_NUMERIC);
}

hyp_status hyp_infer_reverse_sequence(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *lengths = &c->in[1]->type;
    int32_t batch, time;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &batch));
    HYP_TRY(hyp_check_axis(c, c->attrs[1].i, x->rank, &time));
    if (batch == time) return hyp_infer_fail(c, "the batch axis is the time axis, %d", batch);
    HYP_TRY(hyp_check_index_type(c, 1));
    if (lengths->rank != 1 || !hyp_check_equal(c, lengths->dims[0], x->dims[batch]))
        return hyp_infer_fail(c, "the lengths are %s, one for every index of axis %d of %s is wanted",
                              hyp_infer_type_text(c, lengths), batch, hyp_infer_type_text(c, x));
    c->out[0].type = *x;
    return HYP_OK;
}
