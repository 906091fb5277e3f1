/* Kernels that tuning generates for pointwise steps: when they are kept, how they travel, and what happens where they
 * cannot be made or used. Runs on the emulator, whose kernels have speeds of their own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/loaded.h"
#include "runtime/plan_builder.h"

#define OP(name) HYP_PLAN__POINTWISE__OP__##name

static plan_builder builder; /* large */
static char path[PB_PATH];
enum { ROWS = 24, WIDTH = 16 };

/* y = f(f(x)) + 1 with f(x) = 0.5 x + max(x, bias): three steps, of which two are equal. */
static int make_plan(void **state)
{
    (void)state;
    float bias[WIDTH];
    for (int i = 0; i < WIDTH; i++) bias[i] = (float)(i % 5 - 2);
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), width = pb_const(&builder, WIDTH), one = pb_const(&builder, 1);
    uint32_t extents[] = {batch, width}, dense[] = {width, one}, along[] = {pb_const(&builder, 0), one};
    uint32_t x = pb_input(&builder, "x", HYP_F32, 2, extents), y = pb_output(&builder, "y", HYP_F32, 2, extents);
    uint32_t b = pb_weight(&builder, HYP_F32, 1, (int64_t[]){WIDTH}, bias);
    uint32_t chain[] = {x, pb_scratch(&builder, HYP_F32, 0, 2, extents), pb_scratch(&builder, HYP_F32, 1, 2, extents),
                        y};
    for (int i = 0; i < 3; i++) {
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 2, extents);
        pb_operand(&builder, s, chain[i], dense);
        if (i < 2) pb_operand(&builder, s, b, along);
        uint32_t number = pb_instr(&builder, s, OP(CONST), 0, 0, i < 2 ? 0.5 : 1, 0, HYP_F32);
        uint32_t first = pb_instr(&builder, s, i < 2 ? OP(MUL) : OP(ADD), 0, number, 0, 0, HYP_F32);
        if (i < 2)
            first = pb_instr(&builder, s, OP(ADD), first, pb_instr(&builder, s, OP(MAX), 0, 1, 0, 0, HYP_F32), 0, 0,
                             HYP_F32);
        pb_result(&builder, s, chain[i + 1], first);
    }
    pb_write(&builder, path);
    setenv("HYPATIA_EMULATOR", "", 1);
    return 0;
}

static int remove_plan(void **state)
{
    (void)state;
    unlink(path);
    pb_dispose(&builder);
    return 0;
}

static hyp_tune_report tune(const loaded *l, const char *mode, int64_t rows)
{
    return tune_in_mode(l->context, mode, HYP_F32, rows, WIDTH);
}

static float f(float x, int column) { return 0.5f * x + fmaxf(x, (float)(column % 5 - 2)); }

