/* The CPU backend: devices, sessions, runs. Models are in model.c, the kernels in the other files beside this one. */
#include "runtime/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#ifdef HYP_CPU_X86
#include <cpuid.h>
#endif

#include "base/dtype.h"
#include "plan/channels_last.h"
#include "runtime/core/custom.h"
#include "runtime/cpu/choices.h"
#include "runtime/cpu/widened.h"
#include "runtime/nn/nn.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#include "runtime/cpu/dnnl_compat.h"
#endif

/* ---- device ------------------------------------------------------------------------------------------------ */

static void device_close(void *opaque)
{
    hyp_cpu_device *d = opaque;
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_close(d->dnnl);
#endif
    hyp_pool_close(d->pool);
    hyp_free(d);
}

/* The processor's own name; "" where it has none. */
static void read_brand(char out[49])
{
    *out = 0;
#ifdef HYP_CPU_X86
    unsigned words[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            return;
    memcpy(out, words, sizeof words);
    out[sizeof words] = 0;
    for (size_t n = strlen(out); n > 0 && out[n - 1] == ' ';) out[--n] = 0;
#endif
}

/* Times belong to a processor, to what is made for it, and to a number of threads. */
static void name_tuning(hyp_cpu_device *d)
{
    char brand[49];
    read_brand(brand);
    snprintf(d->tuning_name, sizeof d->tuning_name, "%s%s%s, %d thread%s", brand, *brand ? ", " : "", d->name,
             (int)d->threads, d->threads == 1 ? "" : "s");
}

static hyp_status device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                              const char **out_name, hyp_diag *diag)
{
    hyp_cpu_device *d = hyp_calloc(1, sizeof *d);
    if (!d) return hyp_fail_memory(diag, sizeof *d);
    *d = (hyp_cpu_device){.log = *log};
    hyp_cpu_limit limit = {options->cpu_level, "options->cpu_level"};
    if (!limit.most) limit = (hyp_cpu_limit){getenv(HYP_CPU_VARIABLE), HYP_CPU_VARIABLE};
    hyp_status status = hyp_cpu_kernels_choose(limit, &d->kernels, diag);
    if (status == HYP_OK) status = hyp_pool_open(options, &d->pool, &d->threads, diag);
#ifdef HYP_HAVE_ONEDNN
    if (status == HYP_OK) status = hyp_dnnl_open(limit, &d->dnnl, diag);
#endif
    if (status != HYP_OK) {
        device_close(d);
        return status;
    }
#ifdef HYP_HAVE_ONEDNN
    const dnnl_version_t *v = dnnl_version();
    snprintf(d->name, sizeof d->name, "cpu (oneDNN %d.%d.%d for %s, own kernels for %s)", v->major, v->minor, v->patch,
             hyp_dnnl_isa(), d->kernels->isa);
#else
    snprintf(d->name, sizeof d->name, "cpu (without oneDNN, own kernels for %s)", d->kernels->isa);
#endif
    name_tuning(d);
    *out_device = d;
    *out_name = d->name;
    return HYP_OK;
}

/* ---- threads ----------------------------------------------------------------------------------------------- */

void hyp_cpu_parallel(const hyp_cpu_run *run, int64_t count, int64_t grain, hyp_cpu_task *task, void *state)
{
    hyp_pool_run(run->device->pool, run->threads, count, grain, task, state);
}

/* ---- session ----------------------------------------------------------------------------------------------- */

static void session_destroy(void *opaque)
{
    hyp_cpu_session *s = opaque;
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_streams_destroy(s->streams);
#endif
    hyp_tuning_dispose(&s->tuning);
    hyp_host_memory_dispose(&s->memory);
    hyp_free(s);
}

