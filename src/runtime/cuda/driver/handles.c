#include "runtime/cuda/driver/handles.h"

#include <pthread.h>

#include "base/mem.h"

typedef enum kind { ENGINE, LT, DNN } kind;

/* An engine that uses the context, or a handle. The libraries are never unmapped, so their functions stay. */
typedef struct entry {
    CUcontext context;
    kind kind;
    cublasLtHandle_t lt;
    void *dnn;
    __typeof__(&cublasLtDestroy) destroy_lt;
    int (*destroy_dnn)(void *handle);
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HYP_VEC(entry) entries; /* the process's: engines do not know of each other */

static hyp_status add(entry e, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_mem_charge(NULL);
    pthread_mutex_lock(&lock);
    hyp_status status = hyp_vec_push(&entries, diag, e);
    pthread_mutex_unlock(&lock);
    hyp_mem_charge(before);
    return status;
}

/* Takes the newest one out; false where there is none. */
static bool take(CUcontext context, kind k, entry *out)
{
    bool found = false;
    hyp_mem_account *before = hyp_mem_charge(NULL);
    pthread_mutex_lock(&lock);
    for (size_t i = entries.len; i-- > 0 && !found;) {
        if (entries.data[i].context != context || entries.data[i].kind != k) continue;
        *out = entries.data[i];
        entries.data[i] = entries.data[--entries.len];
        found = true;
    }
    if (!entries.len) hyp_vec_free(&entries);
    pthread_mutex_unlock(&lock);
    hyp_mem_charge(before);
    return found;
}

static void destroy(const entry *e)
{
    if (e->kind == LT) e->destroy_lt(e->lt);
    if (e->kind == DNN) e->destroy_dnn(e->dnn);
}

static bool is_used(CUcontext context)
{
    bool used = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < entries.len; i++)
        used = used || (entries.data[i].context == context && entries.data[i].kind == ENGINE);
    pthread_mutex_unlock(&lock);
    return used;
}

hyp_status hyp_cuda_handles_open(CUcontext context, hyp_diag *diag)
{
    return add((entry){.context = context, .kind = ENGINE}, diag);
}

void hyp_cuda_handles_close(CUcontext context)
{
    entry e;
    if (!take(context, ENGINE, &e)) return;
    while (!is_used(context) && (take(context, LT, &e) || take(context, DNN, &e))) destroy(&e);
}

hyp_status hyp_cuda_take_lt(CUcontext context, const hyp_cuda_library *lib, cublasLtHandle_t *out, hyp_diag *diag)
{
    entry e;
    if (!take(context, LT, &e)) return hyp_cublaslt_check(lib, lib->cublasLtCreate(out), "cublasLtCreate", diag);
    *out = e.lt;
    return HYP_OK;
}

hyp_status hyp_cuda_take_dnn(CUcontext context, const hyp_cudnn *dnn, void **out, hyp_diag *diag)
{
    entry e;
    if (!take(context, DNN, &e)) return hyp_cudnn_check(dnn, dnn->cudnnCreate(out), "cudnnCreate", diag);
    *out = e.dnn;
    return HYP_OK;
}

static void keep(entry e)
{
    hyp_diag unused = {0};
    if (add(e, &unused) != HYP_OK) destroy(&e);
}

void hyp_cuda_keep_lt(CUcontext context, const hyp_cuda_library *lib, cublasLtHandle_t handle)
{
    if (handle) keep((entry){.context = context, .kind = LT, .lt = handle, .destroy_lt = lib->cublasLtDestroy});
}

void hyp_cuda_keep_dnn(CUcontext context, const hyp_cudnn *dnn, void *handle)
{
    if (!handle) return;
    dnn->cudnnSetStream(handle, NULL); /* that of the session is destroyed */
    keep((entry){.context = context, .kind = DNN, .dnn = handle, .destroy_dnn = dnn->cudnnDestroy});
}
