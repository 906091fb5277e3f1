/* padding.c - tensors of the device that are smaller than those of the run. */
#include "plan/laid_box.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"

/* The elements of the tensor: lanes are where they come from and where they go. */
static hyp_cuda_box box_of(const hyp_pad *pad, bool out)
{
    hyp_cuda_box box = {.rank = (uint32_t)pad->rank, .lanes = 2};
    int64_t dense = 1, roomy = 1;
    for (uint32_t a = 0; a < box.rank; a++) { /* innermost first */
        int32_t from = pad->rank - 1 - (int32_t)a;
        box.extent[a] = pad->dims[from];
        box.stride[out][a] = dense;
        box.stride[!out][a] = roomy;
        dense *= pad->dims[from];
        roomy *= pad->room[from];
    }
    return box;
}

/* Zeros where the input will not be: behind it, or, where it is no one piece, everywhere. */
static hyp_status clear(const hyp_cuda_session *s, const hyp_pad *pad, CUdeviceptr room, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    size_t all = hyp_pad_bytes(pad->room, pad->rank, pad->element_bytes), from = 0;
    int32_t axis = pad->rank - 1;
    while (axis > 0 && pad->dims[axis] == pad->room[axis]) axis--;
    if (axis == 0) from = hyp_pad_bytes(pad->dims, pad->rank, pad->element_bytes);
    return hyp_cuda_check(lib, lib->cuMemsetD8Async(room + from, 0, all - from, s->stream), "padding an input", diag);
}

hyp_status hyp_cuda_pad(hyp_cuda_session *s, const hyp_pad *pad, CUdeviceptr room, CUdeviceptr data, bool out,
                        hyp_diag *diag)
{
    const hyp_cuda_box box = box_of(pad, out);
    if (!out) HYP_TRY(clear(s, pad, room, diag));
    if (hyp_pad_bytes(pad->dims, pad->rank, pad->element_bytes) == 0) return HYP_OK;
    /* The width of what is copied at once follows from offsets, so that the caller's address is one from where any
     * width goes. */
    enum { WIDEST = 16 };
    int64_t odd = (int64_t)(data % WIDEST / pad->element_bytes);
    hyp_cuda_mover mover;
    hyp_cuda_mover_plan(s->model->device, &box, pad->element_bytes, out ? 0 : odd, out ? odd : 0, &mover);
    data -= data % WIDEST;
    return hyp_cuda_mover_run(s, &mover, out ? room : data, out ? data : room, diag);
}
