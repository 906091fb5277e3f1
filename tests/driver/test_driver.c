/* The compiler as a library: reports, options, and what happens when memory runs out. */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "hypatia/compiler.h"
#include "hypatia/tensor_io.h"
#include "plan/plan.h"

#define MODEL HYP_SOURCE_DIR "/examples/digits/digits.onnx"
#define TINY HYP_SOURCE_DIR "/tests/models/tiny_mlp.onnx"

/* One per process, so that tests can run side by side. */
static const char *plan_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/hyp_test_driver_%ld.bin", (long)getpid());
    return path;
}

static void append(const char *text, size_t len, void *sb) { hyp_strbuf_add(sb, text, len); }

static hyp_compile_options defaults(void) { return (hyp_compile_options){.size = sizeof(hyp_compile_options)}; }

static void report_tells_what_was_done(void **state)
{
    (void)state;
    hyp_compile_report *report = NULL;
    hyp_diag diag = {0};
    assert_int_equal(hyp_compile_file(MODEL, plan_path(), NULL, &report, &diag), HYP_OK);
    assert_int_equal(report->nodes_imported, 12);
    assert_int_equal(report->nodes_before, 12);
    assert_int_equal(report->nodes_after, 2); /* all layers are one, and the softmax */
    assert_int_equal(report->plan_steps, 2);
    assert_non_null(strstr(report->steps, "fused-mlp"));
    assert_non_null(strstr(report->steps, "layer3/MatMul"));
    assert_true(report->cost_after < report->cost_before);
    assert_true(report->plan_seconds > 0 && report->plan_seconds < report->cost_before);
    assert_true(report->rule_count > 20 && report->iterations > 0 && report->e_nodes > 12);
    assert_true(report->plan_bytes > 70000);
    hyp_compile_report_destroy(report);
    unlink(plan_path());
}

