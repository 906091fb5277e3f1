#include "runtime/cuda/driver/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver/library.h"

struct hyp_cuda_group {
    hyp_nccl nccl;
    hyp_cuda_library cuda;
    CUdevice device;
    CUcontext context; /* primary, retained; NULL before that */
    void *comm;        /* NULL before that */
};

static const hyp_cuda_symbol symbols[] = {
#define X(result, name, arguments) {#name, offsetof(hyp_nccl, name)},
    HYP_NCCL_CALLS(X)
#undef X
};

hyp_status hyp_nccl_check(const hyp_nccl *nccl, int result, const char *what, hyp_diag *diag)
{
    if (result == 0) return HYP_OK;
    const char *text = nccl->ncclGetErrorString(result);
    return hyp_fail(diag, HYP_ERR_DEVICE, "%s failed: NCCL status %d (%s); NCCL_DEBUG=WARN in the environment tells more",
                    what, result, text ? text : "unknown");
}

/* ---- the library ------------------------------------------------------------------------------------------- */

static void *find_library(const hyp_cuda_library *cuda, const char **path, char beside[PATH_MAX])
{
    static const char *const names[] = {"libnccl.so.2"};
    void *near;
    memcpy(&near, &cuda->cublasLtCreate, sizeof near);
    *path = names[0];
    void *library = hyp_cuda_open_shared(*path);
    if (library) return library;
    *path = beside;
    return hyp_cuda_open_beside(near, "nccl", names, 1, beside);
}

static hyp_status open_nccl(hyp_nccl *out, const hyp_cuda_library *cuda, hyp_diag *diag)
{
    char beside[PATH_MAX];
    const char *given = getenv("HYPATIA_NCCL"), *path = given;
    int version = 0;
    if (given && *given) {
        out->library = hyp_cuda_open_shared(given);
        if (!out->library)
            return hyp_fail(diag, HYP_ERR_DEVICE, "NCCL cannot be loaded from HYPATIA_NCCL (%s)", dlerror());
    } else {
        out->library = find_library(cuda, &path, beside);
        if (!out->library)
            return hyp_fail(diag, HYP_ERR_DEVICE,
                            "NCCL is not installed: libnccl.so.2 is neither where the system looks nor beside cuBLASLt; "
                            "install it, or set HYPATIA_NCCL to its path");
    }
    HYP_TRY(hyp_cuda_resolve(out, out->library, symbols, sizeof symbols / sizeof *symbols, path, diag));
    HYP_TRY(hyp_nccl_check(out, out->ncclGetVersion(&version), "ncclGetVersion", diag));
    if (version >= HYP_NCCL_OLDEST) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_DEVICE, "%s is version %d: NCCL 2.10 or newer is needed", path, version);
}

/* ---- groups ------------------------------------------------------------------------------------------------ */

const hyp_nccl *hyp_cuda_group_nccl(const hyp_cuda_group *group) { return &group->nccl; }
void *hyp_cuda_group_comm(const hyp_cuda_group *group) { return group->comm; }

void hyp_cuda_group_leave(void *handle)
{
    hyp_cuda_group *g = handle;
    CUcontext popped;
    if (g->comm && g->cuda.cuCtxPushCurrent(g->context) == CUDA_SUCCESS) {
        g->nccl.ncclCommDestroy(g->comm);
        g->cuda.cuCtxPopCurrent(&popped);
    }
    if (g->context) g->cuda.cuDevicePrimaryCtxRelease(g->device);
    if (g->nccl.library) dlclose(g->nccl.library);
    hyp_cuda_library_close(&g->cuda);
    hyp_free(g);
}

static hyp_status open_libraries(hyp_cuda_group **out, hyp_diag *diag)
{
    hyp_cuda_group *g = hyp_calloc(1, sizeof *g);
    if (!g) return hyp_fail_memory(diag, sizeof *g);
    hyp_status status = hyp_cuda_library_open(&g->cuda, diag);
    if (status == HYP_OK) status = hyp_cuda_check(&g->cuda, g->cuda.cuInit(0), "no NVIDIA GPU can be used: cuInit", diag);
    if (status == HYP_OK) status = open_nccl(&g->nccl, &g->cuda, diag);
    if (status == HYP_OK)
        *out = g;
    else
        hyp_cuda_group_leave(g);
    return status;
}

hyp_status hyp_cuda_group_make_id(unsigned char out[HYP_GROUP_ID_BYTES], hyp_diag *diag)
{
    hyp_cuda_group *g;
    hyp_nccl_id id;
    HYP_TRY(open_libraries(&g, diag));
    hyp_status status = hyp_nccl_check(&g->nccl, g->nccl.ncclGetUniqueId(&id), "ncclGetUniqueId", diag);
    if (status == HYP_OK) memcpy(out, id.bytes, sizeof id.bytes);
    hyp_cuda_group_leave(g);
    return status;
}

static hyp_status take_device(hyp_cuda_group *g, int32_t index, hyp_diag *diag)
{
    const hyp_cuda_library *cuda = &g->cuda;
    HYP_TRY(hyp_cuda_find_gpu(cuda, index, &g->device, diag));
    return hyp_cuda_check(cuda, cuda->cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain", diag);
}

/* NCCL takes the device whose primary context is current. */
static hyp_status join(hyp_cuda_group *g, const unsigned char *bytes, int32_t rank, int32_t size, hyp_diag *diag)
{
    hyp_nccl_id id;
    CUcontext popped;
    memcpy(id.bytes, bytes, sizeof id.bytes);
    HYP_TRY(hyp_cuda_check(&g->cuda, g->cuda.cuCtxPushCurrent(g->context), "cuCtxPushCurrent", diag));
    hyp_status status =
        hyp_nccl_check(&g->nccl, g->nccl.ncclCommInitRank(&g->comm, size, id, rank), "ncclCommInitRank", diag);
    if (status != HYP_OK) g->comm = NULL;
    g->cuda.cuCtxPopCurrent(&popped);
    return status;
}

hyp_status hyp_cuda_group_join(const unsigned char id[HYP_GROUP_ID_BYTES], int32_t rank, int32_t size,
                               int32_t device_index, void **out_handle, hyp_diag *diag)
{
    hyp_cuda_group *g;
    HYP_TRY(open_libraries(&g, diag));
    hyp_status status = take_device(g, device_index, diag);
    if (status == HYP_OK) status = join(g, id, rank, size, diag);
    if (status == HYP_OK)
        *out_handle = g;
    else
        hyp_cuda_group_leave(g);
    return status;
}
