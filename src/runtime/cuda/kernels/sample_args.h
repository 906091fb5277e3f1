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

#endif
