/* linear-gradient: what a product of gradients and the inputs of a layer gives, and the sums of the gradients. */
#include "kernels/kernels.h"

hyp_kernel_fn hyp_kernel_linear_gradient;

hyp_status hyp_kernel_linear_gradient_check(const hyp_kernel_call *c)
{
    const hyp_array *g = &c->in[0], *x = &c->in[1], *w = &c->out[0], *b = &c->out[1];
    bool turned = c->attrs[0].i != 0;
    if (g->rank != 2 || x->rank != 2 || g->dims[0] != x->dims[0] || !hyp_array_is_float(g))
        return hyp_kernel_fail(c, "matrices of floats with as many rows are wanted");
    if (x->dtype != g->dtype || w->dtype != g->dtype || b->dtype != g->dtype)
        return hyp_kernel_fail(c, "tensors of one type are wanted");
    const int64_t dims[] = {turned ? x->dims[1] : g->dims[1], turned ? g->dims[1] : x->dims[1]};
    HYP_TRY(hyp_kernel_want_shape(c, w, 2, dims, "the gradient by the weight"));
    return hyp_kernel_want_shape(c, b, 1, &g->dims[1], "the gradient by the bias");
}

hyp_status hyp_kernel_linear_gradient(const hyp_kernel_call *c)
{
    const hyp_array *g = &c->in[0], *x = &c->in[1];
    bool turned = c->attrs[0].i != 0;
    HYP_TRY(hyp_kernel_linear_gradient_check(c));
    int64_t rows = g->dims[0], n = g->dims[1], k = x->dims[1];
    for (int64_t j = 0; j < n; j++) {
        double all = 0;
        for (int64_t r = 0; r < rows; r++) all += hyp_array_f64(g, r * n + j);
        hyp_array_set_f64(&c->out[1], j, all);
        for (int64_t i = 0; i < k; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += hyp_array_f64(g, r * n + j) * hyp_array_f64(x, r * k + i);
            hyp_array_set_f64(&c->out[0], turned ? i * n + j : j * k + i, sum);
        }
    }
    return HYP_OK;
}
