/* op_collective.c - operators among the processes that run a plan together. */
#include "ir/op.h"

hyp_status hyp_infer_all_reduce(const hyp_infer_call *c)
{
    static const char *const reductions[] = {"mean", "sum", NULL};
    HYP_TRY(hyp_check_sym(c, 0, reductions));
    if (c->out_count != c->in_count)
        return hyp_infer_fail(c, "%u outputs for %u inputs: as many are wanted", c->out_count, c->in_count);
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!hyp_dtype_is_float(c->in[i]->type.dtype))
            return hyp_infer_fail(c, "input %u is %s, floats are wanted", i, hyp_infer_type_text(c, &c->in[i]->type));
        c->out[i].type = c->in[i]->type;
    }
    return HYP_OK;
}
