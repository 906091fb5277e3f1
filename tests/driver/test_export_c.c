/* hyp_plan_export_c without memory, and with arguments that are none; tests/tools/test_export_c.py tells what it writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "c99/library.h"
#include "c99/writer.h"
#include "hypatia/compiler.h"

#define MODEL HYP_SOURCE_DIR "/examples/digits/digits.onnx"

static char plan[64], text[64], header[64], weights[64];

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"batch"};
    static const int64_t values[] = {2};
    const hyp_compile_options o = {.size = sizeof o, .dim_names = names, .dim_values = values, .dim_count = 1};
    snprintf(plan, sizeof plan, "/tmp/hyp_test_export_c_%ld.bin", (long)getpid());
    snprintf(text, sizeof text, "/tmp/hyp_test_export_c_%ld.c", (long)getpid());
    snprintf(header, sizeof header, "/tmp/hyp_test_export_c_%ld.h", (long)getpid());
    snprintf(weights, sizeof weights, "/tmp/hyp_test_export_c_%ld.weights", (long)getpid());
    return hyp_compile_file(MODEL, plan, &o, NULL, NULL) == HYP_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(plan);
    unlink(text);
    unlink(header);
    unlink(weights);
    return 0;
}

static hyp_export_c_options named(const char *name)
{
    return (hyp_export_c_options){.size = sizeof(hyp_export_c_options), .name = name};
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    hyp_export_c_options o = named(NULL);
    o.header_path = header;
    o.weights_path = weights;
    hyp_status status;
    uint64_t n = 0;
    do {
        unlink(text);
        unlink(header);
        unlink(weights);
        hyp_mem_fail_after(++n);
        status = hyp_plan_export_c(plan, text, &o, NULL);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_int_equal(access(text, F_OK) == 0, status == HYP_OK);
        if (status != HYP_OK) continue;
        assert_int_equal(access(header, F_OK), 0);
        assert_int_equal(access(weights, F_OK), 0);
    } while (status != HYP_OK);
    assert_true(n > 10);
}

static void arguments_are_looked_at(void **state)
{
    (void)state;
    unlink(text);
    assert_int_equal(hyp_plan_export_c(NULL, text, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, NULL, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_plan_export_c(plan, plan, NULL, NULL), HYP_ERR_INVALID_ARGUMENT);
    static const char *const names[] = {"", "1a", "a b", "a-b", "a(", "\xc3\xa4", "while"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const hyp_export_c_options o = named(names[i]);
        assert_int_equal(hyp_plan_export_c(plan, text, &o, NULL), HYP_ERR_INVALID_ARGUMENT);
    }
    hyp_export_c_options o = named("_a1");
    assert_int_equal(hyp_plan_export_c(plan, "no/such/folder.c", &o, NULL), HYP_ERR_IO);
    o.weights_path = plan;
    assert_int_equal(hyp_plan_export_c(plan, text, &o, NULL), HYP_ERR_INVALID_ARGUMENT);
    o.weights_path = text;
    assert_int_equal(hyp_plan_export_c(plan, text, &o, NULL), HYP_ERR_INVALID_ARGUMENT);
    o.weights_path = "no/such/folder.bin";
    assert_int_equal(hyp_plan_export_c(plan, text, &o, NULL), HYP_ERR_IO);
    assert_int_not_equal(access(text, F_OK), 0);
    assert_int_equal(hyp_plan_export_c(MODEL, text, NULL, NULL), HYP_ERR_MALFORMED);
    o.size = 1;
    assert_int_equal(hyp_plan_export_c(plan, text, &o, NULL), HYP_ERR_INVALID_ARGUMENT);
}

static void the_writer_has_room_for_the_library(void **state)
{
    (void)state;
    assert_in_range(hyp_c99_library_count, 1, HYP_C99_LIBRARY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(arguments_are_looked_at),
        cmocka_unit_test(the_writer_has_room_for_the_library),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
