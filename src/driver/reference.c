/* A model in the reference interpreter, for comparison. */
#include <string.h>

#include "base/dtype.h"
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
/* Tensors with the values and names of the graph's outputs, in one block that the caller frees after disposing of each.
 */
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

hyp_expect_options hyp_expectation(hyp_precision precision, const char *classes)
{
    hyp_expect_options o = {0};
    switch (precision) {
    case HYP_PRECISION_TF32: o.product_unit = 0x1p-11; break;
    case HYP_PRECISION_BF16: o.unit = 0x1p-8; break;
    case HYP_PRECISION_FP16:
        o.unit = 0x1p-11;
        o.largest = 65504;
        break;
    case HYP_PRECISION_FP8:
        o.unit = 0x1p-8;
        o.product_unit = 0x1p-4;
        break;
    default: break;
    }
    bool known = classes && *classes, approximates = known && strpbrk(classes, "A");
    bool rounds = !known || strpbrk(classes, "RA");
    o.determined = known && !rounds;
    o.any_inf = rounds || o.unit > 0;
    o.any_nan = o.any_inf || strpbrk(classes, "N");
    if (approximates && o.unit < 0x1p-11) o.unit = 0x1p-11;
    return o;
}

/* Results of a graph as tensors: values alone, or with tolerances where `o` is given. */
static hyp_status evaluate(const hyp_graph *g, bool exact, const hyp_expect_options *o, const hyp_tensor *inputs,
                           size_t input_count, hyp_tensor **out_values, hyp_tensor **out_tolerances, hyp_diag *diag)
{
    size_t count = g->inputs.len + 2 * g->outputs.len;
    hyp_eval_tensor *tensors = hyp_calloc(count ? count : 1, sizeof *tensors);
    if (!tensors) return hyp_fail_memory(diag, count * sizeof *tensors);
    hyp_eval_tensor *results = tensors + g->inputs.len;
    hyp_status status = hyp_load_inputs(g, inputs, input_count, tensors, diag);
    if (status == HYP_OK && o)
        status = hyp_graph_expect(g, tensors, g->inputs.len, o, results, results + g->outputs.len, diag);
    else if (status == HYP_OK)
        status = hyp_graph_eval(g, exact ? HYP_EVAL_DOUBLE : HYP_EVAL_NATIVE, tensors, g->inputs.len, results, diag);
    hyp_tensor *values = NULL;
    if (status == HYP_OK) status = store_outputs(g, results, &values, diag);
    if (status == HYP_OK && o) status = store_outputs(g, results + g->outputs.len, out_tolerances, diag);
    if (status == HYP_OK)
        *out_values = values;
    else
        hyp_free_outputs(values, g->outputs.len);
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&tensors[i]);
    hyp_free(tensors);
    return status;
}

static void cut_tensor(hyp_tensor *t, uint32_t axis, int64_t count)
{
    size_t outer = 1, inner = hyp_dtype_size(t->dtype);
    for (uint32_t a = 0; a < axis; a++) outer *= (size_t)t->dims[a];
    for (int32_t a = (int32_t)axis + 1; a < t->rank; a++) inner *= (size_t)t->dims[a];
    hyp_cut_axis(t->data, outer, (size_t)t->dims[axis] * inner, (size_t)count * inner);
    t->dims[axis] = count;
    t->bytes = outer * (size_t)count * inner;
}

void hyp_cut_outputs(const hyp_graph *g, hyp_tensor *values, hyp_tensor *tolerances)
{
    for (size_t i = 0; i < g->sizes.len; i++) {
        const hyp_data_size *s = &g->sizes.data[i];
        int64_t count = ((const int64_t *)values[s->count].data)[0];
        if (values[s->output].dims[s->axis] == count) continue; /* there is no more, or it was cut before */
        cut_tensor(&values[s->output], s->axis, count);
        if (tolerances) cut_tensor(&tolerances[s->output], s->axis, count);
    }
}

/* What the model has, as it has it. */
static void show_outputs(const hyp_graph *g, hyp_tensor *values, hyp_tensor *tolerances, size_t *out_count)
{
    hyp_cut_outputs(g, values, tolerances);
    *out_count = hyp_graph_shown(g);
    for (size_t i = *out_count; i < g->outputs.len; i++) {
        hyp_tensor_dispose(&values[i]);
        if (tolerances) hyp_tensor_dispose(&tolerances[i]);
    }
}

void hyp_free_outputs(hyp_tensor *tensors, size_t count)
{
    for (size_t i = 0; tensors && i < count; i++) hyp_tensor_dispose(&tensors[i]);
    hyp_free(tensors);
}

hyp_status hyp_expect_outputs(const hyp_graph *g, const hyp_expect_options *o, const hyp_tensor *inputs, size_t count,
                              hyp_tensor **out_values, hyp_tensor **out_tolerances, hyp_diag *diag)
{
    return evaluate(g, false, o, inputs, count, out_values, out_tolerances, diag);
}

struct hyp_reference {
    hyp_dims *dims;
    hyp_graph graph;
    hyp_onnx_model *model;
};

void hyp_reference_close(hyp_reference *r)
{
    if (!r) return;
    hyp_graph_dispose(&r->graph);
    hyp_onnx_model_destroy(r->model);
    hyp_dims_destroy(r->dims);
    hyp_free(r);
}

hyp_status hyp_reference_open(const char *model_path, hyp_reference **out, hyp_diag *diag)
{
    HYP_NEED(model_path);
    hyp_onnx_options options = {0};
    hyp_reference *r = hyp_calloc(1, sizeof *r);
    if (!r) return hyp_fail_memory(diag, sizeof *r);
    hyp_status status = hyp_dims_create(&r->dims, diag);
    if (status == HYP_OK) {
        hyp_graph_init(&r->graph, r->dims);
        status = hyp_onnx_import(model_path, &options, &r->graph, &r->model, diag);
    }
    if (status == HYP_OK)
        *out = r;
    else
        hyp_reference_close(r);
    return status;
}

uint64_t hyp_reference_hash(const hyp_reference *reference)
{
    return reference ? hyp_onnx_model_info(reference->model).hash : 0;
}

hyp_status hyp_reference_run(const hyp_reference *reference, bool exact, const hyp_tensor *inputs, size_t input_count,
                             hyp_tensor **out_outputs, size_t *out_count, hyp_diag *diag)
{
    HYP_NEED(reference);
    HYP_NEED_LIST(inputs, input_count);
    HYP_NEED(out_outputs);
    HYP_NEED(out_count);
    HYP_TRY(evaluate(&reference->graph, exact, NULL, inputs, input_count, out_outputs, NULL, diag));
    show_outputs(&reference->graph, *out_outputs, NULL, out_count);
    return HYP_OK;
}

hyp_status hyp_reference_expect(const hyp_reference *reference, const char *precision, const char *classes,
                                const hyp_tensor *inputs, size_t input_count, hyp_tensor **out_values,
                                hyp_tensor **out_tolerances, size_t *out_count, hyp_diag *diag)
{
    hyp_precision p;
    HYP_NEED(reference);
    HYP_NEED_LIST(inputs, input_count);
    HYP_NEED(out_values);
    HYP_NEED(out_tolerances);
    HYP_NEED(out_count);
    HYP_TRY(hyp_precision_parse(precision, &p, diag));
    hyp_expect_options o = hyp_expectation(p, classes);
    HYP_TRY(evaluate(&reference->graph, false, &o, inputs, input_count, out_values, out_tolerances, diag));
    show_outputs(&reference->graph, *out_values, *out_tolerances, out_count);
    return HYP_OK;
}
