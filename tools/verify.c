/* hypatia verify - compares what a plan computes with its model in the reference interpreter, in double. */
#include <stdlib.h>
#include <string.h>

#include "hypatia.h"
#include "hypatia/compiler.h"

enum { OPT_MODEL = SESSION_OPTION_COUNT, OPT_RTOL, OPT_ATOL };

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_MODEL] = {"model", 'm', "FILE", "the model that the plan was compiled from"},
    [OPT_RTOL] = {"rtol", 0, "X", "relative tolerance (1e-3)"},
    [OPT_ATOL] = {"atol", 0, "X", "absolute tolerance (1e-5)"},
    {0},
};

static const char tool[] = "hypatia verify";

typedef struct request {
    session_options session;
    const char *model;
    double rtol, atol;
} request;

static void help(void)
{
    printf(
        "Usage: hypatia verify PLAN.bin --model MODEL.onnx [options]\n"
        "Runs both on the same inputs (random:0 where none is given), prints the largest difference, where it is and\n"
        "which tolerance would pass; the last line is PASSED or FAILED. An element passes when |plan - model| <= atol "
        "+ rtol |model|.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 passed, 1 error, 2 usage, 4 mismatch, 5 incompatible plan.\n");
}

static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    request *r = opaque;
    switch (option) {
    case OPT_MODEL: r->model = value; return CLI_OK;
    case OPT_RTOL: return read_tolerance(args, value, &r->rtol);
    case OPT_ATOL: return read_tolerance(args, value, &r->atol);
    default: return session_read_option(&r->session, args, option, value);
    }
}

static int compare_with_model(session *s, const request *r)
{
    /* The plan's inputs go to the model by name. */
    hyp_tensor *inputs = cli_alloc(NULL, s->input_count, sizeof *inputs), *expected = NULL;
    for (size_t i = 0; i < s->input_count; i++) {
        inputs[i] = s->inputs[i];
        inputs[i].name = hyp_engine_input(s->engine, i)->name;
    }
    hyp_diag diag = {0};
    size_t count = 0;
    hyp_status status = hyp_reference_run(r->model, true, inputs, s->input_count, &expected, &count, &diag);
    free(inputs);
    if (status != HYP_OK) return cli_report(tool, &diag);

    int code = CLI_OK;
    for (size_t i = 0; i < s->output_count && code != CLI_FAILED; i++) {
        const char *name = hyp_engine_output(s->engine, i)->name;
        size_t k = 0;
        while (k < count && strcmp(expected[k].name, name) != 0) k++;
        if (k == count) {
            fprintf(stderr, "%s: the model has no output '%s': is it the model of this plan?\n", tool, name);
            code = CLI_FAILED;
        } else if (compare_tensors(name, &s->outputs[i], &expected[k], r->rtol, r->atol, tool) != CLI_OK) {
            code = CLI_MISMATCH;
        }
    }
    for (size_t k = 0; k < count; k++) hyp_tensor_dispose(&expected[k]);
    free(expected);
    if (code != CLI_FAILED) printf("%s\n", code == CLI_OK ? "PASSED" : "FAILED");
    return code;
}

int command_verify(int argc, char **argv)
{
    request r = {.rtol = 1e-3, .atol = 1e-5};
    session s = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
    if (!r.model) {
        code = cli_usage_error(&args, "no model was given (--model MODEL.onnx)");
        goto done;
    }
    code = session_open(&s, &r.session, tool);
    if (code == CLI_OK) code = session_make_inputs(&s, &r.session, "random:0", &args);
    if (code == CLI_OK) code = session_make_outputs(&s, tool);
    if (code == CLI_OK) code = session_run(&s, tool);
    if (code == CLI_OK) code = compare_with_model(&s, &r);
done:
    session_close(&s);
    session_options_free(&r.session);
    return code;
}
