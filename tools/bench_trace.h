/* bench_trace.h - the steps of runs over time, in Chrome's trace event format. */
#ifndef HYPATIA_TOOLS_BENCH_TRACE_H
#define HYPATIA_TOOLS_BENCH_TRACE_H

#include "session.h"

/* Runs the plan some times with a clock at every step, on a GPU once and each step alone, and writes what took how long.
 * `path` is a file, or "-"; an exit code after a message. */
int bench_trace(session *s, int32_t threads, const char *path, const char *tool);

#endif
