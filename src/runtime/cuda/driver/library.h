/* library.h - the CUDA driver and cuBLASLt, loaded at run time: the same binary runs where neither is installed. */
#ifndef HYP_RUNTIME_CUDA_DRIVER_LIBRARY_H
#define HYP_RUNTIME_CUDA_DRIVER_LIBRARY_H

#include <cublasLt.h>
#include <cuda.h>
#include <limits.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "hypatia/status.h"

/* Headers of CUDA 12.8 and newer, and of 12.3 and newer, mean functions by these names that older drivers lack; what they were
 * before, all have. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
#undef cuStreamGetCaptureInfo
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);

/* Every function that the backend calls. cuda.h renames many of them by macros (cuMemAlloc is cuMemAlloc_v2); the
 * names below and those of the fields pass through the same macros, so that each is the version of the headers. */
/* clang-format off */
#define HYP_CUDA_DRIVER_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) \
    X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSynchronize) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
    X(cuLaunchKernelEx) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) X(cuPointerGetAttributes) \
    X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) \
    X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamIsCapturing) \
    X(cuStreamGetCaptureInfo) \
    X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuThreadExchangeStreamCaptureMode) X(cuGraphInstantiate) X(cuGraphExecUpdate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy) \
    X(cuGraphDestroy) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime)

#define HYP_CUBLASLT_CALLS(X) \
    X(cublasLtGetVersion) X(cublasLtGetStatusString) X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul) \
    X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) \
    X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) \
    X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulAlgoCheck) X(cublasLtMatmulAlgoConfigGetAttribute)
/* clang-format on */

/* Tables of the functions. Immutable once open, but for what `lost` points to; may be used by any number of threads. */
typedef struct hyp_cuda_library {
    void *driver, *cublaslt; /* handles of dlopen */
    /* The caller's, of hyp_allocator; NULL: cuMemAlloc. */
    void *(*device_alloc)(size_t bytes, void *user);
    void (*device_free)(void *data, size_t bytes, void *user);
    void *device_user;
    atomic_int *lost;        /* where a CUresult that says that the device is lost is noted; NULL: nowhere */
#define X(name) __typeof__(&name) name;
    HYP_CUDA_DRIVER_CALLS(X)
    HYP_CUBLASLT_CALLS(X)
#undef X
} hyp_cuda_library;

/* Loads libcuda.so.1, then cuBLASLt from the path in the environment variable HYPATIA_CUBLASLT or, when that is not
 * set, libcublasLt.so.13 or .12 from where the system looks, then from /usr/local/cuda/lib64. HYP_ERR_DEVICE says
 * what was not found, where, and what to do. */
HYP_NODISCARD hyp_status hyp_cuda_library_open(hyp_cuda_library *out, hyp_diag *diag);
void hyp_cuda_library_close(hyp_cuda_library *lib); /* does nothing on a zeroed struct */
/* device.c: the GPU of this number; HYP_ERR_DEVICE where there are fewer. The library is initialized. */
HYP_NODISCARD hyp_status hyp_cuda_find_gpu(const hyp_cuda_library *lib, int32_t index, CUdevice *out, hyp_diag *diag);

/* dlopen. The libraries keep threads and thread-local state of their own, so they are never unmapped. */
void *hyp_cuda_open_shared(const char *path);
/* A library of the toolkit, "libcublasLt" say, as the above has it; *out_handle is of dlopen. `path` gets what messages
 * call it. */
enum { HYP_CUDA_LIBRARY_PATH = 64 };
HYP_NODISCARD hyp_status hyp_cuda_open_first(const char *name, const char *variable, void **out_handle,
                                             char path[HYP_CUDA_LIBRARY_PATH], hyp_diag *diag);
/* The first of `names` where Python packages and some installations have it: next to the library that has the function
 * `near`, or in the folder of a package beside that one's, "cudnn" say. NULL where there is none; else `path` tells. */
void *hyp_cuda_open_beside(const void *near, const char *package, const char *const *names, size_t count,
                           char path[PATH_MAX]);
/* Fills a table with the functions of a library; HYP_ERR_DEVICE names one that it has not. */
typedef struct hyp_cuda_symbol {
    const char *name;
    size_t offset; /* in the table */
} hyp_cuda_symbol;
HYP_NODISCARD hyp_status hyp_cuda_resolve(void *table, void *handle, const hyp_cuda_symbol *symbols, size_t count,
                                          const char *path, hyp_diag *diag);

/* HYP_OK for success, else a message "<what> failed: CUDA_ERROR_X (...)": HYP_ERR_NO_MEMORY when the device's memory
 * is out, HYP_ERR_DEVICE_LOST after an error that the driver will answer every further call with, which is noted,
 * HYP_ERR_DEVICE otherwise. */
HYP_NODISCARD hyp_status hyp_cuda_check(const hyp_cuda_library *lib, CUresult result, const char *what, hyp_diag *diag);
/* HYP_ERR_DEVICE_LOST when such an error was noted earlier. */
HYP_NODISCARD hyp_status hyp_cuda_check_lost(const hyp_cuda_library *lib, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cublaslt_check(const hyp_cuda_library *lib, cublasStatus_t result, const char *what,
                                            hyp_diag *diag);

#endif
