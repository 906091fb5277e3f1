#include "runtime/cuda/driver/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver/library.h"

static hyp_status find(const void *near, void **out_handle, char path[PATH_MAX], hyp_diag *diag)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    static const char variable[] = "HYPATIA_NVRTC";
    char usual[HYP_CUDA_LIBRARY_PATH];
    hyp_diag missing = {0};
    const char *given = getenv(variable);
    if (given && strcmp(given, "none") == 0)
        return hyp_fail(diag, HYP_ERR_DEVICE, "%s is none, so no kernels are compiled", variable);
    hyp_status status = hyp_cuda_open_first("libnvrtc", variable, out_handle, usual, &missing);
    snprintf(path, PATH_MAX, "%s", usual);
    if (status == HYP_OK) return HYP_OK;
    if (near && !(given && *given))
        *out_handle = hyp_cuda_open_beside(near, "cuda_nvrtc", names, sizeof names / sizeof *names, path);
    return *out_handle ? HYP_OK : hyp_fail(diag, status, "%s", missing.message);
}

hyp_status hyp_nvrtc_open(hyp_nvrtc *out, const void *near, hyp_diag *diag)
{
    static const hyp_cuda_symbol symbols[] = {
#define X(name) {#name, offsetof(hyp_nvrtc, name)},
        /* clang-format off */
        X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram)
        X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN)
    /* clang-format on */
#undef X
    };
    hyp_nvrtc n = {0};
    char path[PATH_MAX];
    HYP_TRY(find(near, &n.handle, path, diag));
    hyp_status status = hyp_cuda_resolve(&n, n.handle, symbols, sizeof symbols / sizeof *symbols, path, diag);
    if (status == HYP_OK)
        *out = n;
    else
        hyp_nvrtc_close(&n);
    return status;
}

void hyp_nvrtc_close(hyp_nvrtc *n)
{
    if (n->handle) dlclose(n->handle);
    *n = (hyp_nvrtc){0};
}

static hyp_status check(const hyp_nvrtc *n, int result, const char *what, hyp_diag *diag)
{
    if (result == 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s failed: %s", what, n->nvrtcGetErrorString(result));
}

/* The line of the log with the first error, or its first line. */
static hyp_status fail_with_log(const hyp_nvrtc *n, nvrtcProgram program, hyp_diag *diag)
{
    size_t size = 0;
    char *log = NULL;
    if (n->nvrtcGetProgramLogSize(program, &size) == 0) log = hyp_calloc(size + 1, 1);
    if (!log) return hyp_fail_memory(diag, size + 1);
    if (n->nvrtcGetProgramLog(program, log) != 0) *log = 0;
    const char *error = strstr(log, "error"), *line = log;
    while (error && error > log && error[-1] != '\n') error--;
    if (error) line = error;
    hyp_status status =
        hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the kernel does not compile: %.*s", (int)strcspn(line, "\n"), line);
    hyp_free(log);
    return status;
}

static hyp_status take_image(const hyp_nvrtc *n, nvrtcProgram program, uint8_t **out_image, size_t *out_bytes,
                             hyp_diag *diag)
{
    size_t bytes = 0;
    HYP_TRY(check(n, n->nvrtcGetCUBINSize(program, &bytes), "nvrtcGetCUBINSize", diag));
    uint8_t *image = hyp_malloc(bytes);
    if (!image) return hyp_fail_memory(diag, bytes);
    hyp_status status = check(n, n->nvrtcGetCUBIN(program, (char *)image), "nvrtcGetCUBIN", diag);
    if (status != HYP_OK) {
        hyp_free(image);
        return status;
    }
    *out_image = image;
    *out_bytes = bytes;
    return HYP_OK;
}

hyp_status hyp_nvrtc_compile(const hyp_nvrtc *n, const char *source, int sm, uint8_t **out_image, size_t *out_bytes,
                             hyp_diag *diag)
{
    char target[40];
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d", sm);
    const char *const options[] = {target, "--std=c++17"};
    nvrtcProgram program;
    HYP_TRY(
        check(n, n->nvrtcCreateProgram(&program, source, "pointwise.cu", 0, NULL, NULL), "nvrtcCreateProgram", diag));
    int result = n->nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    hyp_status status =
        result == 0 ? take_image(n, program, out_image, out_bytes, diag) : fail_with_log(n, program, diag);
    n->nvrtcDestroyProgram(&program);
    return status;
}
