/* measure_plan.h - a plan with inputs of its typical sizes, to be timed. */
#ifndef HYPATIA_TOOLS_MEASURE_PLAN_H
#define HYPATIA_TOOLS_MEASURE_PLAN_H

#include "session.h"

/* Adds "batch=32", the typical size, for every symbol of the inputs that the list has no size for. */
void measure_typical_dims(const session *s, cli_list *out);
/* Opens a plan with random inputs of typical sizes; runs it once. Of `where` the plan, the device and the threads
 * count. An exit code after a message; the session is to be closed in any case. */
int measure_open_plan(session *s, const session_options *where, const cli_args *args);

#endif
