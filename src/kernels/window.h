/* window.h - sliding windows over the spatial axes of [N, C, d1, ..., dn]: what convolution and pooling share. */
#ifndef HYP_KERNELS_WINDOW_H
#define HYP_KERNELS_WINDOW_H

#include "kernels/kernels.h"

enum { HYP_SPATIAL = HYP_MAX_RANK - 2 };

typedef struct hyp_window {
    int32_t n; /* spatial axes */
    int64_t in[HYP_SPATIAL], out[HYP_SPATIAL], kernel[HYP_SPATIAL];
    int64_t stride[HYP_SPATIAL], dilation[HYP_SPATIAL], before[HYP_SPATIAL], after[HYP_SPATIAL]; /* pads */
    int64_t in_count, out_count, kernel_count; /* products */
} hyp_window;

/* Reads strides, pads (all before, then all after) and dilations and checks them and the sizes: in = that of `x`, out =
 * that of `y`, both [., ., spatial...]. `kernel` has n entries. The arithmetic of windows stays far from overflow
 * afterwards. */
static inline hyp_status hyp_window_read(const hyp_kernel_call *c, const hyp_array *x, const hyp_array *y,
                                         const int64_t *kernel, const hyp_kernel_attr *strides,
                                         const hyp_kernel_attr *pads, const hyp_kernel_attr *dilations, hyp_window *w)
{
    const int64_t most = (int64_t)1 << 40;
    *w = (hyp_window){.n = x->rank - 2, .in_count = 1, .out_count = 1, .kernel_count = 1};
    if (w->n < 1 || y->rank != x->rank) return hyp_kernel_fail(c, "tensors of rank %d and %d", x->rank, y->rank);
    uint32_t n = (uint32_t)w->n;
    if (strides->count != n || pads->count != 2 * n || dilations->count != n)
        return hyp_kernel_fail(c, "%u strides, %u pads and %u dilations for %u axes", strides->count, pads->count,
                               dilations->count, n);
    for (int32_t i = 0; i < w->n; i++) {
        w->in[i] = x->dims[2 + i];
        w->out[i] = y->dims[2 + i];
        w->kernel[i] = kernel[i];
        w->stride[i] = strides->ints[i];
        w->dilation[i] = dilations->ints[i];
        w->before[i] = pads->ints[i];
        w->after[i] = pads->ints[w->n + i];
        if (kernel[i] < 1 || kernel[i] > most || w->stride[i] < 1 || w->stride[i] > most || w->dilation[i] < 1 ||
            w->dilation[i] > most / kernel[i] || w->before[i] < 0 || w->before[i] > most || w->after[i] < 0 ||
            w->after[i] > most || w->in[i] > most || w->out[i] > most / w->stride[i])
            return hyp_kernel_fail(c, "the window of axis %d is out of range", i);
        if (!hyp_mul_i64(w->in_count, w->in[i], &w->in_count) || !hyp_mul_i64(w->out_count, w->out[i], &w->out_count) ||
            !hyp_mul_i64(w->kernel_count, kernel[i], &w->kernel_count))
            return hyp_kernel_fail(c, "the window is out of range");
    }
    return HYP_OK;
}

/* The i-th of the positions counted by `dims`, the last axis fastest. */
static inline void hyp_window_position(int32_t n, const int64_t *dims, int64_t i, int64_t *at)
{
    for (int32_t a = n; a-- > 0; i /= dims[a]) at[a] = i % dims[a];
}

/* Offset in one channel of x of the element under position k of the kernel for result o; -1 where it is in the padding.
 * Both are positions per axis. */
static inline int64_t hyp_window_source(const hyp_window *w, const int64_t *o, const int64_t *k)
{
    int64_t offset = 0;
    for (int32_t a = 0; a < w->n; a++) {
        int64_t i = o[a] * w->stride[a] + k[a] * w->dilation[a] - w->before[a];
        if (i < 0 || i >= w->in[a]) return -1;
        offset = offset * w->in[a] + i;
    }
    return offset;
}

/* Positions of the window of result o that count: inside x, or with `pads` also in the padding (but not in what ceil mode adds
 * beyond it). */
static inline int64_t hyp_window_count(const hyp_window *w, const int64_t *o, bool pads)
{
    int64_t count = 1;
    for (int32_t a = 0; a < w->n; a++) {
        int64_t begin = o[a] * w->stride[a] - w->before[a], inside = 0;
        int64_t low = pads ? -w->before[a] : 0, high = pads ? w->in[a] + w->after[a] : w->in[a];
        for (int64_t k = 0; k < w->kernel[a]; k++) {
            int64_t i = begin + k * w->dilation[a];
            inside += i >= low && i < high;
        }
        count *= inside;
    }
    return count;
}

/* A convolution, or the transpose of one, whose window slides over the result. */
typedef struct hyp_conv {
    hyp_window window;
    int64_t batch, group;
    int64_t in_channels, out_channels; /* of one group */
    const hyp_array *x, *w, *y;
    const hyp_array *b, *z; /* bias, and what is added to the result; NULL: nothing */
    int act;                /* what it ends in: HYP_PW_RELU..., CAST: nothing */
    double p, q;            /* numbers of that function's own */
} hyp_conv;

/* The arguments of `conv`, or of `conv-transpose`, all checked. */
hyp_status hyp_kernel_read_conv(const hyp_kernel_call *c, bool transpose, hyp_conv *out);
/* Those of `conv-backward-weights`: x, the gradient y of what the convolution gives, and w, which is the result. */
hyp_status hyp_kernel_read_conv_weights(const hyp_kernel_call *c, hyp_conv *out);
/* The window of a pooling operator, whose attributes begin with kernel, strides, pads and dilations; x and y checked. */
hyp_status hyp_kernel_read_pool(const hyp_kernel_call *c, hyp_window *out);
/* The arguments of `max-unpool`: elements of a channel that indices count, and of one of the result. */
hyp_status hyp_kernel_read_max_unpool(const hyp_kernel_call *c, int64_t *each, int64_t *inner);
/* That of `max-pool-gradient`. */
hyp_status hyp_kernel_read_pool_gradient(const hyp_kernel_call *c, hyp_window *out);

#endif
