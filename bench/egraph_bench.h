/* egraph_bench.h - what the benchmarks of the e-graph have in common. BENCH is the name of the program that includes it. */
#ifndef HYP_BENCH_EGRAPH_BENCH_H
#define HYP_BENCH_EGRAPH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hypatia/egraph.h"

/* Ends the program with a message where a call failed. */
static inline void need(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, BENCH ": %s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

/* Seconds of a clock that only goes forward. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
