/* memory.c - tensors in the device's memory, for callers that have no library of their own for it. */
#include <string.h>

#include "base/mem.h"
#include "runtime/core/engine.h"

hyp_status hyp_device_tensor_alloc(const hyp_backend *backend, void *device, hyp_tensor *tensor, hyp_diag *diag)
{
    size_t bytes = tensor->bytes ? tensor->bytes : 1; /* so that data is never NULL */
    void *data;
    if (backend->memory_alloc) {
        HYP_TRY(backend->memory_alloc(device, bytes, &data, diag));
    } else {
        data = hyp_calloc(bytes, 1);
        if (!data) return hyp_fail_memory(diag, bytes);
    }
    tensor->data = data;
    tensor->memory = backend->memory;
    return HYP_OK;
}

void hyp_device_tensor_free(const hyp_backend *backend, void *device, hyp_tensor *tensor)
{
    if (!tensor->data) return;
    if (backend->memory_free)
        backend->memory_free(device, tensor->data);
    else
        hyp_free(tensor->data);
    tensor->data = NULL;
}

static hyp_status copy_bytes(const hyp_backend *backend, void *device, void *to, hyp_memory to_memory, const void *from,
                             hyp_memory from_memory, size_t bytes, hyp_diag *diag)
{
    bool to_device = to_memory != HYP_MEMORY_HOST, from_device = from_memory != HYP_MEMORY_HOST;
    if (!bytes) return HYP_OK;
    if (to_device || from_device) return backend->memory_copy(device, to, to_device, from, from_device, bytes, diag);
    memmove(to, from, bytes);
    return HYP_OK;
}

hyp_status hyp_device_tensor_copy(const hyp_backend *backend, void *device, const char *call, const hyp_tensor *from,
                                  hyp_tensor *to, hyp_diag *diag)
{
    if (to->bytes < from->bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: %zu bytes do not fit into %zu", call, from->bytes,
                        to->bytes);
    const hyp_memory there[] = {from->memory, to->memory};
    for (size_t i = 0; i < 2; i++)
        if (there[i] != HYP_MEMORY_HOST && there[i] != backend->memory)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s: the device is %s, and a tensor lies in memory of another", call, backend->name);
    return copy_bytes(backend, device, to->data, to->memory, from->data, from->memory, from->bytes, diag);
}

hyp_status hyp_engine_copy(const hyp_engine *e, void *to, hyp_memory to_memory, const void *from, hyp_memory from_memory,
                           size_t bytes, hyp_diag *diag)
{
    return copy_bytes(e->backend, e->device, to, to_memory, from, from_memory, bytes, diag);
}

hyp_status hyp_engine_tensor_alloc(hyp_engine *engine, hyp_tensor *tensor, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED(tensor);
    return hyp_device_tensor_alloc(engine->backend, engine->device, tensor, diag);
}

void hyp_engine_tensor_free(hyp_engine *engine, hyp_tensor *tensor)
{
    if (engine && tensor) hyp_device_tensor_free(engine->backend, engine->device, tensor);
}

hyp_status hyp_engine_tensor_copy(hyp_engine *engine, const hyp_tensor *from, hyp_tensor *to, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED(from);
    HYP_NEED(to);
    return hyp_device_tensor_copy(engine->backend, engine->device, __func__, from, to, diag);
}
