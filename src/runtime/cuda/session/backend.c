/* backend.c - the CUDA backend: weights, sessions, runs. */
#include "runtime/cuda/session/backend.h"

#include <string.h>

#include "runtime/core/custom.h"
#include "runtime/core/host_memory.h"
#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/driver/nccl.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/nn/nn.h"
#include "runtime/reference/reference.h"

/* ---- the plan's weights -------------------------------------------------------------------------------------- */

static void unload(void *model)
{
    hyp_cuda_model *m = model;
    if (m->weights || m->images.list.len > 0) {
        bool entered = hyp_cuda_enter_to_free(m->device);
        hyp_cuda_drop_weights(m);
        hyp_cuda_images_dispose(&m->images, &m->device->lib);
        if (entered) hyp_cuda_leave(m->device);
    }
    hyp_free(m->channels_last);
    pthread_mutex_destroy(&m->making);
    hyp_free(m);
}

static size_t load_bound(const hyp_plan *plan) { return plan->read_bytes; }

/* Products of 8 bits are a matter of the device, everything else of this build. */
static hyp_status check_f8(const hyp_cuda_device *d, const HypPlan__Program *p, const HypPlan__Step *s, hyp_diag *diag)
{
    enum { NEEDED_SM = 89 };
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_LINEAR || hyp_cuda_dtype(p, s->linear->x) != HYP_F8E4M3) return HYP_OK;
    if (d->sm >= NEEDED_SM) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                    "products of f8e4m3 need a GPU of compute capability 8.9 or newer, this one has %d.%d; build the "
                    "plan with --precision bf16",
                    d->sm / 10, d->sm % 10);
}

static bool has_step(const HypPlan__Program *p, HypPlan__Step__KernelCase kernel)
{
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i]->kernel_case == kernel) return true;
    return false;
}

static bool is_convolution(const HypPlan__Call *call)
{
    return strcmp(call->kernel, "conv") == 0 || strcmp(call->kernel, "conv-transpose") == 0 ||
           strcmp(call->kernel, "conv-backward-weights") == 0;
}

static bool is_attention(const HypPlan__Call *call) { return strcmp(call->kernel, "attention-gradient") == 0; }

static bool is_layer(const HypPlan__Call *call) { return strcmp(call->kernel, "linear-gradient") == 0; }

static bool has_call(const HypPlan__Program *p, bool (*is)(const HypPlan__Call *call))
{
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && is(p->steps[i]->call)) return true;
    return false;
}

/* Without cuDNN convolutions are products or run by our own kernels, unless it was asked for by its path. */
static hyp_status load_dnn(hyp_cuda_device *d, hyp_diag *diag)
{
    hyp_diag missing = {0};
    bool asked;
    void *near;
    if (d->dnn.library || d->dnn_sought) return HYP_OK;
    d->dnn_sought = true;
    memcpy(&near, &d->lib.cublasLtCreate, sizeof near);
    hyp_status status = hyp_cudnn_open(&d->dnn, near, &asked, &missing);
    if (status != HYP_OK && asked) return hyp_fail(diag, status, "%s", missing.message);
    if (d->dnn.library)
        hyp_log_printf(&d->log, "convolutions are done by cuDNN %zu", d->dnn.cudnnGetVersion());
    else
        hyp_log_printf(
            &d->log,
            "convolutions are done without cuDNN, some of them many times slower%s%s; install cuDNN 9, or set "
            "HYPATIA_CUDNN to the path of libcudnn.so.9",
            status == HYP_OK ? "" : ": ", missing.message);
    return HYP_OK;
}

/* Loads the kernels that the plan's device section has for this device, so that all contexts share them; one that the
 * driver refuses is not used. */
static hyp_status load_images(hyp_cuda_model *m, hyp_diag *diag)
{
    const HypPlan__Device *known = m->plan->device;
    const hyp_cuda_image *image;
    hyp_diag why = {0};
    size_t refused = 0;
    if (!known || strcmp(known->name, m->device->key) != 0) return HYP_OK;
    for (size_t i = 0; i < known->n_products; i++) {
        const HypPlan__TunedProduct *p = known->products[i];
        if (!hyp_cuda_pw_is_key(p->key) || p->algorithm.len <= HYP_CUDA_NO_KERNEL) continue;
        HYP_TRY(hyp_cuda_images_add(&m->images, &m->device->lib, &p->algorithm, &image, &why, diag));
        refused += !image->module;
    }
    if (refused > 0)
        hyp_log_printf(&m->device->log, "generated kernels of the plan that are not used: %zu: %s", refused,
                       why.message);
    return HYP_OK;
}

