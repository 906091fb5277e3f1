/* What a profiler that is attached sees of runs: a range for each step that is queued, one for a graph that is replayed. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/scaled_plan.h"

static const char *(*names)(void);
static int (*open_ranges)(void);

static int find_tool(void **state)
{
    void *tool = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW), *symbol;
    assert_non_null(tool);
    assert_non_null(symbol = dlsym(tool, "nvtx_tool_names"));
    memcpy(&names, &symbol, sizeof symbol);
    assert_non_null(symbol = dlsym(tool, "nvtx_tool_open"));
    memcpy(&open_ranges, &symbol, sizeof symbol);
    return load_plan(state);
}

static void steps_and_replays_are_ranges(void **state)
{
    (void)state;
    size_t (*graphs)(void) = NULL;
    assert_true(emulator_function("emulator_graphs", &graphs));
    const char *first = hyp_engine_step(engine, 0).label, *second = hyp_engine_step(engine, 1).label;
    char steps[256];
    snprintf(steps, sizeof steps, "%s,%s", first, second);
    hyp_context *context = create(NULL);
    buffers b = make_buffers(3);
    OK(run(context, &b, NULL));
    assert_string_equal(names(), steps);
    for (int i = 0; i < 40 && !graphs(); i++) OK(run(context, &b, NULL));
    assert_true(graphs() > 0);
    size_t before = strlen(names());
    OK(run(context, &b, NULL));
    OK(hyp_context_synchronize(context, &diag));
    assert_string_equal(names() + before, ",made by hand"); /* the model's name */
    assert_int_equal(open_ranges(), 0);
    hyp_context_destroy(context);
    free_buffers(&b);
}

int main(int argc, char **argv)
{
    if (!device_start(&dev, argc, argv)) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_and_replays_are_ranges)};
    int failed = cmocka_run_group_tests(tests, find_tool, unload_plan);
    device_close(&dev);
    return failed;
}
