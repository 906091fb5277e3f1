/* Convolution, pooling, normalization: types. Sizes may be symbolic. */
#include <string.h>

#include "ir/op.h"

/* x is [N C spatial...]; a list has an entry for each spatial axis, pads have two. */
static hyp_status check_lists(const hyp_infer_call *c, int32_t n, uint32_t first)
{
    static const char *const names[] = {"strides", "pads", "dilations"};
    for (uint32_t i = 0; i < 3; i++) {
        const hyp_attr *a = &c->attrs[first + i];
        uint32_t want = (uint32_t)n * (i == 1 ? 2 : 1);
        if (a->count != want) return hyp_infer_fail(c, "%u %s, %u are wanted", a->count, names[i], want);
        for (uint32_t k = 0; k < want; k++)
            if (hyp_dim_is_const(a->dims[k]) && a->dims[k] < (i == 1 ? 0 : 1))
                return hyp_infer_fail(c, "%s of %lld", names[i], (long long)a->dims[k]);
    }
    return HYP_OK;
}

static hyp_status check_kernel(const hyp_infer_call *c, const hyp_attr *kernel, int32_t n)
{
    if (kernel->count != (uint32_t)n) return hyp_infer_fail(c, "a window of %u axes, %d are wanted", kernel->count, n);
    for (int32_t i = 0; i < n; i++)
        if (hyp_dim_is_const(kernel->dims[i]) && kernel->dims[i] < 1)
            return hyp_infer_fail(c, "a window of %lld", (long long)kernel->dims[i]);
    return HYP_OK;
}

static hyp_status check_spatial(const hyp_infer_call *c, const hyp_type *x, int32_t *out_n)
{
    if (x->rank < 3) return hyp_infer_fail(c, "x is %s, [N C ...] is wanted", hyp_infer_type_text(c, x));
    *out_n = x->rank - 2;
    return HYP_OK;
}

/* A size that must not be negative. */
static hyp_status check_size(const hyp_infer_call *c, int32_t axis, hyp_dim size)
{
    if (hyp_dim_is_const(size) && size < 0)
        return hyp_infer_fail(c, "the window is larger than axis %d with its padding", axis + 2);
    return HYP_OK;
}

/* floor or ceil of (in + pads - (dilation (kernel - 1) + 1)) / stride + 1. */
static hyp_status window_size(const hyp_infer_call *c, hyp_dim in, hyp_dim kernel, const hyp_attr *strides,
                              const hyp_attr *pads, const hyp_attr *dilations, int32_t n, int32_t i, bool ceil,
                              hyp_dim *out)
{
    hyp_dims *d = c->dims;
    hyp_dim reach, room, steps, stride = strides->dims[i];
    HYP_TRY(hyp_dim_sub(d, kernel, 1, &reach, c->diag));
    HYP_TRY(hyp_dim_mul(d, reach, dilations->dims[i], &reach, c->diag));
    HYP_TRY(hyp_dim_add(d, in, pads->dims[i], &room, c->diag));
    HYP_TRY(hyp_dim_add(d, room, pads->dims[n + i], &room, c->diag));
    HYP_TRY(hyp_dim_sub(d, room, reach, &room, c->diag));
    HYP_TRY(hyp_dim_sub(d, room, 1, &room, c->diag));
    if (hyp_dim_is_const(room) && room < 0 && !ceil) {
        *out = room + 1; /* 0: nothing to take; less: refused */
        return check_size(c, i, room + 1);
    }
    hyp_dim numerator = room, more;
    HYP_TRY(hyp_dim_sub(d, stride, 1, &more, c->diag));
    if (ceil) HYP_TRY(hyp_dim_add(d, room, more, &numerator, c->diag));
    HYP_TRY(hyp_dim_floordiv(d, numerator, stride, &steps, c->diag));
    HYP_TRY(hyp_dim_add(d, steps, 1, out, c->diag));
    if (ceil) {
        /* The last window must begin inside x or the padding before it. */
        hyp_dim begin, limit;
        HYP_TRY(hyp_dim_mul(d, steps, stride, &begin, c->diag));
        HYP_TRY(hyp_dim_add(d, in, pads->dims[i], &limit, c->diag));
        if (hyp_dim_is_const(begin) && hyp_dim_is_const(limit) && begin >= limit)
            HYP_TRY(hyp_dim_sub(d, *out, 1, out, c->diag));
        else if (stride != 1 && !(hyp_dim_is_const(begin) && hyp_dim_is_const(limit)))
            return hyp_infer_fail(c, "in ceil mode axis %d must have a fixed size; it has %s", i + 2,
                                  hyp_infer_dim_text(c, in));
    }
    return check_size(c, i, *out);
}

