/* uploads.c - tensors of the caller's that are copied to the device outside of runs. What is not page-locked the driver takes
 * for one thread at a time, and slowly; so large tensors go by pieces that are, of which every thread has one. */
#include <string.h>

#include "runtime/cuda/session/backend.h"

enum { PIECE = 1 << 20, WORTH = 256 << 10 /* bytes of a tensor */ };

hyp_status hyp_cuda_uploads_init(hyp_cuda_uploads *u, hyp_diag *diag)
{
    if (pthread_mutex_init(&u->mutex, NULL) == 0) {
        if (pthread_cond_init(&u->freed, NULL) == 0) return u->ready = true, HYP_OK;
        pthread_mutex_destroy(&u->mutex);
    }
    return hyp_fail(diag, HYP_ERR_INTERNAL, "a lock cannot be made");
}

void hyp_cuda_uploads_dispose(hyp_cuda_uploads *u)
{
    if (!u->ready) return;
    pthread_cond_destroy(&u->freed);
    pthread_mutex_destroy(&u->mutex);
}

void hyp_cuda_uploads_free(hyp_cuda_uploads *u, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < HYP_CUDA_UPLOADS; i++) {
        if (u->pieces[i]) lib->cuMemFreeHost(u->pieces[i]);
        if (u->sent[i]) lib->cuEventDestroy(u->sent[i]);
    }
}

/* Makes the piece that a thread has taken, unless it is there; false where the system gives no memory for it. */
static bool make_piece(const hyp_cuda_library *lib, hyp_cuda_uploads *u, size_t i)
{
    void *at = NULL;
    if (!u->sent[i] && lib->cuEventCreate(&u->sent[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        u->sent[i] = NULL;
        return false;
    }
    if (!u->pieces[i] && lib->cuMemHostAlloc(&at, PIECE, 0) == CUDA_SUCCESS) u->pieces[i] = at;
    return u->pieces[i] != NULL;
}

static size_t take_piece(hyp_cuda_uploads *u)
{
    size_t i = 0;
    pthread_mutex_lock(&u->mutex);
    for (;;) {
        for (i = 0; i < HYP_CUDA_UPLOADS && u->taken[i]; i++) continue;
        if (i < HYP_CUDA_UPLOADS) break;
        pthread_cond_wait(&u->freed, &u->mutex);
    }
    u->taken[i] = true;
    pthread_mutex_unlock(&u->mutex);
    return i;
}

static void give_piece(hyp_cuda_uploads *u, size_t i)
{
    pthread_mutex_lock(&u->mutex);
    u->taken[i] = false;
    pthread_cond_signal(&u->freed);
    pthread_mutex_unlock(&u->mutex);
}

static hyp_status send_pieces(hyp_cuda_device *d, size_t i, CUdeviceptr to, const char *from, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &d->lib;
    hyp_cuda_uploads *u = &d->uploads;
    for (size_t done = 0, size; done < bytes; done += size) {
        size = bytes - done < PIECE ? bytes - done : PIECE;
        memcpy(u->pieces[i], from + done, size);
        CUresult copied = lib->cuMemcpyHtoDAsync(to + done, u->pieces[i], size, d->copies);
        HYP_TRY(hyp_cuda_check(lib, copied, "a copy to the device", diag));
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(u->sent[i], d->copies), "cuEventRecord", diag));
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventSynchronize(u->sent[i]), "a copy to the device", diag));
    }
    return HYP_OK;
}

hyp_status hyp_cuda_upload_pieces(hyp_cuda_device *d, CUdeviceptr to, const void *from, size_t bytes, hyp_diag *diag)
{
    hyp_cuda_uploads *u = &d->uploads;
    if (bytes < WORTH) return hyp_cuda_upload(d, to, from, bytes, diag);
    size_t i = take_piece(u);
    hyp_status status = make_piece(&d->lib, u, i) ? send_pieces(d, i, to, from, bytes, diag)
                                                  : hyp_cuda_upload(d, to, from, bytes, diag);
    give_piece(u, i);
    return status;
}
