/* random.h - what the implementations of random-uniform share. */
#ifndef HYP_KERNELS_RANDOM_H
#define HYP_KERNELS_RANDOM_H

#include "kernels/kernels.h"

/* Fails unless seed and number are scalars of i64, the result is of f32, of the shape that the attribute says and of no
 * more than 2^34 elements, which is how far its counter goes, and the stream is a number of 32 bits. */
HYP_NODISCARD hyp_status hyp_kernel_random_check(const hyp_kernel_call *c);

#endif
