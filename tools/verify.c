/* hypatia verify - compares what a plan computes with its model in the reference interpreter. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia.h"
#include "hypatia/compiler.h"
#include "resident.h"
#include "terminal.h"

enum { OPT_MODEL = SESSION_OPTION_COUNT, OPT_RTOL, OPT_ATOL, OPT_ANY, OPT_RESIDENT };

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_MODEL] = {"model", 'm', "FILE", "the model that the plan was compiled from"},
    [OPT_RTOL] = {"rtol", 0, "X", "one relative tolerance for all, against the model in double (1e-3)"},
    [OPT_ATOL] = {"atol", 0, "X", "one absolute tolerance for all, so, too (1e-5)"},
    [OPT_ANY] = {"any-model", 0, NULL, "compare also with a model that the plan was not compiled from"},
    [OPT_RESIDENT] = {"resident", 0, NULL, "run on tensors in the device's memory, as a pipeline on a GPU does"},
    {0},
};

static const char tool[] = "hypatia verify";

typedef struct request {
    session_options session;
    const char *model;
    double rtol, atol;
    bool fixed; /* tolerances were given */
    bool any_model;
    bool resident;
} request;

static void help(void)
{
    printf(
        "Usage: hypatia verify PLAN.bin [--model MODEL.onnx] [options]\n"
        "Without a model: runs the plan on inputs whose results it keeps, and compares. With it:\n"
        "Runs both on the same inputs (random:0 where none is given), prints the mean, the largest and the largest\n"
        "relative difference, where it is and what tolerance would pass; the last line is PASSED or FAILED. Each "
        "element "
        "has\na tolerance of its own, from the plan's precision and from what is summed, or, where --rtol or --atol is "
        "given,\nit passes when |plan - model| <= atol + rtol |model|.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 passed, 1 error, 2 usage, 4 mismatch, 5 incompatible plan.\n");
}

static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    request *r = opaque;
    switch (option) {
    case OPT_MODEL: r->model = value; return CLI_OK;
    case OPT_RTOL: r->fixed = true; return read_tolerance(args, value, &r->rtol);
    case OPT_ATOL: r->fixed = true; return read_tolerance(args, value, &r->atol);
    case OPT_ANY: r->any_model = true; return CLI_OK;
    case OPT_RESIDENT: r->resident = true; return CLI_OK;
    default: return session_read_option(&r->session, args, option, value);
    }
}

static void free_all(hyp_tensor *tensors, size_t count)
{
    for (size_t k = 0; tensors && k < count; k++) hyp_tensor_dispose(&tensors[k]);
    free(tensors);
}

static void print_elsewhere(const hyp_judgement *j)
{
    if (j->undecided)
        printf("; %lld of %lld elements are undecided: they hang on a rounding", (long long)j->undecided,
               (long long)j->elements);
}

/* One output with a tolerance for every element. */
static int judge_output(const char *name, const hyp_tensor *actual, const hyp_tensor *expected,
                        const hyp_tensor *tolerance)
{
    hyp_judgement j = {.size = sizeof j};
    hyp_diag diag = {0};
    if (hyp_tensor_judge(actual, expected, tolerance, &j, &diag) != HYP_OK) {
        cli_error(tool, "output %s: %s", cli_shown(name), diag.message);
        return CLI_MISMATCH;
    }
    print_tensor_type(stdout, name, actual);
    if (j.max_abs_at >= 0) {
        printf(": mean difference %.3g, largest difference %.3g at ", j.mean_abs, j.max_abs);
        print_tensor_place(stdout, actual, j.max_abs_at);
        printf(" (%.9g, wanted %.9g), largest relative %.3g", hyp_tensor_at(actual, j.max_abs_at),
               hyp_tensor_at(expected, j.max_abs_at), j.max_rel);
    }
    print_elsewhere(&j);
    if (!j.outside) {
        if (j.worst_at >= 0 && j.worst_abs > 0)
            printf("; at most %.2g of what is allowed (%.2g of %.2g)", j.worst_abs / j.worst_allowed, j.worst_abs,
                   j.worst_allowed);
        putchar('\n');
        return CLI_OK;
    }
    printf("\n  %lld of %lld elements differ by more than is allowed; the worst at ", (long long)j.outside,
           (long long)j.elements);
    print_tensor_place(stdout, actual, j.worst_at);
    printf(": %.9g, wanted %.9g within %.2g; ", hyp_tensor_at(actual, j.worst_at), hyp_tensor_at(expected, j.worst_at),
           j.worst_allowed);
    if (j.factor < HUGE_VAL)
        printf("tolerances %.2g times as large would pass\n", j.factor);
    else
        puts("no larger tolerances would pass");
    return CLI_MISMATCH;
}

