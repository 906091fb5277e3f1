/* resize_args.h - the arguments of the kernels of resize.cu, which the host fills in. As kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_RESIZE_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_RESIZE_ARGS_H

#include "kernels/resize_line.h"
#include "runtime/cuda/kernels/kernel_args.h"

/* Of each element of an axis: where it comes from, as hyp_resize_element gives it, and its weights. */
typedef struct hyp_cuda_resize_list {
    uint64_t first, weights; /* int64_t [out]; double [out, taps] */
    hyp_resize_line line;    /* taps 0: there is no list, and nothing happens along the axis */
} hyp_cuda_resize_list;

/* y[outer, out of 0, middle, out of 1, inner] of x, whose axes have the sizes in their lists: along axis 0 first. */
typedef struct hyp_cuda_resize {
    uint64_t x, y;
    hyp_cuda_resize_list axis[2];
    hyp_cuda_extent out[2], middle, inner;
    int64_t total;        /* elements of y */
    int64_t rows,
        columns; /* y[outer, out of 0, middle] and y[out of 1, inner], which resize_rows_* and resize_nearest divide */
    hyp_cuda_extent tiles; /* of columns, HYP_CUDA_RESIZE_EACH for each thread along x of a block, */
    int64_t groups;        /* and of rows: blocks of a tile */
    uint64_t outside;     /* the bits of an element that is outside, */
    double extrapolation; /* and what it is */
    uint32_t x_dtype, y_dtype;
    uint32_t size, pad; /* of an element; resize_nearest */
} hyp_cuda_resize;

#endif
