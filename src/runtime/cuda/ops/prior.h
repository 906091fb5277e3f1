/* prior.h - what steps are predicted to take, so that ways to do them can be compared before anything was measured.
 *
 * The figures are an H200's. Only the order of the alternatives counts, and each has its break-even points where it was
 * measured: tests/runtime/cuda/test_cuda_choices.c has the decisions.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_PRIOR_H
#define HYP_RUNTIME_CUDA_OPS_PRIOR_H

#include "hypatia/types.h"

/* Seconds that a call of a library takes however little it does, and a kernel of ours. */
static const double hyp_cuda_library_seconds = 3e-6, hyp_cuda_own_seconds = 1.5e-6;

/* The time of the bytes or of the operations, whichever is more. */
static inline double hyp_cuda_floor_seconds(hyp_dtype dtype, bool tf32, double bytes, double flops)
{
    const double bandwidth = 4e12;
    double rate = dtype == HYP_F8E4M3                        ? 1.2e15
                  : dtype == HYP_F16 || dtype == HYP_BF16    ? 7e14
                  : dtype == HYP_F32 && tf32                 ? 3.5e14
                                                             : 5e13;
    return bytes / bandwidth > flops / rate ? bytes / bandwidth : flops / rate;
}

#endif
