/* Resizing by interpolation. */
#include "kernels/resize.h"

hyp_kernel_fn hyp_kernel_resize;
hyp_kernel_scratch_fn hyp_kernel_scratch_resize;

static bool is(const hyp_kernel_call *c, int attr, const char *name) { return strcmp(c->attrs[attr].sym, name) == 0; }

/* How far the neighbours of a mode lie on either side, in elements of the smaller of both axes. */
static int64_t reach(const hyp_kernel_call *c)
{
    return is(c, HYP_RESIZE_MODE, "cubic") ? 2 : is(c, HYP_RESIZE_MODE, "linear") ? 1 : 0;
}

int64_t hyp_resize_taps(const hyp_kernel_call *c, int64_t in, int64_t out)
{
    int64_t taps = reach(c) ? 2 * reach(c) : 1;
    if (c->attrs[HYP_RESIZE_ANTIALIAS].i == 0 || reach(c) == 0 || out < 1 || in <= out) return taps;
    const int64_t most = (int64_t)1 << 40; /* times smaller; beyond that their lists are in no memory */
    /* A size may be rounded to as little as half of what the scale says. */
    return taps * (2 * ((in / out < most ? in / out : most) + 1)) + 2;
}

hyp_status hyp_resize_check(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *scales = hyp_kernel_input(c, 1), *roi = hyp_kernel_input(c, 2);
    const hyp_kernel_attr *sizes = &c->attrs[HYP_RESIZE_SIZES];
    HYP_TRY(hyp_kernel_want_shape(c, &c->out[0], x->rank, sizes->ints, "the result"));
    if (sizes->count != (uint32_t)x->rank || c->out[0].dtype != x->dtype)
        return hyp_kernel_fail(c, "the result is of another rank or type");
    if ((scales && scales->count != x->rank) || (roi && roi->count != 2 * (int64_t)x->rank))
        return hyp_kernel_fail(c, "the scales or the region do not fit the axes");
    if (x->count == 0 && c->out[0].count > 0) return hyp_kernel_fail(c, "there is nothing to resize");
    return HYP_OK;
}

static int32_t coordinates_of(const hyp_kernel_call *c)
{
    static const struct {
        const char *name;
        int32_t way;
    } rows[] = {{"asymmetric", HYP_RESIZE_ASYMMETRIC},         {"align_corners", HYP_RESIZE_ALIGN_CORNERS},
                {"pytorch_half_pixel", HYP_RESIZE_PYTORCH},    {"half_pixel_symmetric", HYP_RESIZE_SYMMETRIC},
                {"tf_crop_and_resize", HYP_RESIZE_CROP}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(c, HYP_RESIZE_COORDINATES, rows[i].name)) return rows[i].way;
    return HYP_RESIZE_HALF_PIXEL;
}

static int32_t nearest_of(const hyp_kernel_call *c)
{
    if (is(c, HYP_RESIZE_NEAREST, "floor")) return HYP_RESIZE_FLOOR;
    if (is(c, HYP_RESIZE_NEAREST, "ceil")) return HYP_RESIZE_CEIL;
    return is(c, HYP_RESIZE_NEAREST, "round_prefer_ceil") ? HYP_RESIZE_ROUND_UP : HYP_RESIZE_ROUND_DOWN;
}

hyp_status hyp_resize_read(const hyp_kernel_call *c, int32_t axis, int64_t in, int64_t out, hyp_resize_line *a)
{
    const hyp_array *scales = hyp_kernel_input(c, 1), *roi = hyp_kernel_input(c, 2);
    const int64_t taps = hyp_resize_taps(c, in, out);
    *a = (hyp_resize_line){.in = in,
                           .out = out,
                           .start = 1 - reach(c),
                           .scale = scales ? hyp_array_f64(scales, axis) : (double)out / (double)in,
                           .shrink = 1,
                           .begin = roi ? hyp_array_f64(roi, axis) : 0,
                           .end = roi ? hyp_array_f64(roi, roi->count / 2 + axis) : 1,
                           .cubic_a = c->attrs[HYP_RESIZE_CUBIC_A].f,
                           .reach = (int32_t)reach(c),
                           .coordinates = coordinates_of(c),
                           .nearest = nearest_of(c),
                           .exclude_outside = c->attrs[HYP_RESIZE_EXCLUDE_OUTSIDE].i != 0};
    if (in == out && a->scale == 1 && a->coordinates != HYP_RESIZE_CROP) return HYP_OK;
    if (!(a->scale > 0 && a->scale < 1e9)) return hyp_kernel_fail(c, "the scale of axis %d is %g", axis, a->scale);
    a->taps = reach(c) ? 2 * reach(c) : 1;
    if (c->attrs[HYP_RESIZE_ANTIALIAS].i && reach(c) && a->scale < 1) {
        double from = floor(-(double)reach(c) / a->scale) + 1;
        if (!(2 - 2 * from <= (double)taps))
            return hyp_kernel_fail(c, "scale %g is too small for axis %d", a->scale, axis);
        a->start = (int64_t)from;
        a->taps = 2 - 2 * a->start;
        a->shrink = a->scale;
    }
    return HYP_OK;
}

hyp_status hyp_resize_plan(const hyp_kernel_call *c, int32_t axis, hyp_resize_axis *a)
{
    hyp_resize_line line;
    HYP_TRY(hyp_resize_read(c, axis, a->in, a->out, &line));
    a->taps = line.taps;
    for (int64_t i = 0; i < a->out && a->taps > 0; i++) a->first[i] = hyp_resize_element(&line, i, a->weights + i * a->taps);
    return HYP_OK;
}

