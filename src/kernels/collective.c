/* Operators among processes, as one that runs alone computes them. */
#include "kernels/kernels.h"

hyp_kernel_fn hyp_kernel_all_reduce;

hyp_status hyp_kernel_all_reduce(const hyp_kernel_call *c)
{
    if (c->out_count != c->in_count)
        return hyp_kernel_fail(c, "%u outputs for %u inputs: as many are wanted", c->out_count, c->in_count);
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i].dtype != c->out[i].dtype || !hyp_array_is_float(&c->in[i]) ||
            !hyp_array_same_shape(&c->in[i], &c->out[i]))
            return hyp_kernel_fail(c, "output %u is not of the type and shape of input %u, or they are no floats", i, i);
    for (uint32_t i = 0; i < c->in_count; i++)
        for (int64_t k = 0; k < c->in[i].count; k++) hyp_array_copy(&c->out[i], k, &c->in[i], k);
    return HYP_OK;
}
