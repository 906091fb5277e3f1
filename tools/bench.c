/* hypatia bench - times a plan: one sample per run call, host to host. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"
#include "hypatia.h"
#include "interrupt.h"
#include "timing.h"

enum {
    OPT_WARMUP = SESSION_OPTION_COUNT,
    OPT_ITERATIONS,
    OPT_DURATION,
    OPT_PERCENTILE,
    OPT_STEPS,
    OPT_JSON,
    OPT_QUIET
};

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_WARMUP] = {"warmup", 0, "MS", "run for so many milliseconds first (200)"},
    [OPT_ITERATIONS] = {"iterations", 0, "N", "take at least N samples (10)"},
    [OPT_DURATION] = {"duration", 0, "S", "and sample for at least S seconds (3)"},
    [OPT_PERCENTILE] = {"percentile", 0, "LIST", "percentiles to print (50,90,95,99)"},
    [OPT_STEPS] = {"steps", 0, NULL, "also time every step, beside what the compiler predicted"},
    [OPT_JSON] = {"json", 0, "FILE|-", "write every sample and the figures as JSON"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print no table"},
    {0},
};

static const char tool[] = "hypatia bench";

typedef struct request {
    session_options session;
    double warmup_ms, seconds;
    int64_t iterations;
    cli_list percentiles;
    const char *json;
    bool quiet, steps;
} request;

static void help(void)
{
    printf(
        "Usage: hypatia bench PLAN.bin [options]\n"
        "Times a plan on the given inputs, random ones where none are given. Sampling ends when both the iterations\n"
        "and the duration are reached. A sample is one run call from host memory to host memory.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 5 incompatible plan.\n");
}

static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    request *r = opaque;
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
    case OPT_JSON: r->json = value; return CLI_OK;
    case OPT_QUIET: r->quiet = true; return CLI_OK;
    default: return session_read_option(&r->session, args, option, value);
    }
}

/* ---- sampling -------------------------------------------------------------------------------------------- */

typedef struct samples {
    double *us;
    size_t count, capacity;
} samples;

/* Runs until both minimums are reached, or until it is interrupted. Tensors are matched by position, so that no name is
 * compared. */
static int sample(session *s, const request *r, const volatile sig_atomic_t *stop_asked, samples *out)
{
    hyp_diag diag = {0};
    for (size_t i = 0; i < s->input_count; i++) s->inputs[i].name = NULL;
    double start = timing_now(), end = start + r->warmup_ms * 1e-3;
    do {
        if (hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag) != HYP_OK)
            return cli_report(tool, &diag);
    } while (timing_now() < end && !*stop_asked);

    start = timing_now();
    end = start + r->seconds;
    for (double stop = start; (out->count < (size_t)r->iterations || stop < end) && !*stop_asked;) {
        if (out->count == out->capacity) { /* between two samples, so that none of them pays */
            out->capacity = out->capacity ? 2 * out->capacity : 1 << 16;
            out->us = cli_alloc(out->us, out->capacity, sizeof *out->us);
        }
        double begin = timing_now();
        hyp_status status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
        stop = timing_now();
        if (status != HYP_OK) return cli_report(tool, &diag);
        out->us[out->count++] = (stop - begin) * 1e6;
    }
    return CLI_OK;
}

/* What reading the clock twice costs, in microseconds: the least of many. */
static double clock_cost(void)
{
    double least = INFINITY;
    for (int i = 0; i < 1000; i++) {
        double begin = timing_now(), cost = (timing_now() - begin) * 1e6;
        if (cost < least) least = cost;
    }
    return least;
}

/* ---- figures --------------------------------------------------------------------------------------------- */

typedef struct figures {
    double mean, deviation;
    double *sorted;
    size_t count;
} figures;

static figures compute_figures(const samples *all)
{
    figures f = {.count = all->count, .sorted = cli_alloc(NULL, all->count, sizeof *f.sorted)};
    memcpy(f.sorted, all->us, all->count * sizeof *f.sorted);
    timing_sort(f.sorted, f.count);
    for (size_t i = 0; i < f.count; i++) f.mean += f.sorted[i] / (double)f.count;
    double squares = 0;
    for (size_t i = 0; i < f.count; i++) squares += (f.sorted[i] - f.mean) * (f.sorted[i] - f.mean);
    f.deviation = f.count > 1 ? sqrt(squares / (double)(f.count - 1)) : 0;
    return f;
}

/* Nearest rank. */
static double percentile(const figures *f, double p)
{
    double rank = ceil(p / 100 * (double)f->count);
    size_t i = rank < 1 ? 0 : (size_t)rank - 1;
    return f->sorted[i < f->count ? i : f->count - 1];
}

static void print_figures(const session *s, const request *r, const figures *f)
{
    printf("device   %s\n", hyp_engine_device_name(s->engine));
    for (size_t i = 0; i < s->input_count; i++) {
        printf("input    ");
        print_tensor_type(stdout, hyp_engine_input(s->engine, i)->name, &s->inputs[i]);
        putchar('\n');
    }
    printf("samples  %zu\nmean     %.3f us, sd %.3f\n", f->count, f->mean, f->deviation);
    for (size_t i = 0; i < r->percentiles.count; i++)
        printf("p%-7s %.3f us\n", r->percentiles.items[i], percentile(f, atof(r->percentiles.items[i])));
    printf("min, max %.3f us, %.3f us\n", f->sorted[0], f->sorted[f->count - 1]);
    print_predicted(s);
    if (f->deviation > 0.1 * f->mean)
        printf("warning: the times vary: their standard deviation is %.0f %% of the mean\n",
               100 * f->deviation / f->mean);
    if (percentile(f, 50) < 2) printf("note: reading the clock is %.3f us of every sample\n", clock_cost());
    if (hyp_engine_device(s->engine) == HYP_DEVICE_CUDA) printf("note: transfers to and from the GPU are included\n");
}

