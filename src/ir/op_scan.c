/* Running sums. */
#include "ir/op.h"

hyp_status hyp_infer_cumsum(const hyp_infer_call *c)
{
    int32_t axis;
    c->out[0].type = c->in[0]->type;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, c->in[0]->type.rank, &axis));
    return hyp_check_dtype(c, HYP_CLASS_NUMERIC);
}