/* The bytes are those of the way through files, and nothing is left open. */
static void models_and_plans_may_be_in_memory(void **state)
{
    (void)state;
    hyp_compile_report *report = NULL;
    hyp_diag diag = {0};
    hyp_mapping model, plan;
    void *from_file = NULL, *from_memory = NULL, *none = NULL;
    size_t file_size, memory_size;
    glob_t before, after;
    assert_int_equal(hyp_compile_file(MODEL, plan_path(), NULL, NULL, &diag), HYP_OK);
    assert_int_equal(hyp_map_file(plan_path(), &plan, &diag), HYP_OK);
    assert_int_equal(hyp_map_file(MODEL, &model, &diag), HYP_OK);
    assert_int_equal(glob("/proc/self/fd/*", 0, NULL, &before), 0);
    if (hyp_compile_to_memory(MODEL, NULL, &from_file, &file_size, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (hyp_compile_memory(model.data, model.size, NULL, &from_memory, &memory_size, &report, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(file_size, plan.size);
    assert_memory_equal(from_file, plan.data, plan.size);
    assert_int_equal(memory_size, plan.size);
    assert_memory_equal(from_memory, plan.data, plan.size);
    assert_int_equal(report->plan_steps, 2);
    hyp_compile_report_destroy(report);
    free(from_file);
    free(from_memory);

    assert_int_equal(hyp_compile_memory(model.data, model.size / 2, NULL, &none, &memory_size, NULL, &diag),
                     HYP_ERR_MALFORMED);
    assert_int_equal(hyp_compile_to_memory("no such model", NULL, &none, &memory_size, NULL, &diag), HYP_ERR_IO);
    assert_int_equal(hyp_compile_memory(NULL, 0, NULL, &none, &memory_size, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_compile_to_memory(MODEL, NULL, NULL, &memory_size, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_null(none);
    assert_int_equal(glob("/proc/self/fd/*", 0, NULL, &after), 0);
    assert_int_equal(after.gl_pathc, before.gl_pathc);
    globfree(&before);
    globfree(&after);
    hyp_unmap(&model);
    hyp_unmap(&plan);
    unlink(plan_path());
}

/* What was minimised and what the plan is said to take are one figure. */
static void the_plan_costs_what_rewriting_says(void **state)
{
    (void)state;
    static const char *const targets[] = {"cpu", "cuda"}, *const precisions[] = {"fp32", "bf16"};
    glob_t models;
    assert_int_equal(glob(HYP_SOURCE_DIR "/tests/models/torch/*.onnx", 0, NULL, &models), 0);
    assert_true(models.gl_pathc >= 10);
    for (size_t i = 0; i < models.gl_pathc * 4; i++) {
        hyp_compile_options options = defaults();
        options.target = targets[i & 1];
        options.precision = precisions[i >> 1 & 1];
        hyp_compile_report *report = NULL;
        hyp_diag diag = {0};
        if (hyp_compile_file(models.gl_pathv[i / 4], NULL, &options, &report, &diag) != HYP_OK)
            fail_msg("%s: %s", models.gl_pathv[i / 4], diag.message);
        double other = fabs(report->cost_after - report->plan_seconds);
        if (!(other <= 1e-9 * report->plan_seconds))
            fail_msg("%s, %s, %s: %g by rewriting, %g by the plan", models.gl_pathv[i / 4], options.target,
                     options.precision, report->cost_after, report->plan_seconds);
        hyp_compile_report_destroy(report);
    }
    globfree(&models);
}

/* Layers in 8 bits are made of the graph that was chosen, and were priced as such before. A sample of zeros gives a
 * first layer a scale of 1, which no other does. */
static void layers_in_8_bits_cost_what_rewriting_says(void **state)
{
    (void)state;
    static const struct {
        const char *model, *input;
        hyp_dtype dtype;
        int32_t rank;
        int64_t dims[4];
        double value;
    } cases[] = {{MODEL, "image", HYP_F32, 2, {2, 64}, 0},
                 {MODEL, "image", HYP_F32, 2, {2, 64}, 1},
                 {HYP_SOURCE_DIR "/tests/models/torch/vit-dynamo.onnx", "image", HYP_F32, 4, {1, 3, 16, 16}, 0.5},
                 {HYP_SOURCE_DIR "/tests/models/torch/mixer-script.onnx", "image", HYP_F32, 4, {1, 3, 16, 16}, 0.5},
                 {HYP_SOURCE_DIR "/tests/models/torch/decoder-script.onnx", "x", HYP_F32, 3, {1, 4, 16}, 0.5}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        float data[3 * 16 * 16];
        for (size_t k = 0; k < sizeof data / sizeof *data; k++) data[k] = (float)cases[i / 2].value;
        hyp_tensor sample = {
            .name = cases[i / 2].input, .dtype = cases[i / 2].dtype, .rank = cases[i / 2].rank, .data = data};
        memcpy(sample.dims, cases[i / 2].dims, sizeof cases[i / 2].dims);
        sample.bytes = sizeof(float);
        for (int32_t a = 0; a < sample.rank; a++) sample.bytes *= (size_t)sample.dims[a];
        const hyp_samples samples = {&sample, 1};
        hyp_compile_options options = defaults();
        options.target = i & 1 ? "cuda" : "cpu";
        options.precision = "fp8";
        options.samples = &samples;
        options.samples_count = 1;
        hyp_compile_report *report = NULL;
        hyp_diag diag = {0};
        if (hyp_compile_file(cases[i / 2].model, NULL, &options, &report, &diag) != HYP_OK)
            fail_msg("%s: %s", cases[i / 2].model, diag.message);
        if (cases[i / 2].value == 0) assert_non_null(strstr(report->layers, "x scaled by 1,"));
        assert_non_null(strstr(report->layers, "x scaled by"));
        if (!(fabs(report->cost_after - report->plan_seconds) <= 1e-9 * report->plan_seconds))
            fail_msg("%s, %s: %g by rewriting, %g by the plan", cases[i / 2].model, options.target, report->cost_after,
                     report->plan_seconds);
        hyp_compile_report_destroy(report);
    }
}

/* "L relu relu;L none;": the layers of every step. */
static void describe_steps(const char *path, hyp_strbuf *out)
{
    hyp_plan plan;
    hyp_diag diag = {0};
    if (hyp_plan_open_file(path, NULL, &plan, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t i = 0; i < plan.program->n_steps; i++) {
        const HypPlan__Step *step = plan.program->steps[i];
        hyp_strbuf_printf(out, "%d", (int)step->kernel_case);
        if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR)
            for (size_t l = 0; l < step->linear->n_layers; l++)
                hyp_strbuf_printf(out, " %d", (int)step->linear->layers[l]->act);
        hyp_strbuf_puts(out, ";");
    }
    hyp_plan_close(&plan);
}

typedef struct seen {
    size_t parts, most;
    double second; /* of the first part */
} seen;

static hyp_status look_at_forms(const hyp_compile_forms *forms, size_t *out, void *user, hyp_diag *diag)
{
    seen *s = user;
    hyp_strbuf steps[HYP_COMPILE_FORMS] = {{0}};
    assert_int_equal(*out, 0);
    if (forms->whole) return HYP_OK;
    if (s->parts++ == 0) s->second = forms->seconds[1];
    if (forms->count > s->most) s->most = forms->count;
    for (size_t i = 0; i < forms->count; i++) {
        if (forms->write(forms, i, plan_path(), diag) != HYP_OK) fail_msg("%s", diag->message);
        describe_steps(plan_path(), &steps[i]);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(forms->ids[k], forms->ids[i]);
            assert_string_not_equal(hyp_strbuf_text(&steps[k]), hyp_strbuf_text(&steps[i]));
        }
        assert_true(forms->seconds[i] <= 1.1 * forms->seconds[0]);
        if (i > 1) assert_true(forms->seconds[i] >= forms->seconds[i - 1]);
    }
    for (size_t i = 0; i < forms->count; i++) hyp_strbuf_dispose(&steps[i]);
    return HYP_OK;
}

/* Forms of a part are close, come by price, and are plans of different steps, as many as were asked for. */
static void forms_of_parts_are_the_best_with_other_steps(void **state)
{
    (void)state;
    seen few = {0}, many = {0};
    hyp_compile_options options = defaults();
    hyp_diag diag = {0};
    int64_t wide = 4096; /* rows, so that a launch more is little */
    const char *batch = "batch";
    options.typical_names = &batch;
    options.typical_values = &wide;
    options.typical_count = 1;
    options.choose_form = look_at_forms;
    options.choose_form_user = &few;
    options.forms = 2;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, &diag), HYP_OK);
    options.choose_form_user = &many;
    options.forms = HYP_COMPILE_FORMS;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, &diag), HYP_OK);
    assert_int_equal(few.most, 2);
    assert_true(many.most > 2 && many.second == few.second);
    options.forms = HYP_COMPILE_FORMS + 1;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "2 to 8"));
    unlink(plan_path());
}

