/* handle.c - handles of hypatia/nn.h on a GPU: streams, scratch memory, captures. */
#include <stdio.h>

#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/nn/nn.h"
#include "runtime/cuda/ops/reduce.h"
#include "runtime/cuda/session/backend.h"

static hyp_status set_up(hyp_cuda_nn *nn, void *stream, hyp_diag *diag)
{
    const hyp_cuda_device *d = nn->model.device;
    const hyp_context_options options = {.size = sizeof options, .stream = stream};
    hyp_cuda_session *s = &nn->session;
    HYP_TRY(hyp_cuda_load_kernel(d, HYP_CUDA_KERNEL_nn_act, diag)); /* a captured run must not */
    HYP_TRY(hyp_cuda_load_row_sums(d, diag));
    HYP_TRY(hyp_cuda_streams_init(s, &options, diag));
    HYP_TRY(hyp_cuda_nn_aside_open(nn, diag));
    HYP_TRY(hyp_cuda_take_lt(d->context, &d->lib, &s->lt, diag));
    return hyp_cuda_grow(s, &s->workspace, &s->workspace_bytes, hyp_cuda_workspace_bytes(d),
                         "the workspace of products", diag);
}

static void nn_close(void *state)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_session *s = &nn->session;
    const hyp_cuda_library *lib = &nn->model.device->lib;
    bool entered = hyp_cuda_enter_to_free(nn->model.device);
    hyp_diag unused = {0};
    hyp_status ended = s->home ? hyp_cuda_await_runs(s, &unused) : HYP_OK;
    (void)ended; /* what is left is freed in any case */
    hyp_cuda_release_captured(s);
    for (size_t i = 0; i < nn->entries.len; i++) hyp_cuda_nn_entry_dispose(nn, &nn->entries.data[i]);
    hyp_vec_free(&nn->entries);
    hyp_cuda_give(lib, s->workspace, s->workspace_bytes);
    hyp_cuda_give(lib, s->scratch, s->scratch_bytes);
    hyp_cuda_give(lib, s->room, s->room_bytes);
    hyp_cuda_branches_dispose(&s->branches, lib);
    hyp_cuda_keep_lt(nn->model.device->context, lib, s->lt);
    hyp_cuda_streams_dispose(s);
    if (entered) hyp_cuda_leave(nn->model.device);
    hyp_free(nn);
}

static hyp_status nn_open(void *device, void *stream, void **out, hyp_diag *diag)
{
    hyp_cuda_nn *nn = hyp_calloc(1, sizeof *nn);
    if (!nn) return hyp_fail_memory(diag, sizeof *nn);
    nn->model.device = device;
    nn->session.model = &nn->model;
    hyp_status status = hyp_cuda_enter(device, diag);
    if (status == HYP_OK) {
        status = set_up(nn, stream, diag);
        hyp_cuda_leave(device);
    }
    if (status == HYP_OK)
        *out = nn;
    else
        nn_close(nn);
    return status;
}

static hyp_status begin(void *state, void *stream, size_t workspace, void **out, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_session *s = &nn->session;
    const hyp_run_options run = {.size = sizeof run, .stream = stream};
    HYP_TRY(hyp_cuda_enter(nn->model.device, diag));
    hyp_status status = hyp_cuda_run_begins(s, &run, diag);
    if (status == HYP_OK)
        status = hyp_cuda_grow(s, &s->scratch, &s->scratch_bytes, workspace, "values between layers", diag);
    if (status == HYP_OK) {
        s->starts = true;
        hyp_cuda_nn_aside_begins(nn);
        *out = (void *)(uintptr_t)s->scratch;
        return HYP_OK;
    }
    hyp_cuda_run_leaves(s);
    hyp_cuda_leave(nn->model.device);
    return status;
}

static hyp_status end(void *state, hyp_status status, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_session *s = &nn->session;
    hyp_diag unused = {0};
    hyp_status joined = hyp_cuda_nn_aside_ends(nn, status == HYP_OK ? diag : &unused);
    if (status == HYP_OK) status = joined;
    if (status == HYP_OK) status = hyp_cuda_run_ends(s, NULL, diag);
    if (status != HYP_OK) status = hyp_cuda_recover(s, status, "waiting for the device", diag);
    s->starts = false;
    hyp_cuda_run_leaves(s);
    hyp_cuda_leave(nn->model.device);
    return status;
}

static hyp_status zero(void *state, void *at, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_nn *nn = state;
    const hyp_cuda_library *lib = &nn->model.device->lib;
    return hyp_cuda_check(lib, lib->cuMemsetD8Async((CUdeviceptr)(uintptr_t)at, 0, bytes, nn->session.stream),
                          "cuMemsetD8Async", diag);
}

static hyp_status synchronize(void *state, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    HYP_TRY(hyp_cuda_enter(nn->model.device, diag));
    hyp_status status = hyp_cuda_await_runs(&nn->session, diag);
    hyp_cuda_leave(nn->model.device);
    return status;
}

static void *stream(void *state)
{
    hyp_cuda_nn *nn = state;
    nn->session.hidden = false;
    return nn->session.home;
}

static void release_captured(void *state) { hyp_cuda_release_captured(&((hyp_cuda_nn *)state)->session); }

static bool describe(const void *state, size_t i, char *out, size_t size)
{
    const hyp_cuda_nn *nn = state;
    char text[HYP_NN_STEP_TEXT], measured[64] = "";
    if (i >= nn->entries.len) return false;
    const hyp_cuda_nn_entry *e = &nn->entries.data[i];
    const double microseconds = 1e6;
    hyp_nn_step_text(&e->step, text);
    if (e->tuned)
        snprintf(measured, sizeof measured, ", tuned, %.1f us, untuned %.1f us", e->seconds * microseconds,
                 e->first_seconds * microseconds);
    snprintf(out, size, "%s: %s%s%s%s%s", text, hyp_nn_has_product(&e->step) ? "cuBLASLt " : "",
             hyp_nn_has_product(&e->step) ? hyp_cuda_nn_epilogue_name(e->way.epilogue) : "own kernel",
             e->way.act && hyp_nn_has_product(&e->step) ? " and nn_act" : "",
             e->way.sums && hyp_nn_has_product(&e->step) ? " and sums" : "", measured);
    return true;
}

const hyp_nn_backend hyp_nn_backend_cuda = {
    .align = HYP_CUDA_MIN_ALIGN,
    .saved_align = HYP_CUDA_ALIGN,
    .open = nn_open,
    .close = nn_close,
    .begin = begin,
    .end = end,
    .prepare = hyp_cuda_nn_prepare,
    .run = hyp_cuda_nn_run,
    .zero = zero,
    .sums_on_the_way = hyp_cuda_nn_sums_on_the_way,
    .tune = hyp_cuda_nn_tune,
    .synchronize = synchronize,
    .stream = stream,
    .release_captured = release_captured,
    .describe = describe,
};
