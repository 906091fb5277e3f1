#include "runtime/cuda/driver/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define X(name) {TEXT(name), offsetof(hyp_cuda_library, name)},
static const hyp_cuda_symbol driver_symbols[] = {HYP_CUDA_DRIVER_CALLS(X)};
static const hyp_cuda_symbol cublaslt_symbols[] = {HYP_CUBLASLT_CALLS(X)};
#undef X

void *hyp_cuda_open_shared(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

hyp_status hyp_cuda_resolve(void *table, void *handle, const hyp_cuda_symbol *symbols, size_t count, const char *path,
                            hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return hyp_fail(diag, HYP_ERR_DEVICE,
                            "%s has no %s: it is too old, update it (CUDA 12.0 or newer is needed)", path,
                            symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return HYP_OK;
}

static hyp_status open_driver(hyp_cuda_library *lib, hyp_diag *diag)
{
    lib->driver = hyp_cuda_open_shared("libcuda.so.1");
    if (!lib->driver) return hyp_fail(diag, HYP_ERR_DEVICE, "the NVIDIA driver is not installed (%s)", dlerror());
    return hyp_cuda_resolve(lib, lib->driver, driver_symbols, sizeof driver_symbols / sizeof *driver_symbols,
                            "libcuda.so.1", diag);
}

hyp_status hyp_cuda_open_first(const char *name, const char *variable, void **out_handle,
                               char path[HYP_CUDA_LIBRARY_PATH], hyp_diag *diag)
{
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    enum { NEWEST = 13, OLDEST = 12, SIZE = HYP_CUDA_LIBRARY_PATH };
    const char *given = getenv(variable);
    if (given && *given) {
        snprintf(path, SIZE, "%s", variable);
        *out_handle = hyp_cuda_open_shared(given);
        if (*out_handle) return HYP_OK;
        return hyp_fail(diag, HYP_ERR_DEVICE, "%s cannot be loaded from %s (%s)", name, variable, dlerror());
    }
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (int version = NEWEST; version >= OLDEST; version--) {
            snprintf(path, SIZE, "%s%s.so.%d", folders[f], name, version);
            *out_handle = hyp_cuda_open_shared(path);
            if (*out_handle) return HYP_OK;
        }
    return hyp_fail(diag, HYP_ERR_DEVICE,
                    "%s is not installed: %s.so.%d and .%d are neither where the system looks nor in "
                    "/usr/local/cuda/lib64; install it, or set %s to its path",
                    name, name, NEWEST, OLDEST, variable);
}

void *hyp_cuda_open_beside(const void *near, const char *package, const char *const *names, size_t count,
                           char path[PATH_MAX])
{
    Dl_info info;
    if (!dladdr(near, &info) || !info.dli_fname) return NULL;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash) return NULL;
    for (size_t i = 0; i < 2 * count; i++) {
        bool next_to = i < count;
        int n = snprintf(path, PATH_MAX, "%.*s/%s%s%s%s", (int)(slash - info.dli_fname), info.dli_fname,
                         next_to ? "" : "../../", next_to ? "" : package, next_to ? "" : "/lib/", names[i % count]);
        void *library = n < PATH_MAX ? hyp_cuda_open_shared(path) : NULL;
        if (library) return library;
    }
    return NULL;
}

/* Versions 12 and 13 agree in every type and number that is used here. */
static hyp_status open_cublaslt(hyp_cuda_library *lib, hyp_diag *diag)
{
    char path[HYP_CUDA_LIBRARY_PATH];
    HYP_TRY(hyp_cuda_open_first("libcublasLt", "HYPATIA_CUBLASLT", &lib->cublaslt, path, diag));
    return hyp_cuda_resolve(lib, lib->cublaslt, cublaslt_symbols, sizeof cublaslt_symbols / sizeof *cublaslt_symbols,
                            path, diag);
}

hyp_status hyp_cuda_library_open(hyp_cuda_library *out, hyp_diag *diag)
{
    hyp_cuda_library lib = {0};
    hyp_status status = open_driver(&lib, diag);
    if (status == HYP_OK) status = open_cublaslt(&lib, diag);
    if (status == HYP_OK)
        *out = lib;
    else
        hyp_cuda_library_close(&lib);
    return status;
}

void hyp_cuda_library_close(hyp_cuda_library *lib)
{
    if (lib->cublaslt) dlclose(lib->cublaslt);
    if (lib->driver) dlclose(lib->driver);
    *lib = (hyp_cuda_library){0};
}

/* Errors of kernels and of the hardware end the context that they happen in; the driver says so of each of them. */
static bool loses_device(CUresult result)
{
    enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721 }; /* by names of newer headers */
    static const CUresult list[] = {(CUresult)CONTAINED,
                                    (CUresult)TENSOR_MEMORY_LEAK,
                                    CUDA_ERROR_DEINITIALIZED,
                                    CUDA_ERROR_DEVICE_UNAVAILABLE,
                                    CUDA_ERROR_ECC_UNCORRECTABLE,
                                    CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                    CUDA_ERROR_ILLEGAL_ADDRESS,
                                    CUDA_ERROR_LAUNCH_TIMEOUT,
                                    CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                    CUDA_ERROR_ASSERT,
                                    CUDA_ERROR_HARDWARE_STACK_ERROR,
                                    CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                    CUDA_ERROR_MISALIGNED_ADDRESS,
                                    CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                    CUDA_ERROR_INVALID_PC,
                                    CUDA_ERROR_LAUNCH_FAILED,
                                    CUDA_ERROR_EXTERNAL_DEVICE};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == result) return true;
    return false;
}

