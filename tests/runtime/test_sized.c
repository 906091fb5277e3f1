/* Structs of programs that were built with the headers of an older or a newer release. */
#include <stdio.h>
#include <string.h>

#include "runtime/support.h"

#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }

static plan_builder b;

/* y[2, 2] = x[2, 3] w^T on the device that needs nothing. */
static hyp_engine *load(void)
{
    pb_init(&b);
    uint32_t two = pb_const(&b, 2), three = pb_const(&b, 3);
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){two, three});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){two, two});
    HypPlan__Linear *s = pb_linear(&b, x, y, two);
    pb_layer(&b, s, 2, 3, pb_weight(&b, HYP_F32, 2, DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6}), PB_NONE,
             HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    b.steps[0].label = (char *)(uintptr_t) "linear";
    hyp_engine *engine = pb_load(&b, HYP_DEVICE_REFERENCE);
    pb_dispose(&b);
    return engine;
}

/* Options with room behind them, as a newer program has. */
typedef struct newer {
    hyp_context_options options;
    uint64_t more[4];
} newer;

static void options_of_any_release_are_read(void **state)
{
    (void)state;
    hyp_engine *engine = load();
    hyp_context *c = NULL;
    hyp_diag why = {0};
    newer n = {.options = {.size = sizeof n, .work_limit = 1e9}};
    assert_ok(hyp_context_create(engine, &n.options, &c, diag));
    hyp_context_destroy(c);
    c = NULL;

    n.more[2] = 1; /* asks for what this library does not know */
    assert_int_equal(hyp_context_create(engine, &n.options, &c, &why), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.message, "hyp_context_options"));
    const size_t no_sizes[] = {0, sizeof(size_t) - 1, (size_t)1 << 40};
    for (size_t i = 0; i < 3; i++) {
        n.options.size = no_sizes[i];
        assert_int_equal(hyp_context_create(engine, &n.options, &c, &why), HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(why.message, "sizeof(hyp_context_options)"));
    }
    assert_null(c);

    /* An older program ends before the limit of work; what lies behind is not its. */
    hyp_context_options old = {.size = offsetof(hyp_context_options, work_limit), .work_limit = -1};
    assert_ok(hyp_context_create(engine, &old, &c, diag));
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

static void what_is_filled_in_fits_any_release(void **state)
{
    (void)state;
    hyp_engine *engine = load();
    hyp_context *c;
    assert_ok(hyp_context_create(engine, NULL, &c, diag));
    struct {
        hyp_step_info info;
        unsigned char more[16];
    } step;
    memset(&step, 0xAA, sizeof step);
    step.info.size = offsetof(hyp_step_info, kernel); /* an older program */
    assert_true(hyp_engine_read_step(engine, 0, &step.info));
    assert_string_equal(step.info.label, "linear");
    assert_int_equal(step.info.size, offsetof(hyp_step_info, kernel));
    const unsigned char *bytes = (const unsigned char *)&step;
    for (size_t i = step.info.size; i < sizeof step; i++) assert_int_equal(bytes[i], 0xAA);
    step.info.size = sizeof step; /* a newer one */
    assert_true(hyp_engine_read_step(engine, 0, &step.info));
    assert_string_equal(step.info.kernel, "linear");
    for (size_t i = 0; i < sizeof step.more; i++) assert_int_equal(step.more[i], 0);
    assert_false(hyp_engine_read_step(engine, 1, &step.info));
    assert_null(step.info.label);
    step.info.size = 0;
    assert_false(hyp_engine_read_step(engine, 0, &step.info));
    assert_false(hyp_engine_read_step(engine, 0, NULL));

    hyp_step_work_info none = {.size = 0};
    hyp_diag why = {0};
    assert_int_equal(hyp_context_step_work(c, 0, &none, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "sizeof(hyp_step_work_info)"));
    assert_int_equal(hyp_engine_input(engine, 0)->size, sizeof(hyp_io_info));
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

/* What a later release may give a meaning is refused by one that knows of none. */
static void reserved_room_of_tensors_is_empty(void **state)
{
    (void)state;
    hyp_engine *engine = load();
    hyp_context *c;
    float x[6] = {1, 1, 1, 0, 0, 1}, y[4];
    hyp_diag why = {0};
    assert_ok(hyp_context_create(engine, NULL, &c, diag));
    hyp_tensor in = tensor_of("x", HYP_F32, x, 2, DIMS(2, 3)),
               out = {.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32};
    assert_ok(hyp_context_run(c, &in, 1, &out, 1, diag));
    assert_true(y[0] == 6 && y[1] == 15 && y[2] == 3 && y[3] == 6);
    in.reserved = 1;
    assert_int_equal(hyp_context_run(c, &in, 1, &out, 1, &why), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.message, "reserved"));
    in.reserved = 0, out.reserved = 1;
    assert_int_equal(hyp_context_run(c, &in, 1, &out, 1, &why), HYP_ERR_UNSUPPORTED);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

static void versions_compare(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", HYP_VERSION_MAJOR, HYP_VERSION_MINOR, HYP_VERSION_PATCH);
    assert_string_equal(HYP_VERSION, text);
    assert_string_equal(hyp_version(), text);
    assert_true(HYP_VERSION_NUMBER >= HYP_VERSION_OF(0, 1, 0) && HYP_VERSION_NUMBER < HYP_VERSION_OF(1000, 0, 0));
    assert_true(HYP_VERSION_OF(0, 10, 0) > HYP_VERSION_OF(0, 9, 999) &&
                HYP_VERSION_OF(1, 0, 0) > HYP_VERSION_OF(0, 999, 999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_any_release_are_read),
        cmocka_unit_test(what_is_filled_in_fits_any_release),
        cmocka_unit_test(reserved_room_of_tensors_is_empty),
        cmocka_unit_test(versions_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
