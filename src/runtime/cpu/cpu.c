/* The CPU backend: devices, models, sessions. The kernels are in the files beside this one. */
#include "runtime/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "runtime/core/channels_last.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#include "runtime/cpu/dnnl_compat.h"
#endif

typedef struct session {
    hyp_cpu_model *model;
    hyp_host_memory memory;
    void *stream;
} session;

typedef struct prepared {
    const int64_t *values;
    bool uses_dnnl;
    bool *channels_last; /* by tensor: how it lies in memory; see hyp_choose_layouts */
    hyp_cpu_op ops[];    /* one per step */
} prepared;

/* ---- device ------------------------------------------------------------------------------------------------ */

static void device_close(void *opaque)
{
    hyp_cpu_device *d = opaque;
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_close(d->dnnl);
#endif
    hyp_free(d);
}

static hyp_status device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                              const char **out_name, hyp_diag *diag)
{
    hyp_cpu_device *d = hyp_calloc(1, sizeof *d);
    if (!d) return hyp_fail_memory(diag, sizeof *d);
    *d = (hyp_cpu_device){.log = *log, .threads = options->threads};
    const char *most = getenv(HYP_CPU_VARIABLE);
    hyp_status status = hyp_cpu_kernels_choose(most, &d->kernels, diag);
#ifdef HYP_HAVE_ONEDNN
    if (status == HYP_OK) status = hyp_dnnl_open(most, &d->dnnl, diag);
#endif
    if (status != HYP_OK) {
        device_close(d);
        return status;
    }
#ifdef HYP_HAVE_ONEDNN
    if (d->threads == 0) d->threads = hyp_dnnl_threads(d->dnnl);
    const dnnl_version_t *v = dnnl_version();
    snprintf(d->name, sizeof d->name, "cpu (oneDNN %d.%d.%d for %s, own kernels for %s)", v->major, v->minor, v->patch,
             hyp_dnnl_isa(), d->kernels->isa);
#else
    d->threads = 1;
    snprintf(d->name, sizeof d->name, "cpu (without oneDNN, own kernels for %s)", d->kernels->isa);
#endif
    *out_device = d;
    *out_name = d->name;
    return HYP_OK;
}

/* ---- threads ----------------------------------------------------------------------------------------------- */

void hyp_cpu_parallel(const hyp_cpu_run *run, int64_t count, int64_t grain, hyp_cpu_task *task, void *state)
{
#ifdef HYP_HAVE_ONEDNN
    bool shared = run->device->threads > 1 && count > 1 && count / 2 >= grain;
    if (shared && hyp_dnnl_parallel(run->device->dnnl, run->device->threads, count, task, state)) return;
#else
    (void)run, (void)grain;
#endif
    if (count > 0) task(state, 0, count, 0);
}

/* ---- model ------------------------------------------------------------------------------------------------- */

static void model_unload(void *opaque)
{
    hyp_cpu_model *m = opaque;
    for (size_t i = 0; m->linear && i < m->plan->program->n_steps; i++) hyp_linear_weights_destroy(m->linear[i]);
    hyp_free(m->linear);
#ifdef HYP_HAVE_ONEDNN
    for (size_t i = 0; m->windows && i < m->plan->program->n_steps; i++) hyp_dnnl_packed_destroy(m->windows[i]);
    hyp_free(m->windows);
#endif
    pthread_mutex_destroy(&m->packing);
    hyp_free(m);
}

/* Says once what will be slow: products of a type that only the reference kernels have. */
static void warn_of_slow_types(const hyp_cpu_model *m)
{
    const HypPlan__Program *p = m->plan->program;
    bool told[HYP_F8E4M3 + 1] = {[HYP_F32] = true, [HYP_F8E4M3] = true};
    for (size_t i = 0; i < p->n_steps; i++) {
        const HypPlan__Step *step = p->steps[i];
        bool linear = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
        if (!linear && step->kernel_case != HYP_PLAN__STEP__KERNEL_MATMUL) continue;
        hyp_dtype t = hyp_tensor_dtype(p, linear ? step->linear->x : step->matmul->a);
        if (told[t]) continue;
        told[t] = true;
#ifdef HYP_HAVE_ONEDNN
        if (hyp_dnnl_has(m->device->dnnl, t)) continue;
#endif
        hyp_log_printf(&m->device->log,
                       "cpu: products of type %s run on the reference kernels, which are slow: nothing "
                       "faster is there for this processor",
                       hyp_dtype_name(t));
    }
}

