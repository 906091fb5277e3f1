/* What hypatia bench says of its samples. */
#include "bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commit.h"
#include "hypatia.h"
#include "terminal.h"
#include "timing.h"

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

static double percentile(const figures *f, double p) { return timing_percentile(f->sorted, f->count, p); }

/* How the samples are distributed: a bar for each part of what lies between the least and the 99th percentile, and one for
 * what lies above. */
static void print_histogram(const figures *f)
{
    enum { PARTS = 7, BAR = 40 };
    static const char bar[BAR + 1] = "########################################";
    double low = f->sorted[0], high = percentile(f, 99), width = (high - low) / PARTS;
    size_t counts[PARTS + 1] = {0}, most = 1, columns = terminal_width(stdout), room = BAR;
    if (f->count < 2 * PARTS || !(width > 0)) return;
    for (size_t i = 0; i < f->count; i++) {
        double part = (f->sorted[i] - low) / width;
        size_t k = f->sorted[i] > high ? PARTS : part < PARTS ? (size_t)part : PARTS - 1;
        if (++counts[k] > most) most = counts[k];
    }
    enum { BESIDE = 36 }; /* what stands before and behind a bar */
    if (columns && columns < BESIDE + BAR) room = columns > BESIDE ? columns - BESIDE : 1;
    for (size_t k = 0; k <= PARTS; k++) {
        int filled = (int)((counts[k] * room + most / 2) / most);
        printf("%-8s %-5s %10.3f us ", k ? "" : "spread", k < PARTS ? "from" : "above", low + width * (double)k);
        printf("%.*s%s%zu\n", filled, bar, filled ? " " : "", counts[k]);
    }
}

/* Of all steps together. */
static hyp_step_work_info sum_work(const session *s, const bench_results *r)
{
    hyp_step_work_info sum = {0};
    for (size_t i = 0; i < hyp_engine_step_count(s->engine); i++) {
        sum.flops += r->work[i].flops;
        sum.bytes += r->work[i].bytes;
        sum.launches += r->work[i].launches;
        sum.floor_seconds += r->work[i].floor_seconds;
        sum.predicted_seconds += r->work[i].predicted_seconds;
    }
    return sum;
}

/* "work     12.3 MFLOP, 4.5 MB, 7 launches: 380 GFLOP/s, 89.1 GB/s, 63 % of the floor of 3.2 us" by these microseconds.
 */
static void print_work(const session *s, const bench_results *r, double us)
{
    hyp_step_work_info w = sum_work(s, r);
    printf("work     %.3f MFLOP, %.3f MB", w.flops * 1e-6, w.bytes * 1e-6);
    if (w.launches) printf(", %zu launches", w.launches);
    printf(": %.1f GFLOP/s, %.1f GB/s", w.flops / us * 1e-3, w.bytes / us * 1e-3);
    if (w.floor_seconds > 0)
        printf(", %.0f %% of the floor of %.3f us", 1e8 * w.floor_seconds / us, w.floor_seconds * 1e6);
    putchar('\n');
}

void bench_print(const session *s, const bench_results *r, bool verbose)
{
    figures f = compute_figures(&r->all);
    bool cuda = hyp_engine_device(s->engine) == HYP_DEVICE_CUDA;
    double p50 = percentile(&f, 50);
    printf("device   %s\n", hyp_engine_device_name(s->engine));
    for (size_t i = 0; i < s->input_count; i++) {
        printf("input    ");
        print_tensor_type(stdout, hyp_engine_input(s->engine, i)->name, &s->inputs[i]);
        putchar('\n');
    }
    if (cuda) printf("tensors  in the memory of the %s\n", r->device_memory);
    printf("samples  %zu\nmean     %.3f us, sd %.3f\n", f.count, f.mean, f.deviation);
    for (size_t i = 0; i < r->percentiles->count; i++)
        printf("p%-7s %.3f us\n", r->percentiles->items[i], percentile(&f, atof(r->percentiles->items[i])));
    printf("min, max %.3f us, %.3f us\n", f.sorted[0], f.sorted[f.count - 1]);
    print_histogram(&f);
    if (r->resident_us > 0)
        printf("transfers %.3f us of the median: without them it is %.3f us\n", p50 - r->resident_us, r->resident_us);
    if (r->queued_us > 0) printf("queued   %.3f us a run, where one follows the other\n", r->queued_us);
    print_work(s, r, r->queued_us > 0 ? r->queued_us : p50);
    print_predicted(s);
    if (f.deviation > 0.1 * f.mean)
        printf("%swarning:%s the times vary: their standard deviation is %.0f %% of the mean\n",
               terminal_begin(stdout, TERMINAL_WARNING), terminal_begin(stdout, TERMINAL_PLAIN), 100 * f.deviation / f.mean);
    if (p50 < 2) printf("note: reading the clock is %.3f us of every sample\n", clock_cost());
    free(f.sorted);
    if (r->steps.count) step_times_print(&r->steps, s, verbose);
}

