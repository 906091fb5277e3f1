/* regions_args.h - the arguments of the kernels of regions.cu, which the host fills in. As kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_REGIONS_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_REGIONS_ARGS_H

#include "runtime/cuda/kernels/along_args.h"

enum { HYP_CUDA_GRID_AXES = 3 };

/* y[image, grid..., axes] = theta[image, axes, axes + 1] times a place of a grid over [-1, 1] and 1. */
typedef struct hyp_cuda_affine_grid {
    uint64_t theta, y;
    hyp_cuda_extent axes,
        size[HYP_CUDA_GRID_AXES]; /* size: of the grid, the innermost first, 1 where there is no axis */
    int64_t total;
    uint32_t dtype, y_dtype;
    uint32_t align_corners, pad;
} hyp_cuda_affine_grid;

/* y[region, channel, bins...] of x[image, channel, in...]: the mean or the largest of samples in a bin of the region,
 * whose corners are regions[region, 4] of images[region]. */
typedef struct hyp_cuda_roi_align {
    uint64_t x, regions, images, y, error; /* error: as of hyp_cuda_gather */
    hyp_cuda_extent channels, bins[2];     /* bins: the innermost first, as `in` */
    int64_t image_count, in[2], total;
    int64_t samples, most; /* along an axis; samples: 0 = as many as a bin has elements; most: that there may be */
    double scale;
    uint32_t dtype, region_dtype, image_dtype;
    uint32_t largest, half_pixel, step;
} hyp_cuda_roi_align;

/* The gradient of that by x, where g[region, channel, bins...] is that by its result: y and total are of x's elements. */
typedef struct hyp_cuda_roi_gradient {
    hyp_cuda_roi_align of;
    uint64_t g;
    hyp_cuda_extent in[2]; /* of x, the innermost first */
    int64_t regions;
} hyp_cuda_roi_gradient;

enum { HYP_CUDA_UNPOOL_CLEAR, HYP_CUDA_UNPOOL_CLAIM, HYP_CUDA_UNPOOL_TAKE };

/* y is 0 but where the places of x's elements, which count those of [channels, sizes...], say; of several at one place
 * the last one is there. Three launches: owners, uint64_t for each element of y, are cleared, claimed, and taken from.
 */
typedef struct hyp_cuda_unpool {
    uint64_t x, places, y, owners, error;         /* error: as of hyp_cuda_gather; owners: element of x + 1, 0 = none */
    hyp_cuda_extent each, size[HYP_CUDA_SPATIAL]; /* each: product of the sizes, the innermost of which is the first */
    int64_t out[HYP_CUDA_SPATIAL];                /* sizes of y */
    int64_t channels, inner, count, total;        /* inner: of a channel of y; count: elements of x; total: of y */
    uint32_t size_of, step, stage, pad;           /* size_of: an element */
} hyp_cuda_unpool;

/* Boxes of each class of each image, a block a class: the one with the highest score, then that of those that do not
 * overlap it by more than the threshold, and so on. `taken` gets their numbers, and `counts` how many there are. */
typedef struct hyp_cuda_suppress {
    hyp_cuda_order order;                           /* of scores */
    uint64_t boxes, scores, most, threshold, least; /* single elements; 0 = none, without which nothing, 0 and all */
    uint64_t keys;                                  /* uint64_t [block, n] to work in */
    uint64_t taken, counts; /* int64_t [group, limit] and [group]; a count is limit + 1 where there are more */
    hyp_cuda_extent classes;
    int64_t n, groups, limit; /* groups: classes of all images */
    uint32_t box_dtype, score_dtype, most_dtype, threshold_dtype, least_dtype;
    uint32_t center; /* boxes are their middle and size, else two corners */
} hyp_cuda_suppress;

/* The list of them, y[room, 3] of images, classes and boxes, as that of hyp_cuda_nonzero. `ends` are the sums of the
 * counts up to each group. */
typedef struct hyp_cuda_suppressed {
    uint64_t taken, ends, y, found, error;
    hyp_cuda_extent classes;
    int64_t groups, limit, room;
    uint32_t step, pad;
} hyp_cuda_suppressed;

#endif