/* Whether the plan was compiled from this model; CLI_USAGE after a message. */
static int check_model(const session *s, const request *r, const hyp_reference *model)
{
    uint64_t hash = hyp_reference_hash(model), plan = hyp_engine_model_hash(s->engine);
    if (r->any_model || !plan || hash == plan) return CLI_OK;
    fprintf(stderr,
            "%s: %s was not compiled from %s: its model had the hash %016" PRIx64 ", this one has %016" PRIx64
            "; --any-model compares all the same\n",
            tool, r->session.plan, r->model, plan, hash);
    return CLI_USAGE;
}

static int compare_with_model(session *s, const request *r, const hyp_reference *model)
{
    /* The plan's inputs go to the model by name. */
    hyp_tensor *inputs = cli_alloc(NULL, s->input_count, sizeof *inputs), *expected = NULL, *tolerances = NULL;
    for (size_t i = 0; i < s->input_count; i++) {
        inputs[i] = s->inputs[i];
        inputs[i].name = hyp_engine_input(s->engine, i)->name;
    }
    hyp_diag diag = {0};
    size_t count = 0;
    const char *precision = hyp_engine_precision(s->engine), *classes = hyp_engine_classes(s->engine);
    terminal_work_begin(tool, false, true);
    terminal_work_says("running the model in the reference interpreter");
    hyp_status status = r->fixed ? hyp_reference_run(model, true, inputs, s->input_count, &expected, &count, &diag)
                                 : hyp_reference_expect(model, precision, classes, inputs, s->input_count, &expected,
                                                        &tolerances, &count, &diag);
    terminal_work_end();
    free(inputs);
    if (status != HYP_OK) return cli_report(tool, &diag);

    int code = CLI_OK;
    for (size_t i = 0; i < s->output_count && code != CLI_FAILED; i++) {
        const char *name = hyp_engine_output(s->engine, i)->name;
        size_t k = 0;
        while (k < count && strcmp(expected[k].name, name) != 0) k++;
        if (k == count) {
            cli_error(tool, "the model has no output '%s': is it the model of this plan?", cli_shown(name));
            code = CLI_FAILED;
            continue;
        }
        int one = r->fixed ? compare_tensors(name, &s->outputs[i], &expected[k], r->rtol, r->atol, tool)
                           : judge_output(name, &s->outputs[i], &expected[k], &tolerances[k]);
        if (one != CLI_OK) code = CLI_MISMATCH;
    }
    free_all(expected, count);
    free_all(tolerances, count);
    if (code != CLI_FAILED) print_passed(code);
    return code;
}

/* Inputs of a run that the plan keeps. */
static int make_golden_inputs(session *s, size_t run)
{
    for (size_t i = 0; i < s->input_count; i++) {
        hyp_golden_input in = hyp_engine_golden_input(s->engine, run, i);
        hyp_tensor t = in.tensor;
        hyp_diag diag = {0};
        hyp_tensor_dispose(&s->inputs[i]);
        if (hyp_tensor_alloc(&t, &diag) != HYP_OK) return cli_report(tool, &diag);
        if (in.tensor.data)
            memcpy(t.data, in.tensor.data, t.bytes);
        else
            hyp_tensor_draw(&t, (hyp_draw)in.how, in.seed, in.low, in.high);
        s->inputs[i] = t;
    }
    return CLI_OK;
}

