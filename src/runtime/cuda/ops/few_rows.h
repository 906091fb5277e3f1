/* few_rows.h - which linear layers run by our own kernel (few_rows.cu), and how their work is dealt out. Pure: tested
 * without a device.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_FEW_ROWS_H
#define HYP_RUNTIME_CUDA_OPS_FEW_ROWS_H

#include "hypatia/types.h"
#include "runtime/cuda/cuda.h"

/* What the decision needs to know of the device. */
typedef struct hyp_cuda_few_rows_device {
    uint32_t multiprocessors;
    size_t shared_bytes; /* that a block may have */
} hyp_cuda_few_rows_device;

/* A layer as it runs. */
typedef struct hyp_cuda_few_rows {
    hyp_cuda_layer args; /* all but the addresses and what is read from the plan: the activation, what is constant */
    hyp_cuda_kernel kernel;
    uint32_t blocks, threads; /* threads of a block */
    size_t shared_bytes;
} hyp_cuda_few_rows;

/* Can y[m,n] = x[m,k] w^T, w stored [n,k], run so, x normalized first if `norm` is not HYP_CUDA_NORM_NONE, and is it
 * expected to be faster than the library's product, which may round to TF32, or asked for although that may not be so?
 * Then *out is complete. A layer of many rows but few columns runs with the roles of x and w exchanged:
 * out->args.turned. Of f8e4m3 one row alone, and rows of w that are multiples of 16 long. */
bool hyp_cuda_few_rows_plan(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k, int norm,
                            const hyp_cuda_few_rows_device *device, bool asked, hyp_cuda_few_rows *out);

#endif