/* Says whether what the plan's device section knows is of use here. */
static void report_tuning(hyp_cuda_device *d, const HypPlan__Device *known)
{
    if (known && strcmp(known->name, d->key) == 0)
        hyp_log_printf(&d->log, "products tuned for this device: %zu", known->n_products);
    else if (known)
        hyp_log_printf(&d->log,
                       "the plan was tuned on %s, this is %s: products are done as cuBLASLt's heuristic says, and "
                       "pointwise steps by kernels for any sizes; 'hypatia tune' tunes it for this device",
                       known->name, d->key);
}

static hyp_status load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        hyp_status status = hyp_cuda_check_step(p, p->steps[i], diag);
        if (status == HYP_OK) status = check_f8(device, p, p->steps[i], diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", i, p->steps[i]->label);
        return status;
    }
    HYP_TRY(hyp_custom_check(plan, true, diag));
    HYP_TRY(hyp_reference_check_calls(p, diag));
    hyp_cuda_model *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    pthread_mutex_init(&m->making, NULL);
    m->account = hyp_mem_charged();
    m->device = device;
    m->plan = plan;
    m->gated = (uint32_t)p->n_steps;
    hyp_status status = hyp_plan_has_in_place(p) ? hyp_plan_find_commit(p, &m->gated, diag) : HYP_OK;
    if (status == HYP_OK) status = hyp_cuda_enter(m->device, diag);
    if (status == HYP_OK) {
        if (has_step(p, HYP_PLAN__STEP__KERNEL_LINEAR)) status = hyp_cuda_load_layers(m->device, diag);
        if (status == HYP_OK && (has_step(p, HYP_PLAN__STEP__KERNEL_ATTENTION) || has_call(p, is_attention)))
            status = hyp_cuda_load_attention(m->device, diag);
        if (status == HYP_OK && has_call(p, is_convolution)) {
            status = load_dnn(m->device, diag);
            if (status == HYP_OK) status = hyp_cuda_find_filters(m, diag);
        }
        if (status == HYP_OK) status = hyp_cuda_load_weights(m, diag);
        if (status == HYP_OK) status = load_images(m, diag);
        hyp_cuda_leave(m->device);
    }
    if (status == HYP_OK) {
        if (!plan->replaced) report_tuning(m->device, plan->device);
        *out_model = m;
    } else {
        unload(m);
    }
    return status;
}

/* ---- sessions ------------------------------------------------------------------------------------------------ */

/* Attention uses the workspace, too. */
static hyp_status set_up_products(hyp_cuda_session *s, hyp_diag *diag)
{
    const HypPlan__Program *p = s->model->plan->program;
    bool products = has_step(p, HYP_PLAN__STEP__KERNEL_LINEAR) || has_step(p, HYP_PLAN__STEP__KERNEL_MATMUL) ||
                    has_call(p, is_convolution) || has_call(p, is_layer) || has_call(p, hyp_plan_is_recurrence);
    if (!products && !has_step(p, HYP_PLAN__STEP__KERNEL_ATTENTION)) return HYP_OK;
    const hyp_cuda_device *d = s->model->device;
    if (products) HYP_TRY(hyp_cuda_take_lt(d->context, &d->lib, &s->lt, diag));
    return hyp_cuda_grow(s, &s->workspace, &s->workspace_bytes, hyp_cuda_workspace_bytes(d), "the workspace of products",
                         diag);
}

static hyp_status set_up_convolutions(hyp_cuda_session *s, hyp_diag *diag)
{
    const hyp_cudnn *dnn = &s->model->device->dnn;
    if (!dnn->library || !has_call(s->model->plan->program, is_convolution)) return HYP_OK;
    HYP_TRY(hyp_cuda_take_dnn(s->model->device->context, dnn, &s->dnn, diag));
    return hyp_cudnn_check(dnn, dnn->cudnnSetStream(s->dnn, s->stream), "cudnnSetStream", diag);
}

static hyp_status set_up_session(hyp_cuda_session *s, const hyp_context_options *options, hyp_diag *diag)
{
    s->kept.no_growth = options->no_growth_when_captured;
    s->pads = options->bucket_count > 0;
    HYP_TRY(hyp_cuda_streams_init(s, options, diag));
    HYP_TRY(hyp_cuda_branches_wanted(&s->branches.wanted, diag));
    const HypPlan__Program *p = s->model->plan->program;
    size_t tensors = p->n_tensors;
    s->at = hyp_calloc(tensors, sizeof *s->at);
    if (!s->at) return hyp_fail_memory(diag, tensors * sizeof *s->at);
    HYP_TRY(hyp_cuda_staging_init(&s->staging, p->n_inputs + p->n_outputs, diag));
    HYP_TRY(hyp_tuning_init(&s->tuning, s->model->device->key, s->model->plan, diag));
    HYP_TRY(set_up_products(s, diag));
    if (s->model->gated < p->n_steps) HYP_TRY(hyp_cuda_take_zeroed(s, sizeof(int64_t), &s->gate, diag));
    return set_up_convolutions(s, diag);
}

