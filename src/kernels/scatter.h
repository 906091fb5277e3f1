/* scatter.h - what gathers and scatters by their calls, for every device that computes them. */
#ifndef HYP_KERNELS_SCATTER_H
#define HYP_KERNELS_SCATTER_H

#include "kernels/kernels.h"

/* Tuple t of the indices, of `width` of them, says where in the data row t of the updates goes, of `inner` elements. */
typedef struct hyp_scatter_nd {
    int32_t width;
    uint32_t combine; /* how updates meet what is there: HYP_PW_ADD..., HYP_PW_CAST where they replace it */
    int64_t tuples, inner;
    int64_t strides[HYP_MAX_RANK]; /* of the data */
} hyp_scatter_nd;

/* Tuple t of the indices, of `width` of them, says where row t of the result is in the data of its batch, of `inner` elements. */
typedef struct hyp_gather_nd {
    int32_t first, width; /* the indices are along so many axes of the data, from this one on */
    int64_t tuples, inner;
    int64_t of_batch, batch; /* tuples of a batch, and elements of the data from one to the next */
    int64_t strides[HYP_MAX_RANK]; /* of the data */
} hyp_gather_nd;

/* x[outer, size, inner], of which `length` places from an index of 0 .. `most` on are replaced; all 0 where nothing is. */
typedef struct hyp_tensor_scatter {
    int32_t axis;
    bool circular; /* what goes beyond the end goes to the start */
    int64_t outer, size, inner, length, most;
} hyp_tensor_scatter;

/* These read and check all but the indices themselves. */
hyp_status hyp_kernel_read_gather_nd(const hyp_kernel_call *c, hyp_gather_nd *out);
hyp_status hyp_kernel_read_tensor_scatter(const hyp_kernel_call *c, hyp_tensor_scatter *out);
hyp_status hyp_kernel_read_scatter_nd(const hyp_kernel_call *c, hyp_scatter_nd *out);
hyp_status hyp_kernel_read_scatter_elements(const hyp_kernel_call *c, int32_t *axis, uint32_t *combine);
hyp_status hyp_kernel_read_gather_elements(const hyp_kernel_call *c, int32_t *axis);

#endif
