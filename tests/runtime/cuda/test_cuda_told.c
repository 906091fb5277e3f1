/* Kernels that are told the sizes, by which pointwise steps run that nobody tuned: when they are compiled, who shares
 * them, what the user's cache keeps, and what happens where they cannot be made. Runs on the emulator. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/loaded.h"
#include "runtime/cuda/session/told_kernels.h"
#include "runtime/plan_builder.h"

#define OP(name) HYP_PLAN__POINTWISE__OP__##name

enum { WIDTH = 16, MOST_ROWS = 4096, STEPS = 4, KERNELS = 2 };
static plan_builder builder; /* large */
static char path[PB_PATH];

/* y = f(f(f(x))) + 1 with f(x) = 0.5 x + max(x, bias): the first three steps share a kernel. In f64 the last one
 * computes in doubles. */
static void write_plan(hyp_dtype last)
{
    float bias[WIDTH];
    for (int i = 0; i < WIDTH; i++) bias[i] = (float)(i % 5 - 2);
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), one = pb_const(&builder, 1);
    uint32_t extents[] = {batch, width}, dense[] = {width, one}, along[] = {pb_const(&builder, 0), one};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, extents), y = pb_output(&builder, "y", last, 2, extents);
    uint32_t b = pb_weight(&builder, HYP_F32, 1, (int64_t[]){WIDTH}, bias);
    uint32_t chain[STEPS + 1] = {[0] = x, [STEPS] = y};
    for (uint32_t i = 1; i < STEPS; i++) chain[i] = pb_scratch(&builder, HYP_F32, i - 1, 2, extents);
    for (int i = 0; i < STEPS; i++) {
        bool is_last = i + 1 == STEPS;
        hyp_dtype compute = is_last ? last : HYP_F32;
        HypPlan__Pointwise *s = pb_pointwise(&builder, compute, 2, extents);
        pb_operand(&builder, s, chain[i], dense);
        if (!is_last) pb_operand(&builder, s, b, along);
        uint32_t number = pb_instr(&builder, s, OP(CONST), 0, 0, is_last ? 1 : 0.5, 0, compute);
        uint32_t first = pb_instr(&builder, s, is_last ? OP(ADD) : OP(MUL), 0, number, 0, 0, compute);
        if (!is_last)
            first = pb_instr(&builder, s, OP(ADD), first, pb_instr(&builder, s, OP(MAX), 0, 1, 0, 0, HYP_F32), 0, 0,
                             HYP_F32);
        pb_result(&builder, s, chain[i + 1], first);
    }
    pb_write(&builder, path);
    pb_dispose(&builder);
}

