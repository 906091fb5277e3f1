/* resize.h - where the elements of a resized axis come from, shared by the kernel of `resize` and faster ones.
 *
 * Resizing is separable: each axis is a weighted sum of `taps` neighbours, the same for every line along it.
 */
#ifndef HYP_KERNELS_RESIZE_H
#define HYP_KERNELS_RESIZE_H

#include "kernels/kernels.h"
#include "kernels/resize_line.h"

/* Attributes of the operator, in the order of its row. */
enum {
    HYP_RESIZE_SIZES,
    HYP_RESIZE_MODE,
    HYP_RESIZE_COORDINATES,
    HYP_RESIZE_NEAREST,
    HYP_RESIZE_CUBIC_A,
    HYP_RESIZE_EXCLUDE_OUTSIDE,
    HYP_RESIZE_ANTIALIAS,
    HYP_RESIZE_EXTRAPOLATION
};

typedef struct hyp_resize_axis {
    int64_t in, out;
    int64_t taps;    /* 0: nothing happens along this axis */
    int64_t *first;  /* by element of the result: as hyp_resize_element says */
    double *weights; /* out x taps, of the neighbours */
} hyp_resize_axis;

/* The number of taps that an axis may have at most; the lists of hyp_resize_plan are as long as this says. */
int64_t hyp_resize_taps(const hyp_kernel_call *c, int64_t in, int64_t out);
/* What is done along an axis of these sizes. Reads the arrays of scales and roi, which may fail. */
HYP_NODISCARD hyp_status hyp_resize_read(const hyp_kernel_call *c, int32_t axis, int64_t in, int64_t out,
                                         hyp_resize_line *a);
/* Fills in an axis whose lists are allocated for hyp_resize_taps. Reads the arrays of scales and roi. */
HYP_NODISCARD hyp_status hyp_resize_plan(const hyp_kernel_call *c, int32_t axis, hyp_resize_axis *out);
/* Neighbour t of element i: an index into the axis. */
static inline int64_t hyp_resize_source(const hyp_resize_axis *a, int64_t i, int64_t t)
{
    int64_t at = a->first[i] - a->taps + t;
    return at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
}
/* Checks the shapes of a call. */
HYP_NODISCARD hyp_status hyp_resize_check(const hyp_kernel_call *c);

#endif
