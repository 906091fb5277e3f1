/* streams.c - which stream work goes to: that of a run, with what it waits for and what tells of its end, and that of a
 * capture of ours, which nobody else knows, so that nothing of the caller's gets into it. */
#include "runtime/cuda/session/backend.h"

static hyp_status create(const hyp_cuda_session *s, CUstream *out, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    return hyp_cuda_check(lib, lib->cuStreamCreateWithPriority(out, CU_STREAM_NON_BLOCKING, s->priority),
                          "cuStreamCreate", diag); /* it takes the nearest priority that there is */
}

hyp_status hyp_cuda_streams_init(hyp_cuda_session *s, const hyp_context_options *options, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    s->priority = options->priority;
    s->home = options->stream;
    HYP_TRY(create(s, &s->recorder, diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&s->ended, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
    if (!s->home) {
        HYP_TRY(create(s, &s->home, diag));
        s->own_home = s->hidden = true;
    }
    s->stream = s->last = s->home;
    return HYP_OK;
}

void hyp_cuda_streams_dispose(hyp_cuda_session *s)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (s->ended) lib->cuEventDestroy(s->ended);
    if (s->recorder) lib->cuStreamDestroy(s->recorder);
    if (s->own_home) lib->cuStreamDestroy(s->home);
}

hyp_status hyp_cuda_go_to(hyp_cuda_session *s, CUstream stream, hyp_diag *diag)
{
    const hyp_cudnn *dnn = &s->model->device->dnn;
    if (s->stream == stream) return HYP_OK;
    if (s->dnn) HYP_TRY(hyp_cudnn_check(dnn, dnn->cudnnSetStream(s->dnn, stream), "cudnnSetStream", diag));
    s->stream = stream;
    return HYP_OK;
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

/* Whether somebody captures the stream; one that cannot even be asked is no stream to replay graphs on. */
static bool is_captured(const hyp_cuda_session *s, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s->hidden && stream == s->home) return false;
    CUresult result = s->model->device->lib.cuStreamIsCapturing(stream, &status);
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool hyp_cuda_can_join(const hyp_cuda_session *s, CUstream other)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUstreamCaptureStatus status[] = {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE};
    cuuint64_t id[] = {0, 0};
    if (lib->cuStreamGetCaptureInfo(other, &status[0], &id[0]) != CUDA_SUCCESS) return false;
    if (status[0] == CU_STREAM_CAPTURE_STATUS_NONE) return true;
    if (lib->cuStreamGetCaptureInfo(s->stream, &status[1], &id[1]) != CUDA_SUCCESS) return false;
    return status[0] == status[1] && id[0] == id[1];
}

/* The runs of a session use the same memory: one waits for the one before it, wherever that was. */
static hyp_status follow_last(hyp_cuda_session *s, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (s->stream == s->last) return HYP_OK;
    if (s->last == s->home) {
        if (is_captured(s, s->home))
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the context's stream is captured, so that a run on another one cannot wait for the runs "
                            "before it: capture that one, too, or end the capture first");
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(s->ended, s->home), "cuEventRecord", diag));
    }
    return hyp_cuda_check(lib, lib->cuStreamWaitEvent(s->stream, s->ended, 0), "cuStreamWaitEvent", diag);
}

hyp_status hyp_cuda_run_begins(hyp_cuda_session *s, const hyp_run_options *run, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    HYP_TRY(hyp_cuda_go_to(s, run && run->stream ? run->stream : s->home, diag));
    for (size_t i = 0; run && i < run->wait_count; i++) {
        s->hidden = false; /* an event of a capture takes the stream into it */
        HYP_TRY(hyp_cuda_check(lib, lib->cuStreamWaitEvent(s->stream, run->wait[i], 0),
                               "waiting for an event of the caller's", diag));
    }
    s->captured = is_captured(s, s->stream);
    return s->captured ? HYP_OK : follow_last(s, diag);
}

hyp_status hyp_cuda_run_ends(hyp_cuda_session *s, const hyp_run_options *run, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (!s->captured) {
        if (s->stream != s->home)
            HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(s->ended, s->stream), "cuEventRecord", diag));
        s->last = s->stream;
    }
    if (!run || !run->record) return HYP_OK;
    return hyp_cuda_check(lib, lib->cuEventRecord(run->record, s->stream), "recording an event of the caller's", diag);
}

void hyp_cuda_run_leaves(hyp_cuda_session *s)
{
    s->captured = false;
    hyp_status back = hyp_cuda_go_to(s, s->home, NULL); /* a message, even an empty one, takes longer than all else here */
    (void)back; /* a run that is not on its stream goes there first */
}

bool hyp_cuda_can_await(void *session)
{
    hyp_cuda_session *s = session;
    return s->last != s->home || !is_captured(s, s->home);
}

hyp_status hyp_cuda_await_runs(hyp_cuda_session *s, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    const char *what = "running the plan on the device";
    if (s->last != s->home) return hyp_cuda_check(lib, lib->cuEventSynchronize(s->ended), what, diag);
    if (is_captured(s, s->home))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the context's stream is captured, so that it cannot be waited for");
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(s->home), what, diag);
}

/* ---- captures of ours ------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_capture_begins(hyp_cuda_session *s, CUstream *out_before, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    *out_before = s->stream;
    HYP_TRY(hyp_cuda_go_to(s, s->recorder, diag));
    hyp_status status = hyp_cuda_check(lib, lib->cuStreamBeginCapture(s->recorder, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                                       "cuStreamBeginCapture", diag);
    hyp_diag unused = {0};
    hyp_status back = status == HYP_OK ? HYP_OK : hyp_cuda_go_to(s, *out_before, &unused);
    (void)back;
    return status;
}

hyp_status hyp_cuda_capture_ends(hyp_cuda_session *s, CUstream before, hyp_status status, CUgraph *out, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUgraph graph = NULL;
    hyp_diag unused = {0};
    CUresult ended = lib->cuStreamEndCapture(s->recorder, &graph);
    hyp_status back = hyp_cuda_go_to(s, before, status == HYP_OK ? diag : &unused);
    if (status == HYP_OK) status = back;
    if (status == HYP_OK) status = hyp_cuda_check(lib, ended, "cuStreamEndCapture", diag);
    if (status == HYP_OK)
        *out = graph;
    else if (ended == CUDA_SUCCESS && graph)
        lib->cuGraphDestroy(graph);
    return status;
}