static double predicted(int64_t typical)
{
    static const char *const names[] = {"batch"};
    hyp_compile_options options = defaults();
    options.typical_names = names;
    options.typical_values = &typical;
    options.typical_count = 1;
    hyp_compile_report *report = NULL;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, &report, NULL), HYP_OK);
    double seconds = report->plan_seconds;
    hyp_compile_report_destroy(report);
    return seconds;
}

static void typical_sizes_change_predictions_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"batsch"};
    static const int64_t value = 4;
    assert_true(predicted(1) < predicted(32));
    assert_true(predicted(32) < predicted(4096));
    hyp_compile_options options = defaults();
    options.typical_names = names;
    options.typical_values = &value;
    options.typical_count = 1;
    hyp_diag diag = {0};
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "no symbolic dim 'batsch'; it has batch"));
}

static void dry_run_writes_nothing(void **state)
{
    (void)state;
    hyp_compile_report *report = NULL;
    assert_int_equal(hyp_compile_file(MODEL, NULL, NULL, &report, NULL), HYP_OK);
    assert_int_equal(report->plan_bytes, 0);
    assert_int_equal(access(plan_path(), F_OK), -1);
    hyp_compile_report_destroy(report);
}

static void no_rewrite_keeps_every_node(void **state)
{
    (void)state;
    hyp_compile_options options = defaults();
    options.no_rewrite = true;
    hyp_compile_report *report = NULL;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, &report, NULL), HYP_OK);
    assert_int_equal(report->nodes_after, report->nodes_before);
    assert_int_equal(report->rule_count, 0);
    assert_null(strstr(report->steps, "fused"));
    hyp_compile_report_destroy(report);
}

