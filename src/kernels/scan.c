/* Running sums. */
#include "kernels/kernels.h"

hyp_kernel_fn hyp_kernel_cumsum;

hyp_status hyp_kernel_cumsum(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    bool exclusive = c->attrs[1].i != 0, reverse = c->attrs[2].i != 0, is_float = hyp_array_is_float(x);
    int64_t outer, size, inner;
    int32_t axis;
    HYP_TRY(hyp_kernel_axis(c, c->attrs[0].i, x->rank, &axis));
    HYP_TRY(hyp_kernel_want_shape(c, y, x->rank, x->dims, "the result"));
    if (x->dtype != y->dtype) return hyp_kernel_fail(c, "the result is of another type");
    if (x->count == 0) return HYP_OK; /* its other axes may be anything */
    hyp_array_split(x, axis, &outer, &size, &inner);
    for (int64_t lane = 0; lane < outer * inner; lane++) {
        int64_t first = lane / inner * size * inner + lane % inner;
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t i = 0; i < size; i++) {
            int64_t at = first + (reverse ? size - 1 - i : i) * inner;
            if (is_float) {
                double v = hyp_array_f64(x, at);
                hyp_array_set_f64(y, at, exclusive ? sum : sum + v);
                sum += v;
            } else {
                uint64_t v = (uint64_t)hyp_array_i64(x, at);
                hyp_array_set_i64(y, at, (int64_t)(exclusive ? whole : whole + v));
                whole += v;
            }
        }
    }
    return HYP_OK;
}