/* The elements of an output that the plan keeps, with their tolerances, as tensors of one axis. */
static int judge_golden(const session *s, size_t run, size_t i)
{
    hyp_golden_output g = hyp_engine_golden_output(s->engine, run, i);
    const hyp_tensor *whole = &s->outputs[i];
    const char *name = hyp_engine_output(s->engine, i)->name;
    if (whole->rank != g.tensor.rank ||
        memcmp(whole->dims, g.tensor.dims, (size_t)whole->rank * sizeof *whole->dims) != 0) {
        cli_error(tool, "output %s has other dims than the plan keeps", cli_shown(name));
        return CLI_MISMATCH;
    }
    if (g.kept == 0) return CLI_OK;
    hyp_tensor actual = {.dtype = whole->dtype, .rank = 1, .dims = {(int64_t)g.kept}}, expected = actual;
    hyp_tensor tolerance = {.dtype = HYP_F64, .rank = 1, .dims = {(int64_t)g.kept}};
    hyp_diag diag = {0};
    size_t size = hyp_dtype_size(whole->dtype);
    int code = CLI_OK;
    if (hyp_tensor_alloc(&actual, &diag) != HYP_OK || hyp_tensor_alloc(&tolerance, &diag) != HYP_OK)
        code = cli_report(tool, &diag);
    for (size_t k = 0; k < g.kept && code == CLI_OK; k++) {
        memcpy((char *)actual.data + k * size, (const char *)whole->data + k * (size_t)g.stride * size, size);
        ((double *)tolerance.data)[k] = hyp_engine_golden_tolerance(s->engine, run, i, k);
    }
    expected.data = g.tensor.data;
    expected.bytes = g.tensor.bytes;
    if (code == CLI_OK) {
        printf("run %zu, every %lluth of ", run, (unsigned long long)g.stride);
        print_tensor_type(stdout, name, whole);
        fputs(": ", stdout);
        code = judge_output("kept", &actual, &expected, &tolerance);
    }
    hyp_tensor_dispose(&actual);
    hyp_tensor_dispose(&tolerance);
    return code;
}

/* Makes outputs and runs; they are in the host's memory afterwards. */
static int run_plan(session *s, const request *r)
{
    resident device = {0};
    int code = session_make_outputs(s, tool);
    if (code != CLI_OK || !r->resident) return code == CLI_OK ? session_run(s, tool) : code;
    code = resident_open(&device, s, tool);
    resident_use(&device, s, true);
    if (code == CLI_OK) code = session_run(s, tool);
    if (code == CLI_OK) code = resident_fetch(&device, s, tool);
    resident_close(&device, s);
    return code;
}

/* Compares the plan with the results that it keeps. */
static int verify_golden(session *s, const request *asked)
{
    size_t runs = hyp_engine_golden_count(s->engine);
    if (runs == 0) {
        fprintf(stderr,
                "%s: %s keeps no results to verify it with; give its model (--model MODEL.onnx), or compile it with "
                "--verify strict\n",
                tool, asked->session.plan);
        return CLI_USAGE;
    }
    int code = CLI_OK;
    for (size_t r = 0; r < runs && code != CLI_FAILED; r++) {
        int one = make_golden_inputs(s, r);
        if (one == CLI_OK) one = run_plan(s, asked);
        if (one != CLI_OK) return one;
        for (size_t i = 0; i < s->output_count; i++)
            if (judge_golden(s, r, i) != CLI_OK) code = CLI_MISMATCH;
    }
    print_passed(code);
    return code;
}

int command_verify(int argc, char **argv)
{
    request r = {.rtol = 1e-3, .atol = 1e-5};
    session s = {0};
    hyp_reference *model = NULL;
    hyp_diag diag = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
    if (!r.model && (r.fixed || r.session.inputs.count || r.session.dims.count)) {
        code = cli_usage_error(&args,
                               "without a model (--model MODEL.onnx) a plan is verified with what it keeps: inputs, "
                               "dims and tolerances are known");
        goto done;
    }
    code = session_open(&s, &r.session, tool);
    if (code == CLI_OK && hyp_engine_variable_count(s.engine)) {
        cli_error(tool, "%s is a step of a training: hypatiac verifies such a plan when it makes it, --verify strict",
                  r.session.plan);
        code = CLI_USAGE;
        goto done;
    }
    if (code == CLI_OK && !r.model) {
        code = verify_golden(&s, &r);
        goto done;
    }
    if (code == CLI_OK && hyp_reference_open(r.model, &model, &diag) != HYP_OK) code = cli_report(tool, &diag);
    if (code == CLI_OK) code = check_model(&s, &r, model);
    if (code == CLI_OK) code = session_make_inputs(&s, &r.session, "random:0", &args);
    if (code == CLI_OK) code = run_plan(&s, &r);
    if (code == CLI_OK) code = compare_with_model(&s, &r, model);
done:
    hyp_reference_close(model);
    session_close(&s);
    session_options_free(&r.session);
    return code;
}