static hyp_status check_bias(const hyp_infer_call *c, hyp_dim channels)
{
    const hyp_infer_value *b = hyp_infer_input(c, 2);
    if (b && (b->type.rank != 1 || b->type.dims[0] != channels))
        return hyp_infer_fail(c, "the bias is %s, a vector of %s is wanted", hyp_infer_type_text(c, &b->type),
                              hyp_infer_dim_text(c, channels));
    return HYP_OK;
}

/* Groups divide both numbers of channels. Sizes of a kernel may be symbolic. */
static hyp_status check_group(const hyp_infer_call *c, const hyp_type *w, hyp_dim *out_channels)
{
    int64_t group = c->attrs[3].i;
    if (group < 1) return hyp_infer_fail(c, "%lld groups", (long long)group);
    for (int32_t i = 2; i < w->rank; i++)
        if (hyp_dim_is_const(w->dims[i]) && w->dims[i] < 1)
            return hyp_infer_fail(c, "the weights are %s, a kernel of 1 at least is wanted", hyp_infer_type_text(c, w));
    return hyp_dim_mul(c->dims, w->dims[1], group, out_channels, c->diag);
}

/* Whether the number of groups divides that of channels for sure. */
static bool divides(const hyp_infer_call *c, int64_t group, hyp_dim channels)
{
    hyp_dim each;
    return hyp_dim_divides(c->dims, group, channels, &each);
}

hyp_status hyp_infer_conv(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *w = &c->in[1]->type;
    hyp_type *y = &c->out[0].type;
    int32_t n = 0;
    hyp_op act = HYP_OP_identity;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(check_spatial(c, x, &n));
    HYP_TRY(check_lists(c, n, 0));
    if (w->rank != x->rank) return hyp_infer_fail(c, "the weights are %s for x %s", hyp_infer_type_text(c, w),
                                                  hyp_infer_type_text(c, x));
    hyp_dim channels = 0;
    HYP_TRY(check_group(c, w, &channels));
    int64_t group = c->attrs[3].i;
    if (!divides(c, group, w->dims[0]) || !hyp_check_equal(c, x->dims[1], channels))
        return hyp_infer_fail(c, "x %s and the weights %s do not fit in %lld groups", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, w), (long long)group);
    if (!hyp_conv_activation_find(c->attrs[4].sym, &act))
        return hyp_infer_fail(c, "no activation of a convolution is called '%s'", c->attrs[4].sym);
    if (c->attrs[5].f != 0 && act != HYP_OP_leaky_relu)
        return hyp_infer_fail(c, "a slope of %g is given, which leaky-relu has, and the activation is '%s'",
                              c->attrs[5].f, c->attrs[4].sym);
    if (act != HYP_OP_identity) HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    HYP_TRY(check_bias(c, w->dims[0]));
    *y = *x;
    y->dims[1] = w->dims[0];
    for (int32_t i = 0; i < n; i++)
        HYP_TRY(window_size(c, x->dims[2 + i], w->dims[2 + i], &c->attrs[0], &c->attrs[1], &c->attrs[2], n, i, false,
                            &y->dims[2 + i]));
    const hyp_infer_value *z = hyp_infer_input(c, 3);
    if (z && !hyp_type_equal(&z->type, y))
        return hyp_infer_fail(c, "%s is added, the result is %s", hyp_infer_type_text(c, &z->type),
                              hyp_infer_type_text(c, y));
    return HYP_OK;
}

