/* Steps run one after the other on all threads of a CPU: an event for each, inside of one for the run. */
#include "bench_trace.h"

#include <stdlib.h>
#include <string.h>

#include "bench_report.h"
#include "timing.h"

enum { RUNS = 10, TRACK = 1 };

static void add_event(json_t *events, const char *name, const char *kind, double start, double seconds, json_t *args)
{
    json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "name", name, "cat", kind, "ph", "X",
                                            "pid", 1, "tid", TRACK, "ts", start * 1e6, "dur", seconds * 1e6, "args", args));
}

static void add_steps(json_t *events, const session *s, const hyp_step_work_info *work, const double *seconds, double start)
{
    for (size_t i = 0; i < hyp_engine_step_count(s->engine); i++) {
        hyp_step_info step = hyp_engine_step(s->engine, i);
        json_t *args = json_pack("{s:I, s:s, s:f, s:f, s:f}", "step", (json_int_t)i, "kernel", step.kernel, "flops",
                                 work[i].flops, "bytes", work[i].bytes, "predicted_us", work[i].predicted_seconds * 1e6);
        add_event(events, step.label, "step", start, seconds[i], args);
        start += seconds[i];
    }
}

/* Measures so many runs. An event of a run is as long as its steps together: what lies between them is the clock. */
static int add_runs(json_t *events, session *s, size_t runs, const char *tool)
{
    size_t count = hyp_engine_step_count(s->engine);
    double *seconds = cli_alloc(NULL, count + 1, sizeof *seconds), first = timing_now(), free_from = 0;
    hyp_step_work_info *work = NULL;
    int code = CLI_OK;
    for (size_t r = 0; r < runs && code == CLI_OK; r++) {
        hyp_diag diag = {0};
        double start = timing_now() - first, sum = 0;
        hyp_status status = hyp_context_time_steps(s->context, s->inputs, s->input_count, s->outputs, s->output_count, seconds,
                                                   count, &diag);
        if (status != HYP_OK) code = cli_report(tool, &diag);
        if (code == CLI_OK && !work && !(work = step_work(s, tool))) code = CLI_FAILED;
        if (code != CLI_OK) break;
        for (size_t i = 0; i < count; i++) sum += seconds[i];
        if (start < free_from) start = free_from;
        add_event(events, "run", "run", start, sum, json_pack("{s:I}", "number", (json_int_t)r));
        add_steps(events, s, work, seconds, start);
        free_from = start + sum;
    }
    free(work);
    free(seconds);
    return code;
}

int bench_trace(session *s, int32_t threads, const char *path, const char *tool)
{
    bool cuda = hyp_engine_device(s->engine) == HYP_DEVICE_CUDA;
    char track[96];
    json_t *events = json_array();
    if (cuda)
        snprintf(track, sizeof track, "steps, each alone");
    else if (threads > 0)
        snprintf(track, sizeof track, "steps, on %d thread%s", (int)threads, threads == 1 ? "" : "s");
    else
        snprintf(track, sizeof track, "steps");
    int code = add_runs(events, s, cuda ? 1 : RUNS, tool);
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M", "pid", 1, "tid",
                                            TRACK, "args", "name", track));
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", 1, "args",
                                            "name", hyp_engine_device_name(s->engine)));
    json_t *root = json_pack("{s:s, s:o}", "displayTimeUnit", "ns", "traceEvents", events);
    if (code == CLI_OK) return bench_dump_json(root, path, tool);
    json_decref(root);
    return code;
}
