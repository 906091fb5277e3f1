/* group.c - processes that run a plan together: which backend has groups, and what is checked before it is asked. */
#include "runtime/core/backend.h"

static hyp_status find_backend(const hyp_backend **out, hyp_diag *diag)
{
    for (size_t i = 0; hyp_backends[i]; i++)
        if (hyp_backends[i]->group_join) return *out = hyp_backends[i], HYP_OK;
    const char *left_out = hyp_backend_left_out(HYP_DEVICE_CUDA);
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "groups of processes are of GPUs, and this build has no %s",
                    left_out ? left_out : "device with them");
}

hyp_status hyp_group_make_id(unsigned char out[HYP_GROUP_ID_BYTES], hyp_diag *diag)
{
    const hyp_backend *backend;
    HYP_NEED(out);
    HYP_TRY(find_backend(&backend, diag));
    return backend->group_make_id(out, diag);
}

hyp_status hyp_group_join(const unsigned char id[HYP_GROUP_ID_BYTES], int32_t rank, int32_t size, int32_t device_index, hyp_group **out,
                          hyp_diag *diag)
{
    const hyp_backend *backend;
    HYP_NEED(id);
    HYP_NEED(out);
    if (size < 1 || rank < 0 || rank >= size || device_index < 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "rank %d of %d on GPU %d: a size of 1 or more, a rank below it, and a GPU from 0 on are wanted",
                        (int)rank, (int)size, (int)device_index);
    HYP_TRY(find_backend(&backend, diag));
    hyp_group *group = hyp_calloc(1, sizeof *group);
    if (!group) return hyp_fail_memory(diag, sizeof *group);
    *group = (hyp_group){.backend = backend, .rank = rank, .size = size, .device_index = device_index};
    hyp_status status = backend->group_join(id, rank, size, device_index, &group->handle, diag);
    if (status == HYP_OK)
        *out = group;
    else
        hyp_free(group);
    return status;
}

void hyp_group_leave(hyp_group *group)
{
    if (!group) return;
    group->backend->group_leave(group->handle);
    hyp_free(group);
}

int32_t hyp_group_rank(const hyp_group *group) { return group ? group->rank : 0; }
int32_t hyp_group_size(const hyp_group *group) { return group ? group->size : 1; }
