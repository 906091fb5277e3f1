/* sample_place.h - where a sample of an image comes from: plain functions of numbers, which the kernel of `grid-sample`
 * and CUDA kernels share, so that all round places alike (cubic.h). No state: any thread. Source: the operator
 * GridSample of ONNX, opsets 16 to 22.
 */
#ifndef HYP_KERNELS_SAMPLE_PLACE_H
#define HYP_KERNELS_SAMPLE_PLACE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cubic.h"

typedef enum hyp_sample_padding { HYP_SAMPLE_ZEROS, HYP_SAMPLE_BORDER, HYP_SAMPLE_REFLECTION } hyp_sample_padding;

enum { HYP_SAMPLE_AXES = 3, HYP_SAMPLE_NEIGHBOURS = 64 /* of 4 along each axis */ };

/* Along each axis of space. */
typedef struct hyp_sampler {
    int32_t axes;
    int64_t dims[HYP_SAMPLE_AXES], strides[HYP_SAMPLE_AXES]; /* of the image */
    int64_t image, places;                                   /* elements of an image; samples of it */
    int32_t padding;                                         /* hyp_sample_padding */
    int32_t align_corners;
    int taps; /* neighbours along an axis: 1, 2 or 4 */
} hyp_sampler;

/* The places and weights of the neighbours of one sample, along each axis; -1: there is nothing, which is 0. */
typedef struct hyp_sample_neighbours {
    int64_t at[HYP_SAMPLE_AXES][4];
    double weights[HYP_SAMPLE_AXES][4];
} hyp_sample_neighbours;

/* `direction`: 1 where the result grows with x, -1 where it shrinks, 0 where it stays. */
HYP_PLACE_FN double hyp_sample_reflect(double x, double low, double high, double *direction)
{
    double range = high - low, over = x < low ? low - x : x - high;
    *direction = 1;
    if (over <= 0) return x;
    *direction = 0;
    if (range <= 0) return low;
    double rest = fmod(over, 2 * range);
    bool back = rest > range;
    if (back) rest -= range;
    *direction = back ? 1 : -1;
    return (x < low) != back ? low + rest : high - rest;
}

/* An index on its way into the image. */
HYP_PLACE_FN int64_t hyp_sample_inside(const hyp_sampler *s, double i, int64_t size)
{
    double direction;
    if (s->padding == HYP_SAMPLE_ZEROS) return i >= 0 && i < (double)size ? (int64_t)i : -1;
    if (s->padding == HYP_SAMPLE_REFLECTION)
        i = s->align_corners ? hyp_sample_reflect(i, 0, (double)size - 1, &direction)
                             : hyp_sample_reflect(i, -0.5, (double)size - 0.5, &direction);
    return (int64_t)fmin(fmax(i, 0.0), (double)size - 1);
}

/* Where a coordinate, which is from -1 to 1 over the image, lies along an axis. One outside of it moves inside as a whole; with
 * cubic weights each neighbour does for itself, as in PyTorch and onnxruntime. `slope`: how fast the place moves with the
 * coordinate, which it does not between elements of mode nearest, nor from the elements at either end on, where it is moved
 * inside: as in PyTorch. */
HYP_PLACE_FN double hyp_sample_place(const hyp_sampler *s, int32_t axis, double coordinate, double *slope)
{
    const double far = 1e9, n = (double)s->dims[axis];
    double x = s->align_corners ? HYP_PLACE_PRODUCT((coordinate + 1) / 2, n - 1)
                                : (HYP_PLACE_PRODUCT(coordinate + 1, n) - 1) / 2;
    double low = s->align_corners ? 0 : -0.5, high = n - 1 - low, direction = isnan(x) || s->taps == 1 ? 0 : 1;
    x = isnan(x) ? -far : fmin(fmax(x, -far), far);
    if (s->taps == 1) x = rint(x);
    if (s->taps < 4 && s->padding == HYP_SAMPLE_BORDER && (x < low || x > high)) x = fmin(fmax(x, 0.0), n - 1);
    if (s->taps < 4 && s->padding == HYP_SAMPLE_REFLECTION) x = hyp_sample_reflect(x, low, high, &direction);
    if (s->taps < 4 && s->padding != HYP_SAMPLE_ZEROS && (x <= 0 || x >= n - 1)) direction = 0;
    *slope = direction * (s->align_corners ? n - 1 : n) / 2;
    return x;
}

HYP_PLACE_FN void hyp_sample_find(const hyp_sampler *s, int32_t axis, double coordinate, hyp_sample_neighbours *out)
{
    const double a = -0.75;
    double slope, x = hyp_sample_place(s, axis, coordinate, &slope);
    double first = floor(x), r = x - first, *w = out->weights[axis];
    if (s->taps == 1) {
        w[0] = 1;
        first = trunc(x);
    } else if (s->taps == 2) {
        w[0] = 1 - r;
        w[1] = r;
    } else {
        w[0] = hyp_cubic_far(a, r + 1);
        w[1] = hyp_cubic_near(a, r);
        w[2] = hyp_cubic_near(a, 1 - r);
        w[3] = hyp_cubic_far(a, 2 - r);
        first -= 1;
    }
    for (int t = 0; t < s->taps; t++) out->at[axis][t] = hyp_sample_inside(s, first + t, s->dims[axis]);
}

/* In place of the weights along an axis that hyp_sample_find has found, what they gain as the coordinate grows. */
HYP_PLACE_FN void hyp_sample_slopes(const hyp_sampler *s, int32_t axis, double coordinate, hyp_sample_neighbours *out)
{
    const double a = -0.75;
    double slope, x = hyp_sample_place(s, axis, coordinate, &slope), r = x - floor(x), *w = out->weights[axis];
    if (s->taps < 4) {
        w[0] = s->taps == 1 ? 0 : -slope;
        w[1] = slope;
    } else {
        w[0] = slope * hyp_cubic_far_slope(a, r + 1);
        w[1] = slope * hyp_cubic_near_slope(a, r);
        w[2] = -slope * hyp_cubic_near_slope(a, 1 - r);
        w[3] = -slope * hyp_cubic_far_slope(a, 2 - r);
    }
}

/* All combinations of neighbours that are there: offsets into an image and weights. */
HYP_PLACE_FN int hyp_sample_list(const hyp_sampler *s, const hyp_sample_neighbours *n, int64_t *offsets,
                                  double *weights)
{
    int combinations = 1, count = 0;
    for (int32_t a = 0; a < s->axes; a++) combinations *= s->taps;
    for (int i = 0; i < combinations; i++) {
        int rest = i;
        bool there = true;
        offsets[count] = 0;
        weights[count] = 1;
        for (int32_t a = 0; a < s->axes; a++, rest /= s->taps) {
            int64_t at = n->at[a][rest % s->taps];
            there = there && at >= 0;
            offsets[count] += at * s->strides[a];
            weights[count] *= n->weights[a][rest % s->taps];
        }
        count += there;
    }
    return count;
}

#endif
