/* captured.c - what graphs that the caller captured use: it stays until he tells that they are gone, whatever grows, is
 * evicted or prepared anew meanwhile. The rest of what ops use (the workspace, the report of indexes, kernels) lasts as
 * long as the session in any case. */
#include "runtime/cuda/session/backend.h"

static hyp_cuda_block *find(const hyp_cuda_session *s, CUdeviceptr at)
{
    for (size_t i = 0; i < s->kept.blocks.len; i++)
        if (s->kept.blocks.data[i].at == at) return &s->kept.blocks.data[i];
    return NULL;
}

hyp_status hyp_cuda_note_captured(hyp_cuda_session *s, hyp_cuda_prepared *p, hyp_diag *diag)
{
    const hyp_cuda_block used[] = {{s->scratch, s->scratch_bytes, false},
                                   {s->staging.device, s->staging.device_bytes, false},
                                   {s->room, s->room_bytes, false},
                                   {s->branches.memory, s->branches.bytes, false}};
    p->captured = s->kept.any = true;
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (used[i].at && !find(s, used[i].at)) HYP_TRY(hyp_vec_push(&s->kept.blocks, diag, used[i]));
    return HYP_OK;
}

hyp_status hyp_cuda_may_replace(const hyp_cuda_session *s, CUdeviceptr at, size_t bytes, const char *what,
                                hyp_diag *diag)
{
    const hyp_cuda_block *block = s->kept.no_growth ? find(s, at) : NULL;
    if (!block) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "%zu bytes of device memory are needed for %s, and a captured graph uses the %zu that there are: "
                    "reserve the largest shapes before capturing, call hyp_context_release_captured, or create the "
                    "context without options->no_growth_when_captured",
                    bytes, what, block->bytes);
}

void hyp_cuda_replaced(hyp_cuda_session *s, CUdeviceptr at, size_t bytes)
{
    hyp_cuda_block *block = find(s, at);
    if (block) {
        block->replaced = true;
    } else {
        hyp_cuda_wait_to_free(s);
        hyp_cuda_give(&s->model->device->lib, at, bytes);
    }
}

size_t hyp_cuda_kept_bytes(const hyp_cuda_session *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->kept.blocks.len; i++)
        bytes += s->kept.blocks.data[i].replaced ? s->kept.blocks.data[i].bytes : 0;
    return bytes;
}

void hyp_cuda_release_captured(void *session)
{
    hyp_cuda_session *s = session;
    const hyp_cuda_library *lib = &s->model->device->lib;
    bool entered = hyp_cuda_enter_to_free(s->model->device);
    if (lib->device_free && s->kept.any) lib->cuCtxSynchronize(); /* launches of graphs are on streams that we do not know */
    for (size_t i = 0; i < s->kept.blocks.len; i++)
        if (s->kept.blocks.data[i].replaced)
            hyp_cuda_give(lib, s->kept.blocks.data[i].at, s->kept.blocks.data[i].bytes);
    hyp_vec_free(&s->kept.blocks);
    for (hyp_cuda_prepared *p = s->kept.shapes, *next; p; p = next) {
        next = p->next;
        hyp_cuda_prepared_dispose(p, lib);
    }
    s->kept.shapes = NULL;
    s->kept.any = false;
    if (entered) hyp_cuda_leave(s->model->device);
}
