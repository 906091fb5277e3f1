/* Convolution, its transpose and its gradient by the weights. Sums are kept in double (integers modulo 2^64). */
#include <string.h>

#include "base/elementwise.h"
#include "kernels/scalar.h"
#include "kernels/window.h"

hyp_kernel_fn hyp_kernel_conv, hyp_kernel_conv_transpose, hyp_kernel_conv_backward_weights;

/* Reads what a convolution ends in. */
static hyp_status read_act(const hyp_kernel_call *c, hyp_conv *v)
{
    const char *name = c->attrs[4].sym;
#define X(op, name, OP, ...) {name, HYP_PW_##OP, 0},
    static const struct {
        const char *name;
        int op;
        double q;
    } known[] = {{"none", HYP_PW_CAST, 0},
                 {"relu6", HYP_PW_CLIP, 6},
                 {"leaky-relu", HYP_PW_LEAKY_RELU, 0},
                 HYP_CONV_ACTIVATIONS(X)};
#undef X
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            v->act = known[i].op;
            if (v->act == HYP_PW_LEAKY_RELU) v->p = c->attrs[5].f;
            v->q = known[i].q;
            return HYP_OK;
        }
    return hyp_kernel_fail(c, "no activation is called '%s'", name);
}

static double activate(const hyp_conv *v, double x)
{
    if (v->act == HYP_PW_CLIP) return x < v->p ? v->p : x > v->q ? v->q : x;
    return hyp_function_f64(v->act, x, v->p, v->q);
}

/* Shapes and types of a convolution of x with w that gives y, or of its transpose. */
static hyp_status read_shapes(const hyp_kernel_call *c, const hyp_array *x, const hyp_array *w, const hyp_array *y,
                              bool transpose, hyp_conv *v)
{
    int64_t group = c->attrs[3].i;
    if (w->rank != x->rank || w->rank < 3) return hyp_kernel_fail(c, "the weights have %d axes", w->rank);
    HYP_TRY(hyp_window_read(c, transpose ? y : x, transpose ? x : y, w->dims + 2, &c->attrs[0], &c->attrs[1],
                            &c->attrs[2], &v->window));
    if (group < 1 || x->dims[1] % group || y->dims[1] % group || x->dims[0] != y->dims[0])
        return hyp_kernel_fail(c, "channels do not fit %lld groups", (long long)group);
    if (w->dtype != x->dtype || y->dtype != x->dtype) return hyp_kernel_fail(c, "operands of different types");
    v->batch = x->dims[0];
    v->group = group;
    v->in_channels = x->dims[1] / group;
    v->out_channels = y->dims[1] / group;
    bool fits = transpose ? w->dims[0] == x->dims[1] && w->dims[1] == v->out_channels
                          : w->dims[0] == y->dims[1] && w->dims[1] == v->in_channels;
    if (!fits) return hyp_kernel_fail(c, "the weights do not fit the channels");
    v->x = x;
    v->w = w;
    v->y = y;
    v->b = v->z = NULL;
    v->act = HYP_PW_CAST;
    v->p = v->q = 0;
    return HYP_OK;
}

hyp_status hyp_kernel_read_conv(const hyp_kernel_call *c, bool transpose, hyp_conv *v)
{
    const hyp_array *b = hyp_kernel_input(c, 2), *y = &c->out[0];
    HYP_TRY(read_shapes(c, &c->in[0], &c->in[1], y, transpose, v));
    if (b && b->dtype != y->dtype) return hyp_kernel_fail(c, "operands of different types");
    if (b && (b->rank != 1 || b->dims[0] != y->dims[1]))
        return hyp_kernel_fail(c, "the bias does not fit the channels");
    v->b = b;
    v->z = transpose ? NULL : hyp_kernel_input(c, 3);
    if (!transpose) HYP_TRY(read_act(c, v));
    if (v->z && (v->z->dtype != y->dtype || !hyp_array_same_shape(v->z, y)))
        return hyp_kernel_fail(c, "what is added is not of the shape of the result");
    return HYP_OK;
}

hyp_status hyp_kernel_read_conv_weights(const hyp_kernel_call *c, hyp_conv *v)
{
    const hyp_array *w = &c->out[0];
    const hyp_kernel_attr *kernel = &c->attrs[4];
    HYP_TRY(read_shapes(c, &c->in[0], w, &c->in[1], false, v));
    bool same = kernel->count == (uint32_t)v->window.n;
    for (int32_t a = 0; a < v->window.n && same; a++) same = kernel->ints[a] == w->dims[2 + a];
    return same ? HYP_OK : hyp_kernel_fail(c, "the result does not have the kernel's sizes");
}

/* The place of x whose window has its element k at place o of y, which it slides over; -1: none. */
static int64_t reaching(const hyp_window *w, const int64_t *o, const int64_t *k)
{
    int64_t source = 0;
    for (int32_t a = 0; a < w->n; a++) {
        int64_t i = o[a] + w->before[a] - k[a] * w->dilation[a];
        if (i < 0 || i % w->stride[a] || i / w->stride[a] >= w->out[a]) return -1;
        source = source * w->out[a] + i / w->stride[a];
    }
    return source;
}

