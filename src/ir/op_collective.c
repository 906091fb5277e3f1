/* op_collective.c - operators among the processes that run a plan together. */
#include <string.h>

#include "ir/op.h"

hyp_status hyp_infer_all_reduce(const hyp_infer_call *c)
{
    const char *reduction = c->attrs[0].sym;
    if (strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0)
        return hyp_infer_fail(c, "no reduction '%s': mean or sum is wanted", reduction);
    if (c->out_count != c->in_count)
        return hyp_infer_fail(c, "%u outputs for %u inputs: as many are wanted", c->out_count, c->in_count);
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!hyp_dtype_is_float(c->in[i]->type.dtype))
            return hyp_infer_fail(c, "input %u is %s, floats are wanted", i, hyp_infer_type_text(c, &c->in[i]->type));
        c->out[i].type = c->in[i]->type;
    }
    return HYP_OK;
}
