/* told_kernels.h - the kernels of pointwise steps that nobody tuned (pointwise_source.h), compiled when shapes are
 * prepared, from the steps of the plan, which are validated. They belong to an engine, whose contexts share them;
 * machine code is kept for other engines and processes in the user's cache (core/user_cache.h), under the whole source.
 * Where they cannot be made, steps are interpreted, and the log says why, once.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_TOLD_KERNELS_H
#define HYP_RUNTIME_CUDA_SESSION_TOLD_KERNELS_H

#include <pthread.h>

#include "runtime/cuda/driver/library.h"
#include "runtime/cuda/driver/nvrtc.h"

struct hyp_cuda_device;
struct hyp_cuda_pw_program;

/* A kernel by its text. */
typedef struct hyp_cuda_told {
    char *text, *name;
    uint32_t instructions;
    CUfunction function; /* NULL: there is none, or not yet */
    bool wanted;         /* and is to be compiled */
    bool cell;           /* it does a layer, too */
} hyp_cuda_told;

/* Any number of threads may use it. */
typedef struct hyp_cuda_told_kernels {
    pthread_mutex_t lock; /* held while something is compiled, too */
    HYP_VEC(hyp_cuda_told) list;
    HYP_VEC(CUmodule) modules;
    size_t instructions;      /* of all in the list */
    hyp_nvrtc nvrtc;          /* opened for the first kernel that is to be compiled */
    bool explained;           /* the log has why steps are interpreted */
    hyp_mem_account *charged; /* that of the thread that has locked it: what is here is no context's */
} hyp_cuda_told_kernels;

/* A plan cannot make us compile without end: so many kernels and instructions an engine, which take some seconds. */
enum { HYP_CUDA_TOLD_MOST = 128, HYP_CUDA_TOLD_INSTRUCTIONS = 2048 };

HYP_NODISCARD hyp_status hyp_cuda_told_init(struct hyp_cuda_device *d, hyp_diag *diag);
void hyp_cuda_told_unload(struct hyp_cuda_device *d); /* from the device; the context is current */
void hyp_cuda_told_dispose(struct hyp_cuda_device *d);

/* The compiler of this process, for a device that kernels can be generated for. HYP_ERR_DEVICE or HYP_ERR_UNSUPPORTED
 * says why there is none. */
HYP_NODISCARD hyp_status hyp_cuda_compiler(struct hyp_cuda_device *d, const hyp_nvrtc **out, hyp_diag *diag);

/* Lists what several steps want, to be compiled as one program, then compiles it. The device is locked between begin
 * and end, which is to be called in any case. */
void hyp_cuda_told_begin(struct hyp_cuda_device *d);
HYP_NODISCARD hyp_status hyp_cuda_told_want(struct hyp_cuda_device *d, const struct hyp_cuda_pw_program *program,
                                            hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_told_end(struct hyp_cuda_device *d, hyp_status status, hyp_diag *diag);

/* The kernel for a step, compiled if need be; *out NULL: it is to be interpreted. */
HYP_NODISCARD hyp_status hyp_cuda_told_find(struct hyp_cuda_device *d, const struct hyp_cuda_pw_program *program,
                                            CUfunction *out, hyp_diag *diag);

#endif
