/* softmax_stats.h - what softmax-stats computes by its call, for every device that does. */
#ifndef HYP_KERNELS_SOFTMAX_STATS_H
#define HYP_KERNELS_SOFTMAX_STATS_H

#include "kernels/kernels.h"

/* Checks the arrays; x is [outer, size, inner], and both results [outer, inner] of the type that
 * hyp_dtype_wide gives. */
HYP_NODISCARD hyp_status hyp_kernel_read_softmax_stats(const hyp_kernel_call *c, int64_t *outer, int64_t *size,
                                                       int64_t *inner);

#endif