/* stride (in - 1) + more + dilation (kernel - 1) + 1 - pads. */
hyp_status hyp_infer_conv_transpose(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *w = &c->in[1]->type;
    hyp_type *y = &c->out[0].type;
    hyp_dims *d = c->dims;
    int32_t n = 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(check_spatial(c, x, &n));
    HYP_TRY(check_lists(c, n, 0));
    const hyp_attr *strides = &c->attrs[0], *pads = &c->attrs[1], *dilations = &c->attrs[2], *more = &c->attrs[4];
    if (more->count != (uint32_t)n) return hyp_infer_fail(c, "%u sizes to add, %d are wanted", more->count, n);
    if (w->rank != x->rank) return hyp_infer_fail(c, "the weights are %s for x %s", hyp_infer_type_text(c, w),
                                                  hyp_infer_type_text(c, x));
    hyp_dim channels = 0;
    HYP_TRY(check_group(c, w, &channels));
    int64_t group = c->attrs[3].i;
    if (!divides(c, group, w->dims[0]) || !hyp_check_equal(c, x->dims[1], w->dims[0]))
        return hyp_infer_fail(c, "x %s and the weights %s do not fit in %lld groups", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, w), (long long)group);
    HYP_TRY(check_bias(c, channels));
    *y = *x;
    y->dims[1] = channels;
    for (int32_t i = 0; i < n; i++) {
        hyp_dim size, reach;
        HYP_TRY(hyp_dim_sub(d, x->dims[2 + i], 1, &size, c->diag));
        HYP_TRY(hyp_dim_mul(d, size, strides->dims[i], &size, c->diag));
        HYP_TRY(hyp_dim_sub(d, w->dims[2 + i], 1, &reach, c->diag));
        HYP_TRY(hyp_dim_mul(d, reach, dilations->dims[i], &reach, c->diag));
        HYP_TRY(hyp_dim_add(d, size, reach, &size, c->diag));
        HYP_TRY(hyp_dim_add(d, size, 1, &size, c->diag));
        HYP_TRY(hyp_dim_add(d, size, more->dims[i], &size, c->diag));
        HYP_TRY(hyp_dim_sub(d, size, pads->dims[i], &size, c->diag));
        HYP_TRY(hyp_dim_sub(d, size, pads->dims[n + i], &y->dims[2 + i], c->diag));
        if (hyp_dim_is_const(more->dims[i]) && more->dims[i] < 0)
            return hyp_infer_fail(c, "%lld is added to axis %d", (long long)more->dims[i], i + 2);
        if (hyp_dim_is_const(y->dims[2 + i]) && y->dims[2 + i] < 0)
            return hyp_infer_fail(c, "the padding is larger than axis %d of the result", i + 2);
    }
    return HYP_OK;
}

/* [channels of g, channels of x in a group, kernel...]; g is of the shape that the convolution of x gives. */
hyp_status hyp_infer_conv_backward_weights(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *g = &c->in[1]->type;
    const hyp_attr *kernel = &c->attrs[4];
    int64_t group = c->attrs[3].i;
    hyp_type *y = &c->out[0].type;
    int32_t n = 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(check_spatial(c, x, &n));
    HYP_TRY(check_lists(c, n, 0));
    HYP_TRY(check_kernel(c, kernel, n));
    if (g->rank != x->rank || !hyp_check_equal(c, x->dims[0], g->dims[0]))
        return hyp_infer_fail(c, "the gradient is %s for x %s", hyp_infer_type_text(c, g), hyp_infer_type_text(c, x));
    *y = *x;
    y->dims[0] = g->dims[1];
    if (group < 1 || !hyp_dim_divides(c->dims, group, x->dims[1], &y->dims[1]) || !divides(c, group, g->dims[1]))
        return hyp_infer_fail(c, "x %s and the gradient %s do not fit in %lld groups", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, g), (long long)group);
    for (int32_t i = 0; i < n; i++) {
        hyp_dim places;
        HYP_TRY(window_size(c, x->dims[2 + i], kernel->dims[i], &c->attrs[0], &c->attrs[1], &c->attrs[2], n, i, false,
                            &places));
        if (!hyp_check_equal(c, places, g->dims[2 + i]))
            return hyp_infer_fail(c, "the gradient is %s, axis %d of what the convolution gives has %s",
                                  hyp_infer_type_text(c, g), i + 2, hyp_infer_dim_text(c, places));
        y->dims[2 + i] = kernel->dims[i];
    }
    return HYP_OK;
}