/* ---- the kernel: one axis after the other in double, nearest elements at once --------------------------- */

/* Bytes of the lists of all axes, and the number of elements of the largest array on the way. */
static bool measure(const hyp_kernel_call *c, size_t *lists, int64_t *largest)
{
    const hyp_array *x = &c->in[0];
    int64_t count = x->count, bytes = 0;
    *largest = count;
    for (int32_t a = 0; a < x->rank; a++) {
        int64_t in = x->dims[a], out = c->out[0].dims[a], taps = hyp_resize_taps(c, in, out), part;
        if (!hyp_mul_i64(out, 8 * (taps + 1), &part) || !hyp_add_i64(bytes, part, &bytes)) return false;
        if (in == 0 || !hyp_mul_i64(count / in, out, &count)) return false;
        if (count > *largest) *largest = count;
    }
    *lists = (size_t)bytes;
    return true;
}

size_t hyp_kernel_scratch_resize(const hyp_kernel_call *c)
{
    size_t lists;
    int64_t largest, all;
    if (c->out[0].rank != c->in[0].rank || c->out[0].count == 0) return 0;
    if (!measure(c, &lists, &largest) || !hyp_mul_i64(largest, 2 * sizeof(double), &all) ||
        !hyp_add_i64(all, (int64_t)lists, &all))
        return c->in[0].count == 0 ? 0 : SIZE_MAX;
    return (size_t)all;
}

static void pick_nearest(const hyp_kernel_call *c, const hyp_resize_axis *axes)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t strides[HYP_MAX_RANK], index[HYP_MAX_RANK] = {0};
    hyp_array_strides(x, strides);
    for (int64_t i = 0; i < y->count; i++, hyp_index_next(y->rank, y->dims, index)) {
        int64_t from = 0;
        bool outside = false;
        for (int32_t a = 0; a < x->rank; a++) {
            bool moved = axes[a].taps != 0;
            outside = outside || (moved && axes[a].first[index[a]] == HYP_RESIZE_OUTSIDE);
            from += (moved ? hyp_resize_source(&axes[a], index[a], 0) : index[a]) * strides[a];
        }
        if (outside)
            hyp_array_set_f64(y, i, c->attrs[HYP_RESIZE_EXTRAPOLATION].f);
        else
            hyp_array_copy(y, i, x, from);
    }
}

/* One axis of an array seen as [outer, in, inner]. */
static void interpolate(const hyp_resize_axis *a, double extrapolation, int64_t outer, int64_t inner, const double *x,
                        double *y)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < a->out; i++, y += inner) {
            bool outside = a->first[i] == HYP_RESIZE_OUTSIDE;
            for (int64_t j = 0; j < inner; j++) y[j] = outside ? extrapolation : 0;
            for (int64_t t = 0; t < a->taps && !outside; t++) {
                const double *from = x + (o * a->in + hyp_resize_source(a, i, t)) * inner;
                double w = a->weights[i * a->taps + t];
                for (int64_t j = 0; j < inner; j++) y[j] += w * from[j];
            }
        }
}

/* The result in one of both buffers. */
static const double *interpolate_all(const hyp_kernel_call *c, const hyp_resize_axis *axes, double *buffers[2])
{
    const hyp_array *x = &c->in[0];
    int64_t outer = 1, inner = x->count;
    double *now = buffers[0], *next = buffers[1];
    for (int64_t i = 0; i < x->count; i++) now[i] = hyp_array_f64(x, i);
    for (int32_t a = 0; a < x->rank; a++) {
        inner /= x->dims[a];
        if (axes[a].taps) {
            interpolate(&axes[a], c->attrs[HYP_RESIZE_EXTRAPOLATION].f, outer, inner, now, next);
            double *swap = now;
            now = next;
            next = swap;
        }
        outer *= axes[a].out;
    }
    return now;
}

hyp_status hyp_kernel_resize(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    hyp_resize_axis axes[HYP_MAX_RANK] = {{0}};
    double *at = c->scratch, *buffers[2];
    size_t lists;
    int64_t largest;
    HYP_TRY(hyp_resize_check(c));
    if (y->count == 0) return HYP_OK;
    if (!measure(c, &lists, &largest)) return hyp_kernel_fail(c, "the sizes are too large");
    for (int32_t a = 0; a < x->rank; a++) {
        axes[a] = (hyp_resize_axis){.in = x->dims[a], .out = y->dims[a]};
        axes[a].weights = at;
        at += axes[a].out * hyp_resize_taps(c, axes[a].in, axes[a].out);
        axes[a].first = (int64_t *)at;
        at += axes[a].out;
        HYP_TRY(hyp_resize_plan(c, a, &axes[a]));
    }
    if (reach(c) == 0) {
        pick_nearest(c, axes);
        return HYP_OK;
    }
    buffers[0] = at;
    buffers[1] = at + largest;
    const double *result = interpolate_all(c, axes, buffers);
    for (int64_t i = 0; i < y->count; i++) {
        double v = result[i];
        if (!hyp_array_is_float(y))
            v = fmin(fmax(v, y->dtype == HYP_U8   ? 0
                             : y->dtype == HYP_I8 ? -128
                                                  : v),
                     y->dtype == HYP_U8   ? 255
                     : y->dtype == HYP_I8 ? 127
                                          : v);
        hyp_array_set_f64(y, i, v);
    }
    return HYP_OK;
}
