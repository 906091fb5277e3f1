/* tile_weights.c - weights of convolutions on tiles (ops/conv_tiles.c): made on the device when the first step that
 * reads them is prepared, kept while there is one, and shared by the sessions of a model and by engines that share its
 * weights.
 */
#include "runtime/core/shared_block.h"
#include "runtime/cuda/kernels/tiles_args.h"
#include "runtime/cuda/session/backend.h"

/* Engines share what is made of weights that they share, whose address is known to nobody else while there is any of
 * it. What it is made of, and how, is a number: channels and filters are less than 2^20. */
static const void *space_of(const hyp_cuda_model *m) { return (const void *)(uintptr_t)m->weights; }

static uint64_t number_of(const hyp_cuda_model *m, uint32_t tensor, int side, bool last, int64_t filters)
{
    uint64_t offset = m->plan->program->tensors[tensor]->offset;
    return offset << 23 | (uint64_t)filters << 3 | (uint64_t)last << 2 | (uint64_t)(side == 2);
}

/* All of it on a stream that nobody else knows. */
static hyp_status make(hyp_cuda_session *s, int side, hyp_cuda_tile_weights *args, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_cuda_grid grid = {.kernel = side == 2 ? HYP_CUDA_KERNEL_tile_weights_2 : HYP_CUDA_KERNEL_tile_weights_4};
    const CUstream stream = s->stream;
    const bool starts = s->starts;
    hyp_cuda_spread(s->model->device, args->pairs, &grid);
    HYP_TRY(hyp_cuda_load_kernel(s->model->device, grid.kernel, diag));
    s->stream = s->recorder;
    s->starts = true;
    hyp_status status = hyp_cuda_launch(s, &grid, args, diag);
    s->stream = stream;
    s->starts = starts;
    HYP_TRY(status);
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(s->recorder), "cuStreamSynchronize", diag);
}

static void leave(const hyp_cuda_model *m, CUdeviceptr at, size_t bytes)
{
    size_t ignored;
    if (hyp_block_leave(space_of(m), (void *)(uintptr_t)at, &ignored)) hyp_cuda_free(&m->device->lib, at, bytes);
}

/* What another engine has, or what is made now. */
static hyp_status find_or_make(hyp_cuda_session *s, int side, uint64_t number, hyp_cuda_tile_weights *args,
                               size_t bytes, CUdeviceptr *out, hyp_diag *diag)
{
    const hyp_cuda_model *m = s->model;
    const hyp_cuda_library *lib = &m->device->lib;
    const bool shares = !lib->device_alloc; /* what a caller's allocator has given may go before other users do */
    *out = shares ? (CUdeviceptr)(uintptr_t)hyp_block_find(space_of(m), number, bytes) : 0;
    if (*out) return HYP_OK;
    HYP_TRY(hyp_cuda_alloc(lib, bytes, out, diag));
    args->made = *out;
    hyp_status status = make(s, side, args, diag);
    if (status != HYP_OK) {
        hyp_cuda_free(lib, *out, bytes);
        *out = 0;
    } else if (shares) {
        hyp_block_add(space_of(m), (void *)(uintptr_t)*out, number, bytes);
    }
    return status;
}

static hyp_status add(hyp_cuda_session *s, uint32_t tensor, int side, hyp_cuda_tile_weights *args, CUdeviceptr *out,
                      hyp_diag *diag)
{
    hyp_cuda_model *m = s->model;
    const size_t places = side == 2 ? 16 : 36, bytes = places * (size_t)args->pairs * sizeof(float);
    const uint64_t number = number_of(m, tensor, side, args->channel_step == 1, args->filters.size);
    HYP_TRY(hyp_vec_reserve(&m->made, m->made.len + 1, diag));
    if (!hyp_mem_take(bytes)) return hyp_fail_memory(diag, bytes);
    args->weight = m->weights + m->plan->program->tensors[tensor]->offset;
    hyp_status status = find_or_make(s, side, number, args, bytes, out, diag);
    if (status == HYP_OK)
        m->made.data[m->made.len++] =
            (hyp_cuda_made){.tensor = tensor, .side = side, .users = 1, .at = *out, .bytes = bytes};
    else
        hyp_mem_give(bytes);
    return status;
}

hyp_status hyp_cuda_take_tile_weights(hyp_cuda_session *s, uint32_t tensor, int side, const hyp_cuda_tile_weights *args,
                                      CUdeviceptr *out, hyp_diag *diag)
{
    hyp_cuda_model *m = s->model;
    hyp_cuda_tile_weights given = *args;
    hyp_status status = HYP_OK;
    hyp_diag why = {0};
    *out = 0;
    pthread_mutex_lock(&m->making);
    hyp_mem_account *before = hyp_mem_charge(m->account);
    for (size_t i = 0; i < m->made.len && !*out; i++) {
        hyp_cuda_made *made = &m->made.data[i];
        if (made->tensor != tensor || made->side != side) continue;
        made->users++;
        *out = made->at;
    }
    if (!*out) status = add(s, tensor, side, &given, out, &why);
    hyp_mem_charge(before);
    pthread_mutex_unlock(&m->making);
    /* Other ways need less. */
    if (status == HYP_ERR_NO_MEMORY) status = HYP_ERR_UNSUPPORTED;
    return status == HYP_OK ? HYP_OK : hyp_fail(diag, status, "%s", why.message);
}

void hyp_cuda_drop_tile_weights(hyp_cuda_model *m, CUdeviceptr at)
{
    if (!at) return;
    pthread_mutex_lock(&m->making);
    hyp_mem_account *before = hyp_mem_charge(m->account);
    for (size_t i = 0; i < m->made.len; i++) {
        const hyp_cuda_made made = m->made.data[i];
        if (made.at != at || --m->made.data[i].users > 0) continue;
        leave(m, at, made.bytes);
        hyp_mem_give(made.bytes);
        m->made.data[i] = m->made.data[--m->made.len];
        break;
    }
    if (!m->made.len) hyp_vec_free(&m->made);
    hyp_mem_charge(before);
    pthread_mutex_unlock(&m->making);
}
