/* heads_window.c - heads of gradients of convolutions, pooling and what slides over channels. All are operators of the
 * same kind: the gradient of a convolution by x is conv-transpose.
 */
#include <math.h>
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

/* x with -infinity around it, as far as windows reach. */
static hyp_value_id padded(hyp_builder *b, const window *w, hyp_value_id x, const hyp_dim *pads)
{
    hyp_dim before[HYP_MAX_RANK] = {0}, behind[HYP_MAX_RANK] = {0};
    bool any = false;
    for (int32_t i = 0; i < w->n; i++) {
        before[2 + i] = pads[i];
        behind[2 + i] = pads[w->n + i];
        any |= pads[i] != 0 || pads[w->n + i] != 0;
    }
    const hyp_attr attrs[] = {hyp_attr_of_dims(before, w->x.rank), hyp_attr_of_dims(behind, w->x.rank)};
    return any ? hyp_build_node(b, HYP_OP_pad, attrs, x, hyp_build_scalar(b, w->x.dtype, -(double)INFINITY)) : x;
}

/* For each window the number of the tap, row by row, of the first of its largest elements, in the type of x: a choice
 * by comparisons, of what lies under tap after tap. */
static hyp_value_id taps_of(hyp_scope *s, const window *w, const hyp_dim *pads, int64_t count)
{
    hyp_builder *b = s->b;
    hyp_value_id x = padded(b, w, s->node.inputs[0], pads), taps = hyp_build_scalar(b, w->x.dtype, (double)count);
    hyp_dim starts[HYP_MAX_RANK] = {0}, steps[HYP_MAX_RANK] = {1, 1};
    memcpy(steps + 2, w->strides, (size_t)w->n * sizeof *steps);
    const hyp_attr attrs[] = {hyp_attr_of_dims(starts, w->x.rank), hyp_attr_of_dims(w->y.dims, w->x.rank),
                              hyp_attr_of_dims(steps, w->x.rank)};
    for (int64_t tap = count; tap-- > 0;) {
        int64_t rest = tap;
        for (int32_t i = w->n; i-- > 0; rest /= w->kernel[i]) starts[2 + i] = rest % w->kernel[i] * w->dilations[i];
        hyp_value_id under = hyp_build_node(b, HYP_OP_slice, attrs, x);
        hyp_value_id here = hyp_build_node(b, HYP_OP_equal, NULL, under, s->node.outputs[0]);
        taps = hyp_build_node(b, HYP_OP_where, NULL, here, hyp_build_scalar(b, w->x.dtype, (double)tap), taps);
    }
    return taps;
}

/* g where a tap is the window's, 0 under its other taps: all of these are there, in `dims`, which broadcast to taps and
 * g. */
static hyp_value_id under_taps(hyp_builder *b, const hyp_type *t, hyp_value_id taps, hyp_value_id g, int32_t rank,
                               const hyp_dim *dims)
{
    hyp_type type = {.dtype = hyp_build_type(b, g).dtype, .rank = rank};
    memcpy(type.dims, dims, (size_t)rank * sizeof *dims);
    hyp_value_id here = hyp_build_node(b, HYP_OP_equal, NULL, hyp_build_reshape(b, taps, t->rank, t->dims),
                                       hyp_build_numbers(b, &type, 1));
    return hyp_build_node(b, HYP_OP_where, NULL, here, hyp_build_reshape(b, g, t->rank, t->dims),
                          hyp_build_scalar(b, type.dtype, 0));
}

/* Windows side by side: [N C y0 1 y1 1] against taps [k0 1 k1] is x, but for what no window covers or the last one
 * leaves. */
static hyp_value_id lay_out(hyp_builder *b, const window *w, hyp_value_id taps, hyp_value_id g)
{
    hyp_type split = {.rank = 2 + 2 * w->n, .dims = {w->y.dims[0], w->y.dims[1]}}, inside = w->x, joined = w->x;
    hyp_dim kernel[HYP_MAX_RANK] = {0};
    for (int32_t i = 0; i < w->n; i++) {
        split.dims[2 + 2 * i] = w->y.dims[2 + i];
        split.dims[3 + 2 * i] = 1;
        kernel[2 * i] = w->kernel[i];
        kernel[2 * i + 1] = 1;
        joined.dims[2 + i] = w->y.dims[2 + i] * w->kernel[i];
        if (joined.dims[2 + i] < w->x.dims[2 + i]) inside.dims[2 + i] = joined.dims[2 + i];
    }
    hyp_value_id v = under_taps(b, &split, taps, g, 2 * w->n - 1, kernel);
    v = hyp_build_head(b, hyp_build_reshape(b, v, joined.rank, joined.dims), inside.dims);
    for (int32_t i = 0; i < w->n; i++) v = hyp_build_pad(b, v, 2 + i, 0, w->x.dims[2 + i] - inside.dims[2 + i]);
    return v;
}

/* Windows that overlap: a channel for each tap, and the transpose of a convolution whose filter of a channel is 1 at
 * its tap. */
