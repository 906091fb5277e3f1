/* hypatia report - what a plan is and how it came to be, as a page or as JSON. */
#include <stdlib.h>
#include <string.h>

#include "hypatia.h"
#include "measure_plan.h"
#include "report_page.h"
#include "resident.h"
#include "signing.h"
#include "timing.h"

enum { OPT_OUTPUT, OPT_JSON, OPT_MEASURE, OPT_SECONDS, OPT_DEVICE, OPT_THREADS, OPT_SIGNATURE, OPT_HELP };

static const cli_option options[] = {
    [OPT_OUTPUT] = {"output", 'o', "FILE|-", "the page (report.html), or with --json the document (-)"},
    [OPT_JSON] = {"json", 0, NULL, "write the document that the page shows, as JSON"},
    [OPT_MEASURE] = {"measure", 0, NULL,
                     "run the plan here, for typical sizes: what it takes stands beside what was predicted"},
    [OPT_SECONDS] = {"seconds", 0, "S", "about how long --measure measures (2)"},
    [OPT_DEVICE] = {"device", 0, "NAME", "of --measure: auto (default), cpu, cuda, cuda:N or reference"},
    [OPT_THREADS] = {"threads", 0, "N", "CPU threads of --measure (OMP_NUM_THREADS, else all)"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia report";

typedef struct request {
    session_options session;
    const char *output;
    double seconds;
    bool json, measure;
} request;

static void help(void)
{
    printf("Usage: hypatia report PLAN.bin [-o report.html] [options]\n"
           "Writes a page, in one file that needs no network, that shows what the model was, what became of it, and "
           "why.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 5 incompatible plan.\n");
}

/* CLI_OK, or CLI_USAGE after a message. */
static int read_option(request *r, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case OPT_OUTPUT: r->output = value; return CLI_OK;
    case OPT_JSON: r->json = true; return CLI_OK;
    case OPT_MEASURE: r->measure = true; return CLI_OK;
    case OPT_SECONDS:
        if (cli_parse_double(value, 0.001, &r->seconds)) return CLI_OK;
        return cli_usage_error(args, "--seconds: '%s' is no time of a thousandth or more", value);
    case OPT_DEVICE: return session_read_option(&r->session, args, SESSION_DEVICE, value);
    case OPT_THREADS: return session_read_option(&r->session, args, SESSION_THREADS, value);
    case OPT_SIGNATURE: return session_read_option(&r->session, args, SESSION_SIGNATURE, value);
    default: return session_read_option(&r->session, args, CLI_POSITIONAL, value);
    }
}

/* ---- measuring -------------------------------------------------------------------------------------------- */

enum { MOST_SAMPLES = 10000, LEAST_SAMPLES = 5 };

static int sample(session *s, double seconds, double *all, size_t *count)
{
    hyp_diag diag = {0};
    double end = timing_now() + seconds;
    while (*count < MOST_SAMPLES && (*count < LEAST_SAMPLES || timing_now() < end)) {
        double begin = timing_now();
        hyp_status status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
        if (status == HYP_OK) status = hyp_context_synchronize(s->context, &diag);
        if (status != HYP_OK) return cli_report(tool, &diag);
        all[(*count)++] = timing_now() - begin;
    }
    return CLI_OK;
}

static json_t *tell(session *s, const request *r, double *all, size_t count, const step_times *steps)
{
    json_t *list = json_array();
    for (size_t i = 0; i < steps->count; i++) json_array_append_new(list, json_real(steps->measured[i]));
    double median = timing_median(all, count); /* sorts them */
    return json_pack("{s:s, s:I, s:I, s:f, s:f, s:o}", "device", hyp_engine_device_name(s->engine), "threads",
                     (json_int_t)r->session.threads, "samples", (json_int_t)count, "median_seconds", median,
                     "least_seconds", all[0], "steps", list);
}

/* Half of the time is for runs, and half for steps one by one. On a GPU tensors lie in its memory. */
static int measure(request *r, const cli_args *args, json_t **out)
{
    session s = {0};
    resident device = {0};
    step_times steps = {0};
    double *all = cli_alloc(NULL, MOST_SAMPLES, sizeof *all);
    size_t count = 0;
    int code = measure_open_plan(&s, &r->session, args);
    if (code == CLI_OK && hyp_engine_device(s.engine) == HYP_DEVICE_CUDA) {
        code = resident_open(&device, &s, tool);
        if (code == CLI_OK) resident_use(&device, &s, true);
    }
    if (code == CLI_OK) code = sample(&s, r->seconds / 2, all, &count);
    if (code == CLI_OK) code = step_times_measure(&steps, &s, r->seconds / 2, 3, tool);
    if (code == CLI_OK) *out = tell(&s, r, all, count, &steps);
    step_times_free(&steps);
    resident_close(&device, &s);
    session_close(&s);
    free(all);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------ */

static int report(request *r, const cli_args *args)
{
    file_uses uses = {0};
    json_t *measured = NULL, *data = NULL;
    const char *path = r->output ? r->output : r->json ? "-" : "report.html";
    file_uses_add(&uses, "--output", path, true);
    session_file_uses(&r->session, &uses);
    int code = file_uses_check(&uses, args);
    if (code == CLI_OK) code = signing_require(r->session.plan, r->session.signer, tool);
    if (code == CLI_OK && r->measure) code = measure(r, args, &measured);
    if (code == CLI_OK) code = report_data(r->session.plan, NULL, measured, &data, tool);
    if (code == CLI_OK) code = report_write(data, path, !r->json, tool);
    json_decref(data);
    return code;
}

int command_report(int argc, char **argv)
{
    request r = {.seconds = 2};
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *value;
    int option, code = CLI_OK;
    while (code == CLI_OK && (option = cli_next(&args, &value)) != CLI_END) {
        if (option == OPT_HELP) {
            help();
            goto done;
        }
        code = option == CLI_ERROR ? CLI_USAGE : read_option(&r, &args, option, value);
    }
    if (code == CLI_OK && !r.session.plan) code = cli_usage_error(&args, "no plan was given");
    if (code == CLI_OK) code = report(&r, &args);
done:
    session_options_free(&r.session);
    return code;
}
