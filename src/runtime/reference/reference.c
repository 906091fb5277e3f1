/* The reference backend: runs a plan step by step with the plain kernels. */
#include "runtime/reference/reference.h"

#include "runtime/core/custom.h"
#include "runtime/core/host_memory.h"
#include "runtime/nn/nn.h"

hyp_status hyp_reference_step(const hyp_reference_call *call, const HypPlan__Step *step, hyp_diag *diag)
{
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: hyp_reference_linear(call, step->linear); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_MATMUL: hyp_reference_matmul(call, step->matmul); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: hyp_reference_attention(call, step->attention); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_POINTWISE: hyp_reference_pointwise(call, step->pointwise); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: hyp_reference_softmax(call, step->softmax); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_REDUCE: hyp_reference_reduce(call, step->reduce); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_COPY: hyp_reference_copy(call, step->copy); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_GATHER: return hyp_reference_gather(call, step->gather, diag);
    case HYP_PLAN__STEP__KERNEL_FILL: hyp_reference_fill(call, step->fill); return HYP_OK;
    case HYP_PLAN__STEP__KERNEL_CALL: return hyp_reference_run_call(call, step->call, diag);
    default: return hyp_fail(diag, HYP_ERR_INTERNAL, "a step of kind %d passed the validator", (int)step->kernel_case);
    }
}

size_t hyp_reference_work(const HypPlan__Program *program, const HypPlan__Step *step, const int64_t *values)
{
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_CALL: return hyp_reference_call_work(program, step->call, values);
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return (size_t)values[step->attention->keys] * sizeof(double);
    default: return 0;
    }
}

static hyp_status device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                              const char **out_name, hyp_diag *diag)
{
    (void)options, (void)log, (void)diag;
    *out_device = NULL; /* there is no state */
    *out_name = "reference (plain C)";
    return HYP_OK;
}

static void device_close(void *device) { (void)device; }

static hyp_status model_load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    (void)device;
    *out_model = (void *)(uintptr_t)plan; /* weights are used where they lie */
    HYP_TRY(hyp_custom_check(plan, false, diag));
    return hyp_reference_check_calls(plan->program, diag);
}

static void model_unload(void *model) { (void)model; }

static hyp_status most_work(const hyp_plan *plan, const int64_t *values, size_t *most, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    for (size_t i = 0; i < p->n_steps; i++) {
        size_t bytes = hyp_reference_work(p, p->steps[i], values);
        if (plan->custom && plan->custom[i]) HYP_TRY(hyp_custom_prepare(plan->custom[i], values, &bytes, diag));
        if (bytes > *most) *most = bytes;
    }
    return HYP_OK;
}

static hyp_status measure(void *opaque, const int64_t *values, size_t *out, hyp_diag *diag)
{
    const hyp_host_memory *m = opaque;
    size_t work_bytes = 0;
    HYP_TRY(most_work(m->plan, values, &work_bytes, diag));
    return hyp_host_memory_growth(m, values, work_bytes, out, diag);
}

/* A prepared shape is nothing but the values of the dims. */
static hyp_status prepare(void *opaque, const int64_t *values, void **out_prepared, hyp_diag *diag)
{
    hyp_host_memory *m = opaque;
    size_t work_bytes = 0;
    HYP_TRY(most_work(m->plan, values, &work_bytes, diag));
    HYP_TRY(hyp_host_memory_grow(m, values, work_bytes, diag));
    *out_prepared = (void *)(uintptr_t)values;
    return HYP_OK;
}

static void release(void *opaque, void *prepared) { (void)opaque, (void)prepared; }

typedef struct steps {
    const hyp_host_memory *memory;
    hyp_reference_call call;
    const hyp_bindings *bindings;
} steps;

static hyp_status run_step(void *opaque, size_t i, hyp_diag *diag)
{
    const hyp_host_memory *m = ((const steps *)opaque)->memory;
    const hyp_reference_call *call = &((const steps *)opaque)->call;
    const HypPlan__Step *step = call->program->steps[i];
    const hyp_custom_place place = {.values = call->values,
                                    .at = m->at,
                                    .workspace = m->work,
                                    .workspace_bytes = m->work_bytes,
                                    .loops = ((const steps *)opaque)->bindings->loops};
    if (m->plan->custom && m->plan->custom[i]) return hyp_custom_run(m->plan->custom[i], &place, diag);
    return hyp_plan_writes_nothing(call->program, step, call->values) ? HYP_OK : hyp_reference_step(call, step, diag);
}

static hyp_status run(void *opaque, void *prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    hyp_host_memory *m = opaque;
    const HypPlan__Program *p = m->plan->program;
    hyp_host_memory_bind(m, bindings);
    steps s = {m, {p, prepared, m->at, m->work}, bindings};
    return hyp_run_steps(bindings, p, run_step, &s, diag);
}

const hyp_backend hyp_backend_reference = {
    .name = "reference",
    .kind = HYP_DEVICE_REFERENCE,
    .open = device_open,
    .close = device_close,
    .load = model_load,
    .unload = model_unload,
    .session_create = hyp_host_session_create,
    .session_destroy = hyp_host_session_destroy,
    .take_model = hyp_host_session_take_model,
    .scratch_bytes = hyp_host_session_bytes,
    .prepare = prepare,
    .release = release,
    .measure = measure,
    .run = run,
    .synchronize = hyp_host_synchronize,
    .nn = &hyp_nn_backend_reference,
};
