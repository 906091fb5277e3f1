/* instructions.h - what pointwise kernels have in common, those that interpret a program (kernel_args.h) and those that are
 * generated for one (pointwise_source.h), whose source this file is a part of. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_INSTRUCTIONS_H
#define HYP_RUNTIME_CUDA_KERNELS_INSTRUCTIONS_H

#ifndef HYP_CUDA_GENERATED
#include <stdint.h>

#include "base/elementwise.h"
#endif

enum {
    HYP_CUDA_PW_INPUTS = 8, /* at least what plan.h allows */
    HYP_CUDA_PW_OUTPUTS = 4,
};

/* The one argument of a generated kernel. */
typedef struct hyp_cuda_pw_addresses {
    uint64_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
} hyp_cuda_pw_addresses;

/* The instructions of a pointwise program are base/elementwise.h's, HYP_PW_ADD..., and ours: */
enum {
    HYP_PW_STORE = 64, /* writes operand a to output b.index; after every other instruction */
};

#endif
