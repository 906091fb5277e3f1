/* handles.h - handles of cuBLASLt and cuDNN, which sessions take from each other.
 *
 * To destroy one waits for the whole device, and that ends what anybody captures just then, in whatever mode. So one that a
 * session has no more use for is kept for the next one, and they are destroyed with the last engine of the process that
 * uses the device. Any thread may call.
 */
#ifndef HYP_RUNTIME_CUDA_DRIVER_HANDLES_H
#define HYP_RUNTIME_CUDA_DRIVER_HANDLES_H

#include "runtime/cuda/driver/cudnn.h"
#include "runtime/cuda/driver/library.h"

/* Around the use of a context by an engine. The second one destroys what is kept, where it is the last; the context is current. */
HYP_NODISCARD hyp_status hyp_cuda_handles_open(CUcontext context, hyp_diag *diag);
void hyp_cuda_handles_close(CUcontext context);

/* One that is kept for the context, or a new one. The context is current. */
HYP_NODISCARD hyp_status hyp_cuda_take_lt(CUcontext context, const hyp_cuda_library *lib, cublasLtHandle_t *out,
                                          hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_take_dnn(CUcontext context, const hyp_cudnn *dnn, void **out, hyp_diag *diag);
/* Gives it back. NULL is safe. */
void hyp_cuda_keep_lt(CUcontext context, const hyp_cuda_library *lib, cublasLtHandle_t handle);
void hyp_cuda_keep_dnn(CUcontext context, const hyp_cudnn *dnn, void *handle);

#endif