static void dumped_graph_has_its_stage(void **state)
{
    (void)state;
    hyp_strbuf before = {0}, after = {0};
    hyp_compile_options options = defaults();
    options.dump_ir = append;
    options.dump_ir_stage = "import";
    options.dump_ir_user = &before;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, NULL), HYP_OK);
    options.dump_ir_stage = "rewrite";
    options.dump_ir_user = &after;
    assert_int_equal(hyp_compile_file(MODEL, NULL, &options, NULL, NULL), HYP_OK);
    assert_null(strstr(hyp_strbuf_text(&before), "fused-mlp"));
    assert_non_null(strstr(hyp_strbuf_text(&after), "fused-mlp"));
    hyp_strbuf_dispose(&before);
    hyp_strbuf_dispose(&after);
}

static void rewrites_are_lines_of_json(void **state)
{
    (void)state;
    hyp_strbuf lines = {0};
    hyp_compile_options options = defaults();
    options.dump_rewrites = append;
    options.dump_rewrites_user = &lines;
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, NULL), HYP_OK);
    const char *text = hyp_strbuf_text(&lines);
    assert_true(lines.len > 0 && text[0] == '{' && text[lines.len - 1] == '\n');
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_memory_equal(line, "{\"phase\":\"", 10);
        assert_non_null(strstr(line, "\"cost_before\":"));
    }
    hyp_strbuf_dispose(&lines);
}

/* What was told of a compilation. */
typedef struct told {
    hyp_strbuf phases; /* "import fold ..." */
    const char *phase;
    size_t most_nodes, iterations;
    double best, seconds;
    uint64_t done, total;
} told;

static void note_progress(const hyp_compile_progress *p, void *user)
{
    told *t = user;
    assert_int_equal(p->size, sizeof *p);
    assert_true(p->seconds >= t->seconds && p->seconds_left == -1 && (p->total == 0 || p->done <= p->total));
    assert_true(p->best >= 0 && (t->best == 0 || p->best <= t->best)); /* it gets no worse */
    if (!t->phase || strcmp(t->phase, p->phase) != 0) hyp_strbuf_printf(&t->phases, "%s ", p->phase);
    t->phase = p->phase;
    t->seconds = p->seconds;
    t->best = p->best;
    if (p->e_nodes > t->most_nodes) t->most_nodes = p->e_nodes;
    if (p->iteration > t->iterations) t->iterations = p->iteration;
    if (strcmp(p->phase, "write") != 0) return;
    t->done = p->done;
    t->total = p->total;
}

static void progress_is_told_and_changes_nothing(void **state)
{
    (void)state;
    told t = {0};
    void *silent, *watched;
    size_t silent_size, watched_size;
    hyp_compile_report *report;
    hyp_compile_options options = defaults();
    assert_int_equal(hyp_compile_to_memory(MODEL, &options, &silent, &silent_size, NULL, NULL), HYP_OK);
    options.on_progress = note_progress;
    options.on_progress_user = &t;
    assert_int_equal(hyp_compile_to_memory(MODEL, &options, &watched, &watched_size, &report, NULL), HYP_OK);
    assert_int_equal(silent_size, watched_size);
    assert_memory_equal(silent, watched, silent_size);
    assert_string_equal(hyp_strbuf_text(&t.phases), "import demote train rewrite fold normalize recognize optimize extract quantize "
                                                    "recompute lower expect write ");
    assert_true(t.most_nodes >= report->e_nodes && t.iterations > 1);
    assert_true(fabs(t.best - report->cost_after) < 1e-15);
    assert_true(t.total == t.done && t.total > 70000 && t.total < silent_size);
    hyp_compile_report_destroy(report);
    hyp_strbuf_dispose(&t.phases);
    free(silent);
    free(watched);
}

static void note_left(const hyp_compile_progress *p, void *user)
{
    double *left = user;
    assert_true(p->seconds_left >= 0 && p->seconds_left <= 1000 && p->seconds_left <= *left);
    *left = p->seconds_left;
}

