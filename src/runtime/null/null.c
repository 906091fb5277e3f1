/* A backend that does almost nothing: everything that a device must supply is here, and kernels for two kinds of step.
 *
 * For a new one, copy this folder, give things the device's name, and fill in `kernels` one kind after the other;
 * tests/conformance tells after each what is there and right, and what still has to be refused. docs/adding.md has the whole
 * way. Plans come validated, so kernels check neither indexes nor sizes, only what data can be wrong about.
 */
#include "runtime/null/null.h"

#include <string.h>

#include "base/dtype.h"
#include "plan/box_walk.h"
#include "runtime/core/host_memory.h"

/* One set of shapes that is being run. */
typedef struct run_state {
    const HypPlan__Program *program;
    const int64_t *values; /* by dim */
    void *const *at;       /* by tensor: its address */
} run_state;

/* ---- kernels ------------------------------------------------------------------------------------------------- */

typedef hyp_status kernel(const run_state *r, const HypPlan__Step *step, hyp_diag *diag);

static hyp_status run_copy(const run_state *r, const HypPlan__Step *step, hyp_diag *diag)
{
    const HypPlan__Copy *s = step->copy;
    size_t size = hyp_dtype_size((hyp_dtype)r->program->tensors[s->x]->dtype);
    const char *x = r->at[s->x];
    char *y = r->at[s->y];
    hyp_walk w;
    hyp_walk_init(&w, r->values, s->extents, s->n_extents);
    hyp_walk_lane(&w, r->values, s->x_strides, r->values[s->x_offset]);
    hyp_walk_lane(&w, r->values, s->y_strides, r->values[s->y_offset]);
    int64_t count = hyp_walk_count(&w);
    for (int64_t i = 0; i < count; i++, hyp_walk_next(&w))
        memcpy(y + w.offset[1] * (int64_t)size, x + w.offset[0] * (int64_t)size, size);
    (void)diag;
    return HYP_OK;
}

static hyp_status run_fill(const run_state *r, const HypPlan__Step *step, hyp_diag *diag)
{
    int64_t *y = r->at[step->fill->y];
    for (size_t i = 0; i < step->fill->n_values; i++) y[i] = r->values[step->fill->values[i]];
    (void)diag;
    return HYP_OK;
}

/* By kind of step (plan.proto); NULL: the backend cannot run it, and says so when a plan with one is loaded. */
static kernel *const kernels[] = {
    [HYP_PLAN__STEP__KERNEL_COPY] = run_copy,
    [HYP_PLAN__STEP__KERNEL_FILL] = run_fill,
};

static kernel *kernel_of(const HypPlan__Step *step)
{
    size_t kind = (size_t)step->kernel_case;
    return kind < sizeof kernels / sizeof *kernels ? kernels[kind] : NULL;
}

/* ---- device: one for every engine -------------------------------------------------------------------------------- */

static hyp_status device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                              const char **out_name, hyp_diag *diag)
{
    (void)options, (void)log, (void)diag; /* HYP_ERR_DEVICE where there is no such device, and why */
    *out_device = NULL;
    *out_name = "null (copies and fills in host memory)";
    return HYP_OK;
}

static void device_close(void *device) { (void)device; }

/* ---- model: a plan on the device, shared by all contexts of the engine and never changed ------------------------------- */

static hyp_status model_load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag)
{
    (void)device; /* weights would be packed or sent to the device here */
    for (size_t i = 0; i < plan->program->n_steps; i++) {
        const HypPlan__Step *step = plan->program->steps[i];
        if (!kernel_of(step))
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "step %zu: the null backend has no kernel for %s", i,
                            hyp_plan_kernel_name(step));
    }
    *out_model = (void *)(uintptr_t)plan;
    return HYP_OK;
}

static void model_unload(void *model) { (void)model; }

/* A session, which is what one context owns, is host memory here; a device's has a stream, a struct and functions of its
 * own. */

/* ---- prepared: one set of shapes, as often as it is run ------------------------------------------------------------ */

static hyp_status prepare(void *session, const int64_t *values, void **out_prepared, hyp_diag *diag)
{
    HYP_TRY(hyp_host_memory_grow(session, values, 0,
                                 diag)); /* scratch; only grows, so what was prepared before stays valid */
    *out_prepared = (void *)(uintptr_t)values;
    return HYP_OK;
}

static void release(void *session, void *prepared) { (void)session, (void)prepared; }

static hyp_status measure(void *session, const int64_t *values, size_t *out, hyp_diag *diag)
{
    return hyp_host_memory_growth(session, values, 0, out, diag);
}

static hyp_status run_step(void *opaque, size_t i, hyp_diag *diag)
{
    const run_state *r = opaque;
    return kernel_of(r->program->steps[i])(r, r->program->steps[i], diag);
}

static hyp_status run(void *session, void *prepared, const hyp_bindings *bindings, hyp_diag *diag)
{
    hyp_host_memory *m = session;
    hyp_host_memory_bind(m, bindings);
    run_state r = {m->plan->program, prepared, m->at};
    return hyp_run_steps(bindings, r.program, run_step, &r, diag);
}

/* What is not here is optional: tuning, and choices to tell of. */
const hyp_backend hyp_backend_null = {
    .name = "null",
    .kind =
        HYP_DEVICE_AUTO, /* a backend of users' gets a kind of its own in hypatia/runtime.h, and a row in backends.c */
    .memory = HYP_MEMORY_HOST,
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
};
