/* backend_cuda.c - the CUDA backend: weights, sessions, runs. */
#include "runtime/cuda/backend_cuda.h"

#include <string.h>

#include "runtime/cuda/extent.h"
#include "runtime/reference/reference.h"

/* ---- the plan's weights -------------------------------------------------------------------------------------- */

static hyp_status upload(hyp_cuda_model *m, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->device->lib;
    const hyp_plan *plan = m->plan;
    if (plan->weights_bytes == 0) return HYP_OK;
    hyp_status status = hyp_cuda_check(lib, lib->cuMemAlloc(&m->weights, plan->weights_bytes), "cuMemAlloc", diag);
    if (status == HYP_OK)
        status = hyp_cuda_check(lib, lib->cuMemcpyHtoD(m->weights, plan->weights, plan->weights_bytes), "cuMemcpyHtoD",
                                diag);
    /* A copy from pageable memory returns before its last bytes have arrived, and our streams do not wait for it. */
    if (status == HYP_OK) status = hyp_cuda_check(lib, lib->cuStreamSynchronize(NULL), "cuStreamSynchronize", diag);
    if (status != HYP_OK)
        hyp_diag_prefix(diag, "%llu bytes of weights", (unsigned long long)plan->weights_bytes);
    else if (plan->mapping.data)
        hyp_map_forget(&plan->mapping, plan->weights, plan->weights_bytes); /* they live on the device now */
    return status;
}

static void unload(void *model)
{
    hyp_cuda_model *m = model;
    if (m->weights && hyp_cuda_enter(m->device, NULL) == HYP_OK) {
        m->device->lib.cuMemFree(m->weights);
        hyp_cuda_leave(m->device);
    }
    hyp_free(m);
}

static bool has_step(const HypPlan__Program *p, HypPlan__Step__KernelCase kernel)
{
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i]->kernel_case == kernel) return true;
    return false;
}

/* Says whether what the plan's device section knows is of use here. */
static void report_tuning(hyp_cuda_device *d, const HypPlan__Device *known)
{
    if (known && strcmp(known->name, d->key) == 0)
        hyp_log_printf(&d->log, "products tuned for this device: %zu", known->n_products);
    else if (known)
        hyp_log_printf(&d->log,
                       "the plan was tuned on %s, this is %s: products are done as cuBLASLt's heuristic says; "
                       "'hypatia tune' tunes it for this device",
                       known->name, d->key);
    d->log = (hyp_log){0};
}

static hyp_status load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        hyp_status status = hyp_cuda_check_step(p, p->steps[i], diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", i, p->steps[i]->label);
        return status;
    }
    HYP_TRY(hyp_reference_check_calls(p, diag));
    hyp_cuda_model *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    m->device = device;
    m->plan = plan;
    hyp_status status = hyp_cuda_enter(m->device, diag);
    if (status == HYP_OK) {
        if (has_step(p, HYP_PLAN__STEP__KERNEL_LINEAR)) status = hyp_cuda_load_layers(m->device, diag);
        if (status == HYP_OK && has_step(p, HYP_PLAN__STEP__KERNEL_ATTENTION))
            status = hyp_cuda_load_attention(m->device, diag);
        if (status == HYP_OK) status = upload(m, diag);
        hyp_cuda_leave(m->device);
    }
    if (status == HYP_OK) {
        report_tuning(m->device, plan->device);
        *out_model = m;
    } else {
        unload(m);
    }
    return status;
}

/* ---- sessions ------------------------------------------------------------------------------------------------ */

/* What cuBLASLt needs beside its operands; attention uses the workspace too. The sizes are those that NVIDIA advises. */
static hyp_status set_up_products(hyp_cuda_session *s, hyp_diag *diag)
{
    const HypPlan__Program *p = s->model->plan->program;
    bool products = has_step(p, HYP_PLAN__STEP__KERNEL_LINEAR) || has_step(p, HYP_PLAN__STEP__KERNEL_MATMUL);
    if (!products && !has_step(p, HYP_PLAN__STEP__KERNEL_ATTENTION)) return HYP_OK;
    const hyp_cuda_device *d = s->model->device;
    if (products) HYP_TRY(hyp_cublaslt_check(&d->lib, d->lib.cublasLtCreate(&s->lt), "cublasLtCreate", diag));
    size_t bytes = (size_t)(d->sm >= 90 ? 32 : 4) << 20;
    return hyp_cuda_grow(s, &s->workspace, &s->workspace_bytes, bytes, "the workspace of products", diag);
}