static hyp_status infer_pool(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    const hyp_attr *kernel = &c->attrs[0];
    int32_t n = 0;
    HYP_TRY(check_spatial(c, x, &n));
    HYP_TRY(check_lists(c, n, 1));
    HYP_TRY(check_kernel(c, kernel, n));
    c->out[0].type = *x;
    for (int32_t i = 0; i < n; i++)
        HYP_TRY(window_size(c, x->dims[2 + i], kernel->dims[i], &c->attrs[1], &c->attrs[2], &c->attrs[3], n, i,
                            c->attrs[4].i != 0, &c->out[0].type.dims[2 + i]));
    return HYP_OK;
}

hyp_status hyp_infer_max_pool(const hyp_infer_call *c)
{
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(infer_pool(c));
    if (c->out_count < 2) return HYP_OK;
    c->out[1].type = c->out[0].type;
    c->out[1].type.dtype = HYP_I64;
    return HYP_OK;
}

hyp_status hyp_infer_max_pool_gradient(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *y = &c->in[1]->type;
    int32_t n = 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    HYP_TRY(check_spatial(c, x, &n));
    HYP_TRY(check_lists(c, n, 1));
    HYP_TRY(check_kernel(c, &c->attrs[0], n));
    if (y->dtype != x->dtype || y->rank != x->rank || y->dims[0] != x->dims[0] || y->dims[1] != x->dims[1])
        return hyp_infer_fail(c, "the result of a pool over %s is no %s", hyp_infer_type_text(c, x), hyp_infer_type_text(c, y));
    if (!hyp_type_equal(y, &c->in[2]->type))
        return hyp_infer_fail(c, "the gradient by %s is %s", hyp_infer_type_text(c, y), hyp_infer_type_text(c, &c->in[2]->type));
    c->out[0].type = *x;
    return HYP_OK;
}

hyp_status hyp_infer_average_pool(const hyp_infer_call *c)
{
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    return infer_pool(c);
}

hyp_status hyp_infer_max_unpool(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *places = &c->in[1]->type;
    int32_t n = 0;
    HYP_TRY(check_spatial(c, x, &n));
    if (x->dtype == HYP_BOOL) return hyp_infer_fail(c, "x is bool");
    if (places->dtype != HYP_I64) return hyp_infer_fail(c, "the places are %s, i64 is wanted",
                                                        hyp_infer_type_text(c, places));
    hyp_type same = *x;
    same.dtype = HYP_I64;
    if (!hyp_type_equal(&same, places)) return hyp_infer_fail(c, "x %s and places %s differ in shape",
                                                              hyp_infer_type_text(c, x), hyp_infer_type_text(c, places));
    if (c->attrs[0].count != (uint32_t)n || c->attrs[1].count != (uint32_t)n)
        return hyp_infer_fail(c, "%u and %u sizes, %d are wanted", c->attrs[0].count, c->attrs[1].count, n);
    c->out[0].type = *x;
    memcpy(c->out[0].type.dims + 2, c->attrs[1].dims, (size_t)n * sizeof(hyp_dim));
    return HYP_OK;
}

/* Elements of the axes from `axis` on of x, and those of the inputs from `first` on, which broadcast to them. */
static hyp_status check_normalized(const hyp_infer_call *c, uint32_t first, int32_t *out_axis)
{
    const hyp_type *x = &c->in[0]->type;
    if (!hyp_dtype_is_float(x->dtype)) return hyp_check_dtype(c, HYP_CLASS_FLOAT);
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, out_axis));
    for (uint32_t i = first; i < c->in_count; i++) {
        const hyp_infer_value *a = hyp_infer_input(c, i);
        if (!a) continue;
        bool fits = a->type.rank == x->rank - *out_axis && hyp_dtype_is_float(a->type.dtype);
        for (int32_t k = 0; k < a->type.rank && fits; k++) fits = a->type.dims[k] == x->dims[*out_axis + k];
        if (!fits)
            return hyp_infer_fail(c, "input %u is %s, the axes of x %s from %d on are wanted", i,
                                  hyp_infer_type_text(c, &a->type), hyp_infer_type_text(c, x), *out_axis);
    }
    return HYP_OK;
}

