/* import_eval MODEL FOLDER [NAME=FILE.npy ...]: imports a model, checks the graph and evaluates it in the
 * reference interpreter; output i goes to FOLDER/i.npy. What judge_import.py compares with onnxruntime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/tensor_io.h"
#include "onnx/onnx.h"

static void check(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "%s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

static hyp_eval_tensor load(const hyp_graph *g, size_t input, int count, char **args, hyp_diag *diag)
{
    const char *name = g->values.data[g->inputs.data[input]].name;
    size_t len = strlen(name);
    hyp_eval_tensor t = {0};
    for (int i = 0; i < count; i++) {
        if (strncmp(args[i], name, len) != 0 || args[i][len] != '=') continue;
        hyp_tensor file;
        check(hyp_tensor_load(args[i] + len + 1, NULL, &file, diag), diag);
        check(hyp_eval_tensor_load(&t, &file, diag), diag);
        hyp_tensor_dispose(&file);
        return t;
    }
    fprintf(stderr, "no file for input %s\n", name);
    exit(2);
}

static void save(const char *folder, size_t output, const hyp_eval_tensor *t, hyp_diag *diag)
{
    char path[4096];
    hyp_tensor file = {.dtype = t->dtype, .rank = t->rank};
    memcpy(file.dims, t->dims, sizeof file.dims);
    check(hyp_tensor_alloc(&file, diag), diag);
    hyp_eval_tensor_store(t, file.data);
    snprintf(path, sizeof path, "%s/%zu.npy", folder, output);
    check(hyp_tensor_save(path, &file, diag), diag);
    hyp_tensor_dispose(&file);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    hyp_diag diag = {0};
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model;
    check(hyp_dims_create(&dims, &diag), &diag);
    hyp_graph_init(&g, dims);
    check(hyp_onnx_import(argv[1], NULL, &g, &model, &diag), &diag);
    check(hyp_graph_verify(&g, &diag), &diag);

    hyp_eval_tensor *inputs = calloc(g.inputs.len + 1, sizeof *inputs);
    hyp_eval_tensor *outputs = calloc(g.outputs.len + 1, sizeof *outputs);
    if (!inputs || !outputs) return 1;
    for (size_t i = 0; i < g.inputs.len; i++) inputs[i] = load(&g, i, argc - 3, argv + 3, &diag);
    check(hyp_graph_eval(&g, HYP_EVAL_NATIVE, inputs, g.inputs.len, outputs, &diag), &diag);
    for (size_t i = 0; i < g.outputs.len; i++) save(argv[2], i, &outputs[i], &diag);

    for (size_t i = 0; i < g.inputs.len; i++) hyp_eval_tensor_dispose(&inputs[i]);
    for (size_t i = 0; i < g.outputs.len; i++) hyp_eval_tensor_dispose(&outputs[i]);
    free(inputs);
    free(outputs);
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
    return 0;
}