static hyp_status session_create(void *model, const hyp_context_options *options, void **out_session, hyp_diag *diag)
{
    (void)options;
    hyp_cpu_session *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    s->model = model;
    hyp_status status = hyp_host_memory_init(&s->memory, s->model->plan, diag);
    if (status != HYP_OK) {
        hyp_free(s);
        return status;
    }
    status = hyp_tuning_init(&s->tuning, s->model->device->tuning_name, s->model->plan, diag);
#ifdef HYP_HAVE_ONEDNN
    if (status == HYP_OK)
        status = hyp_dnnl_streams_create(s->model->device->dnnl, s->model->device->threads, &s->streams, diag);
#endif
    hyp_pool_expect(s->model->device->pool, s->model->device->threads);
    if (status == HYP_OK)
        *out_session = s;
    else
        session_destroy(s);
    return status;
}

static bool take_model(void *opaque, void *model)
{
    hyp_cpu_session *s = opaque;
    s->model = model;
    hyp_host_memory_take_weights(&s->memory, s->model->plan);
    return true;
}

static size_t scratch_bytes(const void *opaque)
{
    const hyp_cpu_session *s = opaque;
    return hyp_host_memory_bytes(&s->memory);
}

static hyp_tuning *session_tuning(void *opaque) { return &((hyp_cpu_session *)opaque)->tuning; }

/* ---- steps ------------------------------------------------------------------------------------------------- */

hyp_status hyp_cpu_finish_op(hyp_cpu_op *op, hyp_status status, bool can, hyp_cpu_run_fn *run,
                             void (*destroy)(void *state), void *state)
{
    if (status != HYP_OK || !can) {
        destroy(state);
        return status;
    }
    op->run = run;
    op->destroy = destroy;
    op->state = state;
    return HYP_OK;
}

hyp_status hyp_cpu_keep_state(hyp_cpu_op *op, hyp_cpu_run_fn *run, const void *state, size_t size, hyp_diag *diag)
{
    op->state = hyp_malloc(size);
    if (!op->state) return hyp_fail_memory(diag, size);
    memcpy(op->state, state, size);
    op->run = run;
    op->destroy = hyp_free;
    return HYP_OK;
}

void *hyp_cpu_call_input(const hyp_cpu_run *run, const HypPlan__Call *call, size_t i)
{
    uint32_t tensor_plus1 = hyp_plan_call_input(call, i);
    return tensor_plus1 ? run->call.at[tensor_plus1 - 1] : NULL;
}

static hyp_status run_reference(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    return hyp_reference_step(&run->call, op->step, diag);
}

static hyp_status run_custom(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const hyp_custom_place place = {.values = run->call.values,
                                    .at = run->call.at,
                                    .workspace = run->call.work,
                                    .workspace_bytes = op->work_bytes,
                                    .loops = run->bindings ? run->bindings->loops : NULL};
    return hyp_custom_run(op->state, &place, diag);
}

/* Where all results are empty: other dims may be any numbers then, which no loop is to count up to. */
static hyp_status run_nothing(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)op, (void)run, (void)diag;
    return HYP_OK;
}

typedef hyp_status prepare_call_fn(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);

/* Kernels that this backend has something faster for. The functions leave op->run NULL where they do not apply (a type,
 * a mode), and the plain kernel runs. */