/* {"key", "taken", "by", "tuned_us" and "alternatives": [{"name", "predicted_us", or "cannot"}]} of each choice of a step. */
static json_t *json_choices(const session *s, size_t step)
{
    json_t *list = json_array();
    for (size_t i = 0; i < hyp_context_choice_count(s->context, step); i++) {
        hyp_choice_info c = hyp_context_choice(s->context, step, i);
        json_t *alternatives = json_array();
        for (size_t k = 0; k < c.alternatives; k++) {
            hyp_alternative_info a = hyp_context_alternative(s->context, step, i, k);
            json_array_append_new(alternatives, json_pack("{s:s, s:f, s:s*}", "name", a.name, "predicted_us",
                                                          a.predicted_seconds * 1e6, "cannot", a.cannot));
        }
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:f, s:o}", "key", c.key, "taken",
                                        hyp_context_alternative(s->context, step, i, c.taken).name, "by",
                                        choice_by_name(c.by), "tuned_us", c.seconds * 1e6, "alternatives", alternatives));
    }
    return list;
}

static json_t *json_steps(const session *s, const step_times *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++) {
        hyp_step_info step = hyp_engine_step(s->engine, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:s, s:o}", "label", step.label, "kernel",
                                              step.kernel, "measured_us", t->measured[i] * 1e6, "predicted_us",
                                              step.predicted_seconds * 1e6, "tuned",
                                              step_tuning_name(hyp_context_step_tuning(s->context, i)), "choices",
                                              json_choices(s, i)));
    }
    return list;
}

static int write_json(const session *s, const request *r, const figures *f, const samples *all, const step_times *steps)
{
    json_t *list = json_array(), *inputs = json_object();
    for (size_t i = 0; i < all->count; i++) json_array_append_new(list, json_real(all->us[i]));
    for (size_t i = 0; i < s->input_count; i++) {
        json_t *dims = json_array();
        for (int32_t a = 0; a < s->inputs[i].rank; a++) json_array_append_new(dims, json_integer(s->inputs[i].dims[a]));
        json_object_set_new(inputs, hyp_engine_input(s->engine, i)->name, dims);
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:i, s:f, s:f, s:f, s:f, s:f}", "plan", r->session.plan, "device",
                  hyp_engine_device_name(s->engine), "version", hyp_version(), "commit", HYP_COMMIT, "inputs", inputs,
                  "threads", (int)r->session.threads, "mean_us", f->mean, "sd_us", f->deviation, "min_us", f->sorted[0],
                  "max_us", f->sorted[f->count - 1], "predicted_us", predicted_seconds(s) * 1e6);
    if (r->steps && root) json_object_set_new(root, "steps", json_steps(s, steps));
    for (size_t i = 0; i < r->percentiles.count && root; i++) {
        char key[64];
        snprintf(key, sizeof key, "p%.32s_us", r->percentiles.items[i]);
        json_object_set_new(root, key, json_real(percentile(f, atof(r->percentiles.items[i]))));
    }
    static const double always[] = {50, 90, 99};
    for (size_t i = 0; i < 3 && root; i++) {
        char key[16];
        snprintf(key, sizeof key, "p%.0f_us", always[i]);
        json_object_set_new(root, key, json_real(percentile(f, always[i])));
    }
    if (!root || json_object_set_new(root, "samples_us", list) != 0) {
        fprintf(stderr, "%s: out of memory\n", tool);
        return CLI_FAILED;
    }
    size_t flags = JSON_REAL_PRECISION(7) | JSON_COMPACT;
    int failed = strcmp(r->json, "-") == 0 ? json_dumpf(root, stdout, flags) : json_dump_file(root, r->json, flags);
    json_decref(root);
    if (failed) fprintf(stderr, "%s: %s: cannot write: %s\n", tool, r->json, strerror(errno));
    return failed ? CLI_FAILED : CLI_OK;
}

static int bench(session *s, const request *r, const cli_args *args)
{
    file_uses uses = {0};
    file_uses_add(&uses, "--json", r->json, true);
    session_file_uses(&r->session, &uses);
    int code = file_uses_check(&uses, args);
    if (code == CLI_OK) code = session_open(s, &r->session, tool);
    if (code == CLI_OK) code = session_make_inputs(s, &r->session, "random:0", args);
    if (code == CLI_OK) code = session_make_outputs(s, tool);
    samples all = {0};
    step_times steps = {0};
    const volatile sig_atomic_t *stop_asked = interrupt_catch();
    if (code == CLI_OK) code = sample(s, r, stop_asked, &all);
    interrupt_release();
    bool whole = !*stop_asked;
    if (!whole) fprintf(stderr, "%s: interrupted; %zu samples were taken\n", tool, all.count);
    if (code == CLI_OK && r->steps && whole) code = step_times_measure(&steps, s, r->seconds, tool);
    if (code == CLI_OK && all.count) {
        figures f = compute_figures(&all);
        bool piped = r->json && strcmp(r->json, "-") == 0;
        if (!r->quiet && !piped) print_figures(s, r, &f);
        if (steps.count && !r->quiet && !piped) step_times_print(&steps, s);
        if (r->json) code = write_json(s, r, &f, &all, &steps);
        free(f.sorted);
    }
    if (code == CLI_OK && !whole) code = CLI_INTERRUPTED;
    step_times_free(&steps);
    free(all.us);
    return code;
}

int command_bench(int argc, char **argv)
{
    request r = {.warmup_ms = 200, .seconds = 3, .iterations = 10};
    session s = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
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
