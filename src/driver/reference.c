/* A model in the reference interpreter, for comparison. */
#include <string.h>

#include "driver/driver.h"
#include "hypatia/tensor_io.h"

const hyp_tensor *hyp_find_input(const hyp_graph *g, size_t i, const hyp_tensor *inputs, size_t count)
{
    const char *name = g->values.data[g->inputs.data[i]].name;
    for (size_t k = 0; k < count; k++)
        if (inputs[k].name && strcmp(inputs[k].name, name) == 0) return &inputs[k];
    return i < count && !inputs[i].name ? &inputs[i] : NULL;
}

hyp_status hyp_load_inputs(const hyp_graph *g, const hyp_tensor *inputs, size_t count, hyp_eval_tensor *out,
                           hyp_diag *diag)
{
    for (size_t i = 0; i < g->inputs.len; i++) {
        const hyp_value *value = &g->values.data[g->inputs.data[i]];
        const hyp_tensor *from = hyp_find_input(g, i, inputs, count);
        if (!from) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no tensor was given for input '%s'", value->name);
        if (from->dtype != value->type.dtype)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' has type %s, but the model declares %s",
                            value->name, hyp_dtype_name(from->dtype), hyp_dtype_name(value->type.dtype));
        HYP_TRY(hyp_eval_tensor_load(&out[i], from, diag));
    }
    return HYP_OK;
}

/* Tensors with the values and names of the graph's outputs. One block holds the array and the names. */
static hyp_status store_outputs(const hyp_graph *g, const hyp_eval_tensor *values, hyp_tensor **out, hyp_diag *diag)
{
    size_t count = g->outputs.len, size = (count ? count : 1) * sizeof(hyp_tensor);
    for (size_t i = 0; i < count; i++) size += strlen(g->outputs.data[i].name) + 1;
    hyp_tensor *tensors = hyp_calloc(1, size);
    if (!tensors) return hyp_fail_memory(diag, size);
    char *name = (char *)(tensors + (count ? count : 1));
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        hyp_tensor *t = &tensors[i];
        *t = (hyp_tensor){.name = name, .dtype = values[i].dtype, .rank = values[i].rank};
        memcpy(t->dims, values[i].dims, sizeof t->dims);
        size_t len = strlen(g->outputs.data[i].name) + 1;
        memcpy(name, g->outputs.data[i].name, len);
        name += len;
        status = hyp_tensor_alloc(t, diag);
        if (status == HYP_OK) hyp_eval_tensor_store(&values[i], t->data);
    }
    if (status == HYP_OK) {
        *out = tensors;
        return HYP_OK;
    }
    for (size_t i = 0; i < count; i++) hyp_tensor_dispose(&tensors[i]);
    hyp_free(tensors);
    return status;
}

static hyp_status evaluate(const hyp_graph *g, bool exact, const hyp_tensor *inputs, size_t input_count,
                           hyp_tensor **out_outputs, hyp_diag *diag)
{
    size_t count = g->inputs.len + g->outputs.len;
    hyp_eval_tensor *tensors = hyp_calloc(count ? count : 1, sizeof *tensors), *results = tensors + g->inputs.len;
    if (!tensors) return hyp_fail_memory(diag, count * sizeof *tensors);
    hyp_status status = hyp_load_inputs(g, inputs, input_count, tensors, diag);
    if (status == HYP_OK)
        status = hyp_graph_eval(g, exact ? HYP_EVAL_DOUBLE : HYP_EVAL_NATIVE, tensors, g->inputs.len, results, diag);
    if (status == HYP_OK) status = store_outputs(g, results, out_outputs, diag);
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&tensors[i]);
    hyp_free(tensors);
    return status;
}

hyp_status hyp_reference_run(const char *model_path, bool exact, const hyp_tensor *inputs, size_t input_count,
                             hyp_tensor **out_outputs, size_t *out_count, hyp_diag *diag)
{
    hyp_dims *dims;
    HYP_TRY(hyp_dims_create(&dims, diag));
    hyp_graph g;
    hyp_graph_init(&g, dims);
    hyp_onnx_model *model = NULL;
    hyp_onnx_options options = {0};
    hyp_status status = hyp_onnx_import(model_path, &options, &g, &model, diag);
    if (status == HYP_OK) status = evaluate(&g, exact, inputs, input_count, out_outputs, diag);
    if (status == HYP_OK) *out_count = g.outputs.len;
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
    return status;
}
