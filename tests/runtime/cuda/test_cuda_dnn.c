/* Convolutions with and without cuDNN: which library does what, and what is said when it is missing or fails. Runs on
 * the emulator, which ends the program when device memory is not freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/plan_builder.h"

enum { SIDE = 4, CHANNELS = 2, ELEMENTS = CHANNELS * SIDE * SIDE };

static plan_builder builder; /* large */
static char path[PB_PATH], said[2048];

/* y = relu(conv(x, w) + b) in `groups` groups of x[1, CHANNELS, SIDE, SIDE], all w 1 and all b -3. */
static void write_plan(int64_t groups, int64_t behind)
{
    const float w[CHANNELS * CHANNELS * 9] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const float b[CHANNELS] = {-3, -3};
    const int64_t dims[] = {1, CHANNELS, SIDE, SIDE}, out[] = {1, CHANNELS, SIDE - 1 + behind, SIDE - 1 + behind};
    const int64_t channels = CHANNELS;
    pb_init(&builder);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, pb_consts(&builder, 4, dims));
    uint32_t y = pb_output(&builder, "y", HYP_F32, 4, pb_consts(&builder, 4, out));
    uint32_t weight = pb_weight(&builder, HYP_F32, 4, (int64_t[]){CHANNELS, CHANNELS / groups, 3, 3}, w);
    uint32_t bias = pb_weight(&builder, HYP_F32, 1, &channels, b);
    HypPlan__Call *call = pb_call(&builder, "conv", 3, (uint32_t[]){x, weight, bias}, y);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, call, 4, (int64_t[]){1, 1, behind, behind});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, groups);
    pb_call_symbol(&builder, call, "relu");
    pb_write(&builder, path);
}

