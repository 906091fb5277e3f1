/* bench.h - what the files of hypatia bench share: samples of one plan, and of two in turns. */
#ifndef HYPATIA_TOOLS_BENCH_H
#define HYPATIA_TOOLS_BENCH_H

#include <signal.h>

#include "bench_report.h"

typedef struct bench_request {
    session_options session;
    double warmup_ms, seconds;
    int64_t iterations;
    cli_list percentiles;
    const char *json, *trace, *compare; /* NULL: none */
    bool quiet, steps, resident, transfers;
} bench_request;

/* One run until its results are there. */
hyp_status bench_run_once(session *s, hyp_diag *diag);
/* After a session has its inputs: runs for the warm-up. Tensors are matched by position from here on, so that no name is
 * compared. An exit code after a message. */
int bench_warm_up(session *s, const bench_request *r, const volatile sig_atomic_t *stop_asked);
void bench_add_sample(samples *out, double us);

/* Times the opened plan and the one of `compare` in turns, and says whether one is faster. An exit code after a message. */
int bench_compare(session *s, const bench_request *r, const cli_args *args);

extern const char bench_tool[];

#endif
