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

/* These read and check all but the indices themselves. */
hyp_status hyp_kernel_read_gather_nd(const hyp_kernel_call *c, hyp_gather_nd *out);
hyp_status hyp_kernel_read_scatter_nd(const hyp_kernel_call *c, hyp_scatter_nd *out);
hyp_status hyp_kernel_read_scatter_elements(const hyp_kernel_call *c, int32_t *axis, uint32_t *combine);
hyp_status hyp_kernel_read_gather_elements(const hyp_kernel_call *c, int32_t *axis);

#endif
