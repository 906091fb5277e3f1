/* heads_window.c - heads of gradients of convolutions, pooling and what slides over channels. All are operators of the
 * same kind: the gradient of a convolution by x is conv-transpose.
 */
#include <string.h>

#include "train/form.h"

/* Strides, pads, dilations and group of a convolution, kernel, strides, pads and dilations of pooling, with the sizes.
 */
typedef struct window {
    int32_t n; /* spatial axes */
    hyp_type x, y;
    const hyp_dim *kernel, *strides, *pads, *dilations;
} window;

static window read_window(hyp_scope *s, const hyp_dim *kernel, uint32_t first)
{
    window w = {.x = hyp_build_type(s->b, s->node.inputs[0]),
                .y = hyp_build_type(s->b, s->node.outputs[0]),
                .kernel = kernel,
                .strides = s->node.attrs[first].dims,
                .pads = s->node.attrs[first + 1].dims,
                .dilations = s->node.attrs[first + 2].dims};
    w.n = w.x.rank - 2;
    return w;
}

/* stride (out - 1) + dilation (kernel - 1) + 1 - pads: as much of x as windows reach over. */
static hyp_dim reach(hyp_builder *b, const window *w, hyp_dim out, int32_t i)
{
    hyp_dim steps = hyp_build_mul(b, hyp_build_sub(b, out, 1), w->strides[i]);
    hyp_dim taps = hyp_build_mul(b, hyp_build_sub(b, w->kernel[i], 1), w->dilations[i]);
    hyp_dim all = hyp_build_add(b, hyp_build_add(b, steps, taps), 1);
    return hyp_build_sub(b, hyp_build_sub(b, all, w->pads[i]), w->pads[w->n + i]);
}

/* ---- convolution ------------------------------------------------------------------------------------ */

hyp_value_id hyp_head_conv_data(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    hyp_type weights = hyp_build_type(b, s->node.inputs[1]);
    window w = read_window(s, weights.dims + 2, 0);
    hyp_dim more[HYP_MAX_RANK];
    for (int32_t i = 0; i < w.n; i++) more[i] = hyp_build_sub(b, w.x.dims[2 + i], reach(b, &w, w.y.dims[2 + i], i));
    const hyp_attr attrs[] = {s->node.attrs[0], s->node.attrs[1], s->node.attrs[2], s->node.attrs[3],
                              hyp_attr_of_dims(more, w.n)};
    return hyp_build_node(b, HYP_OP_conv_transpose, attrs, args[0], s->node.inputs[1]);
}

static hyp_value_id convolve(hyp_scope *s, hyp_value_id x, hyp_value_id weights, const hyp_attr *strides,
                             const hyp_attr *pads, const hyp_attr *dilations, int64_t group)
{
    const hyp_attr attrs[] = {
        *strides, *pads, *dilations, hyp_attr_of_int(group), hyp_attr_of_sym("none"), hyp_attr_of_float(0.0)};
    return hyp_build_node(s->b, HYP_OP_conv, attrs, x, weights);
}

hyp_value_id hyp_head_conv_transpose_data(hyp_scope *s, const hyp_value_id *args)
{
    const hyp_attr *a = s->node.attrs;
    hyp_type x = hyp_build_type(s->b, s->node.inputs[0]);
    hyp_value_id v = convolve(s, args[0], s->node.inputs[1], &a[0], &a[1], &a[2], a[3].i);
    return hyp_build_head(s->b, v, x.dims); /* `more` of a stride or beyond it brings further windows */
}

/* The gradient by the weights of the convolution that gives what g is the gradient of, from x with these pads. */
static hyp_value_id by_weights(hyp_scope *s, hyp_value_id x, hyp_value_id g, const hyp_attr *pads)
{
    const hyp_attr *a = s->node.attrs;
    hyp_type weights = hyp_build_type(s->b, s->node.inputs[1]);
    const hyp_attr attrs[] = {a[0], *pads, a[2], a[3], hyp_attr_of_dims(weights.dims + 2, weights.rank - 2)};
    return hyp_build_node(s->b, HYP_OP_conv_backward_weights, attrs, x, g);
}

hyp_value_id hyp_head_conv_weights(hyp_scope *s, const hyp_value_id *args)
{
    return by_weights(s, args[0], args[1], &s->node.attrs[1]);
}

/* The transpose is of a convolution over its result, whose gradient is args[0]. `more` of a stride or beyond it brings
 * places that the windows of args[1] do not reach, and would bring further windows: there g, with the padding behind it
 * written out, is cut where they end. */
