/* device_memory.c - memory of the device, for callers and for sessions, and what the device can do at best. */
#include "runtime/cuda/session/backend.h"

hyp_status hyp_cuda_memory_alloc(void *device, size_t bytes, void **out, hyp_diag *diag)
{
    hyp_cuda_device *d = device;
    CUdeviceptr at = 0;
    HYP_TRY(hyp_cuda_enter(d, diag));
    hyp_status status = hyp_cuda_check(&d->lib, d->lib.cuMemAlloc(&at, bytes), "cuMemAlloc", diag);
    hyp_cuda_leave(d);
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "%zu bytes of device memory for a tensor", bytes);
    else
        *out = (void *)(uintptr_t)at;
    return status;
}

void hyp_cuda_memory_free(void *device, void *data)
{
    hyp_cuda_device *d = device;
    if (!hyp_cuda_enter_to_free(d)) return;
    d->lib.cuMemFree((CUdeviceptr)(uintptr_t)data);
    hyp_cuda_leave(d);
}

hyp_status hyp_cuda_upload(const hyp_cuda_device *d, CUdeviceptr to, const void *from, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemcpyHtoDAsync(to, from, bytes, d->copies), "a copy to the device", diag));
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(d->copies), "cuStreamSynchronize", diag);
}

hyp_status hyp_cuda_download(const hyp_cuda_device *d, void *to, CUdeviceptr from, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemcpyDtoHAsync(to, from, bytes, d->copies), "a copy from the device", diag));
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(d->copies), "cuStreamSynchronize", diag);
}

static hyp_status copy_there(const hyp_cuda_device *d, CUdeviceptr to, CUdeviceptr from, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemcpyDtoDAsync(to, from, bytes, d->copies), "a copy on the device", diag));
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(d->copies), "cuStreamSynchronize", diag);
}

hyp_status hyp_cuda_memory_copy(void *device, void *to, bool to_device, const void *from, bool from_device, size_t bytes,
                                hyp_diag *diag)
{
    hyp_cuda_device *d = device;
    CUdeviceptr there = (CUdeviceptr)(uintptr_t)to, here = (CUdeviceptr)(uintptr_t)from;
    HYP_TRY(hyp_cuda_enter(d, diag));
    hyp_status status = !to_device     ? hyp_cuda_download(d, to, here, bytes, diag)
                        : !from_device ? hyp_cuda_upload_pieces(d, there, from, bytes, diag)
                                       : copy_there(d, there, here, bytes, diag);
    hyp_cuda_leave(d);
    return status;
}

hyp_status hyp_cuda_memory_zero(void *device, void *at, size_t bytes, hyp_diag *diag)
{
    hyp_cuda_device *d = device;
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_enter(d, diag));
    hyp_status status = hyp_cuda_check(lib, lib->cuMemsetD8Async((CUdeviceptr)(uintptr_t)at, 0, bytes, d->copies),
                                       "cuMemsetD8Async", diag);
    if (status == HYP_OK) status = hyp_cuda_check(lib, lib->cuStreamSynchronize(d->copies), "cuStreamSynchronize", diag);
    hyp_cuda_leave(d);
    return status;
}

hyp_status hyp_cuda_session_alloc(void *session, size_t bytes, void **out, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    CUdeviceptr at = 0;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = hyp_cuda_take(&s->model->device->lib, bytes, &at, diag);
    hyp_cuda_leave(s->model->device);
    if (status == HYP_OK) *out = (void *)(uintptr_t)at;
    return status;
}

void hyp_cuda_session_free(void *session, void *data, size_t bytes)
{
    hyp_cuda_session *s = session;
    hyp_diag unused = {0};
    if (!hyp_cuda_enter_to_free(s->model->device)) return;
    hyp_status ended = hyp_cuda_await_runs(s, &unused);
    (void)ended; /* it is freed in any case */
    hyp_cuda_give(&s->model->device->lib, (CUdeviceptr)(uintptr_t)data, bytes);
    hyp_cuda_leave(s->model->device);
}

size_t hyp_cuda_scratch_bytes(const void *session)
{
    const hyp_cuda_session *s = session;
    return s->workspace_bytes + s->scratch_bytes + s->room_bytes + s->branches.bytes + s->staging.device_bytes +
           hyp_cuda_kept_bytes(s);
}