static hyp_status model_load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    hyp_cpu_model *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    *m = (hyp_cpu_model){.device = device, .plan = plan};
    if (pthread_mutex_init(&m->packing, NULL) != 0) {
        hyp_free(m);
        return hyp_fail_memory(diag, sizeof m->packing);
    }
    m->linear = hyp_calloc(p->n_steps, sizeof(hyp_linear_weights *));
    hyp_status status = m->linear ? HYP_OK : hyp_fail_memory(diag, p->n_steps * sizeof(hyp_linear_weights *));
#ifdef HYP_HAVE_ONEDNN
    m->windows = hyp_calloc(p->n_steps, sizeof(hyp_dnnl_packed *));
    if (!m->windows && status == HYP_OK) status = hyp_fail_memory(diag, p->n_steps * sizeof(hyp_dnnl_packed *));
    int threads_before = hyp_dnnl_set_threads(m->device->dnnl, m->device->threads);
#endif
    if (status == HYP_OK) status = hyp_reference_check_calls(p, diag);
    for (uint32_t i = 0; i < p->n_steps && status == HYP_OK; i++)
        if (p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) status = hyp_linear_weights_load(m, i, diag);
    if (status == HYP_OK) warn_of_slow_types(m);
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_set_threads(m->device->dnnl, threads_before);
#endif
    if (status == HYP_OK)
        *out_model = m;
    else
        model_unload(m);
    return status;
}

/* ---- session ----------------------------------------------------------------------------------------------- */

static void session_destroy(void *opaque)
{
    session *s = opaque;
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_stream_destroy(s->stream);
#endif
    hyp_host_memory_dispose(&s->memory);
    hyp_free(s);
}

static hyp_status session_create(void *model, const hyp_context_options *options, void **out_session, hyp_diag *diag)
{
    (void)options;
    session *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->model = model;
    hyp_status status = hyp_host_memory_init(&s->memory, s->model->plan, diag);
    if (status != HYP_OK) {
        hyp_free(s);
        return status;
    }
#ifdef HYP_HAVE_ONEDNN
    status = hyp_dnnl_stream_create(s->model->device->dnnl, &s->stream, diag);
#endif
    if (status == HYP_OK)
        *out_session = s;
    else
        session_destroy(s);
    return status;
}