static hyp_value_id add_up(hyp_scope *s, const window *w, const hyp_dim *pads, const hyp_dim *more, hyp_value_id taps,
                           hyp_value_id g, int64_t count)
{
    hyp_builder *b = s->b;
    hyp_type filters = {.dtype = w->x.dtype, .rank = w->x.rank, .dims = {count, 1}};
    hyp_dim kernel[HYP_MAX_RANK] = {count, 1, 1, 1, 1, 1, 1, 1};
    size_t bytes = (size_t)(count * count) * hyp_dtype_size(filters.dtype);
    unsigned char *unit = hyp_arena_zalloc(&b->arena, 1, bytes);
    if (!unit) return hyp_build_note(b, hyp_fail_memory(b->diag, bytes)), HYP_NO_VALUE;
    for (int64_t i = 0; i < count; i++) hyp_store_f64(filters.dtype, unit, (size_t)(i * count + i), 1);
    memcpy(filters.dims + 2, w->kernel, (size_t)w->n * sizeof *w->kernel);
    hyp_value_id weights = hyp_build_const(b, &filters, unit, bytes);
    hyp_type images = channels_as_images(b, w->y);
    return put_back(s, w, pads, more, under_taps(b, &images, taps, g, w->n + 1, kernel), weights);
}

/* What is left, windows of many taps: one after the other at the places, which count all elements of x. */
static hyp_value_id scatter_places(hyp_scope *s, const window *w, hyp_value_id g)
{
    hyp_builder *b = s->b;
    hyp_attr attrs[HYP_MAX_ATTRS];
    memcpy(attrs, s->node.attrs, hyp_op_get(s->node.op)->attr_count * sizeof *attrs);
    attrs[5] = hyp_attr_of_int(0); /* counted by rows */
    hyp_value_id places = hyp_build_output(b, HYP_OP_max_pool_places, attrs, s->node.inputs, 1, 2, 1);
    hyp_dim n = hyp_build_count(b, &w->y, 0, w->y.rank), all = hyp_build_count(b, &w->x, 0, w->x.rank);
    hyp_value_id v = hyp_build_scatter_rows(b, hyp_build_reshape(b, g, 1, &n), places, n, all);
    return hyp_build_reshape(b, v, w->x.rank, w->x.dims);
}

/* Whether what a window says is fixed, of so many taps at most; *out_apart: windows lie side by side in fixed sizes. */
static bool has_few_taps(const window *w, int64_t most, int64_t *out_taps, bool *out_apart)
{
    *out_taps = 1;
    *out_apart = 2 + 2 * w->n <= HYP_MAX_RANK;
    for (int32_t i = 0; i < w->n; i++) {
        if (!hyp_dim_is_const(w->kernel[i]) || !hyp_dim_is_const(w->dilations[i]) || w->kernel[i] > most) return false;
        *out_taps *= w->kernel[i];
        if (*out_taps > most) return false;
        *out_apart &= w->kernel[i] == w->strides[i] && w->dilations[i] == 1 && w->pads[i] == 0 &&
                      hyp_dim_is_const(w->x.dims[2 + i]) && hyp_dim_is_const(w->y.dims[2 + i]);
    }
    return true;
}

/* In operators that every device computes in parallel, but for windows of many taps. */
hyp_value_id hyp_head_max_pool_back(hyp_scope *s, const hyp_value_id *args)
{
    enum { MOST_TAPS = 64 };
    window w = read_window(s, s->node.attrs[0].dims, 1);
    hyp_dim pads[2 * HYP_MAX_RANK], more[HYP_MAX_RANK];
    int64_t count;
    bool apart;
    if (!has_few_taps(&w, MOST_TAPS, &count, &apart)) return scatter_places(s, &w, args[0]);
    fit_windows(s->b, &w, pads, more);
    hyp_value_id taps = taps_of(s, &w, pads, count);
    return apart ? lay_out(s->b, &w, taps, args[0]) : add_up(s, &w, pads, more, taps, args[0], count);
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

hyp_value_id hyp_head_average_pool_back(hyp_scope *s, const hyp_value_id *args)
{
    hyp_builder *b = s->b;
    window w = read_window(s, s->node.attrs[0].dims, 1);
    hyp_dim pads[2 * HYP_MAX_RANK], more[HYP_MAX_RANK];
    fit_windows(b, &w, pads, more);
    hyp_type kernel = {.dtype = w.x.dtype, .rank = w.x.rank, .dims = {1, 1}};
    memcpy(kernel.dims + 2, w.kernel, (size_t)w.n * sizeof *kernel.dims);
    hyp_value_id taps = hyp_build_full(b, &kernel, 1);
    hyp_value_id v = hyp_build_node(b, HYP_OP_div, NULL, args[0], window_counts(s, &w, pads, taps));
    if (is_tiling(b, &w)) return repeat(b, &w, v);
    hyp_type images = channels_as_images(b, w.y);
    return put_back(s, &w, pads, more, hyp_build_reshape(b, v, images.rank, images.dims), taps);
}

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