static const char lost_advice[] = "destroy all contexts and engines that use it and load the plan again; where that "
                                  "fails, too, restart the process";

hyp_status hyp_cuda_check(const hyp_cuda_library *lib, CUresult result, const char *what, hyp_diag *diag)
{
    if (result == CUDA_SUCCESS) return HYP_OK;
    const char *name = NULL, *text = NULL;
    lib->cuGetErrorName(result, &name);
    lib->cuGetErrorString(result, &text);
    bool lost = lib->lost && loses_device(result);
    if (lost) atomic_store_explicit(lib->lost, (int)result, memory_order_relaxed);
    return hyp_fail(diag,
                    lost                                 ? HYP_ERR_DEVICE_LOST
                    : result == CUDA_ERROR_OUT_OF_MEMORY ? HYP_ERR_NO_MEMORY
                                                         : HYP_ERR_DEVICE,
                    "%s failed: %s %d (%s)%s%s", what, name ? name : "error", (int)result, text ? text : "unknown",
                    lost ? ": the device is lost to this process: " : "", lost ? lost_advice : "");
}

hyp_status hyp_cuda_check_lost(const hyp_cuda_library *lib, hyp_diag *diag)
{
    int result = atomic_load_explicit(lib->lost, memory_order_relaxed);
    if (result == CUDA_SUCCESS) return HYP_OK;
    const char *name = NULL;
    lib->cuGetErrorName((CUresult)result, &name);
    return hyp_fail(diag, HYP_ERR_DEVICE_LOST, "the device was lost earlier (%s %d): %s", name ? name : "error", result,
                    lost_advice);
}

hyp_status hyp_cublaslt_check(const hyp_cuda_library *lib, cublasStatus_t result, const char *what, hyp_diag *diag)
{
    if (result == CUBLAS_STATUS_SUCCESS) return HYP_OK;
    const char *text = lib->cublasLtGetStatusString(result);
    return hyp_fail(diag, result == CUBLAS_STATUS_ALLOC_FAILED ? HYP_ERR_NO_MEMORY : HYP_ERR_DEVICE,
                    "%s failed: cuBLASLt status %d (%s)", what, (int)result, text ? text : "unknown");
}