static int begin(void **state)
{
    (void)state;
    write_plan(HYP_F32);
    setenv("HYPATIA_EMULATOR", "", 1);
    setenv("HYPATIA_CACHE", "none", 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static float f(float x, int column) { return 0.5f * x + fmaxf(x, (float)(column % 5 - 2)); }

/* Runs for so many rows and checks the result of f32. */
static void run_rows(hyp_context *context, int64_t rows)
{
    float *in = calloc((size_t)rows * WIDTH, 4), *got = calloc((size_t)rows * WIDTH, 4);
    for (int i = 0; i < rows * WIDTH; i++) in[i] = (float)(i % 37 - 18) / 8;
    size_t bytes = (size_t)rows * WIDTH * 4;
    hyp_diag diag = {0};
    hyp_tensor x = {.data = in, .bytes = bytes, .dtype = HYP_F32, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor y = {.data = got, .bytes = bytes, .dtype = HYP_F32};
    if (hyp_context_run(context, &x, 1, &y, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (int i = 0; i < rows * WIDTH; i++) {
        float want = in[i];
        for (int k = 0; k + 1 < STEPS; k++) want = f(want, i % WIDTH);
        if (got[i] != want + 1) fail_msg("%d of %d rows: %g, not %g", i, (int)rows, (double)got[i], (double)want + 1);
    }
    free(in);
    free(got);
}

/* Returns how many of the run's steps were done by kernels that are told the sizes. */
static int run(const loaded *l, int64_t rows)
{
    int before = count_of("emulator_sized_runs"), others = count_of("emulator_generated_runs");
    run_rows(l->context, rows);
    assert_int_equal(count_of("emulator_generated_runs"), others);
    return count_of("emulator_sized_runs") - before;
}

/* ---- compiling ----------------------------------------------------------------------------------------------- */

static void steps_that_differ_in_sizes_share_kernels_and_a_plan_is_one_program(void **state)
{
    (void)state;
    loaded l;
    int compiled = count_of("emulator_compiled");
    load(&l, path);
    assert_int_equal(count_of("emulator_compiled"), compiled); /* no shapes are prepared yet */
    assert_int_equal(run(&l, 24), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 1);
    assert_int_equal(count_of("emulator_modules"), 1);
    assert_non_null(strstr(l.log, "kernels compiled for pointwise steps: 2, in "));
    assert_int_equal(run(&l, 25), STEPS);
    assert_int_equal(run(&l, 3), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 1);
    /* So many elements are done in pieces. */
    assert_int_equal(run(&l, MOST_ROWS), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 2);
    assert_int_equal(run(&l, MOST_ROWS - 1), STEPS);
    assert_int_equal(run(&l, 24), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 2);
    unload(&l);
    assert_int_equal(count_of("emulator_modules"), 0);
}

static void shapes_are_ready_when_they_are_reserved(void **state)
{
    (void)state;
    loaded l;
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {24, WIDTH}};
    load(&l, path);
    assert_int_equal(hyp_context_reserve(l.context, &x, 1, &diag), HYP_OK);
    int compiled = count_of("emulator_compiled");
    assert_int_equal(run(&l, 24), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled);
    unload(&l);
}

static void *run_often(void *context)
{
    static const int64_t rows[] = {24, MOST_ROWS, 7, 24};
    for (int i = 0; i < 4; i++) run_rows(context, rows[i]);
    return NULL;
}

static void contexts_of_an_engine_share_them_on_any_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    loaded l;
    hyp_diag diag = {0};
    hyp_context *contexts[THREADS];
    pthread_t threads[THREADS];
    load(&l, path);
    int compiled = count_of("emulator_compiled");
    for (int i = 0; i < THREADS; i++) assert_int_equal(hyp_context_create(l.engine, NULL, &contexts[i], &diag), HYP_OK);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_often, contexts[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(count_of("emulator_compiled"), compiled + 2);
    assert_int_equal(count_of("emulator_modules"), 2);
    for (int i = 0; i < THREADS; i++) hyp_context_destroy(contexts[i]);
    unload(&l);
}

static void tuned_steps_need_none(void **state)
{
    (void)state;
    loaded l, again;
    hyp_diag diag = {0};
    load(&l, path);
    hyp_tune_report report = tune_in_mode(l.context, "", HYP_F32, 24, WIDTH);
    assert_int_equal(report.replaced, KERNELS); /* a kernel for one size is faster, on the emulator */
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_OK);
    unload(&l);
    load(&again, path);
    int compiled = count_of("emulator_compiled"), told = count_of("emulator_sized_runs");
    run_rows(again.context, 24);
    assert_int_equal(count_of("emulator_compiled"), compiled);
    assert_int_equal(count_of("emulator_sized_runs"), told);
    run_rows(again.context, 25); /* which nobody tuned */
    assert_int_equal(count_of("emulator_compiled"), compiled + 1);
    assert_int_equal(count_of("emulator_sized_runs"), told + STEPS);
    unload(&again);
    write_plan(HYP_F32);
}

/* relu(x + bias) of f32 is what a kernel of every binary does, where rows are pieces of 16 bytes. */
static void short_steps_need_none(void **state)
{
    (void)state;
    static float x[2 * WIDTH], bias[WIDTH], y[2 * WIDTH];
    for (int wide = 0; wide < 2; wide++) {
        const int64_t width = wide ? WIDTH : WIDTH - 1, dims[] = {2, width}, dense[] = {width, 1}, row[] = {0, 1};
        loaded l;
        pb_init(&builder);
        uint32_t *extents = pb_consts(&builder, 2, dims);
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 2, extents);
        pb_operand(&builder, s, pb_input(&builder, "x", HYP_F32, 2, extents), pb_consts(&builder, 2, dense));
        pb_operand(&builder, s, pb_weight(&builder, HYP_F32, 1, &width, bias), pb_consts(&builder, 2, row));
        uint32_t sum = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
        pb_result(&builder, s, pb_output(&builder, "y", HYP_F32, 2, extents),
                  pb_instr(&builder, s, OP(RELU), sum, 0, 0, 0, HYP_F32));
        pb_write(&builder, path);
        pb_dispose(&builder);
        load(&l, path);
        hyp_diag diag = {0};
        size_t bytes = 2 * (size_t)width * sizeof *x;
        hyp_tensor in = {.data = x, .bytes = bytes, .dtype = HYP_F32, .rank = 2, .dims = {2, width}};
        hyp_tensor out = {.data = y, .bytes = bytes, .dtype = HYP_F32};
        int told = count_of("emulator_sized_runs");
        assert_int_equal(hyp_context_run(l.context, &in, 1, &out, 1, &diag), HYP_OK);
        assert_int_equal(count_of("emulator_sized_runs"), told + !wide);
        unload(&l);
    }
    write_plan(HYP_F32);
}

/* ---- where there are none ------------------------------------------------------------------------------------ */

static void without_a_compiler_steps_are_interpreted_and_the_log_says_why_once(void **state)
{
    (void)state;
    static const struct {
        const char *library, *says;
    } cases[] = {
        {"none", "pointwise steps are interpreted, some of them many times slower: HYPATIA_NVRTC is none"},
        {"/nowhere/libnvrtc.so", "many times slower: libnvrtc cannot be loaded from HYPATIA_NVRTC"},
    };
    char library[4096];
    snprintf(library, sizeof library, "%s", getenv("HYPATIA_NVRTC"));
    for (int i = 0; i < 2; i++) {
        loaded l;
        setenv("HYPATIA_NVRTC", cases[i].library, 1);
        load(&l, path);
        assert_int_equal(run(&l, 24), 0);
        assert_int_equal(run(&l, MOST_ROWS), 0);
        const char *said = strstr(l.log, cases[i].says);
        assert_non_null(said);
        assert_null(strstr(said + 1, cases[i].says));
        unload(&l);
    }
    setenv("HYPATIA_NVRTC", library, 1);
}

static void a_kernel_that_does_not_compile_is_in_nobodys_way(void **state)
{
    (void)state;
    loaded l;
    write_plan(HYP_F64);
    setenv("HYPATIA_EMULATOR", "uncompiled double", 1);
    load(&l, path);
    static float in[24 * WIDTH];
    static double got[24 * WIDTH];
    hyp_diag diag = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {24, WIDTH}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F64};
    int told = count_of("emulator_sized_runs"), compiled = count_of("emulator_compiled");
    for (int i = 0; i < 2; i++) assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_int_equal(count_of("emulator_sized_runs"), told + 2 * (STEPS - 1));
    assert_int_equal(count_of("emulator_compiled"), compiled + 1); /* of three programs that were tried */
    assert_non_null(strstr(l.log, "interpreted, some of them many times slower: the kernel does not compile: "));
    unload(&l);
    setenv("HYPATIA_EMULATOR", "", 1);
    write_plan(HYP_F32);
}

/* More different steps than an engine compiles kernels for; each has a number of its own. */
static void an_engine_does_not_compile_without_end(void **state)
{
    (void)state;
    enum { MANY = HYP_CUDA_TOLD_MOST + 3 };
    loaded l;
    const int64_t count = WIDTH, one = 1;
    pb_init(&builder);
    uint32_t *dims = pb_consts(&builder, 1, &count), *ones = pb_consts(&builder, 1, &one);
    uint32_t at = pb_input(&builder, "x", HYP_F32, 1, dims);
    for (int i = 0; i < MANY; i++) {
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, dims);
        pb_operand(&builder, s, at, ones);
        at = i + 1 < MANY ? pb_scratch(&builder, HYP_F32, (uint32_t)i % 2, 1, dims)
                          : pb_output(&builder, "y", HYP_F32, 1, dims);
        uint32_t number = pb_instr(&builder, s, OP(CONST), 0, 0, i, 0, HYP_F32);
        pb_result(&builder, s, at, pb_instr(&builder, s, OP(ADD), 0, number, 0, 0, HYP_F32));
    }
    pb_write(&builder, path);
    pb_dispose(&builder);
    setenv("HYPATIA_EMULATOR", "uncompiled", 1); /* or this would take long */
    load(&l, path);
    float in[WIDTH] = {1}, got[WIDTH];
    hyp_diag diag = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 1, .dims = {WIDTH}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    assert_int_equal(hyp_context_run(l.context, &x, 1, &y, 1, &diag), HYP_OK);
    assert_true(got[0] == 1 + MANY * (MANY - 1) / 2);
    assert_non_null(strstr(l.log, "an engine compiles at most 128 kernels, of 2048 instructions"));
    unload(&l);
    setenv("HYPATIA_EMULATOR", "", 1);
    write_plan(HYP_F32);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void without_memory_a_run_is_an_error_that_can_be_tried_again(void **state)
{
    (void)state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        loaded l;
        float in[WIDTH] = {0}, got[WIDTH];
        hyp_diag diag = {0};
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
        hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
        load(&l, path);
        hyp_mem_fail_after(n);
        status = hyp_context_run(l.context, &x, 1, &y, 1, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_int_equal(run(&l, 1), STEPS);
        unload(&l);
    }
}

/* ---- the user's cache ---------------------------------------------------------------------------------------- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hypatia-cache-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setenv("HYPATIA_CACHE", folder, 1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    setenv("HYPATIA_CACHE", "none", 1);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void what_was_compiled_is_kept_for_other_engines(void **state)
{
    (void)state;
    loaded l;
    char library[4096];
    load(&l, path);
    int compiled = count_of("emulator_compiled");
    assert_int_equal(run(&l, 24), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 1);
    unload(&l);
    load(&l, path);
    assert_int_equal(run(&l, 24), STEPS);
    assert_int_equal(count_of("emulator_compiled"), compiled + 1);
    assert_null(strstr(l.log, "kernels compiled"));
    unload(&l);
    snprintf(library, sizeof library, "%s", getenv("HYPATIA_NVRTC")); /* and needs no compiler then */
    setenv("HYPATIA_NVRTC", "/nowhere/libnvrtc.so", 1);
    load(&l, path);
    assert_int_equal(run(&l, 24), STEPS);
    assert_null(strstr(l.log, "interpreted"));
    assert_int_equal(run(&l, MOST_ROWS), 0);
    assert_non_null(strstr(l.log, "interpreted"));
    unload(&l);
    setenv("HYPATIA_NVRTC", library, 1);
}

