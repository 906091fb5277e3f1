/* scans.h - running sums as a part of other steps, and the order of elements: along.c. */
#ifndef HYP_RUNTIME_CUDA_OPS_SCANS_H
#define HYP_RUNTIME_CUDA_OPS_SCANS_H

#include "kernels/along.h"
#include "runtime/cuda/kernels/along_args.h"
#include "runtime/cuda/ops/steps.h"

/* NaN comes first where the largest do; where the smallest do it comes first or last. */
hyp_cuda_order hyp_cuda_order_of(hyp_dtype dtype, bool largest, bool nan_first);

/* A launch, or two where a lane is made in parts: the first one makes their sums. */
typedef struct hyp_cuda_scans {
    hyp_cuda_scan args;
    hyp_cuda_grid grid;
    size_t room; /* bytes of the sums of parts; 0 = there are none */
} hyp_cuda_scans;

/* Everything but addresses and what is done. There are elements. */
hyp_cuda_scans hyp_cuda_scans_of(const hyp_cuda_device *device, const hyp_along *s, hyp_cuda_kernel kernel,
                                 hyp_dtype dtype, hyp_dtype y_dtype);
HYP_NODISCARD hyp_status hyp_cuda_scans_run(hyp_cuda_session *s, hyp_cuda_scans *p, CUdeviceptr x, CUdeviceptr y,
                                            CUdeviceptr sums, hyp_diag *diag);

#endif