/* The flag lies in host memory that kernels can write, so that no copy is needed to look at it. */
static hyp_status set_up_error(hyp_cuda_session *s, hyp_diag *diag)
{
    if (!has_step(s->model->plan->program, HYP_PLAN__STEP__KERNEL_GATHER)) return HYP_OK;
    const hyp_cuda_library *lib = &s->model->device->lib;
    void *flag;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemHostAlloc(&flag, 2 * sizeof(int64_t), CU_MEMHOSTALLOC_DEVICEMAP),
                           "cuMemHostAlloc", diag));
    s->error = flag;
    s->error[0] = 0;
    return hyp_cuda_check(lib, lib->cuMemHostGetDevicePointer(&s->error_at, flag, 0), "cuMemHostGetDevicePointer",
                          diag);
}

static hyp_status set_up_session(hyp_cuda_session *s, const hyp_context_options *options, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    s->stream = options->stream;
    if (!s->stream) {
        HYP_TRY(hyp_cuda_check(lib, lib->cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate", diag));
        s->own_stream = true;
    }
    size_t tensors = s->model->plan->program->n_tensors;
    s->at = hyp_calloc(tensors, sizeof *s->at);
    if (!s->at) return hyp_fail_memory(diag, tensors * sizeof *s->at);
    HYP_TRY(hyp_tuning_init(&s->tuning, s->model->device->key, s->model->plan, diag));
    HYP_TRY(set_up_products(s, diag));
    return set_up_error(s, diag);
}

static void session_destroy(void *session)
{
    hyp_cuda_session *s = session;
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (hyp_cuda_enter(s->model->device, NULL) == HYP_OK) {
        if (s->stream) lib->cuStreamSynchronize(s->stream);
        const CUdeviceptr owned[] = {s->workspace, s->scratch, s->staging};
        for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
            if (owned[i]) lib->cuMemFree(owned[i]);
        if (s->error) lib->cuMemFreeHost((void *)(uintptr_t)s->error);
        if (s->lt) lib->cublasLtDestroy(s->lt);
        if (s->own_stream) lib->cuStreamDestroy(s->stream);
        hyp_cuda_leave(s->model->device);
    }
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

static size_t scratch_bytes(const void *session)
{
    const hyp_cuda_session *s = session;
    return s->workspace_bytes + s->scratch_bytes + s->staging_bytes;
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

/* Kernels take a caller's tensor in place when it lies on the device and is aligned. */
static bool needs_staging(void *data, hyp_memory memory, size_t bytes)
{
    return bytes > 0 && (memory != HYP_MEMORY_CUDA || (uintptr_t)data % HYP_CUDA_MIN_ALIGN != 0);
}

/* Takes the memory that this run's tensors need beside their own: only in the first run that has such tensors. Copies
 * from and to pageable memory are as fast as through pinned memory of ours (measured on an H200). */
static hyp_status stage(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b, bool *out_host,
                        hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    bool staged = false;
    for (size_t i = 0; i < program->n_inputs + program->n_outputs; i++) {
        bool in = i < program->n_inputs;
        size_t at = in ? i : i - program->n_inputs;
        hyp_memory memory = in ? b->input_memory[at] : b->output_memory[at];
        if (!needs_staging(in ? b->inputs[at] : b->outputs[at], memory, p->edge_bytes[i])) continue;
        staged = true;
        if (memory == HYP_MEMORY_HOST) *out_host = true;
    }
    if (!staged) return HYP_OK;
    return hyp_cuda_grow(s, &s->staging, &s->staging_bytes, p->staging_bytes, "inputs and outputs in host memory",
                         diag);
}

/* The address that kernels use for input or output i of the plan (outputs follow inputs). */
static CUdeviceptr edge_address(const hyp_cuda_session *s, const hyp_cuda_prepared *p, size_t i, void *data,
                                hyp_memory memory)
{
    if (needs_staging(data, memory, p->edge_bytes[i])) return s->staging + p->edge_offset[i];
    return (CUdeviceptr)(uintptr_t)data;
}

static void bind_edges(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (size_t i = 0; i < program->n_inputs; i++)
        s->at[program->inputs[i]] = edge_address(s, p, i, b->inputs[i], b->input_memory[i]);
    for (size_t i = 0; i < program->n_outputs; i++)
        s->at[program->outputs[i]] = edge_address(s, p, program->n_inputs + i, b->outputs[i], b->output_memory[i]);
}

static void bind_others(hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (uint32_t t = 0; t < program->n_tensors; t++) {
        const HypPlan__Tensor *tensor = program->tensors[t];
        if (tensor->place == HYP_PLAN__PLACE__PLACE_WEIGHT) s->at[t] = s->model->weights + tensor->offset;
        if (tensor->place == HYP_PLAN__PLACE__PLACE_SCRATCH) s->at[t] = s->scratch + p->slot_offset[tensor->slot];
    }
    for (uint32_t t = 0; t < program->n_tensors; t++)
        if (program->tensors[t]->place == HYP_PLAN__PLACE__PLACE_VIEW) s->at[t] = s->at[program->tensors[t]->view_of];
}

static hyp_status copy_in(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (size_t i = 0; i < program->n_inputs; i++) {
        if (!needs_staging(b->inputs[i], b->input_memory[i], p->edge_bytes[i])) continue;
        CUdeviceptr to = s->at[program->inputs[i]];
        CUresult result =
            b->input_memory[i] == HYP_MEMORY_CUDA
                ? lib->cuMemcpyDtoDAsync(to, (CUdeviceptr)(uintptr_t)b->inputs[i], p->edge_bytes[i], s->stream)
                : lib->cuMemcpyHtoDAsync(to, b->inputs[i], p->edge_bytes[i], s->stream);
        HYP_TRY(hyp_cuda_check(lib, result, "copying an input to the device", diag));
    }
    return HYP_OK;
}

static hyp_status copy_out(hyp_cuda_session *s, const hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (size_t i = 0; i < program->n_outputs; i++) {
        size_t bytes = p->edge_bytes[program->n_inputs + i];
        if (!needs_staging(b->outputs[i], b->output_memory[i], bytes)) continue;
        CUdeviceptr from = s->at[program->outputs[i]];
        CUresult result = b->output_memory[i] == HYP_MEMORY_CUDA
                              ? lib->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)b->outputs[i], from, bytes, s->stream)
                              : lib->cuMemcpyDtoHAsync(b->outputs[i], from, bytes, s->stream);
        HYP_TRY(hyp_cuda_check(lib, result, "copying an output from the device", diag));
    }
    return HYP_OK;
}

static hyp_status wait(hyp_cuda_session *s, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuStreamSynchronize(s->stream), "running the plan on the device", diag));
    if (!s->error || !s->error[0]) return HYP_OK;
    s->error[0] = 0;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "gather: index %lld is out of range for its axis",
                    (long long)s->error[1]);
}