/* An entry that is whole but holds no machine code is as good as none, and is replaced. */
static void an_entry_that_the_driver_refuses_is_made_anew(void **state)
{
    (void)state;
    loaded l;
    char command[160];
    load(&l, path);
    int compiled = count_of("emulator_compiled");
    assert_int_equal(run(&l, 24), STEPS);
    unload(&l);
    snprintf(command, sizeof command,
             "for f in %s/*.entry; do printf xxxx | dd of=$f bs=1 seek=9000 conv=notrunc 2> /dev/null; done", folder);
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 2; i++) {
        load(&l, path);
        assert_int_equal(run(&l, 24), STEPS);
        assert_int_equal(count_of("emulator_compiled"), compiled + 2);
        unload(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_differ_in_sizes_share_kernels_and_a_plan_is_one_program),
        cmocka_unit_test(shapes_are_ready_when_they_are_reserved),
        cmocka_unit_test(contexts_of_an_engine_share_them_on_any_threads),
        cmocka_unit_test(tuned_steps_need_none),
        cmocka_unit_test(short_steps_need_none),
        cmocka_unit_test(without_a_compiler_steps_are_interpreted_and_the_log_says_why_once),
        cmocka_unit_test(a_kernel_that_does_not_compile_is_in_nobodys_way),
        cmocka_unit_test(an_engine_does_not_compile_without_end),
        cmocka_unit_test(without_memory_a_run_is_an_error_that_can_be_tried_again),
        cmocka_unit_test_setup_teardown(what_was_compiled_is_kept_for_other_engines, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_entry_that_the_driver_refuses_is_made_anew, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
