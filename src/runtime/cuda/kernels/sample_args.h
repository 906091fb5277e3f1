/* sample_args.h - the arguments of the kernels of sample.cu, which the host fills in. As kernel_args.h. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_SAMPLE_ARGS_H
#define HYP_RUNTIME_CUDA_KERNELS_SAMPLE_ARGS_H

#include "kernels/sample_place.h"
#include "runtime/cuda/kernels/kernel_args.h"

/* y[image, channel, place] of x[image, channel, ...] where grid[image, place, axes] says. */
typedef struct hyp_cuda_sample {
    uint64_t x, grid, y;
    hyp_sampler sampler;
    hyp_cuda_extent places, groups; /* groups: of an image, of so many channels that a thread does */
    int64_t channels, total;        /* total: images times groups times places */
    uint32_t group, dtype, grid_dtype, pad;
} hyp_cuda_sample;

/* The gradients where g[image, channel, place] is that by y: by x, which a thread has for some rows, along axis 0 of space, of a
 * channel, and by a coordinate of the grid. */
typedef struct hyp_cuda_sample_gradient {
    uint64_t x, grid, g, y;
    hyp_sampler sampler;
    hyp_cuda_extent places, channels, bands, axes; /* bands: of so many rows, of an image */
    int64_t rows, total;                           /* total: images, channels and bands, or coordinates */
    uint32_t dtype, grid_dtype;                    /* y: f32, or f64 where x is, by x; else as the grid */
} hyp_cuda_sample_gradient;

#endif
