/* along.h - what calls that work along one axis ask for, for every device that has them. Each function checks shapes
 * and types. */
#ifndef HYP_KERNELS_ALONG_H
#define HYP_KERNELS_ALONG_H

#include "kernels/kernels.h"

/* A tensor as its elements before, along and behind the axis. */
typedef struct hyp_along {
    int64_t outer, size, inner;
} hyp_along;

/* argmax and argmin. An empty axis fails where there is a result. */
HYP_NODISCARD hyp_status hyp_kernel_read_locate(const hyp_kernel_call *c, hyp_along *x);
/* cumsum and cumprod; of nothing all sizes are 0. */
HYP_NODISCARD hyp_status hyp_kernel_read_scan(const hyp_kernel_call *c, hyp_along *x);
HYP_NODISCARD hyp_status hyp_kernel_read_reverse_sequence(const hyp_kernel_call *c, int32_t *batch, int32_t *time);
/* topk; *k is at most x->size. */
HYP_NODISCARD hyp_status hyp_kernel_read_topk(const hyp_kernel_call *c, hyp_along *x, int64_t *k);
HYP_NODISCARD hyp_status hyp_kernel_check_nonzero(const hyp_kernel_call *c);
HYP_NODISCARD hyp_status hyp_kernel_check_non_max_suppression(const hyp_kernel_call *c);
/* one-hot, of whose result the axis is the new one; of nothing all sizes are 0. */
HYP_NODISCARD hyp_status hyp_kernel_read_one_hot(const hyp_kernel_call *c, hyp_along *y);

#endif