static size_t scratch_bytes(const void *opaque)
{
    const session *s = opaque;
    return hyp_host_memory_bytes(&s->memory);
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static void release(void *opaque, void *opaque_prepared)
{
    const session *s = opaque;
    prepared *p = opaque_prepared;
    for (size_t i = 0; i < s->model->plan->program->n_steps; i++)
        if (p->ops[i].destroy) p->ops[i].destroy(p->ops[i].state);
    hyp_free(p->channels_last);
    hyp_free(p);
}

static hyp_status run_reference(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    return hyp_reference_step(&run->call, op->step, diag);
}

static hyp_status prepare_op(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                             hyp_cpu_op *op, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    op->step = model->plan->program->steps[step];
    switch (op->step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: status = hyp_cpu_prepare_linear(model, step, values, op, diag); break;
    case HYP_PLAN__STEP__KERNEL_MATMUL: status = hyp_cpu_prepare_matmul(model, values, op, diag); break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: status = hyp_cpu_prepare_attention(model, values, op, diag); break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE: status = hyp_cpu_prepare_pointwise(model, values, op, diag); break;
    case HYP_PLAN__STEP__KERNEL_REDUCE: status = hyp_cpu_prepare_reduce(model, values, op, diag); break;
    case HYP_PLAN__STEP__KERNEL_COPY:
        status = hyp_cpu_prepare_copy(model, values, step ? op - 1 : NULL, op, diag);
        break;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: hyp_cpu_prepare_softmax(model, op); break;
    case HYP_PLAN__STEP__KERNEL_CALL:
        status = hyp_cpu_prepare_call(model, step, values, channels_last, op, diag);
        break;
    default: break; /* gather and fill only move memory: the reference kernels do it as well as any */
    }
    if (status != HYP_OK || op->run) return status;
    op->run = run_reference;
    op->work_bytes = hyp_reference_work(model->plan->program, op->step, values);
    return HYP_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------- */

typedef hyp_status prepare_call_fn(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);

/* Kernels that this backend has something faster for. The functions leave op->run NULL where they do not apply (a type,
 * a mode), and the plain kernel runs. */
static const struct {
    const char *kernel;
    prepare_call_fn *prepare;
} fast_calls[] = {
    {"resize", hyp_cpu_prepare_resize},
    {"layer-norm", hyp_cpu_prepare_norm},
    {"rms-norm", hyp_cpu_prepare_norm},
#ifdef HYP_HAVE_ONEDNN
    {"conv", hyp_dnnl_prepare_window},
    {"conv-transpose", hyp_dnnl_prepare_window},
    {"max-pool", hyp_dnnl_prepare_window},
    {"average-pool", hyp_dnnl_prepare_window},
#endif
    {NULL, NULL},
};

hyp_status hyp_cpu_prepare_call(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Call *call = op->step->call;
    for (size_t i = 0; fast_calls[i].kernel; i++) {
        if (strcmp(fast_calls[i].kernel, call->kernel) != 0) continue;
        HYP_TRY(fast_calls[i].prepare(model, step, values, channels_last, op, diag));
        break;
    }
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_matmul(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
#ifdef HYP_HAVE_ONEDNN
    const HypPlan__Matmul *s = op->step->matmul;
    bool work = values[s->m] > 0 && values[s->n] > 0 && values[s->k] > 0;
    for (size_t a = 0; a < s->n_batch; a++) work = work && values[s->batch[a]] > 0;
    if (work) return hyp_dnnl_prepare_matmul(model, s, values, op, diag);
#endif
    (void)model, (void)values, (void)op, (void)diag;
    return HYP_OK;
}

hyp_status hyp_cpu_prepare_attention(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
#ifdef HYP_HAVE_ONEDNN
    const HypPlan__Attention *s = op->step->attention;
    bool fits = hyp_tensor_dtype(model->plan->program, s->q->tensor) == HYP_F32 && values[s->rows] > 0 &&
                values[s->keys] > 0 && values[s->width] > 0 && values[s->columns] > 0 && !s->more_k;
    for (size_t a = 0; a < s->n_batch; a++) fits = fits && values[s->batch[a]] > 0;
    if (fits) return hyp_dnnl_prepare_attention(model, values, op, diag);
#endif
    (void)model, (void)values, (void)op, (void)diag;
    return HYP_OK;
}

/* Threads for a step: one, or `most` where the work of each of two would take longer than starting and joining them.
 * Measured: docs/runtime-cpu.md. */
static int threads_for(const hyp_plan *plan, uint32_t step, const int64_t *values, int most)
{
    enum { FLOPS = 500000, BYTES = 1 << 16 };
    hyp_step_work work = hyp_plan_step_work(plan->program, step, values);
    return work.flops < 2 * FLOPS && work.bytes < 2 * BYTES ? 1 : most;
}

static hyp_status prepare_ops(session *s, const int64_t *values, prepared *p, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (uint32_t i = 0; i < program->n_steps; i++) {
        hyp_cpu_op *op = &p->ops[i];
        op->threads = threads_for(s->model->plan, i, values, s->model->device->threads);
#ifdef HYP_HAVE_ONEDNN
        hyp_dnnl_set_threads(s->model->device->dnnl, op->threads);
#endif
        HYP_TRY(prepare_op(s->model, i, values, p->channels_last, op, diag));
        HYP_TRY(hyp_host_memory_grow_work(&s->memory, op->work_bytes, diag));
        p->uses_dnnl = p->uses_dnnl || op->is_dnnl;
    }
    return HYP_OK;
}

/* Whether a call that oneDNN does not have got a layout that only oneDNN reads. */
static bool misses_layouts(const session *s, const prepared *p)
{
    bool misses = false;
    for (size_t i = 0; i < s->model->plan->program->n_steps; i++)
        misses = misses || (p->ops[i].step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL &&
                            p->ops[i].run == run_reference && hyp_uses_layouts(p->ops[i].step, p->channels_last));
    return misses;
}

static hyp_status new_prepared(const session *s, const int64_t *values, prepared **out, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t bytes = sizeof(prepared) + program->n_steps * sizeof(hyp_cpu_op);
    prepared *p = *out = hyp_calloc(1, bytes);
    if (!p) return hyp_fail_memory(diag, bytes);
    p->values = values;
    p->channels_last = hyp_calloc(program->n_tensors, sizeof *p->channels_last);
    return p->channels_last ? HYP_OK : hyp_fail_memory(diag, program->n_tensors);
}

static hyp_status prepare(void *opaque, const int64_t *values, void **out_prepared, hyp_diag *diag)
{
    session *s = opaque;
    prepared *p;
    HYP_TRY(hyp_host_memory_grow(&s->memory, values, diag));
    hyp_status status = new_prepared(s, values, &p, diag);
#ifdef HYP_HAVE_ONEDNN
    int threads_before = hyp_dnnl_set_threads(s->model->device->dnnl, s->model->device->threads);
    if (status == HYP_OK)
        hyp_choose_layouts(s->model->plan->program, values, 1u << HYP_F32, 2 + HYP_DNNL_SPATIAL, false,
                           p->channels_last);
#endif
    if (status == HYP_OK) status = prepare_ops(s, values, p, diag);
    if (status == HYP_OK && misses_layouts(s, p)) { /* rare: everything again, in the plan's layout */
        release(s, p);
        status = new_prepared(s, values, &p, diag);
        if (status == HYP_OK) status = prepare_ops(s, values, p, diag);
    }
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_set_threads(s->model->device->dnnl, threads_before);
#endif
    if (status == HYP_OK)
        *out_prepared = p;
    else if (p)
        release(s, p);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static hyp_status run_ops(session *s, const prepared *p, double *step_seconds, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    hyp_cpu_run run = {.device = s->model->device,
                       .kernels = s->model->device->kernels,
                       .call = {program, p->values, s->memory.at, s->memory.work},
                       .stream = s->stream};
    for (size_t i = 0; i < program->n_steps; i++) {
#ifdef HYP_HAVE_ONEDNN
        if (p->ops[i].is_dnnl) hyp_dnnl_set_threads(run.device->dnnl, p->ops[i].threads);
#endif
        double start = step_seconds ? hyp_clock_seconds() : 0;
        hyp_status status = p->ops[i].run(&p->ops[i], &run, diag);
        if (step_seconds) step_seconds[i] += hyp_clock_seconds() - start;
        if (status == HYP_OK) continue;
        hyp_host_name_step(program, i, diag);
        return status;
    }
    return HYP_OK;
}

static hyp_status run(void *opaque, void *opaque_prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    session *s = opaque;
    const prepared *p = opaque_prepared;
    hyp_host_memory_bind(&s->memory, bindings);
#ifdef HYP_HAVE_ONEDNN
    if (p->uses_dnnl) {
        const hyp_cpu_device *device = s->model->device;
        int threads_before = hyp_dnnl_set_threads(device->dnnl, device->threads);
        hyp_status status = run_ops(s, p, bindings->step_seconds, diag);
        hyp_dnnl_set_threads(device->dnnl, threads_before);
        return status;
    }
#endif
    return run_ops(s, p, bindings->step_seconds, diag);
}

static hyp_status synchronize(void *opaque, hyp_diag *diag)
{
    (void)opaque, (void)diag;
    return HYP_OK;
}

const hyp_backend hyp_backend_cpu = {
    .name = "cpu",
    .kind = HYP_DEVICE_CPU,
    .open = device_open,
    .close = device_close,
    .load = model_load,
    .unload = model_unload,
    .session_create = session_create,
    .session_destroy = session_destroy,
    .scratch_bytes = scratch_bytes,
    .prepare = prepare,
    .release = release,
    .run = run,
    .synchronize = synchronize,
};
