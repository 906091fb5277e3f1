/* hyp_plan_export_c without memory, and with arguments that are none; tests/tools/test_export_c.py tells what it writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "hypatia/compiler.h"

#define MODEL HYP_SOURCE_DIR "/examples/digits/digits.onnx"

static char plan[64], text[64];

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"batch"};
    static const int64_t values[] = {2};
    const hyp_compile_options o = {.size = sizeof o, .dim_names = names, .dim_values = values, .dim_count = 1};
    snprintf(plan, sizeof plan, "test_export_c.%ld.bin", (long)getpid());
    snprintf(text, sizeof text, "test_export_c.%ld.c", (long)getpid());
    return hyp_compile_file(MODEL, plan, &o, NULL, NULL) == HYP_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(plan);
    unlink(text);
    return 0;
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    hyp_status status;
    uint64_t n = 0;
    do {
        unlink(text);
        hyp_mem_fail_after(++n);
        status = hyp_plan_export_c(plan, "model", text, NULL);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_int_equal(access(text, F_OK) == 0, status == HYP_OK);
    } while (status != HYP_OK);
    assert_true(n > 10);
}

static void arguments_are_looked_at(void **state)
{
    (void)state;
    assert_int_equal(hyp_plan_export_c(NULL, "model", text, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, NULL, text, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, "model", NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, "model", plan, NULL), HYP_ERR_INVALID_ARGUMENT);
    static const char *const names[] = {"", "1a", "a b", "a-b", "a(", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(hyp_plan_export_c(plan, names[i], text, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, "_a1", "no/such/folder.c", NULL), HYP_ERR_IO);
    assert_int_equal(hyp_plan_export_c(MODEL, "a", text, NULL), HYP_ERR_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(arguments_are_looked_at),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
