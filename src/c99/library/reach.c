#include "window.h"

/* The results along an axis, from *first to before *last, for which the element of the window at k is no padding. */
static void hyp_reach(const struct hyp_window *w, int axis, long k, long *first, long *last)
{
    long back = w->before[axis] - k * w->dilation[axis], stride = w->stride[axis], end = w->in[axis] + back;
    *first = back > 0 ? (back + stride - 1) / stride : 0;
    *last = end > 0 ? (end + stride - 1) / stride : 0;
    if (*last > w->out[axis]) *last = w->out[axis];
}

/* The row of x under row o of a result for the row of the window at k, two axes each; -1: padding. */
static long hyp_row(const struct hyp_window *w, const long o[2], const long k[2])
{
    long row = 0;
    for (int a = 0; a < 2; a++) {
        long i = o[a] * w->stride[a] + k[a] * w->dilation[a] - w->before[a];
        if (i < 0 || i >= w->in[a]) return -1;
        row = row * w->in[a] + i;
    }
    return row;
}
