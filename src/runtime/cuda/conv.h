/* conv.h - a convolution step between the files that do it: conv.c reads it, dnn_conv.c and windows.c run it. */
#ifndef HYP_RUNTIME_CUDA_CONV_H
#define HYP_RUNTIME_CUDA_CONV_H

#include "kernels/window.h"
#include "runtime/cuda/cuda.h"

/* A step whose result has elements, with its arguments checked. */
typedef struct hyp_cuda_conv_step {
    hyp_conv conv; /* shapes; the arrays have no data */
    uint32_t x, weight, y, bias_plus1, added_plus1; /* tensors; index + 1, 0 = none */
    hyp_dtype dtype;
    uint32_t act; /* HYP_PW_RELU ..., CLIP: from 0 to 6, CAST: none */
} hyp_cuda_conv_step;

/* dnn_conv.c: by cuDNN. *out_done is false where cuDNN is not there or does not do it, and then nothing was added. */
HYP_NODISCARD hyp_status hyp_cuda_add_dnn_conv(hyp_cuda_build *b, const hyp_cuda_conv_step *step, bool *out_done);

/* windows.c: the window as kernels see it, whose spatial axes are at most HYP_CUDA_SPATIAL; x and y are
 * [., channels, spatial...] and have elements. */
void hyp_cuda_windows_of(const hyp_window *window, const hyp_array *x, const hyp_array *y, hyp_cuda_windows *out);

#endif