static void session_destroy(void *session)
{
    hyp_cuda_session *s = session;
    const hyp_cuda_library *lib = &s->model->device->lib;
    bool entered = hyp_cuda_enter_to_free(s->model->device);
    hyp_diag unused = {0};
    hyp_status ended = s->home ? hyp_cuda_await_runs(s, &unused) : HYP_OK;
    (void)ended; /* what is left is freed in any case */
    hyp_cuda_release_captured(s);
    hyp_cuda_staging_dispose(&s->staging, lib);
    hyp_cuda_free(lib, s->workspace, s->workspace_bytes);
    hyp_cuda_free(lib, s->gate, sizeof(int64_t));
    hyp_cuda_free(lib, s->scratch, s->scratch_bytes);
    hyp_cuda_free(lib, s->room, s->room_bytes);
    hyp_cuda_images_dispose(&s->images, lib);
    if (s->error) lib->cuMemFreeHost((void *)(uintptr_t)s->error);
    hyp_cuda_keep_lt(s->model->device->context, lib, s->lt);
    hyp_cuda_keep_dnn(s->model->device->context, &s->model->device->dnn, s->dnn);
    hyp_cuda_branches_dispose(&s->branches, lib);
    if (s->begins) lib->cuEventDestroy(s->begins);
    if (s->ends) lib->cuEventDestroy(s->ends);
    if (s->aside) lib->cuStreamDestroy(s->aside);
    hyp_cuda_streams_dispose(s);
    if (entered) hyp_cuda_leave(s->model->device);
    hyp_tuning_dispose(&s->tuning);
    hyp_free(s->at);
    hyp_free(s);
}

static hyp_status session_create(void *model, const hyp_context_options *options, void **out_session, hyp_diag *diag)
{
    hyp_cuda_session *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->model = model;
    hyp_status status = hyp_cuda_enter(s->model->device, diag);
    if (status == HYP_OK) {
        status = set_up_session(s, options, diag);
        hyp_cuda_leave(s->model->device);
    }
    if (status == HYP_OK)
        *out_session = s;
    else
        session_destroy(s);
    return status;
}

/* What the session has queued, and graphs of the caller's, read the weights that it had. */
static bool take_model(void *session, void *model)
{
    hyp_cuda_session *s = session;
    hyp_diag why = {0}; /* whatever comes next says so */
    if (s->kept.any || hyp_cuda_enter(s->model->device, &why) != HYP_OK) return false;
    bool ended = hyp_cuda_await_runs(s, &why) == HYP_OK;
    hyp_cuda_leave(s->model->device);
    if (ended) s->model = model;
    return ended;
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

static hyp_status wait(hyp_cuda_session *s, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_await_runs(s, diag));
    s->awaited = true;
    if (!s->error || !s->error[0]) return HYP_OK;
    s->error[0] = 0;
    s->committed = false; /* the gate was closed */
    const HypPlan__Program *p = s->model->plan->program;
    size_t step = (size_t)s->error[2];
    hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: index %lld is out of range for its axis",
             hyp_plan_kernel_name(p->steps[step]), (long long)s->error[1]);
    hyp_host_name_step(p, step, diag);
    return HYP_ERR_INVALID_ARGUMENT;
}

static hyp_status queue_all(hyp_cuda_session *s, hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    bool done = false;
    HYP_TRY(hyp_cuda_stage_inputs(s, p, b, diag));
    if (b->step_seconds) {
        HYP_TRY(hyp_cuda_stage_packed(s, p, false, diag));
        HYP_TRY(hyp_cuda_time_ops(s, p, b->step_seconds, diag));
    } else if (!hyp_steps_are_watched(b)) {
        HYP_TRY(hyp_cuda_replay_run(s, p, &done, diag));
    }
    s->bindings = b;
    hyp_status status = done ? HYP_OK : hyp_cuda_queue_run(s, p, diag);
    s->bindings = NULL;
    HYP_TRY(status);
    return hyp_cuda_stage_outputs(s, p, b, diag);
}