static void progress_tells_the_time_that_is_left(void **state)
{
    (void)state;
    double left = 1000;
    hyp_compile_options options = defaults();
    options.max_seconds = 1000;
    options.on_progress = note_left;
    options.on_progress_user = &left;
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, NULL), HYP_OK);
    assert_true(left < 1000 && left > 0);
}

static void disabled_rule_is_not_used(void **state)
{
    (void)state;
    static const char *const disabled[] = {"no-such-rule"};
    hyp_compile_options options = defaults();
    options.disabled_rules = disabled;
    options.disabled_rule_count = 1;
    hyp_diag diag = {0};
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "no-such-rule"));
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_compile_options options = defaults();
    options.target = "abacus";
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "abacus"));
    assert_non_null(strstr(diag.message, "cuda"));
    options = defaults();
    options.size = 0;
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "sizeof(hyp_compile_options)"));
    options = defaults();
    options.profile = "/nonexistent.profile";
    assert_int_equal(hyp_compile_file(TINY, NULL, &options, NULL, &diag), HYP_ERR_IO);
    assert_int_equal(hyp_compile_file("/nonexistent.onnx", NULL, NULL, NULL, &diag), HYP_ERR_IO);
    assert_non_null(strstr(diag.message, "nonexistent.onnx"));
}

static void same_model_gives_the_same_bytes(void **state)
{
    (void)state;
    hyp_mapping first, second;
    assert_int_equal(hyp_compile_file(MODEL, plan_path(), NULL, NULL, NULL), HYP_OK);
    assert_int_equal(hyp_map_file(plan_path(), &first, NULL), HYP_OK);
    assert_int_equal(hyp_compile_file(MODEL, plan_path(), NULL, NULL, NULL), HYP_OK);
    assert_int_equal(hyp_map_file(plan_path(), &second, NULL), HYP_OK);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    hyp_unmap(&first);
    hyp_unmap(&second);
    unlink(plan_path());
}

static void reference_run_gives_named_outputs(void **state)
{
    (void)state;
    hyp_tensor images = {0}, *outputs = NULL;
    size_t count = 0;
    assert_int_equal(hyp_tensor_load(HYP_SOURCE_DIR "/examples/digits/images.npy", NULL, &images, NULL), HYP_OK);
    images.dims[0] = 3;
    images.bytes = 3 * 64 * 4;
    hyp_reference *model = NULL;
    assert_int_equal(hyp_reference_open(MODEL, &model, NULL), HYP_OK);
    assert_int_equal(hyp_reference_run(model, true, &images, 1, &outputs, &count, NULL), HYP_OK);
    assert_int_equal(count, 1);
    assert_string_equal(outputs[0].name, "probabilities");
    assert_int_equal(outputs[0].dims[0], 3);
    assert_int_equal(outputs[0].dims[1], 10);
    for (int64_t row = 0; row < 3; row++) {
        double sum = 0;
        for (int64_t i = 0; i < 10; i++) sum += hyp_tensor_at(&outputs[0], row * 10 + i);
        assert_true(sum > 0.999999 && sum < 1.000001);
    }
    hyp_tensor_dispose(&outputs[0]);
    free(outputs);

    hyp_diag diag = {0};
    assert_int_equal(hyp_reference_run(model, true, NULL, 0, &outputs, &count, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "image"));
    hyp_tensor_dispose(&images);
    hyp_reference_close(model);
}

/* Fails the n-th allocation for n = 1, 2, ... until the compilation succeeds: every path of running out of memory. */
static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    hyp_status status;
    uint64_t n = 1;
    do {
        hyp_compile_report *report = NULL;
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        status = hyp_compile_file(TINY, plan_path(), NULL, &report, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, hyp_status_name(status), diag.message);
        hyp_compile_report_destroy(report);
        n += n < 200 ? 1 : n / 64; /* thinned out, to take a second and no more */
    } while (status != HYP_OK && n < 10000000);
    assert_int_equal(status, HYP_OK);
    unlink(plan_path());
}