hyp_status hyp_cuda_run_ops(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    bind_others(s, p);
    for (size_t i = 0; i < p->ops.len; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        hyp_status status = op->run(s, op->data, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", op->step, s->model->plan->program->steps[op->step]->label);
        return status;
    }
    return HYP_OK;
}

static hyp_status run_once(hyp_cuda_session *s, hyp_cuda_prepared *p, const hyp_bindings *b, hyp_diag *diag)
{
    bool host = false, done = false;
    HYP_TRY(stage(s, p, b, &host, diag));
    bind_edges(s, p, b);
    HYP_TRY(copy_in(s, p, b, diag));
    if (b->step_seconds)
        HYP_TRY(hyp_cuda_time_ops(s, p, b->step_seconds, diag));
    else
        HYP_TRY(hyp_cuda_replay_run(s, p, &done, diag));
    if (!done) HYP_TRY(hyp_cuda_run_ops(s, p, diag));
    HYP_TRY(copy_out(s, p, b, diag));
    return host ? wait(s, diag) : HYP_OK;
}

static hyp_status run(void *session, void *prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = run_once(s, prepared, bindings, diag);
    hyp_cuda_leave(s->model->device);
    return status;
}

static hyp_status synchronize(void *session, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = wait(s, diag);
    hyp_cuda_leave(s->model->device);
    return status;
}

const hyp_backend hyp_backend_cuda = {
    .name = "cuda",
    .kind = HYP_DEVICE_CUDA,
    .open = hyp_cuda_device_open,
    .close = hyp_cuda_device_close,
    .load = load,
    .unload = unload,
    .session_create = session_create,
    .session_destroy = session_destroy,
    .scratch_bytes = scratch_bytes,
    .prepare = hyp_cuda_prepare,
    .release = hyp_cuda_release,
    .run = run,
    .synchronize = synchronize,
    .tuning = hyp_cuda_session_tuning,
    .tune = hyp_cuda_tune,
};