hyp_status hyp_cuda_recover(hyp_cuda_session *s, hyp_status status, const char *what, hyp_diag *diag)
{
    hyp_diag why = {0};
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (status == HYP_ERR_DEVICE_LOST || s->captured) return status;
    if (s->aside) lib->cuStreamSynchronize(s->aside); /* what it tells the other tells, too */
    if (hyp_cuda_check(lib, lib->cuStreamSynchronize(s->stream), what, &why) != HYP_ERR_DEVICE_LOST)
        return status;
    return hyp_fail(diag, HYP_ERR_DEVICE_LOST, "%s", why.message);
}

static hyp_status run_once(hyp_cuda_session *s, hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    bool host = false;
    HYP_TRY(hyp_cuda_stage(s, p, b, &host, diag));
    if (s->captured) HYP_TRY(hyp_cuda_note_captured(s, p, diag));
    s->awaited = false;
    hyp_status status = queue_all(s, p, b, diag);
    if (status == HYP_OK) status = hyp_cuda_run_ends(s, b->run, diag);
    if (status == HYP_OK && host) status = wait(s, diag);
    if (status != HYP_OK) return hyp_cuda_recover(s, status, "running the plan", diag);
    if (host) hyp_cuda_unpack_outputs(s, p, b);
    return HYP_OK;
}

static hyp_status run(void *session, void *prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    s->leaves_commit = bindings->leaves_commit;
    s->committed = false;
    hyp_status status = hyp_cuda_run_begins(s, bindings->run, diag);
    if (status == HYP_OK && s->captured && bindings->no_capture)
        status = hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                          "the stream is captured into a graph, and of what others replay the context would not know what "
                          "the plan's variables are: run on a stream that is not captured; the context replays a graph of its own");
    if (status == HYP_OK) status = run_once(s, prepared, bindings, diag);
    s->leaves_commit = false;
    if (bindings->committed) *bindings->committed = s->committed;
    hyp_cuda_run_leaves(s);
    hyp_cuda_leave(s->model->device);
    return status;
}

static void *stream(void *session)
{
    hyp_cuda_session *s = session;
    s->hidden = false;
    return s->home;
}

static hyp_status synchronize(void *session, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = wait(s, diag);
    hyp_cuda_leave(s->model->device);
    return status;
}

/* There is a place where kernels tell of indexes that are out of range. */
static bool fails_late(const void *session)
{
    const hyp_cuda_session *s = session;
    return s->error != NULL && !s->awaited;
}

static hyp_step_tuning step_tuning(const void *prepared, size_t step)
{
    const hyp_cuda_prepared *p = prepared;
    switch (p->known[step]) {
    case HYP_CUDA_TUNED: return HYP_STEP_TUNED;
    case HYP_CUDA_BORROWED: return HYP_STEP_BORROWED;
    default: return HYP_STEP_NOT_TUNED;
    }
}

const hyp_backend hyp_backend_cuda = {
    .name = "cuda",
    .kind = HYP_DEVICE_CUDA,
    .memory = HYP_MEMORY_CUDA,
    .open = hyp_cuda_device_open,
    .close = hyp_cuda_device_close,
    .load = load,
    .unload = unload,
    .load_bound = load_bound,
    .session_create = session_create,
    .session_destroy = session_destroy,
    .take_model = take_model,
    .scratch_bytes = hyp_cuda_scratch_bytes,
    .prepare = hyp_cuda_prepare,
    .reserve = hyp_cuda_reserve,
    .release = hyp_cuda_release,
    .measure = hyp_cuda_measure,
    .run = run,
    .synchronize = synchronize,
    .stream = stream,
    .release_captured = hyp_cuda_release_captured,
    .fails_late = fails_late,
    .can_wait = hyp_cuda_can_await,
    .session_alloc = hyp_cuda_session_alloc,
    .session_free = hyp_cuda_session_free,
    .group_make_id = hyp_cuda_group_make_id,
    .group_join = hyp_cuda_group_join,
    .group_leave = hyp_cuda_group_leave,
    .nn = &hyp_nn_backend_cuda,
    .memory_alloc = hyp_cuda_memory_alloc,
    .memory_free = hyp_cuda_memory_free,
    .memory_copy = hyp_cuda_memory_copy,
    .memory_zero = hyp_cuda_memory_zero,
    .launches = hyp_cuda_launches,
    .floor_seconds = hyp_cuda_device_floor,
    .choices = hyp_cuda_choices,
    .step_tuning = step_tuning,
    .tuning = hyp_cuda_session_tuning,
    .tune = hyp_cuda_tune,
};
