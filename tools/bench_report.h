/* bench_report.h - what hypatia bench says: for people, and as JSON. */
#ifndef HYPATIA_TOOLS_BENCH_REPORT_H
#define HYPATIA_TOOLS_BENCH_REPORT_H

#include <jansson.h>

#include "session.h"

typedef struct samples {
    double *us;
    size_t count, capacity;
} samples;

typedef struct bench_results {
    const char *plan, *device_memory; /* "device" or "host": where inputs and outputs lay */
    int32_t threads;
    const cli_list *percentiles;
    samples all;        /* of a run call each, until its results are there */
    double queued_us;   /* a run among many that were queued one behind the other; 0 = not measured */
    double resident_us; /* the median with tensors on the device, where `all` are of host tensors; 0 = not measured */
    step_times steps;   /* empty unless asked for */
    hyp_step_work_info *work; /* by step */
} bench_results;

/* For people; `verbose`: whatever the terminal's width is. */
void bench_print(const session *s, const bench_results *r, bool verbose);
/* An exit code after a message. `path` is a file, or "-". */
int bench_write_json(const session *s, const bench_results *r, const char *path, const char *tool);
void bench_results_free(bench_results *r);

/* Writes what hypatia bench measured, and releases it: times to the nanosecond, of minutes too. `root` may be NULL, where
 * memory was out. An exit code after a message; `path` is a file, or "-". */
int bench_dump_json(json_t *root, const char *path, const char *tool);

#endif
