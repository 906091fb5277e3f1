/* boxes.h - index arithmetic of the CUDA backend that needs no device: merged axes, quotients.
 *
 * Pure functions, tested on any machine.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_BOXES_H
#define HYP_RUNTIME_CUDA_OPS_BOXES_H

#include "plan/plan.h"
#include "runtime/cuda/kernels/kernel_args.h"

enum { HYP_CUDA_ALIGN = 256, HYP_CUDA_LANES = HYP_CUDA_PW_INPUTS };

/* A box of extents and one offset in each lane for every index: lane l is at sum over a of index[a] * stride[l][a].
 * Axis 0 is the innermost, as in kernel_args.h. */
typedef struct hyp_cuda_box {
    uint32_t rank, lanes;
    int64_t extent[HYP_CUDA_DIMS];
    int64_t stride[HYP_CUDA_LANES][HYP_CUDA_DIMS];
} hyp_cuda_box;

/* A box of the plan's dims, which come outermost first. */
void hyp_cuda_box_init(hyp_cuda_box *box, const int64_t *values, size_t rank, const uint32_t *extents);
/* Adds a lane; with strides NULL it is the dense row-major one. */
void hyp_cuda_box_add_lane(hyp_cuda_box *box, const int64_t *values, const uint32_t *strides);
int64_t hyp_cuda_box_count(const hyp_cuda_box *box);
/* Drops axes of one element and merges neighbours that every lane walks as one. Order and offsets stay the same. */
void hyp_cuda_box_merge(hyp_cuda_box *box);
/* Extents, and the strides of lane 0, as kernels take them. */
void hyp_cuda_box_axes(const hyp_cuda_box *box, hyp_cuda_extent *extents, int64_t *strides);
/* Swaps two axes: the box is the same set of offsets in another order. */
void hyp_cuda_box_swap(hyp_cuda_box *box, uint32_t a, uint32_t b);

/* size >= 1 */
hyp_cuda_extent hyp_cuda_extent_of(int64_t size);

/* The next multiple of `unit`. */
static inline size_t hyp_cuda_round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

#endif