static void remember(const char *line, void *user)
{
    (void)user;
    strncat(said, line, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

static hyp_status load(const char *emulator, hyp_engine **out, hyp_diag *diag)
{
    assert_int_equal(setenv("HYPATIA_EMULATOR", emulator, 1), 0);
    said[0] = 0;
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .log = remember};
    return hyp_engine_load_file(path, &options, out, diag);
}

/* A counter of the emulator. */
static uint64_t count(const char *name)
{
    uint64_t (*counter)(void) = NULL;
    assert_true(emulator_function(name, &counter));
    return counter();
}

/* Runs the plan twice with x = 1, so that the second run is a CUDA graph. */
static hyp_status run(hyp_engine *engine, size_t elements, float *y, hyp_diag *diag)
{
    float x[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) x[i] = 1;
    const int64_t side = elements == ELEMENTS ? SIDE : SIDE - 1;
    hyp_tensor in = {.dtype = HYP_F32, .rank = 4, .dims = {1, CHANNELS, SIDE, SIDE}, .data = x, .bytes = sizeof x};
    hyp_tensor out = {.dtype = HYP_F32, .rank = 4, .dims = {1, CHANNELS, side, side}, .data = y};
    out.bytes = elements * sizeof *y;
    hyp_context *context;
    hyp_status status = hyp_context_create(engine, NULL, &context, diag);
    for (int i = 0; i < 2 && status == HYP_OK; i++) status = hyp_context_run(context, &in, 1, &out, 1, diag);
    hyp_context_destroy(context);
    return status;
}

/* Loads and runs the plan; returns how many convolutions cuDNN did. */
static uint64_t convolutions(const char *emulator, int64_t groups, int64_t behind)
{
    hyp_engine *engine;
    hyp_diag diag = {0};
    float y[ELEMENTS];
    size_t side = (size_t)(SIDE - 1 + behind);
    uint64_t before = count("emulator_convolutions");
    write_plan(groups, behind);
    if (load(emulator, &engine, &diag) != HYP_OK || run(engine, CHANNELS * side * side, y, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    hyp_engine_destroy(engine);
    pb_remove(&builder, path);
    float corner = 4.0f * CHANNELS / (float)groups - 3, inside = 9.0f * CHANNELS / (float)groups - 3;
    assert_true(y[0] == corner && y[side + 1] == inside);
    assert_int_equal(count("emulator_dnn_alive"), 0);
    return count("emulator_convolutions") - before;
}

static void cudnn_does_convolutions_with_bias_and_relu_in_one_call(void **state)
{
    (void)state;
    uint64_t before = count("emulator_fused_convolutions");
    assert_int_equal(convolutions("", 1, 1), 2);
    assert_int_equal(count("emulator_fused_convolutions") - before, 2);
    assert_non_null(strstr(said, "convolutions are done by cuDNN 90100"));
}

static void unequal_padding_is_written_out_for_cudnn(void **state)
{
    (void)state;
    assert_int_equal(convolutions("", 1, 0), 2);
}

static void single_channels_are_for_our_own_kernel(void **state)
{
    (void)state;
    assert_int_equal(convolutions("", CHANNELS, 1), 0);
}

static void a_cudnn_without_such_a_call_does_them_in_parts(void **state)
{
    (void)state;
    uint64_t before = count("emulator_fused_convolutions");
    assert_int_equal(convolutions("unfused convolutions", 1, 1), 2);
    assert_int_equal(count("emulator_fused_convolutions") - before, 0);
}

static void sums_in_any_order_are_not_taken(void **state)
{
    (void)state;
    assert_int_equal(convolutions("moody convolutions", 1, 1), 0);
}

static hyp_tensor tensor_of(const char *name, const int64_t dims[4], float *data)
{
    hyp_tensor t = {.name = name, .dtype = HYP_F32, .rank = 4, .data = data};
    memcpy(t.dims, dims, 4 * sizeof *dims);
    t.bytes = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * sizeof *data;
    return t;
}

/* dx and dw of a convolution with all x, w and g 1, twice; returns how many gradients cuDNN made. */
static uint64_t gradients(const char *emulator, hyp_status want, hyp_diag *diag)
{
    enum { WEIGHTS = CHANNELS * CHANNELS * 9 };
    const int64_t dims[] = {1, CHANNELS, SIDE, SIDE}, filter[] = {CHANNELS, CHANNELS, 3, 3};
    float ones[WEIGHTS], dx[ELEMENTS] = {0}, dw[WEIGHTS] = {0};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) ones[i] = 1;
    pb_init(&builder);
    uint32_t *of_x = pb_consts(&builder, 4, dims), *of_w = pb_consts(&builder, 4, filter);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, of_x), w = pb_input(&builder, "w", HYP_F32, 4, of_w);
    const uint32_t outputs[] = {pb_output(&builder, "dx", HYP_F32, 4, of_x), pb_output(&builder, "dw", HYP_F32, 4, of_w)};
    for (int i = 0; i < 2; i++) {
        HypPlan__Call *call = pb_call(&builder, i ? "conv-backward-weights" : "conv-transpose", 2,
                                      (uint32_t[]){x, i ? x : w}, outputs[i]);
        pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
        pb_call_ints(&builder, call, 4, (int64_t[]){1, 1, 1, 1});
        pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
        pb_call_int(&builder, call, 1);
        pb_call_ints(&builder, call, 2, i ? (int64_t[]){3, 3} : (int64_t[]){0, 0});
    }
    pb_write(&builder, path);
    const hyp_tensor in[] = {tensor_of("x", dims, ones), tensor_of("w", filter, ones)};
    hyp_tensor out[] = {tensor_of("dx", dims, dx), tensor_of("dw", filter, dw)};
    hyp_engine *engine;
    hyp_context *context;
    uint64_t before = count("emulator_gradients");
    if (load(emulator, &engine, diag) != HYP_OK) fail_msg("%s", diag->message);
    hyp_status status = hyp_context_create(engine, NULL, &context, diag);
    for (int i = 0; i < 2 && status == HYP_OK; i++) status = hyp_context_run(context, in, 2, out, 2, diag);
    assert_int_equal(status, want);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_remove(&builder, path);
    assert_int_equal(count("emulator_dnn_alive"), 0);
    if (status == HYP_OK) {
        assert_true(dx[0] == 4 * CHANNELS && dx[SIDE + 1] == 9 * CHANNELS);
        assert_true(dw[0] == (SIDE - 1) * (SIDE - 1) && dw[4] == SIDE * SIDE);
    }
    return count("emulator_gradients") - before;
}

static void cudnn_does_gradients_whose_sums_are_in_one_order(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    assert_int_equal(gradients("", HYP_OK, &diag), 4);
    assert_int_equal(gradients("moody convolutions", HYP_OK, &diag), 0);
    assert_int_equal(gradients("failing convolutions", HYP_ERR_DEVICE, &diag), 0);
    assert_non_null(strstr(diag.message, "cudnnConvolutionBackward"));
}

static void a_call_that_fails_is_an_error_that_names_it(void **state)
{
    (void)state;
    hyp_engine *engine;
    hyp_diag diag = {0};
    float y[ELEMENTS];
    write_plan(1, 1);
    assert_int_equal(load("failing convolutions", &engine, &diag), HYP_OK);
    assert_int_equal(run(engine, ELEMENTS, y, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "cudnnConvolutionForward failed: cuDNN status 5000"));
    hyp_engine_destroy(engine);
    pb_remove(&builder, path);
    assert_int_equal(count("emulator_dnn_alive"), 0);
}

/* Windows that are rows of a product, all but their middle in the padding: of 8 channels of 1 by weights of 1. Tunes, runs, and
 * returns how many convolutions cuDNN does in a run; `way` is what tuning found. */
static uint64_t tuned_convolutions(const char *emulator, const char *way)
{
    enum { IMAGES = 2, C = 8 };
    float w[C * C * 9], x[IMAGES * C], y[IMAGES * C];
    for (int i = 0; i < C * C * 9; i++) w[i] = 1;
    for (int i = 0; i < IMAGES * C; i++) x[i] = 1;
    const int64_t dims[] = {IMAGES, C, 1, 1};
    pb_init(&builder);
    uint32_t in = pb_input(&builder, "x", HYP_F32, 4, pb_consts(&builder, 4, dims));
    uint32_t out = pb_output(&builder, "y", HYP_F32, 4, pb_consts(&builder, 4, dims));
    uint32_t weight = pb_weight(&builder, HYP_F32, 4, (int64_t[]){C, C, 3, 3}, w);
    HypPlan__Call *call = pb_call(&builder, "conv", 2, (uint32_t[]){in, weight}, out);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, call, 4, (int64_t[]){1, 1, 1, 1});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, 1);
    pb_call_symbol(&builder, call, "none");
    pb_write(&builder, path);
    hyp_engine *engine;
    hyp_context *context;
    hyp_diag diag = {0};
    hyp_tune_report report = {.size = sizeof report};
    hyp_tensor from = {.dtype = HYP_F32, .rank = 4, .dims = {IMAGES, C, 1, 1}, .data = x, .bytes = sizeof x}, to = from;
    to.data = y;
    assert_int_equal(load(emulator, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    if (hyp_context_tune(context, &from, 1, NULL, &report, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_true(report.products == 6 && report.timed == 6); /* windows, tiles of both sizes and orders, choice */
    hyp_tuned choice = hyp_context_tuned(context, 0);
    assert_string_equal(choice.product, "conv f32 2: 8 1 1 by 8 8 3 3 strides 1 1 dilations 1 1 pads 1 1 1 1 groups 1 act 20 last nynn");
    assert_string_equal(choice.attributes, way);
    assert_true(report.seconds == choice.seconds && report.first_seconds == choice.first_seconds);
    assert_string_equal(hyp_context_tuned(context, 4).product, "f32 tn 8x2x72 ld 72 72 8 align 256");
    uint64_t before = count("emulator_convolutions");
    if (hyp_context_run(context, &from, 1, &to, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (int i = 0; i < IMAGES * C; i++) assert_true(y[i] == C);
    assert_int_equal(hyp_context_step_tuning(context, 0), HYP_STEP_TUNED);
    assert_int_equal(hyp_context_choice_count(context, 0), 1);
    hyp_choice_info info = hyp_context_choice(context, 0, 0);
    assert_true(info.by == HYP_CHOICE_TUNED && info.seconds == choice.seconds);
    assert_string_equal(hyp_context_alternative(context, 0, 0, info.taken).name, way);
    uint64_t runs = count("emulator_convolutions") - before;
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_remove(&builder, path);
    assert_int_equal(count("emulator_dnn_alive"), 0);
    return runs;
}

static void convolutions_run_in_the_way_that_was_measured_to_be_fastest(void **state)
{
    (void)state;
    assert_int_equal(tuned_convolutions("", "cudnn"), 1);
    assert_int_equal(tuned_convolutions("slow convolutions", "plain"), 0); /* a launch less than the product of windows */
}

/* Runs `test` with HYPATIA_CUDNN set otherwise. */
static void with_cudnn(const char *value, void (*test)(void))
{
    const char *was = getenv("HYPATIA_CUDNN");
    assert_non_null(was);
    char *kept = strdup(was);
    setenv("HYPATIA_CUDNN", value, 1);
    test();
    setenv("HYPATIA_CUDNN", kept, 1);
    free(kept);
}

static void load_without(void)
{
    hyp_engine *engine;
    hyp_diag diag = {0};
    write_plan(1, 1);
    assert_int_equal(load("", &engine, &diag), HYP_ERR_DEVICE);
    assert_non_null(strstr(diag.message, "HYPATIA_CUDNN"));
    assert_non_null(strstr(diag.message, "/nonexistent/libcudnn.so.9"));
    pb_remove(&builder, path);
}

static void a_cudnn_that_is_not_where_it_was_said_to_be_is_an_error(void **state)
{
    (void)state;
    with_cudnn("/nonexistent/libcudnn.so.9", load_without);
}

static void run_without(void)
{
    assert_int_equal(convolutions("", 1, 1), 0);
    assert_non_null(strstr(said, "convolutions are done without cuDNN"));
    assert_non_null(strstr(said, "HYPATIA_CUDNN"));
}

static void without_cudnn_our_own_kernel_does_them_and_the_log_says_so(void **state)
{
    (void)state;
    with_cudnn("none", run_without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_does_convolutions_with_bias_and_relu_in_one_call),
        cmocka_unit_test(unequal_padding_is_written_out_for_cudnn),
        cmocka_unit_test(single_channels_are_for_our_own_kernel),
        cmocka_unit_test(a_cudnn_without_such_a_call_does_them_in_parts),
        cmocka_unit_test(sums_in_any_order_are_not_taken),
        cmocka_unit_test(cudnn_does_gradients_whose_sums_are_in_one_order),
        cmocka_unit_test(convolutions_run_in_the_way_that_was_measured_to_be_fastest),
        cmocka_unit_test(a_call_that_fails_is_an_error_that_names_it),
        cmocka_unit_test(a_cudnn_that_is_not_where_it_was_said_to_be_is_an_error),
        cmocka_unit_test(without_cudnn_our_own_kernel_does_them_and_the_log_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
