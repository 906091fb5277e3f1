/* loaded.h - a plan's file in an engine on the emulated GPU, with what is logged. */
#ifndef TESTS_RUNTIME_CUDA_LOADED_H
#define TESTS_RUNTIME_CUDA_LOADED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/plan_builder.h"

/* A count of the emulator: emulator_compiled, emulator_generated_runs, emulator_modules. */
static inline int count_of(const char *name)
{
    int (*count)(void) = NULL;
    assert_true(emulator_function(name, &count));
    return count();
}

typedef struct loaded {
    hyp_engine *engine;
    hyp_context *context;
    char log[4096];
} loaded;

static inline void keep_line(const char *line, void *log)
{
    strncat(log, line, 4095 - strlen(log));
    strncat(log, "\n", 4095 - strlen(log));
}

static inline void load(loaded *l, const char *path)
{
    hyp_diag diag = {0};
    *l->log = 0;
    hyp_engine_options options = {
        .size = sizeof options, .device = HYP_DEVICE_CUDA, .log = keep_line, .log_user = l->log};
    if (hyp_engine_load_file(path, &options, &l->engine, &diag) != HYP_OK ||
        hyp_context_create(l->engine, NULL, &l->context, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
}

static inline void unload(loaded *l)
{
    hyp_context_destroy(l->context);
    hyp_engine_destroy(l->engine);
}

#endif
