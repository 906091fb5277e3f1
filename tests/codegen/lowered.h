/* lowered.h - a graph as text and the program that it becomes: what tests of lowering have in common. */
#ifndef HYP_TESTS_LOWERED_H
#define HYP_TESTS_LOWERED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"

typedef struct fixture {
    hyp_dims *dims;
    hyp_graph graph;
    hyp_lowered lowered;
    const HypPlan__Program *p;
    char path[64];
    const char *target;
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "test_lower.%ld.bin", (long)getpid());
    f->target = "cpu";
    *state = f;
    return hyp_dims_create(&f->dims, NULL) == HYP_OK ? 0 : -1;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    hyp_lowered_dispose(&f->lowered);
    hyp_graph_dispose(&f->graph);
    hyp_dims_destroy(f->dims);
    unlink(f->path);
    free(f);
    return 0;
}

static inline void parse(fixture *f, const char *text)
{
    hyp_diag diag = {0};
    hyp_graph_init(&f->graph, f->dims);
    if (hyp_graph_parse(&f->graph, "test", text, strlen(text), &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static inline hyp_status try_lower(fixture *f, const char *text, hyp_precision precision, hyp_diag *diag)
{
    static const char *const flags[] = {"--disable-rule=x"};
    hyp_codegen_options options = {.target = hyp_target_find(f->target),
                                   .precision = precision,
                                   .producer = "test",
                                   .model_name = "m",
                                   .model_hash = 5,
                                   .flags = flags,
                                   .flag_count = 1};
    parse(f, text);
    HYP_TRY(hyp_codegen_lower(&f->graph, &options, &f->lowered, diag));
    f->p = f->lowered.program;
    return HYP_OK;
}

static inline void lower(fixture *f, const char *text)
{
    hyp_diag diag = {0};
    if (try_lower(f, text, HYP_PRECISION_FP32, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

/* What is predicted of the steps of a graph: how many there are, of which `out` has the first `room`. */
static inline size_t predict_steps(const char *text, const hyp_codegen_options *options, double *out, size_t room)
{
    hyp_diag diag = {0};
    fixture f = {0};
    assert_int_equal(hyp_dims_create(&f.dims, NULL), HYP_OK);
    parse(&f, text);
    if (hyp_codegen_lower(&f.graph, options, &f.lowered, &diag) != HYP_OK) fail_msg("%s", diag.message);
    const size_t count = f.lowered.program->n_steps;
    for (size_t i = 0; i < count && i < room; i++) out[i] = f.lowered.program->steps[i]->predicted_seconds;
    hyp_lowered_dispose(&f.lowered);
    hyp_graph_dispose(&f.graph);
    hyp_dims_destroy(f.dims);
    return count;
}

/* In the place of the one before. */
static inline void lower_another(fixture *f, const char *text)
{
    hyp_lowered_dispose(&f->lowered);
    hyp_graph_dispose(&f->graph);
    lower(f, text);
}

/* The labels of all steps, "linear add". */
static inline void assert_steps(const fixture *f, const char *want)
{
    char got[256] = "";
    for (size_t i = 0; i < f->p->n_steps; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", f->p->steps[i]->label);
    assert_string_equal(got, want);
}

static inline size_t count_place(const fixture *f, HypPlan__Place place)
{
    size_t count = 0;
    for (size_t i = 0; i < f->p->n_tensors; i++) count += f->p->tensors[i]->place == place;
    return count;
}

static inline int64_t dim_value(const fixture *f, uint32_t d)
{
    assert_int_equal(f->p->dims[d]->kind, HYP_PLAN__DIM__KIND__CONST);
    return f->p->dims[d]->value;
}

/* Writes the plan, opens it, and gives element i of its only weight tensor of this name. */
static inline double written_weight(fixture *f, const char *name, size_t i)
{
    hyp_diag diag = {0};
    hyp_plan plan;
    double value = 0;
    bool found = false;
    if (hyp_codegen_write(&f->lowered, f->path, NULL, NULL, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (hyp_plan_open_file(f->path, NULL, &plan, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t t = 0; t < plan.program->n_tensors; t++) {
        const HypPlan__Tensor *tensor = plan.program->tensors[t];
        if (tensor->place != HYP_PLAN__PLACE__PLACE_WEIGHT || strcmp(tensor->name, name) != 0) continue;
        assert_false(found);
        value = hyp_load_f64((hyp_dtype)tensor->dtype, plan.weights + tensor->offset, i);
        found = true;
    }
    assert_true(found);
    hyp_plan_close(&plan);
    return value;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