hyp_value_id hyp_head_conv_transpose_weights(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    const hyp_dim *more = s->node.attrs[4].dims;
    hyp_value_id g = args[0];
    hyp_type weights = hyp_build_type(b, s->node.inputs[1]), type = hyp_build_type(b, g);
    window w = read_window(s, weights.dims + 2, 0);
    hyp_dim pads[2 * HYP_MAX_RANK];
    memcpy(pads, w.pads, 2 * (size_t)w.n * sizeof *pads);
    for (int32_t i = 0; i < w.n; i++) {
        bool within = hyp_dim_is_const(more[i]) && hyp_dim_is_const(w.strides[i]) && more[i] < w.strides[i];
        if (within) continue;
        g = hyp_build_pad(b, g, 2 + i, 0, pads[w.n + i]);
        type.dims[2 + i] = hyp_build_add(b, reach(b, &w, w.x.dims[2 + i], i), pads[w.n + i]);
        pads[w.n + i] = 0;
    }
    hyp_attr of_pads = hyp_attr_of_dims(pads, 2 * w.n);
    return by_weights(s, hyp_build_head(b, g, type.dims), args[1], &of_pads);
}

hyp_value_id hyp_head_channel_sum(hyp_scope *s, const hyp_value_id *args)
{
    int32_t rank = hyp_build_type(s->b, args[0]).rank, count = 0;
    hyp_dim axes[HYP_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        if (i != 1) axes[count++] = i;
    return hyp_build_sum(s->b, args[0], axes, count, false);
}

hyp_value_id hyp_head_of_channels(hyp_scope *s, const hyp_value_id *args)
{
    hyp_dim dims[HYP_MAX_RANK] = {hyp_build_type(s->b, args[0]).dims[0], 1, 1, 1, 1, 1, 1, 1};
    return hyp_build_reshape(s->b, args[0], hyp_build_type(s->b, args[1]).rank - 1, dims);
}

/* ---- pooling ---------------------------------------------------------------------------------------- */

/* Pads and additions with which the transpose of a convolution over such windows has the size of x: in ceil mode the
 * last window may reach beyond the padding. */
static void fit_windows(hyp_builder *b, const window *w, hyp_dim *pads, hyp_dim *more)
{
    memcpy(pads, w->pads, 2 * (size_t)w->n * sizeof *pads);
    for (int32_t i = 0; i < w->n; i++) {
        more[i] = hyp_build_sub(b, w->x.dims[2 + i], reach(b, w, w->y.dims[2 + i], i));
        if (!hyp_dim_is_const(more[i]) || more[i] >= 0) continue;
        pads[w->n + i] = hyp_build_sub(b, pads[w->n + i], more[i]);
        more[i] = 0;
    }
}

/* [N C ...] as so many images of one channel each. */
static hyp_type channels_as_images(hyp_builder *b, hyp_type t)
{
    t.dims[0] = hyp_build_count(b, &t, 0, 2);
    t.dims[1] = 1;
    return t;
}

/* The transpose of a convolution of such images with windows of the node's, to the shape of x. */
static hyp_value_id put_back(hyp_scope *s, const window *w, const hyp_dim *pads, const hyp_dim *more, hyp_value_id v,
                             hyp_value_id weights)
{
    const hyp_attr attrs[] = {s->node.attrs[1], hyp_attr_of_dims(pads, 2 * w->n), s->node.attrs[3], hyp_attr_of_int(1),
                              hyp_attr_of_dims(more, w->n)};
    v = hyp_build_node(s->b, HYP_OP_conv_transpose, attrs, v, weights);
    return hyp_build_reshape(s->b, v, w->x.rank, w->x.dims);
}

hyp_value_id hyp_head_max_pool_back(hyp_scope *s, const hyp_value_id *args)
{
    return hyp_build_node(s->b, HYP_OP_max_pool_gradient, s->node.attrs, s->node.inputs[0], s->node.outputs[0], args[0]);
}

/* Whether windows lie side by side and cover all of x. */
static bool is_tiling(hyp_builder *b, const window *w)
{
    bool tiles = w->x.rank + w->n <= HYP_MAX_RANK;
    for (int32_t i = 0; i < w->n && tiles; i++)
        tiles = w->kernel[i] == w->strides[i] && w->dilations[i] == 1 && w->pads[i] == 0 && w->pads[w->n + i] == 0 &&
                hyp_build_mul(b, w->y.dims[2 + i], w->kernel[i]) == w->x.dims[2 + i];
    return tiles;
}

/* Each element repeated over its window. */
static hyp_value_id repeat(hyp_builder *b, const window *w, hyp_value_id v)
{
    hyp_type one = {.rank = 2, .dims = {w->y.dims[0], w->y.dims[1]}}, all = one;
    for (int32_t i = 0; i < w->n; i++) {
        one.dims[one.rank++] = all.dims[all.rank++] = w->y.dims[2 + i];
        one.dims[one.rank++] = 1;
        all.dims[all.rank++] = w->kernel[i];
    }
    hyp_attr shape = hyp_attr_of_dims(all.dims, all.rank);
    v = hyp_build_node(b, HYP_OP_expand, &shape, hyp_build_reshape(b, v, one.rank, one.dims));
    return hyp_build_reshape(b, v, w->x.rank, w->x.dims);
}

/* What the sums of windows were divided by: a number, or where padding or ceil mode make windows unequal one for each
 * place [1 1 y...]. `pads`: those with which no window reaches further than what they pad to. */
static hyp_value_id window_counts(hyp_scope *s, const window *w, const hyp_dim *pads, hyp_value_id taps)
{
    hyp_builder *b = s->b;
    bool with_pads = s->node.attrs[5].i != 0, equal = true;
    hyp_dim kernel = 1, inner[2 * HYP_MAX_RANK];
    hyp_type ones = {.dtype = w->x.dtype, .rank = w->x.rank, .dims = {1, 1}};
    for (int32_t i = 0; i < w->n; i++) {
        kernel = hyp_build_mul(b, kernel, w->kernel[i]);
        hyp_dim before = w->pads[i], after = w->pads[w->n + i];
        equal &= pads[w->n + i] == after && (with_pads || (before == 0 && after == 0));
        ones.dims[2 + i] = w->x.dims[2 + i];
        if (with_pads) ones.dims[2 + i] = hyp_build_add(b, hyp_build_add(b, ones.dims[2 + i], before), after);
        inner[i] = with_pads ? 0 : before;
        inner[w->n + i] = with_pads ? hyp_build_sub(b, pads[w->n + i], after) : pads[w->n + i];
    }
    if (equal && hyp_dim_is_const(kernel)) return hyp_build_scalar(b, w->x.dtype, (double)kernel);
    hyp_attr within = hyp_attr_of_dims(inner, 2 * w->n);
    return convolve(s, hyp_build_full(b, &ones, 1), taps, &s->node.attrs[1], &within, &s->node.attrs[3], 1);
}

/* Adds v, which is of the shape of the result, to all places of each window, with `divides` divided by how many of them
 * counted. */
static hyp_value_id windows_back(hyp_scope *s, hyp_value_id v, bool divides)
{
    hyp_builder *b = s->b;
    window w = read_window(s, s->node.attrs[0].dims, 1);
    hyp_dim pads[2 * HYP_MAX_RANK], more[HYP_MAX_RANK];
    fit_windows(b, &w, pads, more);
    hyp_type kernel = {.dtype = w.x.dtype, .rank = w.x.rank, .dims = {1, 1}};
    memcpy(kernel.dims + 2, w.kernel, (size_t)w.n * sizeof *kernel.dims);
    hyp_value_id taps = hyp_build_full(b, &kernel, 1);
    if (divides) v = hyp_build_node(b, HYP_OP_div, NULL, v, window_counts(s, &w, pads, taps));
    if (is_tiling(b, &w)) return repeat(b, &w, v);
    hyp_type images = channels_as_images(b, w.y);
    return put_back(s, &w, pads, more, hyp_build_reshape(b, v, images.rank, images.dims), taps);
}

hyp_value_id hyp_head_average_pool_back(hyp_scope *s, const hyp_value_id *args) { return windows_back(s, args[0], true); }
hyp_value_id hyp_head_window_sum_back(hyp_scope *s, const hyp_value_id *args) { return windows_back(s, args[0], false); }

/* ---- channels --------------------------------------------------------------------------------------- */

/* Means over `size` channels, so many of them before each one and the rest behind it. */
static hyp_value_id slide(hyp_scope *s, hyp_value_id v, int64_t before)
{
    hyp_builder *b = s->b;
    hyp_type t = hyp_build_type(b, v);
    int64_t size = s->node.attrs[0].i;
    const hyp_dim image[] = {t.dims[0], 1, t.dims[1], hyp_build_count(b, &t, 2, t.rank)}, kernel[] = {size, 1},
                  ones[] = {1, 1}, pads[] = {before, 0, size - 1 - before, 0};
    const hyp_attr attrs[] = {hyp_attr_of_dims(kernel, 2), hyp_attr_of_dims(ones, 2), hyp_attr_of_dims(pads, 4),
                              hyp_attr_of_dims(ones, 2),   hyp_attr_of_int(0),        hyp_attr_of_int(1)};
    v = hyp_build_node(b, HYP_OP_average_pool, attrs, hyp_build_reshape(b, v, 4, image));
    return hyp_build_reshape(b, v, t.rank, t.dims);
}

hyp_value_id hyp_head_channels_around(hyp_scope *s, const hyp_value_id *args)
{
    return slide(s, args[0], (s->node.attrs[0].i - 1) / 2);
}

hyp_value_id hyp_head_channels_opposite(hyp_scope *s, const hyp_value_id *args)
{
    return slide(s, args[0], s->node.attrs[0].i / 2);
}