/* One result: the sum over the channels of its group, and the window or every place whose window reaches it. Of a
 * transposed convolution `in` of the window is y's and `out` x's. */
static void element(const hyp_conv *v, bool transpose, int64_t n, int64_t m, int64_t o)
{
    const hyp_window *w = &v->window;
    int64_t at[HYP_SPATIAL], k[HYP_SPATIAL], channels = v->in_channels * v->group;
    int64_t first = m / v->out_channels * v->in_channels; /* channel of x */
    int64_t filter = transpose ? first * v->out_channels + m % v->out_channels : m * v->in_channels;
    int64_t next_filter = transpose ? v->out_channels : 1; /* that of the next channel is so far behind */
    int64_t x_count = transpose ? w->out_count : w->in_count, y_count = transpose ? w->in_count : w->out_count;
    bool is_float = hyp_array_is_float(v->x);
    double sum = v->b && is_float ? hyp_array_f64(v->b, m) : 0;
    uint64_t whole = v->b && !is_float ? (uint64_t)hyp_array_i64(v->b, m) : 0;
    hyp_window_position(w->n, transpose ? w->in : w->out, o, at);
    for (int64_t p = 0; p < w->kernel_count; p++) {
        hyp_window_position(w->n, w->kernel, p, k);
        int64_t source = transpose ? reaching(w, at, k) : hyp_window_source(w, at, k);
        if (source < 0) continue;
        for (int64_t i = 0; i < v->in_channels; i++) {
            int64_t from = (n * channels + first + i) * x_count + source;
            int64_t weight = (filter + i * next_filter) * w->kernel_count + p;
            if (is_float)
                sum += hyp_array_f64(v->x, from) * hyp_array_f64(v->w, weight);
            else
                whole += (uint64_t)hyp_array_i64(v->x, from) * (uint64_t)hyp_array_i64(v->w, weight);
        }
    }
    int64_t to = (n * v->out_channels * v->group + m) * y_count + o;
    if (v->z && is_float)
        sum += hyp_array_f64(v->z, to);
    else if (v->z)
        whole += (uint64_t)hyp_array_i64(v->z, to);
    if (is_float)
        hyp_array_set_f64(v->y, to, activate(v, sum));
    else
        hyp_array_set_i64(v->y, to, (int64_t)whole);
}

static hyp_status convolve(const hyp_kernel_call *c, bool transpose)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv(c, transpose, &v));
    int64_t y_count = transpose ? v.window.in_count : v.window.out_count;
    for (int64_t n = 0; n < v.batch && v.y->count; n++)
        for (int64_t m = 0; m < v.out_channels * v.group; m++)
            for (int64_t o = 0; o < y_count; o++) element(&v, transpose, n, m, o);
    return HYP_OK;
}

hyp_status hyp_kernel_conv(const hyp_kernel_call *c) { return convolve(c, false); }

hyp_status hyp_kernel_conv_transpose(const hyp_kernel_call *c) { return convolve(c, true); }

/* One element of the gradient: that of filter m for channel i of its group at position p of the kernel. */
static void weight(const hyp_conv *v, int64_t m, int64_t i, int64_t p)
{
    const hyp_window *w = &v->window;
    int64_t at[HYP_SPATIAL], k[HYP_SPATIAL];
    int64_t x_channels = v->in_channels * v->group, y_channels = v->out_channels * v->group;
    int64_t channel = m / v->out_channels * v->in_channels + i;
    bool is_float = hyp_array_is_float(v->x);
    double sum = 0;
    uint64_t whole = 0;
    hyp_window_position(w->n, w->kernel, p, k);
    for (int64_t o = 0; o < w->out_count; o++) {
        hyp_window_position(w->n, w->out, o, at);
        int64_t source = hyp_window_source(w, at, k);
        for (int64_t n = 0; n < v->batch && source >= 0; n++) {
            int64_t from = (n * x_channels + channel) * w->in_count + source;
            int64_t g = (n * y_channels + m) * w->out_count + o;
            if (is_float)
                sum += hyp_array_f64(v->x, from) * hyp_array_f64(v->y, g);
            else
                whole += (uint64_t)hyp_array_i64(v->x, from) * (uint64_t)hyp_array_i64(v->y, g);
        }
    }
    int64_t to = (m * v->in_channels + i) * w->kernel_count + p;
    if (is_float)
        hyp_array_set_f64(v->w, to, sum);
    else
        hyp_array_set_i64(v->w, to, (int64_t)whole);
}

hyp_status hyp_kernel_conv_backward_weights(const hyp_kernel_call *c)
{
    hyp_conv v;
    HYP_TRY(hyp_kernel_read_conv_weights(c, &v));
    if (v.y->count == 0) v.batch = v.window.out_count = 0; /* other sizes may be any number */
    for (int64_t m = 0; m < v.out_channels * v.group && v.w->count; m++)
        for (int64_t i = 0; i < v.in_channels; i++)
            for (int64_t p = 0; p < v.window.kernel_count; p++) weight(&v, m, i, p);
    return HYP_OK;
}
