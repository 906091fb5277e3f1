/* export.c - the model behind a training step: kept in its plan, and written with what was trained. */
#include <string.h>

#include "driver/driver.h"
#include "onnx/skeleton.h"
#include "plan/plan.h"

static const size_t most_kept = (size_t)64 << 20; /* bytes: a plan has it besides its weights, and is to load fast */

hyp_status hyp_keep_model(hyp_onnx_model *model, const hyp_graph *step, hyp_lowered *lowered, hyp_diag *diag)
{
    size_t count = step->variables.len;
    const char **names = hyp_calloc(count + 1, sizeof *names);
    if (!names) return hyp_fail_memory(diag, count * sizeof *names);
    for (size_t i = 0; i < count; i++) names[i] = hyp_graph_variable(step, i)->name;
    hyp_strbuf text = {0};
    hyp_diag why = {0};
    hyp_status status = hyp_onnx_model_skeleton(model, names, count, most_kept, &text, &why);
    char *copy = status == HYP_OK ? hyp_arena_alloc(&lowered->arena, text.len) : NULL;
    if (copy) {
        memcpy(copy, hyp_strbuf_text(&text), text.len);
        lowered->program->model = (ProtobufCBinaryData){text.len, (uint8_t *)copy};
    } else if (status == HYP_OK) {
        status = hyp_fail_memory(diag, text.len);
    } else if (status == HYP_ERR_LIMIT) {
        status = HYP_OK; /* export is given the model then */
    } else {
        hyp_fail(diag, status, "%s", why.message);
    }
    hyp_strbuf_dispose(&text);
    hyp_free(names);
    return status;
}

/* The initializers whose elements are replaced are variables of the plan. */
static hyp_status make_from_model(const char *model_path, const HypPlan__Program *program, hyp_strbuf *out,
                                  hyp_diag *diag)
{
    hyp_dims *dims;
    HYP_TRY(hyp_dims_create(&dims, diag));
    hyp_graph graph;
    hyp_graph_init(&graph, dims);
    hyp_onnx_model *model = NULL;
    size_t count = program->n_variables;
    const char **names = hyp_calloc(count + 1, sizeof *names);
    for (size_t i = 0; i < count && names; i++)
        names[i] = program->tensors[program->inputs[program->variables[i]->input]]->name;
    hyp_status status = names ? hyp_onnx_import(model_path, NULL, &graph, &model, diag) : hyp_fail_memory(diag, count);
    if (status == HYP_OK && hyp_onnx_model_info(model).hash != program->model_hash)
        status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: is not the model that the plan was made of", model_path);
    if (status == HYP_OK) status = hyp_onnx_model_skeleton(model, names, count, SIZE_MAX, out, diag);
    hyp_free(names);
    hyp_graph_dispose(&graph);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
    return status;
}

static hyp_status write_model(const char *path, const char *what, const void *skeleton, size_t size,
                              const hyp_tensor *tensors, size_t count, hyp_diag *diag)
{
    hyp_outfile file = {0};
    HYP_TRY(hyp_outfile_open(&file, path, diag));
    hyp_status status = hyp_onnx_skeleton_fill(skeleton, size, what, tensors, count, &file, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    return status;
}

hyp_status hyp_model_export(const char *plan_path, const char *model_path, const hyp_tensor *tensors, size_t count,
                            const char *onnx_path, hyp_diag *diag)
{
    HYP_NEED(plan_path);
    HYP_NEED(onnx_path);
    HYP_NEED_LIST(tensors, count);
    if (hyp_same_file(plan_path, onnx_path) || (model_path && hyp_same_file(model_path, onnx_path)))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: would overwrite what is read; write to another file",
                        onnx_path);
    hyp_plan plan;
    HYP_TRY(hyp_plan_open_file(plan_path, NULL, &plan, diag));
    ProtobufCBinaryData kept = plan.program->model;
    hyp_strbuf made = {0};
    hyp_status status = HYP_OK;
    if (!plan.program->n_variables)
        status = hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: is no training step: hypatiac --train makes one", plan_path);
    else if (model_path)
        status = make_from_model(model_path, plan.program, &made, diag);
    else if (!kept.len)
        status = hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                          "%s: keeps no model, which takes more than %zu MiB without what is trained: give it, too",
                          plan_path, most_kept >> 20);
    if (status == HYP_OK)
        status = write_model(onnx_path, model_path ? model_path : plan_path,
                             model_path ? (const void *)hyp_strbuf_text(&made) : kept.data,
                             model_path ? made.len : kept.len, tensors, count, diag);
    hyp_strbuf_dispose(&made);
    hyp_plan_close(&plan);
    return status;
}
