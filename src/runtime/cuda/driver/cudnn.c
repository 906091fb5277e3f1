#include "runtime/cuda/driver/cudnn.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver/library.h"

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define X(result, name, arguments) {#name, offsetof(hyp_cudnn, name)},
    HYP_CUDNN_CALLS(X)
#undef X
};

static hyp_status resolve(hyp_cudnn *dnn, const char *path, hyp_diag *diag)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(dnn->library, symbols[i].name);
        if (!address)
            return hyp_fail(diag, HYP_ERR_DEVICE, "%s has no %s: cuDNN 8 or 9 is needed", path, symbols[i].name);
        memcpy((char *)dnn + symbols[i].offset, &address, sizeof address);
    }
    size_t version = dnn->cudnnGetVersion();
    if (version >= HYP_CUDNN_OLDEST) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_DEVICE, "%s is version %zu: cuDNN 8 or 9 is needed", path, version);
}

hyp_status hyp_cudnn_open(hyp_cudnn *out, const void *near, bool *out_asked, hyp_diag *diag)
{
    static const char *const usual[] = {"libcudnn.so.9", "libcudnn.so.8", "/usr/local/cuda/lib64/libcudnn.so.9",
                                        "/usr/local/cuda/lib64/libcudnn.so.8"};
    static const char *const places[] = {"libcudnn.so.9", "libcudnn.so.8"};
    hyp_cudnn dnn = {0};
    char beside[PATH_MAX];
    const char *given = getenv("HYPATIA_CUDNN"), *path = given && *given ? given : NULL;
    *out = dnn;
    *out_asked = path != NULL;
    if (path && strcmp(path, "none") == 0) return HYP_OK;
    if (path) {
        dnn.library = hyp_cuda_open_shared(path);
        if (!dnn.library)
            return hyp_fail(diag, HYP_ERR_DEVICE, "cuDNN cannot be loaded from HYPATIA_CUDNN (%s)", dlerror());
    }
    for (size_t i = 0; !dnn.library && i < sizeof usual / sizeof *usual; i++) {
        path = usual[i];
        dnn.library = hyp_cuda_open_shared(path);
    }
    if (!dnn.library) {
        path = beside;
        dnn.library = hyp_cuda_open_beside(near, "cudnn", places, sizeof places / sizeof *places, beside);
    }
    if (!dnn.library)
        return hyp_fail(diag, HYP_ERR_DEVICE,
                        "cuDNN is not installed: libcudnn.so.9 and .8 are neither where the system looks, nor in "
                        "/usr/local/cuda/lib64, nor beside cuBLASLt");
    hyp_status status = resolve(&dnn, path, diag);
    if (status != HYP_OK) hyp_cudnn_close(&dnn);
    *out = dnn;
    return status;
}

void hyp_cudnn_close(hyp_cudnn *dnn)
{
    if (dnn->library) dlclose(dnn->library);
    *dnn = (hyp_cudnn){0};
}

hyp_status hyp_cudnn_check(const hyp_cudnn *dnn, int status, const char *what, hyp_diag *diag)
{
    if (status == 0) return HYP_OK;
    const char *text = dnn->cudnnGetErrorString(status);
    return hyp_fail(diag, HYP_ERR_DEVICE, "%s failed: cuDNN status %d (%s)", what, status, text ? text : "unknown");
}
