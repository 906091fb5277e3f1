/* nvrtc.h - NVIDIA's compiler for kernels at run time, loaded when something is to be compiled. What is used of it is
 * declared here, since a toolkit may come without its header. */
#ifndef HYP_RUNTIME_CUDA_DRIVER_NVRTC_H
#define HYP_RUNTIME_CUDA_DRIVER_NVRTC_H

#include "base/mem.h"

typedef struct _nvrtcProgram *nvrtcProgram;

/* Results are 0 for success. */
typedef struct hyp_nvrtc {
    void *handle; /* of dlopen; NULL: not open */
    const char *(*nvrtcGetErrorString)(int result);
    int (*nvrtcCreateProgram)(nvrtcProgram *program, const char *source, const char *name, int headers,
                              const char *const *header_sources, const char *const *header_names);
    int (*nvrtcDestroyProgram)(nvrtcProgram *program);
    int (*nvrtcCompileProgram)(nvrtcProgram program, int count, const char *const *options);
    int (*nvrtcGetProgramLogSize)(nvrtcProgram program, size_t *size);
    int (*nvrtcGetProgramLog)(nvrtcProgram program, char *log);
    int (*nvrtcGetCUBINSize)(nvrtcProgram program, size_t *size);
    int (*nvrtcGetCUBIN)(nvrtcProgram program, char *cubin);
} hyp_nvrtc;

/* Loads it from the path in the environment variable HYPATIA_NVRTC or, when that is not set, as libnvrtc.so.13 or .12
 * from where the system looks, from /usr/local/cuda/lib64, or from beside the library that has the function `near`, unless
 * that is NULL. HYP_ERR_DEVICE says what was not found, where, and what to do, or that the variable is "none". */
HYP_NODISCARD hyp_status hyp_nvrtc_open(hyp_nvrtc *out, const void *near, hyp_diag *diag);
void hyp_nvrtc_close(hyp_nvrtc *n); /* does nothing on a zeroed struct */

/* Compiles C++17 to machine code for compute capability `sm` (90 = 9.0): *out_image, to be freed with hyp_free, has
 * *out_bytes. HYP_ERR_UNSUPPORTED with the compiler's first error where it does not compile. */
HYP_NODISCARD hyp_status hyp_nvrtc_compile(const hyp_nvrtc *n, const char *source, int sm, uint8_t **out_image,
                                           size_t *out_bytes, hyp_diag *diag);

#endif
