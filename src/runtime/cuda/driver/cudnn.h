/* cudnn.h - cuDNN 8 or 9, loaded at run time where a plan has convolutions and the library is there.
 *
 * cuDNN is no part of a CUDA toolkit, so what is used of it is declared here. Both versions agree in all of it;
 * test_cuda_conv.c compares the numbers with cudnn.h where that is installed.
 */
#ifndef HYP_RUNTIME_CUDA_DRIVER_CUDNN_H
#define HYP_RUNTIME_CUDA_DRIVER_CUDNN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

/* cuDNN's numbers. */
enum {
    HYP_CUDNN_OLDEST = 8000, /* cudnnGetVersion of 8.0.0; of 9.1.0 it is 90100 */
    HYP_CUDNN_FLOAT = 0,
    HYP_CUDNN_DOUBLE = 1,
    HYP_CUDNN_HALF = 2,
    HYP_CUDNN_BFLOAT16 = 9,
    HYP_CUDNN_NCHW = 0,
    HYP_CUDNN_NHWC = 1,
    HYP_CUDNN_CROSS_CORRELATION = 1,
    HYP_CUDNN_DEFAULT_MATH = 0, /* TF32 for f32 */
    HYP_CUDNN_TENSOR_OP_MATH = 1,
    HYP_CUDNN_FMA_MATH = 3,
    HYP_CUDNN_DETERMINISTIC = 1,
    HYP_CUDNN_RELU = 1,
    HYP_CUDNN_IDENTITY = 5,
    HYP_CUDNN_PROPAGATE_NAN = 1,
    HYP_CUDNN_PRECOMP_GEMM = 1,    /* the one algorithm that adds a bias without an activation */
    HYP_CUDNN_FIRST_TRANSFORM = 4, /* algorithms from here on transform tiles: FFT, Winograd */
    HYP_CUDNN_FIRST_BACKWARD_TRANSFORM = 2, /* the same of gradients */
    HYP_CUDNN_ALGORITHMS = 8,
};

/* cudnnConvolutionFwdAlgoPerf_t, and those of gradients */
typedef struct hyp_cudnn_algorithm {
    int number, status;
    float seconds;
    size_t workspace;
    int determinism, math;
    int reserved[3];
} hyp_cudnn_algorithm;

/* Every function that the backend calls: result, name, arguments. A cudnnStatus_t is an int, descriptors are pointers,
 * as are device addresses. */
#define HYP_CUDNN_CALLS(X)                                                                                             \
    X(size_t, cudnnGetVersion, (void))                                                                                 \
    X(const char *, cudnnGetErrorString, (int status))                                                                 \
    X(int, cudnnCreate, (void **handle))                                                                               \
    X(int, cudnnDestroy, (void *handle))                                                                               \
    X(int, cudnnSetStream, (void *handle, CUstream stream))                                                            \
    X(int, cudnnCreateTensorDescriptor, (void **tensor))                                                               \
    X(int, cudnnDestroyTensorDescriptor, (void *tensor))                                                               \
    X(int, cudnnSetTensorNdDescriptorEx, (void *tensor, int format, int type, int rank, const int *dims))              \
    X(int, cudnnCreateFilterDescriptor, (void **filter))                                                               \
    X(int, cudnnDestroyFilterDescriptor, (void *filter))                                                               \
    X(int, cudnnSetFilterNdDescriptor, (void *filter, int type, int format, int rank, const int *dims))                \
    X(int, cudnnCreateConvolutionDescriptor, (void **conv))                                                            \
    X(int, cudnnDestroyConvolutionDescriptor, (void *conv))                                                            \
    X(int, cudnnSetConvolutionNdDescriptor,                                                                            \
      (void *conv, int axes, const int *pads, const int *strides, const int *dilations, int mode, int type))           \
    X(int, cudnnSetConvolutionGroupCount, (void *conv, int groups))                                                    \
    X(int, cudnnSetConvolutionMathType, (void *conv, int math))                                                        \
    X(int, cudnnCreateActivationDescriptor, (void **act))                                                              \
    X(int, cudnnDestroyActivationDescriptor, (void *act))                                                              \
    X(int, cudnnSetActivationDescriptor, (void *act, int mode, int nan, double coefficient))                           \
    X(int, cudnnGetConvolutionForwardAlgorithm_v7,                                                                     \
      (void *handle, void *x, void *w, void *conv, void *y, int wanted, int *count, hyp_cudnn_algorithm *algorithms))  \
    X(int, cudnnConvolutionForward,                                                                                    \
      (void *handle, const void *alpha, void *x, const void *x_data, void *w, const void *w_data, void *conv,          \
       int algorithm, void *workspace, size_t bytes, const void *beta, void *y, void *y_data))                         \
    X(int, cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                                \
      (void *handle, void *w, void *y, void *conv, void *x, int wanted, int *count, hyp_cudnn_algorithm *algorithms))  \
    X(int, cudnnConvolutionBackwardData,                                                                               \
      (void *handle, const void *alpha, void *w, const void *w_data, void *y, const void *y_data, void *conv,          \
       int algorithm, void *workspace, size_t bytes, const void *beta, void *x, void *x_data))                         \
    X(int, cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                                              \
      (void *handle, void *x, void *y, void *conv, void *w, int wanted, int *count, hyp_cudnn_algorithm *algorithms))  \
    X(int, cudnnConvolutionBackwardFilter,                                                                             \
      (void *handle, const void *alpha, void *x, const void *x_data, void *y, const void *y_data, void *conv,          \
       int algorithm, void *workspace, size_t bytes, const void *beta, void *w, void *w_data))                         \
    X(int, cudnnConvolutionBiasActivationForward,                                                                      \
      (void *handle, const void *alpha1, void *x, const void *x_data, void *w, const void *w_data, void *conv,         \
       int algorithm, void *workspace, size_t bytes, const void *alpha2, void *z, const void *z_data, void *bias,      \
       const void *bias_data, void *act, void *y, void *y_data))

/* Tables of the functions; all zero where cuDNN is not there. Immutable once open, for any number of threads. */
typedef struct hyp_cudnn {
    void *library; /* handle of dlopen; NULL: not open */
#define X(result, name, arguments) result(*name) arguments;
    HYP_CUDNN_CALLS(X)
#undef X
} hyp_cudnn;

/* Loads cuDNN from the path in the environment variable HYPATIA_CUDNN or, when that is not set, libcudnn.so.9 or .8
 * from where the system looks, from /usr/local/cuda/lib64, or from where `near`, an address in cuBLASLt, was loaded:
 * the same folder, or that of cuDNN's package beside cuBLASLt's. HYP_ERR_DEVICE says what was not found, and where;
 * *out_asked is whether HYPATIA_CUDNN was set. HYPATIA_CUDNN=none leaves the table empty. */
HYP_NODISCARD hyp_status hyp_cudnn_open(hyp_cudnn *out, const void *near, bool *out_asked, hyp_diag *diag);
void hyp_cudnn_close(hyp_cudnn *dnn); /* does nothing on a zeroed struct */

/* HYP_OK for success, else HYP_ERR_DEVICE with "<what> failed: cuDNN status ... (...)". */
HYP_NODISCARD hyp_status hyp_cudnn_check(const hyp_cudnn *dnn, int status, const char *what, hyp_diag *diag);

#endif
