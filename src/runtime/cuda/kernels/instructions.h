/* instructions.h - what pointwise kernels have in common, those that interpret a program (kernel_args.h) and those that are
 * generated for one (pointwise_source.h), whose source this file is a part of. */
#ifndef HYP_RUNTIME_CUDA_KERNELS_INSTRUCTIONS_H
#define HYP_RUNTIME_CUDA_KERNELS_INSTRUCTIONS_H

#ifndef HYP_CUDA_GENERATED
#include <stdint.h>

#include "base/elementwise.h"
#endif

enum {
    HYP_CUDA_DIMS = 8,
    HYP_CUDA_PW_INPUTS = 8, /* at least what plan.h allows */
    HYP_CUDA_PW_OUTPUTS = 4,
};

/* A positive extent with what the quotient of an index by it needs: for 0 <= i < 2^63 it is i when magic is 0 (an
 * extent of 1), else the high 64 bits of i * magic, shifted right (Granlund and Montgomery 1994, figure 4.2). A
 * 64-bit division costs about a hundred instructions on a GPU. */
typedef struct hyp_cuda_extent {
    int64_t size;
    uint64_t magic;
    uint32_t shift, pad;
} hyp_cuda_extent;

/* The one argument of a kernel that is generated for a step of these sizes. Behind its gate, an i64 on the device, it writes
 * nothing where that is not 0; those without one do not read the field. */
typedef struct hyp_cuda_pw_addresses {
    uint64_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
    uint64_t gate;
} hyp_cuda_pw_addresses;

/* The same of a kernel for steps of any sizes; it begins with the addresses, too. */
typedef struct hyp_cuda_pw_sizes {
    uint64_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
    uint64_t gate;
    int64_t pieces;                                    /* threads that have something to do */
    hyp_cuda_extent extent[HYP_CUDA_DIMS];             /* the first one in pieces */
    int64_t stride[HYP_CUDA_PW_INPUTS][HYP_CUDA_DIMS]; /* in elements */
} hyp_cuda_pw_sizes;

/* The instructions of a pointwise program are base/elementwise.h's, HYP_PW_ADD..., and ours: */
enum {
    HYP_PW_STORE = 64, /* writes operand a to output b.index; after every other instruction */
};

#endif
