/* batch_norm.h - what the operators of a batch normalization compute by their calls, for every device that has them. */
#ifndef HYP_KERNELS_BATCH_NORM_H
#define HYP_KERNELS_BATCH_NORM_H

#include "kernels/kernels.h"

/* x, and what else is of its shape, as [images, channels, places]: the last two are side by side in the plan's order. */
typedef struct hyp_channels {
    int64_t images, channels, places;
} hyp_channels;

/* Checks the arrays of a call of batch-norm-stats, or of batch-norm-gradient. */
HYP_NODISCARD hyp_status hyp_kernel_read_batch_norm_stats(const hyp_kernel_call *c, hyp_channels *out);
HYP_NODISCARD hyp_status hyp_kernel_read_batch_norm_gradient(const hyp_kernel_call *c, hyp_channels *out);
/* What a result of f32 (f64 for f64) has to be above to be above 0 as a number of this type. */
static inline double hyp_batch_norm_least(hyp_dtype dtype)
{
    return dtype == HYP_F16 ? 0x1p-25 : dtype == HYP_BF16 ? 0x1p-134 : 0; /* half of the least number there is rounds to 0 */
}

#endif