/* The variables of a step as zeros, in `storage`, which has room for each. */
static size_t zeros_for(const hyp_plan *plan, const float *storage, hyp_tensor *out)
{
    const HypPlan__Program *p = plan->program;
    int64_t *values = calloc(p->n_dims + 1, sizeof *values);
    int64_t symbols[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_non_null(values);
    assert_int_equal(hyp_plan_eval_dims(p, symbols, values, NULL), HYP_OK);
    for (size_t i = 0; i < p->n_variables; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[p->variables[i]->input]];
        out[i] = (hyp_tensor){.name = t->name, .data = (void *)(uintptr_t)storage, .dtype = (hyp_dtype)t->dtype};
        out[i].bytes = hyp_dtype_size(out[i].dtype);
        for (size_t a = 0; a < t->n_dims; a++) {
            out[i].dims[out[i].rank++] = values[t->dims[a]];
            out[i].bytes *= (size_t)values[t->dims[a]];
        }
    }
    free(values);
    return p->n_variables;
}

/* So does what becomes of a step: its plan keeps a model, into which elements are put again. */
static void exporting_without_memory_leaves_nothing(void **state)
{
    (void)state;
    enum { MOST = 32 };
    static const float zeros[65536];
    char onnx_path[80];
    const hyp_train_options train = {.size = sizeof train, .loss = "mse", .optimizer = "sgd", .weight_decay = -1};
    hyp_compile_options o = defaults();
    hyp_tensor tensors[MOST];
    hyp_diag diag = {0};
    hyp_plan plan;
    hyp_status status;
    uint64_t n = 1;
    snprintf(onnx_path, sizeof onnx_path, "%s.onnx", plan_path());
    o.train = &train;
    do {
        hyp_mem_fail_after(n);
        status = hyp_compile_file(TINY, plan_path(), &o, NULL, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("%llu: %s", (unsigned long long)n, diag.message);
        n += n < 100 ? 1 : n / 16;
    } while (status != HYP_OK);
    assert_int_equal(hyp_plan_open_file(plan_path(), NULL, &plan, &diag), HYP_OK);
    assert_true(plan.program->model.len > 0 && plan.program->n_variables <= MOST);
    size_t count = zeros_for(&plan, zeros, tensors);
    for (int given = 0; given < 2; given++) {
        n = 0;
        do {
            unlink(onnx_path);
            hyp_mem_fail_after(++n);
            status = hyp_model_export(plan_path(), given ? TINY : NULL, tensors, count, onnx_path, &diag);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("%llu: %s", (unsigned long long)n, diag.message);
            assert_int_equal(access(onnx_path, F_OK) == 0, status == HYP_OK);
        } while (status != HYP_OK);
        assert_true(n > 10);
        assert_int_equal(hyp_compile_file(onnx_path, NULL, NULL, NULL, &diag), HYP_OK);
    }
    assert_int_equal(hyp_model_export(plan_path(), NULL, tensors, count - 1, onnx_path, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_model_export(plan_path(), MODEL, tensors, count, onnx_path, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_model_export(plan_path(), NULL, tensors, count, plan_path(), NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_model_export(TINY, NULL, tensors, count, onnx_path, NULL), HYP_ERR_MALFORMED);
    assert_int_equal(hyp_model_export(NULL, NULL, tensors, count, onnx_path, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_model_export(plan_path(), NULL, NULL, 1, onnx_path, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_plan_close(&plan);
    unlink(plan_path());
    unlink(onnx_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_and_plans_may_be_in_memory),
        cmocka_unit_test(report_tells_what_was_done),
        cmocka_unit_test(the_plan_costs_what_rewriting_says),
        cmocka_unit_test(layers_in_8_bits_cost_what_rewriting_says),
        cmocka_unit_test(forms_of_parts_are_the_best_with_other_steps),
        cmocka_unit_test(typical_sizes_change_predictions_alone),
        cmocka_unit_test(dry_run_writes_nothing),
        cmocka_unit_test(no_rewrite_keeps_every_node),
        cmocka_unit_test(dumped_graph_has_its_stage),
        cmocka_unit_test(rewrites_are_lines_of_json),
        cmocka_unit_test(progress_is_told_and_changes_nothing),
        cmocka_unit_test(progress_tells_the_time_that_is_left),
        cmocka_unit_test(disabled_rule_is_not_used),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(same_model_gives_the_same_bytes),
        cmocka_unit_test(reference_run_gives_named_outputs),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(exporting_without_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