hyp_status hyp_cuda_alloc(const hyp_cuda_library *lib, size_t bytes, CUdeviceptr *out, hyp_diag *diag)
{
    if (!lib->device_alloc) return hyp_cuda_check(lib, lib->cuMemAlloc(out, bytes), "cuMemAlloc", diag);
    *out = (CUdeviceptr)(uintptr_t)lib->device_alloc(bytes, lib->device_user);
    return *out ? HYP_OK : hyp_fail_memory(diag, bytes);
}

void hyp_cuda_free(const hyp_cuda_library *lib, CUdeviceptr at, size_t bytes)
{
    if (!at) return;
    if (lib->device_free)
        lib->device_free((void *)(uintptr_t)at, bytes, lib->device_user);
    else
        lib->cuMemFree(at);
}

void hyp_cuda_wait_to_free(hyp_cuda_session *s)
{
    hyp_diag unused = {0};
    hyp_status ended = s->model->device->lib.device_free ? hyp_cuda_await_runs(s, &unused) : HYP_OK;
    (void)ended; /* whatever comes next says so */
}

hyp_status hyp_cuda_take(const hyp_cuda_library *lib, size_t bytes, CUdeviceptr *out, hyp_diag *diag)
{
    if (!hyp_mem_take(bytes)) return hyp_fail_memory(diag, bytes);
    hyp_status status = hyp_cuda_alloc(lib, bytes, out, diag);
    if (status != HYP_OK) hyp_mem_give(bytes);
    return status;
}

hyp_status hyp_cuda_take_zeroed(const hyp_cuda_session *s, size_t bytes, CUdeviceptr *out, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    HYP_TRY(hyp_cuda_take(lib, bytes, out, diag));
    hyp_status status = hyp_cuda_check(lib, lib->cuMemsetD8Async(*out, 0, bytes, s->recorder), "cuMemsetD8Async", diag);
    if (status == HYP_OK)
        status = hyp_cuda_check(lib, lib->cuStreamSynchronize(s->recorder), "cuStreamSynchronize", diag);
    if (status != HYP_OK) hyp_cuda_give(lib, *out, bytes);
    return status;
}

void hyp_cuda_give(const hyp_cuda_library *lib, CUdeviceptr at, size_t bytes)
{
    if (!at) return;
    hyp_cuda_free(lib, at, bytes);
    hyp_mem_give(bytes);
}

hyp_status hyp_cuda_grow(hyp_cuda_session *s, CUdeviceptr *at, size_t *have, size_t bytes, const char *what,
                         hyp_diag *diag)
{
    if (bytes <= *have) return HYP_OK;
    CUdeviceptr grown;
    HYP_TRY(hyp_cuda_may_replace(s, *at, bytes, what, diag));
    hyp_status status = hyp_cuda_take(&s->model->device->lib, bytes, &grown, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%zu bytes of device memory for %s", bytes, what);
        return status;
    }
    hyp_cuda_replaced(s, *at, *have);
    *at = grown;
    *have = bytes;
    return HYP_OK;
}

size_t hyp_cuda_launches(const void *prepared, size_t step)
{
    const hyp_cuda_prepared *p = prepared;
    size_t count = 0;
    for (size_t i = 0; i < p->ops.len; i++) count += p->ops.data[i].step == step;
    return count;
}

/* Operations that a multiprocessor of this architecture does in a cycle; 0: not known. Products of dense matrices on
 * tensor cores, but for f32, which strict plans multiply on the others. */
static double flops_per_cycle(int sm, hyp_dtype dtype, bool tf32)
{
    bool is_tensor = dtype == HYP_BF16 || dtype == HYP_F16 || dtype == HYP_F8E4M3 || (dtype == HYP_F32 && tf32);
    double half = sm == 75 ? 1024 : sm == 80 ? 2048 : sm == 86 || sm == 89 ? 1024 : sm == 90 ? 4096 : 0;
    if (!is_tensor) return sm == 75 || sm == 80 ? 128 : sm <= 90 ? 256 : 0;
    return dtype == HYP_F8E4M3 ? 2 * half : dtype == HYP_F32 ? half / 2 : half;
}

double hyp_cuda_device_floor(const void *device, const HypPlan__Program *program, hyp_dtype dtype, double flops,
                             double bytes)
{
    const hyp_cuda_device *d = device;
    double kHz = 1e3, bandwidth = 2 * d->memory_kHz * kHz * d->bus_bits / 8; /* two transfers a cycle */
    double rate = d->clock_kHz * kHz * d->multiprocessors * flops_per_cycle(d->sm, dtype, hyp_cuda_is_tf32(program));
    if (!(bandwidth > 0 && rate > 0)) return 0;
    return bytes / bandwidth > flops / rate ? bytes / bandwidth : flops / rate;
}
