/* hypatia/onnx.h - from an ONNX file to an engine in one call, for programs that link libhypatia and libhypatia-rt.
 *
 * All of it is inline: neither library depends on the other. Compiling takes seconds for a large model; a program that starts often
 * compiles once, with hyp_compile_file or hypatiac, and loads the plan.
 */
#ifndef HYPATIA_ONNX_H
#define HYPATIA_ONNX_H

#include <stdlib.h>
#include <string.h>

#include "hypatia/compiler.h"
#include "hypatia/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A hyp_run_plan_fn: runs a plan for its verification. `device` points to the hyp_engine_options that it is run with; NULL: the
 * defaults. */
HYP_INLINE hyp_status hyp_onnx_run_plan(const char *plan_path, const hyp_plan_run *runs, size_t count, void *device,
                                           hyp_diag *diag)
{
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_status status = hyp_engine_load_file(plan_path, (const hyp_engine_options *)device, &engine, diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, diag);
    size_t in = hyp_engine_input_count(engine), out = hyp_engine_output_count(engine);
    for (size_t i = 0; i < count && status == HYP_OK; i++) { /* variables come behind inputs and outputs */
        const hyp_plan_run *r = &runs[i];
        size_t before = r->input_count > in ? r->input_count - in : 0;
        size_t after = r->output_count > out ? r->output_count - out : 0;
        if (before) status = hyp_context_variable_set(context, r->inputs + in, before, diag);
        if (status == HYP_OK)
            status = hyp_context_run(context, r->inputs, r->input_count - before, r->outputs, r->output_count - after, diag);
        if (status == HYP_OK && after) status = hyp_context_variable_get(context, r->outputs + out, after, diag);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return status;
}

/* Compiles a model and loads the plan, which is in memory alone and goes with the engine. Both options may be NULL; the plan is
 * verified by running it as `load` says, unless `compile` brings a run_plan of its own or says that nothing is to be verified.
 * load->release is not called. The errors of hyp_compile_file and hyp_engine_load_memory. *out is owned by the caller. */
HYP_NODISCARD HYP_INLINE hyp_status hyp_engine_load_onnx(const char *model_path, const hyp_compile_options *compile,
                                                            const hyp_engine_options *load, hyp_engine **out,
                                                            hyp_diag *diag)
{
    hyp_compile_options how;
    hyp_engine_options where;
    void *plan;
    size_t size;
    memset(&how, 0, sizeof how);
    memset(&where, 0, sizeof where);
    if (compile) how = *compile;
    if (load) where = *load;
    how.size = sizeof how;
    where.size = sizeof where;
    where.release = NULL;
    if (!how.run_plan) {
        how.run_plan = hyp_onnx_run_plan;
        how.run_plan_user = &where;
    }
    hyp_status status = hyp_compile_to_memory(model_path, &how, &plan, &size, NULL, diag);
    if (status != HYP_OK) return status;
    where.release = free;
    where.release_user = plan;
    status = hyp_engine_load_memory(plan, size, &where, out, diag);
    if (status != HYP_OK) free(plan);
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
