/* step_eval MODEL FOLDER STEPS [OPTION=VALUE ...]: makes a training step of a model and runs it STEPS times in the
 * reference interpreter. Step k reads FOLDER/in_K_I.npy, or in_I.npy where that is missing, for input I, and writes
 * FOLDER/out_K_I.npy for output I and FOLDER/var_K_I.npy for variable I after it.
 * Prints a line for each input, output and variable: "input x". Options are the fields of hyp_train_options;
 * class_weights=FILE.npy; frozen=PATTERN, which may be repeated; mode=double. What judge_steps.py and judge_torch.py
 * compare with numpy and PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hypatia/tensor_io.h"
#include "onnx/onnx.h"
#include "train/train.h"

enum { MOST_FROZEN = 16 };

typedef struct setup {
    hyp_train_options o;
    const char *frozen[MOST_FROZEN];
    hyp_tensor weights;
    hyp_eval_mode mode;
} setup;

static void check(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "%s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

static void read_option(setup *s, char *text, hyp_diag *diag)
{
    char *value = strchr(text, '=');
    if (!value) exit(2);
    *value++ = 0;
    const struct {
        const char *name;
        double *number;
    } numbers[] = {{"label_smoothing", &s->o.label_smoothing},
                   {"momentum", &s->o.momentum},
                   {"epsilon", &s->o.epsilon},
                   {"weight_decay", &s->o.weight_decay},
                   {"beta1", &s->o.beta1},
                   {"beta2", &s->o.beta2},
                   {"clip_norm", &s->o.clip_norm},
                   {"loss_scale", &s->o.loss_scale}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, text) == 0) {
            *numbers[i].number = strtod(value, NULL);
            return;
        }
    if (strcmp(text, "loss") == 0)
        s->o.loss = value;
    else if (strcmp(text, "output") == 0)
        s->o.output = value;
    else if (strcmp(text, "optimizer") == 0)
        s->o.optimizer = value;
    else if (strcmp(text, "nesterov") == 0)
        s->o.nesterov = true;
    else if (strcmp(text, "dropout") == 0)
        s->o.dropout = true;
    else if (strcmp(text, "gradients") == 0)
        s->o.gradients = true;
    else if (strcmp(text, "data_parallel") == 0)
        s->o.data_parallel = true;
    else if (strcmp(text, "ignore_index") == 0)
        s->o.ignore_index = strtoll(value, NULL, 10);
    else if (strcmp(text, "frozen") == 0 && s->o.frozen_count < MOST_FROZEN)
        s->frozen[s->o.frozen_count++] = value;
    else if (strcmp(text, "mode") == 0)
        s->mode = strcmp(value, "double") == 0 ? HYP_EVAL_DOUBLE : HYP_EVAL_NATIVE;
    else if (strcmp(text, "class_weights") == 0) {
        check(hyp_tensor_load(value, NULL, &s->weights, diag), diag);
        s->o.class_weights = s->weights.data;
        s->o.class_weight_count = s->weights.bytes / sizeof(float);
    } else {
        fprintf(stderr, "no option %s\n", text);
        exit(2);
    }
    s->o.frozen = s->frozen;
}

static void load(const char *folder, long k, size_t i, hyp_eval_tensor *out, hyp_diag *diag)
{
    char path[4096];
    hyp_tensor file;
    snprintf(path, sizeof path, "%s/in_%ld_%zu.npy", folder, k, i);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/in_%zu.npy", folder, i);
    check(hyp_tensor_load(path, NULL, &file, diag), diag);
    check(hyp_eval_tensor_load(out, &file, diag), diag);
    hyp_tensor_dispose(&file);
}

/* In double, floats are written as such. */
static void save(const char *folder, const char *kind, long k, size_t i, const hyp_eval_tensor *t, hyp_eval_mode mode,
                 hyp_diag *diag)
{
    char path[4096];
    hyp_eval_tensor wide = *t;
    if (mode == HYP_EVAL_DOUBLE && t->f) wide.dtype = HYP_F64;
    hyp_tensor file = {.dtype = wide.dtype, .rank = t->rank};
    memcpy(file.dims, t->dims, sizeof file.dims);
    check(hyp_tensor_alloc(&file, diag), diag);
    hyp_eval_tensor_store(&wide, file.data);
    snprintf(path, sizeof path, "%s/%s_%ld_%zu.npy", folder, kind, k, i);
    check(hyp_tensor_save(path, &file, diag), diag);
    hyp_tensor_dispose(&file);
}

