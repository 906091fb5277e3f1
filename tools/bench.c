/* hypatia bench - times a plan: one sample per run call, with tensors in the device's memory or the host's. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_trace.h"
#include "hypatia.h"
#include "interrupt.h"
#include "resident.h"
#include "terminal.h"
#include "timing.h"

enum {
    OPT_WARMUP = SESSION_OPTION_COUNT,
    OPT_ITERATIONS,
    OPT_DURATION,
    OPT_PERCENTILE,
    OPT_STEPS,
    OPT_RESIDENT,
    OPT_TRANSFERS,
    OPT_COMPARE,
    OPT_JSON,
    OPT_TRACE,
    OPT_QUIET
};

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_WARMUP] = {"warmup", 0, "MS", "run for so many milliseconds first (200)"},
    [OPT_ITERATIONS] = {"iterations", 0, "N", "take at least N samples (10)"},
    [OPT_DURATION] = {"duration", 0, "S", "and sample for at least S seconds (3)"},
    [OPT_PERCENTILE] = {"percentile", 0, "LIST", "percentiles to print (50,90,95,99)"},
    [OPT_STEPS] = {"steps", 0, NULL, "also time every step, beside what the compiler predicted"},
    [OPT_RESIDENT] = {"resident", 0, NULL, "tensors in the device's memory: the default on a GPU"},
    [OPT_TRANSFERS] = {"transfers", 0, NULL, "on a GPU: from and to the host's memory; say what the copies take"},
    [OPT_COMPARE] = {"compare", 0, "PLAN.bin", "time this plan, too, in turns, and say whether it is faster"},
    [OPT_JSON] = {"json", 0, "FILE|-", "write every sample and the figures as JSON"},
    [OPT_TRACE] = {"trace", 0, "FILE|-", "write the steps of runs over time, for Perfetto and chrome://tracing"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print no table"},
    {0},
};

const char bench_tool[] = "hypatia bench";

static void help(void)
{
    printf(
        "Usage: hypatia bench PLAN.bin [options]\n"
        "Times a plan on the given inputs, random ones where none are given. Sampling ends when both the iterations\n"
        "and the duration are reached. A sample is one run call until its results are there: in the memory of a GPU, where\n"
        "the inputs lie too, unless --transfers asks for the host's.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 5 incompatible plan.\n");
}

static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    bench_request *r = opaque;
    switch (option) {
    case OPT_WARMUP:
        if (!cli_parse_double(value, 0, &r->warmup_ms))
            return cli_usage_error(args, "--warmup: '%s' is no time", value);
        return CLI_OK;
    case OPT_DURATION:
        if (!cli_parse_double(value, 0, &r->seconds))
            return cli_usage_error(args, "--duration: '%s' is no time", value);
        return CLI_OK;
    case OPT_ITERATIONS:
        if (!cli_parse_int(value, 1, 1000000000, &r->iterations))
            return cli_usage_error(args, "--iterations: '%s' is no count", value);
        return CLI_OK;
    case OPT_PERCENTILE: cli_list_split(&r->percentiles, value); return CLI_OK;
    case OPT_STEPS: r->steps = true; return CLI_OK;
    case OPT_RESIDENT: r->resident = true; return CLI_OK;
    case OPT_TRANSFERS: r->transfers = true; return CLI_OK;
    case OPT_COMPARE: r->compare = value; return CLI_OK;
    case OPT_JSON: r->json = value; return CLI_OK;
    case OPT_TRACE: r->trace = value; return CLI_OK;
    case OPT_QUIET: r->quiet = true; return CLI_OK;
    default: return session_read_option(&r->session, args, option, value);
    }
}

/* ---- sampling -------------------------------------------------------------------------------------------- */

hyp_status bench_run_once(session *s, hyp_diag *diag)
{
    hyp_status status =
        hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, diag);
    return status != HYP_OK ? status : hyp_context_synchronize(s->context, diag); /* at once where the results are in the host's memory */
}

int bench_warm_up(session *s, const bench_request *r, const volatile sig_atomic_t *stop_asked)
{
    hyp_diag diag = {0};
    for (size_t i = 0; i < s->input_count; i++) s->inputs[i].name = NULL;
    double end = timing_now() + r->warmup_ms * 1e-3;
    do {
        if (bench_run_once(s, &diag) != HYP_OK) return cli_report(bench_tool, &diag);
    } while (timing_now() < end && !*stop_asked);
    return CLI_OK;
}

void bench_add_sample(samples *out, double us)
{
    if (out->count == out->capacity) { /* between two samples, so that none of them pays */
        out->capacity = out->capacity ? 2 * out->capacity : 1 << 16;
        out->us = cli_alloc(out->us, out->capacity, sizeof *out->us);
    }
    out->us[out->count++] = us;
}

/* Runs until both minimums are reached, or until it is interrupted. */
static int sample(session *s, const bench_request *r, const volatile sig_atomic_t *stop_asked, samples *out)
{
    hyp_diag diag = {0};
    int code = bench_warm_up(s, r, stop_asked);
    if (code != CLI_OK) return code;
    double start = timing_now(), end = start + r->seconds;
    for (double stop = start; (out->count < (size_t)r->iterations || stop < end) && !*stop_asked;) {
        char left[32];
        if (terminal_work_asks())
            terminal_work_says("%zu samples, about %s left", out->count, terminal_duration(end - stop, left));
        double begin = timing_now();
        hyp_status status = bench_run_once(s, &diag);
        stop = timing_now();
        if (status != HYP_OK) return cli_report(bench_tool, &diag);
        bench_add_sample(out, (stop - begin) * 1e6);
    }
    return CLI_OK;
}

