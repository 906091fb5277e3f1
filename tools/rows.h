/* rows.h - whether requests of several callers can be run together as rows of one: for what serves plans. */
#ifndef HYPATIA_TOOLS_ROWS_H
#define HYPATIA_TOOLS_ROWS_H

#include "hypatia/runtime.h"

typedef enum rows_verdict {
    ROWS_INDEPENDENT = 0, /* each row of the outputs follows from the same row of the inputs, as far as samples show */
    ROWS_DEPENDENT = 1,   /* rows come out different beside others */
    ROWS_NONE = 2,   /* inputs and outputs have no first axis of one size that is open, or other sizes follow from it */
    ROWS_UNKNOWN = 3 /* samples could not be run */
} rows_verdict;

/* Looks at the shapes, then runs three rows of random samples together and one by one: what a plan keeps of its samples
 * says of which range integers are. `reason` is why, for people, "" where rows are independent. Runs the context. */
rows_verdict rows_look(hyp_engine *engine, hyp_context *context, char *reason, size_t reason_size);

#endif
