/* resize_line.h - where an element of a resized axis comes from: plain functions of numbers, which the kernel of
 * `resize`, host backends and CUDA kernels share, so that all round places alike (cubic.h). No state: any
 * thread. Source: the operator Resize of ONNX, opsets 10 to 19, whose names of modes these are.
 */
#ifndef HYP_KERNELS_RESIZE_LINE_H
#define HYP_KERNELS_RESIZE_LINE_H

#include <math.h>
#include <stdint.h>

#include "kernels/cubic.h"

enum { HYP_RESIZE_OUTSIDE = -1 /* in place of `first`: the element is the extrapolation value */ };
enum {
    HYP_RESIZE_HALF_PIXEL,
    HYP_RESIZE_ASYMMETRIC,
    HYP_RESIZE_ALIGN_CORNERS,
    HYP_RESIZE_PYTORCH,
    HYP_RESIZE_SYMMETRIC,
    HYP_RESIZE_CROP
};
enum {
    HYP_RESIZE_ROUND_DOWN,
    HYP_RESIZE_ROUND_UP,
    HYP_RESIZE_FLOOR,
    HYP_RESIZE_CEIL
}; /* the first two: nearest, which of two */

/* An axis and what is done along it. */
typedef struct hyp_resize_line {
    int64_t in, out;
    int64_t taps;      /* neighbours that make an element; 0: nothing happens along this axis */
    int64_t start;     /* the first of them, behind the floor of the place */
    double scale;      /* of the sizes, or as it was given */
    double shrink;     /* distances are multiplied by it: below 1 where neighbours are many against aliases */
    double begin, end; /* of the region, as parts of the axis; HYP_RESIZE_CROP */
    double cubic_a;
    int32_t reach;       /* of a mode to either side: 0 nearest, 1 linear, 2 cubic */
    int32_t coordinates; /* HYP_RESIZE_HALF_PIXEL ... */
    int32_t nearest;     /* HYP_RESIZE_ROUND_DOWN ... */
    int32_t exclude_outside;
} hyp_resize_line;

/* The place in x of element i of the result. */
HYP_PLACE_FN double hyp_resize_place(const hyp_resize_line *a, double i)
{
    double in = (double)a->in, width = HYP_PLACE_PRODUCT(a->scale, in);
    if (a->coordinates == HYP_RESIZE_ASYMMETRIC) return i / a->scale;
    if (a->coordinates == HYP_RESIZE_ALIGN_CORNERS) return width == 1 ? 0 : HYP_PLACE_PRODUCT(i, in - 1) / (width - 1);
    if (a->coordinates == HYP_RESIZE_PYTORCH && width == 1) return -0.5;
    if (a->coordinates == HYP_RESIZE_CROP) {
        double part = a->end - a->begin;
        double along = width == 1 ? HYP_PLACE_PRODUCT(part, in - 1) / 2
                                  : HYP_PLACE_PRODUCT(HYP_PLACE_PRODUCT(i, part), in - 1) / (width - 1);
        return along + HYP_PLACE_PRODUCT(a->begin, in - 1);
    }
    double offset = a->coordinates == HYP_RESIZE_SYMMETRIC ? HYP_PLACE_PRODUCT(in / 2, 1 - (double)a->out / width) : 0;
    return offset + (i + 0.5) / a->scale - 0.5;
}

HYP_PLACE_FN double hyp_resize_nearest(int32_t how, double x)
{
    if (how == HYP_RESIZE_FLOOR) return floor(x);
    if (how == HYP_RESIZE_CEIL) return ceil(x);
    return how == HYP_RESIZE_ROUND_UP ? floor(x + 0.5) : ceil(x - 0.5);
}

/* The weight of a neighbour at this distance: a triangle, or the cubic convolution of Keys. */
HYP_PLACE_FN double hyp_resize_weight(const hyp_resize_line *line, double d)
{
    d = fabs(d);
    if (line->reach == 1) return d < 1 ? 1 - d : 0;
    if (d <= 1) return hyp_cubic_near(line->cubic_a, d);
    return d < 2 ? hyp_cubic_far(line->cubic_a, d) : 0;
}

/* Element i: its `taps` weights, which add up to 1, and the first neighbour plus `taps`, so that it is not negative: it
 * may lie in front of the axis, whose end elements continue for ever. HYP_RESIZE_OUTSIDE where it is outside of the
 * image. */
HYP_PLACE_FN int64_t hyp_resize_element(const hyp_resize_line *a, int64_t i, double *weights)
{
    double x = hyp_resize_place(a, (double)i), limit = (double)a->in + (double)a->taps, sum = 0;
    int outside = a->coordinates == HYP_RESIZE_CROP && !(x >= 0 && x <= (double)a->in - 1);
    if (!(x > -limit)) x = -limit; /* the ends continue for ever; NaN is somewhere */
    if (x > limit) x = limit;
    if (a->reach == 0) {
        weights[0] = 1;
        return outside ? HYP_RESIZE_OUTSIDE
                       : (int64_t)fmin(fmax(hyp_resize_nearest(a->nearest, x), 0.0), (double)(a->in - 1)) + 1;
    }
    int64_t first = (int64_t)floor(x) + a->start;
    for (int64_t t = 0; t < a->taps; t++) {
        int beyond = first + t < 0 || first + t >= a->in;
        weights[t] = a->exclude_outside && beyond ? 0 : hyp_resize_weight(a, HYP_PLACE_PRODUCT((double)(first + t) - x, a->shrink));
        sum += weights[t];
    }
    for (int64_t t = 0; t < a->taps && sum != 0; t++) weights[t] /= sum;
    if (outside) return HYP_RESIZE_OUTSIDE;
    return first + a->taps < 0 ? 0 : first + a->taps;
}

#endif