/* {"key", "taken", "by", "tuned_us" and "alternatives": [{"name", "predicted_us", or "cannot"}]} of each choice of a
 * step. */
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
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:o}", "key", c.key, "taken",
                                              hyp_context_alternative(s->context, step, i, c.taken).name, "by",
                                              choice_by_name(c.by), "tuned_us", c.seconds * 1e6, "alternatives",
                                              alternatives));
    }
    return list;
}

static json_t *json_steps(const session *s, const step_times *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++) {
        hyp_step_info step = hyp_engine_step(s->engine, i);
        const hyp_step_work_info *w = &t->work[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:I, s:f, s:s, s:o}", "label", step.label, "kernel",
                            step.kernel, "measured_us", t->measured[i] * 1e6, "predicted_us",
                            w->predicted_seconds * 1e6, "flops", w->flops, "bytes", w->bytes, "launches",
                            (json_int_t)w->launches, "floor_us", w->floor_seconds * 1e6, "tuned",
                            step_tuning_name(hyp_context_step_tuning(s->context, i)), "choices", json_choices(s, i)));
    }
    return list;
}

static json_t *json_inputs(const session *s)
{
    json_t *inputs = json_object();
    for (size_t i = 0; i < s->input_count; i++) {
        json_t *dims = json_array();
        for (int32_t a = 0; a < s->inputs[i].rank; a++) json_array_append_new(dims, json_integer(s->inputs[i].dims[a]));
        json_object_set_new(inputs, hyp_engine_input(s->engine, i)->name, dims);
    }
    return inputs;
}

int bench_dump_json(json_t *root, const char *path, const char *tool)
{
    size_t flags = JSON_REAL_PRECISION(12) | JSON_COMPACT;
    int failed = strcmp(path, "-") == 0 ? json_dumpf(root, stdout, flags) : json_dump_file(root, path, flags);
    json_decref(root);
    if (failed) cli_error(tool, "%s: cannot write: %s", path, strerror(errno));
    return failed ? CLI_FAILED : CLI_OK;
}

int bench_write_json(const session *s, const bench_results *r, const char *path, const char *tool)
{
    figures f = compute_figures(&r->all);
    hyp_step_work_info w = sum_work(s, r);
    json_t *list = json_array();
    for (size_t i = 0; i < r->all.count; i++) json_array_append_new(list, json_real(r->all.us[i]));
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:o, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "plan",
                             r->plan, "device", hyp_engine_device_name(s->engine), "version", hyp_version(), "commit",
                             HYP_COMMIT, "inputs", json_inputs(s), "threads", (int)r->threads, "tensors",
                             r->device_memory, "mean_us", f.mean, "sd_us", f.deviation, "min_us", f.sorted[0], "max_us",
                             f.sorted[f.count - 1], "predicted_us", w.predicted_seconds * 1e6, "flops", w.flops,
                             "bytes", w.bytes, "launches", (json_int_t)w.launches, "floor_us", w.floor_seconds * 1e6);
    if (root)
        json_object_set_new(root, "predicted_run_us", json_real(predicted_run_seconds(s, w.predicted_seconds) * 1e6));
    if (root && r->queued_us > 0) json_object_set_new(root, "queued_us", json_real(r->queued_us));
    if (root && r->resident_us > 0) json_object_set_new(root, "resident_us", json_real(r->resident_us));
    if (root && r->steps.count) json_object_set_new(root, "steps", json_steps(s, &r->steps));
    for (size_t i = 0; i < r->percentiles->count && root; i++) {
        char key[64];
        snprintf(key, sizeof key, "p%.32s_us", r->percentiles->items[i]);
        json_object_set_new(root, key, json_real(percentile(&f, atof(r->percentiles->items[i]))));
    }
    static const double always[] = {50, 90, 99};
    for (size_t i = 0; i < 3 && root; i++) {
        char key[16];
        snprintf(key, sizeof key, "p%.0f_us", always[i]);
        json_object_set_new(root, key, json_real(percentile(&f, always[i])));
    }
    free(f.sorted);
    if (!root || json_object_set_new(root, "samples_us", list) != 0) {
        cli_error(tool, "out of memory");
        return CLI_FAILED;
    }
    return bench_dump_json(root, path, tool);
}

void bench_results_free(bench_results *r)
{
    step_times_free(&r->steps);
    free(r->all.us);
    free(r->work);
    *r = (bench_results){0};
}