static void load_variable(const hyp_value *v, hyp_eval_tensor *out, hyp_diag *diag)
{
    hyp_tensor file = {.dtype = v->type.dtype, .rank = v->type.rank};
    memcpy(file.dims, v->type.dims, sizeof file.dims);
    check(hyp_tensor_alloc(&file, diag), diag);
    if (v->data) memcpy(file.data, v->data, v->bytes);
    check(hyp_eval_tensor_load(out, &file, diag), diag);
    hyp_tensor_dispose(&file);
}

static void print_names(const hyp_graph *g)
{
    for (size_t i = 0; i < hyp_graph_shown_inputs(g); i++) printf("input %s\n", g->values.data[g->inputs.data[i]].name);
    for (size_t i = 0; i < hyp_graph_shown(g); i++) printf("output %s\n", g->outputs.data[i].name);
    for (size_t i = 0; i < g->variables.len; i++) printf("variable %s\n", hyp_graph_variable(g, i)->name);
}

static void run(const hyp_graph *g, const setup *s, const char *folder, long steps, hyp_diag *diag)
{
    size_t shown = hyp_graph_shown_inputs(g), count = g->inputs.len;
    hyp_eval_tensor *inputs = calloc(count + 1, sizeof *inputs), *outputs = calloc(g->outputs.len + 1, sizeof *outputs);
    if (!inputs || !outputs) exit(1);
    for (size_t i = 0; i < g->variables.len; i++) load_variable(hyp_graph_variable(g, i), &inputs[shown + i], diag);
    for (long k = 0; k < steps; k++) {
        for (size_t i = 0; i < shown; i++) load(folder, k, i, &inputs[i], diag);
        check(hyp_graph_eval(g, s->mode, inputs, count, outputs, diag), diag);
        for (size_t i = 0; i < shown; i++) hyp_eval_tensor_dispose(&inputs[i]);
        for (size_t i = 0; i < hyp_graph_shown(g); i++) save(folder, "out", k, i, &outputs[i], s->mode, diag);
        for (size_t i = 0; i < g->variables.len; i++) {
            hyp_eval_tensor *new = &outputs[g->variables.data[i].output];
            save(folder, "var", k, i, new, s->mode, diag);
            hyp_eval_tensor_dispose(&inputs[shown + i]);
            inputs[shown + i] = *new;
            *new = (hyp_eval_tensor){0};
        }
        for (size_t i = 0; i < g->outputs.len; i++) hyp_eval_tensor_dispose(&outputs[i]);
    }
    for (size_t i = 0; i < g->variables.len; i++) hyp_eval_tensor_dispose(&inputs[shown + i]);
    free(inputs);
    free(outputs);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    static const char *const all[] = {"*"};
    setup s = {.o = HYP_TRAIN_OPTIONS_INIT, .mode = HYP_EVAL_NATIVE};
    hyp_diag diag = {0};
    hyp_dims *dims;
    hyp_graph g, step;
    hyp_onnx_model *model;
    for (int i = 4; i < argc; i++) read_option(&s, argv[i], &diag);
    hyp_onnx_options import = {.updatable = all, .updatable_count = 1, .states = true, .dropout = s.o.dropout};
    check(hyp_dims_create(&dims, &diag), &diag);
    hyp_graph_init(&g, dims);
    check(hyp_onnx_import(argv[1], &import, &g, &model, &diag), &diag);
    check(hyp_train_step(&g, &s.o, &step, &diag), &diag);
    check(hyp_graph_verify(&step, &diag), &diag);
    print_names(&step);
    run(&step, &s, argv[2], strtol(argv[3], NULL, 10), &diag);
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
    hyp_tensor_dispose(&s.weights);
    return 0;
}
