/* What every step of a plan takes, beside what the compiler predicted. */
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "table.h"
#include "timing.h"

enum { MOST_RUNS = 101 };

hyp_step_work_info *step_work(const session *s, const char *tool)
{
    size_t count = hyp_engine_step_count(s->engine);
    hyp_step_work_info *work = cli_alloc(NULL, count, sizeof *work);
    hyp_diag diag = {0};
    for (size_t i = 0; i < count; i++) {
        work[i].size = sizeof *work;
        if (hyp_context_step_work(s->context, i, &work[i], &diag) == HYP_OK) continue;
        cli_report(tool, &diag);
        free(work);
        return NULL;
    }
    return work;
}

int step_times_measure(step_times *t, session *s, double seconds, size_t least, const char *tool)
{
    size_t count = hyp_engine_step_count(s->engine), runs = 0;
    double *all = cli_alloc(NULL, MOST_RUNS * count + 1, sizeof *all), *one = cli_alloc(NULL, MOST_RUNS, sizeof *one);
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    for (double end = timing_now() + seconds; status == HYP_OK && runs < MOST_RUNS && (runs < least || timing_now() < end);
         runs++)
        status = hyp_context_time_steps(s->context, s->inputs, s->input_count, s->outputs, s->output_count,
                                        all + runs * count, count, &diag);
    *t = (step_times){.count = count, .measured = cli_alloc(NULL, count, sizeof *t->measured)};
    if (status == HYP_OK) t->work = step_work(s, tool);
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        for (size_t r = 0; r < runs; r++) one[r] = all[r * count + i];
        t->measured[i] = timing_median(one, runs);
        t->total += t->measured[i];
    }
    free(one);
    free(all);
    if (status != HYP_OK) return cli_report(tool, &diag);
    return t->work ? CLI_OK : CLI_FAILED;
}

void step_times_free(step_times *t)
{
    free(t->measured);
    free(t->work);
    *t = (step_times){0};
}

double predicted_seconds(const session *s)
{
    hyp_step_work_info *work = step_work(s, "hypatia");
    double sum = 0;
    for (size_t i = 0; work && i < hyp_engine_step_count(s->engine); i++) sum += work[i].predicted_seconds;
    free(work);
    return sum;
}

double predicted_run_seconds(const session *s, double one_by_one)
{
    double run = hyp_engine_predicted_seconds(s->engine), sum = 0;
    for (size_t i = 0; i < hyp_engine_step_count(s->engine); i++) sum += hyp_engine_step(s->engine, i).predicted_seconds;
    return run > 0 && run < sum ? one_by_one * (run / sum) : one_by_one;
}

const char *step_tuning_name(hyp_step_tuning tuning)
{
    return tuning == HYP_STEP_TUNED ? "exact" : tuning == HYP_STEP_BORROWED ? "borrowed" : "-";
}

/* The cells of predicted time and ratio. */
static void add_ratio(table *t, double measured, double predicted)
{
    if (predicted > 0) {
        table_add(t, "%.3f", predicted * 1e6);
        table_add(t, "%.2f", measured / predicted);
    } else {
        table_add(t, "-");
        table_add(t, "-");
    }
}

/* Operations and bytes a second, and on a GPU launches and the share of the floor. */
static void add_rates(table *t, const hyp_step_work_info *w, double seconds, bool cuda)
{
    table_add(t, "%.1f", seconds > 0 ? w->flops / seconds * 1e-9 : 0);
    table_add(t, "%.1f", seconds > 0 ? w->bytes / seconds * 1e-9 : 0);
    if (!cuda) return;
    table_add(t, "%zu", w->launches);
    if (w->floor_seconds > 0 && seconds > 0)
        table_add(t, "%.0f %%", 100 * w->floor_seconds / seconds);
    else
        table_add(t, "-");
}

/* Below a row: how the step is done, and what else was possible. */
static void add_choices(table *t, const session *s, size_t step)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (!memory) return;
    print_choices(memory, "      ", s, step);
    if (fclose(memory) == 0 && size) table_note(t, text);
    free(text);
}

void step_times_print(const step_times *times, const session *s, bool verbose)
{
    static const table_column columns[] = {{"step", .right = true},
                                           {"operator", .shrinks = true},
                                           {"kernel", .shrinks = true, .spare = 1},
                                           {"measured us", .right = true},
                                           {"predicted us", .right = true, .spare = 2},
                                           {"ratio", .right = true, .spare = 3},
                                           {"GFLOP/s", .right = true, .spare = 4},
                                           {"GB/s", .right = true, .spare = 5}},
                              of_cuda[] = {{"launches", .right = true, .spare = 7}, {"floor", .right = true, .spare = 6}},
                              tuned = {"tuned", .spare = 8};
    bool cuda = hyp_engine_device(s->engine) == HYP_DEVICE_CUDA, tunable = hyp_context_tuning_device(s->context);
    table_column all_columns[11];
    table t = {.columns = all_columns, .column_count = sizeof columns / sizeof *columns};
    memcpy(all_columns, columns, sizeof columns);
    if (cuda) memcpy(all_columns + t.column_count, of_cuda, sizeof of_cuda);
    if (cuda) t.column_count += 2;
    if (tunable) all_columns[t.column_count++] = tuned;
    hyp_step_work_info all = {0};
    for (size_t i = 0; i < times->count; i++) {
        hyp_step_info step = hyp_engine_step(s->engine, i);
        const hyp_step_work_info *w = &times->work[i];
        table_add(&t, "%zu", i);
        table_add(&t, "%s", step.label);
        table_add(&t, "%s", step.kernel);
        table_add(&t, "%.3f", times->measured[i] * 1e6);
        add_ratio(&t, times->measured[i], w->predicted_seconds);
        add_rates(&t, w, times->measured[i], cuda);
        if (tunable) table_add(&t, "%s", step_tuning_name(hyp_context_step_tuning(s->context, i)));
        add_choices(&t, s, i);
        all.flops += w->flops;
        all.bytes += w->bytes;
        all.launches += w->launches;
        all.floor_seconds += w->floor_seconds;
        all.predicted_seconds += w->predicted_seconds;
    }
    table_add(&t, "%s", "");
    table_add(&t, "%s", "all, one by one");
    table_add(&t, "%s", "");
    table_add(&t, "%.3f", times->total * 1e6);
    add_ratio(&t, times->total, all.predicted_seconds);
    add_rates(&t, &all, times->total, cuda);
    putchar('\n');
    table_print(stdout, &t, verbose);
}

void print_predicted(const session *s)
{
    double steps = predicted_seconds(s), run = predicted_run_seconds(s, steps);
    bool first = true;
    if (!(steps > 0)) return;
    printf("predicted %.3f us", run * 1e6);
    if (run < steps) printf(" side by side, %.3f us one by one", steps * 1e6);
    for (size_t i = 0; i < s->input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(s->engine, i);
        for (int32_t a = 0; a < info->rank; a++) {
            int64_t typical = info->symbols[a] ? hyp_engine_typical_size(s->engine, info->symbols[a]) : 0;
            if (typical == 0 || typical == s->inputs[i].dims[a]) continue;
            printf("%s%s = %lld", first ? ", scaled from " : ", ", cli_shown(info->symbols[a]), (long long)typical);
            first = false;
        }
    }
    putchar('\n');
}
