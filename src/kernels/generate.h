/* generate.h - what calls that work by position ask for, for every device that has them: these check shapes and types. */
#ifndef HYP_KERNELS_GENERATE_H
#define HYP_KERNELS_GENERATE_H

#include "kernels/kernels.h"

HYP_NODISCARD hyp_status hyp_kernel_check_trilu(const hyp_kernel_call *c);
HYP_NODISCARD hyp_status hyp_kernel_check_bit_cast(const hyp_kernel_call *c);

#endif
