/* measure.h - what hypatiac measures on this machine: a profile for the cost model, and which plan of a model is the
 * fastest.
 */
#ifndef HYPATIA_TOOLS_MEASURE_H
#define HYPATIA_TOOLS_MEASURE_H

#include "hypatia/compiler.h"
#include "session.h"

/* Where and how long to measure. */
typedef struct measure_options {
    hyp_device_kind device;
    int32_t threads; /* 0 = as the environment says, else all */
    double seconds;  /* about so long in all */
    bool quiet;      /* no progress on stderr */
} measure_options;

/* The names of the rules that bring a graph to normal form and fuse nothing, of those that the options choose. */
int normal_rules(const hyp_compile_options *options, cli_list *out, const char *tool);

/* Adds "batch=32", the typical size, for every symbol of the inputs that the list has no size for. */
void measure_typical_dims(const session *s, cli_list *out);
/* Compiles a model and opens the plan, which has no file afterwards, with random inputs of typical sizes; runs it once.
 * An exit code after a message; the session is to be closed in any case. */
int measure_open(session *s, const char *model, const hyp_compile_options *compile, const measure_options *o,
                 const cli_args *args);

/* calibrate.c: measures kernels of the CPU here and writes a profile to `path` ("-": standard output). */
int calibrate(const char *path, const measure_options *o, const cli_args *args);

/* choose.c: times the plan that `compile` makes of a model, the one of its normal form, and the one of the graph as it
 * is, in turns, and prints their times to `people`. Where another than the first is the fastest, changes `compile` so
 * that it makes that one; *names then owns names of rules that `compile` uses, and *flag says what was kept. */
int choose_fastest(hyp_compile_options *compile, const char *model, const measure_options *o, FILE *people,
                   cli_list *names, const char **flag, const cli_args *args);

#endif
