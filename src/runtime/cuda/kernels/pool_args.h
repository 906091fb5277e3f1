/* pool_args.h - the arguments of the kernels of pools, as those of kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_POOL_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_POOL_ARGS_H

#include "runtime/cuda/kernels/kernel_args.h"

/* The largest element of every window, the mean, or the norm: the n-th root of the sum of n-th powers. Of pool_pieces a
 * channel is a piece of 16 bytes of them, which come last in x and y: f32, f16, bf16. Places are those of the largest
 * in the plan's order of x, which then is that of x and y. */
typedef struct hyp_cuda_pool {
    hyp_cuda_windows windows;
    uint64_t x, y, places; /* places: int64_t [images, channels, out...]; 0 = none */
    uint32_t dtype;
    uint32_t mean;
    int64_t norm;        /* its n; 0 = none. Not in pool_pieces */
    uint32_t count_pads; /* the padding counts as zeros in a mean; what lies beyond it does not */
    uint32_t columns;    /* places count the outermost axis of a channel fastest */
} hyp_cuda_pool;

/* by_x = the sums of g of those windows whose first largest element, y, an element of x is. g lies as y does, and both and
 * by_x as x. */
typedef struct hyp_cuda_pool_gradient {
    hyp_cuda_windows windows; /* total: elements of x */
    uint64_t x, y, g, by_x;
    hyp_cuda_extent in[HYP_CUDA_SPATIAL], stride[HYP_CUDA_SPATIAL]; /* as those of windows */
    int64_t out_count;
    uint32_t dtype, pad;
} hyp_cuda_pool_gradient;

/* The same, of images with one or two axes and the channels last, by tiles of x: a cell is as many places as windows are
 * apart, a tile HYP_CUDA_POOL_CELLS cells a side. A block finds the first largest of all windows that reach its tile, once each.
 * Its threads are pieces of 16 bytes of channels by places. Shared memory: 24 bytes for each window and piece. */
typedef struct hyp_cuda_pool_tiles {
    uint64_t x, y, g, by_x;
    int64_t tiles;                       /* of all images */
    hyp_cuda_extent parts, across, down; /* tiles count parts of the channels fastest, then those of a row */
    int32_t in[2], out[2], kernel[2], stride[2], before[2];
    int32_t first[2];   /* window that reaches the first cell of an image, below 0 where it begins before there is any */
    int32_t tap[2];     /* where the first place of a cell lies in the first window that reaches it; it may be outside */
    int32_t windows[2]; /* that reach a tile */
    uint32_t per_row;   /* more than 2^32 / windows[0], by 1 at most */
    int32_t pieces;     /* of all channels; of a part there are as many as threads in x */
    uint32_t dtype;     /* f32, f16, bf16 */
    uint32_t infinity;  /* its bits */
} hyp_cuda_pool_tiles;

#endif