/* Runs for so many rows, checks the result, and returns how many generated kernels ran. */
static int run(const loaded *l, int64_t rows)
{
    static float in[64 * WIDTH], got[64 * WIDTH];
    for (int i = 0; i < 64 * WIDTH; i++) in[i] = (float)(i % 37 - 18) / 8;
    hyp_diag diag = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {rows, WIDTH}};
    hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
    int before = count_of("emulator_generated_runs");
    if (hyp_context_run(l->context, &x, 1, &y, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        assert_true(got[i] == f(f(in[i], (int)(i % WIDTH)), (int)(i % WIDTH)) + 1);
    return count_of("emulator_generated_runs") - before;
}

/* Writes the plan with another device section, or none. */
static void write_section(HypPlan__Device *device)
{
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(path, NULL, &plan, &diag), HYP_OK);
    if (hyp_plan_write_device(path, &plan, device, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_plan_close(&plan);
}

/* A plan that was tuned for ROWS. */
static void write_tuned(void)
{
    loaded l;
    hyp_diag diag = {0};
    write_section(NULL);
    load(&l, path);
    tune(&l, "", ROWS);
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_OK);
    unload(&l);
}

/* ---- tuning -------------------------------------------------------------------------------------------------- */

static void a_faster_kernel_is_kept_and_shared_by_equal_steps(void **state)
{
    (void)state;
    loaded l;
    write_section(NULL);
    load(&l, path);
    assert_int_equal(run(&l, ROWS), 0);
    int modules = count_of("emulator_modules"); /* with that of the kernels of steps that nobody tuned */
    hyp_tune_report report = tune(&l, "", ROWS);
    assert_true(report.products == 2 && report.timed == 2 && report.replaced == 2 && report.known == 0);
    assert_string_equal(report.no_kernels, "");
    assert_true(report.run_seconds < report.untuned_run_seconds);
    assert_int_equal(count_of("emulator_modules"), modules + 2); /* the whole runs that were timed */
    assert_int_equal(run(&l, ROWS), 3);
    assert_int_equal(count_of("emulator_modules"), modules + 2);
    assert_int_equal(run(&l, ROWS + 1), 0);
    hyp_tuned first = hyp_context_tuned(l.context, 0);
    assert_string_equal(first.product, "pointwise 2 float [16 24] f32(1 16) f32(1 0) > f32; MUL x0 "
                                       "0.5 f32; MAX x0 x1 f32; ADD r0 r1 f32; y0 r2");
    assert_non_null(strstr(first.attributes, "a kernel of its own, "));
    assert_true(first.seconds > 0.9e-5 && first.seconds < 1.1e-5 && first.first_seconds > 1.4e-5);
    assert_true(first.epilogue > 0 && first.algorithm_bytes > 1000);
    unload(&l);
    assert_int_equal(count_of("emulator_modules"), 0);
}

static void a_slower_kernel_is_not_kept_and_not_compiled_again(void **state)
{
    (void)state;
    loaded l;
    hyp_diag diag = {0};
    write_section(NULL);
    load(&l, path);
    hyp_tune_report report = tune(&l, "slow generated", ROWS);
    assert_true(report.timed == 2 && report.replaced == 0);
    assert_int_equal(run(&l, ROWS), 0);
    assert_int_equal(hyp_context_save_plan(l.context, path, &diag), HYP_OK);
    unload(&l);
    load(&l, path);
    int compiled = count_of("emulator_compiled");
    report = tune(&l, "", ROWS);
    assert_true(report.known == 2 && report.timed == 0);
    assert_int_equal(run(&l, ROWS), 0);
    assert_int_equal(count_of("emulator_compiled"), compiled + 1); /* the kernels for any sizes */
    unload(&l);
}

static void a_wrong_kernel_is_not_kept(void **state)
{
    (void)state;
    loaded l;
    write_section(NULL);
    load(&l, path);
    hyp_tune_report report = tune(&l, "wrong generated", ROWS);
    assert_true(report.timed == 2 && report.replaced == 0);
    assert_int_equal(run(&l, ROWS), 0);
    unload(&l);
}

static void without_a_compiler_the_rest_is_tuned_and_the_reason_said(void **state)
{
    (void)state;
    loaded l;
    char library[4096];
    write_section(NULL);
    load(&l, path);
    hyp_tune_report report = tune(&l, "uncompiled", ROWS);
    assert_true(report.products == 0 && report.timed == 0);
    assert_string_equal(report.no_kernels,
                        "the kernel does not compile: pointwise.cu(2): error: as the emulator was told");
    unload(&l);
    snprintf(library, sizeof library, "%s", getenv("HYPATIA_NVRTC"));
    setenv("HYPATIA_NVRTC", "/nowhere/libnvrtc.so", 1);
    load(&l, path);
    report = tune(&l, "", ROWS);
    setenv("HYPATIA_NVRTC", library, 1);
    assert_true(report.products == 0 && report.timed == 0 && report.known == 0);
    assert_non_null(strstr(report.no_kernels, "libnvrtc cannot be loaded from HYPATIA_NVRTC"));
    assert_int_equal(run(&l, ROWS), 0);
    unload(&l);
}

/* Fails the n-th allocation for n = 1, 2, ... until everything works. */
static void tuning_without_memory_is_an_error_that_leaks_nothing(void **state)
{
    (void)state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    write_section(NULL);
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        loaded l;
        hyp_diag diag = {0};
        hyp_tensor x = {.dtype = HYP_F32, .rank = 2, .dims = {ROWS, WIDTH}};
        load(&l, path);
        hyp_mem_fail_after(n);
        status = hyp_context_tune(l.context, &x, 1, NULL, NULL, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        unload(&l);
    }
}

/* ---- plans --------------------------------------------------------------------------------------------------- */

static void a_saved_plan_runs_its_kernels_and_compiles_nothing(void **state)
{
    (void)state;
    loaded l, other;
    hyp_diag diag = {0};
    char library[4096];
    write_tuned();
    int compiled = count_of("emulator_compiled");
    snprintf(library, sizeof library, "%s", getenv("HYPATIA_NVRTC"));
    setenv("HYPATIA_NVRTC", "/nowhere/libnvrtc.so", 1);
    load(&l, path);
    other.engine = l.engine;
    assert_int_equal(hyp_context_create(l.engine, NULL, &other.context, &diag), HYP_OK);
    assert_non_null(strstr(l.log, "products tuned for this device: 2"));
    assert_int_equal(run(&l, ROWS), 3);
    assert_int_equal(run(&other, ROWS), 3);
    assert_int_equal(run(&l, ROWS + 1), 0);
    hyp_tune_report report = tune(&l, "", ROWS);
    assert_true(report.known == 2 && report.products == 2 && !*report.no_kernels);
    assert_int_equal(count_of("emulator_modules"), 2); /* contexts share them */
    assert_int_equal(count_of("emulator_compiled"), compiled);
    setenv("HYPATIA_NVRTC", library, 1);
    hyp_context_destroy(other.context);
    unload(&l);
}

static void what_was_found_can_be_carried_to_another_context(void **state)
{
    (void)state;
    loaded from, to;
    hyp_diag diag = {0};
    write_section(NULL);
    load(&from, path);
    load(&to, path);
    tune(&from, "", ROWS);
    for (size_t i = 0; i < 2; i++) {
        hyp_tuned tuned = hyp_context_tuned(from.context, i);
        assert_int_equal(hyp_context_add_tuned(to.context, &tuned, &diag), HYP_OK);
    }
    assert_int_equal(run(&to, ROWS), 3);
    unload(&from);
    assert_int_equal(run(&to, ROWS), 3);
    hyp_tuned large = {
        .size = sizeof large, .product = "pointwise", .algorithm = builder.dims, .algorithm_bytes = (1 << 20) + 1};
    assert_int_equal(hyp_context_add_tuned(to.context, &large, &diag), HYP_ERR_INVALID_ARGUMENT);
    unload(&to);
}

/* Changes the plan's device section by `change`. */
static void change_section(void (*change)(HypPlan__Device *))
{
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(path, NULL, &plan, &diag), HYP_OK);
    HypPlan__Device *device = (HypPlan__Device *)(uintptr_t)plan.device;
    change(device);
    if (hyp_plan_write_device(path, &plan, device, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_plan_close(&plan);
}

static void cut_kernels(HypPlan__Device *d)
{
    for (size_t i = 0; i < d->n_products; i++) d->products[i]->algorithm.len -= 200;
}
static void change_machine(HypPlan__Device *d)
{
    for (size_t i = 0; i < d->n_products; i++) d->products[i]->algorithm.data[18] ^= 0xff; /* e_machine */
}
static void change_pieces(HypPlan__Device *d)
{
    for (size_t i = 0; i < d->n_products; i++) d->products[i]->epilogue = 1000;
}
static void change_device(HypPlan__Device *d) { d->name[0] = 'E'; }

static void kernels_that_cannot_be_used_are_not_and_the_log_says_so(void **state)
{
    (void)state;
    static const struct {
        void (*change)(HypPlan__Device *);
        const char *says;
    } cases[] = {
        {cut_kernels, "generated kernels of the plan that are not used: 2: a generated kernel of "},
        {change_machine, "generated kernels of the plan that are not used: 2: loading a generated kernel failed"},
        {change_pieces, "products tuned for this device: 2"},
        {change_device, "pointwise steps by kernels for any sizes"},
    };
    loaded l;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_tuned();
        change_section(cases[i].change);
        load(&l, path);
        assert_non_null(strstr(l.log, cases[i].says));
        assert_int_equal(run(&l, ROWS), 0);
        unload(&l);
    }
}

static void a_damaged_kernel_that_is_added_is_not_used_and_the_log_says_so(void **state)
{
    (void)state;
    loaded l;
    hyp_diag diag = {0};
    write_tuned();
    load(&l, path);
    for (size_t i = 0; i < 2; i++) {
        hyp_tuned tuned = hyp_context_tuned(l.context, i);
        tuned.algorithm_bytes = i == 0 ? 100 : tuned.algorithm_bytes - 200;
        assert_int_equal(hyp_context_add_tuned(l.context, &tuned, &diag), HYP_OK);
    }
    assert_int_equal(run(&l, ROWS), 0);
    assert_non_null(strstr(l.log, "a pointwise step is interpreted: a generated kernel of 100 bytes is damaged"));
    unload(&l);
}

static void loading_without_memory_is_an_error_that_leaks_nothing(void **state)
{
    (void)state;
    hyp_status status = HYP_ERR_NO_MEMORY;
    write_tuned();
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    for (uint64_t n = 1; status != HYP_OK; n++) {
        assert_true(n < 10000);
        float in[WIDTH] = {0}, got[WIDTH];
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
        hyp_tensor y = {.data = got, .bytes = sizeof got, .dtype = HYP_F32};
        hyp_engine *engine = NULL;
        hyp_context *context = NULL;
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        status = hyp_engine_load_file(path, &options, &engine, &diag);
        if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &diag);
        if (status == HYP_OK) status = hyp_context_run(context, &x, 1, &y, 1, &diag);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_faster_kernel_is_kept_and_shared_by_equal_steps),
        cmocka_unit_test(a_slower_kernel_is_not_kept_and_not_compiled_again),
        cmocka_unit_test(a_wrong_kernel_is_not_kept),
        cmocka_unit_test(without_a_compiler_the_rest_is_tuned_and_the_reason_said),
        cmocka_unit_test(a_saved_plan_runs_its_kernels_and_compiles_nothing),
        cmocka_unit_test(what_was_found_can_be_carried_to_another_context),
        cmocka_unit_test(kernels_that_cannot_be_used_are_not_and_the_log_says_so),
        cmocka_unit_test(a_damaged_kernel_that_is_added_is_not_used_and_the_log_says_so),
        cmocka_unit_test(tuning_without_memory_is_an_error_that_leaks_nothing),
        cmocka_unit_test(loading_without_memory_is_an_error_that_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
