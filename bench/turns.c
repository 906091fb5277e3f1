/* Runs of plans for bench/turns.py, which loads this module: each plan by the runtime of a library of its own choice, timed
 * here, since a call from Python takes longer than a small network.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hypatia/runtime.h"

/* A plan in one library. */
typedef struct turns_side {
    void *library;
    hyp_engine *engine;
    hyp_context *context;
    hyp_status (*run)(hyp_context *, hyp_diag *);
    void (*destroy_context)(hyp_context *);
    void (*destroy_engine)(hyp_engine *);
} turns_side;

HYP_API turns_side *turns_open(const char *path, const char *plan, int threads, const hyp_tensor *inputs,
                               size_t input_count, const hyp_tensor *outputs, size_t output_count, hyp_diag *diag);
HYP_API double turns_block(turns_side *s, double seconds, hyp_diag *diag);
HYP_API void turns_close(turns_side *s);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of this library, which the loader does not share with others of the name. false, and a message: it lacks the function. */
static bool find(turns_side *s, const char *name, void *function, hyp_diag *diag)
{
    void *found = dlsym(s->library, name);
    if (!found) snprintf(diag->message, sizeof diag->message, "the library has no %s", name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool open_plan(turns_side *s, const char *plan, int threads, hyp_diag *diag)
{
    hyp_status (*load)(const char *, const hyp_engine_options *, hyp_engine **, hyp_diag *);
    hyp_status (*create)(hyp_engine *, const hyp_context_options *, hyp_context **, hyp_diag *);
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = threads};
    return find(s, "hyp_engine_load_file", &load, diag) && find(s, "hyp_context_create", &create, diag) &&
           find(s, "hyp_context_run_bound", &s->run, diag) &&
           find(s, "hyp_context_destroy", &s->destroy_context, diag) &&
           find(s, "hyp_engine_destroy", &s->destroy_engine, diag) &&
           load(plan, &options, &s->engine, diag) == HYP_OK && create(s->engine, NULL, &s->context, diag) == HYP_OK;
}

/* A plan with its inputs and outputs bound, which has run once; they have to last as long as it does. NULL, and a message,
 * where anything fails. */
turns_side *turns_open(const char *path, const char *plan, int threads, const hyp_tensor *inputs, size_t input_count,
                       const hyp_tensor *outputs, size_t output_count, hyp_diag *diag)
{
    hyp_status (*bind)(hyp_context *, const hyp_tensor *, size_t, const hyp_tensor *, size_t, hyp_diag *);
    turns_side *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!s->library) {
        snprintf(diag->message, sizeof diag->message, "%s", dlerror());
    } else if (open_plan(s, plan, threads, diag) && find(s, "hyp_context_bind", &bind, diag) &&
               bind(s->context, inputs, input_count, outputs, output_count, diag) == HYP_OK &&
               s->run(s->context, diag) == HYP_OK) {
        return s;
    }
    turns_close(s);
    return NULL;
}

/* Runs for so many seconds, once at least: the seconds of the shortest run. Negative, and a message, where one fails. */
double turns_block(turns_side *s, double seconds, hyp_diag *diag)
{
    double least = INFINITY, begin = now(), last = begin;
    do {
        double from = last;
        if (s->run(s->context, diag) != HYP_OK) return -1;
        last = now();
        if (last - from < least) least = last - from;
    } while (last - begin < seconds);
    return least;
}

void turns_close(turns_side *s)
{
    if (!s) return;
    if (s->context) s->destroy_context(s->context);
    if (s->engine) s->destroy_engine(s->engine);
    free(s); /* the library stays: threads of its pool may be asleep in it */
}
