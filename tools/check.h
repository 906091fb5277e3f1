/* check.h - lends the compiler a runtime, for hyp_compile_options.run_plan. */
#ifndef HYPATIA_TOOLS_CHECK_H
#define HYPATIA_TOOLS_CHECK_H

#include "hypatia/compiler.h"
#include "hypatia/runtime.h"

/* Runs a plan on the CPU, by the reference kernels where the others cannot. `threads`: an int32_t, NULL or 0 as the
 * environment says. */
hyp_status check_run_plan(const char *path, const hyp_plan_run *runs, size_t count, void *threads, hyp_diag *diag);

#endif
