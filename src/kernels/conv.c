/* Convolution and its transpose. Sums are kept in double (integers modulo 2^64). */
#include <string.h>

#include "base/elementwise.h"
#include "kernels/scalar.h"
#include "kernels/window.h"

hyp_kernel_fn hyp_kernel_conv, hyp_kernel_conv_transpose;

int hyp_conv_act(const char *name)
{
#define X(op, name, OP, ...) {name, HYP_PW_##OP},
    static const struct {
        const char *name;
        int op;
    } known[] = {{"none", HYP_PW_CAST}, {"relu6", HYP_PW_CLIP}, HYP_CONV_ACTIVATIONS(X)};
#undef X
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].op;
    return -1;
}

static double activate(int op, double x)
{
    if (op == HYP_PW_CLIP) return x < 0 ? 0 : x > 6 ? 6 : x;
    return hyp_function_f64(op, x, 0, 0);
}

hyp_status hyp_kernel_read_conv(const hyp_kernel_call *c, bool transpose, hyp_conv *v)
{
    const hyp_array *x = &c->in[0], *w = &c->in[1], *b = hyp_kernel_input(c, 2), *y = &c->out[0];
    int64_t group = c->attrs[3].i;
    if (w->rank != x->rank || w->rank < 3) return hyp_kernel_fail(c, "the weights have %d axes", w->rank);
    HYP_TRY(hyp_window_read(c, transpose ? y : x, transpose ? x : y, w->dims + 2, &c->attrs[0], &c->attrs[1],
                            &c->attrs[2], &v->window));
    if (group < 1 || x->dims[1] % group || y->dims[1] % group || x->dims[0] != y->dims[0])
        return hyp_kernel_fail(c, "channels do not fit %lld groups", (long long)group);
    if (w->dtype != x->dtype || y->dtype != x->dtype || (b && b->dtype != x->dtype))
        return hyp_kernel_fail(c, "operands of different types");
    v->batch = x->dims[0];
    v->group = group;
    v->in_channels = x->dims[1] / group;
    v->out_channels = y->dims[1] / group;
    bool fits = transpose ? w->dims[0] == x->dims[1] && w->dims[1] == v->out_channels
                          : w->dims[0] == y->dims[1] && w->dims[1] == v->in_channels;
    if (!fits) return hyp_kernel_fail(c, "the weights do not fit the channels");
    if (b && (b->rank != 1 || b->dims[0] != y->dims[1]))
        return hyp_kernel_fail(c, "the bias does not fit the channels");
    v->x = x;
    v->w = w;
    v->b = b;
    v->y = y;
    v->z = transpose ? NULL : hyp_kernel_input(c, 3);
    if (!transpose && hyp_conv_act(c->attrs[4].sym) < 0)
        return hyp_kernel_fail(c, "no activation is called '%s'", c->attrs[4].sym);
    if (v->z && (v->z->dtype != y->dtype || !hyp_array_same_shape(v->z, y)))
        return hyp_kernel_fail(c, "what is added is not of the shape of the result");
    return HYP_OK;
}

/* One result: sum over the channels of its group and the window. */
static void conv_element(const hyp_conv *v, int act, int64_t n, int64_t m, int64_t o)
{
    const hyp_window *w = &v->window;
    int64_t at[HYP_SPATIAL], k[HYP_SPATIAL], g = m / v->out_channels, channels = v->in_channels * v->group;
    bool is_float = hyp_array_is_float(v->x);
    double sum = v->b && is_float ? hyp_array_f64(v->b, m) : 0;
    uint64_t whole = v->b && !is_float ? (uint64_t)hyp_array_i64(v->b, m) : 0;
    hyp_window_position(w->n, w->out, o, at);
    for (int64_t p = 0; p < w->kernel_count; p++) {
        hyp_window_position(w->n, w->kernel, p, k);
        int64_t source = hyp_window_source(w, at, k);
        if (source < 0) continue;
        for (int64_t i = 0; i < v->in_channels; i++) {
            int64_t from = (n * channels + g * v->in_channels + i) * w->in_count + source;
            int64_t weight = (m * v->in_channels + i) * w->kernel_count + p;
            if (is_float)
                sum += hyp_array_f64(v->x, from) * hyp_array_f64(v->w, weight);
            else
                whole += (uint64_t)hyp_array_i64(v->x, from) * (uint64_t)hyp_array_i64(v->w, weight);
        }
    }
    int64_t to = (n * v->out_channels * v->group + m) * w->out_count + o;
    if (v->z && is_float)
        sum += hyp_array_f64(v->z, to);
    else if (v->z)
        whole += (uint64_t)hyp_array_i64(v->z, to);
    if (is_float)
        hyp_array_set_f64(v->y, to, activate(act, sum));
    else
        hyp_array_set_i64(v->y, to, (int64_t)whole);
}

hyp_status hyp_kernel_conv(const hyp_kernel_call *c)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(c, false, &v));
    int act = hyp_conv_act(c->attrs[4].sym);
    for (int64_t n = 0; n < v.batch && v.y->count; n++)
        for (int64_t m = 0; m < v.out_channels * v.group; m++)
            for (int64_t o = 0; o < v.window.out_count; o++) conv_element(&v, act, n, m, o);
    return HYP_OK;
}

/* One result: every input whose window reaches it. */
static void transpose_element(const hyp_conv *v, int64_t n, int64_t m, int64_t o)
{
    const hyp_window *w = &v->window; /* slides over y: `in` is y's, `out` is x's */
    int64_t at[HYP_SPATIAL], k[HYP_SPATIAL], g = m / v->out_channels, channels = v->in_channels * v->group;
    bool is_float = hyp_array_is_float(v->x);
    double sum = v->b && is_float ? hyp_array_f64(v->b, m) : 0;
    uint64_t whole = v->b && !is_float ? (uint64_t)hyp_array_i64(v->b, m) : 0;
    hyp_window_position(w->n, w->in, o, at);
    for (int64_t p = 0; p < w->kernel_count; p++) {
        hyp_window_position(w->n, w->kernel, p, k);
        int64_t source = 0;
        for (int32_t a = 0; a < w->n && source >= 0; a++) {
            int64_t i = at[a] + w->before[a] - k[a] * w->dilation[a];
            source =
                i < 0 || i % w->stride[a] || i / w->stride[a] >= w->out[a] ? -1 : source * w->out[a] + i / w->stride[a];
        }
        if (source < 0) continue;
        for (int64_t i = 0; i < v->in_channels; i++) {
            int64_t channel = g * v->in_channels + i, from = (n * channels + channel) * w->out_count + source;
            int64_t weight = (channel * v->out_channels + m % v->out_channels) * w->kernel_count + p;
            if (is_float)
                sum += hyp_array_f64(v->x, from) * hyp_array_f64(v->w, weight);
            else
                whole += (uint64_t)hyp_array_i64(v->x, from) * (uint64_t)hyp_array_i64(v->w, weight);
        }
    }
    int64_t to = (n * v->out_channels * v->group + m) * w->in_count + o;
    if (is_float)
        hyp_array_set_f64(v->y, to, sum);
    else
        hyp_array_set_i64(v->y, to, (int64_t)whole);
}

hyp_status hyp_kernel_conv_transpose(const hyp_kernel_call *c)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(c, true, &v));
    for (int64_t n = 0; n < v.batch && v.y->count; n++)
        for (int64_t m = 0; m < v.out_channels * v.group; m++)
            for (int64_t o = 0; o < v.window.in_count; o++) transpose_element(&v, n, m, o);
    return HYP_OK;
}