static const struct {
    const char *kernel;
    prepare_call_fn *prepare;
    hyp_cpu_form form;
} fast_calls[] = {
    {"resize", hyp_cpu_prepare_resize, HYP_CPU_OWN},     {"layer-norm", hyp_cpu_prepare_norm, HYP_CPU_OWN},
    {"rms-norm", hyp_cpu_prepare_norm, HYP_CPU_OWN},     {"max-pool", hyp_cpu_prepare_pool, HYP_CPU_OWN},
    {"average-pool", hyp_cpu_prepare_pool, HYP_CPU_OWN}, {"reduce-max", hyp_cpu_prepare_most, HYP_CPU_OWN},
    {"softmax-stats", hyp_cpu_prepare_stats, HYP_CPU_OWN},
    {"max-pool-gradient", hyp_cpu_prepare_pool_gradient, HYP_CPU_OWN},
    {"lstm", hyp_cpu_prepare_recurrent, HYP_CPU_OWN},    {"gru", hyp_cpu_prepare_recurrent, HYP_CPU_OWN},
    {"rnn", hyp_cpu_prepare_recurrent, HYP_CPU_OWN},     {"lstm-cells", hyp_cpu_prepare_recurrent, HYP_CPU_OWN},
    {"random-uniform", hyp_cpu_prepare_random, HYP_CPU_OWN},
    {"lstm-gradient", hyp_cpu_prepare_recurrent_gradient, HYP_CPU_OWN},
    {"gru-gradient", hyp_cpu_prepare_recurrent_gradient, HYP_CPU_OWN},
    {"rnn-gradient", hyp_cpu_prepare_recurrent_gradient, HYP_CPU_OWN},
    {"batch-norm-stats", hyp_cpu_prepare_batch_norm, HYP_CPU_OWN},
    {"batch-norm-gradient", hyp_cpu_prepare_batch_norm, HYP_CPU_OWN},
    {"attention-gradient", hyp_cpu_prepare_attention_gradient, HYP_CPU_OWN},
    {"norm-gradient", hyp_cpu_prepare_gradient, HYP_CPU_OWN},
    {"softmax-gradient", hyp_cpu_prepare_gradient, HYP_CPU_OWN},
#ifdef HYP_HAVE_ONEDNN
    {"conv", hyp_dnnl_prepare_window, HYP_CPU_ONEDNN},   {"conv-transpose", hyp_dnnl_prepare_window, HYP_CPU_ONEDNN},
    {"conv-backward-weights", hyp_dnnl_prepare_window, HYP_CPU_ONEDNN},
#endif
};

/* Its place in fast_calls; -1 where it is not there. */
static int find_call(const char *kernel)
{
    int i = (int)(sizeof fast_calls / sizeof *fast_calls);
    while (i-- > 0 && strcmp(fast_calls[i].kernel, kernel) != 0) {
    }
    return i;
}

hyp_cpu_form hyp_cpu_call_form(const char *kernel)
{
    int i = find_call(kernel);
    return i < 0 ? HYP_CPU_PLAIN : fast_calls[i].form;
}

/* In another form than the plain one. */
static hyp_status make_fast(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                            hyp_cpu_form form, hyp_cpu_op *op, hyp_diag *diag)
{
    if (form == HYP_CPU_DOUBLES) return hyp_cpu_prepare_doubles(model, values, op, diag);
    if (form == HYP_CPU_INTEGERS && op->step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL)
        return hyp_cpu_prepare_integer_conv(model, step, values, channels_last, op, diag);
    if (form == HYP_CPU_INTEGERS) return hyp_cpu_prepare_integers(model, step, values, op, diag);
    switch (op->step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return hyp_cpu_prepare_linear(model, step, values, form, op, diag);
    case HYP_PLAN__STEP__KERNEL_MATMUL:
#ifdef HYP_HAVE_ONEDNN
        if (form != HYP_CPU_OWN) return hyp_dnnl_prepare_matmul(model, op->step->matmul, values, op, diag);
#endif
        return hyp_cpu_prepare_matmul(model, values, op, diag);
    case HYP_PLAN__STEP__KERNEL_ATTENTION:
#ifdef HYP_HAVE_ONEDNN
        if (form == HYP_CPU_ONEDNN) return hyp_dnnl_prepare_attention(model, values, op, diag);
#endif
        return hyp_cpu_prepare_attention(model, values, op, diag);
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return hyp_cpu_prepare_pointwise(model, values, channels_last, op, diag);
    case HYP_PLAN__STEP__KERNEL_REDUCE: return hyp_cpu_prepare_reduce(model, values, channels_last, op, diag);
    case HYP_PLAN__STEP__KERNEL_COPY:
        return hyp_cpu_prepare_copy(model, step, values, channels_last, step ? op - 1 : NULL, op, diag);
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: hyp_cpu_prepare_softmax(model, op); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_CALL:
        if (form == HYP_CPU_WINDOWS || form == HYP_CPU_NEIGHBOURS)
            return hyp_cpu_prepare_windows(model, step, values, channels_last, form == HYP_CPU_NEIGHBOURS, op, diag);
        if (form == HYP_CPU_WINOGRAD) return hyp_cpu_prepare_winograd(model, step, values, channels_last, op, diag);
        if (form == HYP_CPU_DEPTHWISE) return hyp_cpu_prepare_depthwise(model, step, values, channels_last, op, diag);
        if (form == HYP_CPU_GROUPED) return hyp_cpu_prepare_grouped(model, step, values, channels_last, op, diag);
        if (form == HYP_CPU_COLUMNS) return hyp_cpu_prepare_columns(model, step, values, channels_last, op, diag);
        return fast_calls[find_call(op->step->call->kernel)].prepare(model, step, values, channels_last, op, diag);
    default: return HYP_OK;
    }
}