hyp_status hyp_infer_layer_norm(const hyp_infer_call *c)
{
    int32_t axis = 0;
    HYP_TRY(check_normalized(c, 1, &axis));
    c->out[0].type = c->in[0]->type;
    for (uint32_t i = 1; i < c->out_count; i++) {
        c->out[i].type = c->in[0]->type;
        if (c->out[i].type.dtype != HYP_F64) c->out[i].type.dtype = HYP_F32;
        for (int32_t k = axis; k < c->out[i].type.rank; k++) c->out[i].type.dims[k] = 1;
    }
    return HYP_OK;
}

hyp_status hyp_infer_rms_norm(const hyp_infer_call *c)
{
    int32_t axis = 0;
    HYP_TRY(check_normalized(c, 1, &axis));
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

hyp_status hyp_infer_norm_gradient(const hyp_infer_call *c)
{
    static const char *const by[] = {"x", "scale", NULL};
    int32_t axis = 0;
    HYP_TRY(check_normalized(c, 2, &axis));
    HYP_TRY(hyp_check_alike(c, 1));
    HYP_TRY(hyp_check_sym(c, 3, by));
    if (strcmp(c->attrs[3].sym, "scale") == 0 && hyp_infer_input(c, 2))
        return hyp_infer_fail(c, "the gradient by the scale does not depend on it: none is wanted");
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

hyp_status hyp_infer_lrn(const hyp_infer_call *c)
{
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_FLOAT));
    if (c->in[0]->type.rank < 2) return hyp_infer_fail(c, "x is %s, [N C ...] is wanted",
                                                       hyp_infer_type_text(c, &c->in[0]->type));
    if (c->attrs[0].i < 1) return hyp_infer_fail(c, "%lld channels", (long long)c->attrs[0].i);
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

/* x [N C ...] of floats; inputs from `first` on have an element of floats for each channel, and outputs from `result` on,
 * of the type of statistics. */
static hyp_status check_channels(const hyp_infer_call *c, uint32_t first, uint32_t result)
{
    const hyp_type *x = &c->in[0]->type;
    if (!hyp_dtype_is_float(x->dtype)) return hyp_check_dtype(c, HYP_CLASS_FLOAT);
    if (x->rank < 2) return hyp_infer_fail(c, "x is %s, [N C ...] is wanted", hyp_infer_type_text(c, x));
    for (uint32_t i = first; i < c->in_count; i++) {
        if (!c->in[i]) continue;
        const hyp_type *a = &c->in[i]->type;
        if (a->rank != 1 || !hyp_dtype_is_float(a->dtype) || !hyp_check_equal(c, a->dims[0], x->dims[1]))
            return hyp_infer_fail(c, "input %u is %s, a float for each of the %s channels of x is wanted", i,
                                  hyp_infer_type_text(c, a), hyp_infer_dim_text(c, x->dims[1]));
    }
    for (uint32_t i = result; i < c->out_count; i++)
        c->out[i].type = (hyp_type){.dtype = hyp_dtype_wide(x->dtype), .rank = 1, .dims = {x->dims[1]}};
    return HYP_OK;
}

hyp_status hyp_infer_batch_norm(const hyp_infer_call *c)
{
    HYP_TRY(check_channels(c, 1, 1));
    c->out[0].type = c->in[0]->type;
    for (uint32_t i = 1; i < 3; i++) c->out[i].type.dtype = c->in[2 + i]->type.dtype;
    return HYP_OK;
}

hyp_status hyp_infer_batch_norm_stats(const hyp_infer_call *c) { return check_channels(c, 1, 0); }

hyp_status hyp_infer_batch_norm_gradient(const hyp_infer_call *c)
{
    HYP_TRY(check_channels(c, 2, 0));
    const hyp_dtype wide = hyp_dtype_wide(c->in[0]->type.dtype);
    if (!hyp_infer_input(c, 4) != !hyp_infer_input(c, 5))
        return hyp_infer_fail(c, "of scale and bias one is there: both or neither are wanted");
    for (uint32_t i = 2; i < c->in_count; i++)
        if (c->in[i] && c->in[i]->type.dtype != wide)
            return hyp_infer_fail(c, "input %u is %s, statistics of x are %s", i, hyp_infer_type_text(c, &c->in[i]->type),
                                  hyp_dtype_name(wide));
    return hyp_check_alike(c, 1);
}