/* What a run takes where many are queued, so that neither the call nor the wait counts: the median of some rounds. Tensors
 * are on the device. */
static int sample_queued(session *s, const samples *single, double *out)
{
    enum { ROUNDS = 5, MOST = 200 };
    hyp_diag diag = {0};
    double rounds[ROUNDS], *sorted = cli_alloc(NULL, single->count, sizeof *sorted);
    memcpy(sorted, single->us, single->count * sizeof *sorted);
    double about = timing_median(sorted, single->count);
    free(sorted);
    size_t runs = about > 0 && about < 5e4 ? (size_t)(1e5 / about) + 2 : 2;
    if (runs > MOST) runs = MOST;
    for (size_t k = 0; k < ROUNDS; k++) {
        double begin = timing_now();
        hyp_status status = HYP_OK;
        for (size_t i = 0; i < runs && status == HYP_OK; i++)
            status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
        if (status == HYP_OK) status = hyp_context_synchronize(s->context, &diag);
        if (status != HYP_OK) return cli_report(bench_tool, &diag);
        rounds[k] = (timing_now() - begin) * 1e6 / (double)runs;
    }
    *out = timing_median(rounds, ROUNDS);
    return CLI_OK;
}

/* With --transfers samples are of host tensors, and a second set on the device tells what of it the copies are. */
static int measure(session *s, const bench_request *r, resident *device, const volatile sig_atomic_t *stop_asked,
                   bench_results *out)
{
    bool cuda = hyp_engine_device(s->engine) == HYP_DEVICE_CUDA;
    int code = CLI_OK;
    out->device_memory = "host";
    if (r->transfers || !(cuda || r->resident)) code = sample(s, r, stop_asked, &out->all);
    if (code == CLI_OK && (cuda || r->resident) && !*stop_asked) {
        samples own = {0}, *at = r->transfers ? &own : &out->all;
        code = resident_open(device, s, bench_tool);
        resident_use(device, s, true);
        if (code == CLI_OK) code = sample(s, r, stop_asked, at);
        if (code == CLI_OK && cuda && at->count && !*stop_asked) code = sample_queued(s, at, &out->queued_us);
        if (r->transfers && code == CLI_OK && own.count) out->resident_us = timing_median(own.us, own.count);
        if (!r->transfers) out->device_memory = "device";
        free(own.us);
    }
    if (code == CLI_OK && r->steps && !*stop_asked) code = step_times_measure(&out->steps, s, r->seconds, 3, bench_tool);
    if (code == CLI_OK && !(out->work = step_work(s, bench_tool))) code = CLI_FAILED;
    if (code == CLI_OK && r->trace && !*stop_asked) code = bench_trace(s, r->session.threads, r->trace, bench_tool);
    return code;
}

static int bench(session *s, const bench_request *r, const cli_args *args)
{
    file_uses uses = {0};
    file_uses_add(&uses, "--json", r->json, true);
    file_uses_add(&uses, "--compare", r->compare, false);
    file_uses_add(&uses, "--trace", r->trace, true);
    session_file_uses(&r->session, &uses);
    int code = file_uses_check(&uses, args);
    if (code == CLI_OK) code = session_open(s, &r->session, bench_tool);
    if (code == CLI_OK) code = session_make_inputs(s, &r->session, "random:0", args);
    if (code == CLI_OK && r->compare) return bench_compare(s, r, args);
    if (code == CLI_OK) code = session_make_outputs(s, bench_tool);
    resident device = {0};
    bench_results results = {
        .plan = r->session.plan, .threads = r->session.threads, .percentiles = &r->percentiles};
    const volatile sig_atomic_t *stop_asked = interrupt_catch();
    terminal_work_begin(bench_tool, r->quiet, false);
    if (code == CLI_OK) code = measure(s, r, &device, stop_asked, &results);
    terminal_work_end();
    interrupt_release();
    bool whole = !*stop_asked;
    if (!whole) fprintf(stderr, "%s: interrupted; %zu samples were taken\n", bench_tool, results.all.count);
    if (code == CLI_OK && results.all.count) {
        bool piped = (r->json && strcmp(r->json, "-") == 0) || (r->trace && strcmp(r->trace, "-") == 0);
        if (!r->quiet && !piped) bench_print(s, &results, r->session.verbose);
        if (r->json) code = bench_write_json(s, &results, r->json, bench_tool);
    }
    if (code == CLI_OK && !whole) code = CLI_INTERRUPTED;
    resident_close(&device, s);
    bench_results_free(&results);
    return code;
}

int command_bench(int argc, char **argv)
{
    bench_request r = {.warmup_ms = 200, .seconds = 3, .iterations = 10};
    session s = {0};
    cli_args args = cli_begin(bench_tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
    if (r.resident && r.transfers) {
        code = cli_usage_error(&args, "--resident and --transfers exclude each other: the first leaves the copies out");
        goto done;
    }
    if (r.compare && r.steps) {
        code = cli_usage_error(&args, "--steps is of one plan: leave out one of --steps and --compare");
        goto done;
    }
    if (!r.percentiles.count) cli_list_split(&r.percentiles, "50,90,95,99");
    for (size_t i = 0; i < r.percentiles.count; i++) {
        double p;
        if (cli_parse_double(r.percentiles.items[i], 0, &p) && p <= 100) continue;
        cli_usage_error(&args, "--percentile: '%s' is not between 0 and 100", r.percentiles.items[i]);
        goto done;
    }
    code = bench(&s, &r, &args);
done:
    session_close(&s);
    session_options_free(&r.session);
    cli_list_free(&r.percentiles);
    return code;
}
