/* custom.c - steps that the caller's kernels queue. */
#include "runtime/core/custom.h"

#include "runtime/cuda/ops/steps.h"

typedef struct custom {
    const hyp_custom_step *step;
    const int64_t *values;
    size_t workspace;
} custom;

/* By anybody: its caller, a replay, or who times it. */
static bool is_being_captured(const hyp_cuda_session *s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = s->model->device->lib.cuStreamIsCapturing(s->stream, &status);
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static hyp_status run_custom(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    const custom *c = data;
    const hyp_custom_place place = {.values = c->values,
                                    .device_at = s->at,
                                    .workspace = (void *)(uintptr_t)s->room,
                                    .workspace_bytes = c->workspace,
                                    .stream = s->stream};
    if (c->step->kernel.no_capture && is_being_captured(s))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "%s::%s: its kernel says that it is not to be captured into a CUDA graph", c->step->domain,
                        c->step->name);
    return hyp_custom_run(c->step, &place, diag);
}

hyp_status hyp_cuda_add_custom(hyp_cuda_build *b)
{
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, run_custom, sizeof(custom), &data));
    custom *c = data;
    c->step = b->session->model->plan->custom[b->step];
    c->values = b->values;
    if (c->step->kernel.no_capture) b->prepared->replays.next = UINT64_MAX; /* no graph of ours has it */
    HYP_TRY(hyp_custom_prepare(c->step, b->values, &c->workspace, b->diag));
    return hyp_cuda_want_room(b, c->workspace);
}