hyp_status hyp_cpu_make_op(hyp_cpu_session *s, uint32_t step, const hyp_cpu_prepared *p, hyp_cpu_form form, hyp_cpu_op *op,
                           hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const int64_t *values = p->values;
    op->step = program->steps[step];
    op->places = p->places;
    op->threads = form == HYP_CPU_ONEDNN_ALONE ? 1 : s->model->device->threads;
    if (op->step->kernel_case == HYP_PLAN__STEP__KERNEL_CUSTOM) {
        op->run = run_custom;
        op->state = s->model->plan->custom[step];
        return hyp_custom_prepare(op->state, values, &op->work_bytes, diag);
    }
    if (form == HYP_CPU_PLAIN) {
        op->run = run_reference;
        op->work_bytes = hyp_reference_work(program, op->step, values);
    } else {
        hyp_cpu_model *model = hyp_cpu_has_step(s->model, step) ? s->model : s->model->wide;
        HYP_TRY(make_fast(model, step, values, p->channels_last, form, op, diag));
        if (op->run && model->widens) HYP_TRY(hyp_cpu_widen_op(model->widens, values, op, diag));
    }
    if (op->run && hyp_plan_writes_nothing(program, op->step, values)) op->run = run_nothing;
    return HYP_OK;
}

hyp_status hyp_cpu_run_op(const hyp_cpu_session *s, const int64_t *values, const hyp_cpu_op *op,
                          const hyp_bindings *bindings, hyp_diag *diag)
{
    const hyp_cpu_run run = {.device = s->model->device,
                             .kernels = s->model->device->kernels,
                             .call = {s->model->plan->program, values, s->memory.at, s->memory.work},
                             .streams = s->streams,
                             .threads = s->model->device->threads,
                             .bindings = bindings};
    return op->run(op, &run, diag);
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

void hyp_cpu_release(const hyp_cpu_session *s, hyp_cpu_prepared *p)
{
    for (size_t i = 0; i < s->model->plan->program->n_steps; i++)
        if (p->ops[i].destroy) p->ops[i].destroy(p->ops[i].state);
    hyp_cpu_places_free(p->places);
    hyp_free(p->channels_last);
    hyp_free(p->choices);
    hyp_free(p);
}

/* Takes what is known or predicted to take least of those that there is a kernel for. */
static hyp_status prepare_op(hyp_cpu_session *s, uint32_t step, const hyp_tuning *known, hyp_cpu_prepared *p,
                             hyp_diag *diag)
{
    hyp_choice *c = &p->choices[step];
    hyp_cpu_op *op = &p->ops[step];
    if (p->places && p->places->copied[step]) {
        hyp_choice_init(c);
        hyp_choice_offer(c, "it lies there already", HYP_CPU_OWN, 0, NULL);
    }
    for (;;) {
        const hyp_alternative *a = hyp_choose(c, known);
        HYP_TRY(hyp_cpu_make_op(s, step, p, a ? (hyp_cpu_form)a->form : HYP_CPU_PLAIN, op, diag));
        if (op->run) break;
        c->list[c->taken].cannot = "it has no kernel for this";
        p->changed = true;
    }
    if (op->work_bytes > p->work_bytes) p->work_bytes = op->work_bytes;
    return HYP_OK;
}

/* Whether a call that oneDNN does not have got a layout that only oneDNN reads. */
static bool misses_layouts(const hyp_cpu_session *s, const hyp_cpu_prepared *p)
{
    bool misses = false;
    for (size_t i = 0; i < s->model->plan->program->n_steps; i++)
        misses = misses || (p->ops[i].step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL &&
                            p->ops[i].run == run_reference && hyp_uses_layouts(p->ops[i].step, p->channels_last));
    return misses;
}

typedef struct freedom {
    bool layouts, places; /* tensors may lie with the channels last, and in rows of others */
} freedom;

static hyp_status prepare_ops(hyp_cpu_session *s, const int64_t *values, freedom may, const hyp_tuning *known,
                              hyp_cpu_prepared **out, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t bytes = sizeof(hyp_cpu_prepared) + program->n_steps * sizeof(hyp_cpu_op);
    hyp_cpu_prepared *p = *out = hyp_calloc(1, bytes);
    if (!p) return hyp_fail_memory(diag, bytes);
    p->values = values;
    p->channels_last = hyp_calloc(program->n_tensors, sizeof *p->channels_last);
    p->choices = hyp_calloc(program->n_steps, sizeof *p->choices);
    if (!p->channels_last || !p->choices) return hyp_fail_memory(diag, program->n_steps * sizeof *p->choices);
#ifdef HYP_HAVE_ONEDNN
    _Static_assert((int)HYP_CPU_SPATIAL == (int)HYP_DNNL_SPATIAL, "the compiler foresees these");
    if (may.layouts)
        HYP_TRY(hyp_choose_cpu_layouts(program, values, p->channels_last, diag));
#endif
    for (uint32_t i = 0; i < program->n_steps; i++) {
        hyp_cpu_offer(s->model, i, values, p->channels_last, &p->choices[i]);
        hyp_choose(&p->choices[i], known);
    }
    p->serial = ++s->serials;
    if (may.places) HYP_TRY(hyp_cpu_choose_places(s, p, diag));
    for (uint32_t i = 0; i < program->n_steps; i++) HYP_TRY(prepare_op(s, i, known, p, diag));
    if (!p->places) return HYP_OK;
    p->rooms_at = p->work_bytes;
    return hyp_add_size(p->work_bytes, p->places->bytes, &p->work_bytes) ? HYP_OK : hyp_fail_memory(diag, SIZE_MAX);
}

/* All but the scratch memory. */
static hyp_status prepare_all_ops(hyp_cpu_session *s, const int64_t *values, const hyp_tuning *known, bool apart,
                                  hyp_cpu_prepared **out, hyp_diag *diag)
{
    hyp_cpu_prepared *p = NULL;
    freedom may = {.layouts = true, .places = !apart};
#ifdef HYP_HAVE_ONEDNN
    int threads_before = hyp_dnnl_set_threads(s->model->device->dnnl, 1);
#endif
    hyp_status status = prepare_ops(s, values, may, known, &p, diag);
    while (status == HYP_OK && (misses_layouts(s, p) || (p->places && p->changed))) { /* rare: everything again */
        may = (freedom){.layouts = !misses_layouts(s, p)};
        hyp_cpu_release(s, p);
        status = prepare_ops(s, values, may, known, &p, diag);
    }
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_set_threads(s->model->device->dnnl, threads_before);
#endif
    if (status == HYP_OK)
        *out = p;
    else if (p)
        hyp_cpu_release(s, p);
    return status;
}

hyp_status hyp_cpu_prepare(hyp_cpu_session *s, const int64_t *values, const hyp_tuning *known, bool apart,
                           hyp_cpu_prepared **out, hyp_diag *diag)
{
    hyp_cpu_prepared *p;
    HYP_TRY(prepare_all_ops(s, values, known, apart, &p, diag));
    hyp_status status = hyp_host_memory_grow(&s->memory, values, p->work_bytes, diag);
    s->placed = 0; /* memory has moved */
    if (status == HYP_OK)
        *out = p;
    else
        hyp_cpu_release(s, p);
    return status;
}

static hyp_status measure(void *opaque, const int64_t *values, size_t *out, hyp_diag *diag)
{
    hyp_cpu_session *s = opaque;
    hyp_cpu_prepared *p;
    size_t before = hyp_mem_used(hyp_mem_charged()), more;
    HYP_TRY(prepare_all_ops(s, values, &s->tuning, false, &p, diag));
    size_t notes = hyp_mem_used(hyp_mem_charged()) - before;
    hyp_status status = hyp_host_memory_growth(&s->memory, values, p->work_bytes, &more, diag);
    hyp_cpu_release(s, p);
    if (status == HYP_OK) *out = notes + more;
    return status;
}

static hyp_status prepare(void *opaque, const int64_t *values, void **out_prepared, hyp_diag *diag)
{
    hyp_cpu_session *s = opaque;
    hyp_cpu_prepared *p;
    HYP_TRY(hyp_cpu_prepare(s, values, &s->tuning, false, &p, diag));
    *out_prepared = p;
    return HYP_OK;
}

static void release(void *session, void *prepared) { hyp_cpu_release(session, prepared); }

static const hyp_choice *choices(const void *prepared, size_t step, size_t *out_count)
{
    *out_count = 1;
    return &((const hyp_cpu_prepared *)prepared)->choices[step];
}

/* ---- running ----------------------------------------------------------------------------------------------- */

typedef struct op_list {
    hyp_cpu_session *session;
    const hyp_cpu_prepared *prepared;
    const hyp_bindings *bindings;
} op_list;

static hyp_status run_op(void *list, size_t i, hyp_diag *diag)
{
    const op_list *l = list;
    return hyp_cpu_run_op(l->session, l->prepared->values, &l->prepared->ops[i], l->bindings, diag);
}

static hyp_status run_ops(hyp_cpu_session *s, const hyp_cpu_prepared *p, const hyp_bindings *bindings, hyp_diag *diag)
{
    op_list list = {s, p, bindings};
    return hyp_run_steps(bindings, s->model->plan->program, run_op, &list, diag);
}

static hyp_status run(void *opaque, void *opaque_prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    hyp_cpu_session *s = opaque;
    const hyp_cpu_prepared *p = opaque_prepared;
    hyp_cpu_take_places(s, p);
    hyp_host_memory_bind(&s->memory, bindings);
    hyp_cpu_device *device = s->model->device;
    const bool begins = device->threads > 1 && !bindings->within;
    if (begins) hyp_pool_begin_run(device->pool);
    hyp_status status = run_ops(s, p, bindings, diag);
    if (begins) hyp_pool_end_run(device->pool);
    return status;
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
    .load = hyp_cpu_load,
    .unload = hyp_cpu_unload,
    .load_bound = hyp_cpu_load_bound,
    .session_create = session_create,
    .session_destroy = session_destroy,
    .take_model = take_model,
    .scratch_bytes = scratch_bytes,
    .prepare = prepare,
    .release = release,
    .measure = measure,
    .run = run,
    .synchronize = synchronize,
    .choices = choices,
    .tuning = session_tuning,
    .tune = hyp_cpu_tune,
    .nn = &hyp_nn_backend_cpu,
};
