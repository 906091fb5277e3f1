/* measure.h - what hypatiac measures on this machine: a profile for the cost model, and which plan of a model is the
 * fastest.
 */
#ifndef HYPATIA_TOOLS_MEASURE_H
#define HYPATIA_TOOLS_MEASURE_H

#include "hypatia/compiler.h"
#include "measure_plan.h"
#include "tuning.h"

/* Where and how long to measure. */
typedef struct measure_options {
    hyp_device_kind device;
    int32_t threads; /* 0 = as the environment says, else all */
    double seconds;  /* about so long in all */
    bool quiet;      /* no progress on stderr */
} measure_options;

/* The names of the rules that bring a graph to normal form and fuse nothing, of those that the options choose. */
int normal_rules(const hyp_compile_options *options, cli_list *out, const char *tool);

/* As measure_open_plan, of a model, which is compiled to a plan that has no file afterwards. */
int measure_open(session *s, const char *model, const hyp_compile_options *compile, const measure_options *o,
                 const cli_args *args);

/* The target; of "cuda:native" the one whose costs are of the GPU here, as "cuda:h100". NULL after a message: there is none. */
const char *measure_target(const char *target, const char *tool);

/* calibrate.c: measures kernels of the CPU here and writes a profile to `path` ("-": standard output). */
int calibrate(const char *path, const measure_options *o, const cli_args *args);

/* ---- choose.c: which form of a model and its parts is the fastest here ------------------------------------------------ */

typedef struct chooser {
    measure_options options; /* of which parts take most of the seconds, and the whole the rest */
    bool timed;              /* what is not known is timed; else the first form is taken */
    const char *cache;       /* file of what is known, and of what is found; NULL = none */
    FILE *people;            /* is told what was measured; NULL = nobody is */
    const volatile sig_atomic_t *stop; /* nothing more is timed when it is not 0 */
    const cli_args *args;
    tune_cache known;
    char *device;                        /* that the lines of the cache are for; NULL until it was opened */
    bool blind;                          /* the device is not here */
    size_t parts, remembered, raced;     /* parts that were asked about: in all, known, timed */
    double spent;                        /* seconds of timing */
} chooser;
/* A hyp_choose_form_fn; its user is the chooser. */
hyp_status chooser_ask(const hyp_compile_forms *forms, size_t *out, void *user, hyp_diag *diag);
/* A line for people; nothing where nothing was asked. */
void chooser_print(const chooser *c, FILE *to, size_t changed);
void chooser_free(chooser *c);

#endif
